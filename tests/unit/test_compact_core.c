#include "replica/compact_core.h"

#include "replica/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_only_what_is_committed(void **state)
{
    (void)state;
    assert_true(compact_takes(true, 10, 10));
    assert_false(compact_takes(true, 11, 10));
    assert_false(compact_takes(false, 10, 10));
}

static void test_who_has_been_looked_at(void **state)
{
    (void)state;
    assert_false(compact_is_clean(0));
    assert_true(compact_is_clean(INDEX_COMPACTED));
    assert_true(compact_is_clean(INDEX_COMPACTED | INDEX_TOMBSTONES));
    assert_false(compact_is_clean(INDEX_COMPACTED | INDEX_UNCLEAN));
    assert_int_equal(compact_flags_behind(false), 0);
    assert_false(compact_is_clean(compact_flags_behind(true)));
    assert_true(compact_flags_behind(true) & INDEX_COMPACTED);
}

static enum compact_verdict judge(uint32_t flags, struct compact_message message)
{
    const struct batch batch = {.flags = flags, .delete_at_ms = 100};
    message.offset = 5;
    return compact_judge(&batch, &message, 100);
}

static void test_what_stays(void **state)
{
    (void)state;
    struct compact_message message = {.last_of_key = 6};
    assert_int_equal(judge(0, message), COMPACT_KEEP); /* no key */
    message.keyed = true;
    assert_int_equal(judge(0, message), COMPACT_DROP);
    message.first_of_epoch = true;
    assert_int_equal(judge(0, message), COMPACT_KEEP_SUPERSEDED);
    message.first_of_epoch = false;
    message.last_of_producer = true;
    assert_int_equal(judge(0, message), COMPACT_KEEP_SUPERSEDED);
    for (int64_t last = -1; last <= 5; last += 6) {
        message.last_of_key = last;
        assert_int_equal(judge(0, message), COMPACT_KEEP);
        assert_int_equal(judge(BATCH_SUPERSEDED, message), COMPACT_KEEP_SUPERSEDED);
    }
}

static void test_tombstones(void **state)
{
    (void)state;
    struct compact_message message = {
        .keyed = true, .tombstone = true, .last_of_key = 5};
    assert_int_equal(judge(0, message), COMPACT_KEEP_TOMBSTONE);
    assert_int_equal(judge(BATCH_TOMBSTONES, message), COMPACT_DROP);
    message.last_of_producer = true; /* it is the last of its key nevertheless */
    assert_int_equal(judge(BATCH_TOMBSTONES, message), COMPACT_KEEP_TOMBSTONE);
    message.last_of_producer = false;
    message.earlier_key_stays = true;
    assert_int_equal(judge(BATCH_TOMBSTONES, message), COMPACT_KEEP_TOMBSTONE);
    message.last_of_key = 6;
    assert_int_equal(judge(BATCH_TOMBSTONES, message), COMPACT_DROP);
}

static void test_a_part_is_an_entry_of_its_own(void **state)
{
    (void)state;
    struct batch part;
    struct batch batch = {.base_offset = 10,
                          .message_count = 5,
                          .timestamp_ms = 50,
                          .leader_epoch = 3,
                          .base_sequence = 20,
                          .producer_id = 7};
    compact_part(&batch, 2, 2, COMPACT_KEEP, 1000, &part);
    assert_int_equal(part.base_offset, 12);
    assert_int_equal(part.message_count, 2);
    assert_int_equal(part.base_sequence, 22);
    assert_int_equal(part.timestamp_ms, 50);
    assert_int_equal(part.leader_epoch, 3);
    assert_int_equal(part.flags, 0);
    compact_part(&batch, 0, 1, COMPACT_KEEP_SUPERSEDED, 1000, &part);
    assert_int_equal(part.base_offset, 10);
    assert_int_equal(part.flags, BATCH_SUPERSEDED);
    compact_part(&batch, 4, 1, COMPACT_KEEP_TOMBSTONE, 1000, &part);
    assert_int_equal(part.flags, BATCH_TOMBSTONES);
    assert_int_equal(part.delete_at_ms, 1000 + COMPACT_TOMBSTONE_MS);
    batch.flags = BATCH_TOMBSTONES;
    batch.delete_at_ms = 1234;
    compact_part(&batch, 4, 1, COMPACT_KEEP_TOMBSTONE, 1000, &part);
    assert_int_equal(part.delete_at_ms, 1234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_is_committed),
        cmocka_unit_test(test_who_has_been_looked_at),
        cmocka_unit_test(test_what_stays),
        cmocka_unit_test(test_tombstones),
        cmocka_unit_test(test_a_part_is_an_entry_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
