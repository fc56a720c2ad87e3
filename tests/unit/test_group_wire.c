#include "replica/group_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct peer_sender sender = {
    .cluster = "prod", .id = 3, .broker_epoch = INT64_C(77) << 33};

static struct topic_id id_of(uint8_t byte)
{
    struct topic_id id;
    memset(id.bytes, byte, sizeof id.bytes);
    return id;
}

/* As it goes over the wire. Takes the object. */
static cJSON *through(cJSON *object)
{
    struct buf text;
    cJSON *out = NULL;
    assert_non_null(object);
    buf_init(&text, GROUP_WIRE_MAX);
    assert_int_equal(group_wire_print(object, &text), 0);
    assert_int_equal(group_wire_parse(text.data, text.length, &out), 0);
    buf_free(&text);
    cJSON_Delete(object);
    return out;
}

static cJSON *make_request(void)
{
    const struct topic_id id = id_of(0xab);
    const struct group_commit commits[] = {{0, 7, INT64_C(1) << 50, 5}, {3, 8, 44, -1}};
    const struct group_released released[] = {{1, 6}};
    cJSON *request = group_wire_request(&sender, 5, 1500);
    cJSON *op = group_wire_add_op(request, "join", "g");
    assert_non_null(cJSON_AddStringToObject(op, "member", "3-17-1"));
    assert_int_equal(group_wire_add_topic(op, "t", &id), 0);
    op = group_wire_add_op(request, "commit", "g");
    assert_non_null(cJSON_AddStringToObject(op, "member", "3-17-1"));
    assert_int_equal(group_wire_add_commits(op, commits, 2), 0);
    op = group_wire_add_op(request, "beat", "g");
    assert_non_null(cJSON_AddStringToObject(op, "member", "3-17-1"));
    assert_int_equal(json_add_i64(op, "seen", 12), 0);
    assert_int_equal(group_wire_add_released(op, released, 1), 0);
    op = group_wire_add_op(request, "set_offset", "g");
    assert_int_equal(group_wire_add_topic(op, "t", &id), 0);
    assert_int_equal(json_add_i64(op, "partition", 2), 0);
    assert_int_equal(json_add_i64(op, "offset", -1), 0);
    assert_int_equal(json_add_i64(op, "leader_epoch", -1), 0);
    assert_non_null(group_wire_add_op(request, "list", NULL));
    return request;
}

static void requests_come_through(void **state)
{
    (void)state;
    cJSON *request = through(make_request());
    struct group_wire_head head;
    struct group_op op;
    assert_int_equal(group_wire_get_request(request, &head), 0);
    assert_string_equal(head.from.cluster, "prod");
    assert_int_equal(head.from.id, 3);
    assert_int_equal(head.from.broker_epoch, sender.broker_epoch);
    assert_int_equal(head.shard, 5);
    assert_int_equal(head.wait_ms, 1500);
    assert_int_equal(head.count, 5);

    const cJSON *item = head.ops->child;
    assert_int_equal(group_wire_get_op(item, &op), 0);
    assert_int_equal(op.kind, GROUP_OP_JOIN);
    assert_string_equal(op.group, "g");
    assert_string_equal(op.member, "3-17-1");
    assert_string_equal(op.topic, "t");
    assert_int_equal(op.topic_id.bytes[15], 0xab);
    group_wire_free_op(&op);

    item = item->next;
    assert_int_equal(group_wire_get_op(item, &op), 0);
    assert_int_equal(op.kind, GROUP_OP_COMMIT);
    assert_int_equal(op.count, 2);
    assert_int_equal(op.commits[0].offset, INT64_C(1) << 50);
    assert_int_equal(op.commits[1].generation, 8);
    assert_int_equal(op.commits[1].leader_epoch, -1);
    group_wire_free_op(&op);

    item = item->next;
    assert_int_equal(group_wire_get_op(item, &op), 0);
    assert_int_equal(op.kind, GROUP_OP_BEAT);
    assert_int_equal(op.seen, 12);
    assert_int_equal(op.count, 1);
    assert_int_equal(op.released[0].generation, 6);
    group_wire_free_op(&op);

    item = item->next;
    assert_int_equal(group_wire_get_op(item, &op), 0);
    assert_int_equal(op.kind, GROUP_OP_SET_OFFSET);
    assert_int_equal(op.partition, 2);
    assert_int_equal(op.offset, -1);
    group_wire_free_op(&op);

    assert_int_equal(group_wire_get_op(item->next, &op), 0);
    assert_int_equal(op.kind, GROUP_OP_LIST);
    cJSON_Delete(request);
}

