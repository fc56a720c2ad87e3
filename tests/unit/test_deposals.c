#include "coord/deposals.h"

#include "coord/err.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct topic_id one = {{1}}, two = {{2}};

/* `before` and a deposal of the broker, as who reads it at now_ms has it. */
static const struct deposals *deposed(const struct deposals *before, int32_t broker,
                                      int64_t now_ms, struct moved_partition *moved,
                                      uint32_t count)
{
    const struct deposal next = {.broker = broker,
                                 .broker_epoch = now_ms + 1,
                                 .moved = moved,
                                 .moved_count = count};
    struct deposals *after = NULL;
    struct buf text;
    buf_init(&text, DEPOSALS_VALUE_MAX);
    assert_int_equal(deposals_encode(&text, before, now_ms, &next), 0);
    assert_int_equal(deposals_decode(text.data, before, now_ms, &after), 0);
    buf_free(&text);
    deposals_unref(before);
    return after;
}

static void test_what_was_moved_rests(void **state)
{
    struct moved_partition moved[] = {{one, 0}, {one, 3}, {two, 1}};
    const struct deposals *deposals = deposed(NULL, 2, 1000, moved, 3);
    (void)state;
    assert_true(deposals_rests(deposals, 2, 10999));
    assert_false(deposals_rests(deposals, 2, 11000));
    assert_false(deposals_rests(deposals, 3, 1000));
    assert_true(deposals_moved(deposals, &one, 0, 10999));
    assert_true(deposals_moved(deposals, &one, 3, 10999));
    assert_true(deposals_moved(deposals, &two, 1, 10999));
    assert_false(deposals_moved(deposals, &one, 1, 10999));
    assert_false(deposals_moved(deposals, &two, 0, 10999));
    assert_false(deposals_moved(deposals, &one, 0, 11000));
    deposals_unref(deposals);
    assert_false(deposals_rests(NULL, 2, 0));
    assert_false(deposals_moved(NULL, &one, 0, 0));
}

/* The record has no times: each node counts from when it saw an entry first. */
static void test_ages_count_from_the_first_sight(void **state)
{
    struct moved_partition moved[] = {{one, 0}};
    const struct deposals *deposals = deposed(NULL, 2, 1000, moved, 1);
    (void)state;
    deposals = deposed(deposals, 3, 6000, NULL, 0);
    assert_int_equal(deposals->count, 2);
    assert_true(deposals_rests(deposals, 3, 15999));
    assert_false(deposals_rests(deposals, 2, 11000));
    assert_false(deposals_moved(deposals, &one, 0, 11000));
    /* What counts no more is not carried on. */
    deposals = deposed(deposals, 1, 11000, NULL, 0);
    assert_int_equal(deposals->count, 2);
    assert_int_equal(deposals->items[0].broker, 3);
    assert_int_equal(deposals->items[1].broker, 1);
    deposals_unref(deposals);
}

static void test_form(void **state)
{
    struct moved_partition moved[] = {{one, 0}, {one, 3}, {two, 1}};
    const struct deposal next = {.broker = 2,
                                 .broker_epoch = INT64_C(9007199254740992),
                                 .moved = moved,
                                 .moved_count = 3};
    struct deposals *deposals = NULL;
    struct buf text;
    (void)state;
    buf_init(&text, DEPOSALS_VALUE_MAX);
    assert_int_equal(deposals_encode(&text, NULL, 0, &next), 0);
    assert_string_equal(
        text.data,
        "{\"version\":1,\"deposed\":[{\"brokerid\":2,\"epoch\":9007199254740992,"
        "\"moved\":[[\"01000000000000000000000000000000\",0,3],"
        "[\"02000000000000000000000000000000\",1]]}]}");
    buf_free(&text);
    static const char *const bad[] = {
        "",
        "[]",
        "{\"version\":2,\"deposed\":[]}",
        "{\"version\":1}",
        "{\"version\":1,\"deposed\":[{\"brokerid\":2,\"epoch\":7}]}",
        "{\"version\":1,\"deposed\":[{\"brokerid\":-1,\"epoch\":7,\"moved\":[]}]}",
        "{\"version\":1,\"deposed\":[{\"brokerid\":2,\"epoch\":7,\"moved\":[[]]}]}",
        "{\"version\":1,\"deposed\":[{\"brokerid\":2,\"epoch\":7,\"moved\":[[\"x\",0]]}"
        "]}",
        "{\"version\":1,\"deposed\":[{\"brokerid\":2,\"epoch\":7,\"moved\":"
        "[[\"01000000000000000000000000000000\",-1]]}]}",
        "{\"version\":1,\"deposed\":[7]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(deposals_decode(bad[i], NULL, 0, &deposals), E_INVALID_JSON);
        assert_null(deposals);
    }
    assert_int_equal(
        deposals_decode("{\"version\":1,\"deposed\":[]}", NULL, 0, &deposals), 0);
    assert_int_equal(deposals->count, 0);
    deposals_unref(deposals);
}

static void test_what_would_move(void **state)
{
    const int32_t replicas[] = {2, 3};
    (void)state;
    assert_true(deposal_moves(2, 2, true, replicas, 2));
    assert_false(deposal_moves(3, 2, true, replicas, 2));
    /* Nobody leads, so node 3 may by now. */
    assert_true(deposal_moves(3, 2, false, replicas, 2));
    assert_true(deposal_moves(3, -1, false, replicas, 2));
    assert_false(deposal_moves(1, -1, false, replicas, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_moved_rests),
        cmocka_unit_test(test_ages_count_from_the_first_sight),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_what_would_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
