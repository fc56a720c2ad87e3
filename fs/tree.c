#include "fs/tree_internal.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct tree_kind_traits {
    mode_t type;
    mode_t mask; /* of the topic's mode, or the mode itself outside topics */
    double entry_timeout;
    double attr_timeout;
};

/* Directories and what is immutable hold for a second, and the notifier invalidates
 * them on change; views are looked up each time. */
static const struct tree_kind_traits tree_traits[] = {
    [TREE_ROOT] = {S_IFDIR, 0555, 1, 1},
    [TREE_TOPICS] = {S_IFDIR, 07777, 1, 1},
    [TREE_TOPIC] = {S_IFDIR, 07777, 1, 1},
    [TREE_CONFIG] = {S_IFREG, 0666, 1, 0},
    [TREE_APPEND] = {S_IFREG, 0222, 0, 1},
    [TREE_PARTITION] = {S_IFDIR, 0555, 1, 1},
    [TREE_LOG] = {S_IFREG, 0666, 0, 0.02},
    [TREE_STATE] = {S_IFREG, 0444, 1, 0},
    [TREE_AT_DIR] = {S_IFDIR, 0555, 1, 1},
    [TREE_FOLLOW_DIR] = {S_IFDIR, 0555, 1, 1},
    [TREE_JSON_DIR] = {S_IFDIR, 0555, 1, 1},
    [TREE_SEGMENTS_DIR] = {S_IFDIR, 0555, 1, 1},
    [TREE_AT] = {S_IFREG, 0444, 0, 0.02},
    [TREE_FOLLOW] = {S_IFREG, 0444, 0, 0.02},
    [TREE_JSON] = {S_IFREG, 0444, 0, 0.02},
    [TREE_SEGMENT] = {S_IFREG, 0444, 1, 1},
    [TREE_GROUPS] = {S_IFDIR, 07777, 1, 1},
    [TREE_GROUP] = {S_IFDIR, 0555, 1, 1},
    [TREE_GROUP_CONFIG] = {S_IFREG, 0666, 1, 1},
    [TREE_GROUP_MEMBERS] = {S_IFREG, 0444, 1, 1},
    [TREE_GROUP_LAG] = {S_IFREG, 0444, 1, 1},
    [TREE_GROUP_READ_DIR] = {S_IFDIR, 0555, 1, 1},
    [TREE_GROUP_JSON_DIR] = {S_IFDIR, 0555, 1, 1},
    [TREE_GROUP_OFFSETS_DIR] = {S_IFDIR, 0555, 1, 1},
    [TREE_GROUP_READ] = {S_IFREG, 0444, 1, 1},
    [TREE_GROUP_JSON] = {S_IFREG, 0444, 1, 1},
    [TREE_GROUP_TOPIC] = {S_IFDIR, 0555, 1, 1},
    [TREE_GROUP_OFFSET] = {S_IFREG, 0444, 1, 1},
    [TREE_GROUP_PREVIEW] = {S_IFREG, 0444, 1, 1},
    [TREE_CLUSTER_DIR] = {S_IFDIR, 0555, 0, 0},
    [TREE_CLUSTER_FILE] = {S_IFREG, 0444, 0, 0},
    [TREE_ADMIN_FILE] = {S_IFREG, 0644, 0, 0},
};

static const struct tree_name tree_root_names[] = {
    {"topics", TREE_TOPICS, true},
    {"groups", TREE_GROUPS, true},
    {"cluster", TREE_CLUSTER_DIR, true},
    {NULL, TREE_ROOT, false},
};
static const struct tree_name tree_topic_names[] = {
    {"config.json", TREE_CONFIG, true},
    {"append", TREE_APPEND, true},
    {NULL, TREE_ROOT, false},
};
static const struct tree_name tree_partition_names[] = {
    {"log", TREE_LOG, true},       {"state", TREE_STATE, true},
    {"at", TREE_AT_DIR, true},     {"follow", TREE_FOLLOW_DIR, true},
    {"json", TREE_JSON_DIR, true}, {"segments", TREE_SEGMENTS_DIR, false},
    {NULL, TREE_ROOT, false},
};

