/*
 * A replica that can't be used: damaged, or its disk failed. It neither leads nor
 * follows until its log was begun anew and filled from another replica
 * (broker_repair.c says when). Until that has what was committed, readers wait.
 *
 * So they do, for a moment, after a crash of the process: what it had written down of
 * the high watermark is old, and readers would see less than they have seen before.
 */
#include "replica/partition_internal.h"
#include "replica/partition_replica.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

/* The others tell soon where the high watermark is, if they can. */
enum { START_WAIT_MS = 2000 };

/* [lock] Would anybody be left who has what was committed? */
static bool is_needed(const struct partition *partition)
{
    return leadership_is_last(&partition->core.state, partition->core.self);
}

bool partition_is_shared(const struct partition *partition)
{
    return partition->observer && !partition->core.remote &&
           partition->core.replica_count > 1;
}

bool partition_note_unfit(struct partition *partition)
{
    bool found =
        atomic_load(&partition->damaged) || partition->failed || partition->listed;
    bool unfit = found && partition_is_shared(partition) && !is_needed(partition);
    if (unfit && !partition->core.offline) {
        core_set_offline(&partition->core);
    }
    atomic_store(&partition->unfit, unfit);
    return unfit;
}

bool partition_unfit(struct partition *partition)
{
    struct released released;
    pthread_mutex_lock(&partition->lock);
    bool was = atomic_load(&partition->unfit);
    bool unfit = !partition->deleted && partition_note_unfit(partition);
    if (unfit && !was) {
        partition_collect(partition, &released);
    }
    pthread_mutex_unlock(&partition->lock);
    if (unfit && !was) {
        partition_release(partition, &released);
    }
    return unfit;
}

bool partition_may_refill(struct partition *partition, int64_t taken_out_revision)
{
    pthread_mutex_lock(&partition->lock);
    const struct partition_core *core = &partition->core;
    bool may = core->revision >= taken_out_revision && core->state.leader >= 0 &&
               core->state.leader != core->self &&
               !replica_ids_contain(&core->state.isr, core->self) &&
               !replica_ids_contain(&core->state.elr, core->self);
    pthread_mutex_unlock(&partition->lock);
    return may;
}

bool partition_is_in_sync(struct partition *partition)
{
    pthread_mutex_lock(&partition->lock);
    bool in_sync =
        replica_ids_contain(&partition->core.state.isr, partition->core.self);
    pthread_mutex_unlock(&partition->lock);
    return in_sync;
}

bool partition_hides(const struct partition *partition)
{
    return atomic_load(&partition->unfit) || partition_is_filling(partition);
}

void partition_keep_waiting(struct partition *partition)
{
    struct log_place from;
    pthread_mutex_lock(&partition->lock);
    int64_t first = partition_outbox_first(partition);
    pthread_mutex_unlock(&partition->lock);
    char *tail = first >= 0 ? partition_read_tail(partition, first, &from) : NULL;
    if (tail) {
        pthread_mutex_lock(&partition->lock);
        partition_outbox_keep(partition, tail, &from);
        pthread_mutex_unlock(&partition->lock);
    }
    free(tail);
}

void partition_begin_filling(struct partition *partition, const struct topic *promoted)
{
    struct released released;
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    producer_state_clear(partition->producers);
    partition_producer_begin(partition);
    partition->snapshot = bounds.end;
    pthread_mutex_lock(&partition->lock);
    if (promoted) {
        atomic_store(&partition->copy, false);
        partition_remote_update(partition, promoted);
    }
    epochs_begin(&partition->epochs, -1, bounds.end.offset);
    core_reset(&partition->core, bounds.end.offset);
    partition->end = partition->flushed = partition->high_watermark = bounds.end;
    partition->unclean++;
    partition->failed = partition->listed = false;
    atomic_store(&partition->damaged, false);
    atomic_store(&partition->unfit, false);
    atomic_store(&partition->filling_until_ms, INT64_MAX);
    atomic_store(&partition->filling, FILLING);
    bool asked = partition_outbox_ask(partition);
    partition_doubt_produces(partition);
    partition_collect(partition, &released);
    released.tell = true;
    released.post = released.post || asked;
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
}

