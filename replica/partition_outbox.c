#include "replica/partition_outbox.h"

#include "replica/follower_core.h"
#include "replica/partition_internal.h"
#include "replica/partition_replica.h"
#include "replica/partition_tickets.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct outbox_write {
    struct produce_waiter *waiter; /* NULL: nobody waits; acks=0, or given up */
    struct outbox_ticket *ticket;  /* given up */
    bool sent;                     /* in the batch that is under way, or uncertain */
    bool uncertain;                /* it may be in the leader's log already, as this: */
    int64_t producer_id;
    int32_t base_sequence;
    uint64_t number; /* acks=0: for who waits by partition_sync() */
    char *bytes;
    size_t length;
    uint32_t message_count;
    int64_t acks;
    int64_t deadline_ms;
    struct outbox_write *prev, *next;
};

/* ---- adding -------------------------------------------------------------------------
 */

/* [lock] */
bool partition_outbox_wants(const struct partition *partition, int refusal)
{
    if (!partition->observer) {
        return false;
    }
    switch (refusal) {
    case 0: /* nothing overtakes what waits */
        return partition->outbox_writes || partition->outbox_busy;
    case E_NO_LEADER:
    case E_NOT_LEADER:
    case E_SESSION_LOST:
        return true;
    case E_NOT_ENOUGH_REPLICAS:
        return partition->config.on_below_min == BELOW_MIN_WAIT;
    case E_OFFLINE: /* another replica is about to lead */
        return atomic_load(&partition->unfit);
    default:
        return false;
    }
}

static void write_free(struct partition *partition, struct outbox_write *write)
{
    atomic_fetch_sub(partition->outbox_bytes, (int64_t)write->length);
    free(write->bytes);
    free(write);
}

static struct outbox_write *write_new(struct partition *partition, const void *bytes,
                                      size_t length)
{
    struct outbox_write *write = calloc(1, sizeof *write);
    char *copy = malloc(length);
    if (!write || !copy) {
        free(write);
        free(copy);
        return NULL;
    }
    memcpy(copy, bytes, length);
    write->bytes = copy;
    write->length = length;
    atomic_fetch_add(partition->outbox_bytes, (int64_t)length);
    return write;
}

/* Of all partitions together. One write of any size finds room when nothing else waits.
 */
static bool is_full(const struct partition *partition, size_t length)
{
    int64_t waiting = atomic_load(partition->outbox_bytes);
    return waiting > 0 && waiting + (int64_t)length > OUTBOX_NODE_BYTES;
}

int partition_outbox_add(struct partition *partition, const void *bytes, size_t length,
                         uint32_t message_count, struct produce_waiter *waiter,
                         struct produce_result *result)
{
    bool full = is_full(partition, length);
    struct outbox_write *write = full ? NULL : write_new(partition, bytes, length);
    *result = (struct produce_result){.error = full ? -EAGAIN : -ENOMEM};
    if (!write) {
        return 0;
    }
    write->message_count = message_count;
    write->acks = waiter->acks;
    write->deadline_ms =
        clock_mono_ms(partition->clock) + partition->config.delivery_timeout_ms;
    result->error = 0;
    waiter->result = *result;
    DL_APPEND(partition->outbox_writes, write);
    if (waiter->acks == ACKS_NONE) {
        write->number = result->queued = ++partition->queued.last;
        return 0;
    }
    write->waiter = waiter;
    waiter->write = write;
    return PRODUCE_PENDING;
}

/* [lock] */
static int give_up_error(const struct partition *partition, int64_t acks)
{
    const struct partition_core *core = &partition->core;
    int refusal = partition_refusal(partition);
    if (refusal) {
        return refusal;
    }
    bool few = acks == ACKS_ALL && core_isr_size(core) < core->min_insync_replicas;
    return few && core->leader >= 0 ? E_NOT_ENOUGH_REPLICAS : E_NO_LEADER;
}