bool tree_is_dir(enum tree_kind kind)
{
    return S_ISDIR(tree_traits[kind].type);
}

bool tree_takes_json(enum tree_kind kind)
{
    return kind == TREE_CONFIG || kind == TREE_ADMIN_FILE || kind == TREE_GROUP_CONFIG;
}

bool tree_is_text(enum tree_kind kind)
{
    return kind == TREE_CONFIG || kind == TREE_STATE || kind == TREE_CLUSTER_FILE ||
           kind == TREE_ADMIN_FILE;
}

bool tree_is_view(enum tree_kind kind)
{
    return kind == TREE_LOG || kind == TREE_AT || kind == TREE_FOLLOW ||
           kind == TREE_JSON;
}

bool tree_is_in_topic(enum tree_kind kind)
{
    return (kind >= TREE_TOPIC && kind <= TREE_SEGMENT) ||
           (kind >= TREE_GROUP_READ && kind <= TREE_GROUP_PREVIEW);
}

bool tree_is_in_partition(enum tree_kind kind)
{
    return (kind >= TREE_PARTITION && kind <= TREE_SEGMENT) ||
           kind == TREE_GROUP_OFFSET || kind == TREE_GROUP_PREVIEW;
}

double tree_entry_timeout(enum tree_kind kind)
{
    return tree_traits[kind].entry_timeout;
}

double tree_attr_timeout(enum tree_kind kind)
{
    return tree_traits[kind].attr_timeout;
}

/* The first offset of a segment: as a number, or as the data directory's file has it.
 */
static int tree_segment_number(const char *name, int64_t *out)
{
    if (strlen(name) == 20) {
        while (name[0] == '0' && name[1] != '\0')
            name++;
    }
    return number_parse(name, INT64_MAX, out);
}

const struct tree_name *tree_name_find(const struct tree_name *names, const char *name)
{
    for (; names->name != NULL; names++) {
        if (strcmp(names->name, name) == 0)
            return names;
    }
    return NULL;
}

const struct topic *tree_topic(const struct cluster_snapshot *snapshot,
                               const struct tree_place *place)
{
    const struct topic *topic = cluster_snapshot_topic(snapshot, place->topic);
    if (topic == NULL || !topic_id_equal(&topic->id, &place->topic_id))
        return NULL;
    return topic;
}

bool tree_topic_exists(const struct tree *tree, const struct tree_place *place)
{
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(tree->cluster);
    bool exists = tree_topic(snapshot, place) != NULL;
    cluster_snapshot_put(snapshot);
    return exists;
}

int tree_topic_place(const struct tree *tree, const char *name, struct tree_place *out)
{
    int rc = -ENOENT;
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(tree->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, name);
    if (topic != NULL) {
        out->kind = TREE_TOPIC;
        out->topic_id = topic->id;
        (void)snprintf(out->topic, sizeof out->topic, "%s", topic->name);
        rc = 0;
    }
    cluster_snapshot_put(snapshot);
    return rc;
}

int tree_partition_place(const struct tree *tree, const char *name,
                         struct tree_place *out)
{
    int64_t number;
    int rc = -ESTALE;
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(tree->cluster);
    const struct topic *topic = tree_topic(snapshot, out);
    if (topic != NULL) {
        rc = -ENOENT;
        if (number_parse(name, INT32_MAX, &number) == 0 &&
            number < topic->partition_count) {
            out->kind = TREE_PARTITION;
            out->partition = (int32_t)number;
            rc = 0;
        }
    }
    cluster_snapshot_put(snapshot);
    return rc;
}

static int tree_where_place(enum tree_kind kind, const char *name,
                            struct tree_place *out)
{
    if (strlen(name) >= sizeof out->name)
        return -EINVAL;
    int rc = where_parse(name, &out->where);
    if (rc < 0)
        return rc;
    out->kind = kind;
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    return 0;
}

