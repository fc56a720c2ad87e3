/* What the controller does, over a shared store: elections, moves, what it survives. */
#include "support/cluster_rig.h"

#include "coord/controller_loop.h"
#include "coord/coord.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
    int rc = rig_setup(state);

    for (int id = 1; rc == 0 && id <= 3; id++)
        rig_until(*state, id, rig_has_controller, NULL);
    return rc;
}

static int32_t controller_of(struct cluster_rig *rig, int id)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(rig->nodes[id].cluster);
    int32_t controller = snapshot->controller;

    cluster_snapshot_put(snapshot);
    return controller;
}

static int32_t controller_epoch_of(struct cluster_rig *rig, int id)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(rig->nodes[id].cluster);
    int32_t epoch = snapshot->controller_epoch;

    cluster_snapshot_put(snapshot);
    return epoch;
}

/* A live node that is neither of the two. */
static int other_than(struct cluster_rig *rig, int a, int b)
{
    for (int id = 1; id <= RIG_NODES_MAX; id++)
        if (id != a && id != b && rig->nodes[id].cluster)
            return id;
    fail_msg("no other node");
    return 0;
}

/* A topic that all nodes know. */
static void create(struct cluster_rig *rig, const char *settings)
{
    assert_int_equal(rig_create(rig, other_than(rig, 0, 0), "t", settings), 0);
    rig_settle(rig);
}

static void until_leader(struct cluster_rig *rig, int id, const char *topic, int32_t p,
                         int32_t leader, int32_t epoch_above)
{
    struct rig_leader wanted = {topic, p, leader, epoch_above};

    rig_until(rig, id, rig_leads, &wanted);
}

/* Writes the state as the partition's leader would. */
static void set_isr(struct cluster_rig *rig, const char *topic, int32_t p,
                    const int32_t *isr, uint32_t isr_count, const int32_t *elr,
                    uint32_t elr_count)
{
    struct broker_incarnation joining[LEADERSHIP_REPLICAS_MAX];
    uint32_t joining_count = 0;
    int64_t revision;

    rig_settle(rig);
    struct rig_state s = rig_state(rig, other_than(rig, 0, 0), topic, p);
    int leader = s.state.leader;
    s.state.isr.count = s.state.elr.count = 0;
    for (uint32_t i = 0; i < isr_count; i++) {
        replica_ids_add(&s.state.isr, isr[i]);
        if (rig->nodes[isr[i]].cluster)
            joining[joining_count++] =
                (struct broker_incarnation){isr[i], rig_self_epoch(rig, isr[i])};
    }
    for (uint32_t i = 0; i < elr_count; i++)
        replica_ids_add(&s.state.elr, elr[i]);
    assert_int_equal(cluster_change_isr(rig->nodes[leader].cluster, &s.topic, p,
                                        s.revision, &s.state, joining, joining_count,
                                        &revision),
                     0);
    rig_settle(rig);
}

/* ---- conditions ---- */

/* All partitions of t have a leader, which is not this node. */
static bool led_by_others(const struct cluster_snapshot *snapshot, const void *id)
{
    const struct topic *topic = cluster_snapshot_topic(snapshot, "t");

    for (int32_t p = 0; p < topic->partition_count; p++)
        if (topic->partitions[p].leader < 0 ||
            topic->partitions[p].leader == *(const int32_t *)id)
            return false;
    return true;
}

static bool has_replicas(const struct cluster_snapshot *snapshot, const void *count)
{
    return cluster_snapshot_topic(snapshot, "t")->partitions[0].replica_count ==
           *(const uint32_t *)count;
}

static void until_replicas(struct cluster_rig *rig, int id, uint32_t count)
{
    rig_until(rig, id, has_replicas, &count);
}

struct ended {
    struct cluster *cluster;
    const char *operation;
};

static bool ended(const struct cluster_snapshot *snapshot, const void *arg)
{
    const struct ended *wanted = arg;

    (void)snapshot;
    return !cluster_admin_running(wanted->cluster, wanted->operation);
}

static void until_ended(struct cluster_rig *rig, int id, const char *operation)
{
    rig_until(rig, id, ended, &(struct ended){rig->nodes[id].cluster, operation});
}

static bool epoch_above(const struct cluster_snapshot *snapshot, const void *epoch)
{
    return snapshot->controller >= 0 &&
           snapshot->controller_epoch > *(const int32_t *)epoch;
}

/* ---- tests ---- */

