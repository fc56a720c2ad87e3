/* The JSON values of the coordination store, to the byte, and what is not one. */
#include "coord/cluster_state.h"
#include "coord/err.h"

#include <errno.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(struct buf *buf, const char *text)
{
    assert_int_equal(buf_error(buf), 0);
    assert_string_equal(buf->data, text);
    buf_clear(buf);
}

static void values_go_there_and_back(void **state)
{
    static const char id_text[] = "000102030405060708090a0b0c0d0eff";
    static const char *const good[] = {
        "{\"version\":1,\"partitions\":{\"0\":[1,2,3],\"1\":[2]},\"id\":"
        "\"000102030405060708090a0b0c0d0eff\"}",
        "{\"controller_epoch\":29,\"leader\":2,\"version\":1,\"leader_epoch\":48,"
        "\"isr\":[2,3]}",
        "{\"controller_epoch\":29,\"leader\":-1,\"version\":1,\"leader_epoch\":48,"
        "\"isr\":[],\"elr\":[4]}",
        "{\"jmx_port\":-1,\"host\":\"node1\",\"version\":1,\"port\":9640,\"rack\":"
        "\"r\","
        "\"instance\":\"i\"}",
        "{\"version\":1,\"uid\":1000,\"gid\":0,\"mode\":\"0750\","
        "\"created_ms\":1764417600000}",
        "{\"version\":1,\"config_version\":3,\"was_compacted\":true,\"config\":{"
        "\"flush\":\"os\"}}",
        "{\"version\":1,\"brokerid\":8}",
        "29",
        "{\"version\":1,\"topic\":\"t\",\"deleted_ms\":5}",
    };
    struct assignment assignment;
    struct partition_state pstate;
    struct registration registration;
    struct attributes attributes;
    struct topic_settings settings;
    struct buf buf;
    char text[TOPIC_ID_TEXT];
    int32_t number;
    int64_t time;

    (void)state;
    buf_init(&buf, 4096);
    assert_int_equal(assignment_decode(good[0], &assignment), 0);
    topic_id_format(&assignment.id, text);
    assert_string_equal(text, id_text);
    assignment_encode(&buf, &assignment);
    expect(&buf, good[0]);
    assignment_free(&assignment);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(partition_state_decode(good[i], &pstate), 0);
        partition_state_encode(&buf, &pstate);
        expect(&buf, good[i]);
        partition_state_free(&pstate);
    }
    assert_int_equal(registration_decode(good[3], &registration), 0);
    registration_encode(&buf, &registration, 0);
    expect(&buf, good[3]);
    assert_int_equal(attributes_decode(good[4], &attributes), 0);
    assert_int_equal(attributes.mode, 0750);
    attributes_encode(&buf, &attributes);
    expect(&buf, good[4]);
    assert_int_equal(topic_settings_decode(good[5], &settings), 0);
    assert_int_equal(topic_settings_encode(&buf, &settings), 0);
    expect(&buf, good[5]);
    topic_settings_free(&settings);
    assert_int_equal(controller_decode(good[6], &number), 0);
    controller_encode(&buf, number);
    expect(&buf, good[6]);
    assert_int_equal(controller_epoch_decode(good[7], &number), 0);
    controller_epoch_encode(&buf, number);
    expect(&buf, good[7]);
    assert_int_equal(tombstone_decode(good[8], &time), 0);
    tombstone_encode(&buf, "t", time);
    expect(&buf, good[8]);
    buf_free(&buf);
}

static int decode_any(const char *text)
{
    struct assignment assignment;
    struct partition_state pstate;
    struct registration registration;
    struct attributes attributes;
    struct topic_settings settings;
    int32_t number;
    int64_t time;
    int accepted = 0;

    if (assignment_decode(text, &assignment) == 0) {
        assignment_free(&assignment);
        accepted++;
    }
    if (partition_state_decode(text, &pstate) == 0) {
        partition_state_free(&pstate);
        accepted++;
    }
    if (topic_settings_decode(text, &settings) == 0) {
        topic_settings_free(&settings);
        accepted++;
    }
    accepted += registration_decode(text, &registration) == 0;
    accepted += attributes_decode(text, &attributes) == 0;
    accepted += controller_decode(text, &number) == 0;
    accepted += controller_epoch_decode(text, &number) == 0;
    accepted += tombstone_decode(text, &time) == 0;
    return accepted;
}

