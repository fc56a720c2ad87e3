/*
 * What stands behind `struct cluster_snapshot`: immutable once published, shared by
 * reference counts. Topics are counted objects of their own, so that a change of one
 * topic copies an array of pointers and that topic, not the others.
 *
 *     struct snapshot *next = snapshot_copy(base);       // mutable until published
 *     snapshot_put_topic(next, topic);
 *     ... publish; from here on it is const ...
 *     snapshot_unref(base);
 *
 * A published snapshot: any thread. Before that: its one owner.
 */
#ifndef TOPICFS_SNAPSHOT_H
#define TOPICFS_SNAPSHOT_H

#include "coord/cluster_state.h"
#include "coord/deposals.h"

#include <stdatomic.h>

enum admin_operation { ADMIN_PREFER, ADMIN_REASSIGN, ADMIN_DELETE, ADMIN_OPERATIONS };

struct snapshot_topic {
    struct topic topic; /* first: what others see; points into the rest */
    atomic_uint references;
    struct assignment assignment;
    struct partition_state
        *states; /* by partition; epoch -1: not stored, or malformed */
    struct partition_info *infos;
    cJSON *overrides; /* NULL: none */
    int64_t assignment_revision;
    int64_t config_revision;
    int64_t attributes_revision;
};

struct tombstone {
    struct topic_id id;
    int64_t deleted_ms;
};

struct snapshot {
    struct cluster_snapshot shown; /* first */
    atomic_uint references;
    const struct topic **topics; /* = shown.topics; each is a snapshot_topic */
    const struct topic **by_id;  /* the same, sorted by id */
    uint32_t topics_allocated;
    struct broker_info *brokers;        /* = shown.brokers */
    struct registration *registrations; /* parallel to brokers */
    int64_t controller_revision;        /* create revision of the key; 0: none */
    int64_t controller_epoch_revision;  /* mod revision */
    int64_t topics_attributes_revision; /* likewise; 0: absent */
    struct tombstone *tombstones;
    uint32_t tombstone_count;
    const struct deposals *deposals;             /* a reference; NULL: never any */
    int64_t deposals_revision;                   /* mod revision; 0: absent */
    char *running[ADMIN_OPERATIONS];             /* NULL: not running, or malformed */
    int64_t running_revisions[ADMIN_OPERATIONS]; /* mod revisions; 0: absent */
    char *last[ADMIN_OPERATIONS];                /* NULL: never */
};

/* With one reference; NULL: no memory. */
struct snapshot *snapshot_new(void);
struct snapshot *snapshot_copy(const struct snapshot *base);
void snapshot_unref(const struct snapshot *snapshot); /* accepts NULL */

/* Takes a reference to `topic`; replaces the one of that name. 0 or -ENOMEM. */
int snapshot_put_topic(struct snapshot *snapshot, struct snapshot_topic *topic);
void snapshot_remove_topic(struct snapshot *snapshot, const char *name);

const struct snapshot_topic *snapshot_topic_get(const struct snapshot *snapshot,
                                                const char *name);
static inline const struct snapshot_topic *snapshot_topic_at(const struct snapshot *s,
                                                             uint32_t index)
{
    return (const struct snapshot_topic *)s->topics[index];
}

/* Replace the live brokers (sorted by id) or the tombstones, copied. 0 or -ENOMEM. */
int snapshot_set_brokers(struct snapshot *snapshot, const struct broker_info *brokers,
                         const struct registration *registrations, uint32_t count);
int snapshot_set_tombstones(struct snapshot *snapshot,
                            const struct tombstone *tombstones, uint32_t count);
int snapshot_set_text(char **slot, const char *text); /* text NULL: none */

/* "preferred_replica_election", "reassign_partitions", "delete_topics". */
const char *admin_operation_name(enum admin_operation operation);
int admin_operation_find(const char *name); /* the operation, or -ENOENT */

/* A topic object, zeroed, with one reference; freed with what it owns. */
struct snapshot_topic *snapshot_topic_new(void);
void snapshot_topic_unref(struct snapshot_topic *topic); /* accepts NULL */

#endif
