/* Producing: append, flush, acknowledge. See partition_internal.h for the locks. */
#include "replica/partition_internal.h"
#include "replica/partition_replica.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { FLUSH_RETRY_MS = 500 };

/* ---- flushing -----------------------------------------------------------------------
 */

void partition_flush_soon(struct partition *partition)
{
    if (partition->flush_queued) {
        /* The flush that runs may have begun before this append: one more follows. */
        partition->flush_again = true;
        return;
    }
    partition->flush_queued = true;
    partition->flushing_to = INT64_MAX;
    partition->flush_due_ms = 0;
    (void)partition_ref(partition);
    flusher_queue(partition->flusher, &partition->flush_job);
}

void partition_flush_asked(struct partition *partition)
{
    bool under_way =
        partition->flush_queued && partition->flushing_to >= partition->core.flush_to;
    if (core_must_flush(&partition->core) && !under_way && !partition->flush_failed) {
        partition_flush_soon(partition);
    }
}

void partition_flush_due(struct partition *partition, int64_t now_ms)
{
    pthread_mutex_lock(&partition->lock);
    if (partition->flush_due_ms && partition->flush_due_ms <= now_ms) {
        partition_flush_soon(partition);
    }
    pthread_mutex_unlock(&partition->lock);
}

/* [partition->lock] */
static void note_flushed(struct partition *partition, const struct core_flush *flush,
                         const struct log_place *place)
{
    if (core_flush_end(&partition->core, flush) &&
        place->offset > partition->flushed.offset) {
        partition->flushed = *place;
    }
}

int partition_flush_now(struct partition *partition)
{
    struct released released;
    int64_t flushed = 0;
    pthread_mutex_lock(&partition->lock);
    const struct log_place place = partition->end;
    const struct core_flush flush = core_flush_begin(&partition->core);
    partition->flushing_to = place.offset;
    pthread_mutex_unlock(&partition->lock);
    int rc = log_flush(partition->log, &flushed);
    statistics_add(&partition->statistics.flushes, 1);
    if (rc == E_OFFLINE) {
        partition_fail(partition, rc);
        return rc;
    }
    pthread_mutex_lock(&partition->lock);
    partition->flush_failed = rc != 0;
    if (rc) { /* nothing was lost: again when files can be opened */
        partition->flush_due_ms = clock_mono_ms(partition->clock) + FLUSH_RETRY_MS;
        pthread_mutex_unlock(&partition->lock);
        return rc;
    }
    note_flushed(partition, &flush, &place);
    partition_collect(partition, &released);
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
    return 0;
}

void partition_flush_run(struct flusher_job *job)
{
    struct partition *partition =
        (struct partition *)((char *)job - offsetof(struct partition, flush_job));
    pthread_mutex_lock(&partition->lock);
    partition->flush_again = false;
    pthread_mutex_unlock(&partition->lock);
    int rc = partition_flush_now(partition);
    pthread_mutex_lock(&partition->lock);
    bool again = !rc && partition->flush_again &&
                 partition->flushed.offset < partition->end.offset;
    partition->flush_queued = again;
    partition->flushing_to = INT64_MAX;
    if (again) {
        flusher_queue(partition->flusher, job);
    }
    pthread_mutex_unlock(&partition->lock);
    if (!again) {
        partition_unref(partition);
    }
}

void partition_flush_by_policy(struct partition *partition, int64_t now_ms)
{
    if (partition->copy) {
        return; /* it does not outlive the process */
    }
    if (partition->config.flush == FLUSH_ACK) {
        partition_flush_soon(partition);
    } else if (partition->config.flush == FLUSH_INTERVAL && !partition->flush_due_ms) {
        partition->flush_due_ms = now_ms + partition->config.flush_ms;
    }
}

/* ---- producing ----------------------------------------------------------------------
 */

/* Not the node's registration, of which there may be several handles one after the
 * other that each count from 0; the leader would take the second one's writes for
 * repetitions of the first one's. */
void partition_producer_begin(struct partition *partition)
{
    uint64_t bits = (uint64_t)arc4random() << 32 | arc4random();
    partition->producer_id = (int64_t)(bits >> 1);
    partition->next_sequence = 0;
}

void partition_park_produce(struct partition *partition, struct produce_waiter *waiter,
                            int64_t await_offset)
{
    waiter->await_offset = await_offset;
    waiter->await_flush = false;
    waiter->cut = false;
    waiter->doubtful = false;
    waiter->parked = true;
    DL_APPEND(partition->produces, waiter);
    if (partition->core.role == ROLE_FOLLOWER) {
        partition_watch(partition);
    }
}