static void expire(struct cluster_rig *rig, int32_t id, int seen_by)
{
    rig_kill(rig, id);
    shared_backend_advance(rig->backend, 7000);
    rig_until(rig, seen_by, rig_lacks_broker, &id);
}

static void test_death_moves_all_that_it_led(void **state)
{
    struct cluster_rig *rig = *state;
    int victim = 2, by = 1;

    if (controller_of(rig, 1) == 2)
        victim = 3;
    create(rig, "{\"partitions\":250}");
    expire(rig, victim, by);
    rig_until(rig, by, led_by_others, &victim);
    for (int32_t p = 0; p < 250; p++) {
        struct rig_state s = rig_state(rig, by, "t", p);

        if (s.replicas.ids[0] == victim) {
            assert_int_equal(s.state.leader, s.replicas.ids[1]);
            assert_false(replica_ids_contain(&s.state.isr, victim));
            assert_int_equal(s.state.leader_epoch, 1);
        }
    }
    rig_until_problem(rig, by, "kind=node", true);
}

static void test_restarted_leader_gets_a_new_epoch(void **state)
{
    struct cluster_rig *rig = *state;
    struct rig_state s;
    int32_t leader;

    create(rig, "{\"replication_factor\":1}");
    s = rig_state(rig, 1, "t", 0);
    leader = s.state.leader;
    rig_kill(rig, leader);
    rig_start(rig, leader);
    until_leader(rig, leader, "t", 0, leader, s.state.leader_epoch);
}

static void test_new_controller_begins_from_the_store(void **state)
{
    struct cluster_rig *rig = *state;
    int32_t first = controller_of(rig, 1);
    int other = other_than(rig, first, 0);

    create(rig, "{\"partitions\":6}");
    /* The controller dies, and with it a leader, so that both are to be replaced. */
    rig_kill(rig, first);
    shared_backend_advance(rig->backend, 7000);
    rig_until(rig, other, rig_lacks_broker, &first);
    rig_until(rig, other, led_by_others, &first);
}

static void test_eligible_replica_leads_then_nobody(void **state)
{
    struct cluster_rig *rig = *state;
    struct rig_state s;
    int32_t a, b, c;

    create(rig, "{\"min_insync_replicas\":2}");
    s = rig_state(rig, 1, "t", 0);
    a = s.replicas.ids[0];
    b = s.replicas.ids[1];
    c = s.replicas.ids[2];
    set_isr(rig, "t", 0, &a, 1, &b, 1);
    rig_until_problem(rig, c, "kind=below-minimum t-0", true);
    expire(rig, a, c);
    until_leader(rig, c, "t", 0, b, s.state.leader_epoch);
    s = rig_state(rig, c, "t", 0);
    assert_int_equal(s.state.isr.count, 1);
    assert_true(replica_ids_contain(&s.state.elr, a));
    assert_int_equal(s.state.lossy_epoch, -1);
    /* c never was in sync: it does not lead. */
    expire(rig, b, c);
    until_leader(rig, c, "t", 0, -1, s.state.leader_epoch);
    rig_until_problem(rig, c, "kind=leaderless t-0", true);
    rig_start(rig, b);
    until_leader(rig, c, "t", 0, b, s.state.leader_epoch + 1);
    rig_until_problem(rig, c, "kind=leaderless t-0", false);
}

static void test_unclean_election_waits_and_is_recorded(void **state)
{
    struct cluster_rig *rig = *state;
    struct rig_state s;
    int32_t a, c;

    create(rig, "{\"min_insync_replicas\":1,\"unclean_leader_election\":30000}");
    s = rig_state(rig, 1, "t", 0);
    a = s.replicas.ids[0];
    c = s.replicas.ids[1];
    set_isr(rig, "t", 0, &a, 1, NULL, 0);
    expire(rig, a, c);
    until_leader(rig, c, "t", 0, -1, s.state.leader_epoch);
    /* Some rounds of the controller, in which no time goes by. */
    for (int i = 0; i < 100; i++)
        rig_pause();
    assert_int_equal(rig_state(rig, c, "t", 0).state.leader, -1);
    rig_until_later(rig, c, 30000, rig_leads,
                    &(struct rig_leader){"t", 0, c, s.state.leader_epoch + 1});
    s = rig_state(rig, c, "t", 0);
    assert_int_equal(s.state.lossy_epoch, s.state.leader_epoch);
    assert_int_equal(s.loss.epoch, s.state.leader_epoch);
    assert_true(s.loss.at_ms > 0);
    assert_int_equal(s.loss.from, -1);
    rig_until_problem(rig, c, "kind=loss t-0", true);
    assert_int_equal(
        cluster_record_loss(rig->nodes[c].cluster, &s.topic, 0,
                            &(struct partition_loss){s.loss.epoch, 0, 80, -1}),
        0);
    rig_until_problem(rig, c, "messages from offset 80 on", true);
    assert_int_equal(
        cluster_record_loss(rig->nodes[c].cluster, &s.topic, 0,
                            &(struct partition_loss){s.loss.epoch, 0, 85, 90}),
        0);
    /* Another election's is not this one's. */
    assert_int_equal(
        cluster_record_loss(rig->nodes[c].cluster, &s.topic, 0,
                            &(struct partition_loss){s.loss.epoch - 1, 0, 1, 200}),
        0);
    rig_until_problem(rig, c, "messages 80 to 89", true);
    /* The record outlives later elections. */
    assert_int_equal(rig_state(rig, c, "t", 0).loss.to, 90);
}

