/* A follower's side of replication: what to ask for, and what to do with the answer. */
#include "replica/follower_core.h"
#include "replica/partition_internal.h"
#include "replica/partition_outbox.h"
#include "replica/partition_replica.h"

#include <stdio.h>
#include <stdlib.h>

enum { WATCHED_MS = 1000 };

/* [lock] A request acknowledges: where only what is on disk counts, it waits for that.
 */
static bool is_flushing(struct partition *partition)
{
    const struct partition_core *core = &partition->core;
    bool flushing = core->flush_counts && core->flushed_offset < core->log_end_offset;
    if (flushing) {
        partition_flush_soon(partition);
    }
    return flushing;
}

void partition_watch(struct partition *partition)
{
    partition->watched_ms = clock_mono_ms(partition->clock);
}

/* [lock] Who was woken a moment ago is about to wait again. */
static bool is_watched(const struct partition *partition)
{
    return partition->reads || partition->produces || partition->core.remote ||
           clock_mono_ms(partition->clock) - partition->watched_ms < WATCHED_MS;
}

void partition_follow_state(struct partition *partition, struct follow_state *out)
{
    pthread_mutex_lock(&partition->lock);
    *out = (struct follow_state){
        .follows =
            !partition_refusal(partition) && partition->core.role == ROLE_FOLLOWER,
        .leader = partition->core.leader,
        .leader_epoch = partition->core.leader_epoch,
    };
    out->flushing = out->follows && is_flushing(partition);
    out->synced_to = core_synced_to(&partition->core);
    pthread_mutex_unlock(&partition->lock);
}

bool partition_follow_request(struct partition *partition, struct fetch_request *out,
                              int32_t *leader)
{
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    pthread_mutex_lock(&partition->lock);
    struct partition_core *core = &partition->core;
    bool follows = !partition_refusal(partition) && core->role == ROLE_FOLLOWER &&
                   !is_flushing(partition) &&
                   follower_request(core, &partition->epochs, bounds.start.offset, out);
    out->patient = follows && !is_watched(partition);
    *leader = core->leader;
    pthread_mutex_unlock(&partition->lock);
    return follows;
}

/* ---- appending ----------------------------------------------------------------------
 */

static bool fits(struct partition *partition, const struct batch *batch)
{
    pthread_mutex_lock(&partition->lock);
    bool fit = !partition_refusal(partition) &&
               follower_fits(&partition->core, &partition->epochs, batch);
    pthread_mutex_unlock(&partition->lock);
    return fit;
}

/* [append_lock] */
static void note_appended(struct partition *partition, const struct batch *batch)
{
    const struct log_place end = {
        .offset = batch->base_offset + batch->message_count,
        .position = batch->position + batch->length,
    };
    (void)producer_state_add(partition->producers, batch);
    pthread_mutex_lock(&partition->lock);
    partition->end = end;
    partition->last_append_ms = batch->timestamp_ms;
    (void)epochs_add(&partition->epochs, batch->leader_epoch, batch->base_offset);
    core_appended(&partition->core, end.offset);
    pthread_mutex_unlock(&partition->lock);
    statistics_add(&partition->statistics.messages_in, batch->message_count);
    statistics_add(&partition->statistics.bytes_in, batch->length);
}

/* [append_lock] As many of the item's batches as fit; *error says why not all. */
static int append_batches(struct partition *partition,
                          const struct peer_fetched_item *item)
{
    for (uint32_t i = 0; i < item->batch_count; i++) {
        struct batch batch;
        const uint8_t *bytes;
        int rc = peer_fetched_batch(item, i, &batch, &bytes);
        if (!rc && !fits(partition, &batch)) {
            rc = -EBADMSG;
        }
        rc = rc ? rc : partition_persist(partition);
        if (!rc) {
            rc = log_append_verbatim(partition->log, &batch, bytes);
            partition_note_space(partition, rc);
        }
        if (rc) {
            return rc;
        }
        note_appended(partition, &batch);
    }
    return 0;
}