static void answers_come_through(void **state)
{
    (void)state;
    struct group_grant grants[] = {{.partition = 0, .generation = 7, .committed = 43},
                                   {.partition = 1,
                                    .generation = 9,
                                    .give_up = true,
                                    .committed = -1,
                                    .leader_epoch = -1}};
    struct group_wire_beat beat = {.changes = 12, .grants = grants, .count = 2};
    beat.config.commit = GROUP_COMMIT_MANUAL;
    beat.config.start = GROUP_START_LATEST;
    beat.config.group_session_timeout_ms = 10000;
    beat.config.max_poll_interval_ms = 300000;
    const bool refused[] = {false, true};
    cJSON *answer = group_wire_answer(0, NULL);
    cJSON *item = group_wire_add_answer(answer, 0, NULL);
    assert_int_equal(group_wire_add_beat(item, &beat), 0);
    item = group_wire_add_answer(answer, E_GROUP_FENCED, "somebody else has it");
    assert_int_equal(group_wire_add_refused(item, refused, 2), 0);
    answer = through(answer);

    int error = 1;
    const char *why = NULL;
    assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
    assert_int_equal(error, 0);
    assert_string_equal(why, "");
    assert_null(group_wire_get_answers(answer, 1));
    const cJSON *answers = group_wire_get_answers(answer, 2);
    assert_non_null(answers);
    struct group_wire_beat got;
    assert_int_equal(group_wire_get_beat(answers->child, &got), 0);
    assert_int_equal(got.changes, 12);
    assert_int_equal(got.config.commit, GROUP_COMMIT_MANUAL);
    assert_int_equal(got.config.start, GROUP_START_LATEST);
    assert_int_equal(got.config.max_poll_interval_ms, 300000);
    assert_int_equal(got.count, 2);
    assert_int_equal(got.grants[0].committed, 43);
    assert_true(got.grants[1].give_up);
    assert_int_equal(got.grants[1].committed, -1);
    free(got.grants);
    bool flags[2] = {true, false};
    assert_int_equal(group_wire_get_refused(answers->child->next, flags, 2), 0);
    assert_false(flags[0]);
    assert_true(flags[1]);
    assert_int_equal(group_wire_get_refused(answers->child->next, flags, 1), -EBADMSG);
    assert_int_equal(group_wire_get_error(answers->child->next, &error, &why), 0);
    assert_int_equal(error, E_GROUP_FENCED);
    assert_string_equal(why, "somebody else has it");
    cJSON_Delete(answer);
}

static void places_come_through(void **state)
{
    (void)state;
    const struct group_place asked = {
        .topic_id = id_of(7), .partition = 3, .kind = GROUPS_PLACE_TIME, .value = 99};
    const struct group_found told = {0, 43, 5, 1, INT64_C(1) << 40};
    cJSON *request = group_wire_locate(&sender);
    assert_int_equal(group_wire_add_place(request, &asked), 0);
    request = through(request);
    struct peer_sender from;
    const cJSON *places = NULL;
    size_t count = 0;
    assert_int_equal(group_wire_get_locate(request, &from, &places, &count), 0);
    assert_int_equal(from.id, 3);
    assert_int_equal(count, 1);
    struct group_place place;
    assert_int_equal(group_wire_get_place(places->child, &place), 0);
    assert_int_equal(place.kind, GROUPS_PLACE_TIME);
    assert_int_equal(place.partition, 3);
    assert_int_equal(place.value, 99);
    cJSON_Delete(request);

    cJSON *answer = group_wire_located(0, NULL);
    assert_int_equal(group_wire_add_found(answer, &told), 0);
    answer = through(answer);
    places = group_wire_get_places(answer, 1);
    assert_non_null(places);
    struct group_found found;
    assert_int_equal(group_wire_get_found(places->child, &found), 0);
    assert_int_equal(found.offset, 43);
    assert_int_equal(found.high_watermark, INT64_C(1) << 40);
    cJSON_Delete(answer);
}