static void test_all_crashed_longest_leads(void **state)
{
    struct cluster_rig *rig = *state;
    struct rig_state s;
    int64_t revision = 0;

    create(rig, "{\"flush\":\"os\"}");
    s = rig_state(rig, 1, "t", 0);
    for (int id = 1; id <= 3; id++) {
        struct suspect suspect = {
            .id = id,
            .kind = SUSPECT_CRASHED,
            .last_epoch = id == 3 ? 0 : 4,
            .end_offset = id == 2 ? 90 : 80 + 100 * (id == 3),
        };

        assert_int_equal(
            cluster_take_out(rig->nodes[id].cluster, &s.topic, 0, &suspect, &revision),
            0);
    }
    /* Node 2 may have led before it was out, in an epoch above the first too. */
    assert_true(cluster_wait_revision(rig->nodes[1].cluster, revision, 15000));
    until_leader(rig, 1, "t", 0, 2, s.state.leader_epoch);
    s = rig_state(rig, 1, "t", 0);
    assert_int_equal(s.state.lossy_epoch, s.state.leader_epoch);
    assert_int_equal(s.loss.from, 90);
}

static void test_preferred_election_by_request(void **state)
{
    static const char request[] =
        "{\"version\":1,\"partitions\":[{\"topic\":\"t\",\"partition\":0}]}";
    struct cluster_rig *rig = *state;
    struct rig_state s;
    int32_t a, b;
    char *left;
    int by;

    for (int id = 1; id <= 3; id++)
        rig->nodes[id].config.auto_leader_rebalance = 0;
    create(rig, NULL);
    s = rig_state(rig, 1, "t", 0);
    a = s.replicas.ids[0];
    b = s.replicas.ids[1];
    by = other_than(rig, a, 0);
    expire(rig, a, by);
    until_leader(rig, by, "t", 0, b, -1);
    assert_int_equal(rig_admin(rig, by, "preferred_replica_election", request),
                     E_NO_LEADER);
    assert_non_null(strstr(rig->why, "t-0"));
    rig_start(rig, a);
    s = rig_state(rig, a, "t", 0);
    const int32_t isr[] = {b, s.replicas.ids[2], a};

    set_isr(rig, "t", 0, isr, 3, NULL, 0);
    assert_int_equal(rig_admin(rig, by, "preferred_replica_election", request), 0);
    until_leader(rig, by, "t", 0, a, -1);
    until_ended(rig, by, "preferred_replica_election");
    left = shared_backend_get(rig->backend,
                              "/topicfs/default/admin/last/preferred_replica_election");
    assert_non_null(strstr(left, "\"done\""));
    free(left);
}

static void test_leadership_returns_by_itself(void **state)
{
    struct cluster_rig *rig = *state;
    struct rig_state s;
    int32_t a, b;
    int by;

    create(rig, NULL);
    s = rig_state(rig, 1, "t", 0);
    a = s.replicas.ids[0];
    b = s.replicas.ids[1];
    by = other_than(rig, a, 0);
    expire(rig, a, by);
    until_leader(rig, by, "t", 0, b, -1);
    rig_start(rig, a);
    const int32_t isr[] = {b, s.replicas.ids[2], a};

    set_isr(rig, "t", 0, isr, 3, NULL, 0);
    /* Some rounds of the controller, in which no time goes by. */
    for (int i = 0; i < 100; i++)
        rig_pause();
    assert_int_equal(rig_state(rig, by, "t", 0).state.leader, b);
    rig_until_later(rig, by, 5001, rig_leads, &(struct rig_leader){"t", 0, a, -1});
}

