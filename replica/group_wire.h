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
 *       {"op":"beat","group":"g","member":"2-17-1","seen":<changes of the last answer,
 * 0>, "released":[{"partition":1,"generation":6}]}
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
#include "replica/peer_wire.h"

enum { GROUP_WIRE_VERSION = 1, GROUP_WIRE_MAX = 64 << 20 };

#define GROUPS_TOPIC "__consumer_offsets"

/* The shard of a group: murmur2 of its name, as keyed lines find their partition. */
int32_t group_wire_shard(const char *group, int32_t shards);

#endif
