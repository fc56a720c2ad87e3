#include "replica/fetch_core.h"

#include "replica/producer_state.h"

static bool observes(const struct fetch_request *request)
{
    return request->acknowledged_offset == FETCH_OBSERVES;
}

static int refuse(const struct partition_core *core, const struct core_replica *replica,
                  const struct fetch_request *request)
{
    if (!MUTATION(MUTATE_NO_EPOCH_CHECK)) {
        if (request->leader_epoch < core->leader_epoch) {
            return E_FENCED_EPOCH;
        }
        if (request->leader_epoch > core->leader_epoch) {
            return E_UNKNOWN_EPOCH;
        }
    }
    if (core->role != ROLE_LEADER) {
        return core->offline ? E_OFFLINE : E_NOT_LEADER;
    }
    if (observes(request)) {
        return 0;
    }
    if (!replica || replica->id == core->self) {
        return E_NOT_LEADER;
    }
    /* The registration that this node sees may be older than the follower's, never
     * newer; and once an incarnation was heard, an older one is gone. */
    if (request->broker_epoch < replica->registered_epoch ||
        request->broker_epoch < replica->broker_epoch) {
        return E_STALE_BROKER_EPOCH;
    }
    if (request->broker_epoch == replica->broker_epoch &&
        request->sequence <= replica->sequence) {
        return E_CONFLICT;
    }
    return 0;
}

static void fill(const struct partition_core *core, const struct epoch_list *epochs,
                 int64_t log_start, const struct fetch_request *request,
                 struct fetch_answer *answer)
{
    *answer = (struct fetch_answer){
        .kind = FETCH_DATA,
        .leader_epoch = core->leader_epoch,
        .sequence = request->sequence,
        .log_start = log_start,
        .start_epoch = epochs_before(epochs, log_start),
        .log_end = core->log_end_offset,
        .high_watermark = core->high_watermark,
        .flush_to =
            core->role == ROLE_LEADER && !observes(request) ? core->flush_to : 0,
    };
}

/* Where the two logs may differ; false: the follower's is a prefix of this one. */
static bool diverges(const struct partition_core *core, const struct epoch_list *epochs,
                     const struct fetch_request *request, struct epoch_end *out)
{
    return request->last_epoch >= 0 &&
           epochs_end(epochs, request->last_epoch, core->log_end_offset, out) &&
           (out->epoch < request->last_epoch ||
            out->end_offset < request->fetch_offset);
}

/*
 * Can't the two logs be compared? That is so where this one begins behind the other's
 * end, and where it knows nothing as old as the other's last batch: then whatever they
 * share lies below this one's start. A log that knows nothing of what was before its
 * end can be believed where this one begins; and elsewhere only if no election ever
 * gave committed messages up, so that what it no longer has is the same here as there.
 */
static bool beyond_compare(const struct partition_core *core,
                           const struct epoch_list *epochs, int64_t log_start,
                           const struct fetch_request *request)
{
    struct epoch_end end;
    if (request->fetch_offset < log_start) {
        return true;
    }
    if (request->last_epoch >= 0) {
        return !epochs_end(epochs, request->last_epoch, core->log_end_offset, &end);
    }
    return request->fetch_offset > log_start &&
           (core->state.lossy_epoch >= 0 ||
            request->fetch_offset > core->log_end_offset);
}

/* An incarnation that was not heard before may hold less than the one before it. */
static void new_incarnation(struct core_replica *replica, int64_t broker_epoch)
{
    replica->broker_epoch = broker_epoch;
    replica->log_end_offset = -1;
    replica->flushed_offset = -1;
    replica->leader_end_at_fetch = INT64_MAX;
}

