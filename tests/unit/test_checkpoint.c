#include "replica/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct checkpoint_entry entry_of(uint8_t id, int32_t partition)
{
    struct checkpoint_entry entry = {.partition = partition,
                                     .log_start_offset = 1,
                                     .flushed_offset = INT64_MAX,
                                     .high_watermark = 1LL << 60,
                                     .log_end_offset = partition};
    entry.topic_id.bytes[0] = id;
    (void)snprintf(entry.topic, sizeof entry.topic, "topic.%d", id);
    return entry;
}

static void encode(struct checkpoint *checkpoint, struct buf *bytes)
{
    for (int32_t i = 40; i > 0; i--) {
        const struct checkpoint_entry entry = entry_of((uint8_t)(i % 7), i);
        assert_int_equal(checkpoint_add(checkpoint, &entry), 0);
    }
    buf_init(bytes, CHECKPOINT_MAX_BYTES);
    assert_int_equal(checkpoint_encode(checkpoint, bytes), 0);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct checkpoint checkpoint = {0};
    struct checkpoint copy = {0};
    struct buf bytes;
    encode(&checkpoint, &bytes);
    assert_int_equal(checkpoint_decode(&copy, bytes.data, bytes.length), 0);
    assert_int_equal(copy.count, 40);
    for (int32_t i = 1; i <= 40; i++) {
        const struct checkpoint_entry wanted = entry_of((uint8_t)(i % 7), i);
        const struct checkpoint_entry *found =
            checkpoint_find(&copy, &wanted.topic_id, i);
        assert_non_null(found);
        assert_true(found->flushed_offset == INT64_MAX);
        assert_true(found->high_watermark == 1LL << 60);
        assert_int_equal(found->log_end_offset, i);
        assert_string_equal(found->topic, wanted.topic);
    }
    const struct topic_id none = {.bytes = {99}};
    assert_null(checkpoint_find(&copy, &none, 1));
    buf_free(&bytes);
    checkpoint_free(&checkpoint);
    checkpoint_free(&copy);
}

static void test_any_damage_is_seen(void **state)
{
    (void)state;
    struct checkpoint checkpoint = {0};
    struct checkpoint copy = {0};
    struct buf bytes;
    encode(&checkpoint, &bytes);
    for (size_t i = 0; i < bytes.length; i++) {
        bytes.data[i] ^= 1;
        assert_int_not_equal(checkpoint_decode(&copy, bytes.data, bytes.length), 0);
        bytes.data[i] ^= 1;
        assert_int_not_equal(checkpoint_decode(&copy, bytes.data, i), 0);
        assert_int_equal(copy.count, 0);
    }
    assert_null(checkpoint_find(&copy, &checkpoint.entries[0].topic_id, 1));
    buf_free(&bytes);
    checkpoint_free(&checkpoint);
}

static void test_empty(void **state)
{
    (void)state;
    struct checkpoint checkpoint = {0};
    struct buf bytes;
    buf_init(&bytes, 1024);
    assert_int_equal(checkpoint_encode(&checkpoint, &bytes), 0);
    assert_int_equal(checkpoint_decode(&checkpoint, bytes.data, bytes.length), 0);
    assert_int_equal(checkpoint.count, 0);
    buf_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_any_damage_is_seen),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
