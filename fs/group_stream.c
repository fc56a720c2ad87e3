/*
 * What waits is an `op`: the opener, until the member has joined, or a read. One thread
 * at a time works on an op; it works until the op is answered or has to wait for
 * something, and then whoever brings that hands the op to the worker:
 *
 *     RUNNING      somebody works on it
 *     WAIT_CHANGE  for changed(): joined, or data
 *     ASKING       is about to wait for a commit; its end may come before the wait
 *     ASKED        the end came before
 *     WAIT_SYNC    waits for the commit
 *
 * Locks: `history_lock` guards what was handed out, disk reads and the answer from its
 * memory included, so that chunks keep their order; `lock` guards ops and their states,
 * and may be taken under it. Neither is held when the member or the parking waits for a
 * callback that takes it: callbacks take `lock` alone.
 */
#include "fs/group_stream.h"

#include "fs/group_history.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    JOIN_TIMEOUT_MS = 30000,
    NONBLOCK_TIMEOUT_MS = 500, /* for the commit of what was finished */
};
/* JSON is rendered from chunks of one batch, which may be single lines. */
enum { JSON_TAKES_MAX = 512, LINES_MAX = 80 * 1024 * 1024 };

enum stream_op_state { RUNNING, WAIT_CHANGE, ASKING, ASKED, WAIT_SYNC };

struct stream_op {
    struct work work;
    struct parking_waiter parked;
    struct group_sync sync;
    struct group_stream *stream;
    bool is_parked;                /* of who works on it */
    bool consumed;                 /* likewise: what lies below `at` was finished */
    enum stream_op_state state;    /* [lock] */
    int given_up;                  /* [lock] 0, or the answer */
    struct stream_op *prev, *next; /* [lock] */
    /* of a read; reply NULL: the opener */
    struct reply *reply;
    int64_t at;
    size_t size;
    bool nonblock;
};

struct group_stream {
    struct parking *parking; /* [const], as the next three */
    struct worker *worker;
    enum stream_format format;
    int key_delimiter;
    struct group_member *member; /* [const] */
    pthread_mutex_t history_lock;
    struct group_history *history; /* [history_lock] */
    struct buf lines;              /* [history_lock] of STREAM_JSON */
    pthread_mutex_t lock;
    pthread_cond_t idle;                /* an op is through */
    uint64_t changes;                   /* [lock] calls of changed() */
    struct stream_op *ops;              /* [lock] */
    bool closing;                       /* [lock] */
    int64_t next_at;                    /* [lock] where the last read ended */
    struct stream_notify *notify;       /* [lock] */
    struct group_stream_waiter *waiter; /* the opener's */
};

static void op_work(struct stream_op *op);

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

static void stream_changed(void *arg)
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
static void op_unpark(struct stream_op *op)
{
    if (!op->is_parked)
        return;
    op->is_parked = false;
    op_interrupt_by(op, NULL, NULL);
    parking_remove(&op->parked);
}

/* It was answered: the stream may go once this is done. */
static void op_finish(struct stream_op *op)
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
static void op_error(struct stream_op *op, int error)
{
    struct group_stream_waiter *waiter = op->stream->waiter;
    struct reply *reply = op->reply;
    error = stream_error(op->stream, error);
    op_unpark(op);
    if (reply == NULL) {
        op_finish(op);
        waiter->done(waiter, error);
        return;
    }
    reply_error(reply, error);
    op_finish(op);
}

static int op_given_up(struct stream_op *op)
{
    (void)pthread_mutex_lock(&op->stream->lock);
    int given_up = op->given_up;
    (void)pthread_mutex_unlock(&op->stream->lock);
    return given_up;
}

static uint64_t stream_changes(struct group_stream *stream)
{
    (void)pthread_mutex_lock(&stream->lock);
    uint64_t changes = stream->changes;
    (void)pthread_mutex_unlock(&stream->lock);
    return changes;
}

/* true: it waits and is not ours any more; false: something changed since `seen`. */
static bool op_wait_change(struct stream_op *op, uint64_t seen)
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

/* Everything finished so far is committed, or the op was given up: true. false: the op
 * waits for that and is not ours any more. */
static bool op_synchronise(struct stream_op *op)
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

/* ---- reading ----------------------------------------------------------------------
 */

/* Grants that turned out to be another member's while they were finished. */
struct stream_lost {
    struct group_stream *stream;
    struct group_chunk chunks[16];
    size_t count;
};

static void stream_finish_chunk(void *arg, const struct group_chunk *chunk,
                                int64_t next_offset)
{
    struct stream_lost *lost = arg;
    int rc = group_member_finish(lost->stream->member, chunk, next_offset);
    /* Those beyond are found at their next line. */
    if (rc == E_GROUP_FENCED &&
        lost->count < sizeof lost->chunks / sizeof *lost->chunks)
        lost->chunks[lost->count++] = *chunk;
}

