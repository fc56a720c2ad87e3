/* The growing buffer: its maximum is exact, and a failure sticks. */
#include "coord/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_append(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 1024);
    assert_null(buf.data);
    assert_int_equal(buf_adds(&buf, "one"), 0);
    assert_int_equal(buf_add(&buf, "\0two", 4), 0);
    assert_int_equal(buf_printf(&buf, "-%d-%s", 3, "four"), 0);
    assert_int_equal(buf.length, 14);
    assert_memory_equal(buf.data, "one\0two-3-four", 15);
    assert_int_equal(buf_error(&buf), 0);
    buf_free(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.length, 0);
    assert_int_equal(buf.maximum, 1024);
}

static void test_maximum_is_exact(void **state)
{
    static const char bytes[101];

    (void)state;
    for (size_t maximum = 60; maximum <= 100; maximum++) {
        struct buf buf;

        buf_init(&buf, maximum);
        assert_int_equal(buf_add(&buf, bytes, maximum), 0);
        assert_int_equal(buf.length, maximum);
        assert_int_equal(buf.data[maximum], 0);
        assert_int_equal(buf_add(&buf, bytes, 0), 0);
        assert_int_equal(buf_add(&buf, bytes, 1), -EMSGSIZE);
        assert_null(buf.data);
        assert_int_equal(buf.length, 0);
        buf_free(&buf);
    }
}

static void test_grows_byte_by_byte(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, SIZE_MAX);
    for (int i = 0; i < 5000; i++) {
        char byte = (char)('a' + i % 26);

        assert_int_equal(buf_add(&buf, &byte, 1), 0);
        assert_int_equal(buf.data[buf.length], 0);
    }
    for (int i = 0; i < 5000; i++)
        assert_int_equal(buf.data[i], 'a' + i % 26);
    buf_free(&buf);
}

static void test_failure_sticks(void **state)
{
    struct buf buf;
    size_t length = 7;

    (void)state;
    buf_init(&buf, 8);
    assert_int_equal(buf_printf(&buf, "%s", "12345678"), 0);
    assert_int_equal(buf_printf(&buf, "%d", 9), -EMSGSIZE);
    assert_int_equal(buf_adds(&buf, "x"), -EMSGSIZE);
    assert_int_equal(buf_printf(&buf, "x"), -EMSGSIZE);
    buf_clear(&buf);
    assert_int_equal(buf_add(&buf, "", 0), -EMSGSIZE);
    assert_int_equal(buf_error(&buf), -EMSGSIZE);
    assert_null(buf_take(&buf, &length));
    assert_int_equal(length, 0);
    /* Only freeing makes it usable again. */
    buf_free(&buf);
    assert_int_equal(buf_error(&buf), 0);
    assert_int_equal(buf_adds(&buf, "x"), 0);
    buf_free(&buf);
}

static void test_absurd_length(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, SIZE_MAX);
    buf_adds(&buf, "x");
    assert_int_equal(buf_add(&buf, "y", SIZE_MAX), -EMSGSIZE);
    buf_free(&buf);
    buf_adds(&buf, "x");
    assert_int_equal(buf_add(&buf, "y", SIZE_MAX - 1), -ENOMEM);
    buf_free(&buf);
}

static void test_consume_and_clear(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 100);
    buf_consume(&buf, 5);
    buf_clear(&buf);
    assert_null(buf.data);
    buf_adds(&buf, "abcdef");
    buf_consume(&buf, 0);
    assert_string_equal(buf.data, "abcdef");
    buf_consume(&buf, 2);
    assert_string_equal(buf.data, "cdef");
    assert_int_equal(buf.length, 4);
    buf_consume(&buf, 4);
    assert_int_equal(buf.length, 0);
    assert_string_equal(buf.data, "");
    buf_adds(&buf, "gh");
    buf_consume(&buf, 99);
    assert_int_equal(buf.length, 0);
    buf_adds(&buf, "ij");
    buf_clear(&buf);
    assert_string_equal(buf.data, "");
    buf_free(&buf);
}

static void test_take(void **state)
{
    struct buf buf;
    size_t length;

    (void)state;
    buf_init(&buf, 100);
    assert_null(buf_take(&buf, NULL));
    buf_adds(&buf, "mine");
    char *taken = buf_take(&buf, &length);
    assert_string_equal(taken, "mine");
    assert_int_equal(length, 4);
    assert_null(buf.data);
    assert_int_equal(buf.length, 0);
    buf_adds(&buf, "next");
    assert_string_equal(buf.data, "next");
    assert_string_equal(taken, "mine");
    free(taken);
    buf_clear(&buf);
    assert_null(buf_take(&buf, &length));
    assert_int_equal(length, 0);
    assert_null(buf.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_maximum_is_exact),
        cmocka_unit_test(test_grows_byte_by_byte),
        cmocka_unit_test(test_failure_sticks),
        cmocka_unit_test(test_absurd_length),
        cmocka_unit_test(test_consume_and_clear),
        cmocka_unit_test(test_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
