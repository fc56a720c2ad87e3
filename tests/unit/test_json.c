/* The JSON reader: strict, bounded, and exact about what is only not complete yet. */
#include "coord/json.h"

#include "coord/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int parse(const char *text, size_t length)
{
    /* An exact heap copy, so that a sanitizer sees a read past the end. */
    char *copy = malloc(length ? length : 1);
    cJSON *tree = NULL;

    assert_non_null(copy);
    memcpy(copy, text, length);
    int rc = json_parse(copy, length, &tree);
    assert_true((rc == 0) == (tree != NULL));
    cJSON_Delete(tree);
    free(copy);
    return rc;
}

static const char *const good[] = {
    "{}",
    "[]",
    " \t\r\n{ \"a\" : [ 1 , -2.5e+3 , 0, -0, 1E2 ] , \"b\" : { } } \n",
    "\"\"",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
    "\"\\uD83D\\uDE00\"",
    "\"\\ud7ff\\ue000\\uffff\"",
    "\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf"
    "\xbf\"",
    "{\"\xc3\xa9\":\"\\u00e9\",\"e\":true}",
    "true",
    "false",
    "null",
    "12",
    "0",
    "-0.0",
    "[[[[]]]]",
    "{\"a\":{\"a\":1},\"b\":{\"a\":1},\"A\":2}",
    "[{\"a\":1},{\"a\":1}]",
};

/*
 * Every prefix of a good text is not complete, but for a number, which might end
 * anywhere, and for what only lacks white space.
 */
static void test_good_and_their_prefixes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        size_t length = strlen(good[i]);
        size_t whole = length;
        char last;

        assert_int_equal(parse(good[i], length), 0);
        while (good[i][whole - 1] == '\n' || good[i][whole - 1] == ' ')
            whole--;
        last = good[i][whole - 1];
        if (last >= '0' && last <= '9')
            continue;
        for (size_t cut = 0; cut < length; cut++)
            assert_int_equal(parse(good[i], cut), cut < whole ? -EAGAIN : 0);
    }
}

