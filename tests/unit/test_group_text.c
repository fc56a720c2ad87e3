#include "fs/group_offset.h"
#include "fs/group_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char described[] =
    "{\"group\":\"workers\",\"generation\":7,\"version\":3,"
    "\"config\":{\"version\":3,\"start\":\"earliest\",\"commit\":\"auto\"},"
    "\"members\":[{\"id\":\"1-17-3\",\"node\":1,\"topic\":\"t\","
    "\"topic_id\":\"000102030405060708090a0b0c0d0e0f\",\"partitions\":[0,2],"
    "\"joined\":1764417600000}],"
    "\"offsets\":["
    "{\"topic\":\"t\",\"topic_id\":\"000102030405060708090a0b0c0d0e0f\",\"partition\":"
    "0,"
    "\"offset\":43,\"leader_epoch\":5,\"timestamp\":1,\"log_start\":10,\"end\":99,"
    "\"lag\":56},"
    "{\"topic\":\"t\",\"topic_id\":\"000102030405060708090a0b0c0d0e0f\",\"partition\":"
    "1,"
    "\"offset\":-1,\"leader_epoch\":-1,\"timestamp\":1,\"log_start\":4,\"end\":9,"
    "\"lag\":5},"
    "{\"topic\":\"t\",\"topic_id\":\"000102030405060708090a0b0c0d0e0f\",\"partition\":"
    "2,"
    "\"offset\":3,\"leader_epoch\":5,\"timestamp\":1,\"log_start\":10,\"end\":11,"
    "\"lag\":1},"
    "{\"topic\":\"u\",\"topic_id\":\"ff0102030405060708090a0b0c0d0e0f\",\"partition\":"
    "0,"
    "\"offset\":3,\"leader_epoch\":5,\"timestamp\":1,\"log_start\":null,\"end\":null,"
    "\"lag\":null}]"
    "}";

static cJSON *describe(void)
{
    cJSON *group = NULL;
    assert_int_equal(json_parse(described, strlen(described), &group), 0);
    return group;
}

static cJSON *render(enum tree_kind kind, const cJSON *group)
{
    struct tree_place place = {.kind = kind};
    struct buf out;
    cJSON *object = NULL;
    buf_init(&out, 65536);
    assert_int_equal(group_text_render(&place, group, &out), 0);
    assert_int_equal(out.data[out.length - 1], '\n');
    assert_int_equal(json_parse(out.data, out.length, &object), 0);
    buf_free(&out);
    return object;
}

static const cJSON *lag_of(const cJSON *lag, const char *topic, const char *partition)
{
    const cJSON *item = cJSON_GetObjectItem(lag, "topics");
    item = cJSON_GetObjectItem(item, topic);
    item = cJSON_GetObjectItem(item, "partitions");
    item = cJSON_GetObjectItem(item, partition);
    assert_non_null(item);
    return item;
}

static void assert_number(const cJSON *object, const char *key, int64_t expected)
{
    int64_t value = -100;
    assert_int_equal(json_get_i64(object, key, &value), 0);
    assert_int_equal(value, expected);
}

static void test_lag(void **state)
{
    cJSON *group = describe();
    cJSON *lag = render(TREE_GROUP_LAG, group);
    (void)state;
    assert_number(lag_of(lag, "t", "0"), "committed", 43);
    assert_number(lag_of(lag, "t", "0"), "end", 99);
    assert_number(lag_of(lag, "t", "0"), "lag", 56);
    assert_string_equal(
        cJSON_GetObjectItem(lag_of(lag, "t", "0"), "member")->valuestring, "1-17-3");
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(lag_of(lag, "t", "1"), "committed")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(lag_of(lag, "t", "1"), "member")));
    assert_number(lag_of(lag, "t", "1"), "lag", 5);
    assert_number(lag_of(lag, "t", "2"), "lag", 1);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(lag_of(lag, "u", "0"), "end")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(lag_of(lag, "u", "0"), "lag")));
    assert_number(lag, "lag", 62);
    assert_number(cJSON_GetObjectItem(cJSON_GetObjectItem(lag, "topics"), "t"), "lag",
                  62);
    cJSON_Delete(lag);
    cJSON_Delete(group);
}

static void test_members(void **state)
{
    cJSON *group = describe();
    cJSON *members = render(TREE_GROUP_MEMBERS, group);
    (void)state;
    assert_number(members, "generation", 7);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(members, "members")), 1);
    assert_null(cJSON_GetObjectItem(members, "offsets"));
    cJSON_Delete(members);
    cJSON *config = render(TREE_GROUP_CONFIG, group);
    assert_number(config, "version", 3);
    cJSON_Delete(config);
    cJSON_Delete(group);
}

