/* A follower's log: batches as the leader has them, holes of compaction among them. */
#include "tests/unit/support/log_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "replica/index.h"
#include "replica/payload_hash.h"

static int make_rig(void **state)
{
    static struct log_rig rig;
    log_rig_make(&rig, 7);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    *state = &rig;
    return 0;
}

static int remove_rig(void **state)
{
    log_rig_remove(*state);
    return 0;
}

static struct batch batch_at(int64_t offset, const char *text, uint32_t count)
{
    return (struct batch){.base_offset = offset,
                          .message_count = count,
                          .length = (uint32_t)strlen(text),
                          .timestamp_ms = 1764417600000 + offset,
                          .leader_epoch = 4,
                          .base_sequence = 7,
                          .producer_id = 99,
                          .flags = BATCH_SUPERSEDED,
                          .payload_hash = XXH3_64bits(text, strlen(text)),
                          .delete_at_ms = 1};
}

static int append(struct log_rig *rig, int64_t offset, const char *text, uint32_t count)
{
    struct batch batch = batch_at(offset, text, count);
    return log_append_verbatim(rig->log, &batch, text);
}

static void assert_batch(struct log_rig *rig, int64_t offset, const char *text,
                         uint32_t count)
{
    const struct batch wanted = batch_at(offset, text, count);
    uint8_t wanted_entry[INDEX_ENTRY_BYTES];
    uint8_t found_entry[INDEX_ENTRY_BYTES];
    struct log_bounds bounds;
    struct log_place place;
    struct batch found;
    log_bounds_get(rig->log, &bounds);
    assert_int_equal(log_find_offset(rig->log, offset, &bounds.end, &place), 0);
    assert_int_equal(place.offset, offset);
    assert_int_equal(log_batch_at(rig->log, place.position, bounds.rewrites, &found),
                     0);
    found.position = 0;
    index_entry_encode(&wanted, offset, wanted_entry);
    index_entry_encode(&found, offset, found_entry);
    assert_memory_equal(found_entry, wanted_entry, INDEX_ENTRY_BYTES);
}

static void test_holes_survive(void **state)
{
    struct log_rig *rig = *state;
    assert_int_equal(append(rig, 0, "a\nb\n", 2), 0);
    assert_int_equal(append(rig, 2, "c\n", 1), 0);
    assert_int_equal(append(rig, 10, "d\n", 1), 0);
    assert_int_equal(append(rig, 11, "e\n", 1), 0);
    assert_int_equal(append(rig, 20, "f\n", 1), 0);
    /* Backwards, and what the log has already. */
    assert_int_equal(append(rig, 20, "f\n", 1), -EINVAL);
    assert_int_equal(append(rig, 15, "g\n", 1), -EINVAL);
    for (int round = 0; round < 2; round++) {
        struct log_bounds bounds;
        struct log_place place;
        log_bounds_get(rig->log, &bounds);
        assert_int_equal(bounds.end.offset, 21);
        assert_batch(rig, 0, "a\nb\n", 2);
        assert_batch(rig, 2, "c\n", 1);
        assert_batch(rig, 10, "d\n", 1);
        assert_batch(rig, 11, "e\n", 1);
        assert_batch(rig, 20, "f\n", 1);
        assert_int_equal(log_find_offset(rig->log, 5, &bounds.end, &place), 0);
        assert_int_equal(place.offset, 10);
        int64_t flushed = 0;
        assert_int_equal(log_flush(rig->log, &flushed), 0);
        log_rig_close(rig);
        assert_int_equal(log_rig_open(rig, LOG_PROCESS_CRASHED), 0);
    }
    assert_int_equal(rig->damage_count, 0);
}

static void test_restart_goes_anywhere(void **state)
{
    struct log_rig *rig = *state;
    struct log_bounds before;
    struct log_bounds bounds;
    assert_int_equal(append(rig, 0, "a\nb\n", 2), 0);
    assert_int_equal(append(rig, 2, "c\n", 1), 0);
    log_bounds_get(rig->log, &before);
    static const int64_t offsets[] = {100, 1, 0};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(log_restart(rig->log, offsets[i]), 0);
        log_bounds_get(rig->log, &bounds);
        assert_int_equal(bounds.start.offset, offsets[i]);
        assert_int_equal(bounds.end.offset, offsets[i]);
        assert_true(bounds.start.position > before.end.position);
        assert_int_equal(append(rig, offsets[i], "x\n", 1), 0);
        assert_batch(rig, offsets[i], "x\n", 1);
    }
}

/* A copy that is made anew, of a log whose first messages compaction took. */
static void test_a_hole_at_the_start(void **state)
{
    struct log_rig *rig = *state;
    static const int64_t starts[] = {0, 7};
    for (size_t i = 0; i < 2; i++) {
        int64_t flushed = 0;
        assert_int_equal(log_restart(rig->log, starts[i]), 0);
        assert_int_equal(append(rig, starts[i] + 5, "a\n", 1), 0);
        assert_int_equal(append(rig, starts[i] + 6, "b\n", 1), 0);
        assert_int_equal(log_flush(rig->log, &flushed), 0);
        rig->log_start_offset = starts[i];
        log_rig_close(rig);
        assert_int_equal(log_rig_open(rig, LOG_PROCESS_CRASHED), 0);
        assert_batch(rig, starts[i] + 5, "a\n", 1);
        assert_batch(rig, starts[i] + 6, "b\n", 1);
    }
    assert_int_equal(rig->damage_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_holes_survive, make_rig, remove_rig),
        cmocka_unit_test_setup_teardown(test_a_hole_at_the_start, make_rig, remove_rig),
        cmocka_unit_test_setup_teardown(test_restart_goes_anywhere, make_rig,
                                        remove_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
