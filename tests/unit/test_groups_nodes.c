/* Members on several nodes: with and without a replica, with their coordinator on
 * another node, and when that one dies. */
#include "replica/group_coordinator.h"
#include "tests/unit/support/group_user.h"
#include "tests/unit/support/groups_nodes.h"
#include "tests/unit/support/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 3, PARTITIONS = 3, LINES = 60, TRIES = 400 };

static int setup(void **state)
{
    *state = groups_nodes_open(NODES);
    return 0;
}

static int teardown(void **state)
{
    replica_rig_close(*state);
    return 0;
}

static struct group_user *join(struct replica_rig *rig, int id)
{
    const struct topic_id topic = groups_nodes_topic(rig, id);
    return group_user_join(groups_nodes_of(rig, id), "g", "t", &topic);
}

/* Through node `id`, whoever leads. */
static void append(struct replica_rig *rig, int id, int32_t index, const char *lines)
{
    const struct topic_id topic = groups_nodes_topic(rig, id);
    struct partition *partition = NULL;
    for (int i = 0; i < TRIES && !partition; i++) {
        partition = broker_partition(rig->nodes[id].broker, &topic, index);
        if (!partition) {
            rig_pause();
        }
    }
    assert_non_null(partition);
    assert_int_equal(node_append(partition, lines, NULL), 0);
    partition_unref(partition);
}

/* The node that coordinates the group. */
static int coordinator(struct replica_rig *rig, int witness, int except)
{
    for (int i = 0; i < TRIES; i++) {
        const struct cluster_snapshot *snapshot =
            cluster_snapshot_get(rig->cluster.nodes[witness].cluster);
        const struct topic *topic = cluster_snapshot_topic(snapshot, GROUPS_TOPIC);
        int leader =
            topic ? topic->partitions[group_wire_shard("g", topic->partition_count)]
                        .leader
                  : -1;
        cluster_snapshot_put(snapshot);
        if (leader > 0 && leader != except) {
            return leader;
        }
        rig_pause();
    }
    fail_msg("nobody coordinates");
    return -1;
}

/* Takes what comes until every line of `seen` came; each once. */
static void take_all(struct group_user **users, size_t count, int *seen, int wanted)
{
    int total = 0;
    for (int i = 0; i < TRIES && total < wanted; i++) {
        struct group_user *user = users[(size_t)i % count];
        struct group_chunk chunk;
        char *text = NULL;
        if (!user || group_user_try(user, 20, &text, &chunk) != 1) {
            continue;
        }
        char *rest = NULL;
        for (char *line = strtok_r(text, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest)) {
            long number = strtol(line, NULL, 10);
            assert_in_range(number, 0, LINES - 1);
            assert_int_equal(seen[number]++, 0);
            total++;
        }
        free(text);
        assert_int_equal(group_user_finish(user, &chunk), 0);
    }
    assert_int_equal(total, wanted);
}

static void append_numbers(struct replica_rig *rig, int id, int from, int to)
{
    for (int i = from; i < to; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "%d\n", i);
        append(rig, id, i % PARTITIONS, line);
    }
}

/* Replicas are on one node each: most reading is of copies. */
static void test_members_on_all_nodes(void **state)
{
    struct replica_rig *rig = *state;
    struct group_user *users[NODES];
    int seen[LINES] = {0};
    replica_rig_topic(rig, "t",
                      "{\"partitions\":3,\"replication_factor\":1,\"flush\":\"os\"}");
    append_numbers(rig, 1, 0, LINES / 2);
    for (int id = 1; id <= NODES; id++) {
        users[id - 1] = join(rig, id);
    }
    for (int id = 1; id <= NODES; id++) {
        group_user_until_partitions(users[id - 1], 1);
    }
    append_numbers(rig, 2, LINES / 2, LINES);
    take_all(users, NODES, seen, LINES);
    for (int id = 1; id <= NODES; id++) {
        assert_int_equal(group_user_sync(users[id - 1]), 0);
    }
    for (int32_t i = 0; i < PARTITIONS; i++) {
        assert_int_equal(group_user_offset(groups_nodes_of(rig, i + 1), "g", i),
                         LINES / PARTITIONS);
    }
    cJSON *group = group_user_describe(groups_nodes_of(rig, 3), "g", true);
    for (int32_t i = 0; i < PARTITIONS; i++) {
        int64_t end = 0;
        assert_int_equal(json_get_i64(group_user_entry(group, i), "end", &end), 0);
        assert_int_equal(end, LINES / PARTITIONS);
    }
    cJSON_Delete(group);
    for (int id = 1; id <= NODES; id++) {
        group_user_leave(users[id - 1]);
    }
}

/* Until the partitions are shared out among those who are there. */
static void until_shared(struct group_user **users)
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t sum = 0;
        bool all = true;
        for (int id = 1; id <= NODES; id++) {
            struct group_member_status status;
            if (users[id - 1]) {
                group_member_status(users[id - 1]->member, &status);
                all = all && status.partitions > 0;
                sum += status.partitions;
            }
        }
        if (all && sum == PARTITIONS) {
            return;
        }
        rig_pause();
    }
    fail_msg("the partitions are not shared");
}

