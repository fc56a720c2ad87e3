/* Coordinators of several nodes: one dies and the next goes on, appends that do not
 * commit, and what nodes ask each other over HTTP. */
#include "replica/partition_lead.h"
#include "replica/peer_client.h"
#include "tests/unit/support/group_desk.h"
#include "tests/unit/support/groups_nodes.h"
#include "tests/unit/support/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 3, PATIENCE = 3000 };

/* A group of shard 0. */
static const char *group_name(void)
{
    static char name[] = "a";
    while (group_wire_shard(name, GROUP_SHARDS) != 0) {
        name[0]++;
    }
    return name;
}

static int setup(void **state)
{
    struct replica_rig *rig = groups_nodes_open(NODES);
    char why[256] = "";
    replica_rig_topic(rig, "t",
                      "{\"partitions\":4,\"replication_factor\":3,\"flush\":\"os\"}");
    assert_int_equal(
        group_coordinator_ensure_topic(rig->cluster.nodes[1].cluster, why, sizeof why),
        0);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    replica_rig_close(*state);
    return 0;
}

static const struct cluster_snapshot *snapshot_of(struct replica_rig *rig, int id)
{
    return cluster_snapshot_get(rig->cluster.nodes[id].cluster);
}

/* Asks the coordinator of node `at`, in the name of node `from`. */
static struct group_desk desk_at(struct replica_rig *rig, int at, int from)
{
    const struct cluster_snapshot *snapshot = snapshot_of(rig, from);
    struct group_desk desk = {.coordinator =
                                  groups_coordinator(groups_nodes_of(rig, at)),
                              .node = from,
                              .epoch = snapshot->self_epoch};
    cluster_snapshot_put(snapshot);
    return desk;
}

static int other_than(int a, int b)
{
    int id = 1;
    while (id == a || id == b) {
        id++;
    }
    return id;
}

static struct group_wire_beat until_partitions(const struct group_desk *desk,
                                               const char *member, size_t count)
{
    struct group_wire_beat beat = {0};
    for (int i = 0; i < PATIENCE; i++) {
        assert_int_equal(desk_beat(desk, group_name(), member, &beat), 0);
        if (beat.count == count) {
            return beat;
        }
        free(beat.grants);
        rig_pause();
    }
    fail_msg("%s does not have %zu partitions", member, count);
    return beat;
}

static void the_next_coordinator_goes_on(void **state)
{
    struct replica_rig *rig = *state;
    const char *group = group_name();
    const struct topic_id id = groups_nodes_topic(rig, 1);
    int leader = replica_rig_leader(rig, 1, GROUPS_TOPIC, -1);
    int stays = other_than(leader, leader);
    struct group_desk here = desk_at(rig, leader, stays);
    struct group_desk dying = desk_at(rig, leader, leader);
    assert_int_equal(desk_join(&here, group, "stays", "t", &id), 0);
    assert_int_equal(desk_join(&dying, group, "dies", "t", &id), 0);
    /* Range assignment: each gets two, once the first gave two up. */
    struct group_wire_beat beat = {0};
    assert_int_equal(desk_beat(&here, group, "stays", &beat), 0);
    assert_int_equal(beat.count, 4);
    char op[512];
    struct group_grant kept = {.partition = -1};
    char released[256] = "";
    for (size_t i = 0; i < beat.count; i++) {
        const struct group_grant *grant = &beat.grants[i];
        size_t length = strlen(released);
        if (!grant->give_up) {
            kept = *grant;
            continue;
        }
        (void)snprintf(released + length, sizeof released - length,
                       "%s{\"partition\":%d,\"generation\":%lld}", length ? "," : "",
                       grant->partition, (long long)grant->generation);
    }
    assert_true(kept.partition >= 0);
    free(beat.grants);
    (void)snprintf(op, sizeof op,
                   "{\"op\":\"beat\",\"group\":\"%s\",\"member\":\"stays\",\"seen\":0,"
                   "\"released\":[%s]}",
                   group, released);
    desk_ok(&here, group, op);
    beat = until_partitions(&dying, "dies", 2);
    int32_t lost = beat.grants[0].partition;
    assert_int_equal(
        desk_commit(&dying, group, "dies", lost, beat.grants[0].generation, 77), 0);
    free(beat.grants);
    assert_int_equal(
        desk_commit(&here, group, "stays", kept.partition, kept.generation, 42), 0);

    replica_rig_kill(rig, leader);
    replica_rig_bury(rig, leader);
    int next = replica_rig_leader(rig, stays, GROUPS_TOPIC, leader);
    struct group_desk there = desk_at(rig, next, stays);
    /* The member goes on with the grant that it had. */
    assert_int_equal(
        desk_commit(&there, group, "stays", kept.partition, kept.generation, 43), 0);
    beat = until_partitions(&there, "stays", 4);
    for (size_t i = 0; i < beat.count; i++) {
        if (beat.grants[i].partition == kept.partition) {
            assert_int_equal(beat.grants[i].generation, kept.generation);
            assert_int_equal(beat.grants[i].committed, 43);
        } else if (beat.grants[i].partition == lost) {
            assert_int_equal(beat.grants[i].committed, 77);
        }
    }
    free(beat.grants);
    /* The node comes back, with members of before: they are fenced. */
    replica_rig_start(rig, leader);
    assert_int_equal(desk_commit(&there, group, "dies", lost, 1, 78),
                     E_GROUP_MEMBER_UNKNOWN);
}

