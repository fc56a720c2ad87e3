/* What waits for a group's stream. */
#include "fs/group_stream_internal.h"

#include <stdlib.h>
#include <utlist.h>

enum {
    JOIN_TIMEOUT_MS = 30000,
    NONBLOCK_TIMEOUT_MS = 500, /* for the commit of what was finished */
};

static struct stream_op *op_of(void *member, size_t at)
{
    return (struct stream_op *)((char *)member - at);
}

/* ---- callbacks --------------------------------------------------------------------
 */

/* [lock] */
static void op_resume(struct stream_op *op)
{
    op->state = RUNNING;
    worker_add(op->stream->worker, &op->work);
}

void group_stream_changed(void *arg)
{
    struct group_stream *stream = arg;
    struct stream_op *op;
    (void)pthread_mutex_lock(&stream->lock);
    struct stream_notify *notify = stream->notify;
    stream->notify = NULL;
    stream->changes++;
    DL_FOREACH(stream->ops, op)
    {
        if (op->state == WAIT_CHANGE)
            op_resume(op);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (notify != NULL)
        notify->fire(notify);
}

static void op_synced(struct group_sync *sync, int error)
{
    struct stream_op *op = op_of(sync, offsetof(struct stream_op, sync));
    struct group_stream *stream = op->stream;
    (void)pthread_mutex_lock(&stream->lock);
    if (error < 0 && op->given_up == 0)
        op->given_up = error;
    if (op->state == ASKING)
        op->state = ASKED;
    else
        op_resume(op);
    (void)pthread_mutex_unlock(&stream->lock);
}

static void op_give_up(struct parking_waiter *waiter, enum parking_reason reason)
{
    static const int errors[] = {[PARKING_INTERRUPTED] = -EINTR,
                                 [PARKING_DEADLINE] = E_NO_COORDINATOR,
                                 [PARKING_STOPPED] = -ENOTCONN};
    struct stream_op *op = op_of(waiter, offsetof(struct stream_op, parked));
    struct group_stream *stream = op->stream;
    (void)pthread_mutex_lock(&stream->lock);
    op->given_up =
        op->nonblock && reason == PARKING_DEADLINE ? -EAGAIN : errors[reason];
    bool syncing = op->state == WAIT_SYNC;
    if (op->state == WAIT_CHANGE)
        op_resume(op);
    (void)pthread_mutex_unlock(&stream->lock);
    if (!syncing || !group_member_sync_cancel(stream->member, &op->sync))
        return;
    (void)pthread_mutex_lock(&stream->lock);
    op_resume(op);
    (void)pthread_mutex_unlock(&stream->lock);
}

/* ---- ops --------------------------------------------------------------------------
 */

static void op_interrupt_by(struct stream_op *op, void (*fn)(void *), void *arg)
{
    struct group_stream_waiter *waiter = op->stream->waiter;
    if (op->reply != NULL)
        reply_on_interrupt(op->reply, fn, arg);
    else
        waiter->on_interrupt(waiter, fn, arg);
}

/* Before it waits for the first time. */
static void op_park(struct stream_op *op)
{
    if (op->is_parked)
        return;
    op->is_parked = true;
    int64_t timeout_ms = op->nonblock ? NONBLOCK_TIMEOUT_MS : PARKING_FOREVER;
    op_interrupt_by(op, parking_interrupt, &op->parked);
    parking_add(&op->parked, op->reply != NULL ? timeout_ms : JOIN_TIMEOUT_MS, 0);
}

/* Before it is answered. */
void stream_op_unpark(struct stream_op *op)
{
    if (!op->is_parked)
        return;
    op->is_parked = false;
    op_interrupt_by(op, NULL, NULL);
    parking_remove(&op->parked);
}

/* It was answered: the stream may go once this is done. */
void stream_op_finish(struct stream_op *op)
{
    struct group_stream *stream = op->stream;
    (void)pthread_mutex_lock(&stream->lock);
    DL_DELETE(stream->ops, op);
    (void)pthread_cond_broadcast(&stream->idle);
    (void)pthread_mutex_unlock(&stream->lock);
    free(op);
}

/* A member fails with E_OFFLINE when the node stops; a partition's disk is another
 * matter.
 */
static int stream_error(struct group_stream *stream, int error)
{
    struct group_member_status status;
    group_member_status(stream->member, &status);
    bool stops = status.state == GROUP_FAILED && status.error == E_OFFLINE;
    return stops && error == E_OFFLINE ? -ENOTCONN : error;
}

/* The opener's answer may bring the end of the stream with it: it is through before. */
void stream_op_fail(struct stream_op *op, int error)
{
    struct group_stream_waiter *waiter = op->stream->waiter;
    struct reply *reply = op->reply;
    error = stream_error(op->stream, error);
    stream_op_unpark(op);
    if (reply == NULL) {
        stream_op_finish(op);
        waiter->done(waiter, error);
        return;
    }
    reply_error(reply, error);
    stream_op_finish(op);
}

int stream_op_given_up(struct stream_op *op)
{
    (void)pthread_mutex_lock(&op->stream->lock);
    int given_up = op->given_up;
    (void)pthread_mutex_unlock(&op->stream->lock);
    return given_up;
}

uint64_t group_stream_changes(struct group_stream *stream)
{
    (void)pthread_mutex_lock(&stream->lock);
    uint64_t changes = stream->changes;
    (void)pthread_mutex_unlock(&stream->lock);
    return changes;
}

bool stream_op_wait_change(struct stream_op *op, uint64_t seen)
{
    struct group_stream *stream = op->stream;
    op_park(op);
    (void)pthread_mutex_lock(&stream->lock);
    bool waits = stream->changes == seen && op->given_up == 0 && !stream->closing;
    if (waits)
        op->state = WAIT_CHANGE;
    else if (stream->closing && op->given_up == 0)
        op->given_up = -ENOTCONN;
    (void)pthread_mutex_unlock(&stream->lock);
    return waits;
}

bool stream_op_synchronise(struct stream_op *op)
{
    struct group_stream *stream = op->stream;
    bool waits = false, cancel = false;
    (void)pthread_mutex_lock(&stream->lock);
    bool given_up = op->given_up != 0;
    op->state = given_up ? RUNNING : ASKING;
    (void)pthread_mutex_unlock(&stream->lock);
    if (given_up) /* who gave it up may be about to cancel the sync before */
        return true;
    op->sync = (struct group_sync){.done = op_synced};
    int rc = group_member_sync(stream->member, &op->sync);
    if (rc == 1)
        op_park(op);
    (void)pthread_mutex_lock(&stream->lock);
    if (op->given_up == 0 && (rc < 0 || stream->closing))
        op->given_up = rc < 0 ? rc : -ENOTCONN;
    if (rc != 1 || op->state == ASKED) {
        op->state = RUNNING;
    } else if (op->given_up != 0) {
        cancel = true;
        op->state = ASKING; /* nobody else resumes it */
    } else {
        op->state = WAIT_SYNC;
        waits = true;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (!cancel)
        return !waits;
    if (group_member_sync_cancel(stream->member, &op->sync)) {
        (void)pthread_mutex_lock(&stream->lock);
        op->state = RUNNING;
        (void)pthread_mutex_unlock(&stream->lock);
        return true;
    }
    /* Its end ran or runs: whoever comes second goes on. */
    (void)pthread_mutex_lock(&stream->lock);
    bool ended = op->state == ASKED;
    op->state = ended ? RUNNING : WAIT_SYNC;
    (void)pthread_mutex_unlock(&stream->lock);
    return ended;
}

/* ---- life -------------------------------------------------------------------------
 */

static void op_run(struct work *work)
{
    struct stream_op *op = op_of(work, offsetof(struct stream_op, work));
    op->go_on(op);
}

struct stream_op *stream_op_new(struct group_stream *stream,
                                void (*go_on)(struct stream_op *op))
{
    struct stream_op *op = calloc(1, sizeof *op);
    if (op == NULL)
        return NULL;
    op->work.run = op_run;
    op->go_on = go_on;
    op->stream = stream;
    op->state = RUNNING;
    parking_waiter_init(&op->parked, stream->parking, op_give_up);
    return op;
}

void stream_op_begin(struct stream_op *op)
{
    struct group_stream *stream = op->stream;
    (void)pthread_mutex_lock(&stream->lock);
    DL_APPEND(stream->ops, op);
    (void)pthread_mutex_unlock(&stream->lock);
    op->go_on(op);
}
