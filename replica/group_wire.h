/*
 * What nodes say to each other about groups: JSON, on POST /replica/groups and
 * POST /replica/locate, for nodes of this cluster alone (peer_access.h). A node that
 * coordinates the group itself takes the same objects without HTTP
 * (group_coordinator_submit()).
 *
 * A request to the coordinator of one shard (partition of __consumer_offsets):
 *
 *     {"version":1,"cluster":"prod","node":2,"epoch":17,"shard":5,"wait_ms":0,"ops":[
 *       {"op":"join","group":"g","member":"2-17-1","topic":"t","topic_id":"<32 hex>"},
 *       {"op":"leave","group":"g","member":"2-17-1"},
 *       {"op":"commit","group":"g","member":"2-17-1","commits":
 *           [{"partition":0,"generation":7,"offset":43,"leader_epoch":5}]},
 *       {"op":"describe","group":"g"},
 *       {"op":"list"},
 *       {"op":"set_offset","group":"g","topic":"t","topic_id":"..","partition":0,
 *           "offset":43,"leader_epoch":5},
 *       {"op":"configure","group":"g","config":{"commit":"manual"}},
 *       {"op":"remove","group":"g"}]}
 *
 * or, with wait_ms, beats alone: answered as soon as one of them has an answer other
 * than what the member has seen, or after wait_ms:
 *
 *       {"op":"beat","group":"g","member":"2-17-1","seen":0,
 *        "released":[{"partition":1,"generation":6}]}
 *
 * with the "changes" of the last answer, or 0, as "seen".
 *
 * The answer has one entry for each op, in order:
 *
 *     {"version":1,"error":0,"why":"","answers":[
 *       {"error":0},                                        join, leave
 *       {"error":0,"refused":[false]},                      commit
 *       {"error":0,"changes":12,"commit":"auto","session_timeout_ms":10000,
 *        "max_poll_interval_ms":300000,"start":"earliest","grants":
 *           [{"partition":0,"generation":7,"give_up":false,"committed":43,
 *             "leader_epoch":5}]},                          beat
 *       {"error":0,"group":{...}},                          describe
 *       {"error":0,"groups":["a","b"]},                     list
 *       {"error":-1035,"why":"..."}]}                       any refusal
 *
 * `error` is a code of coord/err.h or a negative errno. For the whole:
 * E_NOT_COORDINATOR (ask whom the snapshot names now; nothing was done, or what was
 * done is unknown: all ops may be sent again), E_NEWER_FORMAT, -EBADMSG.
 *
 * To the leader of partitions, to find places in their logs:
 *
 *     {"version":1,"cluster":"prod","node":2,"epoch":17,"places":[
 *       {"topic_id":"..","partition":0,"kind":"latest","value":0}]}
 *     {"version":1,"error":0,"places":[
 *       {"error":0,"offset":43,"leader_epoch":5,"log_start":0,"high_watermark":99}]}
 *
 * 64-bit numbers pass through json_int64 helpers (coord/json.h). A decoder takes any
 * bytes; unknown keys are passed over.
 */
#ifndef TOPICFS_GROUP_WIRE_H
#define TOPICFS_GROUP_WIRE_H

#include "replica/group_core.h"
#include "replica/groups.h"
#include "replica/peer_wire.h"

enum { GROUP_WIRE_VERSION = 1, GROUP_WIRE_MAX = 64 << 20 };

#define GROUPS_TOPIC "__consumer_offsets"

/* The shard of a group: murmur2 of its name, as keyed lines find their partition. */
int32_t group_wire_shard(const char *group, int32_t shards);

/*
 * As json_parse(), up to GROUP_WIRE_MAX bytes, and as an object of this version: 0;
 * E_NEWER_FORMAT; -EBADMSG; -ENOMEM. The caller frees *out with cJSON_Delete().
 */
int group_wire_parse(const char *bytes, size_t length, cJSON **out);
/* The other way, without white space. 0 or -ENOMEM. */
int group_wire_print(const cJSON *object, struct buf *out);

/* ---- requests -----------------------------------------------------------------------
 *
 * What makes objects answers NULL, and what adds to them -ENOMEM, for want of memory
 * alone. What reads them takes any object; its pointers are borrowed from it. -EBADMSG:
 * malformed, nothing was set.
 */

