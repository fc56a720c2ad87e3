#include "fs/group_stream_internal.h"

#include <stdlib.h>
#include <utlist.h>

enum { LINES_MAX = 80 * 1024 * 1024 };

/* ---- opening ----------------------------------------------------------------------
 */

static void open_work(struct stream_op *op)
{
    struct group_stream *stream = op->stream;
    struct group_member_status status;
    for (;;) {
        uint64_t seen = group_stream_changes(stream);
        int rc = stream_op_given_up(op);
        group_member_status(stream->member, &status);
        if (status.state == GROUP_JOINED)
            rc = 0;
        else if (status.state == GROUP_FAILED)
            rc = status.error;
        else if (rc == 0 && stream_op_wait_change(op, seen))
            return;
        else if (rc == 0)
            continue;
        stream_op_fail(op, rc);
        return;
    }
}

void group_stream_await(struct group_stream *stream, struct group_stream_waiter *waiter)
{
    struct stream_op *op = stream_op_new(stream, open_work);
    if (op == NULL) {
        waiter->done(waiter, -ENOMEM);
        return;
    }
    stream->waiter = waiter;
    stream_op_begin(op);
}

/* ---- poll -------------------------------------------------------------------------
 */

static bool stream_readable(struct group_stream *stream, int64_t at)
{
    (void)pthread_mutex_lock(&stream->history_lock);
    bool readable = at < group_history_end(stream->history);
    (void)pthread_mutex_unlock(&stream->history_lock);
    bool due = group_member_poll(stream->member);
    return readable || due;
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
        .changed = group_stream_changed,
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
