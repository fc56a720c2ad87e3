#include "replica/payload_hash.h"
#include "replica/peer_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct peer_sender sender = {
    .cluster = "prod", .id = 3, .broker_epoch = INT64_C(77) << 33};

static struct peer_partition partition_of(int32_t index)
{
    struct peer_partition partition = {.index = index};
    memset(partition.topic_id.bytes, 0xa0 + index, TOPIC_ID_BYTES);
    return partition;
}

static void assert_sender(const struct peer_sender *from)
{
    assert_string_equal(from->cluster, "prod");
    assert_int_equal(from->id, 3);
    assert_int_equal(from->broker_epoch, INT64_C(77) << 33);
}

/* Whatever is cut off or put behind, the decoder says no and leaves nothing. */
static void assert_exact(const struct buf *bytes,
                         int (*decode)(const void *bytes, size_t length))
{
    for (size_t length = 0; length < bytes->length; length++) {
        char *copy = malloc(length + 1);
        memcpy(copy, bytes->data, length);
        assert_int_equal(decode(copy, length), -EBADMSG);
        free(copy);
    }
    char *longer = calloc(1, bytes->length + 1);
    memcpy(longer, bytes->data, bytes->length);
    assert_int_equal(decode(longer, bytes->length + 1), -EBADMSG);
    longer[4]++; /* the version */
    assert_int_equal(decode(longer, bytes->length), E_NEWER_FORMAT);
    longer[4]--;
    longer[0]++;
    assert_int_equal(decode(longer, bytes->length), -EBADMSG);
    free(longer);
}

static int decode_fetch(const void *bytes, size_t length)
{
    struct peer_fetch fetch;
    int rc = peer_fetch_decode(bytes, length, &fetch);
    if (rc) {
        assert_null(fetch.items);
    } else {
        peer_fetch_free(&fetch);
    }
    return rc;
}

static void test_fetch(void **state)
{
    (void)state;
    struct peer_fetch_item items[2] = {
        {.partition = partition_of(0),
         .request = {.follower = 3,
                     .broker_epoch = sender.broker_epoch,
                     .leader_epoch = 5,
                     .sequence = UINT64_MAX,
                     .fetch_offset = INT64_C(1) << 40,
                     .acknowledged_offset = 12,
                     .last_epoch = -1,
                     .high_watermark = 11,
                     .log_start = 3,
                     .patient = true,
                     .flush_to = 13},
         .max_bytes = 1 << 20},
        {.partition = partition_of(7), .request = {.last_epoch = 4}},
    };
    const struct peer_fetch fetch = {
        .from = sender, .wait_ms = 500, .max_bytes = 99, .count = 2, .items = items};
    struct buf bytes;
    buf_init(&bytes, PEER_REQUEST_MAX);
    assert_int_equal(peer_fetch_encode(&fetch, &bytes), 0);
    struct peer_fetch got;
    assert_int_equal(peer_fetch_decode(bytes.data, bytes.length, &got), 0);
    assert_sender(&got.from);
    assert_int_equal(got.wait_ms, 500);
    assert_int_equal(got.max_bytes, 99);
    assert_int_equal(got.count, 2);
    assert_memory_equal(&got.items[0].partition, &items[0].partition,
                        sizeof items[0].partition);
    assert_int_equal(got.items[0].request.follower, 3);
    assert_int_equal(got.items[0].request.broker_epoch, sender.broker_epoch);
    assert_int_equal(got.items[0].request.leader_epoch, 5);
    assert_true(got.items[0].request.sequence == UINT64_MAX);
    assert_int_equal(got.items[0].request.fetch_offset, INT64_C(1) << 40);
    assert_int_equal(got.items[0].request.acknowledged_offset, 12);
    assert_int_equal(got.items[0].request.last_epoch, -1);
    assert_int_equal(got.items[0].request.high_watermark, 11);
    assert_int_equal(got.items[0].request.log_start, 3);
    assert_true(got.items[0].request.patient);
    assert_int_equal(got.items[0].request.flush_to, 13);
    assert_int_equal(got.items[0].max_bytes, 1 << 20);
    assert_int_equal(got.items[1].partition.index, 7);
    assert_false(got.items[1].request.patient);
    peer_fetch_free(&got);
    assert_exact(&bytes, decode_fetch);
    buf_free(&bytes);
}

