#include "fs/where.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void names_of_places(void **state)
{
    static const struct {
        const char *name;
        struct where want;
    } cases[] = {
        {"0", {.kind = WHERE_OFFSET}},
        {"42", {.kind = WHERE_OFFSET, .offset = 42}},
        {"9223372036854775807", {.kind = WHERE_OFFSET, .offset = INT64_MAX}},
        {"42-99", {.kind = WHERE_RANGE, .offset = 42, .last_offset = 99}},
        {"7-7", {.kind = WHERE_RANGE, .offset = 7, .last_offset = 7}},
        {"0-9223372036854775807", {.kind = WHERE_RANGE, .last_offset = INT64_MAX}},
        {"last10", {.kind = WHERE_LAST, .count = 10}},
        {"last0", {.kind = WHERE_LAST}},
        {"-10", {.kind = WHERE_LAST, .count = 10}},
        {"last30s", {.kind = WHERE_AGE, .age_ms = 30000}},
        {"last5m", {.kind = WHERE_AGE, .age_ms = 300000}},
        {"last2h", {.kind = WHERE_AGE, .age_ms = 7200000}},
        {"last1d", {.kind = WHERE_AGE, .age_ms = 86400000}},
        {"earliest", {.kind = WHERE_EARLIEST}},
        {"latest", {.kind = WHERE_LATEST}},
        {"@1764417600", {.kind = WHERE_TIME, .time_ms = 1764417600000}},
        {"@1764417600.25", {.kind = WHERE_TIME, .time_ms = 1764417600250}},
        {"@0", {.kind = WHERE_TIME}},
        {"2025-11-29T12:00:00Z", {.kind = WHERE_TIME, .time_ms = 1764417600000}},
        {"2025-11-29t12:00:00z", {.kind = WHERE_TIME, .time_ms = 1764417600000}},
        {"2025-11-29T12:00:00.5Z", {.kind = WHERE_TIME, .time_ms = 1764417600500}},
        {"2025-11-29T12:00:00.123456789Z",
         {.kind = WHERE_TIME, .time_ms = 1764417600123}},
        {"2025-11-29T13:00:00+01:00", {.kind = WHERE_TIME, .time_ms = 1764417600000}},
        {"2025-11-29T06:30:00-05:30", {.kind = WHERE_TIME, .time_ms = 1764417600000}},
        {"2025-11-29T13:00:00+0100", {.kind = WHERE_TIME, .time_ms = 1764417600000}},
        {"2024-02-29T00:00:00Z", {.kind = WHERE_TIME, .time_ms = 1709164800000}},
        {"1970-01-01T00:00:00Z", {.kind = WHERE_TIME}},
        {"1969-12-31T23:59:59Z", {.kind = WHERE_TIME, .time_ms = -1000}},
        {"2016-12-31T23:59:60Z", {.kind = WHERE_TIME, .time_ms = 1483228800000}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct where got;
        print_message("%s\n", cases[i].name);
        assert_int_equal(where_parse(cases[i].name, &got), 0);
        assert_int_equal(got.kind, cases[i].want.kind);
        assert_int_equal(got.offset, cases[i].want.offset);
        assert_int_equal(got.last_offset, cases[i].want.last_offset);
        assert_int_equal(got.count, cases[i].want.count);
        assert_int_equal(got.age_ms, cases[i].want.age_ms);
        assert_int_equal(got.time_ms, cases[i].want.time_ms);
    }
}

static void names_of_nothing(void **state)
{
    static const char *const names[] = {
        "",
        " 1",
        "1 ",
        "+1",
        "00",
        "01",
        "007",
        "-",
        "--1",
        "-01",
        "-5m",
        "1-",
        "-1-2",
        "5-4",
        "1-02",
        "1-2-3",
        "1--2",
        "9223372036854775808",
        "last",
        "last-1",
        "last1w",
        "last01",
        "last1mm",
        "last1M",
        "last 1",
        "lastm",
        "last99999999999999999d",
        "last9223372036854775807d",
        "Latest",
        "latest ",
        "earliest1",
        "@",
        "@-1",
        "@01",
        "@1.",
        "@1.x",
        "@9223372036854775807",
        "2025-11-29",
        "2025-11-29T12:00:00",
        "2025-11-29T12:00Z",
        "2025-13-01T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "2025-00-01T00:00:00Z",
        "2025-01-00T00:00:00Z",
        "2025-01-32T00:00:00Z",
        "2025-01-01T24:00:00Z",
        "2025-01-01T00:60:00Z",
        "2025-01-01T00:00:61Z",
        "2025-01-01T00:00:00.Z",
        "2025-01-01T00:00:00+24:00",
        "2025-01-01T00:00:00+1",
        "2025-01-01T00:00:00ZZ",
        "25-01-01T00:00:00Z",
        "T",
        "x",
        "1e3",
        "0x10",
        "1\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct where got;
        print_message("\"%s\"\n", names[i]);
        assert_int_equal(where_parse(names[i], &got), -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_places),
        cmocka_unit_test(names_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
