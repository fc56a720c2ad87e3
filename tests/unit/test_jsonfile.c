#include "fs/jsonfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ALICE = 1, BOB = 2 };

static int write_text(struct jsonfile *file, const char *text, uint64_t owner,
                      cJSON **value)
{
    return jsonfile_write(file, text, strlen(text), owner, value);
}

static void assert_value(cJSON *value, const char *key, int64_t expected)
{
    int64_t number = 0;
    assert_non_null(value);
    assert_int_equal(json_get_i64(value, key, &number), 0);
    assert_int_equal(number, expected);
    cJSON_Delete(value);
}

static void test_one_write(void **state)
{
    struct jsonfile *file = jsonfile_new("config.json of topic ", "t");
    cJSON *value;
    (void)state;
    assert_int_equal(write_text(file, "{\"a\": 1}\n", ALICE, &value), 0);
    assert_value(value, "a", 1);
    assert_int_equal(jsonfile_flush(file, ALICE), 0);
    jsonfile_free(file);
}

static void test_many_writes(void **state)
{
    static const char text[] = "\n {\"abc\" : 12, \"d\": [1, {\"e\": null}]}";
    struct jsonfile *file = jsonfile_new("config.json of topic ", "t");
    cJSON *value;
    (void)state;
    for (size_t i = 0; i < sizeof text - 2; i++) {
        assert_int_equal(jsonfile_write(file, text + i, 1, ALICE, &value), 0);
        assert_null(value);
    }
    assert_int_equal(jsonfile_write(file, "}", 1, ALICE, &value), 0);
    assert_value(value, "abc", 12);
    jsonfile_free(file);
}

static void test_several_values(void **state)
{
    struct jsonfile *file = jsonfile_new("config.json of topic ", "t");
    cJSON *value;
    (void)state;
    assert_int_equal(write_text(file, "{\"a\":1}", ALICE, &value), 0);
    assert_value(value, "a", 1);
    assert_int_equal(write_text(file, "\n\t ", ALICE, &value), 0);
    assert_null(value);
    assert_int_equal(jsonfile_flush(file, ALICE), 0);
    assert_int_equal(write_text(file, "{\"a\":2", ALICE, &value), 0);
    assert_null(value);
    assert_int_equal(write_text(file, "}\n", ALICE, &value), 0);
    assert_value(value, "a", 2);
    jsonfile_free(file);
}

static void test_malformed(void **state)
{
    struct jsonfile *file = jsonfile_new("config.json of topic ", "t");
    cJSON *value;
    (void)state;
    assert_int_equal(write_text(file, "{\"a\":", ALICE, &value), 0);
    assert_int_equal(write_text(file, "}", ALICE, &value), E_INVALID_JSON);
    assert_null(value);
    /* Nothing of it is left over. */
    assert_int_equal(jsonfile_flush(file, ALICE), 0);
    assert_int_equal(write_text(file, "{\"a\":3}", ALICE, &value), 0);
    assert_value(value, "a", 3);
    assert_int_equal(write_text(file, "{} {}", ALICE, &value), E_INVALID_JSON);
    assert_int_equal(jsonfile_write(file, "\0", 1, ALICE, &value), E_INVALID_JSON);
    jsonfile_free(file);
}

static void test_incomplete_at_close(void **state)
{
    struct jsonfile *file = jsonfile_new("config.json of topic ", "t");
    cJSON *value;
    (void)state;
    assert_int_equal(write_text(file, "{\"a\":", ALICE, &value), 0);
    /* A child that inherited the descriptor exits. */
    assert_int_equal(jsonfile_flush(file, BOB), 0);
    assert_int_equal(write_text(file, "4}", BOB, &value), 0);
    assert_value(value, "a", 4);
    assert_int_equal(write_text(file, "{\"a\":", BOB, &value), 0);
    assert_int_equal(jsonfile_flush(file, BOB), E_INVALID_JSON);
    assert_int_equal(jsonfile_flush(file, BOB), 0);
    jsonfile_free(file);
}

static void test_too_long(void **state)
{
    struct jsonfile *file = jsonfile_new("config.json of topic ", "t");
    static char spaces[512 * 1024];
    cJSON *value;
    (void)state;
    memset(spaces, ' ', sizeof spaces);
    assert_int_equal(write_text(file, "{", ALICE, &value), 0);
    assert_int_equal(jsonfile_write(file, spaces, sizeof spaces, ALICE, &value), 0);
    assert_true(jsonfile_write(file, spaces, sizeof spaces, ALICE, &value) < 0);
    assert_int_equal(write_text(file, "{}", ALICE, &value), 0);
    assert_non_null(value);
    cJSON_Delete(value);
    jsonfile_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_write),
        cmocka_unit_test(test_many_writes),
        cmocka_unit_test(test_several_values),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_incomplete_at_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
