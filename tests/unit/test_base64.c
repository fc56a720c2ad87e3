#include "coord/base64.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_round_trip(void **state)
{
    static const char *const pairs[][2] = {
        {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
        {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe\xfd", "//79"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        struct buf out;
        char *bytes;
        size_t length;
        buf_init(&out, 100);
        assert_int_equal(base64_encode(&out, pairs[i][0], strlen(pairs[i][0])), 0);
        assert_string_equal(out.data ? out.data : "", pairs[i][1]);
        assert_int_equal(base64_decode(pairs[i][1], &bytes, &length), 0);
        assert_int_equal(length, strlen(pairs[i][0]));
        assert_string_equal(bytes, pairs[i][0]);
        free(bytes);
        buf_free(&out);
    }
}

static void test_refuses(void **state)
{
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Z===", "Zm9=v===", "Zm 9", "====", "Zm8-"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char *bytes;
        size_t length;
        assert_int_equal(base64_decode(bad[i], &bytes, &length), -EBADMSG);
        assert_null(bytes);
    }
}

static void test_full_buffer(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 7);
    assert_int_equal(base64_encode(&out, "foob", 4), -EMSGSIZE);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_full_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