/* Members go on under the next coordinator, as the ones that they were, and begin
 * nothing anew. */
static void test_coordinator_dies(void **state)
{
    struct replica_rig *rig = *state;
    struct group_user *users[NODES] = {0};
    struct group_member_status before[NODES + 1] = {0};
    struct group_member_status after;
    struct group_chunk chunk;
    int seen[LINES] = {0};
    replica_rig_topic(rig, "t",
                      "{\"partitions\":3,\"replication_factor\":3,\"flush\":\"os\"}");
    struct group_user *first = join(rig, 1);
    group_user_until_partitions(first, PARTITIONS);
    group_user_leave(first);
    int dead = coordinator(rig, 1, -1);
    int live = dead == 1 ? 2 : 1;
    for (int id = 1; id <= NODES; id++) {
        users[id - 1] = id == dead ? NULL : join(rig, id);
    }
    until_shared(users);
    append_numbers(rig, live, 0, LINES / 2);
    take_all(users, NODES, seen, LINES / 2);
    for (int id = 1; id <= NODES; id++) {
        if (users[id - 1]) {
            assert_int_equal(group_user_sync(users[id - 1]), 0);
            group_member_status(users[id - 1]->member, &before[id]);
        }
    }
    replica_rig_kill(rig, dead);
    replica_rig_bury(rig, dead);
    (void)coordinator(rig, live, dead);
    append_numbers(rig, live, LINES / 2, LINES);
    take_all(users, NODES, seen, LINES / 2);
    for (int id = 1; id <= NODES; id++) {
        if (users[id - 1]) {
            assert_int_equal(group_user_sync(users[id - 1]), 0);
            group_member_status(users[id - 1]->member, &after);
            assert_string_equal(before[id].id, after.id);
            assert_int_equal(before[id].partitions, after.partitions);
        }
    }
    for (int32_t i = 0; i < PARTITIONS; i++) {
        assert_int_equal(group_user_offset(groups_nodes_of(rig, live), "g", i),
                         LINES / PARTITIONS);
    }
    for (int id = 1; id <= NODES; id++) {
        if (users[id - 1]) {
            group_user_leave(users[id - 1]);
        }
    }
    /* The next one has nothing left to read. */
    first = join(rig, live);
    group_user_until_partitions(first, PARTITIONS);
    char *text = NULL;
    assert_int_equal(group_user_try(first, 100, &text, &chunk), 0);
    group_user_leave(first);
}

/* With two of three nodes away nothing can be committed, and calls end in time. */
static void test_no_coordinator(void **state)
{
    struct replica_rig *rig = *state;
    struct user_call call;
    struct group_chunk chunk;
    replica_rig_topic(rig, "t",
                      "{\"partitions\":3,\"replication_factor\":3,\"flush\":\"os\"}");
    struct group_user *user = join(rig, 1);
    group_user_until_partitions(user, PARTITIONS);
    append(rig, 1, 0, "line\n");
    char *text = NULL;
    group_user_take(user, &text, &chunk);
    free(text);
    replica_rig_kill(rig, 2);
    replica_rig_kill(rig, 3);
    replica_rig_bury(rig, 2);
    user_call_init(&call);
    const struct topic_id topic = groups_nodes_topic(rig, 1);
    groups_set_offset(groups_nodes_of(rig, 1), "other", "t", &topic, 0, 1, -1,
                      &call.call);
    for (int i = 0; i < 12; i++) {
        replica_rig_later(rig, 1000);
        rig_pause();
    }
    assert_int_equal(user_call_await(&call, NULL), E_NO_COORDINATOR);
    assert_int_equal(group_user_finish(user, &chunk), 0);
    group_user_leave(user);
}

/* A node whose own session is over, by its clock, hands out nothing, whatever the
 * coordinator has answered: to others it is dead. */
static void test_a_silent_node_hands_out_nothing(void **state)
{
    struct replica_rig *rig = *state;
    struct group_chunk chunk;
    struct cluster_session session = {0};
    char *text = NULL;
    replica_rig_topic(rig, "t",
                      "{\"partitions\":3,\"replication_factor\":3,\"flush\":\"os\"}");
    append(rig, 1, 0, "a\nb\n");
    struct group_user *user = join(rig, 1);
    user->take_bytes = 2;
    group_user_take(user, &text, &chunk);
    free(text);
    for (int i = 0; i < TRIES && !group_member_poll(user->member); i++) {
        rig_pause();
    }
    assert_true(group_member_poll(user->member));
    cluster_session(rig->cluster.nodes[1].cluster, &session);
    int64_t left_ms =
        (session.deadline_ns - rig->clock.clock.mono_ns(&rig->clock.clock)) / 1000000;
    assert_in_range(left_ms, 0, 9000); /* the groups trust their beats for longer */
    replica_rig_later(rig, left_ms + 500);
    assert_false(group_member_poll(user->member));
    assert_int_equal(group_user_try(user, 0, &text, &chunk), 0);
    group_user_leave(user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_members_on_all_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_coordinator_dies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_coordinator, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_silent_node_hands_out_nothing, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