static void assert_offset_text(const cJSON *group, int32_t partition,
                               const char *expected)
{
    struct tree_place place = {.kind = TREE_GROUP_OFFSET, .partition = partition};
    struct buf out;
    assert_int_equal(
        topic_id_parse("000102030405060708090a0b0c0d0e0f", &place.topic_id), 0);
    buf_init(&out, 64);
    assert_int_equal(group_text_render(&place, group, &out), 0);
    assert_string_equal(out.data, expected);
    buf_free(&out);
}

static void test_offset(void **state)
{
    cJSON *group = describe();
    (void)state;
    assert_offset_text(group, 0, "43\n");
    assert_offset_text(group, 1, "none\n");
    assert_offset_text(group, 9, "none\n");
    cJSON_Delete(group);
}

/* An answer that is not what it should be is an error, never a crash. */
static void test_garbage(void **state)
{
    static const char *const texts[] = {"{}", "[]", "null",
                                        "{\"group\":\"g\",\"offsets\":[{}]}",
                                        "{\"group\":1,\"offsets\":7}"};
    static const enum tree_kind kinds[] = {TREE_GROUP_MEMBERS, TREE_GROUP_LAG,
                                           TREE_GROUP_CONFIG, TREE_GROUP_OFFSET};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cJSON *group = NULL;
        assert_int_equal(json_parse(texts[i], strlen(texts[i]), &group), 0);
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            struct tree_place place = {.kind = kinds[k]};
            struct buf out;
            buf_init(&out, 4096);
            int rc = group_text_render(&place, group, &out);
            assert_true(rc == 0 || rc == -EIO);
            buf_free(&out);
        }
        cJSON_Delete(group);
    }
}

static void test_parse(void **state)
{
    enum { NOW = 1764417600 };
    static const struct {
        const char *text;
        int rc;
        enum group_offset_kind kind;
        enum groups_place_kind place;
        int64_t value;
    } cases[] = {
        {"42\n", 0, GROUP_OFFSET_PLACE, GROUPS_PLACE_OFFSET, 42},
        {"  42 ", 0, GROUP_OFFSET_PLACE, GROUPS_PLACE_OFFSET, 42},
        {"earliest\n", 0, GROUP_OFFSET_PLACE, GROUPS_PLACE_EARLIEST, 0},
        {"latest", 0, GROUP_OFFSET_PLACE, GROUPS_PLACE_LATEST, 0},
        {"last10", 0, GROUP_OFFSET_PLACE, GROUPS_PLACE_LAST, 10},
        {"last5m", 0, GROUP_OFFSET_PLACE, GROUPS_PLACE_TIME,
         NOW * INT64_C(1000) - 300000},
        {"@1764417600", 0, GROUP_OFFSET_PLACE, GROUPS_PLACE_TIME, NOW * INT64_C(1000)},
        {"+3\n", 0, GROUP_OFFSET_STEP, 0, 3},
        {"-10", 0, GROUP_OFFSET_STEP, 0, -10},
        {"none\n", 0, GROUP_OFFSET_NONE, 0, 0},
        {"", -EINVAL, 0, 0, 0},
        {"\n", -EINVAL, 0, 0, 0},
        {"4 2", -EINVAL, 0, 0, 0},
        {"42-99", -EINVAL, 0, 0, 0},
        {"0x10", -EINVAL, 0, 0, 0},
        {"+", -EINVAL, 0, 0, 0},
        {"-", -EINVAL, 0, 0, 0},
        {"--1", -EINVAL, 0, 0, 0},
        {"99999999999999999999", -EINVAL, 0, 0, 0},
        {"yesterday", -EINVAL, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct group_offset offset;
        int rc = group_offset_parse(cases[i].text, strlen(cases[i].text),
                                    NOW * INT64_C(1000), &offset);
        if (rc != cases[i].rc || (rc == 0 && (offset.kind != cases[i].kind ||
                                              offset.place != cases[i].place ||
                                              offset.value != cases[i].value)))
            fail_msg("'%s': %d, kind %d, place %d, value %lld", cases[i].text, rc,
                     (int)offset.kind, (int)offset.place, (long long)offset.value);
    }
}

static void test_step(void **state)
{
    int64_t offset;
    (void)state;
    assert_int_equal(group_offset_step(43, -3, &offset), 0);
    assert_int_equal(offset, 40);
    assert_int_equal(group_offset_step(0, 3, &offset), 0);
    assert_int_equal(offset, 3);
    assert_int_equal(group_offset_step(2, -3, &offset), -EINVAL);
    assert_int_equal(group_offset_step(-1, 3, &offset), -EINVAL);
    assert_int_equal(group_offset_step(1, INT64_MAX, &offset), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lag),    cmocka_unit_test(test_members),
        cmocka_unit_test(test_offset), cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_parse),  cmocka_unit_test(test_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