/* [history_lock] */
static int stream_consume(struct group_stream *stream, int64_t at)
{
    struct stream_lost lost = {.stream = stream};
    if (at > group_history_end(stream->history))
        return -EINVAL;
    if (at < group_history_start(stream->history))
        return -ESTALE;
    group_history_consume(stream->history, at, stream_finish_chunk, &lost);
    for (size_t i = 0; i < lost.count; i++)
        group_history_lose(stream->history, lost.chunks[i].partition,
                           lost.chunks[i].generation);
    return 0;
}

/* [history_lock] Renders `lines`, which is one chunk. */
static int stream_render(struct group_stream *stream, const struct group_chunk *chunk)
{
    struct buf *out = group_history_bytes(stream->history);
    const char *at = stream->lines.data;
    int64_t offset = chunk->first_offset;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < chunk->count; i++) {
        const char *end =
            memchr(at, '\n', stream->lines.length - (size_t)(at - stream->lines.data));
        if (end == NULL)
            return -EIO;
        rc = message_json_add(out, chunk->partition, offset++, chunk->timestamp_ms, at,
                              (size_t)(end - at), stream->key_delimiter);
        at = end + 1;
    }
    return rc;
}

/* [history_lock] 1: there is more in the history; 0; an error. */
static int stream_take_text(struct group_stream *stream, size_t size)
{
    struct group_chunk chunk;
    int rc = group_member_take(stream->member, size, false,
                               group_history_bytes(stream->history), &chunk);
    if (rc != 1) {
        group_history_undo(stream->history);
        return rc;
    }
    rc = group_history_add(stream->history, &chunk);
    if (rc < 0)
        group_member_take_back(stream->member, &chunk);
    return rc < 0 ? rc : 1;
}

static int stream_take_json(struct group_stream *stream, size_t size)
{
    int64_t limit = group_history_end(stream->history) + (int64_t)size;
    int taken = 0;
    int rc = 1;
    for (int i = 0;
         rc == 1 && i < JSON_TAKES_MAX && group_history_end(stream->history) < limit;
         i++) {
        struct group_chunk chunk;
        buf_clear(&stream->lines);
        rc = group_member_take(stream->member, size, true, &stream->lines, &chunk);
        if (rc != 1)
            break;
        rc = stream_render(stream, &chunk);
        if (rc == 0)
            rc = group_history_add(stream->history, &chunk);
        else
            group_history_undo(stream->history);
        if (rc < 0) {
            group_member_take_back(stream->member, &chunk);
            return rc;
        }
        taken = rc = 1;
    }
    return taken == 1 ? 1 : rc;
}

/* [history_lock] Answers with what is there: true. */
static bool read_answer(struct stream_op *op)
{
    struct group_stream *stream = op->stream;
    const char *bytes;
    size_t length;
    int rc = group_history_read(stream->history, op->at, op->size, &bytes, &length);
    if (rc == 0 && length == 0)
        return false;
    group_member_touch(stream->member, false);
    (void)pthread_mutex_lock(&stream->lock);
    if (rc == 0)
        stream->next_at = op->at + (int64_t)length;
    (void)pthread_mutex_unlock(&stream->lock);
    op_unpark(op);
    if (rc < 0)
        reply_error(op->reply, rc);
    else
        reply_bytes(op->reply, bytes, length);
    return true;
}

static bool stream_has(void *arg, const struct group_chunk *chunk)
{
    struct group_stream *stream = arg;
    return group_member_has(stream->member, chunk);
}

/* Tries to answer a read whose finished lines are committed. 1: answered; 0: nothing is
 * there; an error. */
static int read_try(struct stream_op *op)
{
    struct group_stream *stream = op->stream;
    int rc = 1;
    (void)pthread_mutex_lock(&stream->history_lock);
    group_history_check(stream->history, stream_has, stream);
    if (!read_answer(op)) {
        rc = stream->format == STREAM_TEXT ? stream_take_text(stream, op->size)
                                           : stream_take_json(stream, op->size);
        if (rc == 1 && !read_answer(op))
            rc = 0;
    }
    (void)pthread_mutex_unlock(&stream->history_lock);
    return rc;
}

static int read_consume(struct stream_op *op)
{
    struct group_stream *stream = op->stream;
    int rc = 0;
    if (op->consumed)
        return 0;
    op->consumed = true;
    group_member_touch(stream->member, true);
    (void)pthread_mutex_lock(&stream->history_lock);
    rc = stream_consume(stream, op->at);
    (void)pthread_mutex_unlock(&stream->history_lock);
    return rc;
}

/* Works on a read until it is answered or waits. */
static void read_work(struct stream_op *op)
{
    struct group_stream *stream = op->stream;
    int rc = read_consume(op);
    while (rc == 0) {
        if (!op_synchronise(op))
            return;
        rc = op_given_up(op);
        if (rc < 0)
            break;
        uint64_t seen = stream_changes(stream);
        rc = read_try(op);
        if (rc == 1) {
            op_finish(op);
            return;
        }
        if (rc == 0 && op->nonblock)
            rc = -EAGAIN;
        if (rc == 0 && op_wait_change(op, seen))
            return;
        if (rc == 0)
            rc = op_given_up(op);
    }
    group_member_touch(stream->member, false);
    op_error(op, rc);
}

/* ---- opening ----------------------------------------------------------------------
 */

