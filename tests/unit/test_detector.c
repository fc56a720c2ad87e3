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
    detector_registered(&detector, 2, 7, 0);
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
    detector_registered(&detector, 2, 7, 0);
    assert_false(detector_refused(&detector, 2, 20000, &epoch));
    assert_false(detector_answered(&detector, 2, 7, 20010, &epoch));
    assert_false(detector_refused(&detector, 2, 20100, &epoch));
    /* Long ago counts as nothing, too. */
    assert_false(detector_refused(&detector, 2, 30000, &epoch));
    assert_true(detector_refused(&detector, 2, 30100, &epoch));
}

static void test_a_young_registration_is_left_alone(void **state)
{
    (void)state;
    struct detector detector = {0};
    int64_t epoch = 0;
    detector_registered(&detector, 2, 7, 0);
    detector_registered(&detector, 2, 0, 15000);
    assert_false(detector_refused(&detector, 2, 15010, &epoch));
    detector_registered(&detector, 2, 9, 16000);
    detector_registered(&detector, 2, 9, 17000); /* the same one, seen again */
    assert_false(detector_refused(&detector, 2, 25800, &epoch));
    assert_false(detector_refused(&detector, 2, 25900, &epoch));
    assert_false(detector_refused(&detector, 2, 26000, &epoch));
    assert_true(detector_refused(&detector, 2, 26100, &epoch));
    assert_int_equal(epoch, 9);
}

static void test_another_incarnation_answers(void **state)
{
    (void)state;
    struct detector detector = {0};
    int64_t epoch = 0;
    detector_registered(&detector, 2, 7, 0);
    assert_false(detector_answered(&detector, 2, 6, 20000, &epoch));
    assert_true(detector_answered(&detector, 2, 8, 20000, &epoch));
    assert_int_equal(epoch, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_refusals_some_time_apart),
        cmocka_unit_test(test_an_answer_between_forgets_the_first),
        cmocka_unit_test(test_a_young_registration_is_left_alone),
        cmocka_unit_test(test_another_incarnation_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
