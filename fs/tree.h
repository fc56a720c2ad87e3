/*
 * The tree that the mount shows: which names exist below a directory, what each of them
 * is, and the attributes that follow from that. No FUSE, no open files, no node ids;
 * all from the cluster's present snapshot, never waiting. Any thread.
 *
 *     struct tree tree = {.cluster = cluster, .uid = getuid(), ...};
 *     struct tree_place place = {.kind = TREE_ROOT}, child;
 *     rc = tree_child(&tree, &place, "topics", &child);
 *     rc = tree_attr(&tree, &child, &stat);
 *     rc = tree_list(&tree, &child, fn, arg);
 *
 * Owner, group and permissions, m being the mode of the topic's directory:
 *
 *     /, cluster/ and what is in it     the mount's owner   0555, files 0444
 *     cluster/admin/, files written     the mount's owner   0755, 0644
 *     topics/                           its own             its own
 *     topics/<t>/                       the topic's         m
 *     topics/<t>/config.json            the topic's         m & 0666
 *     topics/<t>/append                 the topic's         m & 0222
 *     topics/<t>/<p>/, at/, follow/,    the topic's         m & 0555
 *       json/, segments/
 *     topics/<t>/<p>/log                the topic's         m & 0666
 *     topics/<t>/<p>/state, views,      the topic's         m & 0444
 *       streams, segments
 *     groups/, <g>/ and what is in it   topics/'s           its own; 0555, files 0444,
 *                                                           config.json 0666, by it
 *     read/<t>, json/<t>                the topic's         m & 0444
 *     offsets/<t>/                      the topic's         m & 0555
 *     offsets/<t>/<p>, <p>.preview      the topic's         m & 0444, and w for who has
 *                                                           r: reading moves it, too
 *
 * A directory that nobody can put anything in has no write bit, so that a user without
 * rights over the topic gets EACCES and its owner EPERM, as for an append-only file.
 */
#ifndef TOPICFS_TREE_H
#define TOPICFS_TREE_H

#include "fs/where.h"

#include "coord/coord.h"

#include <sys/stat.h>

enum tree_kind {
    TREE_ROOT,
    TREE_TOPICS,
    TREE_TOPIC,
    TREE_CONFIG,
    TREE_APPEND,
    TREE_PARTITION,
    TREE_LOG,
    TREE_STATE,
    TREE_AT_DIR,
    TREE_FOLLOW_DIR,
    TREE_JSON_DIR,
    TREE_SEGMENTS_DIR,
    TREE_AT,
    TREE_FOLLOW,
    TREE_JSON,
    TREE_SEGMENT,
    TREE_GROUPS,
    TREE_GROUP,
    TREE_GROUP_CONFIG,
    TREE_GROUP_MEMBERS,
    TREE_GROUP_LAG,
    TREE_GROUP_READ_DIR,
    TREE_GROUP_JSON_DIR,
    TREE_GROUP_OFFSETS_DIR,
    TREE_GROUP_READ, /* of a topic, as all from here on */
    TREE_GROUP_JSON,
    TREE_GROUP_TOPIC,  /* offsets/<topic>/ */
    TREE_GROUP_OFFSET, /* of a partition, as the next */
    TREE_GROUP_PREVIEW,
    TREE_CLUSTER_DIR,
    TREE_CLUSTER_FILE,
    TREE_ADMIN_FILE,
};

enum { TREE_NAME_MAX = 320 };

/* What a name stands for. A plain value: copy it freely. */
struct tree_place {
    enum tree_kind kind;
    struct topic_id topic_id; /* where tree_is_in_topic() */
    int32_t partition;        /* where tree_is_in_partition() */
    int64_t base_offset;      /* TREE_SEGMENT */
    struct where where;       /* TREE_AT, TREE_FOLLOW, TREE_JSON */
    char topic[TOPIC_NAME_MAX + 1];
    /* The <where> as written; a path below cluster/; the group. */
    char name[TREE_NAME_MAX];
};

struct tree {
    struct cluster *cluster; /* borrowed */
    uid_t uid;               /* owner of what belongs to no topic */
    gid_t gid;
    int64_t mounted_ms; /* wall clock: mtime of what has no other */
};

bool tree_is_dir(enum tree_kind kind);
/* A file that takes JSON: config.json and the admin files. */
bool tree_takes_json(enum tree_kind kind);
/* A file rendered when opened: config.json, state, what is below cluster/. */
bool tree_is_text(enum tree_kind kind);
/* An anchored range of a log: log, at/, follow/, json/. */
bool tree_is_view(enum tree_kind kind);
/* A topic's directory, or something in it, or of it in a group: topic and topic_id are
 * set. */
bool tree_is_in_topic(enum tree_kind kind);
/* Something of one partition. */
bool tree_is_in_partition(enum tree_kind kind);
/* groups/, or something in it. */
static inline bool tree_is_in_groups(enum tree_kind kind)
{
    return kind >= TREE_GROUPS && kind <= TREE_GROUP_PREVIEW;
}
/* A stream of a group: read/<topic>, json/<topic>. */
bool tree_is_group_stream(enum tree_kind kind);
/* A file of a group whose text its coordinator knows: config.json, members, lag,
 * offsets. */
bool tree_is_group_text(enum tree_kind kind);
/* A directory whose entries a group's coordinator knows: groups/, offsets/. */
bool tree_is_group_listing(enum tree_kind kind);
/* How long the kernel may keep a look-up and the attributes, in seconds. */
double tree_entry_timeout(enum tree_kind kind);
double tree_attr_timeout(enum tree_kind kind);

/*
 * Looks `name` up below the directory `parent`. 0; -ENOENT; -EINVAL (a malformed
 * <where>); -ESTALE (the parent's topic was deleted, or made again); -ENAMETOOLONG.
 * Whether a segment exists is for the partition to tell.
 */
int tree_child(const struct tree *tree, const struct tree_place *parent,
               const char *name, struct tree_place *out);
/* Whether the topic that `place` is in is still there, and the same one. */
bool tree_topic_exists(const struct tree *tree, const struct tree_place *place);
/* The directory that holds `place`. */
void tree_parent(const struct tree_place *place, struct tree_place *out);
/* cluster/admin/<name> for a name that is an operation, whether it runs or not; -EPERM.
 */
int tree_admin_place(const struct tree *tree, const struct tree_place *parent,
                     const char *name, struct tree_place *out);

/*
 * Type, permissions, owner, link count, times and inode number; st_size is 0.
 * `generation` goes into the inode number: the count of unclean elections for what
 * shows a log, the version of a segment. 0 or -ESTALE (the topic was deleted, or made
 * again).
 */
int tree_attr(const struct tree *tree, const struct tree_place *place,
              uint64_t generation, struct stat *out);

/* Stable over look-ups and restarts; another one for a topic made again. Never 0 or 1
 * but for the root. */
uint64_t tree_inode(const struct tree_place *place, uint64_t generation);

/*
 * Calls fn for each entry of a directory but "." and ".."; nonzero from fn ends it and
 * is returned. What can be looked up but is not listed: segments/ and all that is in
 * at/, follow/ and json/, so that a recursive search reads each message once; and the
 * streams of groups, so that it joins none. groups/ and a group's offsets/ are for
 * group_open.c, which asks the coordinators. Whoever
 * names segments/ itself has it listed, but by directory.c: which segments there are is
 * for the partition to tell.
 */
typedef int tree_list_fn(void *arg, const char *name, const struct tree_place *place);
int tree_list(const struct tree *tree, const struct tree_place *place, tree_list_fn *fn,
              void *arg);

#endif
