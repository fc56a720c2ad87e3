/*
 * Which nodes fast detection has ended the registration of, lately, and which
 * partitions were to move for it: what limits that cause to one move of a partition in
 * ten seconds, in the whole cluster, whoever reports. A wrong guess (a firewall that
 * refuses, a listener that is gone) so costs one move, not one each time somebody
 * looks.
 *
 * The record is one key of the store, `brokers/deposed`. Each deposal compares its
 * revision and writes it anew in the same transaction, so that nobody decides without
 * having seen the one before:
 *
 *     {"version":1,"deposed":[{"brokerid":2,"epoch":77,"moved":[["<topic id>",0,3]]}]}
 *
 * Clocks of nodes need not agree, so it has no times: each node counts from when it saw
 * an entry first, which is never too early. An entry goes with the first deposal that
 * finds it old.
 *
 *     rc = deposals_decode(text, before, now_ms, &deposals);
 *     if (deposals_rests(deposals, broker, now_ms)) leave it to its session
 *     for each partition that deposal_moves(...): the same if deposals_moved(...)
 *     deposals_encode(&value, deposals, now_ms, &next)
 *
 * A record is immutable once decoded, and counted. Pure; any thread.
 */
#ifndef TOPICFS_DEPOSALS_H
#define TOPICFS_DEPOSALS_H

#include "coord/cluster.h"

#include <stdatomic.h>

enum {
    DEPOSAL_REST_MS = 10000, /* between two moves of a partition for this cause */
    DEPOSALS_VALUE_MAX = 512 * 1024,
};

struct moved_partition {
    struct topic_id topic;
    int32_t partition;
};

struct deposal {
    int32_t broker;
    int64_t broker_epoch;
    int64_t seen_ms; /* first, by this node's monotonic clock */
    struct moved_partition *moved;
    uint32_t moved_count;
};

struct deposals {
    atomic_uint references;
    uint32_t count;
    struct deposal *items;
};

/* 0; E_INVALID_JSON; -ENOMEM. What `before` (may be NULL) has too was seen when it
 * says, the rest now. *out has one reference. */
int deposals_decode(const char *text, const struct deposals *before, int64_t now_ms,
                    struct deposals **out);
const struct deposals *deposals_ref(const struct deposals *deposals); /* NULL is fine */
void deposals_unref(const struct deposals *deposals);                 /* likewise */

/* The next record: `next`, and of `deposals` (may be NULL) what still counts. The
 * buffer's error. */
int deposals_encode(struct buf *out, const struct deposals *deposals, int64_t now_ms,
                    const struct deposal *next);

/* Was the node's registration ended by a deposal less than DEPOSAL_REST_MS ago? */
bool deposals_rests(const struct deposals *deposals, int32_t broker, int64_t now_ms);
/* Was the partition moved by one? */
bool deposals_moved(const struct deposals *deposals, const struct topic_id *topic,
                    int32_t partition, int64_t now_ms);

/*
 * Would the end of the node's registration move the partition? If it leads, and also
 * where nobody who is alive does: then it may have been elected by now.
 */
bool deposal_moves(int32_t broker, int32_t leader, bool leader_alive,
                   const int32_t *replicas, uint32_t replica_count);

#endif