static int decode_fetched(const void *bytes, size_t length)
{
    struct peer_fetched fetched;
    int rc = peer_fetched_decode(bytes, length, &fetched);
    if (rc) {
        assert_null(fetched.items);
    } else {
        peer_fetched_free(&fetched);
    }
    return rc;
}

static void test_fetched(void **state)
{
    (void)state;
    static const char text[] = "one\ntwo\nthree\n";
    uint8_t entries[2 * INDEX_ENTRY_BYTES];
    struct batch first = {.base_offset = 1000,
                          .message_count = 2,
                          .length = 8,
                          .timestamp_ms = 1764417600123,
                          .leader_epoch = 6,
                          .base_sequence = 9,
                          .producer_id = INT64_C(1) << 50,
                          .flags = BATCH_TOMBSTONES,
                          .payload_hash = XXH3_64bits(text, 8),
                          .delete_at_ms = 1764417699999};
    struct batch second = {.base_offset = 1005,
                           .position = 8,
                           .message_count = 1,
                           .length = 6,
                           .base_sequence = -1,
                           .producer_id = -1,
                           .payload_hash = XXH3_64bits(text + 8, 6)};
    index_entry_encode(&first, 1000, entries);
    index_entry_encode(&second, 1000, entries + INDEX_ENTRY_BYTES);
    struct peer_fetched_item items[2] = {
        {.partition = partition_of(1),
         .answer = {.kind = FETCH_DATA,
                    .leader_epoch = 6,
                    .sequence = 4,
                    .log_start = 2,
                    .log_end = 1006,
                    .high_watermark = 1001,
                    .flush_to = 1004},
         .base_offset = 1000,
         .batch_count = 2,
         .entries = entries,
         .length = 14,
         .bytes = (const uint8_t *)text},
        {.partition = partition_of(2),
         .answer = {.kind = FETCH_ERROR, .error = E_FENCED_EPOCH}},
    };
    const struct peer_fetched fetched = {.from = sender, .count = 2, .items = items};
    struct buf bytes;
    buf_init(&bytes, PEER_REPLY_MAX);
    assert_int_equal(peer_fetched_encode(&fetched, &bytes), 0);
    assert_int_equal(buf_add(&bytes, text, 14), 0);
    struct peer_fetched got;
    assert_int_equal(peer_fetched_decode(bytes.data, bytes.length, &got), 0);
    assert_sender(&got.from);
    assert_int_equal(got.count, 2);
    assert_int_equal(got.items[0].answer.kind, FETCH_DATA);
    assert_int_equal(got.items[0].answer.leader_epoch, 6);
    assert_int_equal(got.items[0].answer.sequence, 4);
    assert_int_equal(got.items[0].answer.log_start, 2);
    assert_int_equal(got.items[0].answer.log_end, 1006);
    assert_int_equal(got.items[0].answer.high_watermark, 1001);
    assert_int_equal(got.items[0].answer.flush_to, 1004);
    assert_int_equal(got.items[1].answer.error, E_FENCED_EPOCH);
    struct batch batch;
    const uint8_t *payload;
    assert_int_equal(peer_fetched_batch(&got.items[0], 0, &batch, &payload), 0);
    uint8_t entry[INDEX_ENTRY_BYTES];
    index_entry_encode(&batch, 1000, entry);
    assert_memory_equal(entry, entries, sizeof entry);
    assert_memory_equal(payload, "one\ntwo\n", 8);
    assert_int_equal(peer_fetched_batch(&got.items[0], 1, &batch, &payload), 0);
    assert_int_equal(batch.base_offset, 1005);
    assert_memory_equal(payload, "three\n", 6);
    peer_fetched_free(&got);
    assert_exact(&bytes, decode_fetched);

    /* A byte of the payload, and one of an entry, changed on the way. */
    bytes.data[bytes.length - 2] ^= 1;
    assert_int_equal(peer_fetched_decode(bytes.data, bytes.length, &got), 0);
    assert_int_equal(peer_fetched_batch(&got.items[0], 0, &batch, &payload), 0);
    assert_int_equal(peer_fetched_batch(&got.items[0], 1, &batch, &payload), -EBADMSG);
    ((uint8_t *)(uintptr_t)got.items[0].entries)[20] ^= 1;
    assert_int_equal(peer_fetched_batch(&got.items[0], 0, &batch, &payload), -EBADMSG);
    peer_fetched_free(&got);
    buf_free(&bytes);
}

