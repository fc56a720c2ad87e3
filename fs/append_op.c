#include "fs/append_op.h"

#include <stdlib.h>

static bool take_back(struct append_part *part, enum parking_reason reason,
                      struct produce_result *result)
{
    return reason == PARKING_DEADLINE
               ? partition_produce_expire(part->handle, &part->waiter, result)
               : partition_produce_cancel(part->handle, &part->waiter, result);
}

static void give_up(struct parking_waiter *waiter, enum parking_reason reason);
static void part_done(struct produce_waiter *waiter,
                      const struct produce_result *result);

struct append_op *append_op_new(struct appender *appender, enum append_kind kind,
                                struct reply *reply, size_t parts)
{
    struct append_op *op = &appender->spare;
    struct append_part *many = NULL;
    if (parts > 1 && (many = calloc(parts, sizeof *many)) == NULL)
        return NULL;
    if (atomic_exchange(&appender->spare_used, true)) {
        op = malloc(sizeof *op);
        if (op == NULL) {
            free(many);
            return NULL;
        }
    }
    *op = (struct append_op){.appender = appender, .kind = kind, .part_count = parts};
    op->parts = many != NULL ? many : &op->one;
    append_op_arm(op, reply);
    return op;
}

void append_op_forget(struct append_op *op)
{
    struct appender *appender;
    if (op == NULL)
        return;
    appender = op->appender;
    pending_free(&op->before);
    pending_free(&op->tail);
    if (op->parts != &op->one)
        free(op->parts);
    if (op == &appender->spare)
        atomic_store(&appender->spare_used, false);
    else
        free(op);
}

void append_op_abandon(struct append_op *op)
{
    struct appender *appender = op->appender;
    append_op_forget(op);
    appender_unref(appender);
}

void append_op_arm(struct append_op *op, struct reply *reply)
{
    atomic_fetch_add(&op->appender->references, 1);
    op->reply = reply;
    op->is_parked = false;
    op->unsettled = false;
    atomic_store(&op->remaining, (int)op->part_count + 1);
    for (size_t i = 0; i < op->part_count; i++) {
        op->parts[i].op = op;
        op->parts[i].handle = NULL;
        op->parts[i].cancelled = false;
        op->parts[i].waiter = (struct produce_waiter){.done = part_done};
    }
}

/* ---- completion --------------------------------------------------------------------
 */

/* [lock] */
static void remember_ends(struct append_op *op)
{
    for (size_t i = 0; i < op->part_count; i++) {
        const struct produce_result *result = &op->parts[i].result;
        struct sync_range *end = &op->appender->ends[op->parts[i].slot];
        if (result->end.offset > end->end_offset)
            end->end_offset = result->end.offset;
        if (result->queued != 0 && end->first_queued == 0)
            end->first_queued = result->queued;
        if (result->queued > end->last_queued)
            end->last_queued = result->queued;
    }
}

/* [lock] What was accepted has been asked about, and its fate told: once. */
static void forget_queued(struct append_op *op)
{
    for (size_t i = 0; i < op->part_count; i++) {
        const struct append_part *part = &op->parts[i];
        struct sync_range *end = &op->appender->ends[part->slot];
        if (!part->cancelled && end->first_queued != 0 &&
            end->first_queued <= part->last_queued)
            end->first_queued =
                end->last_queued > part->last_queued ? part->last_queued + 1 : 0;
    }
}

/* 0, or what the requester is told. A failure weighs more than having been given up. */
static int outcome(const struct append_op *op)
{
    int given_up = 0;
    for (size_t i = 0; i < op->part_count; i++) {
        const struct append_part *part = &op->parts[i];
        if (part->result.error == 0)
            continue;
        if (!part->cancelled)
            return part->result.error;
        /* Nothing appended says more than "may commit later", which is no lie then. */
        if (given_up == 0 || append_part_stands(part))
            given_up = part->result.error;
    }
    if (given_up != 0 && op->reason == PARKING_INTERRUPTED)
        return -EINTR;
    return given_up;
}

static void answer(struct reply *reply, enum append_kind kind, size_t consumed,
                   int error)
{
    if (reply == NULL)
        return;
    if (error == 0 && kind == APPEND_WRITE)
        reply_written(reply, consumed);
    else
        reply_error(reply, error);
}

