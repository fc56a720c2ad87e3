/* A leader's side of replication: fetches, forwarded batches, the in-sync replicas. */
#include "replica/partition_internal.h"
#include "replica/partition_replica.h"
#include "replica/payload_hash.h"
#include "replica/produce_core.h"

#include <stdlib.h>
#include <utlist.h>

static int64_t log_start(struct partition *partition)
{
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    return bounds.start.offset;
}

/* [lock] */
static bool may_hold(const struct partition *partition,
                     const struct fetch_request *request,
                     const struct fetch_answer *answer, int64_t now_ms)
{
    return partition->streams && now_ms - partition->appended_ms <= FETCH_HOLD_MS &&
           fetch_may_hold(request, answer);
}

/* [lock] */
static void release(struct partition *partition, struct fetch_waiter *waiter,
                    struct released *released)
{
    DL_DELETE(partition->fetches, waiter);
    waiter->parked = false;
    DL_APPEND(released->fetches, waiter);
}

/* [lock] What carried this partition for the same node before ends. Its other
 * partitions are asked for anew, too; and a node sends a leader only so many requests
 * at a time. */
// NOLINTNEXTLINE(readability-function-cognitive-complexity): utlist's macros
static void end_replaced(struct partition *partition,
                         const struct fetch_request *request, struct released *released)
{
    struct fetch_waiter *waiter;
    struct fetch_waiter *next;
    DL_FOREACH_SAFE(partition->fetches, waiter, next)
    {
        if (fetch_replaces(request, &waiter->request)) {
            release(partition, waiter, released);
        }
    }
}

/* [lock] */
static bool is_replaced(const struct partition *partition,
                        const struct fetch_request *request)
{
    const struct fetch_waiter *waiter;
    DL_FOREACH(partition->fetches, waiter)
    {
        if (fetch_replaces(&waiter->request, request)) {
            return true;
        }
    }
    return false;
}

void partition_fetch(struct partition *partition, const struct fetch_request *request,
                     struct fetch_answer *answer, bool *hold)
{
    struct released released;
    int64_t now_ms = clock_mono_ms(partition->clock);
    int64_t start = log_start(partition);
    pthread_mutex_lock(&partition->lock);
    fetch_take(&partition->core, &partition->epochs, start, request, now_ms, answer);
    partition_collect(partition, &released);
    if (answer->kind != FETCH_ERROR) {
        end_replaced(partition, request, &released);
    }
    /* One that is not in sync may be by now. */
    released.tell = released.tell ||
                    (partition->core.role == ROLE_LEADER &&
                     core_isr_size(&partition->core) < partition->core.replica_count);
    answer->high_watermark = partition->core.high_watermark;
    *hold = may_hold(partition, request, answer, now_ms);
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
}

/* [lock] */
static bool may_wait(struct partition *partition, const struct fetch_waiter *waiter,
                     int64_t start)
{
    struct fetch_answer answer;
    const struct fetch_request *request = &waiter->request;
    fetch_again(&partition->core, &partition->epochs, start, request, &answer);
    bool nothing = waiter->hold ? fetch_may_hold(request, &answer)
                                : fetch_may_wait(request, &answer);
    return nothing && !partition_refusal(partition);
}

bool partition_fetch_park(struct partition *partition, struct fetch_waiter *waiter)
{
    struct released released = {0};
    int64_t start = log_start(partition);
    pthread_mutex_lock(&partition->lock);
    bool parked =
        may_wait(partition, waiter, start) && !is_replaced(partition, &waiter->request);
    waiter->parked = parked;
    if (parked) {
        end_replaced(partition, &waiter->request, &released); /* parked since */
        DL_APPEND(partition->fetches, waiter);
    }
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
    return parked; /* the waiter may be gone by now */
}

bool partition_fetch_cancel(struct partition *partition, struct fetch_waiter *waiter)
{
    pthread_mutex_lock(&partition->lock);
    bool parked = waiter->parked;
    if (parked) {
        DL_DELETE(partition->fetches, waiter);
        waiter->parked = false;
    }
    pthread_mutex_unlock(&partition->lock);
    return parked;
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): utlist's macros
void partition_collect_fetches(struct partition *partition, struct released *released)
{
    struct fetch_waiter *waiter;
    struct fetch_waiter *next;
    int64_t start = partition->fetches ? log_start(partition) : 0;
    DL_FOREACH_SAFE(partition->fetches, waiter, next)
    {
        if (!may_wait(partition, waiter, start)) {
            release(partition, waiter, released);
        }
    }
}

void partition_fetch_again(struct partition *partition,
                           const struct fetch_request *request,
                           struct fetch_answer *answer)
{
    int64_t start = log_start(partition);
    pthread_mutex_lock(&partition->lock);
    fetch_again(&partition->core, &partition->epochs, start, request, answer);
    pthread_mutex_unlock(&partition->lock);
}