/* ---- reassignment ---- */

static void start_four(struct cluster_rig *rig)
{
    int32_t four = 4;

    rig_start(rig, 4);
    for (int id = 1; id <= 4; id++)
        rig_until(rig, id, rig_has_broker, &four);
}

struct replicas_are {
    const char *topic;
    struct replica_ids replicas;
};

static bool replicas_are(const struct cluster_snapshot *snapshot, const void *arg)
{
    const struct replicas_are *wanted = arg;
    const struct topic *topic = cluster_snapshot_topic(snapshot, wanted->topic);
    const struct partition_info *info = &topic->partitions[0];

    return info->replica_count == wanted->replicas.count &&
           memcmp(info->replicas, wanted->replicas.ids,
                  info->replica_count * sizeof(int32_t)) == 0;
}

static int reassign(struct cluster_rig *rig, int by, const struct replica_ids *to)
{
    char request[200], ids[80] = "";

    for (uint32_t i = 0; i < to->count; i++)
        snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), "%s%d", i ? "," : "",
                 (int)to->ids[i]);
    snprintf(request, sizeof(request),
             "{\"version\":1,\"partitions\":[{\"topic\":\"t\",\"partition\":0,"
             "\"replicas\":[%s]}]}",
             ids);
    return rig_admin(rig, by, "reassign_partitions", request);
}

static void test_reassignment_grows_waits_and_shrinks(void **state)
{
    struct cluster_rig *rig = *state;
    struct rig_state s;
    char *last;

    start_four(rig);
    create(rig, "{\"replication_factor\":2}");
    s = rig_state(rig, 1, "t", 0);
    int32_t a = s.replicas.ids[0], b = s.replicas.ids[1];
    int c = other_than(rig, a, b);
    struct replicas_are wanted = {"t", {2, {c, b}}};

    assert_int_equal(reassign(rig, c, &wanted.replicas), 0);
    assert_true(cluster_admin_running(rig->nodes[c].cluster, "reassign_partitions") ||
                rig_state(rig, c, "t", 0).replicas.count == 3);
    until_replicas(rig, c, 3);
    rig_until_problem(rig, c, "kind=reassigning t-0", true);
    assert_int_equal(rig_state(rig, c, "t", 0).state.leader, a);
    const int32_t isr[] = {a, b, c};

    set_isr(rig, "t", 0, isr, 3, NULL, 0);
    rig_until(rig, c, replicas_are, &wanted);
    s = rig_state(rig, c, "t", 0);
    assert_int_equal(s.state.leader, c);
    assert_int_equal(s.state.isr.count, 2);
    until_ended(rig, c, "reassign_partitions");
    last = shared_backend_get(rig->backend,
                              "/topicfs/default/admin/last/reassign_partitions");
    assert_non_null(strstr(last, "\"done\""));
    free(last);
    rig_until_problem(rig, c, "kind=reassigning", false);
}

static void test_reassignment_is_taken_back(void **state)
{
    struct cluster_rig *rig = *state;
    struct rig_state s;

    start_four(rig);
    create(rig, "{\"replication_factor\":2}");
    s = rig_state(rig, 1, "t", 0);
    int c = other_than(rig, s.replicas.ids[0], s.replicas.ids[1]);
    struct replicas_are before = {"t", s.replicas};
    struct replica_ids target = {1, {c}};

    assert_int_equal(reassign(rig, c, &target), 0);
    until_replicas(rig, c, 3);
    assert_int_equal(reassign(rig, c, &s.replicas), 0);
    rig_until(rig, c, replicas_are, &before);
    until_ended(rig, c, "reassign_partitions");
}

/* A move that has ended, and is not taken out of the store yet, is over: the next one
 * begins where the partition is now. */
