#include "replica/producer_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct batch batch_of(int64_t producer, int32_t sequence, uint32_t count,
                             int64_t offset)
{
    return (struct batch){.producer_id = producer,
                          .base_sequence = sequence,
                          .message_count = count,
                          .base_offset = offset,
                          .timestamp_ms = 1000 + offset % 1000};
}

static void add(struct producer_state *state, int64_t producer, int32_t sequence,
                uint32_t count, int64_t offset)
{
    const struct batch batch = batch_of(producer, sequence, count, offset);
    assert_int_equal(producer_state_add(state, &batch), 0);
}

static enum producer_verdict check(const struct producer_state *state, int64_t producer,
                                   int32_t sequence, uint32_t count, int64_t *original)
{
    const struct batch batch = batch_of(producer, sequence, count, 0);
    return producer_state_check(state, &batch, original);
}

static void test_new_duplicate_out_of_order(void **unused)
{
    (void)unused;
    int64_t original = -1;
    struct producer_state *state = producer_state_new();
    assert_int_equal(check(state, 5, 17, 2, &original), PRODUCER_NEW);
    add(state, 5, 0, 2, 100);
    add(state, 5, 2, 3, 102);
    assert_int_equal(check(state, 5, 5, 1, &original), PRODUCER_NEW);
    assert_int_equal(check(state, 5, 0, 2, &original), PRODUCER_DUPLICATE);
    assert_int_equal(original, 100);
    assert_int_equal(check(state, 5, 2, 3, &original), PRODUCER_DUPLICATE);
    assert_int_equal(original, 102);
    assert_int_equal(check(state, 5, 2, 2, &original), PRODUCER_OUT_OF_ORDER);
    assert_int_equal(check(state, 5, 6, 1, &original), PRODUCER_OUT_OF_ORDER);
    assert_int_equal(check(state, 6, 6, 1, &original), PRODUCER_NEW);
    assert_int_equal(check(state, -1, 0, 2, &original), PRODUCER_NEW);
    producer_state_free(state);
}

static void test_five_batches_are_kept(void **unused)
{
    (void)unused;
    int64_t original = -1;
    struct producer_state *state = producer_state_new();
    for (int32_t i = 0; i < 7; i++) {
        add(state, 1, i, 1, 10 + i);
    }
    assert_int_equal(check(state, 1, 1, 1, &original), PRODUCER_OUT_OF_ORDER);
    assert_int_equal(check(state, 1, 2, 1, &original), PRODUCER_DUPLICATE);
    assert_int_equal(original, 12);
    producer_state_free(state);
}

static void test_sequences_wrap(void **unused)
{
    (void)unused;
    int64_t original = -1;
    struct producer_state *state = producer_state_new();
    assert_int_equal(producer_sequence_after(INT32_MAX, 1), 0);
    assert_int_equal(producer_sequence_after(INT32_MAX - 1, 3), 1);
    add(state, 1, INT32_MAX, 2, 10);
    assert_int_equal(check(state, 1, 1, 1, &original), PRODUCER_NEW);
    producer_state_free(state);
}

static void test_silence_expires(void **unused)
{
    (void)unused;
    struct producer_state *state = producer_state_new();
    add(state, 1, 0, 1, 0);
    add(state, 2, 0, 1, 500);
    producer_state_expire(state, 1000 + PRODUCER_EXPIRY_MS + 1);
    assert_int_equal(producer_state_count(state), 1);
    producer_state_free(state);
}

static void test_snapshot_round_trip(void **unused)
{
    (void)unused;
    int64_t offset = 0;
    int64_t original = -1;
    struct buf bytes;
    struct producer_state *state = producer_state_new();
    struct producer_state *copy = producer_state_new();
    add(state, 1, 0, 2, 100);
    add(state, INT64_MAX, 7, 3, INT64_MAX - 5);
    add(copy, 99, 1, 1, 1);
    buf_init(&bytes, 1 << 20);
    assert_int_equal(producer_state_encode(state, 103, &bytes), 0);
    assert_int_equal(producer_state_decode(copy, bytes.data, bytes.length, &offset), 0);
    assert_int_equal(offset, 103);
    assert_int_equal(producer_state_count(copy), 2);
    assert_int_equal(check(copy, INT64_MAX, 7, 3, &original), PRODUCER_DUPLICATE);
    assert_true(original == INT64_MAX - 5);
    buf_free(&bytes);
    producer_state_free(state);
    producer_state_free(copy);
}

static void test_damaged_snapshots_are_refused(void **unused)
{
    (void)unused;
    int64_t offset = 0;
    struct buf bytes;
    struct producer_state *state = producer_state_new();
    add(state, 1, 0, 2, 100);
    buf_init(&bytes, 1 << 20);
    assert_int_equal(producer_state_encode(state, 103, &bytes), 0);
    for (size_t i = 0; i < bytes.length; i++) {
        bytes.data[i] ^= 4;
        assert_int_not_equal(
            producer_state_decode(state, bytes.data, bytes.length, &offset), 0);
        bytes.data[i] ^= 4;
        assert_int_not_equal(producer_state_decode(state, bytes.data, i, &offset), 0);
    }
    assert_int_equal(producer_state_decode(state, bytes.data, bytes.length, &offset),
                     0);
    buf_free(&bytes);
    producer_state_free(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_duplicate_out_of_order),
        cmocka_unit_test(test_five_batches_are_kept),
        cmocka_unit_test(test_sequences_wrap),
        cmocka_unit_test(test_silence_expires),
        cmocka_unit_test(test_snapshot_round_trip),
        cmocka_unit_test(test_damaged_snapshots_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