/* ---- batches ------------------------------------------------------------------------
 */

static int read_range(struct partition *partition, int64_t position, size_t length,
                      uint64_t rewrites, uint8_t *out)
{
    int64_t end = position + (int64_t)length;
    int64_t at = position;
    int rc = 0;
    while (!rc && at < end) {
        struct extent extent;
        rc = log_read(partition->log, at, (size_t)(end - at), end, rewrites, &extent);
        if (!rc && extent.length == 0) {
            rc = E_DAMAGED;
        }
        rc = rc ? rc : extent_read(&extent, out + (at - position));
        at += rc ? 0 : (int64_t)extent.length;
        extent_release(&extent);
    }
    return rc;
}

struct choice {
    struct partition *partition;
    struct fetch_batches *out;
    int64_t offset; /* from which on is asked */
    int64_t log_end;
    size_t max_bytes;
    int error;
};

/* The bytes of a batch's rest, and their hash. */
static int finish_rest(const struct choice *choice, struct batch *rest)
{
    struct log *log = choice->partition->log;
    int64_t end = rest->position + (int64_t)rest->length;
    struct log_bounds bounds;
    struct log_place place;
    log_bounds_get(log, &bounds);
    int rc = log_find_offset(log, rest->base_offset, &bounds.end, &place);
    if (rc) {
        return rc;
    }
    if (place.offset != rest->base_offset || place.position <= rest->position ||
        place.position >= end) {
        return -EAGAIN; /* compacted meanwhile */
    }
    rest->position = place.position;
    rest->length = (uint32_t)(end - place.position);
    uint8_t *bytes = malloc(rest->length);
    rc = bytes ? read_range(choice->partition, rest->position, rest->length,
                            choice->out->rewrites, bytes)
               : -ENOMEM;
    if (!rc) {
        rest->payload_hash = XXH3_64bits(bytes, rest->length);
    }
    free(bytes);
    return rc;
}

/* What of the batch is sent: `sent`, its position still that in the log. */
static int part_to_send(const struct choice *choice, const struct batch *batch,
                        struct batch *sent)
{
    *sent = *batch;
    return choice->out->count == 0 && fetch_rest(choice->offset, sent)
               ? finish_rest(choice, sent)
               : 0;
}

static int choose(void *arg, const struct batch *batch)
{
    struct choice *choice = arg;
    struct fetch_batches *out = choice->out;
    struct batch sent;
    if (batch->base_offset >= choice->log_end) {
        return 1;
    }
    choice->error = part_to_send(choice, batch, &sent);
    if (choice->error) {
        return 1;
    }
    if (out->count == 0) {
        out->base_offset = sent.base_offset;
        out->position = sent.position;
    } else if (out->length + sent.length > choice->max_bytes ||
               sent.position != out->position + (int64_t)out->length ||
               sent.base_offset - out->base_offset > INT32_MAX) {
        return 1;
    }
    uint8_t entry[INDEX_ENTRY_BYTES];
    sent.position = (int64_t)out->length;
    index_entry_encode(&sent, out->base_offset, entry);
    choice->error = buf_add(&out->entries, entry, sizeof entry);
    if (choice->error) {
        return 1;
    }
    out->count++;
    out->length += sent.length;
    return 0;
}

int partition_fetch_choose(struct partition *partition,
                           const struct fetch_answer *answer, int64_t offset,
                           size_t max_bytes, struct fetch_batches *out)
{
    struct choice choice = {.partition = partition,
                            .out = out,
                            .offset = offset,
                            .log_end = answer->log_end,
                            .max_bytes = max_bytes};
    struct log_bounds bounds;
    *out = (struct fetch_batches){.base_offset = offset};
    buf_init(&out->entries, PEER_REPLY_MAX);
    if (answer->kind != FETCH_DATA || offset >= answer->log_end || max_bytes == 0) {
        return 0;
    }
    log_bounds_get(partition->log, &bounds);
    out->rewrites = bounds.rewrites;
    int rc = log_each_batch(partition->log, offset, choose, &choice);
    rc = choice.error ? choice.error : rc > 0 ? 0 : rc;
    bool at_offset = out->count > 0 && out->base_offset == offset;
    if (rc ? rc != E_DAMAGED : at_offset) {
        return rc;
    }
    /* Compaction's holes are passed over; what is there and can't be read is not. */
    struct log_place first;
    int found = log_find_offset(partition->log, offset, &bounds.end, &first);
    if (found || first.offset >= answer->log_end) {
        return found;
    }
    return !rc && out->base_offset != first.offset ? E_DAMAGED : rc;
}