static int64_t log_end(struct partition *partition)
{
    struct partition_status status;
    partition_status_get(partition, &status);
    return status.log_end_offset;
}

static void what_does_not_commit_is_not_told(void **state)
{
    struct replica_rig *rig = *state;
    const char *group = group_name();
    const struct topic_id id = groups_nodes_topic(rig, 1);
    int leader = replica_rig_leader(rig, 1, GROUPS_TOPIC, -1);
    int first = other_than(leader, leader);
    int second = other_than(leader, first);
    struct group_desk desk = desk_at(rig, leader, leader);
    struct partition *shard = replica_rig_partition(rig, leader, GROUPS_TOPIC);
    struct desk_call call;
    char op[512];
    char text[TOPIC_ID_TEXT];
    assert_int_equal(desk_join(&desk, group, "m1", "t", &id), 0);
    replica_rig_cut_off(rig, first);
    replica_rig_cut_off(rig, second);
    int64_t before = log_end(shard);
    topic_id_format(&id, text);
    (void)snprintf(
        op, sizeof op,
        "{\"op\":\"join\",\"group\":\"%s\",\"member\":\"m2\",\"topic\":\"t\","
        "\"topic_id\":\"%s\"}",
        group, text);
    desk_send(&desk, &call, desk_request(&desk, group, 0, op));
    for (int i = 0; i < PATIENCE && log_end(shard) == before; i++) {
        rig_pause();
    }
    assert_true(log_end(shard) > before);
    assert_false(desk_is_answered(&call));
    /* It waits for ten seconds at most; time goes by. */
    replica_rig_later(rig, 11000);
    cJSON *answer = desk_await(&call);
    int error = 0;
    const char *why = NULL;
    assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
    assert_int_equal(error, E_NOT_COORDINATOR);
    cJSON_Delete(answer);
    partition_unref(shard);
    /* Once it is committed after all, the shard is read again and knows of it. */
    replica_rig_start(rig, first);
    replica_rig_start(rig, second);
    int next = replica_rig_leader(rig, leader, GROUPS_TOPIC, -1);
    desk = desk_at(rig, next, leader);
    (void)snprintf(op, sizeof op, "{\"op\":\"describe\",\"group\":\"%s\"}", group);
    answer = desk_ask(&desk, group, op);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(
                         cJSON_GetObjectItemCaseSensitive(answer, "group"), "members")),
                     2);
    cJSON_Delete(answer);
}

/* Alive, but cut off from everybody: what it decided never comes into the log that the
 * next one goes on with. */
