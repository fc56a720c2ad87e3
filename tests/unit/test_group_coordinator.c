#include "replica/group_coordinator.h"
#include "tests/unit/support/group_desk.h"
#include "tests/unit/support/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* One node that coordinates all groups. */
struct rig {
    struct node node;
    struct group_desk desk;
    struct topic_id topic; /* "t", of four partitions */
    int patience;
};

static void coordinate(struct rig *rig)
{
    const struct groups_params params = {.config = &rig->node.config,
                                         .cluster = rig->node.cluster,
                                         .broker = rig->node.broker,
                                         .problems = rig->node.problems,
                                         .clock = &clock_real};
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(rig->node.cluster);
    rig->desk.node = snapshot->self;
    rig->desk.epoch = snapshot->self_epoch;
    cluster_snapshot_put(snapshot);
    assert_int_equal(group_coordinator_start(&params, &rig->desk.coordinator), 0);
}

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    char why[256] = "";
    rig->patience = 2000;
    node_make(&rig->node);
    node_start(&rig->node);
    partition_unref(node_topic(&rig->node, "t", "{\"partitions\":4,\"flush\":\"os\"}"));
    rig->topic = node_topic_id(&rig->node, "t");
    assert_int_equal(group_coordinator_ensure_topic(rig->node.cluster, why, sizeof why),
                     0);
    coordinate(rig);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    group_coordinator_stop(rig->desk.coordinator);
    node_stop(&rig->node);
    node_remove(&rig->node);
    free(rig);
    return 0;
}

static void restart(struct rig *rig)
{
    group_coordinator_stop(rig->desk.coordinator);
    node_stop(&rig->node);
    node_start(&rig->node);
    coordinate(rig);
}

static int join(struct rig *rig, const char *group, const char *member)
{
    return desk_join(&rig->desk, group, member, "t", &rig->topic);
}

static struct partition *shard_of(struct rig *rig, const char *group)
{
    return node_partition(&rig->node, GROUPS_TOPIC,
                          group_wire_shard(group, GROUP_SHARDS));
}

static void offsets_outlive_a_restart(void **state)
{
    struct rig *rig = *state;
    struct group_wire_beat beat = {0};
    assert_int_equal(join(rig, "g", "m1"), 0);
    assert_int_equal(desk_beat(&rig->desk, "g", "m1", &beat), 0);
    assert_int_equal(beat.count, 4);
    assert_int_equal(beat.grants[3].partition, 3);
    assert_int_equal(beat.grants[3].committed, -1);
    assert_int_equal(beat.config.commit, GROUP_COMMIT_AUTO);
    for (int64_t offset = 1; offset <= 20; offset++) {
        assert_int_equal(
            desk_commit(&rig->desk, "g", "m1", 3, beat.grants[3].generation, offset),
            0);
    }
    free(beat.grants);
    restart(rig);
    assert_int_equal(desk_offset(&rig->desk, "g", 3), 20);
    assert_int_equal(desk_offset(&rig->desk, "g", 2), -1);
    /* The member was of a process that is gone. */
    assert_int_equal(desk_beat(&rig->desk, "g", "m1", &beat), E_GROUP_MEMBER_UNKNOWN);
    assert_int_equal(join(rig, "g", "m2"), 0);
    assert_int_equal(desk_beat(&rig->desk, "g", "m2", &beat), 0);
    assert_int_equal(beat.count, 4);
    assert_int_equal(beat.grants[3].committed, 20);
    free(beat.grants);
}

