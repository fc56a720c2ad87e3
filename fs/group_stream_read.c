/* Reading from a group's stream. */
#include "fs/group_stream_internal.h"

#include <string.h>

/* JSON is rendered from chunks of one batch, which may be single lines. */
enum { JSON_TAKES_MAX = 512 };

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

/* [history_lock] Likewise. */
static int stream_take(struct group_stream *stream, size_t size)
{
    return stream->format == STREAM_TEXT ? stream_take_text(stream, size)
                                         : stream_take_json(stream, size);
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
    stream_op_unpark(op);
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
    size_t left = group_history_line_left(stream->history, op->at);
    /* Who asks for so and so many bytes is given more than the end of a line. What goes
     * wrong is the next read's. */
    if (left > 0 && left < op->size)
        (void)stream_take(stream, op->size - left);
    if (!read_answer(op)) {
        rc = stream_take(stream, op->size);
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
        if (!stream_op_synchronise(op))
            return;
        rc = stream_op_given_up(op);
        if (rc < 0)
            break;
        uint64_t seen = group_stream_changes(stream);
        rc = read_try(op);
        if (rc == 1) {
            stream_op_finish(op);
            return;
        }
        if (rc == 0 && op->nonblock)
            rc = -EAGAIN;
        if (rc == 0) { /* others that read meanwhile said that nobody waits */
            group_member_touch(stream->member, true);
            if (stream_op_wait_change(op, seen))
                return;
        }
        if (rc == 0)
            rc = stream_op_given_up(op);
    }
    group_member_touch(stream->member, false);
    stream_op_fail(op, rc);
}

void group_stream_read(struct group_stream *stream, struct reply *reply, int64_t at,
                       size_t size, bool nonblock)
{
    if (size == 0) {
        reply_bytes(reply, "", 0);
        return;
    }
    struct stream_op *op = stream_op_new(stream, read_work);
    if (op == NULL) {
        reply_error(reply, -ENOMEM);
        return;
    }
    op->reply = reply;
    op->at = at;
    op->size = size;
    op->nonblock = nonblock;
    stream_op_begin(op);
}
