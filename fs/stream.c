/*
 * A read is tried; if nothing is there it is parked with partition_wait(), and tried
 * anew by whoever brings data. Each round of waiting is complete in itself (see
 * parking.h), so an interrupt that comes between two rounds is found by the next one.
 *
 * Locks: `lock` guards the list of parked reads and the poll; it is taken in callbacks
 * and never held while something is answered. `render` orders the JSON rendering, disk
 * reads and the answer from its memory included; `lock` may be taken under it, not the
 * other way.
 */
#include "fs/stream.h"

#include "fs/json_stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <utlist.h>

struct stream_read {
    struct parking_waiter parked;
    struct read_waiter data;
    atomic_int remaining; /* the data, and the submitter */
    struct stream *stream;
    struct reply *reply;
    int64_t at;
    size_t size;
    int given_up;                    /* 0, or the answer */
    struct stream_read *prev, *next; /* [stream->lock] */
};

struct stream {
    struct view *view;         /* [const] */
    struct parking *parking;   /* [const] */
    enum stream_format format; /* [const] */
    pthread_mutex_t render;
    struct json_stream *json; /* [render] STREAM_JSON */
    pthread_mutex_t lock;
    pthread_cond_t idle;       /* a read or the poll's callback is through */
    struct stream_read *reads; /* [lock] parked or between two rounds */
    int64_t next_at;           /* [lock] where the last read ended */
    int64_t next_view_at;      /* [lock] and where in the view more of it comes from */
    bool closing;              /* [lock] */
    struct stream_notify *notify; /* [lock] */
    struct read_waiter poll_wait;
    bool poll_waits; /* [lock] poll_ready() will run or runs */
};

/* What a try at reading found. */
struct stream_data {
    int error;
    bool ended;      /* the end of a range: nothing will ever come */
    int64_t view_at; /* where more will come from */
    const char *bytes;
    size_t length;
    struct extent extents[REPLY_EXTENTS_MAX];
    size_t extent_count;
};

static void read_again(struct stream_read *read);

int stream_open(struct view *view, enum stream_format format, int key_delimiter,
                struct parking *parking, struct stream **out)
{
    struct stream *stream = calloc(1, sizeof *stream);
    *out = NULL;
    if (stream == NULL)
        return -ENOMEM;
    if (format == STREAM_JSON) {
        stream->json = json_stream_new(view, key_delimiter);
        if (stream->json == NULL) {
            free(stream);
            return -ENOMEM;
        }
    }
    stream->view = view_ref(view);
    stream->parking = parking;
    stream->format = format;
    pthread_mutex_init(&stream->render, NULL);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->idle, NULL);
    *out = stream;
    return 0;
}

/* ---- reading
 * ------------------------------------------------------------------------- */

/* A read that found nothing: is that the end of a range? */
static bool at_end(struct stream *stream, int64_t view_at)
{
    int64_t size = 0;
    return view_size(stream->view, &size) == 0 && view_ended(stream->view) &&
           view_at >= size;
}

/* [render] for JSON: the bytes stay valid until that is unlocked. */
static void look(struct stream *stream, int64_t at, size_t size,
                 struct stream_data *out)
{
    *out = (struct stream_data){.view_at = at};
    if (stream->format == STREAM_TEXT) {
        out->error =
            view_extents(stream->view, at, size, out->extents, &out->extent_count);
        for (size_t i = 0; i < out->extent_count; i++)
            out->length += out->extents[i].length;
    } else {
        out->error = json_stream_read(stream->json, at, size, &out->bytes, &out->length,
                                      &out->view_at);
    }
    if (out->error == 0 && out->length == 0)
        out->ended = at_end(stream, out->view_at);
}

static void note_end(struct stream *stream, int64_t at, const struct stream_data *data)
{
    pthread_mutex_lock(&stream->lock);
    stream->next_at = at + (int64_t)data->length;
    stream->next_view_at =
        stream->format == STREAM_TEXT ? stream->next_at : data->view_at;
    pthread_mutex_unlock(&stream->lock);
}