static void test_move_after_move(void **state)
{
    static const char key[] = "/topicfs/default/admin/reassign_partitions";
    struct cluster_rig *rig = *state;
    char request[200], original[64];
    struct rig_state s;

    create(rig, NULL);
    s = rig_state(rig, 1, "t", 0);
    int32_t controller = controller_of(rig, 1);
    int by = other_than(rig, controller, controller);
    struct replica_ids target = {1, {s.replicas.ids[1]}};

    snprintf(original, sizeof(original), "[%d,%d,%d]", s.replicas.ids[0],
             s.replicas.ids[1], s.replicas.ids[2]);
    snprintf(request, sizeof(request),
             "{\"version\":1,\"partitions\":[{\"topic\":\"t\",\"partition\":0,"
             "\"replicas\":%s,\"original\":[%d]}]}",
             original, target.ids[0]);
    shared_store_hold_watch(rig->nodes[controller].store, true);
    shared_backend_put(rig->backend, key, request);
    assert_true(cluster_wait_revision(rig->nodes[by].cluster,
                                      shared_backend_revision(rig->backend), 5000));
    assert_int_equal(reassign(rig, by, &target), 0);
    char *stored = shared_backend_get(rig->backend, key);

    snprintf(request, sizeof(request), "\"original\":%s", original);
    assert_non_null(strstr(stored, request));
    free(stored);
    shared_store_hold_watch(rig->nodes[controller].store, false);
}

/* Old and new replicas are together no more than there can be. */
static void test_a_move_has_room(void **state)
{
    enum { NODES = LEADERSHIP_REPLICAS_MAX + 1, OLD = 9 };
    struct cluster_rig *rig = *state;
    struct replica_ids target = {0};
    char key[64], settings[64];
    struct rig_state s;

    for (int id = 4; id <= NODES; id++) {
        snprintf(key, sizeof(key), "/topicfs/default/brokers/ids/%d", id);
        shared_backend_put(rig->backend, key,
                           "{\"version\":1,\"host\":\"h\",\"port\":1}");
    }
    rig_settle(rig);
    snprintf(settings, sizeof(settings), "{\"replication_factor\":%d}", OLD);
    create(rig, settings);
    s = rig_state(rig, 1, "t", 0);
    for (int id = 1; id <= NODES; id++)
        if (!replica_ids_contain(&s.replicas, id))
            replica_ids_add(&target, id);
    assert_int_equal(s.replicas.count + target.count, NODES);
    assert_int_equal(reassign(rig, 1, &target), E_INVALID_REPLICATION_FACTOR);
    assert_non_null(strstr(rig->why, "t-0: old and new replicas are together on 17"));
    target.ids[0] = s.replicas.ids[0];
    assert_int_equal(reassign(rig, 1, &target), 0);
    until_replicas(rig, 1, LEADERSHIP_REPLICAS_MAX);
}

static void test_return_to_dead_replicas_is_refused(void **state)
{
    struct cluster_rig *rig = *state;
    struct rig_state s;
    int32_t a;

    create(rig, "{\"replication_factor\":1}");
    s = rig_state(rig, 1, "t", 0);
    a = s.replicas.ids[0];
    int c = other_than(rig, a, 0);
    struct replica_ids target = {1, {c}}, back = {1, {a}};

    assert_int_equal(reassign(rig, c, &target), 0);
    until_replicas(rig, c, 2);
    expire(rig, a, c);
    until_leader(rig, c, "t", 0, -1, -1);
    assert_int_equal(reassign(rig, c, &back), E_NO_LEADER);
    assert_non_null(strstr(rig->why, "nobody could lead"));
}

static void test_stale_controller_changes_nothing(void **state)
{
    struct cluster_rig *rig = *state;
    int32_t first = controller_of(rig, 1);
    int other = other_than(rig, first, 0);
    int32_t epoch;

    create(rig, NULL);
    epoch = controller_epoch_of(rig, other);
    /* It hears nothing of its fall, and sees nodes that were there before. */
    shared_store_hold_watch(rig->nodes[first].store, true);
    shared_backend_put(rig->backend, "/topicfs/default/controller", NULL);
    rig_until(rig, other, epoch_above, &epoch);
    struct rig_state s = rig_state(rig, other, "t", 0);

    for (int i = 0; i < 50; i++)
        rig_pause();
    assert_int_equal(rig_state(rig, other, "t", 0).revision, s.revision);
    shared_store_hold_watch(rig->nodes[first].store, false);
}

static void test_lost_states_are_made_anew_above_old_epochs(void **state)
{
    struct cluster_rig *rig = *state;

    create(rig, NULL);
    shared_backend_advance(rig->backend, 120000);
    shared_backend_put(rig->backend,
                       "/topicfs/default/brokers/topics/t/partitions/0/state", NULL);
    until_leader(rig, 1, "t", 0, RIG_ANY_LEADER, 999999);
}