static void strangers_are_fenced(void **state)
{
    struct rig *rig = *state;
    struct group_wire_beat beat = {0};
    assert_int_equal(desk_beat(&rig->desk, "g", "m1", &beat), E_GROUP_MEMBER_UNKNOWN);
    assert_int_equal(desk_commit(&rig->desk, "g", "m1", 0, 1, 5),
                     E_GROUP_MEMBER_UNKNOWN);
    assert_int_equal(join(rig, "g", "m1"), 0);
    assert_int_equal(desk_beat(&rig->desk, "g", "m1", &beat), 0);
    assert_int_equal(
        desk_commit(&rig->desk, "g", "m1", 0, beat.grants[0].generation + 1, 5),
        E_GROUP_FENCED);
    free(beat.grants);
    assert_int_equal(desk_offset(&rig->desk, "g", 0), -1);
    assert_int_equal(desk_error(&rig->desk, "g", "{\"op\":\"remove\",\"group\":\"g\"}"),
                     E_GROUP_BUSY);
    desk_ok(&rig->desk, "g", "{\"op\":\"leave\",\"group\":\"g\",\"member\":\"m1\"}");
    desk_ok(&rig->desk, "g", "{\"op\":\"remove\",\"group\":\"g\"}");
}

static void wrong_shards_are_refused(void **state)
{
    struct rig *rig = *state;
    struct desk_call call;
    int error = 0;
    const char *why = NULL;
    static const int32_t shards[] = {-1, GROUP_SHARDS, 1000000};
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) {
        cJSON *request = desk_request(&rig->desk, "g", 0, "{\"op\":\"list\"}");
        cJSON_SetNumberValue(cJSON_GetObjectItemCaseSensitive(request, "shard"),
                             shards[i]);
        desk_send(&rig->desk, &call, request);
        cJSON *answer = desk_await(&call);
        assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
        assert_int_equal(error, E_NOT_COORDINATOR);
        cJSON_Delete(answer);
    }
    const char *other = "g";
    char op[64];
    for (char name[2] = "a"; strcmp(other, "g") == 0; name[0]++) {
        if (group_wire_shard(name, GROUP_SHARDS) !=
            group_wire_shard("g", GROUP_SHARDS)) {
            (void)snprintf(op, sizeof op, "{\"op\":\"describe\",\"group\":\"%s\"}",
                           name);
            other = "";
        }
    }
    assert_int_equal(desk_error(&rig->desk, "g", op), E_NOT_COORDINATOR);
    assert_int_equal(desk_error(&rig->desk, "g", "{\"op\":\"fly\"}"), -EBADMSG);
    desk_send(&rig->desk, &call, cJSON_CreateObject());
    cJSON *answer = desk_await(&call);
    assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
    assert_int_equal(error, -EBADMSG);
    cJSON_Delete(answer);
}

/* "m1" joins "g"; what it has seen of its changes then. */
static uint64_t join_and_look(struct rig *rig)
{
    struct group_wire_beat beat = {0};
    assert_int_equal(join(rig, "g", "m1"), 0);
    assert_int_equal(desk_beat(&rig->desk, "g", "m1", &beat), 0);
    free(beat.grants);
    return beat.changes;
}

/* It waits for so long for news. */
static void park_beat(struct rig *rig, struct desk_call *call, uint64_t seen,
                      int64_t wait_ms)
{
    char op[256];
    (void)snprintf(op, sizeof op,
                   "{\"op\":\"beat\",\"group\":\"g\",\"member\":\"m1\",\"seen\":%llu}",
                   (unsigned long long)seen);
    desk_send(&rig->desk, call, desk_request(&rig->desk, "g", wait_ms, op));
}

static void parked_beats_hear_of_changes(void **state)
{
    struct rig *rig = *state;
    struct group_wire_beat beat = {0};
    struct desk_call parked;
    uint64_t seen = join_and_look(rig);
    /* Without news it comes when its time is over. */
    park_beat(rig, &parked, seen, 30);
    cJSON *answer = desk_await(&parked);
    assert_int_equal(
        group_wire_get_beat(group_wire_get_answers(answer, 1)->child, &beat), 0);
    assert_int_equal(beat.count, 4);
    free(beat.grants);
    cJSON_Delete(answer);

    park_beat(rig, &parked, seen, 20000);
    desk_ok(&rig->desk, "g", "{\"op\":\"describe\",\"group\":\"g\"}");
    assert_false(desk_is_answered(&parked));
    assert_int_equal(join(rig, "g", "m2"), 0);
    answer = desk_await(&parked);
    assert_int_equal(
        group_wire_get_beat(group_wire_get_answers(answer, 1)->child, &beat), 0);
    int asked = 0;
    for (size_t i = 0; i < beat.count; i++) {
        asked += beat.grants[i].give_up;
    }
    assert_int_equal(asked, 2);
    free(beat.grants);
    cJSON_Delete(answer);
}