static int decode_produce(const void *bytes, size_t length)
{
    struct peer_produce produce;
    return peer_produce_decode(bytes, length, &produce);
}

static void test_produce(void **state)
{
    (void)state;
    struct peer_produce produce = {.from = sender,
                                   .partition = partition_of(5),
                                   .leader_epoch = 8,
                                   .producer_id = 77,
                                   .base_sequence = 41,
                                   .acks = ACKS_ALL,
                                   .timeout_ms = 30000,
                                   .message_count = 2,
                                   .length = 4};
    struct buf bytes;
    buf_init(&bytes, PEER_REQUEST_MAX);
    assert_int_equal(peer_produce_encode(&produce, &bytes), 0);
    assert_int_equal(buf_add(&bytes, "a\nb\n", 4), 0);
    struct peer_produce got;
    assert_int_equal(peer_produce_decode(bytes.data, bytes.length, &got), 0);
    assert_sender(&got.from);
    assert_int_equal(got.partition.index, 5);
    assert_int_equal(got.leader_epoch, 8);
    assert_int_equal(got.producer_id, 77);
    assert_int_equal(got.base_sequence, 41);
    assert_int_equal(got.acks, ACKS_ALL);
    assert_int_equal(got.timeout_ms, 30000);
    assert_int_equal(got.message_count, 2);
    assert_memory_equal(got.bytes, "a\nb\n", 4);
    assert_exact(&bytes, decode_produce);
    bytes.data[bytes.length - 3] = 'x'; /* one newline less than it says */
    assert_int_equal(decode_produce(bytes.data, bytes.length), -EBADMSG);
    buf_free(&bytes);
}

static int decode_produced(const void *bytes, size_t length)
{
    struct peer_produced produced;
    return peer_produced_decode(bytes, length, &produced);
}

static void test_produced(void **state)
{
    (void)state;
    struct peer_produced produced = {.from = sender,
                                     .error = E_COMMIT_TIMEOUT,
                                     .appended = true,
                                     .leader_epoch = 8,
                                     .base_offset = INT64_C(1) << 41};
    struct buf bytes;
    buf_init(&bytes, PEER_REQUEST_MAX);
    assert_int_equal(peer_produced_encode(&produced, &bytes), 0);
    struct peer_produced got;
    assert_int_equal(peer_produced_decode(bytes.data, bytes.length, &got), 0);
    assert_sender(&got.from);
    assert_int_equal(got.error, E_COMMIT_TIMEOUT);
    assert_true(got.appended);
    assert_int_equal(got.leader_epoch, 8);
    assert_int_equal(got.base_offset, INT64_C(1) << 41);
    assert_exact(&bytes, decode_produced);
    /* One kind is never taken for another. */
    assert_int_equal(decode_produce(bytes.data, bytes.length), -EBADMSG);
    assert_int_equal(decode_fetch(bytes.data, bytes.length), -EBADMSG);
    assert_int_equal(decode_fetched(bytes.data, bytes.length), -EBADMSG);
    buf_free(&bytes);
}

static int decode_sync(const void *bytes, size_t length)
{
    struct peer_sync sync;
    return peer_sync_decode(bytes, length, &sync);
}

static int decode_synced(const void *bytes, size_t length)
{
    struct peer_synced synced;
    return peer_synced_decode(bytes, length, &synced);
}