/* [lock] Appends that come so close together are taken for a stream of them. */
static void note_append(struct partition *partition, int64_t now_ms)
{
    partition->streams = now_ms - partition->appended_ms <= FETCH_HOLD_MS;
    partition->appended_ms = now_ms;
}

/* [append_lock] The batch was stored: producer state, epochs, places, waiters. */
static int account(struct partition *partition, const struct batch *batch,
                   struct produce_waiter *waiter, struct produce_result *result)
{
    struct released released;
    int64_t now_ms = clock_mono_ms(partition->clock);
    /* Out of memory costs only the protection of this batch's retry until a restart. */
    (void)producer_state_add(partition->producers, batch);
    if (!waiter->remote) {
        partition->next_sequence =
            producer_sequence_after(batch->base_sequence, batch->message_count);
    }
    const struct log_place end = {
        .offset = batch->base_offset + batch->message_count,
        .position = batch->position + batch->length,
    };
    *result = (struct produce_result){.base_offset = batch->base_offset,
                                      .end = end,
                                      .leader_epoch = batch->leader_epoch,
                                      .length = batch->length};

    pthread_mutex_lock(&partition->lock);
    partition->end = end;
    partition->last_append_ms = batch->timestamp_ms;
    note_append(partition, now_ms);
    (void)epochs_add(&partition->epochs, batch->leader_epoch, batch->base_offset);
    core_appended(&partition->core, end.offset);
    partition_flush_by_policy(partition, now_ms);
    partition_collect(partition, &released);
    waiter->result = *result;
    waiter->producer_id = batch->producer_id;
    waiter->base_sequence = batch->base_sequence;
    int rc = 0;
    if (!core_acknowledged(&partition->core, waiter->acks, end.offset)) {
        partition_park_produce(partition, waiter, end.offset);
        rc = PRODUCE_PENDING;
    }
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
    return rc;
}

/* [append_lock] A full disk is a fault that comes and goes by itself: it stands in
 * problems for as long as it makes appends fail. */
void partition_note_space(struct partition *partition, int append_result)
{
    bool full = append_result == -ENOSPC || append_result == -EDQUOT;
    if (full == partition->disk_full || (append_result && !full)) {
        return;
    }
    partition->disk_full = full;
    if (full) {
        problems_set(
            partition->problems, "disk-full", partition->name,
            "the data directory's filesystem is full: appends fail, reads go on",
            "free space there, delete topics or shorten retention; appends "
            "then go on by themselves");
    } else {
        problems_clear(partition->problems, "disk-full", partition->name);
    }
}

int partition_persist(struct partition *partition)
{
    return partition->persist &&
                   atomic_load(&partition->on_disk) > partition->end.offset
               ? partition->persist(partition->on_last_unref_arg)
               : 0;
}

/* Nothing was appended, for the disk failed here: if others go on, the write waits for
 * one of them to lead. false: it does not. */
static bool put_off(struct partition *partition, const struct batch *batch,
                    const void *bytes, struct produce_waiter *waiter,
                    struct produce_result *result, int *rc)
{
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    bool waits = !waiter->remote && atomic_load(&partition->unfit) &&
                 !partition_refusal(partition);
    if (waits) {
        *rc = partition_outbox_add(partition, bytes, batch->length,
                                   batch->message_count, waiter, result);
    }
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    if (waits) {
        partition_tell(partition, PARTITION_WRITES);
    }
    return waits;
}

/* [append_lock, released here] */
static int fail_append(struct partition *partition, int error,
                       const struct batch *batch, const void *bytes,
                       struct produce_waiter *waiter, struct produce_result *result)
{
    int rc = 0;
    pthread_mutex_unlock(&partition->append_lock);
    bool failed = partition_is_disk_error(error);
    if (error == E_OFFLINE) {
        partition_fail(partition, error);
    } else if (failed) {
        (void)partition_leave(partition, error);
    }
    if (failed && put_off(partition, batch, bytes, waiter, result, &rc)) {
        return rc;
    }
    statistics_add(&partition->statistics.produce_errors, 1);
    *result = (struct produce_result){.error = error};
    return 0;
}

int partition_append(struct partition *partition, int refusal, struct batch *batch,
                     const void *bytes, struct produce_waiter *waiter,
                     struct produce_result *result)
{
    if (refusal) {
        pthread_mutex_unlock(&partition->append_lock);
        statistics_add(&partition->statistics.produce_errors, 1);
        *result = (struct produce_result){.error = refusal};
        return 0;
    }
    int rc = partition_persist(partition);
    if (!rc) {
        rc = log_append(partition->log, batch, bytes);
        partition_note_space(partition, rc);
    }
    if (rc) {
        return fail_append(partition, rc, batch, bytes, waiter, result);
    }
    statistics_add(&partition->statistics.messages_in, batch->message_count);
    statistics_add(&partition->statistics.bytes_in, batch->length);
    return account(partition, batch, waiter, result);
}