int partition_refill(struct partition *partition, int (*move)(void *arg), void *arg)
{
    pthread_mutex_lock(&partition->dir_lock);
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    int rc = partition_refusal(partition);
    pthread_mutex_unlock(&partition->lock);
    if (!rc) {
        partition_keep_waiting(partition);
    }
    rc = rc ? rc : log_renew(partition->log, 0, move, arg);
    if (rc) {
        pthread_mutex_unlock(&partition->append_lock);
    } else {
        partition_begin_filling(partition, NULL);
    }
    pthread_mutex_unlock(&partition->dir_lock);
    return rc;
}

bool partition_filled(struct partition *partition, int64_t high_watermark)
{
    bool filled = atomic_load(&partition->filling) == FILLING &&
                  partition->high_watermark.offset >= high_watermark;
    if (filled) {
        atomic_store(&partition->filling, FILLED_NEWS);
    }
    return filled;
}

void partition_begin_start(struct partition *partition)
{
    if (partition->observer && !partition->core.remote) {
        atomic_store(&partition->filling_until_ms,
                     clock_mono_ms(partition->clock) + START_WAIT_MS);
        atomic_store(&partition->filling, FILLING);
    }
}

bool partition_is_filling(const struct partition *partition)
{
    return atomic_load(&partition->filling) == FILLING &&
           clock_mono_ms(partition->clock) < atomic_load(&partition->filling_until_ms);
}

bool partition_led_anew(struct partition *partition)
{
    const struct partition_core *core = &partition->core;
    bool filled = atomic_load(&partition->filling) == FILLING &&
                  core->role == ROLE_LEADER &&
                  core->high_watermark >= core->epoch_start;
    if (filled) {
        atomic_store(&partition->filling, FILLED_NEWS);
    }
    return filled;
}

void partition_end_start(struct partition *partition)
{
    struct released released = {.tell = true};
    if (atomic_load(&partition->filling) != FILLING ||
        partition_is_filling(partition)) {
        return;
    }
    pthread_mutex_lock(&partition->lock);
    int filling = FILLING;
    (void)atomic_compare_exchange_strong(&partition->filling, &filling, FILLED_NEWS);
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
}

/* ---- what is waited for -------------------------------------------------------------
 */

void partition_doubt_produces(struct partition *partition)
{
    struct produce_waiter *waiter;
    DL_FOREACH(partition->produces, waiter)
    {
        waiter->doubtful =
            waiter->doubtful || (!waiter->remote && waiter->result.leader_epoch >= 0);
    }
}

/* [lock] What the leader has committed counts as soon as it is here, though perhaps not
 * on this disk, which may go on failing. */
static bool is_decided(const struct partition_core *core, int64_t offset)
{
    return core->high_watermark >= offset ||
           (core->leader_high_watermark >= offset && core->log_end_offset >= offset);
}

enum doubt_outcome partition_doubt(struct partition *partition,
                                   struct produce_waiter *waiter)
{
    struct produce_result *result = &waiter->result;
    struct log_bounds bounds;
    if (!is_decided(&partition->core, waiter->await_offset)) {
        return DOUBT_LASTS;
    }
    if (epochs_before(&partition->epochs, result->end.offset) == result->leader_epoch) {
        result->end.position = -1; /* it was that in the old log */
        return DOUBT_ENDED;
    }
    log_bounds_get(partition->log, &bounds);
    if (result->end.offset <= bounds.start.offset) {
        result->error =
            E_COMMIT_TIMEOUT; /* below the start of what is here nothing tells */
        return DOUBT_ENDED;
    }
    return DOUBT_GONE;
}