static int op_error(const char *text)
{
    cJSON *object = NULL;
    struct group_op op;
    assert_int_equal(json_parse(text, strlen(text), &object), 0);
    int rc = group_wire_get_op(object, &op);
    if (!rc) {
        group_wire_free_op(&op);
    }
    cJSON_Delete(object);
    return rc;
}

static void malformed_ops_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "{\"op\":\"fly\",\"group\":\"g\"}",
        "{\"op\":\"leave\",\"group\":\"a/b\",\"member\":\"m\"}",
        "{\"op\":\"leave\",\"group\":\"g\",\"member\":\"\"}",
        "{\"op\":\"leave\",\"group\":\"g\"}",
        "{\"op\":\"join\",\"group\":\"g\",\"member\":\"m\",\"topic\":\"t\","
        "\"topic_id\":\"12\"}",
        "{\"op\":\"commit\",\"group\":\"g\",\"member\":\"m\",\"commits\":[3]}",
        "{\"op\":\"commit\",\"group\":\"g\",\"member\":\"m\",\"commits\":[{"
        "\"partition\":0,\"generation\":1,\"offset\":-1,\"leader_epoch\":0}]}",
        "{\"op\":\"commit\",\"group\":\"g\",\"member\":\"m\",\"commits\":[{"
        "\"partition\":4294967296,\"generation\":1,\"offset\":1,\"leader_epoch\":0}]}",
        "{\"op\":\"beat\",\"group\":\"g\",\"member\":\"m\",\"seen\":-1}",
        "{\"op\":\"beat\",\"group\":\"g\",\"member\":\"m\",\"seen\":0,\"released\":{}}",
        "{\"op\":\"configure\",\"group\":\"g\",\"config\":3}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(op_error(bad[i]), -EBADMSG);
    }
    assert_int_equal(op_error("{\"op\":\"beat\",\"group\":\"g\",\"member\":\"m\","
                              "\"seen\":0,\"later\":[1]}"),
                     0);
}

static int parse_error(const char *text)
{
    cJSON *object = NULL;
    int rc = group_wire_parse(text, strlen(text), &object);
    assert_true(rc != 0 || object);
    cJSON_Delete(object);
    return rc;
}

static void frames_are_checked(void **state)
{
    (void)state;
    assert_int_equal(parse_error("{\"version\":1}"), 0);
    assert_int_equal(parse_error("{\"version\":2}"), E_NEWER_FORMAT);
    assert_int_equal(parse_error("{\"version\":0}"), -EBADMSG);
    assert_int_equal(parse_error("{\"version\":1"), -EBADMSG);
    assert_int_equal(parse_error("[1]"), -EBADMSG);
    assert_int_equal(parse_error(""), -EBADMSG);
    cJSON *object = group_wire_request(&sender, 1, -5);
    struct group_wire_head head;
    assert_int_equal(group_wire_get_request(object, &head), -EBADMSG);
    cJSON_Delete(object);
    /* Longer than what users may write. */
    struct buf text;
    buf_init(&text, GROUP_WIRE_MAX);
    (void)buf_adds(&text, "{\"version\":1,\"x\":\"");
    memset(buf_extend(&text, 2 << 20), 'a', 2 << 20);
    (void)buf_adds(&text, "\"}");
    assert_int_equal(group_wire_parse(text.data, text.length, &object), 0);
    cJSON_Delete(object);
    buf_free(&text);
}

static void shards_are_kafkas(void **state)
{
    (void)state;
    for (int i = 0; i < 26; i++) {
        const char name[] = {(char)('a' + i), '\0'};
        int32_t shard = group_wire_shard(name, 16);
        assert_in_range(shard, 0, 15);
        assert_int_equal(shard, group_wire_shard(name, 16));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_through),
        cmocka_unit_test(answers_come_through),
        cmocka_unit_test(places_come_through),
        cmocka_unit_test(malformed_ops_are_refused),
        cmocka_unit_test(frames_are_checked),
        cmocka_unit_test(shards_are_kafkas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