static void an_old_coordinator_changes_nothing(void **state)
{
    struct replica_rig *rig = *state;
    const char *group = group_name();
    const struct topic_id id = groups_nodes_topic(rig, 1);
    int old = replica_rig_leader(rig, 1, GROUPS_TOPIC, -1);
    int first = other_than(old, old);
    int second = other_than(old, first);
    struct group_desk desk = desk_at(rig, old, old);
    struct partition *shard = replica_rig_partition(rig, old, GROUPS_TOPIC);
    struct store *store = rig->cluster.nodes[old].store;
    struct desk_call call;
    char op[512];
    char text[TOPIC_ID_TEXT];
    assert_int_equal(desk_join(&desk, group, "m1", "t", &id), 0);
    struct group_wire_beat beat = until_partitions(&desk, "m1", 4);
    assert_int_equal(desk_commit(&desk, group, "m1", 2, beat.grants[2].generation, 5),
                     0);
    free(beat.grants);
    replica_rig_cut_off(rig, first);
    replica_rig_cut_off(rig, second);
    int64_t before = log_end(shard);
    topic_id_format(&id, text);
    (void)snprintf(op, sizeof op,
                   "{\"op\":\"join\",\"group\":\"%s\",\"member\":\"ghost\","
                   "\"topic\":\"t\",\"topic_id\":\"%s\"}",
                   group, text);
    desk_send(&desk, &call, desk_request(&desk, group, 0, op));
    for (int i = 0; i < PATIENCE && log_end(shard) == before; i++) {
        rig_pause();
    }
    assert_true(log_end(shard) > before);
    http_server_stop(rig->nodes[old].server);
    rig->nodes[old].server = NULL;
    shared_store_cut(store, true);
    shared_backend_advance(rig->cluster.backend, 7000);
    replica_rig_start(rig, first);
    replica_rig_start(rig, second);
    int next = replica_rig_leader(rig, first, GROUPS_TOPIC, old);
    struct group_desk there = desk_at(rig, next, next);
    assert_int_equal(desk_join(&there, group, "m2", "t", &id), 0);
    beat = until_partitions(&there, "m2", 4);
    assert_int_equal(beat.grants[2].committed, 5);
    free(beat.grants);
    cJSON *answer = desk_await(&call);
    int error = 0;
    const char *why = NULL;
    assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
    assert_int_equal(error, E_NOT_COORDINATOR);
    cJSON_Delete(answer);
    /* The old one comes back, and takes what the next one has. */
    struct partition *truth = replica_rig_partition(rig, next, GROUPS_TOPIC);
    shared_store_cut(store, false);
    replica_rig_until_committed(shard, log_end(truth));
    char *its_lines = node_read_all(shard, NULL);
    char *lines = node_read_all(truth, NULL);
    assert_string_equal(its_lines, lines);
    assert_null(strstr(lines, "ghost"));
    free(its_lines);
    free(lines);
    partition_unref(truth);
    partition_unref(shard);
}

/* Without the store it asks its followers whether it still leads. */
static void groups_go_on_without_the_store(void **state)
{
    struct replica_rig *rig = *state;
    const char *group = group_name();
    const struct topic_id id = groups_nodes_topic(rig, 1);
    int leader = replica_rig_leader(rig, 1, GROUPS_TOPIC, -1);
    struct group_desk desk = desk_at(rig, leader, leader);
    struct partition *shard = replica_rig_partition(rig, leader, GROUPS_TOPIC);
    struct partition_lead lead = {.certain = true};
    assert_int_equal(desk_join(&desk, group, "m1", "t", &id), 0);
    struct group_wire_beat beat = until_partitions(&desk, "m1", 4);
    for (int node = 1; node <= NODES; node++) {
        shared_store_cut(rig->cluster.nodes[node].store, true);
    }
    shared_backend_advance(rig->cluster.backend, 7000);
    for (int i = 0; i < PATIENCE && lead.certain; i++) {
        assert_true(partition_lead_get(shard, &lead));
        rig_pause();
    }
    assert_false(lead.certain);
    int64_t before = log_end(shard);
    assert_int_equal(desk_offset(&desk, group, 2), -1);
    assert_true(log_end(shard) > before);
    assert_int_equal(desk_commit(&desk, group, "m1", 2, beat.grants[2].generation, 5),
                     0);
    free(beat.grants);
    partition_unref(shard);
}

/* ---- over HTTP ----------------------------------------------------------------------
 */

struct asked {
    struct peer_call call; /* first */
    bool done;
    int error;
    cJSON *answer;
};

static void on_done(struct peer_call *call, const struct peer_reply *reply)
{
    struct asked *asked = (struct asked *)call;
    asked->done = true;
    asked->error = reply->error;
    if (!reply->error) {
        (void)group_wire_parse((const char *)reply->bytes, reply->length,
                               &asked->answer);
    }
}

/* Takes the request. NULL: refused. */
static cJSON *post(struct replica_rig *rig, int id, const char *path, cJSON *request)
{
    struct peer_client *client = NULL;
    struct peer_address address = {.host = "127.0.0.1"};
    struct asked asked = {0};
    struct buf body;
    const struct mount_config *config = &rig->cluster.nodes[id].config;
    address.port = (int32_t)strtol(strrchr(config->listen, ':') + 1, NULL, 10);
    buf_init(&body, GROUP_WIRE_MAX);
    assert_int_equal(group_wire_print(request, &body), 0);
    cJSON_Delete(request);
    assert_int_equal(peer_client_new(config, &client), 0);
    peer_call_init(&asked.call, on_done);
    assert_int_equal(peer_client_send(client, &asked.call, &address, path, &body,
                                      GROUP_WIRE_MAX, 10000),
                     0);
    for (int i = 0; i < PATIENCE && !asked.done; i++) {
        peer_client_run(client, 10);
    }
    assert_true(asked.done);
    peer_call_free(client, &asked.call);
    peer_client_free(client);
    return asked.answer;
}

