#include "fs/json_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void renders(void **state)
{
    static const struct {
        const char *line;
        size_t length;
        int delimiter;
        const char *want;
    } cases[] = {
        {"hello", 5, '\t', "\"key\":null,\"value\":\"hello\"}\n"},
        {"", 0, '\t', "\"key\":null,\"value\":\"\"}\n"},
        {"k\tv\tw", 5, '\t', "\"key\":\"k\",\"value\":\"v\\tw\"}\n"},
        {"\tv", 2, '\t', "\"key\":\"\",\"value\":\"v\"}\n"},
        {"k\t", 2, '\t', "\"key\":\"k\",\"value\":\"\"}\n"},
        {"k\tv", 3, KEY_DELIMITER_NONE, "\"key\":null,\"value\":\"k\\tv\"}\n"},
        {"k:v", 3, ':', "\"key\":\"k\",\"value\":\"v\"}\n"},
        {"\"\\", 2, '\t', "\"key\":null,\"value\":\"\\\"\\\\\"}\n"},
        {"a\0b", 3, '\t', "\"key\":null,\"value\":\"a\\u0000b\"}\n"},
        {"gr\xc3\xbc\xc3\x9f", 6, '\t',
         "\"key\":null,\"value\":\"gr\xc3\xbc\xc3\x9f\"}\n"},
        {"\xff", 1, '\t', "\"key\":null,\"value\":null,\"value_base64\":\"/w==\"}\n"},
        {"\xff\xfe", 2, '\t',
         "\"key\":null,\"value\":null,\"value_base64\":\"//4=\"}\n"},
        {"\xff\xfe\xfd", 3, '\t',
         "\"key\":null,\"value\":null,\"value_base64\":\"//79\"}\n"},
        {"\xff\xfe\xfd\xfc", 4, '\t',
         "\"key\":null,\"value\":null,\"value_base64\":\"//79/A==\"}\n"},
        {"\xff\tv", 3, '\t', "\"key\":null,\"key_base64\":\"/w==\",\"value\":\"v\"}\n"},
        /* valid as a whole, not in parts: a delimiter inside of a sequence */
        {"\xc3\xbcx", 3, 0xbc,
         "\"key\":null,\"key_base64\":\"ww==\",\"value\":\"x\"}\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf buf;
        char want[256];
        (void)snprintf(want, sizeof want,
                       "{\"offset\":%zu,\"timestamp\":1764417600123,%s", i,
                       cases[i].want);
        buf_init(&buf, 4096);
        assert_int_equal(message_json_add(&buf, -1, (int64_t)i, 1764417600123,
                                          cases[i].line, cases[i].length,
                                          cases[i].delimiter),
                         0);
        assert_string_equal(buf.data, want);
        buf_free(&buf);
    }
}

static void large_offsets_are_exact(void **state)
{
    static const char want[] = "{\"offset\":9223372036854775806,\"timestamp\":-1,"
                               "\"key\":null,\"value\":\"x\"}\n";
    struct buf buf;
    (void)state;
    buf_init(&buf, 4096);
    assert_int_equal(message_json_add(&buf, -1, INT64_MAX - 1, -1, "x", 1, '\t'), 0);
    assert_string_equal(buf.data, want);
    buf_free(&buf);
}

static void says_when_it_does_not_fit(void **state)
{
    struct buf buf;
    (void)state;
    buf_init(&buf, 20);
    assert_int_equal(message_json_add(&buf, 3, 1, 1, "x", 1, '\t'), -EMSGSIZE);
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders),
        cmocka_unit_test(large_offsets_are_exact),
        cmocka_unit_test(says_when_it_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