static void note_queued(struct partition_queued *queued,
                        const struct outbox_write *write,
                        const struct produce_result *result)
{
    if (result->error) {
        queued->failed = write->number;
        queued->error = result->error;
    } else if (result->end.offset > queued->end_offset) {
        queued->end_offset = result->end.offset;
    }
}

bool partition_outbox_queues(const struct partition *partition, uint64_t first,
                             uint64_t last)
{
    uint64_t sending = partition->queued.sending;
    const struct outbox_write *write;
    if (!first) {
        return false;
    }
    DL_FOREACH(partition->outbox_writes, write)
    {
        if (write->number >= first && write->number <= last) {
            return true;
        }
    }
    return sending && sending <= last; /* older than `first`: not for long */
}

/* [lock] Moves the write's waiter to those that are called, or keeps the outcome for
 * whoever comes with its ticket. */
static void end_write(struct partition *partition, struct outbox_write *write,
                      const struct produce_result *result, struct released *released)
{
    struct produce_waiter *waiter = write->waiter;
    if (waiter) {
        waiter->write = NULL;
        waiter->result = *result;
        DL_APPEND(released->produces, waiter);
    }
    if (write->ticket) {
        partition_ticket_end(partition, write->ticket, write->acks, result);
    }
    if (write->number) {
        note_queued(&partition->queued, write, result);
    }
    write_free(partition, write);
}

/* [lock] The write goes on without its waiter. */
static bool detach(struct partition *partition, struct outbox_write *write,
                   struct produce_result *result)
{
    write->ticket = partition_ticket_new(partition, write);
    if (!write->ticket) {
        return false;
    }
    write->waiter->write = NULL;
    write->waiter = NULL;
    *result = (struct produce_result){.error = E_COMMIT_TIMEOUT,
                                      .ticket = partition_ticket_id(write->ticket)};
    return true;
}

bool partition_outbox_cancel(struct partition *partition, struct produce_waiter *waiter,
                             struct produce_result *result)
{
    struct outbox_write *write = waiter->write;
    if (!write) {
        return false;
    }
    if (write->sent) {
        return detach(partition, write, result);
    }
    DL_DELETE(partition->outbox_writes, write);
    waiter->write = NULL;
    *result = (struct produce_result){.error = give_up_error(partition, write->acks)};
    write_free(partition, write);
    return true;
}

bool partition_outbox_is_sent(const struct produce_waiter *waiter)
{
    return waiter->write && waiter->write->sent;
}

/* [lock] */
static void expire(struct partition *partition, struct outbox_write *write,
                   struct released *released)
{
    struct produce_waiter *waiter = write->waiter;
    struct produce_result result = {.error = E_COMMIT_TIMEOUT};
    if (!detach(partition, write, &result)) {
        waiter->write = NULL;
        write->waiter = NULL;
    }
    waiter->result = result;
    DL_APPEND(released->produces, waiter);
}

/* [lock] */
static int attach(struct partition *partition, struct outbox_write *write,
                  struct produce_waiter *waiter)
{
    partition_ticket_free(partition, write->ticket);
    write->ticket = NULL;
    write->waiter = waiter;
    write->deadline_ms =
        clock_mono_ms(partition->clock) + partition->config.delivery_timeout_ms;
    waiter->write = write;
    waiter->acks = write->acks;
    waiter->result = (struct produce_result){0};
    return PRODUCE_PENDING;
}

int partition_outbox_resume(struct partition *partition, uint64_t id,
                            struct produce_waiter *waiter,
                            struct produce_result *result)
{
    struct outbox_ticket *ticket = partition_ticket_find(partition, id);
    int64_t acks = ACKS_NONE;
    *result = (struct produce_result){.error = partition_refusal(partition)};
    if (result->error) {
        return 0;
    }
    if (!ticket) {
        return PRODUCE_GONE;
    }
    struct outbox_write *write = partition_ticket_outcome(ticket, &acks, result);
    if (write) {
        return attach(partition, write, waiter);
    }
    partition_ticket_free(partition, ticket);
    if (result->error) {
        /* Without knowing its fate, that is the answer, once. */
        return result->error == E_COMMIT_TIMEOUT ? 0 : PRODUCE_GONE;
    }
    const struct produce_result left = *result;
    return acks == ACKS_ALL
               ? partition_resume_appended(partition, &left, waiter, result)
               : 0;
}