#define ID    ",\"id\":\"000102030405060708090a0b0c0d0eff\"}"
#define STATE "{\"controller_epoch\":1,\"version\":1,\"leader_epoch\":"

static void malformed_values_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "null",
        "-1",
        "1.5",
        "3000000000",
        "\"x\"",
        "{}",
        "{\"version\":2,\"brokerid\":8}",
        "{\"version\":1,\"brokerid\":-8}",
        "{\"version\":1,\"brokerid\":\"x\"}",
        "{\"version\":1,\"partitions\":{}" ID,
        "{\"version\":1,\"partitions\":[]" ID,
        "{\"version\":1,\"partitions\":{\"1\":[1]}" ID,
        "{\"version\":1,\"partitions\":{\"00\":[1]}" ID,
        "{\"version\":1,\"partitions\":{\"0\":[]}" ID,
        "{\"version\":1,\"partitions\":{\"0\":[1,1]}" ID,
        "{\"version\":1,\"partitions\":{\"0\":[-1]}" ID,
        "{\"version\":1,\"partitions\":{\"0\":[1],\"x\":[1]}" ID,
        "{\"version\":1,\"partitions\":{\"0\":[1]},\"id\":\"00\"}",
        "{\"version\":1,\"partitions\":{\"0\":[1]}}",
        STATE "1,\"leader\":1,\"isr\":[2]}",
        STATE "-1,\"leader\":1,\"isr\":[1]}",
        STATE "1,\"leader\":-2,\"isr\":[1]}",
        STATE "1,\"leader\":1,\"isr\":1}",
        STATE "1,\"leader\":1,\"isr\":[1],\"elr\":{}}",
        STATE "9999999999,\"leader\":1,\"isr\":[1]}",
        "{\"version\":1,\"uid\":-1,\"gid\":0,\"mode\":\"0755\"}",
        "{\"version\":1,\"uid\":0,\"gid\":0,\"mode\":\"0789\"}",
        "{\"version\":1,\"uid\":0,\"gid\":0,\"mode\":493}",
        "{\"version\":1,\"uid\":0,\"gid\":0,\"mode\":\"-1\"}",
        "{\"version\":1,\"uid\":0,\"gid\":0,\"mode\":\"0755\",\"created_ms\":-1}",
        "{\"version\":1,\"config_version\":0,\"config\":{}}",
        "{\"version\":1,\"config_version\":1,\"config\":[]}",
        "{\"version\":1,\"config_version\":1}",
        "{\"version\":1,\"host\":\"h\",\"port\":70000}",
        "{\"version\":1,\"topic\":\"t\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(decode_any(bad[i]), 0);
}

static void names_and_ids(void **state)
{
    char name[TOPIC_NAME_MAX + 2];
    struct topic_id id;

    (void)state;
    memset(name, 'a', sizeof(name));
    name[TOPIC_NAME_MAX] = '\0';
    assert_int_equal(topic_name_check(name), 0);
    name[TOPIC_NAME_MAX] = 'a';
    name[TOPIC_NAME_MAX + 1] = '\0';
    assert_int_equal(topic_name_check(name), E_INVALID_NAME);
    assert_int_equal(topic_name_check("a.B_c-9"), 0);
    assert_int_equal(topic_name_check("..."), 0);
    assert_int_equal(topic_name_check(""), E_INVALID_NAME);
    assert_int_equal(topic_name_check("."), E_INVALID_NAME);
    assert_int_equal(topic_name_check(".."), E_INVALID_NAME);
    assert_int_equal(topic_name_check("a/b"), E_INVALID_NAME);
    assert_int_equal(topic_name_check("a b"), E_INVALID_NAME);
    assert_int_equal(topic_name_check("\xc3\xa9"), E_INVALID_NAME);
    assert_int_equal(topic_id_parse("00", &id), -EINVAL);
    assert_int_equal(topic_id_parse("000102030405060708090a0b0c0d0eFF", &id), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_there_and_back),
        cmocka_unit_test(malformed_values_are_refused),
        cmocka_unit_test(names_and_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
