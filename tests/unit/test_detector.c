#include "coord/detector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_two_refusals_some_time_apart(void **state)
{
    (void)state;
    struct detector detector = {0};
    int64_t epoch = 0;
    detector_registered(&detector, 2, 7);
    assert_false(detector_refused(&detector, 2, 20000, &epoch));
    assert_false(detector_refused(&detector, 2, 20049, &epoch));
    assert_true(detector_refused(&detector, 2, 20050, &epoch));
    assert_int_equal(epoch, 7);
    assert_false(detector_refused(&detector, 9, 20050, &epoch));
}

static void test_an_answer_between_forgets_the_first(void **state)
{
    (void)state;
    struct detector detector = {0};
    int64_t epoch = 0;
    detector_registered(&detector, 2, 7);
    assert_false(detector_refused(&detector, 2, 20000, &epoch));
    assert_false(detector_answered(&detector, 2, 7, &epoch));
    assert_false(detector_refused(&detector, 2, 20100, &epoch));
    /* Long ago counts as nothing, too. */
    assert_false(detector_refused(&detector, 2, 30000, &epoch));
    assert_true(detector_refused(&detector, 2, 30100, &epoch));
}

static void test_another_registration_begins_anew(void **state)
{
    (void)state;
    struct detector detector = {0};
    int64_t epoch = 0;
    detector_registered(&detector, 2, 7);
    assert_false(detector_refused(&detector, 2, 20000, &epoch));
    detector_registered(&detector, 2, 0);
    assert_false(detector_refused(&detector, 2, 20100, &epoch));
    assert_false(detector_refused(&detector, 2, 20200, &epoch));
    detector_registered(&detector, 2, 9);
    assert_false(detector_refused(&detector, 2, 20300, &epoch));
    detector_registered(&detector, 2, 9); /* the same one, seen again */
    assert_true(detector_refused(&detector, 2, 20350, &epoch));
    assert_int_equal(epoch, 9);
    /* It goes on refusing: each is worth a report. */
    assert_true(detector_refused(&detector, 2, 20600, &epoch));
}

static void test_another_incarnation_answers(void **state)
{
    (void)state;
    struct detector detector = {0};
    int64_t epoch = 0;
    assert_false(detector_answered(&detector, 2, 8, &epoch));
    detector_registered(&detector, 2, 7);
    assert_false(detector_answered(&detector, 2, 6, &epoch));
    assert_false(detector_answered(&detector, 2, 7, &epoch));
    assert_true(detector_answered(&detector, 2, 8, &epoch));
    assert_int_equal(epoch, 7);
}

static void test_when_to_ask_again(void **state)
{
    (void)state;
    assert_int_equal(detector_pause_ms(DETECTOR_REFUSED, 0, 1), DETECTOR_APART_MS);
    assert_int_equal(detector_pause_ms(DETECTOR_ANSWERED, 0, 1), 0);
    assert_int_equal(detector_pause_ms(DETECTOR_ANSWERED, 10000, 10001), 0);
    /* Who answers a long call at once would be asked for ever. */
    assert_int_equal(detector_pause_ms(DETECTOR_ANSWERED, 10000, 1), DETECTOR_AGAIN_MS);
    assert_int_equal(detector_pause_ms(DETECTOR_BROKEN, 10000, 4000), 0);
    assert_int_equal(detector_pause_ms(DETECTOR_BROKEN, 0, 1), DETECTOR_AGAIN_MS - 1);
    assert_true(detector_pause_ms(DETECTOR_REPORTED, 0, 1) > 0);
    assert_true(detector_pause_ms(DETECTOR_FAILED, 0, 1) > 0);
    assert_true(detector_pause_ms(DETECTOR_CLOSED, 0, 1) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_refusals_some_time_apart),
        cmocka_unit_test(test_an_answer_between_forgets_the_first),
        cmocka_unit_test(test_another_registration_begins_anew),
        cmocka_unit_test(test_another_incarnation_answers),
        cmocka_unit_test(test_when_to_ask_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