static void nodes_ask_over_http(void **state)
{
    struct replica_rig *rig = *state;
    const char *group = group_name();
    int leader = replica_rig_leader(rig, 1, GROUPS_TOPIC, -1);
    int other = other_than(leader, leader);
    struct group_desk desk = desk_at(rig, leader, other);
    const char *cluster = rig->cluster.nodes[leader].config.cluster;
    int error = 1;
    const char *why = NULL;
    desk_ok(&desk, group, "{\"op\":\"list\"}"); /* it is loaded */
    cJSON *request = desk_request(&desk, group, 0, "{\"op\":\"list\"}");
    assert_null(post(rig, leader, "/replica/groups", request)); /* of cluster "c" */
    for (int id = 1; id <= NODES; id++) {
        request = desk_request(&desk, group, 0, "{\"op\":\"list\"}");
        cJSON_ReplaceItemInObjectCaseSensitive(request, "cluster",
                                               cJSON_CreateString(cluster));
        cJSON *answer = post(rig, id, "/replica/groups", request);
        assert_non_null(answer);
        assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
        assert_int_equal(error, id == leader ? 0 : E_NOT_COORDINATOR);
        assert_int_equal(group_wire_get_answers(answer, 1) != NULL, id == leader);
        cJSON_Delete(answer);
    }
}

static void leaders_find_places(void **state)
{
    struct replica_rig *rig = *state;
    int leader = replica_rig_leader(rig, 1, "t", -1);
    struct partition *partition = replica_rig_partition(rig, leader, "t");
    const struct cluster_snapshot *snapshot = snapshot_of(rig, leader);
    struct peer_sender sender;
    peer_sender_set(&sender, rig->cluster.nodes[leader].config.cluster, snapshot);
    cluster_snapshot_put(snapshot);
    struct produce_waiter waiter = {.acks_given = true, .acks = ACKS_LEADER};
    struct produce_result result;
    assert_int_equal(partition_produce(partition, "a\nb\nc\n", 6, 3, &waiter, &result),
                     0);
    assert_int_equal(result.error, 0);
    replica_rig_until_committed(partition, 3);
    partition_unref(partition);
    static const struct {
        enum groups_place_kind kind;
        int64_t value;
        int64_t offset;
        int error;
    } cases[] = {
        {GROUPS_PLACE_EARLIEST, 0, 0, 0},    {GROUPS_PLACE_LATEST, 0, 3, 0},
        {GROUPS_PLACE_OFFSET, 2, 2, 0},      {GROUPS_PLACE_OFFSET, 4, 0, -ERANGE},
        {GROUPS_PLACE_LAST, 1, 2, 0},        {GROUPS_PLACE_TIME, 1, 0, 0},
        {GROUPS_PLACE_LAST, -1, 0, -EINVAL},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    for (int id = 1; id <= NODES; id++) {
        cJSON *request = group_wire_locate(&sender);
        for (size_t i = 0; i < CASES; i++) {
            const struct group_place place = {.topic_id = groups_nodes_topic(rig, 1),
                                              .kind = cases[i].kind,
                                              .value = cases[i].value};
            assert_int_equal(group_wire_add_place(request, &place), 0);
        }
        cJSON *answer = post(rig, id, "/replica/locate", request);
        assert_non_null(answer);
        const cJSON *places = group_wire_get_places(answer, CASES);
        assert_non_null(places);
        const cJSON *item = places->child;
        for (size_t i = 0; i < CASES; i++, item = item->next) {
            struct group_found found;
            assert_int_equal(group_wire_get_found(item, &found), 0);
            assert_int_equal(found.error, id == leader ? cases[i].error : E_NOT_LEADER);
            if (!found.error) {
                assert_int_equal(found.offset, cases[i].offset);
                assert_int_equal(found.high_watermark, 3);
                assert_int_equal(found.leader_epoch >= 0, found.offset > 0);
            }
        }
        cJSON_Delete(answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_coordinator_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(what_does_not_commit_is_not_told, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_old_coordinator_changes_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(groups_go_on_without_the_store, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nodes_ask_over_http, setup, teardown),
        cmocka_unit_test_setup_teardown(leaders_find_places, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
