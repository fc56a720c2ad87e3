/* The register of faults: first time kept, one line each, bounded when shown. */
#include "coord/problems.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct fixed_clock {
    struct clock clock;
    int64_t wall_ms;
};

static int64_t fixed_mono_ns(const struct clock *clock)
{
    return ((const struct fixed_clock *)(const void *)clock)->wall_ms * 1000000;
}

static int64_t fixed_wall_ms(const struct clock *clock)
{
    return ((const struct fixed_clock *)(const void *)clock)->wall_ms;
}

struct fixture {
    struct fixed_clock clock;
    struct problems *problems;
    struct buf out;
};

static int setup(void **state)
{
    static struct fixture fixture;

    fixture.clock = (struct fixed_clock){{fixed_mono_ns, fixed_wall_ms}, 1764417600000};
    fixture.problems = problems_new(&fixture.clock.clock);
    buf_init(&fixture.out, 4 * 1024 * 1024);
    *state = &fixture;
    return fixture.problems ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    problems_free(fixture->problems);
    buf_free(&fixture->out);
    return 0;
}

static const char *shown(struct fixture *fixture)
{
    buf_clear(&fixture->out);
    assert_int_equal(problems_render(fixture->problems, &fixture->out), 0);
    return fixture->out.length ? fixture->out.data : "";
}

static void test_set_and_clear(void **state)
{
    struct fixture *fixture = *state;

    assert_string_equal(shown(fixture), "");
    problems_set(fixture->problems, "damaged", "t-0", "segment 42 is bad", "repair it");
    assert_string_equal(
        shown(fixture),
        "since=2025-11-29T12:00:00Z kind=damaged t-0: segment 42 is bad; repair it\n");
    problems_clear(fixture->problems, "damaged", "t-1");
    problems_clear(fixture->problems, "offline", "t-0");
    assert_int_equal(strlen(shown(fixture)) > 0, 1);
    problems_clear(fixture->problems, "damaged", "t-0");
    assert_string_equal(shown(fixture), "");
}

static void test_since_is_kept_and_oldest_is_first(void **state)
{
    struct fixture *fixture = *state;

    problems_set(fixture->problems, "a", "1", "first", "wait");
    fixture->clock.wall_ms += 60999;
    problems_set(fixture->problems, "b", "2", "second", "wait");
    problems_set(fixture->problems, "a", "1", "changed", NULL);
    assert_string_equal(shown(fixture),
                        "since=2025-11-29T12:00:00Z kind=a 1: changed\n"
                        "since=2025-11-29T12:01:00Z kind=b 2: second; wait\n");
    /* Solved and come again: a new fault, with a new time, at the end. */
    problems_clear(fixture->problems, "a", "1");
    problems_set(fixture->problems, "a", "1", "again", "wait");
    assert_string_equal(shown(fixture),
                        "since=2025-11-29T12:01:00Z kind=b 2: second; wait\n"
                        "since=2025-11-29T12:01:00Z kind=a 1: again; wait\n");
}

static void test_one_line_each(void **state)
{
    struct fixture *fixture = *state;
    char many[2000];

    problems_set(fixture->problems, "a", "x\ny", "one\ntwo\r\n", "th\x01ree\n");
    assert_string_equal(shown(fixture),
                        "since=2025-11-29T12:00:00Z kind=a x y: one two  ; th ree\n");
    problems_clear(fixture->problems, "a", "x\ny");
    memset(many, 'm', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    problems_set(fixture->problems, "a", "x", many, many);
    assert_int_equal(strlen(shown(fixture)),
                     strlen("since=2025-11-29T12:00:00Z kind=a x: ; \n") + 512 + 512);
}

static void test_bound(void **state)
{
    struct fixture *fixture = *state;
    char subject[32];

    for (int i = 0; i < 1003; i++) {
        snprintf(subject, sizeof subject, "t-%d", i);
        problems_set(fixture->problems, "damaged", subject, "bad", "repair");
    }
    assert_non_null(strstr(shown(fixture), " t-999: bad"));
    assert_null(strstr(shown(fixture), " t-1000: "));
    assert_string_equal(strstr(shown(fixture), "and "), "and 3 more\n");
    /* The rest moves up. */
    for (int i = 0; i < 3; i++) {
        snprintf(subject, sizeof subject, "t-%d", i);
        problems_clear(fixture->problems, "damaged", subject);
    }
    assert_non_null(strstr(shown(fixture), " t-1002: bad"));
    assert_null(strstr(shown(fixture), "and "));
}

static void test_render_reports_the_buffer(void **state)
{
    struct fixture *fixture = *state;
    struct buf small;

    problems_set(fixture->problems, "a", "x", "bad", "repair");
    buf_init(&small, 10);
    assert_int_equal(problems_render(fixture->problems, &small), -EMSGSIZE);
    buf_free(&small);
}

static void *hammer(void *arg)
{
    struct fixture *fixture = arg;
    char subject[32];
    struct buf out;

    buf_init(&out, 1024 * 1024);
    for (int i = 0; i < 300; i++) {
        snprintf(subject, sizeof subject, "t-%d", i % 7);
        problems_set(fixture->problems, "k", subject, i % 2 ? "odd" : "even", "wait");
        problems_render(fixture->problems, &out);
        buf_clear(&out);
        problems_clear(fixture->problems, "k", subject);
    }
    buf_free(&out);
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[4];

    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, *state), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_string_equal(shown(*state), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_set_and_clear, setup, teardown),
        cmocka_unit_test_setup_teardown(test_since_is_kept_and_oldest_is_first, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_one_line_each, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(test_render_reports_the_buffer, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
