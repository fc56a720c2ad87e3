#include "fs/refusals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct refusals refusals;

static int clear(void **state)
{
    (void)state;
    refusals = (struct refusals){0};
    return 0;
}

static void test_a_record_holds_for_a_while(void **state)
{
    (void)state;
    assert_false(refusals_has(&refusals, 7, 1, 0));
    refusals_note(&refusals, 7, 1, 100);
    assert_true(refusals_has(&refusals, 7, 1, 100 + REFUSALS_HOLD_MS - 1));
    assert_false(refusals_has(&refusals, 7, 1, 100 + REFUSALS_HOLD_MS));
    assert_false(refusals_has(&refusals, 7, 2, 101));
    assert_false(refusals_has(&refusals, 8, 1, 101));
    refusals_end(&refusals, 8);
    assert_true(refusals_has(&refusals, 7, 1, 101));
    refusals_end(&refusals, 7);
    assert_false(refusals_has(&refusals, 7, 1, 101));
}

/* Thread ids that fall on the same slots stand side by side. */
static void test_threads_do_not_push_each_other_out(void **state)
{
    (void)state;
    for (int64_t i = 0; i < REFUSALS_PROBE; i++)
        refusals_note(&refusals, 5 + i * REFUSALS_SLOTS, 1, 100 + i);
    for (int64_t i = 0; i < REFUSALS_PROBE; i++)
        assert_true(refusals_has(&refusals, 5 + i * REFUSALS_SLOTS, 1, 200));
    /* Without room the oldest goes. */
    refusals_note(&refusals, 5 + 99LL * REFUSALS_SLOTS, 1, 200);
    assert_false(refusals_has(&refusals, 5, 1, 200));
    assert_true(refusals_has(&refusals, 5 + 1 * REFUSALS_SLOTS, 1, 200));
    assert_true(refusals_has(&refusals, 5 + 99LL * REFUSALS_SLOTS, 1, 200));
}

static void test_a_thread_has_one_record(void **state)
{
    (void)state;
    refusals_note(&refusals, 7, 1, 100);
    refusals_note(&refusals, 7, 2, 200);
    assert_false(refusals_has(&refusals, 7, 1, 200));
    assert_true(refusals_has(&refusals, 7, 2, 200));
    refusals_end(&refusals, 7);
    assert_false(refusals_has(&refusals, 7, 2, 200));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_record_holds_for_a_while, clear),
        cmocka_unit_test_setup(test_threads_do_not_push_each_other_out, clear),
        cmocka_unit_test_setup(test_a_thread_has_one_record, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
