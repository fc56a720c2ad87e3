#include "fs/directory.h"

#include "fs/lookup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Twenty digits, as in the data directory, so that a shell sorts them right. */
enum { SEGMENT_NAME_SIZE = 21 };

struct directory {
    struct directory_entry *entries;
    size_t count;
    size_t allocated;
    uint64_t generation; /* of the partition's log, for its inode number */
    bool filled;         /* for good, by directory_fill_group() */
};

struct directory *directory_new(void)
{
    return calloc(1, sizeof(struct directory));
}

static void directory_clear(struct directory *directory)
{
    for (size_t i = 0; i < directory->count; i++)
        free(directory->entries[i].name);
    directory->count = 0;
}

void directory_free(struct directory *directory)
{
    directory_clear(directory);
    free(directory->entries);
    free(directory);
}

static int directory_add(void *arg, const char *name, const struct tree_place *place)
{
    struct directory *directory = arg;
    if (directory->count == directory->allocated) {
        size_t size = directory->allocated > 0 ? directory->allocated * 2 : 16;
        struct directory_entry *entries =
            realloc(directory->entries, size * sizeof *entries);
        if (entries == NULL)
            return -ENOMEM;
        directory->entries = entries;
        directory->allocated = size;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return -ENOMEM;
    directory->entries[directory->count++] = (struct directory_entry){
        .name = copy,
        .inode = tree_inode(place, directory->generation),
        .type = tree_is_dir(place->kind) ? S_IFDIR : S_IFREG,
    };
    return 0;
}

/* What is added to a listing of segments/, entry by entry. */
struct directory_segments {
    struct directory *directory;
    struct tree_place place;
};

static int directory_add_segment(void *arg, const struct log_segment_info *info)
{
    struct directory_segments *segments = arg;
    char name[SEGMENT_NAME_SIZE];
    (void)snprintf(name, sizeof name, "%020" PRId64, info->base_offset);
    segments->place.base_offset = info->base_offset;
    segments->directory->generation = info->version;
    return directory_add(segments->directory, name, &segments->place);
}

static int directory_list_segments(struct directory *directory, struct mounted *mounted,
                                   const struct node *node)
{
    struct directory_segments segments = {directory, node->place};
    struct partition *partition = lookup_partition(mounted, &node->place);
    if (partition == NULL)
        return tree_topic_exists(&mounted->tree, &node->place) ? E_OFFLINE
                                                               : E_TOPIC_DELETED;
    segments.place.kind = TREE_SEGMENT;
    int rc = partition_each_segment(partition, directory_add_segment, &segments);
    partition_unref(partition);
    return rc;
}

static int directory_add_dots(struct directory *directory, const struct node *node)
{
    struct tree_place parent;
    directory_clear(directory);
    directory->generation = 0;
    tree_parent(&node->place, &parent);
    int rc = directory_add(directory, ".", &node->place);
    return rc == 0 ? directory_add(directory, "..", &parent) : rc;
}

/* Names that came meanwhile into the way of others, or went, are passed over. */
static int directory_add_child(struct directory *directory, struct mounted *mounted,
                               const struct node *node, const char *name)
{
    struct tree_place place;
    if (name == NULL)
        return -EIO;
    if (tree_child(&mounted->tree, &node->place, name, &place) < 0)
        return 0;
    return directory_add(directory, name, &place);
}

static bool directory_has(const struct directory *directory, const char *name)
{
    for (size_t i = 0; i < directory->count; i++) {
        if (strcmp(directory->entries[i].name, name) == 0)
            return true;
    }
    return false;
}

static int directory_add_topics(struct directory *directory, struct mounted *mounted,
                                const struct node *node, const cJSON *entries)
{
    const cJSON *entry;
    int rc = 0;
    cJSON_ArrayForEach(entry, entries)
    {
        const char *topic =
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "topic"));
        if (rc == 0 && (topic == NULL || !directory_has(directory, topic)))
            rc = directory_add_child(directory, mounted, node, topic);
    }
    return rc;
}

int directory_fill_group(struct directory *directory, struct mounted *mounted,
                         const struct node *node, const cJSON *answer)
{
    const cJSON *name;
    int rc = directory_add_dots(directory, node);
    directory->filled = true;
    if (node->place.kind == TREE_GROUPS) {
        cJSON_ArrayForEach(name, answer)
        {
            if (rc == 0)
                rc = directory_add_child(directory, mounted, node,
                                         cJSON_GetStringValue(name));
        }
        return rc;
    }
    static const char *const keys[] = {"offsets", "members"};
    for (size_t i = 0; rc == 0 && i < sizeof keys / sizeof keys[0]; i++)
        rc = directory_add_topics(directory, mounted, node,
                                  cJSON_GetObjectItemCaseSensitive(answer, keys[i]));
    return rc;
}

bool directory_is_filled(const struct directory *directory)
{
    return directory->filled;
}

int directory_fill(struct directory *directory, struct mounted *mounted,
                   const struct node *node)
{
    int rc = directory_add_dots(directory, node);
    if (rc < 0)
        return rc;
    if (node->place.kind == TREE_SEGMENTS_DIR)
        return directory_list_segments(directory, mounted, node);
    if (node->place.kind == TREE_PARTITION) {
        struct partition_status status = {0};
        struct partition *partition = lookup_partition(mounted, &node->place);
        if (partition != NULL)
            partition_status_get(partition, &status);
        partition_unref(partition);
        directory->generation = status.unclean;
    }
    return tree_list(&mounted->tree, &node->place, directory_add, directory);
}

const struct directory_entry *directory_entry(const struct directory *directory,
                                              size_t index)
{
    return index < directory->count ? &directory->entries[index] : NULL;
}