/* A write of this node's own that nobody was promised anything about. */
static bool can_be_rescued(const struct partition *partition,
                           const struct produce_waiter *waiter, int64_t offset)
{
    return partition->observer && !waiter->remote && !waiter->await_flush &&
           !waiter->cut && !waiter->doubtful && waiter->result.length > 0 &&
           waiter->result.base_offset >= offset;
}

bool partition_outbox_rescues(const struct partition *partition, int64_t offset)
{
    const struct produce_waiter *waiter;
    DL_FOREACH(partition->produces, waiter)
    {
        if (can_be_rescued(partition, waiter, offset)) {
            return true;
        }
    }
    return false;
}

int64_t partition_outbox_first(const struct partition *partition)
{
    const struct produce_waiter *waiter;
    DL_FOREACH(partition->produces, waiter)
    {
        if (can_be_rescued(partition, waiter, 0)) {
            return waiter->result.base_offset; /* they wait in the order of the log */
        }
    }
    return -1;
}

void partition_outbox_keep(struct partition *partition, const char *tail,
                           const struct log_place *from)
{
    struct produce_waiter *waiter;
    DL_FOREACH(partition->produces, waiter)
    {
        const struct produce_result *appended = &waiter->result;
        if (waiter->write || !can_be_rescued(partition, waiter, from->offset) ||
            is_full(partition, appended->length)) {
            continue;
        }
        struct outbox_write *write = write_new(
            partition,
            tail + (appended->end.position - appended->length - from->position),
            appended->length);
        if (write) {
            write->message_count =
                (uint32_t)(appended->end.offset - appended->base_offset);
            write->acks = waiter->acks;
            write->waiter = waiter;
            waiter->write = write;
        }
    }
}

/* Is that so of all that wait for what was appended here? */
static bool can_be_asked(const struct partition *partition)
{
    const struct produce_waiter *waiter;
    int count = 0;
    DL_FOREACH(partition->produces, waiter)
    {
        if (waiter->remote || waiter->await_flush || waiter->result.leader_epoch < 0) {
            continue;
        }
        count++;
        if (!waiter->write || waiter->doubtful || waiter->cut ||
            waiter->producer_id < 0) {
            return false;
        }
    }
    return count > 0 && count <= PRODUCER_BATCHES && !partition->outbox_busy;
}

bool partition_outbox_ask(struct partition *partition)
{
    struct produce_waiter *waiter;
    struct produce_waiter *next;
    struct outbox_write *later = partition->outbox_writes;
    if (!can_be_asked(partition)) {
        return false;
    }
    partition->outbox_writes = NULL;
    DL_FOREACH_SAFE(partition->produces, waiter, next)
    {
        if (waiter->write) {
            waiter->write->uncertain = waiter->write->sent = true;
            waiter->write->producer_id = waiter->producer_id;
            waiter->write->base_sequence = waiter->base_sequence;
            (void)partition_outbox_post(partition, waiter);
        }
    }
    DL_CONCAT(partition->outbox_writes, later);
    return true;
}

bool partition_outbox_post(struct partition *partition, struct produce_waiter *waiter)
{
    struct outbox_write *write = waiter->write;
    if (!write) {
        return false;
    }
    write->deadline_ms =
        clock_mono_ms(partition->clock) + partition->config.delivery_timeout_ms;
    waiter->result = (struct produce_result){0};
    DL_DELETE(partition->produces, waiter);
    waiter->parked = false;
    DL_APPEND(partition->outbox_writes, write);
    return true;
}

void partition_outbox_drop(struct partition *partition, struct produce_waiter *waiter)
{
    if (waiter->write) {
        write_free(partition, waiter->write);
        waiter->write = NULL;
    }
}