/* [append_lock] The leader alone decides what is too old. */
static void take_log_start(struct partition *partition, int64_t start)
{
    pthread_mutex_lock(&partition->lock);
    int64_t committed = partition->high_watermark.offset;
    pthread_mutex_unlock(&partition->lock);
    /* Nothing that may still be cut: it follows once it is committed here, too. */
    int rc = start <= committed ? log_raise_start(partition->log, start) : 0;
    if (rc) {
        diag(DIAG_WARNING, "%s: log start %lld not taken over: %s", partition->name,
             (long long)start, err_text(rc));
    }
}

static enum follow_outcome take_batches(struct partition *partition,
                                        const struct peer_fetched_item *item)
{
    struct released released;
    int rc = append_batches(partition, item);
    pthread_mutex_lock(&partition->lock);
    if (!rc) {
        follower_heard(&partition->core, &item->answer);
    }
    if (item->batch_count) {
        partition_flush_by_policy(partition, clock_mono_ms(partition->clock));
    }
    partition_flush_asked(partition);
    partition_collect(partition, &released);
    if (!rc && partition_remote_caught_up(partition, item->answer.high_watermark)) {
        released.tell = true;
    }
    if (!rc && partition_filled(partition, item->answer.high_watermark)) {
        released.tell = true;
    }
    pthread_mutex_unlock(&partition->lock);
    if (!rc) {
        take_log_start(partition, item->answer.log_start);
    }
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
    if (rc == E_OFFLINE) {
        partition_fail(partition, rc);
        return FOLLOW_STOP;
    }
    if (partition_is_disk_error(rc) && partition_leave(partition, rc)) {
        return FOLLOW_STOP;
    }
    if (rc) {
        diag(DIAG_WARNING, "%s: the leader's batches were not taken: %s",
             partition->name, err_text(rc));
    }
    return rc ? FOLLOW_PAUSE : FOLLOWED;
}

/* ---- cutting ------------------------------------------------------------------------
 */

/* [append_lock, lock] The log ends somewhere else now, with all that hangs on it. */
static void place_end(struct partition *partition, bool below_watermark)
{
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    partition->end = bounds.end;
    if (partition->flushed.offset > bounds.end.offset ||
        partition->flushed.offset < bounds.start.offset) {
        partition->flushed = bounds.end;
    }
    if (below_watermark) {
        /* An election gave up what readers may have seen. */
        partition->high_watermark = bounds.end;
        partition->unclean++;
    }
}

/* [append_lock] */
static int rebuild_producers(struct partition *partition)
{
    producer_state_clear(partition->producers);
    return partition_producers_load(partition);
}

/* [append_lock, released here] */
static enum follow_outcome finish_cut(struct partition *partition, int rc)
{
    struct released released;
    rc = rc ? rc : rebuild_producers(partition);
    pthread_mutex_lock(&partition->lock);
    /* What was cut may have been waited for here. */
    partition_collect(partition, &released);
    released.tell = true;
    partition_flush_soon(partition);
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
    if (rc) {
        partition_fail(partition, rc);
        return FOLLOW_STOP;
    }
    return FOLLOWED;
}

char *partition_read_tail(struct partition *partition, int64_t offset,
                          struct log_place *from)
{
    struct log_bounds bounds;
    pthread_mutex_lock(&partition->lock);
    bool wanted = partition_outbox_rescues(partition, offset);
    pthread_mutex_unlock(&partition->lock);
    log_bounds_get(partition->log, &bounds);
    if (!wanted || log_find_offset(partition->log, offset, &bounds.end, from) != 0 ||
        from->offset != offset || bounds.end.position <= from->position ||
        bounds.end.position - from->position > OUTBOX_NODE_BYTES) {
        return NULL;
    }
    const struct fetch_batches batches = {
        .length = (size_t)(bounds.end.position - from->position),
        .position = from->position,
        .rewrites = bounds.rewrites,
    };
    uint8_t *bytes = malloc(batches.length);
    if (bytes && partition_fetch_read(partition, &batches, bytes) != 0) {
        free(bytes);
        bytes = NULL;
    }
    return (char *)bytes;
}

