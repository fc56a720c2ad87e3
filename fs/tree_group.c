#include "fs/tree_internal.h"

#include <stdio.h>
#include <string.h>

static const char tree_preview_suffix[] = ".preview";

static const struct tree_name tree_group_names[] = {
    {"config.json", TREE_GROUP_CONFIG, true},
    {"members", TREE_GROUP_MEMBERS, true},
    {"lag", TREE_GROUP_LAG, true},
    {"read", TREE_GROUP_READ_DIR, true},
    {"json", TREE_GROUP_JSON_DIR, true},
    {"offsets", TREE_GROUP_OFFSETS_DIR, true},
    {NULL, TREE_ROOT, false},
};

bool tree_is_group_stream(enum tree_kind kind)
{
    return kind == TREE_GROUP_READ || kind == TREE_GROUP_JSON;
}

bool tree_is_group_text(enum tree_kind kind)
{
    return kind == TREE_GROUP_CONFIG || kind == TREE_GROUP_MEMBERS ||
           kind == TREE_GROUP_LAG || kind == TREE_GROUP_OFFSET ||
           kind == TREE_GROUP_PREVIEW;
}

bool tree_is_group_listing(enum tree_kind kind)
{
    return kind == TREE_GROUPS || kind == TREE_GROUP_OFFSETS_DIR;
}

static int tree_group_place(const char *name, struct tree_place *out)
{
    if (topic_name_check(name) < 0)
        return -ENOENT;
    out->kind = TREE_GROUP;
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    return 0;
}

static int tree_group_topic_place(const struct tree *tree, enum tree_kind kind,
                                  const char *name, struct tree_place *out)
{
    int rc = tree_topic_place(tree, name, out);
    if (rc == 0)
        out->kind = kind;
    return rc;
}

/* "3" or "3.preview" */
static int tree_offset_place(const struct tree *tree, const char *name,
                             struct tree_place *out)
{
    char number[16];
    enum tree_kind kind = TREE_GROUP_OFFSET;
    const char *dot = strchrnul(name, '.');
    if (*dot != '\0') {
        if (strcmp(dot, tree_preview_suffix) != 0)
            return -ENOENT;
        kind = TREE_GROUP_PREVIEW;
    }
    if ((size_t)(dot - name) >= sizeof number)
        return -ENOENT;
    (void)snprintf(number, sizeof number, "%.*s", (int)(dot - name), name);
    int rc = tree_partition_place(tree, number, out);
    if (rc == 0)
        out->kind = kind;
    return rc;
}

int tree_group_child(const struct tree *tree, const char *name, struct tree_place *out)
{
    const struct tree_name *found;
    switch (out->kind) {
    case TREE_GROUPS:
        return tree_group_place(name, out);
    case TREE_GROUP:
        found = tree_name_find(tree_group_names, name);
        if (found == NULL)
            return -ENOENT;
        out->kind = found->kind;
        return 0;
    case TREE_GROUP_READ_DIR:
        return tree_group_topic_place(tree, TREE_GROUP_READ, name, out);
    case TREE_GROUP_JSON_DIR:
        return tree_group_topic_place(tree, TREE_GROUP_JSON, name, out);
    case TREE_GROUP_OFFSETS_DIR:
        return tree_group_topic_place(tree, TREE_GROUP_TOPIC, name, out);
    case TREE_GROUP_TOPIC:
        return tree_offset_place(tree, name, out);
    default:
        return -ENOTDIR;
    }
}

void tree_group_parent(struct tree_place *place)
{
    switch (place->kind) {
    case TREE_GROUPS:
        place->kind = TREE_ROOT;
        break;
    case TREE_GROUP:
        place->kind = TREE_GROUPS;
        place->name[0] = '\0';
        break;
    case TREE_GROUP_READ:
        place->kind = TREE_GROUP_READ_DIR;
        break;
    case TREE_GROUP_JSON:
        place->kind = TREE_GROUP_JSON_DIR;
        break;
    case TREE_GROUP_TOPIC:
        place->kind = TREE_GROUP_OFFSETS_DIR;
        break;
    case TREE_GROUP_OFFSET:
    case TREE_GROUP_PREVIEW:
        place->kind = TREE_GROUP_TOPIC;
        break;
    default:
        place->kind = TREE_GROUP;
        break;
    }
}

int tree_group_list(const struct tree *tree, const struct tree_place *place,
                    tree_list_fn *fn, void *arg)
{
    switch (place->kind) {
    case TREE_GROUP:
        return tree_list_names(place, tree_group_names, fn, arg);
    case TREE_GROUP_TOPIC:
        return tree_list_partitions(tree, place, TREE_GROUP_OFFSET, fn, arg);
    default:
        return tree_is_dir(place->kind) ? 0 : -ENOTDIR;
    }
}
