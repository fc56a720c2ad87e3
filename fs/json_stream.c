#include "fs/json_stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEPT_BYTES = 256 * 1024, /* behind the reader */
    CHUNK_BYTES = 64 * 1024, /* of the log read at once; a long line takes more */
};

/* Rendering may multiply a line's size by six (control characters). */
static const size_t RENDERED_MAX = (size_t)1 << 31;

struct json_stream {
    struct view *view; /* [const] borrowed */
    int key_delimiter; /* [const] */
    struct buf out;    /* rendered bytes, from out_at on */
    int64_t out_at;
    int64_t at;        /* file offset in the view of the next message */
    int64_t offset;    /* its message offset; -1: its batch is not known */
    int64_t batch_end; /* file offset in the view behind its batch */
    int64_t timestamp_ms;
    char *text; /* view bytes from `at` on, up to text_length */
    size_t text_length;
    size_t text_capacity;
};

/* ---- reading the log
 * ----------------------------------------------------------------- */

static int grow_text(struct json_stream *json, size_t capacity)
{
    char *text;
    if (capacity <= json->text_capacity)
        return 0;
    text = realloc(json->text, capacity);
    if (text == NULL)
        return -ENOMEM;
    json->text = text;
    json->text_capacity = capacity;
    return 0;
}

/* Reads on behind the text that is there; *more false at the present end. */
static int read_more(struct json_stream *json, size_t size, bool *more)
{
    struct extent extents[REPLY_EXTENTS_MAX];
    size_t count = 0;
    int rc = grow_text(json, json->text_length + size);
    if (rc == 0)
        rc = view_extents(json->view, json->at + (int64_t)json->text_length, size,
                          extents, &count);
    *more = count > 0;
    for (size_t i = 0; i < count; i++) {
        if (rc == 0)
            rc = extent_read(&extents[i], json->text + json->text_length);
        if (rc == 0)
            json->text_length += extents[i].length;
        extent_release(&extents[i]);
    }
    return rc;
}

/* Reads until the text holds a whole line; *newline NULL if there is none to be seen.
 */
static int need_line(struct json_stream *json, const char **newline)
{
    size_t looked = 0;
    for (;;) {
        size_t step = json->text_length > CHUNK_BYTES ? json->text_length : CHUNK_BYTES;
        bool more = false;
        int rc;
        *newline = NULL;
        if (json->text_length > looked)
            *newline = memchr(json->text + looked, '\n', json->text_length - looked);
        if (*newline != NULL)
            return 0;
        looked = json->text_length;
        rc = read_more(json, step, &more);
        if (rc < 0 || !more)
            return rc;
    }
}

