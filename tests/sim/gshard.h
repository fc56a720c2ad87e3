/*
 * The log of the group's records: a partition of __consumer_offsets, as its leaders
 * see it. Batches are appended in an epoch, and committed in order some time later. An
 * election begins a new epoch: what is committed stays; of the rest some first part
 * stays and is committed with the new epoch, as replicas may have had it. A leader that
 * was deposed can append, but nothing of that is ever committed.
 *
 *     at = gshard_append(shard, epoch, &records, request);   // a position, or -1
 *     ... when gshard's high watermark reaches it: GEVENT_HW at the leader ...
 *     gshard_elect(shard, node);
 *     gshard_load(shard, epoch, core);
 *
 * What is read may have been compacted before, up to any place.
 */
#ifndef TOPICFS_SIM_GSHARD_H
#define TOPICFS_SIM_GSHARD_H

#include "tests/sim/gworld.h"

enum { GKEYS = 1 + GTOPICS * GPARTITIONS_MAX }; /* the group, and its offsets */

/* The records of one request. */
struct gbatch {
    char *bytes;
    size_t length;
    struct grequest request;
    bool by_request; /* else by time */
};

struct gshard {
    struct gworld *world;
    int32_t epoch;
    int32_t leader; /* node; -1: none */
    struct gbatch **batches;
    size_t count; /* with those that are not committed */
    size_t allocated;
    size_t committed;
    int32_t deposed_epoch;  /* the epoch before */
    size_t deposed_at;      /* and where its committed part ended */
    bool deposed_uncertain; /* with something behind that */
};

struct gshard *gshard_new(struct gworld *world);
void gshard_reset(struct gshard *shard);
void gshard_free(struct gshard *shard);

/* The position behind it, which its commit reaches; SIZE_MAX: never. `request` NULL: it
 * comes of a tick. */
size_t gshard_append(struct gshard *shard, int32_t epoch, const struct buf *records,
                     const struct grequest *request);
/* Commits the first `count` batches, if the epoch is still that. */
void gshard_commit(struct gshard *shard, int32_t epoch, size_t count);
/* `node` (-1: nobody) leads from now on. */
void gshard_elect(struct gshard *shard, int32_t node);
/* Replays it into the core. -EAGAIN: something in it is not committed yet. */
int gshard_load(struct gshard *shard, int32_t epoch, struct group_core *core);

#endif