static void test_bad(void **state)
{
    static const char *const bad[] = {
        "}",
        "]",
        ",",
        ":",
        "x",
        "nul!",
        "True",
        "NaN",
        "Infinity",
        "'a'",
        "+1",
        "01",
        "-01",
        ".5",
        "1.x",
        "1.e5",
        "1ex",
        "--1",
        "0x10",
        "1 2",
        "{} {}",
        "{}x",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{]",
        "{\"a\":1]",
        "{,}",
        "{\"a\"}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\":1 \"b\":2}",
        "\"\n\"",
        "\"\t",
        "\"\x1f",
        "\"\\x",
        "\"\\u00g",
        "\"\\u0000\"",
        "\"\\udc00\"",
        "\"\\udc",
        "\"\\uDF",
        "\"\\ud800\"",
        "\"\\ud800x",
        "\"\\ud800\\n",
        "\"\\ud800\\ud8",
        "\"\\ud800\\ue",
        "\xef\xbb\xbf{}",
        "// comment\n{}",
        "\x0b{}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parse(bad[i], strlen(bad[i])) != E_INVALID_JSON)
            fail_msg("taken: %s", bad[i]);
}

static void test_numbers_not_complete(void **state)
{
    static const char *const open[] = {"-", "1.", "1e", "1e+", "0.", "-0e-", " -"};

    (void)state;
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        assert_int_equal(parse(open[i], strlen(open[i])), -EAGAIN);
    assert_int_equal(parse("", 0), -EAGAIN);
    assert_int_equal(parse(" \n\t\r", 4), -EAGAIN);
    assert_int_equal(parse("12", 2), 0);
}

static void test_utf8(void **state)
{
    static const char *const bad[] = {
        "\x80",          "\xbf",
        "\xc0\x80",      "\xc1\xbf",
        "\xe0\x80\x80",  "\xe0\x9f",
        "\xed\xa0\x80",  "\xf0\x80\x80\x80",
        "\xf0\x8f",      "\xf4\x90\x80\x80",
        "\xf5",          "\xff",
        "\xc3(",         "\xe2\x82(",
        "\xf0\x9f\x98(",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[16] = "\"";

        memcpy(text + 1, bad[i], strlen(bad[i]) + 1);
        if (parse(text, strlen(text)) != E_INVALID_JSON)
            fail_msg("case %zu taken", i);
        assert_int_equal(json_utf8_valid(bad[i], strlen(bad[i])), 0);
    }
    /* Cut in the middle of a good sequence: more may come in JSON, but it isn't valid.
     */
    assert_int_equal(parse("\"\xf0\x9f\x98", 4), -EAGAIN);
    assert_int_equal(json_utf8_valid("\xf0\x9f\x98", 3), 0);
    assert_int_equal(json_utf8_valid("\xf0\x9f\x98\x80", 4), 1);
    assert_int_equal(json_utf8_valid("", 0), 1);
    assert_int_equal(json_utf8_valid("a\0b", 3), 1);
}

static void test_nul_bytes(void **state)
{
    (void)state;
    assert_int_equal(parse("\0", 1), E_INVALID_JSON);
    assert_int_equal(parse("{}\0", 3), E_INVALID_JSON);
    assert_int_equal(parse("\"a\0b\"", 5), E_INVALID_JSON);
    assert_int_equal(parse("\"\\\0", 3), E_INVALID_JSON);
    assert_int_equal(parse("{\0}", 3), E_INVALID_JSON);
    assert_int_equal(parse("tr\0e", 4), E_INVALID_JSON);
}

static void test_duplicate_keys(void **state)
{
    static const char *const bad[] = {
        "{\"a\":1,\"a\":1}",
        "{\"a\":1,\"b\":2,\"c\":3,\"a\":null}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"\":1,\"\":2}",
        "[0,{\"x\":{\"a\":1,\"a\":2}}]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(parse(bad[i], strlen(bad[i])), E_INVALID_JSON);
}

static void test_depth(void **state)
{
    char text[200];

    (void)state;
    for (int object = 0; object < 2; object++) {
        for (size_t depth = 31; depth <= 34; depth++) {
            size_t length = 0;

            for (size_t i = 0; i < depth; i++) {
                const char *open = object ? "{\"\":" : "[";

                memcpy(text + length, open, strlen(open));
                length += strlen(open);
            }
            /* Known as soon as the bracket too many is read. */
            assert_int_equal(parse(text, length),
                             depth <= 32 ? -EAGAIN : E_INVALID_JSON);
            text[length++] = '1';
            memset(text + length, object ? '}' : ']', depth);
            length += depth;
            assert_int_equal(parse(text, length), depth <= 32 ? 0 : E_INVALID_JSON);
        }
    }
}

static void test_size(void **state)
{
    enum { MAXIMUM = 1024 * 1024 };
    char *text = malloc(MAXIMUM + 1);

    (void)state;
    assert_non_null(text);
    memset(text, ' ', MAXIMUM + 1);
    assert_int_equal(json_parse(text, MAXIMUM - 1, &(cJSON *){NULL}), -EAGAIN);
    /* More bytes could never complete it. */
    assert_int_equal(json_parse(text, MAXIMUM, &(cJSON *){NULL}), E_INVALID_JSON);
    text[0] = '1';
    assert_int_equal(parse(text, MAXIMUM), 0);
    assert_int_equal(parse(text, MAXIMUM + 1), E_INVALID_JSON);
    free(text);
}

static void test_long_number(void **state)
{
    char text[80];

    (void)state;
    memset(text, '1', sizeof text);
    assert_int_equal(parse(text, 63), 0);
    assert_int_equal(parse(text, 64), E_INVALID_JSON);
}

static int i64(const char *text, int64_t *out)
{
    cJSON *tree;

    assert_int_equal(json_parse(text, strlen(text), &tree), 0);
    int rc = json_get_i64(tree, "v", out);
    cJSON_Delete(tree);
    return rc;
}

static void test_integers(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } taken[] = {
        {"{\"v\":0}", 0},
        {"{\"v\":-0}", 0},
        {"{\"v\":1e3}", 1000},
        {"{\"v\":9007199254740991}", 9007199254740991},
        {"{\"v\":-9007199254740991}", -9007199254740991},
        {"{\"v\":\"9007199254740993\"}", 9007199254740993},
        {"{\"v\":\"9223372036854775807\"}", INT64_MAX},
        {"{\"v\":\"-9223372036854775808\"}", INT64_MIN},
    };
    static const char *const refused[] = {
        "{\"v\":1.5}",      "{\"v\":9007199254740992}",
        "{\"v\":1e300}",    "{\"v\":9007199254740993}",
        "{\"v\":1e999}",    "{\"v\":-1e999}",
        "{\"v\":true}",     "{\"v\":null}",
        "{\"v\":[1]}",      "{\"v\":\"\"}",
        "{\"v\":\"-\"}",    "{\"v\":\" 1\"}",
        "{\"v\":\"+1\"}",   "{\"v\":\"1 \"}",
        "{\"v\":\"1.0\"}",  "{\"v\":\"9223372036854775808\"}",
        "{\"v\":\"0x10\"}", "{\"v\":\"-9223372036854775809\"}",
    };
    int64_t value = 77;

    (void)state;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        assert_int_equal(i64(taken[i].text, &value), 0);
        assert_true(value == taken[i].value);
    }
    value = 77;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (i64(refused[i], &value) != E_INVALID_JSON)
            fail_msg("taken: %s", refused[i]);
    assert_int_equal(i64("{\"V\":1}", &value), -ENOENT);
    assert_int_equal(i64("[1]", &value), -ENOENT);
    assert_int_equal(value, 77);
}

