#include "coord/number.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void test_every_number_and_the_next(void **state)
{
    (void)state;
    for (int64_t maximum = 0; maximum < 130; maximum++)
        for (int64_t number = 0; number < 260; number++) {
            int64_t out = -1;
            char text[24];

            snprintf(text, sizeof(text), "%" PRId64, number);
            if (number <= maximum) {
                assert_int_equal(number_parse(text, maximum, &out), 0);
                assert_int_equal(out, number);
            } else {
                assert_int_equal(number_parse(text, maximum, &out), -EINVAL);
            }
        }
}

static void test_the_ends(void **state)
{
    int64_t out;

    (void)state;
    assert_int_equal(number_parse("9223372036854775807", INT64_MAX, &out), 0);
    assert_int_equal(out, INT64_MAX);
    assert_int_equal(number_parse("9223372036854775808", INT64_MAX, &out), -EINVAL);
    assert_int_equal(number_parse("2147483647", INT32_MAX, &out), 0);
    assert_int_equal(number_parse("2147483648", INT32_MAX, &out), -EINVAL);
    assert_int_equal(number_parse("99999999999999999999999", INT64_MAX, &out), -EINVAL);
}

static void test_what_is_no_number(void **state)
{
    static const char *const bad[] = {"",   "00", "01", "-1", "+1",  " 1",
                                      "1 ", "1x", "x",  "1.", "0x1", "\xc2\xb2"};
    int64_t out;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(number_parse(bad[i], INT64_MAX, &out), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_and_the_next),
        cmocka_unit_test(test_the_ends),
        cmocka_unit_test(test_what_is_no_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