static void stopping_answers_what_is_parked(void **state)
{
    struct rig *rig = *state;
    struct desk_call parked;
    int error = 0;
    const char *why = NULL;
    uint64_t seen = join_and_look(rig);
    park_beat(rig, &parked, seen, 30000);
    restart(rig);
    cJSON *answer = desk_await(&parked);
    assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
    assert_int_equal(error, E_NOT_COORDINATOR);
    cJSON_Delete(answer);
}

static void groups_are_listed_and_configured(void **state)
{
    struct rig *rig = *state;
    struct group_wire_beat beat = {0};
    desk_ok(&rig->desk, "g", "{\"op\":\"describe\",\"group\":\"g\"}");
    cJSON *answer = desk_ask(&rig->desk, "g", "{\"op\":\"list\"}");
    assert_int_equal(
        cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(answer, "groups")), 0);
    cJSON_Delete(answer);
    desk_ok(
        &rig->desk, "g",
        "{\"op\":\"configure\",\"group\":\"g\",\"config\":{\"commit\":\"manual\"}}");
    answer = desk_ask(&rig->desk, "g",
                      "{\"op\":\"configure\",\"group\":\"g\",\"config\":{\"x\":1}}");
    int error = 0;
    const char *why = NULL;
    assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
    assert_int_equal(error, E_INVALID_CONFIG);
    assert_non_null(strstr(why, "x"));
    cJSON_Delete(answer);
    restart(rig);
    answer = desk_ask(&rig->desk, "g", "{\"op\":\"list\"}");
    assert_int_equal(
        cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(answer, "groups")), 1);
    cJSON_Delete(answer);
    assert_int_equal(join(rig, "g", "m1"), 0);
    assert_int_equal(desk_beat(&rig->desk, "g", "m1", &beat), 0);
    assert_int_equal(beat.config.commit, GROUP_COMMIT_MANUAL);
    free(beat.grants);
}

static void malformed_lines_are_passed_over(void **state)
{
    struct rig *rig = *state;
    struct group_wire_beat beat = {0};
    assert_int_equal(join(rig, "g", "m1"), 0);
    assert_int_equal(desk_beat(&rig->desk, "g", "m1", &beat), 0);
    assert_int_equal(
        desk_commit(&rig->desk, "g", "m1", 0, beat.grants[0].generation, 7), 0);
    struct partition *shard = shard_of(rig, "g");
    assert_int_equal(node_append(shard, "garbage\ng\t{\"generation\n\n/\t{}\n", NULL),
                     0);
    partition_unref(shard);
    assert_int_equal(
        desk_commit(&rig->desk, "g", "m1", 1, beat.grants[1].generation, 9), 0);
    free(beat.grants);
    restart(rig);
    assert_int_equal(desk_offset(&rig->desk, "g", 0), 7);
    assert_int_equal(desk_offset(&rig->desk, "g", 1), 9);
    char *problems = node_problems(&rig->node);
    assert_non_null(strstr(problems, "group-records __consumer_offsets-"));
    assert_non_null(strstr(problems, "4 of its lines"));
    free(problems);
}