int partition_fetch_read(struct partition *partition,
                         const struct fetch_batches *batches, uint8_t *out)
{
    int rc = read_range(partition, batches->position, batches->length,
                        batches->rewrites, out);
    if (!rc) {
        statistics_add(&partition->statistics.bytes_out, batches->length);
    }
    return rc;
}

/* ---- forwarded batches --------------------------------------------------------------
 */

/* [append_lock] A duplicate is answered like its original. */
static int await_original(struct partition *partition,
                          const struct produce_decision *decision,
                          struct produce_waiter *waiter, struct produce_result *result)
{
    int rc = 0;
    *result = (struct produce_result){
        .base_offset = decision->base_offset,
        .end = {.offset = decision->end_offset, .position = -1},
    };
    pthread_mutex_lock(&partition->lock);
    int outcome = core_outcome(&partition->core, waiter->acks, waiter->leader_epoch,
                               decision->end_offset);
    result->error = outcome < 0 ? outcome : 0;
    waiter->result = *result;
    if (outcome == CORE_WAIT) {
        partition_park_produce(partition, waiter, decision->end_offset);
        rc = PRODUCE_PENDING;
    }
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    return rc;
}

int partition_produce_remote(struct partition *partition,
                             const struct peer_produce *produce,
                             struct produce_waiter *waiter,
                             struct produce_result *result)
{
    struct batch batch = {
        .message_count = produce->message_count,
        .length = (uint32_t)produce->length,
        .timestamp_ms = partition->clock->wall_ms(partition->clock),
        .producer_id = produce->producer_id,
        .base_sequence = produce->base_sequence,
    };
    struct produce_decision decision = {0};
    waiter->acks = produce->acks;
    waiter->acks_given = true;
    waiter->remote = true;
    waiter->write = NULL;
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    waiter->leader_epoch = batch.leader_epoch = partition->core.leader_epoch;
    int rc = partition_refusal(partition);
    if (!rc) {
        produce_decide(&partition->core, partition->producers, &batch, produce->acks,
                       &decision);
        rc = decision.error;
    }
    pthread_mutex_unlock(&partition->lock);
    if (!rc && decision.duplicate) {
        return await_original(partition, &decision, waiter, result);
    }
    return partition_append(partition, rc, &batch, produce->bytes, waiter, result);
}

/* ---- in-sync replicas ---------------------------------------------------------------
 */

bool partition_isr_propose(struct partition *partition, struct isr_proposal *out)
{
    struct released released;
    pthread_mutex_lock(&partition->lock);
    bool proposed = !partition_refusal(partition) &&
                    isr_propose(&partition->core, clock_mono_ms(partition->clock), out);
    partition_collect(partition, &released);
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
    return proposed;
}

void partition_isr_outcome(struct partition *partition,
                           const struct isr_proposal *proposal, enum isr_result result,
                           int64_t revision)
{
    struct released released;
    pthread_mutex_lock(&partition->lock);
    isr_outcome(&partition->core, proposal, result, revision);
    partition_collect(partition, &released);
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
}

void partition_isr_reread(struct partition *partition)
{
    pthread_mutex_lock(&partition->lock);
    isr_reread(&partition->core);
    pthread_mutex_unlock(&partition->lock);
}

bool partition_suspect(struct partition *partition, enum partition_doubt doubt,
                       struct suspect *out)
{
    pthread_mutex_lock(&partition->lock);
    const struct partition_core *core = &partition->core;
    bool unusable = (core->offline || partition->offline) &&
                    !leadership_is_last(&core->state, core->self);
    bool doubtful =
        (doubt == DOUBT_UNFLUSHED && partition->config.flush != FLUSH_ACK) ||
        (doubt >= DOUBT_CUT && log_has_lost(partition->log) &&
         partition_is_shared(partition)) ||
        (doubt == DOUBT_ALL && partition_is_shared(partition));
    *out = (struct suspect){
        .kind = unusable ? SUSPECT_UNUSABLE : SUSPECT_CRASHED,
        .last_epoch = epochs_last(&partition->epochs),
        .end_offset = partition->end.offset,
    };
    bool gone = partition->deleted;
    pthread_mutex_unlock(&partition->lock);
    return (unusable || doubtful) && !gone && !partition_is_remote(partition);
}

void partition_set_silent(struct partition *partition, bool silent)
{
    struct released released;
    enum core_session session = silent ? SESSION_SILENT : SESSION_GOOD;
    pthread_mutex_lock(&partition->lock);
    bool changed =
        partition->core.session != session && partition->core.session != SESSION_LOST;
    if (changed) {
        core_set_session(&partition->core, session);
        partition_collect(partition, &released);
    }
    pthread_mutex_unlock(&partition->lock);
    if (changed) {
        partition_release(partition, &released);
    }
}
