#include "replica/producer_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <xxhash.h>

struct kept_batch {
    int64_t base_offset;
    int32_t base_sequence;
    uint32_t message_count;
};

struct producer {
    int64_t id;
    int64_t last_timestamp_ms;
    uint32_t kept; /* oldest first */
    struct kept_batch batches[PRODUCER_BATCHES];
    UT_hash_handle hh;
};

struct producer_state {
    struct producer *producers;
};

struct producer_state *producer_state_new(void)
{
    return calloc(1, sizeof(struct producer_state));
}

void producer_state_clear(struct producer_state *state)
{
    struct producer *producer;
    struct producer *next;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): HASH_ITER keeps the next one */
    HASH_ITER(hh, state->producers, producer, next)
    {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): likewise */
        HASH_DEL(state->producers, producer);
        free(producer);
    }
}

void producer_state_free(struct producer_state *state)
{
    if (state) {
        producer_state_clear(state);
        free(state);
    }
}

int32_t producer_sequence_after(int32_t sequence, uint32_t count)
{
    return (int32_t)(((int64_t)sequence + count) & INT32_MAX);
}

void producer_batch_rest(struct batch *batch, uint32_t n)
{
    batch->base_offset += n;
    batch->message_count -= n;
    if (batch->producer_id >= 0) {
        batch->base_sequence = producer_sequence_after(batch->base_sequence, n);
    }
}

static struct producer *find(const struct producer_state *state, int64_t id)
{
    struct producer *producer = NULL;
    HASH_FIND(hh, state->producers, &id, sizeof id, producer);
    return producer;
}

bool producer_state_knows(const struct producer_state *state, int64_t producer_id)
{
    return find(state, producer_id) != NULL;
}

enum producer_verdict producer_state_check(const struct producer_state *state,
                                           const struct batch *batch, int64_t *original)
{
    if (batch->producer_id < 0) {
        return PRODUCER_NEW;
    }
    const struct producer *producer = find(state, batch->producer_id);
    if (!producer) {
        return PRODUCER_NEW;
    }
    for (uint32_t i = 0; i < producer->kept; i++) {
        const struct kept_batch *kept = &producer->batches[i];
        if (kept->base_sequence == batch->base_sequence &&
            kept->message_count == batch->message_count) {
            *original = kept->base_offset;
            return PRODUCER_DUPLICATE;
        }
    }
    const struct kept_batch *last = &producer->batches[producer->kept - 1];
    int32_t expected =
        producer_sequence_after(last->base_sequence, last->message_count);
    return batch->base_sequence == expected ? PRODUCER_NEW : PRODUCER_OUT_OF_ORDER;
}

static void keep(struct producer *producer, const struct kept_batch *kept)
{
    if (producer->kept == PRODUCER_BATCHES) {
        memmove(&producer->batches[0], &producer->batches[1],
                (PRODUCER_BATCHES - 1) * sizeof producer->batches[0]);
        producer->kept--;
    }
    producer->batches[producer->kept++] = *kept;
}

static struct producer *find_or_add(struct producer_state *state, int64_t id)
{
    struct producer *producer = find(state, id);
    if (producer) {
        return producer;
    }
    producer = calloc(1, sizeof *producer);
    if (producer) {
        producer->id = id;
        HASH_ADD(hh, state->producers, id, sizeof producer->id, producer);
    }
    return producer;
}

int producer_state_add(struct producer_state *state, const struct batch *batch)
{
    if (batch->producer_id < 0) {
        return 0;
    }
    struct producer *producer = find_or_add(state, batch->producer_id);
    if (!producer) {
        return -ENOMEM;
    }
    const struct kept_batch kept = {
        .base_offset = batch->base_offset,
        .base_sequence = batch->base_sequence,
        .message_count = batch->message_count,
    };
    keep(producer, &kept);
    producer->last_timestamp_ms = batch->timestamp_ms;
    return 0;
}

void producer_state_expire(struct producer_state *state, int64_t now_ms)
{
    struct producer *producer;
    struct producer *next;
    HASH_ITER(hh, state->producers, producer, next)
    {
        if (now_ms - producer->last_timestamp_ms > PRODUCER_EXPIRY_MS) {
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): likewise */
            HASH_DEL(state->producers, producer);
            free(producer);
        }
    }
}

size_t producer_state_count(const struct producer_state *state)
{
    return HASH_COUNT(state->producers);
}