/* Tries a read: true if it was answered. Else *view_at is where to wait. */
static bool try_read(struct stream *stream, struct reply *reply, int64_t at,
                     size_t size, int64_t *view_at)
{
    struct stream_data data;
    bool answered = true;
    if (stream->format == STREAM_JSON)
        pthread_mutex_lock(&stream->render);
    look(stream, at, size, &data);
    *view_at = data.view_at;
    if (data.error == 0)
        note_end(stream, at, &data);
    if (data.error < 0)
        reply_error(reply, data.error);
    else if (data.extent_count > 0)
        reply_extents(reply, data.extents, data.extent_count);
    else if (data.length > 0 || data.ended)
        reply_bytes(reply, data.bytes, data.length);
    else
        answered = false;
    if (stream->format == STREAM_JSON)
        pthread_mutex_unlock(&stream->render);
    return answered;
}

/* The read was answered: the stream may go once this is done. */
static void finish(struct stream_read *read)
{
    struct stream *stream = read->stream;
    pthread_mutex_lock(&stream->lock);
    DL_DELETE(stream->reads, read);
    pthread_cond_broadcast(&stream->idle);
    pthread_mutex_unlock(&stream->lock);
    free(read);
}

/* One round of waiting is over; no lock is held. */
static void unpark(struct stream_read *read)
{
    reply_on_interrupt(read->reply, NULL, NULL);
    parking_remove(&read->parked);
}

static void end_one(struct stream_read *read)
{
    if (atomic_fetch_sub(&read->remaining, 1) != 1)
        return;
    unpark(read);
    read_again(read);
}

static void data_ready(struct read_waiter *waiter)
{
    end_one(
        (struct stream_read *)((char *)waiter - offsetof(struct stream_read, data)));
}

static void give_up(struct parking_waiter *waiter, enum parking_reason reason)
{
    struct stream_read *read =
        (struct stream_read *)((char *)waiter - offsetof(struct stream_read, parked));
    int answer = reason == PARKING_INTERRUPTED ? -EINTR : -ENOTCONN;
    read->given_up = answer;
    if (partition_wait_cancel(view_partition(read->stream->view), &read->data))
        end_one(read);
}

/* [not parked] Begins a round. 1: there is data already; 0: parked, the read is not
 * ours any more; else an error. */
static int park(struct stream_read *read, int64_t view_at)
{
    struct stream *stream = read->stream;
    int64_t position = 0;
    bool closing;
    int rc = view_next(stream->view, view_at, &position);
    if (rc < 0)
        return rc;
    atomic_store(&read->remaining, 2);
    read->data = (struct read_waiter){.ready = data_ready};
    rc = partition_wait(view_partition(stream->view), position, &read->data);
    if (rc != 0)
        return rc;
    reply_on_interrupt(read->reply, parking_interrupt, &read->parked);
    parking_add(&read->parked, PARKING_FOREVER, 0);
    pthread_mutex_lock(&stream->lock);
    closing = stream->closing;
    pthread_mutex_unlock(&stream->lock);
    if (closing)
        parking_expire(&read->parked);
    if (atomic_fetch_sub(&read->remaining, 1) != 1)
        return 0;
    unpark(read);
    return 1;
}

/* Tries and parks until it is answered or has been parked. */
static void read_again(struct stream_read *read)
{
    int64_t view_at = 0;
    int rc;
    do {
        if (read->given_up == 0 &&
            try_read(read->stream, read->reply, read->at, read->size, &view_at)) {
            finish(read);
            return;
        }
        rc = read->given_up != 0 ? read->given_up : park(read, view_at);
    } while (rc > 0);
    if (rc < 0) {
        reply_error(read->reply, rc);
        finish(read);
    }
}

void stream_read(struct stream *stream, struct reply *reply, int64_t at, size_t size,
                 bool nonblock)
{
    int64_t view_at = 0;
    struct stream_read *read;
    if (at < 0) {
        reply_error(reply, -EINVAL);
        return;
    }
    if (size == 0) {
        reply_bytes(reply, NULL, 0);
        return;
    }
    if (try_read(stream, reply, at, size, &view_at))
        return;
    if (nonblock) {
        reply_error(reply, -EAGAIN);
        return;
    }
    read = calloc(1, sizeof *read);
    if (read == NULL) {
        reply_error(reply, -ENOMEM);
        return;
    }
    read->stream = stream;
    read->reply = reply;
    read->at = at;
    read->size = size;
    parking_waiter_init(&read->parked, stream->parking, give_up);
    pthread_mutex_lock(&stream->lock);
    DL_APPEND(stream->reads, read);
    pthread_mutex_unlock(&stream->lock);
    read_again(read);
}

/* ---- poll
 * ----------------------------------------------------------------------------- */

