#include "replica/lines.h"

#include "coord/coord.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 4 };

static void one_write(void **state)
{
    static const struct {
        const char *bytes;
        size_t pending;
        bool discarding;
        struct lines_cut want;
    } cases[] = {
        {"a\n", 0, false, {.complete = 2, .consumed = 2, .count = 1}},
        {"\n", 0, false, {.complete = 1, .consumed = 1, .count = 1}},
        {"a\n\nb\n", 0, false, {.complete = 5, .consumed = 5, .count = 3}},
        {"a", 0, false, {.tail = 1, .consumed = 1}},
        {"a\nb", 0, false, {.complete = 2, .tail = 1, .consumed = 3, .count = 1}},
        {"abcd\n", 0, false, {.complete = 5, .consumed = 5, .count = 1}},
        {"abcd", 0, false, {.tail = 4, .consumed = 4}},
        /* with a part before */
        {"\n", 4, false, {.complete = 1, .consumed = 1, .count = 1}},
        {"cd\nabcd", 2, false, {.complete = 3, .tail = 4, .consumed = 7, .count = 1}},
        {"d", 3, false, {.tail = 1, .consumed = 1}},
        /* too long: refused at the start, short write later */
        {"abcde\n", 0, false, {.error = E_MESSAGE_TOO_LARGE}},
        {"abcde\nb\n", 0, false, {.error = E_MESSAGE_TOO_LARGE}},
        {"abcde",
         0,
         false,
         {.error = E_MESSAGE_TOO_LARGE, .after = {.discarding = true}}},
        {"de", 3, false, {.error = E_MESSAGE_TOO_LARGE, .after = {.discarding = true}}},
        {"a\nabcde\n", 0, false, {.complete = 2, .consumed = 2, .count = 1}},
        {"a\nabcde", 0, false, {.complete = 2, .consumed = 2, .count = 1}},
        {"a\nb\nabcde", 0, false, {.complete = 4, .consumed = 4, .count = 2}},
        /* the rest of a refused line */
        {"xyz", 0, true, {.error = E_MESSAGE_TOO_LARGE, .after = {.discarding = true}}},
        {"xyzxyz\n", 0, true, {.skip = 7, .consumed = 7}},
        {"x\na\nb",
         0,
         true,
         {.skip = 2, .complete = 2, .tail = 1, .consumed = 5, .count = 1}},
        {"x\nabcde\n", 0, true, {.skip = 2, .consumed = 2}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lines_state before = {.discarding = cases[i].discarding};
        struct lines_cut got;
        print_message("case %zu\n", i);
        lines_cut(&before, cases[i].pending, MAX, cases[i].bytes,
                  strlen(cases[i].bytes), &got);
        assert_int_equal(got.error, cases[i].want.error);
        assert_int_equal(got.skip, cases[i].want.skip);
        assert_int_equal(got.complete, cases[i].want.complete);
        assert_int_equal(got.tail, cases[i].want.tail);
        assert_int_equal(got.consumed, cases[i].want.consumed);
        assert_int_equal(got.count, cases[i].want.count);
        assert_int_equal(got.after.discarding, cases[i].want.after.discarding);
        assert_int_equal(got.after.refused_length, 0);
    }
}

/* A line that began earlier and turns out too long: its end is refused whenever it
 * comes again, and anything else is a new line. */
static void refused_end_comes_again(void **state)
{
    struct lines_state start = {0};
    struct lines_cut refused;
    struct lines_cut got;
    (void)state;
    lines_cut(&start, 3, MAX, "de\na\n", 5, &refused);
    assert_int_equal(refused.error, E_MESSAGE_TOO_LARGE);
    assert_false(refused.after.discarding);
    assert_int_equal(refused.after.refused_length, 3);

    lines_cut(&refused.after, 0, MAX, "de\na\n", 5, &got);
    assert_int_equal(got.error, E_MESSAGE_TOO_LARGE);
    assert_int_equal(got.consumed, 0);
    lines_cut(&got.after, 0, MAX, "de\nb\n", 5, &got);
    assert_int_equal(got.error, E_MESSAGE_TOO_LARGE);

    lines_cut(&got.after, 0, MAX, "b\n", 2, &got);
    assert_int_equal(got.skip, 0);
    assert_int_equal(got.complete, 2);
    assert_int_equal(got.after.refused_length, 0);

    lines_cut(&refused.after, 0, MAX, "df\na\n", 5, &got);
    assert_int_equal(got.skip, 0);
    assert_int_equal(got.count, 2);
}

static void a_whole_line_is_refused_each_time(void **state)
{
    struct lines_state start = {0};
    struct lines_cut got;
    (void)state;
    lines_cut(&start, 0, MAX, "abcde\n", 6, &got);
    lines_cut(&got.after, 0, MAX, "abcde\n", 6, &got);
    assert_int_equal(got.error, E_MESSAGE_TOO_LARGE);
    assert_int_equal(got.consumed, 0);
}

static void counts_newlines(void **state)
{
    enum { SIZE = 100000 };
    char *bytes = malloc(SIZE);
    size_t want = 0;
    uint32_t seed = 1;
    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = seed >> 30 == 0 ? '\n' : (char)(seed >> 24);
    }
    for (size_t length = 0; length <= SIZE; length += length < 300 ? 1 : 3331) {
        want = 0;
        for (size_t i = 0; i < length; i++)
            want += bytes[i] == '\n';
        assert_int_equal(lines_count(bytes, length), want);
    }
    memset(bytes, '\n', SIZE);
    assert_int_equal(lines_count(bytes, SIZE), SIZE);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_write),
        cmocka_unit_test(refused_end_comes_again),
        cmocka_unit_test(a_whole_line_is_refused_each_time),
        cmocka_unit_test(counts_newlines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