static void test_sync(void **state)
{
    (void)state;
    struct peer_sync sync = {.from = sender,
                             .partition = partition_of(5),
                             .leader_epoch = 8,
                             .end_offset = INT64_C(1) << 41,
                             .timeout_ms = 1000};
    struct buf bytes;
    buf_init(&bytes, PEER_SYNC_MAX);
    assert_int_equal(peer_sync_encode(&sync, &bytes), 0);
    struct peer_sync got;
    assert_int_equal(peer_sync_decode(bytes.data, bytes.length, &got), 0);
    assert_sender(&got.from);
    assert_int_equal(got.partition.index, 5);
    assert_int_equal(got.leader_epoch, 8);
    assert_int_equal(got.end_offset, INT64_C(1) << 41);
    assert_int_equal(got.timeout_ms, 1000);
    assert_exact(&bytes, decode_sync);
    assert_int_equal(decode_synced(bytes.data, bytes.length), -EBADMSG);
    buf_clear(&bytes);

    struct peer_synced synced = {
        .from = sender, .error = E_NOT_LEADER, .leader_epoch = 9, .durable_end = -1};
    struct peer_synced answered;
    assert_int_equal(peer_synced_encode(&synced, &bytes), 0);
    assert_int_equal(peer_synced_decode(bytes.data, bytes.length, &answered), 0);
    assert_sender(&answered.from);
    assert_int_equal(answered.error, E_NOT_LEADER);
    assert_int_equal(answered.leader_epoch, 9);
    assert_int_equal(answered.durable_end, -1);
    assert_exact(&bytes, decode_synced);
    buf_free(&bytes);
}

/* What a node of version 1 says is understood, and it understands the answer. */
static void test_version_1(void **state)
{
    (void)state;
    struct peer_sender old = sender;
    old.version = 1;
    struct peer_fetch_item item = {.partition = partition_of(0),
                                   .request = {.fetch_offset = 7, .flush_to = 5},
                                   .max_bytes = 99};
    const struct peer_fetch fetch = {.from = old, .count = 1, .items = &item};
    const struct peer_fetch now = {.from = sender, .count = 1, .items = &item};
    struct buf bytes;
    struct buf newer;
    buf_init(&bytes, PEER_REQUEST_MAX);
    buf_init(&newer, PEER_REQUEST_MAX);
    assert_int_equal(peer_fetch_encode(&fetch, &bytes), 0);
    assert_int_equal(peer_fetch_encode(&now, &newer), 0);
    assert_int_equal(bytes.length + 10, newer.length);
    struct peer_fetch got;
    assert_int_equal(peer_fetch_decode(bytes.data, bytes.length, &got), 0);
    assert_int_equal(got.from.version, 1);
    assert_int_equal(got.items[0].request.fetch_offset, 7);
    assert_int_equal(got.items[0].max_bytes, 99);
    /* It can't be told what to flush: no answer is due to it for that. */
    assert_true(got.items[0].request.flush_to == INT64_MAX);
    peer_fetch_free(&got);
    buf_clear(&bytes);

    struct peer_fetched_item answer = {
        .partition = partition_of(0),
        .answer = {.kind = FETCH_DATA, .log_end = 9, .flush_to = 8}};
    const struct peer_fetched fetched = {.from = old, .count = 1, .items = &answer};
    struct peer_fetched answered;
    assert_int_equal(peer_fetched_encode(&fetched, &bytes), 0);
    assert_int_equal(bytes.data[4], 1);
    assert_int_equal(peer_fetched_decode(bytes.data, bytes.length, &answered), 0);
    assert_int_equal(answered.items[0].answer.log_end, 9);
    assert_int_equal(answered.items[0].answer.flush_to, 0);
    peer_fetched_free(&answered);
    buf_free(&bytes);
    buf_free(&newer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fetch),   cmocka_unit_test(test_fetched),
        cmocka_unit_test(test_produce), cmocka_unit_test(test_produced),
        cmocka_unit_test(test_sync),    cmocka_unit_test(test_version_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