static void poll_ready(struct read_waiter *waiter)
{
    struct stream *stream =
        (struct stream *)((char *)waiter - offsetof(struct stream, poll_wait));
    pthread_mutex_lock(&stream->lock);
    /* A poll that comes while one is fired sees poll_waits and relies on us. */
    while (stream->notify != NULL) {
        struct stream_notify *notify = stream->notify;
        stream->notify = NULL;
        pthread_mutex_unlock(&stream->lock);
        notify->fire(notify);
        pthread_mutex_lock(&stream->lock);
    }
    stream->poll_waits = false;
    pthread_cond_broadcast(&stream->idle);
    pthread_mutex_unlock(&stream->lock);
}

/* true: a read there would answer at once (with data, the end, or an error). */
static bool readable(struct stream *stream, int64_t at, int64_t *view_at)
{
    struct stream_data data;
    if (stream->format == STREAM_JSON)
        pthread_mutex_lock(&stream->render);
    look(stream, at, 1, &data);
    if (stream->format == STREAM_JSON)
        pthread_mutex_unlock(&stream->render);
    for (size_t i = 0; i < data.extent_count; i++)
        extent_release(&data.extents[i]);
    *view_at = data.view_at;
    return data.error < 0 || data.length > 0 || data.ended;
}

/* Ends the poll's wait if the stream is being closed. */
static void end_poll(struct stream *stream, bool closing)
{
    bool waits;
    pthread_mutex_lock(&stream->lock);
    stream->closing = stream->closing || closing;
    waits = stream->closing && stream->poll_waits;
    pthread_mutex_unlock(&stream->lock);
    if (!waits ||
        !partition_wait_cancel(view_partition(stream->view), &stream->poll_wait))
        return;
    pthread_mutex_lock(&stream->lock);
    stream->poll_waits = false;
    pthread_cond_broadcast(&stream->idle);
    pthread_mutex_unlock(&stream->lock);
}

/* Arms the poll. true: readable after all. */
static bool poll_wait(struct stream *stream, int64_t view_at)
{
    int64_t position = 0;
    int rc = view_next(stream->view, view_at, &position);
    if (rc < 0)
        return true;
    pthread_mutex_lock(&stream->lock);
    if (stream->poll_waits || stream->closing) {
        pthread_mutex_unlock(&stream->lock);
        return false;
    }
    stream->poll_waits = true;
    pthread_mutex_unlock(&stream->lock);
    stream->poll_wait = (struct read_waiter){.ready = poll_ready};
    rc = partition_wait(view_partition(stream->view), position, &stream->poll_wait);
    if (rc == 0) {
        end_poll(stream, false);
        return false;
    }
    poll_ready(&stream->poll_wait);
    return true;
}

static void set_notify(struct stream *stream, struct stream_notify *notify)
{
    struct stream_notify *old;
    pthread_mutex_lock(&stream->lock);
    old = stream->notify;
    stream->notify = notify;
    pthread_mutex_unlock(&stream->lock);
    if (old != NULL)
        old->free(old);
}

bool stream_poll(struct stream *stream, struct stream_notify *notify)
{
    int64_t at;
    int64_t view_at = 0;
    pthread_mutex_lock(&stream->lock);
    at = stream->next_at;
    pthread_mutex_unlock(&stream->lock);
    if (notify != NULL)
        set_notify(stream, notify);
    bool ready = readable(stream, at, &view_at);
    if (notify == NULL)
        return ready;
    if (!ready)
        return poll_wait(stream, view_at);
    /* Who is woken by edges alone (EPOLLET) reads what is there, and asks no more until
     * the next message. */
    int64_t end = 0;
    if (view_size(stream->view, &end) == 0 && !view_ended(stream->view))
        (void)poll_wait(stream, end);
    return true;
}

/* ---- closing
 * --------------------------------------------------------------------------- */

void stream_close(struct stream *stream)
{
    struct stream_read *read;
    if (stream == NULL)
        return;
    end_poll(stream, true);
    pthread_mutex_lock(&stream->lock);
    DL_FOREACH(stream->reads, read)
    parking_expire(&read->parked);
    while (stream->reads != NULL || stream->poll_waits)
        pthread_cond_wait(&stream->idle, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
    set_notify(stream, NULL);
    json_stream_free(stream->json);
    view_unref(stream->view);
    pthread_cond_destroy(&stream->idle);
    pthread_mutex_destroy(&stream->lock);
    pthread_mutex_destroy(&stream->render);
    free(stream);
}