static void test_written_integers_are_exact(void **state)
{
    static const int64_t values[] = {0, -1, 9007199254740993, INT64_MAX, INT64_MIN};
    static const char *const texts[] = {
        "{\"v\":0}",
        "{\"v\":-1}",
        "{\"v\":9007199254740993}",
        "{\"v\":9223372036854775807}",
        "{\"v\":-9223372036854775808}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        cJSON *object = cJSON_CreateObject();
        int64_t back;

        assert_int_equal(json_add_i64(object, "v", values[i]), 0);
        char *text = cJSON_PrintUnformatted(object);
        assert_string_equal(text, texts[i]);
        assert_int_equal(json_get_i64(object, "v", &back), 0);
        assert_true(back == values[i]);
        cJSON_free(text);
        cJSON_Delete(object);
    }
}

static void test_quote(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 4096);
    assert_int_equal(json_quote(&buf, "", 0), 0);
    assert_string_equal(buf.data, "\"\"");
    buf_clear(&buf);
    json_quote(&buf, "a\"\\/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9", 14);
    assert_string_equal(buf.data,
                        "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\xc3\xa9\"");
    buf_clear(&buf);
    json_quote(&buf, "a\0b", 3);
    assert_string_equal(buf.data, "\"a\\u0000b\"");
    buf_free(&buf);

    /* What is quoted reads back as itself. */
    char all[127];
    cJSON *tree;
    for (int i = 0; i < 127; i++)
        all[i] = (char)(i + 1);
    json_quote(&buf, all, sizeof all);
    assert_int_equal(json_parse(buf.data, buf.length, &tree), 0);
    assert_int_equal(strlen(tree->valuestring), sizeof all);
    assert_memory_equal(tree->valuestring, all, sizeof all);
    cJSON_Delete(tree);
    buf_free(&buf);

    buf_init(&buf, 3);
    assert_int_equal(json_quote(&buf, "ab", 2), -EMSGSIZE);
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_and_their_prefixes),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_numbers_not_complete),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_nul_bytes),
        cmocka_unit_test(test_duplicate_keys),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_long_number),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_written_integers_are_exact),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