/* ---- snapshots: text, so that it can be read; last line is the checksum -------------
 */

#define SNAPSHOT_MAGIC "topicfs-producers 1 "

int producer_state_encode(const struct producer_state *state, int64_t offset,
                          struct buf *out)
{
    buf_printf(out, SNAPSHOT_MAGIC "%lld\n", (long long)offset);
    const struct producer *producer;
    for (producer = state->producers; producer; producer = producer->hh.next) {
        buf_printf(out, "%lld %lld", (long long)producer->id,
                   (long long)producer->last_timestamp_ms);
        for (uint32_t i = 0; i < producer->kept; i++) {
            const struct kept_batch *kept = &producer->batches[i];
            buf_printf(out, " %lld:%d:%u", (long long)kept->base_offset,
                       kept->base_sequence, kept->message_count);
        }
        buf_adds(out, "\n");
    }
    if (buf_error(out)) {
        return buf_error(out);
    }
    return buf_printf(out, "sum %016llx\n",
                      (unsigned long long)XXH3_64bits(out->data, out->length));
}

/* Reads a decimal integer; advances *text behind it and the `end` character. */
static int take_i64(char **text, char end, int64_t *out)
{
    char *rest = NULL;
    errno = 0;
    long long value = strtoll(*text, &rest, 10);
    if (errno || rest == *text || *rest != end) {
        return E_CORRUPT;
    }
    *text = rest + 1;
    *out = value;
    return 0;
}

static int decode_batches(struct producer_state *state, struct batch *batch, char *line)
{
    char *save = NULL;
    for (char *part = strtok_r(line, " ", &save); part;
         part = strtok_r(NULL, " ", &save)) {
        int64_t sequence = 0;
        int64_t count = 0;
        int rc = take_i64(&part, ':', &batch->base_offset);
        rc = rc ? rc : take_i64(&part, ':', &sequence);
        rc = rc ? rc : take_i64(&part, '\0', &count);
        if (rc || sequence < 0 || sequence > INT32_MAX || count < 1 ||
            count > INT32_MAX) {
            return E_CORRUPT;
        }
        batch->base_sequence = (int32_t)sequence;
        batch->message_count = (uint32_t)count;
        rc = producer_state_add(state, batch);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int decode_line(struct producer_state *state, char *line)
{
    struct batch batch = {0};
    int rc = take_i64(&line, ' ', &batch.producer_id);
    rc = rc ? rc : take_i64(&line, ' ', &batch.timestamp_ms);
    return rc ? rc : decode_batches(state, &batch, line);
}

static int check_sum(const char *text, size_t length)
{
    enum { SUM_LINE = 4 + 16 + 1 };
    if (length < SUM_LINE || text[length - 1] != '\n') {
        return E_CORRUPT;
    }
    char expected[SUM_LINE + 1];
    size_t body = length - SUM_LINE;
    (void)snprintf(expected, sizeof expected, "sum %016llx\n",
                   (unsigned long long)XXH3_64bits(text, body));
    return memcmp(expected, text + body, SUM_LINE) == 0 ? 0 : E_CORRUPT;
}

static int decode_text(struct producer_state *state, char *text, int64_t *offset)
{
    if (strncmp(text, "topicfs-producers ", 18) != 0) {
        return E_CORRUPT;
    }
    if (strncmp(text, SNAPSHOT_MAGIC, sizeof SNAPSHOT_MAGIC - 1) != 0) {
        return E_NEWER_FORMAT;
    }
    char *cursor = text + sizeof SNAPSHOT_MAGIC - 1;
    int rc = take_i64(&cursor, '\n', offset);
    while (!rc && strncmp(cursor, "sum ", 4) != 0) {
        char *end = strchr(cursor, '\n');
        if (!end) {
            return E_CORRUPT;
        }
        *end = '\0';
        rc = decode_line(state, cursor);
        cursor = end + 1;
    }
    return rc;
}

int producer_state_decode(struct producer_state *state, const void *bytes,
                          size_t length, int64_t *offset)
{
    int rc = check_sum(bytes, length);
    if (rc) {
        return rc;
    }
    char *text = malloc(length + 1);
    if (!text) {
        return -ENOMEM;
    }
    memcpy(text, bytes, length);
    text[length] = '\0';
    producer_state_clear(state);
    rc = decode_text(state, text, offset);
    if (rc) {
        producer_state_clear(state);
    }
    free(text);
    return rc;
}