/* What the name is, and its path in out->name. */
static int tree_cluster_kind(const struct tree *tree, const struct tree_place *parent,
                             const char *name, struct tree_place *out,
                             enum cluster_node_kind *kind)
{
    int length = snprintf(out->name, sizeof out->name, "%s%s%s", parent->name,
                          parent->name[0] != '\0' ? "/" : "", name);
    if (length < 0 || (size_t)length >= sizeof out->name)
        return -ENOENT;
    return cluster_tree_kind(tree->cluster, out->name, kind);
}

static int tree_cluster_place(const struct tree *tree, const struct tree_place *parent,
                              const char *name, struct tree_place *out)
{
    enum cluster_node_kind kind;
    int rc = tree_cluster_kind(tree, parent, name, out, &kind);
    if (rc < 0)
        return rc;
    /* There only while it runs; what creates it asks tree_admin_place(). */
    if (kind == CLUSTER_ADMIN_FILE && !cluster_admin_running(tree->cluster, name))
        return -ENOENT;
    out->kind = kind == CLUSTER_DIR    ? TREE_CLUSTER_DIR
                : kind == CLUSTER_FILE ? TREE_CLUSTER_FILE
                                       : TREE_ADMIN_FILE;
    return 0;
}

int tree_child(const struct tree *tree, const struct tree_place *parent,
               const char *name, struct tree_place *out)
{
    const struct tree_name *found = NULL;
    *out = *parent;
    if (strlen(name) > NAME_MAX)
        return -ENAMETOOLONG;
    switch (parent->kind) {
    case TREE_ROOT:
        found = tree_name_find(tree_root_names, name);
        break;
    case TREE_TOPICS:
        return tree_topic_place(tree, name, out);
    case TREE_TOPIC:
        found = tree_name_find(tree_topic_names, name);
        if (found == NULL)
            return tree_partition_place(tree, name, out);
        break;
    case TREE_PARTITION:
        found = tree_name_find(tree_partition_names, name);
        break;
    case TREE_AT_DIR:
        return tree_where_place(TREE_AT, name, out);
    case TREE_FOLLOW_DIR:
        return tree_where_place(TREE_FOLLOW, name, out);
    case TREE_JSON_DIR:
        return tree_where_place(TREE_JSON, name, out);
    case TREE_SEGMENTS_DIR:
        out->kind = TREE_SEGMENT;
        return tree_segment_number(name, &out->base_offset) < 0 ? -ENOENT : 0;
    case TREE_CLUSTER_DIR:
        return tree_cluster_place(tree, parent, name, out);
    default:
        return tree_is_in_groups(parent->kind) ? tree_group_child(tree, name, out)
                                               : -ENOTDIR;
    }
    if (found == NULL)
        return -ENOENT;
    out->kind = found->kind;
    return 0;
}

int tree_admin_place(const struct tree *tree, const struct tree_place *parent,
                     const char *name, struct tree_place *out)
{
    enum cluster_node_kind kind;
    *out = *parent;
    if (parent->kind != TREE_CLUSTER_DIR ||
        tree_cluster_kind(tree, parent, name, out, &kind) < 0 ||
        kind != CLUSTER_ADMIN_FILE)
        return -EPERM;
    out->kind = TREE_ADMIN_FILE;
    return 0;
}

