#include "replica/stamp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_times_never_fall(void **state)
{
    (void)state;
    assert_int_equal(stamp_next(INT64_MIN, -5), -5);
    assert_int_equal(stamp_next(10, 11), 11);
    assert_int_equal(stamp_next(10, 10), 10);
    assert_int_equal(stamp_next(10, 9), 10);
}

static int64_t time_of(const void *arg, size_t i)
{
    return ((const int64_t *)arg)[i];
}

static void test_the_first_at_or_after_is_found(void **state)
{
    (void)state;
    static const int64_t times[] = {1, 3, 3, 3, 7, 9, 9};
    enum { COUNT = sizeof times / sizeof times[0] };
    for (size_t count = 0; count <= COUNT; count++) {
        for (int64_t time = 0; time < 11; time++) {
            size_t wanted = 0;
            while (wanted < count && times[wanted] < time) {
                wanted++;
            }
            assert_int_equal(stamp_search(time_of, times, count, time), wanted);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_never_fall),
        cmocka_unit_test(test_the_first_at_or_after_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