void partition_outbox_rescue(struct partition *partition, const char *tail,
                             const struct log_place *from)
{
    struct produce_waiter *waiter;
    struct produce_waiter *next;
    partition_outbox_keep(partition, tail, from);
    DL_FOREACH_SAFE(partition->produces, waiter, next)
    {
        if (can_be_rescued(partition, waiter, from->offset)) {
            (void)partition_outbox_post(partition, waiter);
        }
    }
}

void partition_outbox_collect(struct partition *partition, struct released *released)
{
    int refusal = partition_refusal(partition);
    int64_t now_ms = clock_mono_ms(partition->clock);
    struct outbox_write *write;
    struct outbox_write *next;
    DL_FOREACH_SAFE(partition->outbox_writes, write, next)
    {
        if (!refusal && write->deadline_ms > now_ms) {
            continue;
        }
        const struct produce_result result = {
            .error = write->uncertain ? E_COMMIT_TIMEOUT
                                      : give_up_error(partition, write->acks)};
        DL_DELETE(partition->outbox_writes, write);
        end_write(partition, write, &result, released);
    }
}

/* ---- batches ------------------------------------------------------------------------
 */

static bool fits(const struct outbox_batch *batch, const struct outbox_write *write)
{
    return !batch->writes ||
           (write->acks == batch->acks && !batch->again && !write->uncertain &&
            batch->bytes.length + write->length <= OUTBOX_BATCH_BYTES);
}

/* [lock] Moves writes from the head of the queue into the batch. */
static int form(struct partition *partition, struct outbox_batch *batch)
{
    struct outbox_write *write = partition->outbox_writes;
    *batch = (struct outbox_batch){.acks = write->acks,
                                   .producer_id = partition->producer_id,
                                   .base_sequence = partition->next_sequence,
                                   .deadline_ms = write->deadline_ms};
    if (write->uncertain) { /* as it was, and alone */
        batch->producer_id = write->producer_id;
        batch->base_sequence = write->base_sequence;
        batch->maybe_appended = batch->again = true;
    }
    buf_init(&batch->bytes, PEER_REQUEST_MAX);
    while (write && fits(batch, write)) {
        int rc = buf_add(&batch->bytes, write->bytes, write->length);
        if (rc) {
            return rc;
        }
        batch->message_count += write->message_count;
        DL_DELETE(partition->outbox_writes, write);
        write->sent = true; /* can't be withdrawn any more */
        if (!partition->queued.sending) {
            partition->queued.sending = write->number;
        }
        DL_APPEND(batch->writes, write);
        write = partition->outbox_writes;
    }
    return 0;
}

/* [lock] The batch's writes are the queue's first again. */
static void dissolve(struct partition *partition, struct outbox_batch *batch)
{
    struct outbox_write *write;
    DL_FOREACH(batch->writes, write)
    {
        write->sent = write->uncertain;
    }
    DL_CONCAT(batch->writes, partition->outbox_writes);
    partition->outbox_writes = batch->writes;
    partition->outbox_busy = false;
    partition->queued.sending = 0;
    buf_free(&batch->bytes);
    *batch = (struct outbox_batch){0};
}

/* [append_lock, lock] Ends the batch with an error for all its writes. */
static void fail_batch(struct partition *partition, struct outbox_batch *batch,
                       int error, struct released *released)
{
    const struct produce_result result = {
        .error = batch->maybe_appended ? E_COMMIT_TIMEOUT : error};
    struct outbox_write *write;
    struct outbox_write *next;
    if (batch->maybe_appended) {
        /* What was sent may be in a log or not: what comes next must not look as if
         * it continued that. */
        partition_producer_begin(partition);
    }
    DL_FOREACH_SAFE(batch->writes, write, next)
    {
        DL_DELETE(batch->writes, write);
        end_write(partition, write, &result, released);
    }
    partition->outbox_busy = false;
    partition->queued.sending = 0;
    buf_free(&batch->bytes);
    *batch = (struct outbox_batch){0};
}

