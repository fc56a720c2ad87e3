#include "fs/group_history.h"

#include <stdlib.h>
#include <string.h>

/* A read's worth of lines may be one of the longest, rendered as JSON. */
enum { HISTORY_MAX = 512 * 1024 * 1024 };

struct history_chunk {
    struct group_chunk chunk;
    int64_t start; /* file offsets */
    int64_t end;
    int64_t finished; /* behind the last line that is finished */
    int64_t next_offset;
    bool lost;
};

struct group_history {
    struct buf bytes;
    int64_t base;                 /* file offset of bytes.data[0] */
    int64_t start;                /* below it nothing can be read */
    int64_t end;                  /* of the last chunk */
    struct history_chunk *chunks; /* in order; the first `gone` are forgotten */
    size_t gone;
    size_t count;
    size_t allocated;
};

struct group_history *group_history_new(void)
{
    struct group_history *history = calloc(1, sizeof *history);
    if (history != NULL)
        buf_init(&history->bytes, HISTORY_MAX);
    return history;
}

void group_history_free(struct group_history *history)
{
    if (history == NULL)
        return;
    buf_free(&history->bytes);
    free(history->chunks);
    free(history);
}

struct buf *group_history_bytes(struct group_history *history)
{
    return &history->bytes;
}

void group_history_undo(struct group_history *history)
{
    if (buf_error(&history->bytes) == 0)
        history->bytes.length = (size_t)(history->end - history->base);
}

int64_t group_history_start(const struct group_history *history)
{
    return history->start;
}

int64_t group_history_end(const struct group_history *history)
{
    return history->end;
}

/* The buffer failed and freed itself: nothing of it can be read any more. */
static int history_failed(struct group_history *history)
{
    buf_free(&history->bytes);
    history->base = history->start = history->end;
    return -ENOMEM;
}

static bool history_make_room(struct group_history *history)
{
    if (history->count < history->allocated)
        return true;
    size_t size = history->allocated > 0 ? history->allocated * 2 : 8;
    struct history_chunk *chunks = realloc(history->chunks, size * sizeof *chunks);
    if (chunks == NULL)
        return false;
    history->chunks = chunks;
    history->allocated = size;
    return true;
}

int group_history_add(struct group_history *history, const struct group_chunk *chunk)
{
    if (buf_error(&history->bytes) != 0)
        return history_failed(history);
    if (!history_make_room(history)) {
        group_history_undo(history);
        return -ENOMEM;
    }
    struct history_chunk *added = &history->chunks[history->count++];
    *added = (struct history_chunk){
        .chunk = *chunk,
        .start = history->end,
        .end = history->base + (int64_t)history->bytes.length,
        .finished = history->end,
        .next_offset = chunk->first_offset,
    };
    history->end = added->end;
    return 0;
}

static const char *history_at(const struct group_history *history, int64_t at)
{
    return history->bytes.data + (at - history->base);
}

/* Counts the lines of the chunk that end at or below `at`. */
static bool history_advance(const struct group_history *history,
                            struct history_chunk *chunk, int64_t at)
{
    int64_t before = chunk->next_offset;
    if (at >= chunk->end) { /* who reads in blocks finishes it as a whole */
        chunk->finished = chunk->end;
        chunk->next_offset = chunk->chunk.next_offset;
    }
    while (at < chunk->end && chunk->finished < at) {
        const char *from = history_at(history, chunk->finished);
        const char *newline = memchr(from, '\n', (size_t)(at - chunk->finished));
        if (newline == NULL)
            break;
        chunk->finished += newline + 1 - from;
        chunk->next_offset++;
    }
    return chunk->next_offset > before;
}

static void history_forget(struct group_history *history, int64_t at)
{
    while (history->gone < history->count && history->chunks[history->gone].end <= at)
        history->gone++;
    if (history->gone * 2 > history->count) {
        history->count -= history->gone;
        memmove(history->chunks, history->chunks + history->gone,
                history->count * sizeof *history->chunks);
        history->gone = 0;
    }
    history->start = history->count > 0 ? history->chunks[history->gone].finished : at;
    /* Not at each line of a reader that goes line by line. */
    size_t dead = (size_t)(history->start - history->base);
    if (dead * 2 >= history->bytes.length) {
        buf_consume(&history->bytes, dead);
        history->base = history->start;
    }
}