void tree_parent(const struct tree_place *place, struct tree_place *out)
{
    *out = *place;
    if (tree_is_in_groups(place->kind)) {
        tree_group_parent(out);
        return;
    }
    switch (place->kind) {
    case TREE_TOPIC:
        out->kind = TREE_TOPICS;
        break;
    case TREE_CONFIG:
    case TREE_APPEND:
    case TREE_PARTITION:
        out->kind = TREE_TOPIC;
        break;
    case TREE_LOG:
    case TREE_STATE:
    case TREE_AT_DIR:
    case TREE_FOLLOW_DIR:
    case TREE_JSON_DIR:
    case TREE_SEGMENTS_DIR:
        out->kind = TREE_PARTITION;
        break;
    case TREE_AT:
        out->kind = TREE_AT_DIR;
        break;
    case TREE_FOLLOW:
        out->kind = TREE_FOLLOW_DIR;
        break;
    case TREE_JSON:
        out->kind = TREE_JSON_DIR;
        break;
    case TREE_SEGMENT:
        out->kind = TREE_SEGMENTS_DIR;
        break;
    case TREE_CLUSTER_DIR:
    case TREE_CLUSTER_FILE:
    case TREE_ADMIN_FILE: {
        char *slash = strrchr(out->name, '/');
        out->kind = out->name[0] == '\0' ? TREE_ROOT : TREE_CLUSTER_DIR;
        if (slash != NULL)
            *slash = '\0';
        else
            out->name[0] = '\0';
        break;
    }
    default:
        out->kind = TREE_ROOT;
        break;
    }
}

/* ---- attributes ------------------------------------------------------------------ */

uint64_t tree_inode(const struct tree_place *place, uint64_t generation)
{
    struct {
        uint64_t generation;
        int64_t base_offset;
        int32_t kind;
        int32_t partition;
        struct topic_id topic_id;
    } fixed;
    if (place->kind == TREE_ROOT)
        return 1;
    memset(&fixed, 0, sizeof fixed);
    fixed.kind = (int32_t)place->kind;
    if (tree_is_in_topic(place->kind)) {
        fixed.topic_id = place->topic_id;
        fixed.generation = generation;
    }
    if (tree_is_in_partition(place->kind))
        fixed.partition = place->partition;
    if (place->kind == TREE_SEGMENT)
        fixed.base_offset = place->base_offset;
    uint64_t hash = XXH3_64bits(&fixed, sizeof fixed);
    if (place->name[0] != '\0')
        hash = XXH3_64bits_withSeed(place->name, strlen(place->name), hash);
    hash >>= 1; /* signed in many a program */
    return hash > 1 ? hash : hash + 2;
}

static struct timespec tree_time(int64_t ms)
{
    return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};
}

/* Owner, group, mode and time; -ESTALE: the topic is gone. */
static int tree_access(const struct cluster_snapshot *snapshot,
                       const struct tree_place *place, struct stat *out)
{
    mode_t mode = tree_traits[place->kind].mask;
    if (tree_is_in_topic(place->kind)) {
        const struct topic *topic = tree_topic(snapshot, place);
        if (topic == NULL)
            return -ESTALE;
        out->st_uid = topic->uid;
        out->st_gid = topic->gid;
        mode &= topic->mode;
        if (place->kind == TREE_GROUP_OFFSET || place->kind == TREE_GROUP_PREVIEW)
            mode |= mode >> 1; /* who may read may say from where */
        out->st_mtim = tree_time(topic->created_ms);
    } else if (place->kind == TREE_TOPICS || tree_is_in_groups(place->kind)) {
        out->st_uid = snapshot->topics_uid;
        out->st_gid = snapshot->topics_gid;
        mode &= snapshot->topics_mode;
    } else if (place->kind == TREE_CLUSTER_DIR && strcmp(place->name, "admin") == 0) {
        mode = 0755;
    }
    out->st_mode = tree_traits[place->kind].type | (mode & 07777);
    return 0;
}

int tree_attr(const struct tree *tree, const struct tree_place *place,
              uint64_t generation, struct stat *out)
{
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(tree->cluster);
    memset(out, 0, sizeof *out);
    out->st_uid = tree->uid;
    out->st_gid = tree->gid;
    out->st_mtim = tree_time(tree->mounted_ms);
    int rc = tree_access(snapshot, place, out);
    cluster_snapshot_put(snapshot);
    /* A link count of 1 on a directory says that it does not count subdirectories. */
    out->st_nlink = 1;
    out->st_ino = tree_inode(place, generation);
    out->st_blksize = S_ISDIR(tree_traits[place->kind].type) ? 4096 : 128 * 1024;
    out->st_ctim = out->st_atim = out->st_mtim;
    return rc;
}