/* Who has all committed messages is not known: no replica is chosen blindly. */
static void test_malformed_states_stay(void **state)
{
    static const char key[] = "/topicfs/default/brokers/topics/t/partitions/0/state";
    struct cluster_rig *rig = *state;

    create(rig, NULL);
    shared_backend_advance(rig->backend, 120000);
    shared_backend_put(rig->backend, key, "nonsense");
    for (int id = 1; id <= 3; id++)
        rig_until_problem(rig, id, "kind=leaderless t-0: its state", true);
    char *value = shared_backend_get(rig->backend, key);

    assert_string_equal(value, "nonsense");
    free(value);
    rig_until_problem(rig, 1, key, true);
    shared_backend_put(rig->backend, key, NULL);
    until_leader(rig, 1, "t", 0, RIG_ANY_LEADER, 999999);
    rig_until_problem(rig, 1, "t-0", false);
}

static void test_malformed_requests_stay(void **state)
{
    static const char key[] = "/topicfs/default/admin/preferred_replica_election";
    static const char *const bad[] = {"nonsense", "7", "{\"version\":1}"};
    struct cluster_rig *rig = *state;

    create(rig, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        shared_backend_put(rig->backend, key, bad[i]);
        for (int id = 1; id <= 3; id++)
            rig_until_problem(rig, id, key, true);
        /* A topic that is there shows that the controller has had a look. */
        char name[8] = {(char)('a' + i), '\0'};

        assert_int_equal(rig_create(rig, 1, name, NULL), 0);
        char *value = shared_backend_get(rig->backend, key);

        assert_string_equal(value, bad[i]);
        free(value);
    }
    assert_false(
        cluster_admin_running(rig->nodes[1].cluster, "preferred_replica_election"));
    /* A request of a user takes its place. */
    assert_int_equal(
        rig_admin(rig, 1, "preferred_replica_election",
                  "{\"version\":1,\"partitions\":[{\"topic\":\"t\",\"partition\":0}]}"),
        0);
    rig_until_problem(rig, 1, key, false);
    until_ended(rig, 1, "preferred_replica_election");
}

/* Over the node's present snapshot, until the loop waits for time, or no more. */
static void step_until(struct cluster_rig *rig, int id, struct controller_loop *loop,
                       bool waits)
{
    for (int i = 0; i < 5000; i++) {
        const struct snapshot *snapshot = cluster_get(rig->nodes[id].cluster);
        int rc = controller_loop_step(loop, snapshot);

        snapshot_unref(snapshot);
        if (rc == 0 && controller_loop_waits(loop) == waits)
            return;
        rig_pause();
    }
    fail_msg("the loop %s", waits ? "has nothing to wait for" : "waits still");
}

/* What a partition waited for goes with its topic. */
static void test_nothing_waits_for_a_deleted_topic(void **state)
{
    struct cluster_rig *rig = *state;
    int32_t controller = controller_of(rig, 1);
    int victim = other_than(rig, controller, 0);
    struct controller_loop *loop = controller_loop_new(rig->nodes[controller].cluster);

    assert_non_null(loop);
    create(rig, "{\"partitions\":3,\"replication_factor\":1}");
    step_until(rig, controller, loop, false);
    expire(rig, victim, controller);
    step_until(rig, controller, loop, true);
    assert_int_equal(cluster_delete_topic(rig->nodes[controller].cluster, "t", NULL, 0),
                     0);
    step_until(rig, controller, loop, false);
    controller_loop_free(loop);
}

int main(void)
{
#define LOOP_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        LOOP_TEST(test_death_moves_all_that_it_led),
        LOOP_TEST(test_restarted_leader_gets_a_new_epoch),
        LOOP_TEST(test_new_controller_begins_from_the_store),
        LOOP_TEST(test_eligible_replica_leads_then_nobody),
        LOOP_TEST(test_unclean_election_waits_and_is_recorded),
        LOOP_TEST(test_all_crashed_longest_leads),
        LOOP_TEST(test_preferred_election_by_request),
        LOOP_TEST(test_leadership_returns_by_itself),
        LOOP_TEST(test_reassignment_grows_waits_and_shrinks),
        LOOP_TEST(test_reassignment_is_taken_back),
        LOOP_TEST(test_move_after_move),
        LOOP_TEST(test_a_move_has_room),
        LOOP_TEST(test_return_to_dead_replicas_is_refused),
        LOOP_TEST(test_stale_controller_changes_nothing),
        LOOP_TEST(test_lost_states_are_made_anew_above_old_epochs),
        LOOP_TEST(test_malformed_states_stay),
        LOOP_TEST(test_malformed_requests_stay),
        LOOP_TEST(test_nothing_waits_for_a_deleted_topic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