int partition_produce(struct partition *partition, const void *bytes, size_t length,
                      uint32_t message_count, struct produce_waiter *waiter,
                      struct produce_result *result)
{
    struct batch batch = {
        .message_count = message_count,
        .length = (uint32_t)length,
        .timestamp_ms = partition->clock->wall_ms(partition->clock),
    };
    waiter->remote = false;
    waiter->write = NULL;
    pthread_mutex_lock(&partition->append_lock);
    batch.producer_id = partition->producer_id;
    batch.base_sequence = partition->next_sequence;
    pthread_mutex_lock(&partition->lock);
    if (!waiter->acks_given) {
        waiter->acks = partition->config.acks;
    }
    batch.leader_epoch = partition->core.leader_epoch;
    int rc = partition_refusal(partition);
    rc = rc ? rc : core_admit(&partition->core, waiter->acks);
    if (partition_outbox_wants(partition, rc)) {
        rc = partition_outbox_add(partition, bytes, length, message_count, waiter,
                                  result);
        pthread_mutex_unlock(&partition->lock);
        pthread_mutex_unlock(&partition->append_lock);
        partition_tell(partition, PARTITION_WRITES);
        return rc;
    }
    pthread_mutex_unlock(&partition->lock);
    return partition_append(partition, rc, &batch, bytes, waiter, result);
}

static bool take_back(struct partition *partition, struct produce_waiter *waiter,
                      bool leave_sent, struct produce_result *result)
{
    pthread_mutex_lock(&partition->lock);
    bool parked = waiter->parked;
    if (parked) {
        DL_DELETE(partition->produces, waiter);
        waiter->parked = false;
        partition_outbox_drop(partition, waiter);
        *result = waiter->result;
        result->error = E_COMMIT_TIMEOUT;
    }
    bool left = leave_sent && partition_outbox_is_sent(waiter);
    bool withdrawn =
        !parked && !left && partition_outbox_cancel(partition, waiter, result);
    pthread_mutex_unlock(&partition->lock);
    return parked || withdrawn;
}

bool partition_produce_cancel(struct partition *partition,
                              struct produce_waiter *waiter,
                              struct produce_result *result)
{
    return take_back(partition, waiter, false, result);
}

bool partition_produce_expire(struct partition *partition,
                              struct produce_waiter *waiter,
                              struct produce_result *result)
{
    return take_back(partition, waiter, true, result);
}

/* [lock] Nothing but what was appended in that epoch ends there. */
static bool stands(const struct partition *partition, const struct produce_result *left)
{
    return left->leader_epoch < 0 ||
           (left->end.offset <= partition->end.offset &&
            epochs_before(&partition->epochs, left->end.offset) == left->leader_epoch);
}

int partition_resume_appended(struct partition *partition,
                              const struct produce_result *left,
                              struct produce_waiter *waiter,
                              struct produce_result *result)
{
    *result = *left;
    result->error = partition_refusal(partition);
    result->ticket = 0;
    if (result->error) {
        return 0;
    }
    bool filling = left->leader_epoch >= 0 && partition_hides(partition);
    if (!filling && !stands(partition, left)) {
        return PRODUCE_GONE;
    }
    bool unseen = partition_is_remote(partition) && !atomic_load(&partition->shown) &&
                  left->leader_epoch < 0; /* then the leader's word is all there is */
    if (!filling &&
        (unseen || core_acknowledged(&partition->core, ACKS_ALL, left->end.offset))) {
        return 0;
    }
    waiter->result = *result;
    waiter->acks = ACKS_ALL;
    waiter->producer_id = -1;
    partition_park_produce(partition, waiter, left->end.offset);
    waiter->doubtful = filling;
    return PRODUCE_PENDING;
}

int partition_resume(struct partition *partition, const struct produce_result *left,
                     struct produce_waiter *waiter, struct produce_result *result)
{
    waiter->remote = false;
    waiter->write = NULL;
    pthread_mutex_lock(&partition->lock);
    int rc = left->ticket
                 ? partition_outbox_resume(partition, left->ticket, waiter, result)
                 : partition_resume_appended(partition, left, waiter, result);
    pthread_mutex_unlock(&partition->lock);
    return rc;
}
