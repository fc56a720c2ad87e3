#include "replica/peer_wire.h"
#include "replica/payload_hash.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PEER_MAGIC = 0x43504654 /* "TFPC" */ };

enum { VERSION_2 = 2 };

enum peer_kind {
    PEER_FETCH = 1,
    PEER_FETCHED,
    PEER_PRODUCE,
    PEER_PRODUCED,
    PEER_SYNC,
    PEER_SYNCED,
};

/* ---- integers -----------------------------------------------------------------------
 */

static void put_u16(struct buf *out, uint16_t value)
{
    value = htole16(value);
    (void)buf_add(out, &value, sizeof value);
}

static void put_u32(struct buf *out, uint32_t value)
{
    value = htole32(value);
    (void)buf_add(out, &value, sizeof value);
}

static void put_i32(struct buf *out, int32_t value)
{
    put_u32(out, (uint32_t)value);
}

static void put_u64(struct buf *out, uint64_t value)
{
    value = htole64(value);
    (void)buf_add(out, &value, sizeof value);
}

static void put_i64(struct buf *out, int64_t value)
{
    put_u64(out, (uint64_t)value);
}

/* Reads past the end set `bad`, give zeros and change nothing else. */
struct cursor {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static const uint8_t *take(struct cursor *in, size_t length)
{
    if (in->bad || in->left < length) {
        in->bad = true;
        return NULL;
    }
    const uint8_t *at = in->at;
    in->at += length;
    in->left -= length;
    return at;
}

static void take_into(struct cursor *in, void *out, size_t length)
{
    const uint8_t *at = take(in, length);
    if (at) {
        memcpy(out, at, length);
    } else {
        memset(out, 0, length);
    }
}

static uint16_t take_u16(struct cursor *in)
{
    uint16_t value;
    take_into(in, &value, sizeof value);
    return le16toh(value);
}

static uint32_t take_u32(struct cursor *in)
{
    uint32_t value;
    take_into(in, &value, sizeof value);
    return le32toh(value);
}

static int32_t take_i32(struct cursor *in)
{
    return (int32_t)take_u32(in);
}

static uint64_t take_u64(struct cursor *in)
{
    uint64_t value;
    take_into(in, &value, sizeof value);
    return le64toh(value);
}

static int64_t take_i64(struct cursor *in)
{
    return (int64_t)take_u64(in);
}

/* ---- what every message begins with -------------------------------------------------
 */

static uint16_t version_of(const struct peer_sender *from)
{
    return from->version ? from->version : PEER_VERSION;
}

/* magic u32, version u16, kind u16, broker id i32, broker epoch i64, length of the
 * cluster's name u16, the name. */
static void put_head(struct buf *out, enum peer_kind kind,
                     const struct peer_sender *from)
{
    size_t length = strnlen(from->cluster, PEER_CLUSTER_MAX);
    put_u32(out, PEER_MAGIC);
    put_u16(out, version_of(from));
    put_u16(out, (uint16_t)kind);
    put_i32(out, from->id);
    put_i64(out, from->broker_epoch);
    put_u16(out, (uint16_t)length);
    (void)buf_add(out, from->cluster, length);
}

static int take_head(struct cursor *in, enum peer_kind kind, struct peer_sender *from)
{
    uint32_t magic = take_u32(in);
    uint16_t version = take_u16(in);
    if (in->bad || magic != PEER_MAGIC || version == 0) {
        return -EBADMSG;
    }
    if (version > PEER_VERSION) {
        return E_NEWER_FORMAT;
    }
    uint16_t found = take_u16(in);
    *from = (struct peer_sender){.id = take_i32(in)};
    from->broker_epoch = take_i64(in);
    from->version = version;
    uint16_t length = take_u16(in);
    if (in->bad || found != kind || length > PEER_CLUSTER_MAX) {
        return -EBADMSG;
    }
    take_into(in, from->cluster, length);
    /* A name with a NUL inside would look like a shorter one. */
    return in->bad || strlen(from->cluster) != length ? -EBADMSG : 0;
}

void peer_sender_set(struct peer_sender *sender, const char *cluster,
                     const struct cluster_snapshot *snapshot)
{
    size_t length = strnlen(cluster, PEER_CLUSTER_MAX);
    *sender = (struct peer_sender){.id = snapshot->self,
                                   .broker_epoch = snapshot->self_epoch};
    memcpy(sender->cluster, cluster, length);
}

static void put_partition(struct buf *out, const struct peer_partition *partition)
{
    (void)buf_add(out, partition->topic_id.bytes, TOPIC_ID_BYTES);
    put_i32(out, partition->index);
}

static void take_partition(struct cursor *in, struct peer_partition *partition)
{
    take_into(in, partition->topic_id.bytes, TOPIC_ID_BYTES);
    partition->index = take_i32(in);
    in->bad = in->bad || partition->index < 0;
}

/* A count of things that take at least `size` bytes each. */
static uint32_t take_count(struct cursor *in, size_t size, uint32_t maximum)
{
    uint32_t count = take_u32(in);
    if (count > maximum || count > in->left / size) {
        in->bad = true;
        return 0;
    }
    return count;
}

/* ---- fetch --------------------------------------------------------------------------
 */

enum { FETCH_ITEM_BYTES = TOPIC_ID_BYTES + 4 + 4 + 8 + 8 + 8 + 4 + 8 + 8 + 4 };

static size_t fetch_item_bytes(const struct peer_sender *from)
{
    return version_of(from) < VERSION_2 ? FETCH_ITEM_BYTES : FETCH_ITEM_BYTES + 2 + 8;
}

int peer_fetch_encode(const struct peer_fetch *fetch, struct buf *out)
{
    put_head(out, PEER_FETCH, &fetch->from);
    put_u32(out, fetch->wait_ms);
    put_u32(out, fetch->max_bytes);
    put_u32(out, fetch->count);
    for (uint32_t i = 0; i < fetch->count; i++) {
        const struct peer_fetch_item *item = &fetch->items[i];
        const struct fetch_request *request = &item->request;
        put_partition(out, &item->partition);
        put_i32(out, request->leader_epoch);
        put_u64(out, request->sequence);
        put_i64(out, request->fetch_offset);
        put_i64(out, request->acknowledged_offset);
        put_i32(out, request->last_epoch);
        put_i64(out, request->high_watermark);
        put_i64(out, request->log_start);
        put_u32(out, item->max_bytes);
        if (version_of(&fetch->from) >= VERSION_2) {
            put_u16(out, request->patient);
            put_i64(out, request->flush_to);
        }
    }
    return buf_error(out);
}

static void take_fetch_item(struct cursor *in, const struct peer_sender *from,
                            struct peer_fetch_item *item)
{
    struct fetch_request *request = &item->request;
    take_partition(in, &item->partition);
    request->follower = from->id;
    request->broker_epoch = from->broker_epoch;
    request->leader_epoch = take_i32(in);
    request->sequence = take_u64(in);
    request->fetch_offset = take_i64(in);
    request->acknowledged_offset = take_i64(in);
    request->last_epoch = take_i32(in);
    request->high_watermark = take_i64(in);
    request->log_start = take_i64(in);
    item->max_bytes = take_u32(in);
    /* Who can't be told what to flush needs no answer for it. */
    bool old = from->version < VERSION_2;
    uint16_t patient = old ? 0 : take_u16(in);
    request->patient = patient == 1;
    request->flush_to = old ? INT64_MAX : take_i64(in);
    in->bad = in->bad || request->fetch_offset < 0 || request->log_start < 0 ||
              request->last_epoch < -1 || patient > 1 || request->flush_to < 0;
}

int peer_fetch_decode(const void *bytes, size_t length, struct peer_fetch *out)
{
    struct cursor in = {.at = bytes, .left = length};
    *out = (struct peer_fetch){0};
    int rc = take_head(&in, PEER_FETCH, &out->from);
    if (rc) {
        return rc;
    }
    out->wait_ms = take_u32(&in);
    out->max_bytes = take_u32(&in);
    size_t item_bytes = fetch_item_bytes(&out->from);
    uint32_t count = take_count(&in, item_bytes, PEER_PARTITIONS_MAX);
    if (in.bad || in.left != count * item_bytes) {
        return -EBADMSG;
    }
    out->items = calloc(count ? count : 1, sizeof *out->items);
    if (!out->items) {
        return -ENOMEM;
    }
    out->count = count;
    for (uint32_t i = 0; i < count; i++) {
        take_fetch_item(&in, &out->from, &out->items[i]);
    }
    if (in.bad) {
        peer_fetch_free(out);
        return -EBADMSG;
    }
    return 0;
}

void peer_fetch_free(struct peer_fetch *fetch)
{
    free(fetch->items);
    fetch->items = NULL;
    fetch->count = 0;
}

/* ---- the answer to it ---------------------------------------------------------------
 */

enum {
    FETCHED_ITEM_BYTES =
        TOPIC_ID_BYTES + 4 + 2 + 4 + 4 + 8 + 4 + 8 + 8 + 4 + 8 + 8 + 8 + 4 + 4
};

static void put_answer(struct buf *out, uint16_t version,
                       const struct fetch_answer *answer)
{
    put_u16(out, (uint16_t)answer->kind);
    put_i32(out, answer->error);
    put_i32(out, answer->leader_epoch);
    put_u64(out, answer->sequence);
    put_i32(out, answer->diverging.epoch);
    put_i64(out, answer->diverging.end_offset);
    put_i64(out, answer->log_start);
    put_i32(out, answer->start_epoch);
    put_i64(out, answer->log_end);
    put_i64(out, answer->high_watermark);
    if (version >= VERSION_2) {
        put_i64(out, answer->flush_to);
    }
}

static void take_answer(struct cursor *in, uint16_t version,
                        struct fetch_answer *answer)
{
    uint16_t kind = take_u16(in);
    answer->kind = (enum fetch_kind)kind;
    answer->error = take_i32(in);
    answer->leader_epoch = take_i32(in);
    answer->sequence = take_u64(in);
    answer->diverging.epoch = take_i32(in);
    answer->diverging.end_offset = take_i64(in);
    answer->log_start = take_i64(in);
    answer->start_epoch = take_i32(in);
    answer->log_end = take_i64(in);
    answer->high_watermark = take_i64(in);
    answer->flush_to = version >= VERSION_2 ? take_i64(in) : 0;
    in->bad = in->bad || kind > FETCH_DATA ||
              (kind == FETCH_ERROR) != (answer->error != 0) || answer->error > 0 ||
              answer->start_epoch < -1 || answer->log_start < 0 ||
              answer->log_end < answer->log_start ||
              answer->high_watermark > answer->log_end || answer->flush_to < 0 ||
              answer->flush_to > answer->log_end;
}

int peer_fetched_encode(const struct peer_fetched *fetched, struct buf *out)
{
    put_head(out, PEER_FETCHED, &fetched->from);
    put_u32(out, fetched->count);
    for (uint32_t i = 0; i < fetched->count; i++) {
        const struct peer_fetched_item *item = &fetched->items[i];
        put_partition(out, &item->partition);
        put_answer(out, version_of(&fetched->from), &item->answer);
        put_i64(out, item->base_offset);
        put_u32(out, item->batch_count);
        put_u32(out, (uint32_t)item->length);
        if (item->batch_count) {
            (void)buf_add(out, item->entries,
                          (size_t)item->batch_count * INDEX_ENTRY_BYTES);
        }
    }
    return buf_error(out);
}

static void take_fetched_item(struct cursor *in, uint16_t version,
                              struct peer_fetched_item *item)
{
    take_partition(in, &item->partition);
    take_answer(in, version, &item->answer);
    item->base_offset = take_i64(in);
    item->batch_count = take_u32(in);
    item->length = take_u32(in);
    if (item->batch_count > in->left / INDEX_ENTRY_BYTES || item->base_offset < 0 ||
        item->base_offset > INT64_MAX - 2 * (int64_t)UINT32_MAX) {
        in->bad = true;
        return;
    }
    item->entries = take(in, (size_t)item->batch_count * INDEX_ENTRY_BYTES);
}

int peer_fetched_decode(const void *bytes, size_t length, struct peer_fetched *out)
{
    struct cursor in = {.at = bytes, .left = length};
    *out = (struct peer_fetched){0};
    int rc = take_head(&in, PEER_FETCHED, &out->from);
    if (rc) {
        return rc;
    }
    uint32_t count = take_count(&in, FETCHED_ITEM_BYTES, PEER_PARTITIONS_MAX);
    if (in.bad) {
        return -EBADMSG;
    }
    out->items = calloc(count ? count : 1, sizeof *out->items);
    if (!out->items) {
        return -ENOMEM;
    }
    out->count = count;
    for (uint32_t i = 0; i < count && !in.bad; i++) {
        take_fetched_item(&in, out->from.version, &out->items[i]);
    }
    for (uint32_t i = 0; i < count && !in.bad; i++) {
        out->items[i].bytes = take(&in, out->items[i].length);
    }
    if (in.bad || in.left) {
        peer_fetched_free(out);
        return -EBADMSG;
    }
    return 0;
}

void peer_fetched_free(struct peer_fetched *fetched)
{
    free(fetched->items);
    fetched->items = NULL;
    fetched->count = 0;
}

int peer_fetched_batch(const struct peer_fetched_item *item, uint32_t i,
                       struct batch *out, const uint8_t **bytes)
{
    const uint8_t *entry = item->entries + (size_t)i * INDEX_ENTRY_BYTES;
    if (index_entry_decode(entry, item->base_offset, out) || out->position < 0 ||
        (uint64_t)out->position > item->length ||
        out->length > item->length - (uint64_t)out->position) {
        return -EBADMSG;
    }
    *bytes = item->bytes + out->position;
    return XXH3_64bits(*bytes, out->length) == out->payload_hash ? 0 : -EBADMSG;
}

/* ---- produce ------------------------------------------------------------------------
 */

int peer_produce_encode(const struct peer_produce *produce, struct buf *out)
{
    put_head(out, PEER_PRODUCE, &produce->from);
    put_partition(out, &produce->partition);
    put_i32(out, produce->leader_epoch);
    put_i64(out, produce->producer_id);
    put_i32(out, produce->base_sequence);
    put_i32(out, produce->acks);
    put_u32(out, produce->timeout_ms);
    put_u32(out, produce->message_count);
    put_u32(out, (uint32_t)produce->length);
    return buf_error(out);
}

/* As many lines as said, each with its newline. */
static bool are_lines(const uint8_t *bytes, size_t length, uint32_t count)
{
    uint32_t found = 0;
    const uint8_t *end = bytes + length;
    if (!length || end[-1] != '\n') {
        return false;
    }
    while (bytes < end) {
        bytes = (const uint8_t *)memchr(bytes, '\n', (size_t)(end - bytes)) + 1;
        found++;
    }
    return found == count;
}

int peer_produce_decode(const void *bytes, size_t length, struct peer_produce *out)
{
    struct cursor in = {.at = bytes, .left = length};
    *out = (struct peer_produce){0};
    int rc = take_head(&in, PEER_PRODUCE, &out->from);
    if (rc) {
        return rc;
    }
    take_partition(&in, &out->partition);
    out->leader_epoch = take_i32(&in);
    out->producer_id = take_i64(&in);
    out->base_sequence = take_i32(&in);
    out->acks = take_i32(&in);
    out->timeout_ms = take_u32(&in);
    out->message_count = take_u32(&in);
    out->length = take_u32(&in);
    out->bytes = take(&in, out->length);
    bool good = !in.bad && in.left == 0 && out->acks >= ACKS_ALL &&
                out->acks <= ACKS_LEADER && out->producer_id >= 0 &&
                out->base_sequence >= 0 &&
                are_lines(out->bytes, out->length, out->message_count);
    return good ? 0 : -EBADMSG;
}

int peer_produced_encode(const struct peer_produced *produced, struct buf *out)
{
    put_head(out, PEER_PRODUCED, &produced->from);
    put_i32(out, produced->error);
    put_u16(out, produced->appended);
    put_i32(out, produced->leader_epoch);
    put_i64(out, produced->base_offset);
    return buf_error(out);
}

int peer_produced_decode(const void *bytes, size_t length, struct peer_produced *out)
{
    struct cursor in = {.at = bytes, .left = length};
    *out = (struct peer_produced){0};
    int rc = take_head(&in, PEER_PRODUCED, &out->from);
    if (rc) {
        return rc;
    }
    out->error = take_i32(&in);
    uint16_t appended = take_u16(&in);
    out->appended = appended == 1;
    out->leader_epoch = take_i32(&in);
    out->base_offset = take_i64(&in);
    bool good = !in.bad && in.left == 0 && out->error <= 0 && appended <= 1;
    return good ? 0 : -EBADMSG;
}

/* ---- sync ---------------------------------------------------------------------------
 */

int peer_sync_encode(const struct peer_sync *sync, struct buf *out)
{
    put_head(out, PEER_SYNC, &sync->from);
    put_partition(out, &sync->partition);
    put_i32(out, sync->leader_epoch);
    put_i64(out, sync->end_offset);
    put_u32(out, sync->timeout_ms);
    return buf_error(out);
}

int peer_sync_decode(const void *bytes, size_t length, struct peer_sync *out)
{
    struct cursor in = {.at = bytes, .left = length};
    *out = (struct peer_sync){0};
    int rc = take_head(&in, PEER_SYNC, &out->from);
    if (rc) {
        return rc;
    }
    take_partition(&in, &out->partition);
    out->leader_epoch = take_i32(&in);
    out->end_offset = take_i64(&in);
    out->timeout_ms = take_u32(&in);
    return !in.bad && in.left == 0 && out->end_offset >= 0 ? 0 : -EBADMSG;
}

int peer_synced_encode(const struct peer_synced *synced, struct buf *out)
{
    put_head(out, PEER_SYNCED, &synced->from);
    put_i32(out, synced->error);
    put_i32(out, synced->leader_epoch);
    put_i64(out, synced->durable_end);
    return buf_error(out);
}

int peer_synced_decode(const void *bytes, size_t length, struct peer_synced *out)
{
    struct cursor in = {.at = bytes, .left = length};
    *out = (struct peer_synced){0};
    int rc = take_head(&in, PEER_SYNCED, &out->from);
    if (rc) {
        return rc;
    }
    out->error = take_i32(&in);
    out->leader_epoch = take_i32(&in);
    out->durable_end = take_i64(&in);
    bool good = !in.bad && in.left == 0 && out->error <= 0 && out->durable_end >= -1;
    return good ? 0 : -EBADMSG;
}