/* All parts have ended; no lock is held. The last to touch the op. */
static void complete(struct append_op *op)
{
    struct appender *appender = op->appender;
    struct reply *reply = op->reply;
    enum append_kind kind = op->kind;
    size_t consumed = op->consumed;
    bool keep;
    int error;
    if (op->is_parked) {
        if (reply != NULL)
            reply_on_interrupt(reply, NULL, NULL);
        parking_remove(&op->parked);
    }
    error = outcome(op);
    op->unsettled = error == -EINTR || error == E_COMMIT_TIMEOUT;
    keep = error != 0 && kind == APPEND_WRITE;
    if (error != 0 && kind == APPEND_RELEASE)
        diag(DIAG_WARNING, "completing the last line of a closed file: %s",
             err_text(error));
    pthread_mutex_lock(&appender->lock);
    if (kind == APPEND_FSYNC)
        forget_queued(op);
    else
        remember_ends(op);
    if (keep) {
        op->next = appender->failures;
        appender->failures = op;
    }
    pthread_mutex_unlock(&appender->lock);
    if (!keep)
        append_op_forget(op);
    /* Everything is put away before the answer: what comes next may be the RELEASE. */
    appender_unref(appender);
    answer(reply, kind, consumed, error);
}

/* One part ended, or the submitter is through. */
static void end_one(struct append_op *op)
{
    if (atomic_fetch_sub(&op->remaining, 1) == 1)
        complete(op);
}

static void part_done(struct produce_waiter *waiter,
                      const struct produce_result *result)
{
    struct append_part *part =
        (struct append_part *)((char *)waiter - offsetof(struct append_part, waiter));
    part->result = *result;
    end_one(part->op);
}

static void give_up(struct parking_waiter *waiter, enum parking_reason reason)
{
    struct append_op *op =
        (struct append_op *)((char *)waiter - offsetof(struct append_op, parked));
    int ended = 0;
    op->reason = reason;
    for (size_t i = 0; i < op->part_count; i++) {
        struct append_part *part = &op->parts[i];
        struct produce_result result;
        if (part->handle == NULL || !take_back(part, reason, &result))
            continue;
        part->result = result;
        part->cancelled = true;
        ended++;
    }
    if (ended > 0 && atomic_fetch_sub(&op->remaining, ended) == ended)
        complete(op);
}

/* ---- submission --------------------------------------------------------------------
 */

void append_op_skip(struct append_part *part)
{
    atomic_fetch_sub(&part->op->remaining, 1);
}

int append_op_produce(struct append_part *part, struct partition *partition,
                      const char *bytes, size_t length, uint32_t count)
{
    struct produce_result result = {0};
    part->handle = partition;
    part->result = result;
    if (partition_produce(partition, bytes, length, count, &part->waiter, &result) ==
        PRODUCE_PENDING)
        return 0;
    part->result = result;
    append_op_skip(part);
    return result.error;
}

int append_op_resume(struct append_part *part, struct partition *partition,
                     const char *bytes, size_t length, uint32_t count)
{
    const struct produce_result left = part->result;
    struct produce_result result = {0};
    int rc;
    part->handle = partition;
    rc = partition_resume(partition, &left, &part->waiter, &result);
    if (rc == PRODUCE_GONE)
        return append_op_produce(part, partition, bytes, length, count);
    if (rc == PRODUCE_PENDING)
        return 0;
    part->result = result;
    append_op_skip(part);
    return result.error;
}

int append_op_sync(struct append_part *part, struct partition *partition,
                   const struct sync_range *range)
{
    struct produce_result result = {0};
    part->handle = partition;
    part->last_queued = range->last_queued;
    if (partition_sync(partition, range, &part->waiter, &result) == PRODUCE_PENDING)
        return 0;
    part->result = result;
    append_op_skip(part);
    return result.error;
}

bool append_op_pending(const struct append_op *op)
{
    return atomic_load(&op->remaining) > 1;
}

bool append_part_stands(const struct append_part *part)
{
    return part->result.end.offset > 0 || part->result.ticket != 0 ||
           part->result.queued != 0;
}

bool append_op_appended(const struct append_op *op)
{
    for (size_t i = 0; i < op->part_count; i++)
        if (append_part_stands(&op->parts[i]))
            return true;
    return false;
}

void append_op_launch(struct append_op *op)
{
    struct appender *appender = op->appender;
    if (append_op_pending(op)) {
        op->is_parked = true;
        parking_waiter_init(&op->parked, appender->params.parking, give_up);
        if (op->reply != NULL)
            reply_on_interrupt(op->reply, parking_interrupt, &op->parked);
        parking_add(&op->parked, op->timeout_ms, appender->params.grace_ms);
    }
    /* Our count keeps the op, and the op keeps the appender, until this is unlocked. */
    pthread_mutex_unlock(&appender->order);
    end_one(op);
}
