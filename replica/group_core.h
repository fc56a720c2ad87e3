/*
 * What a coordinator decides about one consumer group: who is a member, who reads which
 * partition, what is committed. Pure: events in, answers and records out; no I/O, no
 * clock, no threads. The coordinator (group_coordinator.h) runs it, and so does the
 * simulator.
 *
 *     core = group_core_new("workers", &defaults);
 *     group_core_replay(core, line, length);            // what the log says
 *     group_core_loaded(core, now_ms);
 *     rc = group_core_join(core, &env, &join, &records);
 *     ... append `records` to the group's partition of __consumer_offsets; once that is
 *         committed, answer. If it can't be: throw the core away and load again ...
 *
 * Rules. A member subscribes to one topic. Each partition of a topic is given to one of
 * the members subscribed to it (group_assign.h). What a member *has* follows what it
 * *should have* one step at a time, as in KIP-848:
 *
 *     free -> granted to who should have it, with the present generation
 *     had by m, and m should have it   -> stays; m goes on without noticing
 *     had by m, but another should     -> m is asked to give it up; it finishes what is
 *                                         in hand, commits, releases -> free
 *     m left, fell silent, or its node is dead -> free
 *
 * The generation rises with every change of members or partitions; each grant carries
 * the one it was made in. A commit counts only from the member that has the partition,
 * with the generation of its grant: what a member does that lost it without noticing is
 * refused (E_GROUP_FENCED). Generations go on over a change of coordinators, because
 * they are in the records.
 *
 * Grants and memberships are in the records, so that a new coordinator knows who had
 * what, and members go on reading through its failover.
 *
 * Nothing that a call decided may be told to anybody before its records are committed:
 * that, and the log's own fencing of old leaders, is what keeps two coordinators from
 * granting one partition twice.
 *
 * One owner. After Kafka's group coordinator (KIP-848); the range assignment is that of
 * its RangeAssignor.
 */
#ifndef TOPICFS_GROUP_CORE_H
#define TOPICFS_GROUP_CORE_H

#include "coord/coord.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GROUP_NAME_MAX = TOPIC_NAME_MAX,
    GROUP_MEMBER_ID_MAX = 64,
    GROUP_MEMBERS_MAX = 1000, /* of one group; its record has to fit one line */
};

struct group_core;

/* What a decision may look at besides the group. */
struct group_env {
    int64_t now_ms;                          /* monotonic: who was heard when */
    int64_t wall_ms;                         /* goes into records */
    const struct cluster_snapshot *snapshot; /* partition counts, who is alive */
};

/* `defaults` is copied: the settings that a group begins with, and what null restores.
 * NULL: no memory. */
struct group_core *group_core_new(const char *name,
                                  const struct group_config *defaults);
void group_core_free(struct group_core *core); /* accepts NULL */

/* ---- loading ------------------------------------------------------------------------
 */

/* One line of the log, without its newline, in order. Lines of other groups are passed
 * over. group_record.h tells which group a line is of. 0; -EBADMSG: malformed, nothing
 * was taken of it; -ENOMEM. */
int group_core_replay(struct group_core *core, const char *line, size_t length);
/* Everything was replayed; every member counts as heard now. group_core_tick() comes
 * next. */
void group_core_loaded(struct group_core *core, int64_t now_ms);

/* ---- events: records are appended to `records` as lines with newlines, and counted by
 * their newlines. 0, or the code of a refusal; -ENOMEM leaves a core that must be
 * thrown away.
 * ------------------------------------------------------------------------------
 */

struct group_join {
    /* Unique for ever: the node makes it, of the characters of topic names and ':'. */
    char member[GROUP_MEMBER_ID_MAX + 1];
    struct broker_incarnation node; /* on which it reads */
    char topic[TOPIC_NAME_MAX + 1];
    struct topic_id topic_id;
};

/*
 * Again with the same member: 0, nothing changes but that it was heard.
 * E_TOPIC_DELETED: the snapshot has no such topic (a node whose own snapshot has it
 * asks again: this one is behind). E_STALE_BROKER_EPOCH: the node's registration is
 * over. -EUSERS: the group has GROUP_MEMBERS_MAX members. -EINVAL: the id is malformed,
 * or a member for another topic has it.
 */
int group_core_join(struct group_core *core, const struct group_env *env,
                    const struct group_join *join, struct buf *records);

/* Unknown members leave, too: 0. */
int group_core_leave(struct group_core *core, const struct group_env *env,
                     const char *member, struct buf *records);