/* How many messages of the batch lie before the first byte that the view shows. */
static int count_before(struct json_stream *json, const struct batch *batch,
                        int64_t position, int64_t *count)
{
    struct partition *partition = view_partition(json->view);
    struct partition_status status;
    char bytes[8192];
    partition_status_get(partition, &status);
    *count = 0;
    for (int64_t at = batch->position; at < position;) {
        struct extent extent = {.fd = -1};
        size_t want = sizeof bytes;
        int rc;
        if ((int64_t)want > position - at)
            want = (size_t)(position - at);
        rc = partition_read(partition, at, want, status.rewrites, &extent);
        if (rc == 0 && extent.length == 0)
            rc = E_OFFSET_BELOW_START;
        if (rc == 0)
            rc = extent_read(&extent, bytes);
        for (size_t i = 0; rc == 0 && i < extent.length; i++)
            *count += bytes[i] == '\n';
        at += (int64_t)extent.length;
        extent_release(&extent);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The offset and time of the message at json->at. Within a batch offsets are
 * consecutive; between batches compaction may have left holes. */
static int need_batch(struct json_stream *json)
{
    struct batch batch;
    int64_t base;
    int64_t before = 0;
    int rc;
    if (json->offset >= 0 && json->at < json->batch_end)
        return 0;
    rc = view_batch(json->view, json->at, &batch);
    if (rc < 0)
        return rc;
    base = view_base(json->view);
    if (batch.position < base + json->at) {
        rc = count_before(json, &batch, base + json->at, &before);
        if (rc < 0)
            return rc;
    }
    json->offset = batch.base_offset + before;
    json->timestamp_ms = batch.timestamp_ms;
    json->batch_end = batch.position + batch.length - base;
    return 0;
}

/* ---- the stream
 * ---------------------------------------------------------------------- */

struct json_stream *json_stream_new(struct view *view, int key_delimiter)
{
    struct json_stream *json = calloc(1, sizeof *json);
    if (json == NULL)
        return NULL;
    json->view = view;
    json->key_delimiter = key_delimiter;
    json->offset = -1;
    buf_init(&json->out, RENDERED_MAX);
    return json;
}

void json_stream_free(struct json_stream *json)
{
    if (json == NULL)
        return;
    buf_free(&json->out);
    free(json->text);
    free(json);
}

static void start_again(struct json_stream *json)
{
    buf_free(&json->out);
    json->out_at = 0;
    json->at = 0;
    json->offset = -1;
    json->text_length = 0;
}

/* Renders the lines of the text that are there, `enough` bytes of output at least. */
static int render_text(struct json_stream *json, size_t enough)
{
    size_t used = 0;
    int rc = 0;
    while (json->out.length < enough) {
        const char *line = json->text + used;
        const char *newline = memchr(line, '\n', json->text_length - used);
        if (newline == NULL || (rc = need_batch(json)) < 0)
            break;
        rc = message_json_add(&json->out, -1, json->offset, json->timestamp_ms, line,
                              (size_t)(newline - line), json->key_delimiter);
        if (rc < 0) {
            /* The buffer has let go of everything. */
            start_again(json);
            return -ENOMEM;
        }
        used += (size_t)(newline - line) + 1;
        json->at += newline - line + 1;
        json->offset++;
    }
    json->text_length -= used;
    memmove(json->text, json->text + used, json->text_length);
    return rc;
}

/* Drops what lies far behind `at`, seldom enough that moving the rest costs little. */
static void forget_old(struct json_stream *json, int64_t at)
{
    int64_t behind = at - json->out_at;
    if (behind > 2 * KEPT_BYTES) {
        size_t drop = (size_t)(behind - KEPT_BYTES);
        if (drop > json->out.length)
            drop = json->out.length;
        buf_consume(&json->out, drop);
        json->out_at += (int64_t)drop;
    }
}

/* Renders until `at` + 1 bytes are there, or nothing more is visible. */
static int render_to(struct json_stream *json, int64_t at, size_t size)
{
    for (;;) {
        const char *newline = NULL;
        int64_t have = json->out_at + (int64_t)json->out.length;
        int rc;
        if (have > at && (size_t)(have - at) >= size)
            return 0;
        forget_old(json, have < at ? have : at);
        rc = need_line(json, &newline);
        if (rc == 0 && newline != NULL)
            rc = render_text(json, json->out.length + CHUNK_BYTES);
        if (rc < 0 && rc != -ENOMEM && have > at)
            return 0; /* first what is good; the next read meets the error */
        if (rc < 0 || newline == NULL)
            return rc;
    }
}

int json_stream_read(struct json_stream *json, int64_t at, size_t size,
                     const char **bytes, size_t *length, int64_t *next_at)
{
    int64_t have;
    int rc;
    *bytes = NULL;
    *length = 0;
    if (at < 0)
        return -EINVAL;
    if (at < json->out_at)
        start_again(json);
    rc = render_to(json, at, size < CHUNK_BYTES ? 1 : size);
    *next_at = json->at + (int64_t)json->text_length;
    have = json->out_at + (int64_t)json->out.length;
    if (rc < 0 || have <= at)
        return rc;
    *bytes = json->out.data + (at - json->out_at);
    *length = (size_t)(have - at);
    if (*length > size)
        *length = size;
    return 0;
}