static void acknowledge(struct partition_core *core, struct core_replica *replica,
                        const struct fetch_request *request, int64_t now_ms)
{
    replica->flushed_offset = request->acknowledged_offset < request->fetch_offset
                                  ? request->acknowledged_offset
                                  : request->fetch_offset;
    replica->log_end_offset =
        core->flush_counts ? replica->flushed_offset : request->fetch_offset;
    if (MUTATION(MUTATE_SYNC_UNFLUSHED)) {
        replica->flushed_offset = request->fetch_offset;
    }
    if (replica->log_end_offset >= core->log_end_offset) {
        replica->caught_up_ms = now_ms;
    } else if (replica->log_end_offset >= replica->leader_end_at_fetch &&
               replica->fetch_ms > replica->caught_up_ms) {
        replica->caught_up_ms = replica->fetch_ms;
    }
    replica->leader_end_at_fetch = core->log_end_offset;
    replica->fetch_ms = now_ms;
}

void fetch_take(struct partition_core *core, const struct epoch_list *epochs,
                int64_t log_start, const struct fetch_request *request, int64_t now_ms,
                struct fetch_answer *answer)
{
    struct core_replica *replica = core_replica_find(core, request->follower);
    fill(core, epochs, log_start, request, answer);
    answer->error = refuse(core, replica, request);
    if (answer->error) {
        answer->kind = FETCH_ERROR;
        return;
    }
    if (!observes(request)) {
        if (request->broker_epoch != replica->broker_epoch) {
            new_incarnation(replica, request->broker_epoch);
        }
        replica->sequence = request->sequence;
    }
    if (beyond_compare(core, epochs, log_start, request)) {
        answer->kind = FETCH_RESTART;
        return;
    }
    if (diverges(core, epochs, request, &answer->diverging)) {
        answer->kind = FETCH_DIVERGING;
        if (!MUTATION(MUTATE_COUNT_DIVERGING)) {
            return;
        }
    }
    if (!observes(request)) {
        acknowledge(core, replica, request, now_ms);
    }
}

static bool brings_nothing(const struct fetch_request *request,
                           const struct fetch_answer *answer)
{
    return answer->kind == FETCH_DATA && request->fetch_offset >= answer->log_end &&
           request->log_start >= answer->log_start &&
           (request->flush_to >= answer->flush_to ||
            request->acknowledged_offset >= answer->flush_to);
}

bool fetch_may_wait(const struct fetch_request *request,
                    const struct fetch_answer *answer)
{
    return brings_nothing(request, answer) &&
           request->high_watermark >= answer->high_watermark;
}

bool fetch_may_hold(const struct fetch_request *request,
                    const struct fetch_answer *answer)
{
    return request->patient && brings_nothing(request, answer);
}

bool fetch_replaces(const struct fetch_request *newer,
                    const struct fetch_request *older)
{
    return newer->follower == older->follower &&
           (newer->broker_epoch != older->broker_epoch
                ? newer->broker_epoch > older->broker_epoch
                : newer->sequence > older->sequence);
}

bool fetch_rest(int64_t fetch_offset, struct batch *batch)
{
    if (fetch_offset <= batch->base_offset || MUTATION(MUTATE_FETCH_WHOLE)) {
        return false;
    }
    producer_batch_rest(batch, (uint32_t)(fetch_offset - batch->base_offset));
    return true;
}

void fetch_again(struct partition_core *core, const struct epoch_list *epochs,
                 int64_t log_start, const struct fetch_request *request,
                 struct fetch_answer *answer)
{
    const struct core_replica *replica = core_replica_find(core, request->follower);
    fill(core, epochs, log_start, request, answer);
    bool counts = !observes(request);
    if (request->leader_epoch != core->leader_epoch || core->role != ROLE_LEADER ||
        (counts && !replica)) {
        answer->error =
            request->leader_epoch < core->leader_epoch ? E_FENCED_EPOCH : E_NOT_LEADER;
    } else if (counts && replica->broker_epoch != request->broker_epoch) {
        answer->error = E_STALE_BROKER_EPOCH;
    } else if (counts && replica->sequence != request->sequence) {
        answer->error = E_CONFLICT;
    } else if (request->fetch_offset < log_start) {
        answer->kind = FETCH_RESTART;
    }
    if (answer->error) {
        answer->kind = FETCH_ERROR;
    }
}