void group_history_consume(struct group_history *history, int64_t at,
                           group_history_fn *fn, void *arg)
{
    for (size_t i = history->gone; i < history->count; i++) {
        struct history_chunk *chunk = &history->chunks[i];
        if (chunk->start >= at)
            break;
        if (history_advance(history, chunk, at) && !chunk->lost)
            fn(arg, &chunk->chunk, chunk->next_offset);
    }
    history_forget(history, at);
}

/* The index of the chunk that the byte at `at` belongs to; `at` is below the end. */
static size_t history_find(const struct group_history *history, int64_t at)
{
    size_t i = history->gone;
    while (history->chunks[i].end <= at)
        i++;
    return i;
}

/* Takes [at, the chunk's end) out: what follows moves up to it. */
static void history_cut(struct group_history *history, size_t index, int64_t at)
{
    struct history_chunk *chunk = &history->chunks[index];
    int64_t cut = chunk->end - at;
    char *to = history->bytes.data + (at - history->base);
    memmove(to, to + cut, (size_t)(history->end - chunk->end));
    history->bytes.length -= (size_t)cut;
    history->end -= cut;
    chunk->end = at;
    for (size_t i = index + 1; i < history->count; i++) {
        history->chunks[i].start -= cut;
        history->chunks[i].end -= cut;
        history->chunks[i].finished -= cut;
    }
}

/* Where a read from the chunk at `index` has to end: in front of the first lost one. */
static int64_t history_limit(const struct group_history *history, size_t index)
{
    while (++index < history->count) {
        if (history->chunks[index].lost)
            return history->chunks[index].start;
    }
    return history->end;
}

/* The end of the line that `at` is in. */
static int64_t history_line_end(const struct group_history *history, int64_t at,
                                int64_t end)
{
    const char *from = history->bytes.data + (at - history->base);
    const char *newline = memchr(from, '\n', (size_t)(end - at));
    return newline != NULL ? at + (newline + 1 - from) : end;
}

int group_history_read(struct group_history *history, int64_t at, size_t size,
                       const char **bytes, size_t *length)
{
    *bytes = "";
    *length = 0;
    if (at > history->end)
        return -EINVAL;
    if (at < history->start)
        return -ESTALE;
    while (at < history->end && size > 0) {
        size_t index = history_find(history, at);
        const struct history_chunk *chunk = &history->chunks[index];
        int64_t limit;
        if (!chunk->lost) {
            limit = history_limit(history, index);
        } else if (at <= chunk->finished) {
            history_cut(history, index, at);
            continue;
        } else {
            limit = history_line_end(history, at, chunk->end);
        }
        *bytes = history_at(history, at);
        *length = (uint64_t)(limit - at) < size ? (size_t)(limit - at) : size;
        break;
    }
    return 0;
}

size_t group_history_line_left(const struct group_history *history, int64_t at)
{
    if (at <= history->start || at >= history->end ||
        history->chunks[history_find(history, at)].lost ||
        *history_at(history, at - 1) == '\n' ||
        history_line_end(history, at, history->end) != history->end)
        return 0;
    return (size_t)(history->end - at);
}

void group_history_check(struct group_history *history, group_history_has_fn *has,
                         void *arg)
{
    const struct history_chunk *before = NULL;
    for (size_t i = history->gone; i < history->count; i++) {
        struct history_chunk *chunk = &history->chunks[i];
        bool same = before != NULL &&
                    before->chunk.partition == chunk->chunk.partition &&
                    before->chunk.generation == chunk->chunk.generation;
        if (!chunk->lost)
            chunk->lost = same ? before->lost : !has(arg, &chunk->chunk);
        before = chunk;
    }
}

void group_history_lose(struct group_history *history, int32_t partition,
                        int64_t generation)
{
    for (size_t i = history->gone; i < history->count; i++) {
        struct history_chunk *chunk = &history->chunks[i];
        if (chunk->chunk.partition == partition &&
            chunk->chunk.generation == generation)
            chunk->lost = true;
    }
}
