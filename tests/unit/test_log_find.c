#include "tests/unit/support/log_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void make(struct log_rig *rig, struct log_bounds *bounds)
{
    log_rig_make(rig, 7);
    assert_int_equal(log_rig_open(rig, LOG_CLEAN), 0);
    for (int i = 0; i < 150; i++)
        assert_int_equal(log_rig_append(rig, 1 + (uint32_t)i % 4, 100), 0);
    log_bounds_get(rig->log, bounds);
}

static void test_by_offset(void **state)
{
    (void)state;
    struct log_rig rig;
    struct log_bounds bounds;
    struct log_place place;
    make(&rig, &bounds);
    log_rig_check(&rig);
    /* Nothing is found above the high watermark, even where it lies in a segment. */
    struct log_place mark;
    assert_int_equal(log_find_offset(rig.log, 100, &bounds.end, &mark), 0);
    assert_int_equal(log_find_offset(rig.log, 99, &mark, &place), 0);
    assert_int_equal(place.offset, 99);
    assert_int_equal(log_find_offset(rig.log, 101, &mark, &place), 0);
    assert_int_equal(place.offset, 100);
    assert_int_equal(place.position, mark.position);
    assert_int_equal(log_find_offset(rig.log, -1, &mark, &place), E_OFFSET_BELOW_START);
    assert_int_equal(log_raise_start(rig.log, 50), 0);
    assert_int_equal(log_find_offset(rig.log, 49, &mark, &place), E_OFFSET_BELOW_START);
    assert_int_equal(log_find_offset(rig.log, 50, &mark, &place), 0);
    log_rig_remove(&rig);
}

/* The first line whose batch is at or after the time; what the model says. */
static int64_t wanted_by_time(const struct log_rig *rig, int64_t time_ms, int64_t end)
{
    for (int64_t i = 0; i < end; i++) {
        if (rig->lines[i].timestamp_ms >= time_ms)
            return i;
    }
    return end;
}

static void test_by_time(void **state)
{
    (void)state;
    struct log_rig rig;
    struct log_bounds bounds;
    struct log_place mark, place;
    make(&rig, &bounds);
    assert_int_equal(log_find_offset(rig.log, 200, &bounds.end, &mark), 0);
    for (int64_t time = 990; time <= rig.now_ms + 2; time++) {
        assert_int_equal(log_find_time(rig.log, time, &bounds.end, &place), 0);
        assert_int_equal(place.offset, wanted_by_time(&rig, time, bounds.end.offset));
        struct log_place same;
        assert_int_equal(log_find_offset(rig.log, place.offset, &bounds.end, &same), 0);
        assert_int_equal(place.position, same.position);
        assert_int_equal(log_find_time(rig.log, time, &mark, &place), 0);
        assert_int_equal(place.offset, wanted_by_time(&rig, time, 200));
    }
    assert_int_equal(log_find_time(rig.log, INT64_MIN, &bounds.end, &place), 0);
    assert_int_equal(place.offset, 0);
    assert_int_equal(log_find_time(rig.log, INT64_MAX, &bounds.end, &place), 0);
    assert_int_equal(place.offset, bounds.end.offset);
    log_rig_remove(&rig);
}

static void test_last(void **state)
{
    (void)state;
    struct log_rig rig;
    struct log_bounds bounds;
    struct log_place mark, place;
    make(&rig, &bounds);
    assert_int_equal(log_find_offset(rig.log, 200, &bounds.end, &mark), 0);
    for (int64_t n = 0; n < 250; n++) {
        assert_int_equal(log_find_last(rig.log, n, &mark, &place), 0);
        assert_int_equal(place.offset, n < 200 ? 200 - n : 0);
    }
    assert_int_equal(log_raise_start(rig.log, 150), 0);
    assert_int_equal(log_find_last(rig.log, INT64_MAX, &mark, &place), 0);
    assert_int_equal(place.offset, 150);
    log_rig_remove(&rig);
}

static void test_empty_log(void **state)
{
    (void)state;
    struct log_rig rig;
    struct log_bounds bounds;
    struct log_place place;
    struct extent extent;
    struct batch batch;
    log_rig_make(&rig, 1);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    log_bounds_get(rig.log, &bounds);
    assert_int_equal(bounds.end.offset, 0);
    assert_int_equal(bounds.start.offset, 0);
    assert_int_equal(log_find_offset(rig.log, 0, &bounds.end, &place), 0);
    assert_int_equal(log_find_offset(rig.log, 5, &bounds.end, &place), 0);
    assert_int_equal(place.offset, 0);
    assert_int_equal(log_find_time(rig.log, 0, &bounds.end, &place), 0);
    assert_int_equal(log_find_last(rig.log, 10, &bounds.end, &place), 0);
    assert_int_equal(place.offset, 0);
    assert_int_equal(log_read(rig.log, 0, 10, bounds.end.position, 0, &extent), 0);
    assert_int_equal(extent.length, 0);
    extent_release(&extent);
    assert_int_equal(log_batch_at(rig.log, 0, 0, &batch), -ENOENT);
    log_rig_remove(&rig);
}

struct walked {
    int64_t next;
    int batches;
    int stop_at;
};

static int walk(void *arg, const struct batch *batch)
{
    struct walked *walked = arg;
    if (walked->batches > 0)
        assert_int_equal(batch->base_offset, walked->next);
    walked->next = batch->base_offset + batch->message_count;
    return ++walked->batches == walked->stop_at ? 77 : 0;
}

static void test_each_batch(void **state)
{
    (void)state;
    struct log_rig rig;
    struct log_bounds bounds;
    make(&rig, &bounds);
    struct walked walked = {0};
    assert_int_equal(log_each_batch(rig.log, 0, walk, &walked), 0);
    assert_int_equal(walked.batches, 150);
    assert_int_equal(walked.next, bounds.end.offset);
    walked = (struct walked){.stop_at = 5};
    assert_int_equal(log_each_batch(rig.log, 2, walk, &walked), 77);
    walked = (struct walked){0};
    assert_int_equal(log_each_batch(rig.log, bounds.end.offset, walk, &walked), 0);
    assert_int_equal(walked.batches, 0);
    log_rig_remove(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_offset),  cmocka_unit_test(test_by_time),
        cmocka_unit_test(test_last),       cmocka_unit_test(test_empty_log),
        cmocka_unit_test(test_each_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