static void open_work(struct stream_op *op)
{
    struct group_stream *stream = op->stream;
    struct group_member_status status;
    for (;;) {
        uint64_t seen = stream_changes(stream);
        int rc = op_given_up(op);
        group_member_status(stream->member, &status);
        if (status.state == GROUP_JOINED)
            rc = 0;
        else if (status.state == GROUP_FAILED)
            rc = status.error;
        else if (rc == 0 && op_wait_change(op, seen))
            return;
        else if (rc == 0)
            continue;
        op_error(op, rc);
        return;
    }
}

static void op_work(struct stream_op *op)
{
    if (op->reply != NULL)
        read_work(op);
    else
        open_work(op);
}

static void op_run(struct work *work)
{
    op_work(op_of(work, offsetof(struct stream_op, work)));
}

static struct stream_op *op_new(struct group_stream *stream)
{
    struct stream_op *op = calloc(1, sizeof *op);
    if (op == NULL)
        return NULL;
    op->work.run = op_run;
    op->stream = stream;
    op->state = RUNNING;
    parking_waiter_init(&op->parked, stream->parking, op_give_up);
    return op;
}

static void op_begin(struct stream_op *op)
{
    struct group_stream *stream = op->stream;
    (void)pthread_mutex_lock(&stream->lock);
    DL_APPEND(stream->ops, op);
    (void)pthread_mutex_unlock(&stream->lock);
    op_work(op);
}

void group_stream_await(struct group_stream *stream, struct group_stream_waiter *waiter)
{
    struct stream_op *op = op_new(stream);
    if (op == NULL) {
        waiter->done(waiter, -ENOMEM);
        return;
    }
    stream->waiter = waiter;
    op_begin(op);
}

void group_stream_read(struct group_stream *stream, struct reply *reply, int64_t at,
                       size_t size, bool nonblock)
{
    if (size == 0) {
        reply_bytes(reply, "", 0);
        return;
    }
    struct stream_op *op = op_new(stream);
    if (op == NULL) {
        reply_error(reply, -ENOMEM);
        return;
    }
    op->reply = reply;
    op->at = at;
    op->size = size;
    op->nonblock = nonblock;
    op_begin(op);
}

/* ---- poll -------------------------------------------------------------------------
 */

static bool stream_readable(struct group_stream *stream, int64_t at)
{
    (void)pthread_mutex_lock(&stream->history_lock);
    bool readable = at < group_history_end(stream->history);
    (void)pthread_mutex_unlock(&stream->history_lock);
    struct group_member_status status;
    group_member_status(stream->member, &status);
    return readable || status.state == GROUP_FAILED ||
           group_member_ready(stream->member);
}

bool group_stream_poll(struct group_stream *stream, struct stream_notify *notify)
{
    (void)pthread_mutex_lock(&stream->lock);
    int64_t at = stream->next_at;
    struct stream_notify *old = NULL;
    if (notify != NULL) {
        old = stream->notify;
        stream->notify = notify;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (old != NULL)
        old->free(old);
    /* After the notify is set: what changes in between fires it. */
    return stream_readable(stream, at);
}

/* ---- life -------------------------------------------------------------------------
 */

static void stream_free(struct group_stream *stream)
{
    group_history_free(stream->history);
    buf_free(&stream->lines);
    (void)pthread_cond_destroy(&stream->idle);
    (void)pthread_mutex_destroy(&stream->lock);
    (void)pthread_mutex_destroy(&stream->history_lock);
    free(stream);
}

int group_stream_open(const struct group_stream_params *params,
                      struct group_stream **out)
{
    struct group_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        return -ENOMEM;
    stream->parking = params->parking;
    stream->worker = params->worker;
    stream->format = params->format;
    stream->key_delimiter = params->key_delimiter;
    (void)pthread_mutex_init(&stream->history_lock, NULL);
    (void)pthread_mutex_init(&stream->lock, NULL);
    (void)pthread_cond_init(&stream->idle, NULL);
    buf_init(&stream->lines, LINES_MAX);
    stream->history = group_history_new();
    struct group_member_params member = {
        .group = params->group,
        .topic = params->topic,
        .topic_id = params->topic_id,
        .changed = stream_changed,
        .arg = stream,
    };
    int rc = stream->history == NULL
                 ? -ENOMEM
                 : group_member_join(params->groups, &member, &stream->member);
    if (rc < 0) {
        stream_free(stream);
        return rc;
    }
    *out = stream;
    return 0;
}

void group_stream_close(struct group_stream *stream)
{
    struct stream_op *op;
    if (stream == NULL)
        return;
    (void)pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    DL_FOREACH(stream->ops, op)
    {
        if (op->state == WAIT_CHANGE || op->state == WAIT_SYNC)
            parking_expire(&op->parked);
    }
    while (stream->ops != NULL)
        (void)pthread_cond_wait(&stream->idle, &stream->lock);
    struct stream_notify *notify = stream->notify;
    stream->notify = NULL;
    (void)pthread_mutex_unlock(&stream->lock);
    if (notify != NULL)
        notify->free(notify);
    group_member_leave(stream->member);
    stream_free(stream);
}