/* [lock] Where the batch goes now; false: nowhere yet. */
static bool address(struct partition *partition, struct outbox_batch *batch)
{
    const struct partition_core *core = &partition->core;
    batch->here = core->role == ROLE_LEADER;
    batch->leader = core->leader;
    batch->leader_epoch = core->leader_epoch;
    if (!batch->here) {
        return core->leader >= 0 && core->leader != core->self;
    }
    /* A batch that was tried may be in the log: then its fate is told at any size. */
    return batch->maybe_appended || core_admit(core, batch->acks) == 0;
}

enum outbox_state partition_outbox_next(struct partition *partition,
                                        struct outbox_batch *batch, int64_t *due_ms)
{
    struct released released;
    enum outbox_state state = OUTBOX_WAIT;
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    partition_collect(partition, &released);
    int64_t now_ms = clock_mono_ms(partition->clock);
    if (batch->writes &&
        (partition_refusal(partition) || batch->deadline_ms <= now_ms)) {
        fail_batch(partition, batch, give_up_error(partition, batch->acks), &released);
    }
    struct outbox_batch trial = {
        .acks = partition->outbox_writes ? partition->outbox_writes->acks : ACKS_ALL};
    if (!batch->writes && partition->outbox_writes && address(partition, &trial)) {
        partition->outbox_busy = form(partition, batch) == 0;
        if (!partition->outbox_busy) {
            dissolve(partition, batch);
        }
    }
    if (batch->writes) {
        *due_ms = batch->deadline_ms;
        state = address(partition, batch) ? OUTBOX_SEND : OUTBOX_WAIT;
    } else if (partition->outbox_writes) {
        *due_ms = partition->outbox_writes->deadline_ms;
    } else {
        state = OUTBOX_EMPTY;
    }
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
    partition_sync_look(partition);
    return state;
}

int64_t partition_outbox_expire(struct partition *partition, struct outbox_batch *batch,
                                int64_t due_ms)
{
    struct released released = {0};
    int64_t now_ms = clock_mono_ms(partition->clock);
    struct outbox_write *write;
    pthread_mutex_lock(&partition->lock);
    DL_FOREACH(batch->writes, write)
    {
        int64_t end_ms = write->deadline_ms + OUTBOX_SETTLE_MS;
        if (write->waiter && end_ms <= now_ms) {
            expire(partition, write, &released);
        } else if (write->waiter && end_ms < due_ms) {
            due_ms = end_ms;
        }
    }
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
    return due_ms;
}

int partition_outbox_append(struct partition *partition,
                            const struct outbox_batch *batch,
                            struct produce_waiter *waiter,
                            struct produce_result *result)
{
    const struct peer_produce produce = {
        .leader_epoch = batch->leader_epoch,
        .producer_id = batch->producer_id,
        .base_sequence = batch->base_sequence,
        .acks = (int32_t)batch->acks,
        .message_count = batch->message_count,
        .length = batch->bytes.length,
        .bytes = (const uint8_t *)batch->bytes.data,
    };
    return partition_produce_remote(partition, &produce, waiter, result);
}

/* ---- outcomes -----------------------------------------------------------------------
 */

/* [append_lock, lock] Each write gets its own offsets. With acks=all it ends once this
 * node shows it, so that its user reads what it wrote. */
static void succeed(struct partition *partition, struct outbox_batch *batch,
                    int64_t base_offset, struct released *released)
{
    struct outbox_write *write;
    struct outbox_write *next;
    if (!batch->again && batch->producer_id == partition->producer_id) {
        partition->next_sequence =
            producer_sequence_after(batch->base_sequence, batch->message_count);
    }
    DL_FOREACH_SAFE(batch->writes, write, next)
    {
        int64_t end_offset = base_offset + write->message_count;
        const struct produce_result result = {
            .base_offset = base_offset,
            .end = {.offset = end_offset, .position = -1},
            .leader_epoch = -1};
        struct produce_waiter *waiter = write->waiter;
        bool show =
            waiter && write->acks == ACKS_ALL &&
            partition->core.role == ROLE_FOLLOWER && !partition_hides(partition) &&
            (!partition_is_remote(partition) || atomic_load(&partition->shown)) &&
            partition->core.high_watermark < end_offset;
        base_offset = end_offset;
        DL_DELETE(batch->writes, write);
        if (show) {
            waiter->write = NULL;
            waiter->result = result;
            waiter->remote = false;
            partition_park_produce(partition, waiter, end_offset);
            write->waiter = NULL;
        }
        end_write(partition, write, &result, released);
    }
    partition->outbox_busy = false;
    partition->queued.sending = 0;
    buf_free(&batch->bytes);
    *batch = (struct outbox_batch){0};
}