/* ---- listings -------------------------------------------------------------------- */

int tree_list_names(const struct tree_place *parent, const struct tree_name *names,
                    tree_list_fn *fn, void *arg)
{
    struct tree_place place = *parent;
    int rc = 0;
    for (; names->name != NULL && rc == 0; names++) {
        place.kind = names->kind;
        if (names->listed)
            rc = fn(arg, names->name, &place);
    }
    return rc;
}

static int tree_list_topics(const struct tree *tree, const struct tree_place *parent,
                            tree_list_fn *fn, void *arg)
{
    struct tree_place place = *parent;
    int rc = 0;
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(tree->cluster);
    place.kind = TREE_TOPIC;
    for (uint32_t i = 0; i < snapshot->topic_count && rc == 0; i++) {
        const struct topic *topic = snapshot->topics[i];
        if (topic_name_is_internal(topic->name))
            continue; /* by name alone */
        place.topic_id = topic->id;
        (void)snprintf(place.topic, sizeof place.topic, "%s", topic->name);
        rc = fn(arg, topic->name, &place);
    }
    cluster_snapshot_put(snapshot);
    return rc;
}

int tree_list_partitions(const struct tree *tree, const struct tree_place *parent,
                         enum tree_kind kind, tree_list_fn *fn, void *arg)
{
    struct tree_place place = *parent;
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(tree->cluster);
    const struct topic *topic = tree_topic(snapshot, parent);
    int rc = topic != NULL ? 0 : -ESTALE;
    place.kind = kind;
    for (int32_t i = 0; rc == 0 && i < topic->partition_count; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%d", i);
        place.partition = i;
        rc = fn(arg, name, &place);
    }
    cluster_snapshot_put(snapshot);
    return rc;
}

static int tree_list_topic(const struct tree *tree, const struct tree_place *parent,
                           tree_list_fn *fn, void *arg)
{
    int rc = tree_list_names(parent, tree_topic_names, fn, arg);
    return rc != 0 ? rc : tree_list_partitions(tree, parent, TREE_PARTITION, fn, arg);
}

struct tree_cluster_list {
    const struct tree *tree;
    const struct tree_place *parent;
    tree_list_fn *fn;
    void *arg;
};

static int tree_list_cluster_entry(void *arg, const char *name, bool is_dir)
{
    struct tree_cluster_list *list = arg;
    struct tree_place place = *list->parent;
    (void)is_dir; /* the kind tells more */
    if (tree_cluster_place(list->tree, list->parent, name, &place) < 0)
        return 0; /* gone since the listing began */
    return list->fn(list->arg, name, &place);
}

int tree_list(const struct tree *tree, const struct tree_place *place, tree_list_fn *fn,
              void *arg)
{
    if (tree_is_in_topic(place->kind) && !tree_topic_exists(tree, place))
        return -ESTALE;
    switch (place->kind) {
    case TREE_ROOT:
        return tree_list_names(place, tree_root_names, fn, arg);
    case TREE_TOPICS:
        return tree_list_topics(tree, place, fn, arg);
    case TREE_TOPIC:
        return tree_list_topic(tree, place, fn, arg);
    case TREE_PARTITION:
        return tree_list_names(place, tree_partition_names, fn, arg);
    case TREE_CLUSTER_DIR: {
        struct tree_cluster_list list = {tree, place, fn, arg};
        return cluster_tree_list(tree->cluster, place->name, tree_list_cluster_entry,
                                 &list);
    }
    default:
        if (tree_is_in_groups(place->kind))
            return tree_group_list(tree, place, fn, arg);
        return tree_is_dir(place->kind) ? 0 : -ENOTDIR;
    }
}
