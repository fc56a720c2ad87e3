#include "replica/group_chunk.h"

#include "replica/lines.h"

#include <string.h>

enum { MORE_BYTES = 4096 };

struct reading {
    struct partition *partition;
    const struct chunk_place *place;
    struct buf *out;
    size_t before; /* bytes that `out` had */
};

static const char *bytes_of(const struct reading *reading)
{
    return reading->out->data + reading->before;
}

static size_t length_of(const struct reading *reading)
{
    return reading->out->length - reading->before;
}

static void cut_to(struct reading *reading, size_t length)
{
    struct buf *out = reading->out;
    if (out->data) {
        out->length = reading->before + length;
        out->data[out->length] = '\0';
    }
}

/* Appends up to `wanted` bytes; less only at the end. An error after the first bytes is
 * left to the next read. */
static int read_bytes(struct reading *reading, size_t wanted)
{
    size_t first = length_of(reading);
    int rc = 0;
    while (!rc && length_of(reading) < wanted) {
        struct extent extent = {.fd = -1};
        size_t had = length_of(reading);
        rc = partition_read(reading->partition, reading->place->position + (int64_t)had,
                            wanted - had, reading->place->rewrites, &extent);
        if (rc || extent.length == 0) {
            extent_release(&extent);
            break;
        }
        char *bytes = buf_extend(reading->out, extent.length);
        rc = bytes ? extent_read(&extent, bytes) : buf_error(reading->out);
        extent_release(&extent);
        if (rc && bytes) {
            cut_to(reading, had);
        }
    }
    return buf_error(reading->out) || length_of(reading) == first ? rc : 0;
}

/* Reads whole lines; where the first is longer than what is wanted, that one alone. */
static int read_lines(struct reading *reading, size_t wanted, size_t most)
{
    size_t had = 0;
    for (;;) {
        int rc = read_bytes(reading, wanted);
        if (rc) {
            return rc;
        }
        size_t length = length_of(reading);
        const char *bytes = bytes_of(reading);
        const char *end = NULL;
        if (length > had) {
            end = had == 0 ? memrchr(bytes, '\n', length)
                           : memchr(bytes + had, '\n', length - had);
        }
        if (end) {
            cut_to(reading, (size_t)(end - bytes) + 1);
            return 0;
        }
        if (length == had || length >= most) {
            cut_to(reading, 0);
            return 0;
        }
        had = length;
        wanted = length * 2 > MORE_BYTES ? length * 2 : MORE_BYTES;
        wanted = wanted > most ? most : wanted;
    }
}

static int64_t end_of(const struct batch *batch)
{
    return batch->position + batch->length;
}

/* The last batch of the run from `first` on that is of one leader epoch, and whose
 * offsets have no gap, up to `end`. */
static int last_of_run(const struct reading *reading, const struct batch *first,
                       int64_t end, struct batch *last)
{
    *last = *first;
    while (end_of(last) < end) {
        struct batch next;
        int rc = partition_batch_at(reading->partition, end_of(last),
                                    reading->place->rewrites, &next);
        if (rc) {
            return rc;
        }
        if (next.base_offset != last->base_offset + last->message_count ||
            next.leader_epoch != first->leader_epoch) {
            break;
        }
        *last = next;
    }
    return 0;
}

/* The lines from this position of the log on. */
static size_t lines_from(const struct reading *reading, int64_t position)
{
    size_t at = (size_t)(position - reading->place->position);
    return lines_count(bytes_of(reading) + at, length_of(reading) - at);
}

/* Cuts at the first gap of offsets that compaction left, and where another leader epoch
 * begins: a commit of any of the lines is to carry the epoch of its message. *lines:
 * how many there are then. */
static int cut_to_run(struct reading *reading, const struct batch *first,
                      int64_t first_offset, struct batch *last, size_t *lines)
{
    int64_t position = reading->place->position;
    int64_t end = position + (int64_t)length_of(reading);
    *last = *first;
    if (end <= end_of(first)) {
        *lines = lines_from(reading, position);
        return 0;
    }
    int rc =
        partition_batch_at(reading->partition, end - 1, reading->place->rewrites, last);
    if (rc) {
        return rc;
    }
    /* Offsets rise by one a line or more: with as many lines there is no gap. */
    size_t before = lines_count(bytes_of(reading), (size_t)(last->position - position));
    if (last->base_offset == first_offset + (int64_t)before &&
        last->leader_epoch == first->leader_epoch) {
        *lines = before + lines_from(reading, last->position);
        return 0;
    }
    rc = last_of_run(reading, first, end, last);
    if (!rc && end_of(last) < end) {
        cut_to(reading, (size_t)(end_of(last) - position));
    }
    *lines = lines_from(reading, position);
    return rc;
}

int group_chunk_read(struct partition *partition, struct chunk_place *place,
                     size_t max_bytes, bool one_batch, struct buf *out,
                     struct group_chunk *chunk)
{
    struct reading reading = {
        .partition = partition, .place = place, .out = out, .before = out->length};
    struct batch first;
    struct batch last;
    chunk->count = 0;
    int rc = partition_batch_at(partition, place->position, place->rewrites, &first);
    if (rc) {
        return rc == -ENOENT ? 0 : rc;
    }
    size_t left = (size_t)(end_of(&first) - place->position);
    size_t wanted = max_bytes > 0 ? max_bytes : 1;
    rc = read_lines(&reading, one_batch && wanted > left ? left : wanted,
                    one_batch || left > wanted ? left : SIZE_MAX);
    if (rc || length_of(&reading) == 0) {
        return rc;
    }
    int64_t offset =
        place->position == first.position ? first.base_offset : place->offset;
    size_t lines = 0;
    rc = cut_to_run(&reading, &first, offset, &last, &lines);
    if (rc) {
        cut_to(&reading, 0);
        return rc;
    }
    chunk->count = (uint32_t)lines;
    chunk->first_offset = offset;
    chunk->next_offset = offset + chunk->count;
    chunk->leader_epoch = last.leader_epoch;
    chunk->timestamp_ms = first.timestamp_ms;
    place->position += (int64_t)length_of(&reading);
    place->offset = chunk->next_offset;
    return 0;
}