/* May another attempt end otherwise? */
static bool is_passing(const struct partition *partition, int error)
{
    switch (error) {
    case E_NOT_LEADER:
    case E_NO_LEADER:
    case E_FENCED_EPOCH:
    case E_UNKNOWN_EPOCH:
    case E_UNKNOWN_TOPIC:
    case E_SESSION_LOST:
    case E_OFFLINE:
    case E_STALE_BROKER_EPOCH:
        return true;
    case E_NOT_ENOUGH_REPLICAS:
        return partition->config.on_below_min == BELOW_MIN_WAIT;
    default:
        return false;
    }
}

/* [append_lock, lock] true: the batch ended. */
static bool settle_failure(struct partition *partition, struct outbox_batch *batch,
                           const struct outbox_outcome *outcome,
                           struct released *released)
{
    batch->maybe_appended = batch->maybe_appended || outcome->appended;
    if (outcome->error == E_OUT_OF_ORDER_SEQUENCE && !batch->maybe_appended) {
        /* The leader has forgotten this producer: nothing is there to continue. */
        partition_producer_begin(partition);
        dissolve(partition, batch);
        return false;
    }
    bool final = outcome->error == E_OUT_OF_ORDER_SEQUENCE ||
                 outcome->error == E_COMMIT_TIMEOUT ||
                 (!batch->maybe_appended && !is_passing(partition, outcome->error));
    if (final) {
        fail_batch(partition, batch, outcome->error, released);
    } else if (!batch->maybe_appended) {
        dissolve(partition, batch);
    }
    return final;
}

bool partition_outbox_settle(struct partition *partition, struct outbox_batch *batch,
                             const struct outbox_outcome *outcome)
{
    struct released released;
    bool ended = true;
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    if (!outcome->error && batch->acks == ACKS_ALL) {
        follower_told(&partition->core, outcome->leader_epoch,
                      outcome->base_offset + batch->message_count);
    }
    partition_collect(partition, &released);
    if (outcome->error) {
        ended = settle_failure(partition, batch, outcome, &released);
    } else {
        succeed(partition, batch, outcome->base_offset, &released);
    }
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
    partition_sync_look(partition);
    return ended;
}

bool partition_outbox_pending(struct partition *partition)
{
    pthread_mutex_lock(&partition->lock);
    bool pending = partition->outbox_writes || partition->outbox_busy;
    pthread_mutex_unlock(&partition->lock);
    return pending;
}

bool partition_outbox_moved(struct partition *partition,
                            const struct outbox_batch *batch)
{
    pthread_mutex_lock(&partition->lock);
    bool moved = partition->core.leader_epoch != batch->leader_epoch ||
                 partition->core.leader != batch->leader;
    pthread_mutex_unlock(&partition->lock);
    return moved;
}

bool partition_outbox_ending(struct partition *partition)
{
    pthread_mutex_lock(&partition->lock);
    bool ending = partition_refusal(partition) != 0;
    pthread_mutex_unlock(&partition->lock);
    return ending;
}

void partition_outbox_abandon(struct partition *partition, struct outbox_batch *batch)
{
    struct released released = {0};
    if (!batch->writes) {
        return;
    }
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    batch->maybe_appended = true;
    fail_batch(partition, batch, E_COMMIT_TIMEOUT, &released);
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
}