/* A partition in a member's hand. */
struct group_grant {
    int32_t partition;
    int64_t generation; /* of the grant */
    bool give_up;       /* finish what is in hand, commit, release */
    /* Where to begin; -1: nothing is committed, the group's `start` says where. */
    int64_t committed;
    int32_t leader_epoch; /* of the message before `committed`; -1: not known */
};

struct group_released {
    int32_t partition;
    int64_t generation;
};

/*
 * A member was heard, at env->now_ms: when its beat came, of one that was parked. It
 * has finished with what `released` names. *grants is everything that it has from now
 * on, sorted by partition (the caller frees it). What it held and is not in there, or
 * with another generation, is lost to it: it stops at once. E_GROUP_MEMBER_UNKNOWN: it
 * was removed and has nothing; it may join again, by another name.
 */
int group_core_beat(struct group_core *core, const struct group_env *env,
                    const char *member, const struct group_released *released,
                    size_t released_count, struct buf *records,
                    struct group_grant **grants, size_t *count);

/* Rises whenever what group_core_beat() would answer to some member changes: parked
 * beats are looked at again then. */
uint64_t group_core_changes(const struct group_core *core);

struct group_commit {
    int32_t partition;
    int64_t generation; /* of the grant */
    int64_t offset;     /* of the next message to be read */
    int32_t leader_epoch;
};

/*
 * Commits for the topic of `member`. One that goes back, by leader epoch and then by
 * offset, is passed over: a member goes forward, so that is a late repetition of what
 * was committed before. (After an election that lost messages, lower offsets have a
 * higher epoch.) Without leader epoch, -1, the offset alone counts. 0 if all were taken
 * or passed over; E_GROUP_MEMBER_UNKNOWN; E_GROUP_FENCED: of one of them it is not the
 * owner (the others are taken, `refused[i]` tells which).
 */
int group_core_commit(struct group_core *core, const struct group_env *env,
                      const char *member, const struct group_commit *commits,
                      size_t count, bool *refused, struct buf *records);

/*
 * A user sets an offset (-1: forgets it, so that `start` counts again). The offset was
 * resolved and checked before. With commit=auto: E_GROUP_BUSY while the topic has
 * members. With commit=manual that is how to commit: allowed for who is on the node
 * that has the partition, and where nobody has it; else E_GROUP_BUSY. E_TOPIC_DELETED
 * as for a join; -EINVAL: there is no such partition.
 */
struct group_offset_set {
    char topic[TOPIC_NAME_MAX + 1];
    struct topic_id topic_id;
    int32_t partition;
    int64_t offset;
    int32_t leader_epoch;
    int32_t node; /* where it was written */
};
int group_core_set_offset(struct group_core *core, const struct group_env *env,
                          const struct group_offset_set *set, struct buf *records);

/* As settings_apply_json(); takes effect at once. */
int group_core_configure(struct group_core *core, const struct group_env *env,
                         const cJSON *object, struct buf *records, char *why,
                         size_t why_size);

/* Forgets everything. E_GROUP_BUSY while there are members. */
int group_core_remove(struct group_core *core, const struct group_env *env,
                      struct buf *records);

/*
 * Time and the snapshot went on: removes members that were not heard for
 * group_session_timeout_ms, whose node is gone, or whose topic was deleted; gives
 * partitions that were added to a topic; drops the offsets of deleted topics, and those
 * without members for offsets_retention_ms. *next_ms: when to call it again at the
 * latest (monotonic; INT64_MAX: not because of time).
 *
 * A node is gone when the snapshot shows another incarnation of it, or none although it
 * is newer than the registration that the member spoke of.
 */
int group_core_tick(struct group_core *core, const struct group_env *env,
                    struct buf *records, int64_t *next_ms);

/* ---- asking -------------------------------------------------------------------------
 */

const char *group_core_name(const struct group_core *core);
const struct group_config *group_core_config(const struct group_core *core);
/* It has members, offsets or settings: it is listed. */
bool group_core_is_used(const struct group_core *core);
size_t group_core_members(const struct group_core *core);

/*
 * {"group":"workers","generation":7,"version":3,"config":{...},
 *  "members":[{"id":"1-17-3","node":1,"topic":"t","topic_id":"..","partitions":[0,1],
 *              "joined":1764417600000}],
 *  "offsets":[{"topic":"t","topic_id":"..","partition":0,"offset":43,"leader_epoch":5,
 *              "timestamp":1764417600000}]}
 * sorted; NULL: no memory.
 */
cJSON *group_core_describe(const struct group_core *core);

#endif