/* [append_lock, released here] */
static enum follow_outcome cut(struct partition *partition, int64_t offset)
{
    struct log_place from;
    char *tail = partition_read_tail(partition, offset, &from);
    pthread_mutex_lock(&partition->lock);
    const int64_t end = partition->end.offset;
    pthread_mutex_unlock(&partition->lock);
    int rc = log_truncate(partition->log, offset);
    if (!rc) {
        diag(DIAG_INFO, "%s: cut from %lld to %lld, where the leader's log goes on",
             partition->name, (long long)end, (long long)offset);
    }
    pthread_mutex_lock(&partition->lock);
    if (!rc) {
        bool below = offset < partition->high_watermark.offset;
        partition_loss_cut(partition, offset, partition->high_watermark.offset);
        (void)core_cut(&partition->core, &partition->epochs, offset);
        place_end(partition, below);
        /* What this node appended as a leader counted, and the new leader has not seen
         * it. */
        partition_producer_begin(partition);
        if (tail) {
            partition_outbox_rescue(partition, tail, &from);
        }
        partition_fail_produces(partition, offset);
    }
    pthread_mutex_unlock(&partition->lock);
    free(tail);
    return finish_cut(partition, rc);
}

int partition_begin_anew(struct partition *partition, int64_t offset, int32_t epoch)
{
    partition_keep_waiting(partition);
    int rc = log_restart(partition->log, offset);
    pthread_mutex_lock(&partition->lock);
    if (!rc) {
        bool below = offset < partition->high_watermark.offset;
        epochs_begin(&partition->epochs, epoch, offset);
        core_reset(&partition->core, offset);
        place_end(partition, below);
        partition->high_watermark = partition->end;
        partition_producer_begin(partition);
        partition_doubt_produces(partition);
    }
    pthread_mutex_unlock(&partition->lock);
    return rc;
}

/* [append_lock, released here] */
static enum follow_outcome restart(struct partition *partition, int64_t offset,
                                   int32_t epoch)
{
    diag(DIAG_INFO, "%s: the copy is dropped and made anew from offset %lld",
         partition->name, (long long)offset);
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    pthread_mutex_lock(&partition->lock);
    const int64_t shown = partition->high_watermark.offset;
    pthread_mutex_unlock(&partition->lock);
    int rc = partition_begin_anew(partition, offset, epoch);
    if (!rc) {
        pthread_mutex_lock(&partition->lock);
        int64_t first = bounds.start.offset;
        partition_loss_cut(partition, offset > first ? offset : first, shown);
        pthread_mutex_unlock(&partition->lock);
    }
    return finish_cut(partition, rc);
}

/* [append_lock, released here] */
static enum follow_outcome refuse(struct partition *partition)
{
    struct released released;
    pthread_mutex_unlock(&partition->append_lock);
    problems_set(partition->problems, "diverged", partition->name,
                 "the leader lacks messages that were committed here; this copy is "
                 "kept as it is and follows no more",
                 "compare the copies; then remove the wrong one while its node is "
                 "unmounted");
    pthread_mutex_lock(&partition->lock);
    core_set_offline(&partition->core);
    partition_collect(partition, &released);
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
    return FOLLOW_STOP;
}

enum follow_outcome partition_follow_take(struct partition *partition,
                                          const struct peer_fetched_item *item)
{
    struct log_bounds bounds;
    pthread_mutex_lock(&partition->append_lock);
    log_bounds_get(partition->log, &bounds);
    pthread_mutex_lock(&partition->lock);
    int refusal = partition_refusal(partition);
    const struct follower_step step = follower_take(
        &partition->core, &partition->epochs, bounds.start.offset, &item->answer);
    pthread_mutex_unlock(&partition->lock);
    if (!refusal) {
        switch (step.action) {
        case FOLLOW_APPEND:
            return take_batches(partition, item);
        case FOLLOW_CUT:
            return cut(partition, step.offset);
        case FOLLOW_RESTART:
            return restart(partition, step.offset, step.epoch);
        case FOLLOW_REFUSE:
            return refuse(partition);
        default:
            break;
        }
    }
    pthread_mutex_unlock(&partition->append_lock);
    return refusal                       ? FOLLOW_STOP
           : step.action == FOLLOW_RETRY ? FOLLOW_PAUSE
                                         : FOLLOWED;
}