/* With no ops; their array is "ops". */
cJSON *group_wire_request(const struct peer_sender *from, int32_t shard,
                          int64_t wait_ms);
/* {"op":..,"group":..} appended to the request's ops, and borrowed from it; `group`
 * NULL: none. */
cJSON *group_wire_add_op(cJSON *request, const char *op, const char *group);
int group_wire_add_topic(cJSON *op, const char *topic, const struct topic_id *topic_id);
int group_wire_add_commits(cJSON *op, const struct group_commit *commits, size_t count);
int group_wire_add_released(cJSON *op, const struct group_released *released,
                            size_t count);

struct group_wire_head {
    struct peer_sender from;
    int32_t shard;
    int64_t wait_ms;
    const cJSON *ops; /* an array of objects */
    size_t count;
};
int group_wire_get_request(const cJSON *object, struct group_wire_head *out);

enum group_op_kind {
    GROUP_OP_JOIN,
    GROUP_OP_LEAVE,
    GROUP_OP_BEAT,
    GROUP_OP_COMMIT,
    GROUP_OP_DESCRIBE,
    GROUP_OP_LIST,
    GROUP_OP_SET_OFFSET,
    GROUP_OP_CONFIGURE,
    GROUP_OP_REMOVE,
};
/* What is not of the kind is zero. */
struct group_op {
    enum group_op_kind kind;
    const char *group;  /* checked by topic_name_check() */
    const char *member; /* 1 to GROUP_MEMBER_ID_MAX bytes */
    const char *topic;
    struct topic_id topic_id;
    int32_t partition;
    int64_t offset;
    int32_t leader_epoch;
    uint64_t seen;
    const cJSON *config;
    struct group_commit *commits; /* owned, as the following */
    struct group_released *released;
    size_t count; /* of either */
};
/* Of an op, or -EBADMSG. */
int group_wire_get_kind(const cJSON *object);
/* 0; -EBADMSG; -ENOMEM. */
int group_wire_get_op(const cJSON *object, struct group_op *out);
void group_wire_free_op(struct group_op *op);

/* ---- answers ------------------------------------------------------------------------
 */

/* Of the whole; with no answers: their array is "answers". `why` NULL: "". */
cJSON *group_wire_answer(int error, const char *why);
/* To one op, appended to the answers and borrowed; "why" only if given and not "". */
cJSON *group_wire_add_answer(cJSON *answer, int error, const char *why);
int group_wire_add_refused(cJSON *answer, const bool *refused, size_t count);

/* What a beat is answered. */
struct group_wire_beat {
    uint64_t changes;
    struct group_config config; /* but offsets_retention_ms */
    struct group_grant *grants; /* owned by who got it */
    size_t count;
};
int group_wire_add_beat(cJSON *answer, const struct group_wire_beat *beat);
/* The caller frees out->grants. */
int group_wire_get_beat(const cJSON *answer, struct group_wire_beat *out);

/* The code of the whole or of one answer; *why is borrowed, never NULL. -EBADMSG where
 * there is none. */
int group_wire_get_error(const cJSON *object, int *error, const char **why);
/* The answer to each op: an array of `count` objects, borrowed; NULL where it is
 * not. */
const cJSON *group_wire_get_answers(const cJSON *object, size_t count);
int group_wire_get_refused(const cJSON *answer, bool *refused, size_t count);

/* ---- places -------------------------------------------------------------------------
 */

struct group_place {
    struct topic_id topic_id;
    int32_t partition;
    enum groups_place_kind kind;
    int64_t value;
};
struct group_found {
    int error;
    int64_t offset;
    int32_t leader_epoch;
    int64_t log_start;
    int64_t high_watermark;
};

cJSON *group_wire_locate(const struct peer_sender *from);
int group_wire_add_place(cJSON *request, const struct group_place *place);
/* *places: the array, of `count` entries. */
int group_wire_get_locate(const cJSON *object, struct peer_sender *from,
                          const cJSON **places, size_t *count);
int group_wire_get_place(const cJSON *object, struct group_place *out);

cJSON *group_wire_located(int error, const char *why); /* with no places */
int group_wire_add_found(cJSON *answer, const struct group_found *found);
/* NULL where there are not `count` of them. */
const cJSON *group_wire_get_places(const cJSON *answer, size_t count);
int group_wire_get_found(const cJSON *object, struct group_found *out);

#endif
