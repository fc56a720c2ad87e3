/*
 * What the parts of group_core share: its state, and the steps that more than one of
 * them takes. Private to replica/group_core*.c.
 *
 *     group_core_members.c   who belongs to it and who has what
 *     group_core_offsets.c   what is committed
 *     group_core_tick.c      what time and the cluster change
 *     group_core_load.c      from records to the state, and back
 *     group_core_describe.c  what is shown
 *
 * Invariants: members are sorted by id, topics by id; a partition's owner is a member
 * of its topic; a topic is there as long as it has members or offsets.
 */
#ifndef TOPICFS_GROUP_CORE_INTERNAL_H
#define TOPICFS_GROUP_CORE_INTERNAL_H

#include "replica/group_assign.h"
#include "replica/group_core.h"
#include "replica/group_record.h"

struct core_topic;

struct core_member {
    char id[GROUP_MEMBER_ID_MAX + 1];
    struct broker_incarnation node;
    int64_t joined_ms; /* wall */
    int64_t heard_ms;  /* monotonic */
    struct core_topic *topic;
    int32_t index; /* among the members of its topic */
};

struct core_partition {
    struct core_member *owner; /* NULL: free */
    int64_t generation;        /* of the grant */
    int64_t offset;            /* -1: none is committed */
    int64_t timestamp_ms;      /* of the commit */
    int32_t leader_epoch;
};

struct core_topic {
    char name[TOPIC_NAME_MAX + 1];
    struct topic_id id;
    struct core_partition *partitions;
    int32_t count; /* of partitions that were heard of */
    int32_t members;
    int64_t left_ms; /* wall: without members since; -1: not known, or has some */
};

struct group_core {
    char name[GROUP_NAME_MAX + 1];
    struct group_config defaults;
    struct group_config config;
    int64_t version; /* of the config; 0: nobody set it */
    int64_t generation;
    uint64_t changes;
    struct core_member **members;
    size_t member_count;
    struct core_topic **topics;
    size_t topic_count;
};

/* ---- looking up: NULL if there is none ---- */

struct core_member *core_member_find(const struct group_core *core, const char *id);
struct core_topic *core_topic_find(const struct group_core *core,
                                   const struct topic_id *id);

/* ---- changing the state alone; nothing is recorded ---- */

/* Finds or makes it. NULL: no memory. */
struct core_topic *core_topic_add(struct group_core *core, const char *name,
                                  const struct topic_id *id);
/* At least `count` partitions. 0 or -ENOMEM. */
int core_topic_grow(struct core_topic *topic, int32_t count);
bool core_topic_has_offsets(const struct core_topic *topic);
/* Frees those without members and offsets. */
void core_topics_sweep(struct group_core *core);

/* There is none of that id. NULL: no memory. */
struct core_member *core_member_add(struct group_core *core, const char *id,
                                    struct core_topic *topic);
/* Its partitions become free. */
void core_member_remove(struct group_core *core, struct core_member *member);
void core_members_clear(struct group_core *core);

/* ---- steps of a decision ---- */

/* It spoke then. */
void core_member_heard(struct core_member *member, int64_t at_ms);
/* Who should have what changed: a new generation. */
void core_new_generation(struct group_core *core);
/* Gives what is free to who should have it. */
void core_settle(struct group_core *core);
/* Whether the member has it, but another should. */
bool core_gives_up(const struct core_member *member, int32_t partition);
/* The topic has so many partitions. 1 if that is news to its members: a new generation,
 * to be settled and recorded; else 0; -ENOMEM. */
int core_topic_follow(struct group_core *core, struct core_topic *topic, int32_t count);
/* Removes a member and says since when its topic has none. */
void core_member_drop(struct group_core *core, const struct group_env *env,
                      struct core_member *member);
/* Whether the snapshot shows that this incarnation of the node is gone. */
bool core_node_gone(const struct cluster_snapshot *snapshot,
                    const struct broker_incarnation *node);

/* ---- records: 0 or -ENOMEM ---- */

/* The group as it now is; gone if it isn't used any more. */
int core_record_group(struct group_core *core, struct buf *records);
int core_record_offset(const struct group_core *core, const struct core_topic *topic,
                       int32_t partition, struct buf *records);

#endif