static void compacted_logs_are_loaded(void **state)
{
    struct rig *rig = *state;
    struct group_wire_beat beat = {0};
    char why[256] = "";
    cJSON *small = cJSON_Parse("{\"segment_bytes\":1024}");
    assert_int_equal(
        cluster_set_config(rig->node.cluster, GROUPS_TOPIC, small, why, sizeof why), 0);
    cJSON_Delete(small);
    assert_int_equal(join(rig, "g", "m1"), 0);
    assert_int_equal(desk_beat(&rig->desk, "g", "m1", &beat), 0);
    for (int64_t offset = 1; offset <= 400; offset++) {
        assert_int_equal(desk_commit(&rig->desk, "g", "m1", (int32_t)(offset % 3),
                                     beat.grants[offset % 3].generation, offset),
                         0);
    }
    free(beat.grants);
    struct partition *shard = shard_of(rig, "g");
    struct partition_status status;
    size_t length = 0;
    /* The first rewrite may begin before the last commit: then there is another one. */
    do {
        const struct timespec pause = {.tv_nsec = 5000000};
        (void)nanosleep(&pause, NULL);
        partition_status_get(shard, &status);
        free(node_read_all(shard, &length));
    } while ((status.rewrites == 0 || length >= 20000) && --rig->patience > 0);
    assert_true(status.rewrites > 0);
    assert_true(length < 20000);
    partition_unref(shard);
    restart(rig);
    assert_int_equal(desk_offset(&rig->desk, "g", 0), 399);
    assert_int_equal(desk_offset(&rig->desk, "g", 1), 400);
    assert_int_equal(desk_offset(&rig->desk, "g", 2), 398);
    char *problems = node_problems(&rig->node);
    assert_string_equal(problems, "");
    free(problems);
}

static void what_is_too_much_is_refused(void **state)
{
    struct rig *rig = *state;
    struct desk_call call;
    int error = 0;
    const char *why = NULL;
    enum { OPS = 100001 };
    cJSON *request = desk_request(&rig->desk, "g", 0, "");
    for (int i = 0; i < OPS; i++) {
        assert_non_null(group_wire_add_op(request, "list", NULL));
    }
    desk_send(&rig->desk, &call, request);
    cJSON *answer = desk_await(&call);
    assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
    assert_int_equal(error, E_NOT_COORDINATOR);
    assert_string_equal(why, "too many requests wait");
    cJSON_Delete(answer);
    desk_ok(&rig->desk, "g", "{\"op\":\"list\"}");
}

/* What this node's snapshot does not have yet may be there in a moment. */
static void joins_wait_for_their_topic(void **state)
{
    struct rig *rig = *state;
    struct topic_id id = rig->topic;
    struct desk_call call;
    char op[256];
    char text[TOPIC_ID_TEXT];
    int error = 0;
    const char *why = NULL;
    id.bytes[3] ^= 0x55;
    topic_id_format(&id, text);
    (void)snprintf(op, sizeof op,
                   "{\"op\":\"join\",\"group\":\"g\",\"member\":\"m\",\"topic\":\"u\","
                   "\"topic_id\":\"%s\"}",
                   text);
    desk_ok(&rig->desk, "g", "{\"op\":\"list\"}");
    desk_send(&rig->desk, &call, desk_request(&rig->desk, "g", 0, op));
    desk_ok(&rig->desk, "g", "{\"op\":\"list\"}");
    assert_false(desk_is_answered(&call));
    assert_int_equal(cluster_adopt_topic(rig->node.cluster, "u", &id, 1, NULL, 0), 0);
    cJSON *answer = desk_await(&call);
    assert_int_equal(
        group_wire_get_error(group_wire_get_answers(answer, 1)->child, &error, &why),
        0);
    assert_int_equal(error, 0);
    cJSON_Delete(answer);
    /* One that was deleted is not waited for. */
    assert_int_equal(cluster_delete_topic(rig->node.cluster, "t", NULL, 0), 0);
    assert_int_equal(join(rig, "g", "m2"), E_TOPIC_DELETED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(offsets_outlive_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_are_fenced, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_shards_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(parked_beats_hear_of_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(stopping_answers_what_is_parked, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(groups_are_listed_and_configured, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(compacted_logs_are_loaded, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_too_much_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(joins_wait_for_their_topic, setup, teardown),
        cmocka_unit_test_setup_teardown(malformed_lines_are_passed_over, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
