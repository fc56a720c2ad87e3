/*
 * fsync: waits until everything below an offset is committed and on the disk of every
 * replica that may be in sync. The leader decides that (core_durable_end); where
 * another node leads, it is asked again and again until it says so, or the waiter is
 * cancelled.
 */
#include "replica/partition_internal.h"
#include "replica/partition_replica.h"

#include <utlist.h>

/* [lock] */
static void ask_everybody(struct partition *partition, int64_t offset)
{
    core_sync(&partition->core, offset);
    partition_flush_asked(partition);
}

/* [lock] What was only accepted has been sent; then it is known what to wait for. */
static bool is_sent(const struct partition *partition, struct produce_waiter *waiter)
{
    const struct partition_queued *queued = &partition->queued;
    if (partition_outbox_queues(partition, waiter->first_queued, waiter->last_queued)) {
        return false;
    }
    if (waiter->first_queued && queued->failed >= waiter->first_queued) {
        waiter->result.error = queued->error;
    }
    if (waiter->first_queued && queued->end_offset > waiter->await_offset) {
        waiter->await_offset = queued->end_offset;
    }
    waiter->first_queued = 0;
    return true;
}

bool partition_sync_is_done(struct partition *partition, struct produce_waiter *waiter)
{
    const struct partition_core *core = &partition->core;
    if (!is_sent(partition, waiter)) {
        return false;
    }
    if (core->role == ROLE_LEADER) {
        ask_everybody(partition, waiter->await_offset);
    }
    if (waiter->remote) {
        int outcome =
            core_sync_outcome(core, waiter->leader_epoch, waiter->await_offset);
        waiter->result.error = outcome < 0 ? outcome : 0;
        return outcome != CORE_WAIT;
    }
    return waiter->result.error || waiter->durable || waiter->await_offset == 0 ||
           core_durable_end(core) >= waiter->await_offset;
}

/* [lock] PRODUCE_PENDING: parked; it may have been released already. */
static int begin(struct partition *partition, const struct sync_range *range,
                 struct produce_waiter *waiter, struct produce_result *result,
                 struct released *released)
{
    int rc = 0;
    *released = (struct released){0};
    waiter->acks = ACKS_ALL;
    waiter->write = NULL;
    waiter->durable = false;
    waiter->await_offset = range->end_offset;
    waiter->first_queued = range->first_queued;
    waiter->last_queued = range->last_queued;
    waiter->result =
        (struct produce_result){.error = partition_refusal(partition),
                                .end = {.offset = range->end_offset, .position = -1},
                                .leader_epoch = -1};
    if (!waiter->result.error && !partition_sync_is_done(partition, waiter)) {
        partition_park_produce(partition, waiter, waiter->await_offset);
        waiter->await_flush = true;
        partition_collect(partition, released); /* followers are told what to flush */
        rc = PRODUCE_PENDING;
    }
    *result = waiter->result;
    return rc;
}

int partition_sync(struct partition *partition, const struct sync_range *range,
                   struct produce_waiter *waiter, struct produce_result *result)
{
    struct released released;
    pthread_mutex_lock(&partition->lock);
    waiter->remote = false;
    int rc = begin(partition, range, waiter, result, &released);
    /* Another node is to be asked. */
    released.tell = released.tell || (rc && partition->core.role != ROLE_LEADER);
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
    return rc;
}

void partition_sync_look(struct partition *partition)
{
    struct released released = {0};
    const struct produce_waiter *waiter;
    bool waits = false;
    pthread_mutex_lock(&partition->lock);
    DL_FOREACH(partition->produces, waiter)
    {
        waits = waits || (waiter->await_flush && waiter->first_queued);
    }
    if (waits) {
        partition_collect(partition, &released);
        released.tell = true;
    }
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
}

int partition_sync_remote(struct partition *partition, const struct peer_sync *sync,
                          struct produce_waiter *waiter, struct produce_result *result)
{
    struct released released;
    pthread_mutex_lock(&partition->lock);
    waiter->remote = true;
    waiter->leader_epoch = sync->leader_epoch;
    const struct sync_range range = {.end_offset = sync->end_offset};
    int rc = begin(partition, &range, waiter, result, &released);
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
    return rc;
}

int64_t partition_durable_end(struct partition *partition)
{
    pthread_mutex_lock(&partition->lock);
    int64_t end = core_durable_end(&partition->core);
    pthread_mutex_unlock(&partition->lock);
    return end;
}

/* ---- asking another node ------------------------------------------------------------
 */

/* [lock] The least that is waited for: what is durable beyond it comes with the answer,
 * and what may never be does not hold up the rest. -1: nothing. */
static int64_t least_wanted(const struct partition *partition)
{
    int64_t least = -1;
    const struct produce_waiter *waiter;
    if (partition->core.role == ROLE_LEADER) {
        return -1;
    }
    DL_FOREACH(partition->produces, waiter)
    {
        if (waiter->await_flush && !waiter->remote && !waiter->first_queued &&
            (least < 0 || waiter->await_offset < least)) {
            least = waiter->await_offset;
        }
    }
    return least;
}

bool partition_sync_pending(struct partition *partition)
{
    pthread_mutex_lock(&partition->lock);
    bool pending = least_wanted(partition) >= 0;
    pthread_mutex_unlock(&partition->lock);
    return pending;
}

enum sync_state partition_sync_next(struct partition *partition, struct sync_ask *out)
{
    pthread_mutex_lock(&partition->lock);
    const struct partition_core *core = &partition->core;
    *out = (struct sync_ask){.end_offset = least_wanted(partition),
                             .leader = core->leader,
                             .leader_epoch = core->leader_epoch};
    enum sync_state state = out->end_offset < 0 ? SYNC_NONE
                            : core->leader < 0  ? SYNC_WAIT
                                                : SYNC_SEND;
    pthread_mutex_unlock(&partition->lock);
    return state;
}

bool partition_sync_moved(struct partition *partition, const struct sync_ask *ask)
{
    pthread_mutex_lock(&partition->lock);
    bool moved = partition->core.leader_epoch != ask->leader_epoch ||
                 partition->core.leader != ask->leader;
    pthread_mutex_unlock(&partition->lock);
    return moved;
}

void partition_sync_settle(struct partition *partition, int64_t durable_end)
{
    struct released released;
    struct produce_waiter *waiter;
    pthread_mutex_lock(&partition->lock);
    DL_FOREACH(partition->produces, waiter)
    {
        waiter->durable = waiter->durable || (waiter->await_flush && !waiter->remote &&
                                              waiter->await_offset <= durable_end);
    }
    partition_collect(partition, &released);
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
}
