/* Several nodes over one shared store: membership, sessions, operations from any. */
#include "support/cluster_rig.h"

#include "coord/coord.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int32_t controller_of(struct cluster_rig *rig, int id, int32_t *epoch)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(rig->nodes[id].cluster);
    int32_t controller = snapshot->controller;

    if (epoch)
        *epoch = snapshot->controller_epoch;
    cluster_snapshot_put(snapshot);
    return controller;
}

/* ---- membership ---- */

static void test_nodes_see_each_other_and_one_controller(void **state)
{
    struct cluster_rig *rig = *state;

    for (int32_t id = 1; id <= 3; id++) {
        const struct broker_info *broker;
        const struct cluster_snapshot *snapshot;
        char instance[32];

        rig_until(rig, id, rig_has_controller, NULL);
        snapshot = cluster_snapshot_get(rig->nodes[id].cluster);
        assert_int_equal(snapshot->broker_count, 3);
        broker = cluster_snapshot_broker(snapshot, id);
        snprintf(instance, sizeof(instance), "instance-%d", (int)id);
        assert_string_equal(broker->instance, instance);
        assert_int_equal(broker->epoch, snapshot->self_epoch);
        assert_false(broker->client);
        cluster_snapshot_put(snapshot);
        assert_int_equal(controller_of(rig, id, NULL), controller_of(rig, 1, NULL));
    }
}

static void test_another_instance_with_the_id_is_refused(void **state)
{
    struct cluster_rig *rig = *state;
    struct rig_node first = rig->nodes[2];
    int rc;

    rig->nodes[2].problems = NULL;
    rc = rig_try_start(rig, 2, "somebody-else");
    assert_int_equal(rc, E_NODE_ID_TAKEN);
    assert_non_null(strstr(rig->why, "node=2"));
    assert_non_null(strstr(rig->why, "another data directory"));
    problems_free(rig->nodes[2].problems);
    rig->nodes[2] = first;
    assert_true(rig_is(rig, 2, rig_is_member, NULL));
}

static void test_same_instance_is_back_at_once(void **state)
{
    struct cluster_rig *rig = *state;
    int64_t before = rig_self_epoch(rig, 2);

    rig->nodes[2].started = NODE_STARTED_PROCESS_CRASH;
    rig_kill(rig, 2);
    rig_start(rig, 2);
    assert_true(rig_self_epoch(rig, 2) > before);
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(rig->nodes[2].cluster);
    assert_int_equal(cluster_snapshot_broker(snapshot, 2)->started,
                     NODE_STARTED_PROCESS_CRASH);
    cluster_snapshot_put(snapshot);
}

static void test_killed_controller_is_replaced(void **state)
{
    struct cluster_rig *rig = *state;
    int32_t epoch, next_epoch, first;
    int other;

    rig_until(rig, 1, rig_has_controller, NULL);
    first = controller_of(rig, 1, &epoch);
    other = first == 1 ? 2 : 1;
    rig_kill(rig, first);
    shared_backend_advance(rig->backend, 7000);
    rig_until(rig, other, rig_lacks_broker, &first);
    rig_until(rig, other, rig_has_controller, NULL);
    assert_int_not_equal(controller_of(rig, other, &next_epoch), first);
    assert_true(next_epoch > epoch);
}

/* The controllership of an earlier incarnation does not stand in the way. */
static void test_restarted_controller_does_not_block_election(void **state)
{
    struct cluster_rig *rig = *state;
    int32_t epoch, next_epoch, first;

    rig_until(rig, 1, rig_has_controller, NULL);
    first = controller_of(rig, 1, &epoch);
    rig_kill(rig, first);
    rig_start(rig, first);
    rig_until(rig, first, rig_has_controller, NULL);
    (void)controller_of(rig, first, &next_epoch);
    assert_true(next_epoch > epoch);
}

static void test_client_keeps_no_replicas(void **state)
{
    struct cluster_rig *rig = *state;
    int32_t client = 2;

    rig->nodes[1].config.role = rig->nodes[2].config.role = ROLE_CLIENT;
    rig_start(rig, 2);
    assert_int_equal(controller_of(rig, 2, NULL), -1);
    assert_int_equal(rig_create(rig, 2, "t", NULL), E_INVALID_REPLICATION_FACTOR);
    rig_start(rig, 3);
    rig_until(rig, 2, rig_has_controller, NULL);
    assert_int_equal(controller_of(rig, 2, NULL), 3);
    assert_int_equal(rig_create(rig, 2, "t", NULL), 0);
    assert_int_equal(rig_state(rig, 2, "t", 0).state.leader, 3);
    assert_int_equal(rig_state(rig, 2, "t", 0).replicas.count, 1);
    assert_int_equal(
        rig_admin(rig, 2, "reassign_partitions",
                  "{\"version\":1,\"partitions\":[{\"topic\":\"t\",\"partition\":0,"
                  "\"replicas\":[2]}]}"),
        E_INVALID_REPLICATION_FACTOR);
    assert_true(rig_is(rig, 3, rig_has_broker, &client));
}

struct passing {
    struct shared_backend *backend;
    atomic_bool over;
};

/* In steps, as when the other thread looks at the clock first is not known. */
static void *let_time_pass(void *arg)
{
    struct passing *passing = arg;

    while (!atomic_load(&passing->over)) {
        rig_pause();
        shared_backend_advance(passing->backend, 11000);
    }
    return NULL;
}

static void test_unreachable_store_is_a_clear_error(void **state)
{
    struct cluster_rig *rig = *state;
    struct cluster_params params = {
        .config = &rig->nodes[1].config,
        .instance = "i",
        .clock = shared_backend_clock(rig->backend),
    };
    struct passing passing = {.backend = rig->backend};
    pthread_t thread;
    struct store *store = shared_store_open(rig->backend);
    struct cluster *cluster = NULL;

    params.problems = problems_new(params.clock);
    free(rig->nodes[1].config.coord);
    rig->nodes[1].config.coord = strdup("etcd://nowhere:2379");
    shared_store_cut(store, true);
    assert_int_equal(pthread_create(&thread, NULL, let_time_pass, &passing), 0);
    assert_int_equal(
        cluster_open_shared(&params, store, &cluster, rig->why, sizeof(rig->why)),
        E_STORE_UNREACHABLE);
    atomic_store(&passing.over, true);
    pthread_join(thread, NULL);
    assert_non_null(strstr(rig->why, "etcd://nowhere:2379"));
    problems_free(params.problems);
}

/* ---- sessions ---- */

struct seen {
    pthread_mutex_t lock;
    int64_t self_epoch;
    int fenced;
};

static void on_change(void *arg, const struct cluster_snapshot *snapshot)
{
    struct seen *seen = arg;

    pthread_mutex_lock(&seen->lock);
    seen->self_epoch = snapshot->self_epoch;
    seen->fenced += snapshot->self_epoch < 0;
    pthread_mutex_unlock(&seen->lock);
}

static void test_lost_session_fences_and_registers_anew(void **state)
{
    struct cluster_rig *rig = *state;
    struct seen seen = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct cluster_session session;
    int64_t before = rig_self_epoch(rig, 2);
    int32_t id = 2;

    assert_int_equal(cluster_subscribe(rig->nodes[2].cluster, on_change, &seen), 0);
    cluster_session(rig->nodes[2].cluster, &session);
    assert_true(session.shared && session.reachable && !session.lost);
    shared_store_cut(rig->nodes[2].store, true);
    cluster_session(rig->nodes[2].cluster, &session);
    assert_false(session.reachable);
    assert_true(session.silent_since_ms > 0);
    assert_false(session.lost);
    shared_backend_advance(rig->backend, 7000);
    rig_until(rig, 1, rig_lacks_broker, &id);
    cluster_session(rig->nodes[2].cluster, &session);
    assert_true(session.deadline_ns <
                shared_backend_clock(rig->backend)
                    ->mono_ns(shared_backend_clock(rig->backend)));
    /* It shows what it saw last. */
    assert_true(rig_is(rig, 2, rig_has_broker, &id));
    shared_store_cut(rig->nodes[2].store, false);
    rig_until(rig, 1, rig_has_broker, &id);
    rig_until(rig, 2, rig_is_member, NULL);
    rig_until_registered_anew(rig, 2, before);
    rig_until_problem(rig, 2, "kind=session", false);
    cluster_unsubscribe(rig->nodes[2].cluster, on_change, &seen);
    assert_true(seen.fenced > 0);
}

static void test_reported_dead_registers_anew(void **state)
{
    struct cluster_rig *rig = *state;
    int64_t before = rig_self_epoch(rig, 2);

    assert_int_equal(cluster_report_dead(rig->nodes[1].cluster, 2, before + 1000),
                     E_CONFLICT);
    assert_int_equal(cluster_report_dead(rig->nodes[1].cluster, 1, before), -EINVAL);
    assert_int_equal(cluster_report_dead(rig->nodes[1].cluster, 2, before), 0);
    rig_until_registered_anew(rig, 2, before);
    assert_true(rig_is(rig, 2, rig_is_member, NULL));
}

/* Reports the present incarnation; a race that was lost is no answer. */
static int report_dead(struct cluster_rig *rig, int by, int32_t id)
{
    int rc = E_CONFLICT;

    for (int i = 0; i < 5000 && rc == E_CONFLICT; i++) {
        int64_t epoch = rig_self_epoch(rig, id);

        if (epoch > 0)
            rc = cluster_report_dead(rig->nodes[by].cluster, id, epoch);
        if (rc == E_CONFLICT)
            rig_pause();
    }
    return rc;
}

/* Whoever reports: the limit is the cluster's. */
static void test_report_moves_a_partition_once_in_ten_seconds(void **state)
{
    struct cluster_rig *rig = *state;
    struct rig_leader moved = {
        .topic = "t", .leader = RIG_ANY_LEADER, .epoch_above = 0};
    int64_t epoch = rig_self_epoch(rig, 2);

    assert_int_equal(rig_create(rig, 1, "t", "{\"partitions\":3}"), 0);
    while (rig_state(rig, 1, "t", moved.partition).state.leader != 2)
        moved.partition++;
    assert_int_equal(report_dead(rig, 1, 2), 0);
    rig_until(rig, 1, rig_leads, &moved);
    rig_until_registered_anew(rig, 2, epoch);
    /* To node 1, to 3, or to 2 itself, which was back in time. */
    int32_t leader = rig_state(rig, 1, "t", moved.partition).state.leader;
    int others[2] = {leader % 3 + 1, (leader + 1) % 3 + 1};

    for (int i = 0; i < 2; i++) {
        rig_until(rig, others[i], rig_leads, &moved);
        assert_int_equal(report_dead(rig, others[i], leader), -EBUSY);
    }
    shared_backend_advance(rig->backend, 10001);
    assert_int_equal(report_dead(rig, others[0], leader), 0);
}

/* Also one that leads nothing, whose registration would come and go otherwise. */
static void test_report_ends_a_registration_once_in_ten_seconds(void **state)
{
    struct cluster_rig *rig = *state;
    int64_t epoch = rig_self_epoch(rig, 2);

    assert_int_equal(report_dead(rig, 1, 2), 0);
    rig_until_registered_anew(rig, 2, epoch);
    assert_int_equal(report_dead(rig, 1, 2), -EBUSY);
    assert_int_equal(report_dead(rig, 3, 2), -EBUSY);
    /* It is no reason to spare another. */
    assert_int_equal(report_dead(rig, 3, 1), 0);
    shared_backend_advance(rig->backend, 10001);
    assert_int_equal(report_dead(rig, 3, 2), 0);
}

static void test_dead_controller_can_be_reported_by_any(void **state)
{
    struct cluster_rig *rig = *state;
    int32_t first, epoch, next_epoch;
    int other;

    rig_until(rig, 1, rig_has_controller, NULL);
    first = controller_of(rig, 1, &epoch);
    other = first == 1 ? 2 : 1;
    int64_t broker_epoch = rig_self_epoch(rig, first);
    rig_kill(rig, first);
    assert_int_equal(
        cluster_report_dead(rig->nodes[other].cluster, first, broker_epoch), 0);
    do {
        rig_until(rig, other, rig_has_controller, NULL);
        (void)controller_of(rig, other, &next_epoch);
        rig_pause();
    } while (next_epoch == epoch);
    assert_int_not_equal(controller_of(rig, other, NULL), first);
}

/* ---- operations ---- */

static void test_any_node_creates_and_sees_it_at_once(void **state)
{
    struct cluster_rig *rig = *state;

    for (int id = 1; id <= 3; id++) {
        char name[16];

        snprintf(name, sizeof(name), "t%d", id);
        assert_int_equal(rig_create(rig, id, name, "{\"partitions\":6}"), 0);
        for (int32_t p = 0; p < 6; p++) {
            struct rig_state s = rig_state(rig, id, name, p);

            assert_true(s.state.leader >= 1 && s.state.leader <= 3);
            assert_int_equal(s.state.isr.count, 3);
        }
        assert_int_equal(rig_create(rig, id, name, NULL), E_TOPIC_EXISTS);
    }
    assert_int_equal(
        cluster_add_partition(rig->nodes[2].cluster, "t2", 6, rig->why, 500), 0);
    assert_int_equal(rig_state(rig, 2, "t2", 6).state.isr.count, 3);
    assert_int_equal(
        cluster_add_partition(rig->nodes[2].cluster, "t2", 6, rig->why, 500), -EEXIST);
    assert_int_equal(cluster_delete_topic(rig->nodes[2].cluster, "t2", NULL, 0), 0);
    assert_int_equal(cluster_delete_topic(rig->nodes[2].cluster, "t2", NULL, 0),
                     E_UNKNOWN_TOPIC);
}

static void test_topic_larger_than_a_transaction(void **state)
{
    struct cluster_rig *rig = *state;
    int32_t controller = 1;
    int by;

    while (!rig_is(rig, 1, rig_controller_is, &controller))
        controller = controller % 3 + 1;
    by = controller % 3 + 1;
    /* It makes states that are missing, but hears of no new topic. */
    shared_store_hold_watch(rig->nodes[controller].store, true);
    assert_int_equal(rig_create(rig, by, "big", "{\"partitions\":500}"), 0);
    for (int32_t p = 0; p < 500; p++)
        assert_true(rig_state(rig, by, "big", p).state.leader > 0);
    shared_store_hold_watch(rig->nodes[controller].store, false);
}

struct racer {
    struct cluster_rig *rig;
    int id, created;
};

static void *race(void *arg)
{
    struct racer *racer = arg;

    for (int i = 0; i < 20; i++) {
        char name[16], why[200];
        int rc;

        snprintf(name, sizeof(name), "race%d", i);
        rc = cluster_create_topic(racer->rig->nodes[racer->id].cluster, name, NULL, 0,
                                  0, 0755, why, sizeof(why));
        racer->created += rc == 0;
        if (rc != 0 && rc != E_TOPIC_EXISTS)
            racer->created = -1000;
    }
    return NULL;
}

static void test_racing_nodes_create_each_topic_once(void **state)
{
    struct cluster_rig *rig = *state;
    struct racer racers[3];
    pthread_t threads[3];
    int created = 0;

    for (int i = 0; i < 3; i++) {
        racers[i] = (struct racer){.rig = rig, .id = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        created += racers[i].created;
    }
    assert_int_equal(created, 20);
}

static void test_unknown_outcomes_are_settled(void **state)
{
    struct cluster_rig *rig = *state;

    shared_store_fault(rig->nodes[1].store, SHARED_UNKNOWN_DONE, "topics/a/");
    assert_int_equal(rig_create(rig, 1, "a", NULL), 0);
    shared_store_fault(rig->nodes[1].store, SHARED_UNKNOWN_NOT, "topics/b/");
    assert_int_equal(rig_create(rig, 1, "b", NULL), 0);
    shared_store_fault(rig->nodes[1].store, SHARED_UNKNOWN_DONE, "topics/a/");
    assert_int_equal(cluster_delete_topic(rig->nodes[1].cluster, "a", NULL, 0), 0);
    shared_store_fault(rig->nodes[1].store, SHARED_UNKNOWN_NOT, "topics/b/");
    assert_int_equal(cluster_delete_topic(rig->nodes[1].cluster, "b", NULL, 0), 0);
    assert_int_equal(rig_create(rig, 1, "b", NULL), 0);
}

static void test_lagging_watch_costs_time_only(void **state)
{
    struct cluster_rig *rig = *state;
    cJSON *flush = cJSON_Parse("{\"flush\":\"os\"}");
    cJSON *retention = cJSON_Parse("{\"retention_ms\":\"1h\"}");
    const struct cluster_snapshot *snapshot;

    assert_int_equal(rig_create(rig, 1, "t", NULL), 0);
    while (!rig_is(
        rig, 2, rig_leads,
        &(struct rig_leader){"t", 0, rig_state(rig, 1, "t", 0).state.leader, -1}))
        rig_pause();
    shared_store_hold_watch(rig->nodes[2].store, true);
    assert_int_equal(cluster_set_config(rig->nodes[1].cluster, "t", flush, NULL, 0), 0);
    shared_store_hold_watch(rig->nodes[2].store, false);
    assert_int_equal(cluster_set_config(rig->nodes[2].cluster, "t", retention, NULL, 0),
                     0);
    snapshot = cluster_snapshot_get(rig->nodes[2].cluster);
    assert_int_equal(cluster_snapshot_topic(snapshot, "t")->config.flush, FLUSH_OS);
    assert_int_equal(cluster_snapshot_topic(snapshot, "t")->config.retention_ms,
                     3600000);
    cluster_snapshot_put(snapshot);
    cJSON_Delete(flush);
    cJSON_Delete(retention);
}

static void test_operations_fail_clearly_without_the_store(void **state)
{
    struct cluster_rig *rig = *state;

    shared_store_cut(rig->nodes[1].store, true);
    assert_int_equal(rig_create(rig, 1, "t", NULL), E_STORE_UNREACHABLE);
    shared_store_cut(rig->nodes[1].store, false);
    assert_int_equal(rig_create(rig, 1, "t", NULL), 0);
}

/* In one request, more than transactions are tried for a lost race. */
static void test_delete_many_topics(void **state)
{
    enum { TOPICS = 750 };
    struct cluster_rig *rig = *state;
    struct buf request;

    buf_init(&request, 1 << 20);
    for (int i = 0; i < TOPICS; i++) {
        char key[96], value[128];

        snprintf(key, sizeof(key), "/topicfs/default/brokers/topics/t%d/assignment", i);
        snprintf(value, sizeof(value),
                 "{\"version\":1,\"partitions\":{\"0\":[1]},\"id\":\"%032x\"}", i);
        shared_backend_put(rig->backend, key, value);
        buf_printf(&request, "%s\"t%d\"", i ? "," : "{\"version\":1,\"topics\":[", i);
    }
    buf_adds(&request, "]}");
    assert_int_equal(buf_error(&request), 0);
    rig_start(rig, 1);
    assert_int_equal(rig_admin(rig, 1, "delete_topics", request.data), 0);
    buf_free(&request);
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(rig->nodes[1].cluster);
    assert_int_equal(snapshot->topic_count, 0);
    cluster_snapshot_put(snapshot);
    char *last =
        shared_backend_get(rig->backend, "/topicfs/default/admin/last/delete_topics");
    assert_non_null(strstr(last, "\"done\""));
    free(last);
}

/* ---- subscribers ---- */

struct listener {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held, waits; /* a call is held up; one is waiting in it */
    int calls;
    int64_t revision; /* of the latest snapshot */
    bool backwards;   /* one was older than the one before */
    struct cluster *cluster;
};

static void listen(void *arg, const struct cluster_snapshot *snapshot)
{
    struct listener *listener = arg;

    pthread_mutex_lock(&listener->lock);
    listener->backwards |= snapshot->revision < listener->revision;
    listener->revision = snapshot->revision;
    listener->calls++;
    listener->waits = listener->held;
    pthread_cond_broadcast(&listener->changed);
    while (listener->held)
        pthread_cond_wait(&listener->changed, &listener->lock);
    listener->waits = false;
    pthread_mutex_unlock(&listener->lock);
}

static void hold(struct listener *listener, bool held)
{
    pthread_mutex_lock(&listener->lock);
    listener->held = held;
    pthread_cond_broadcast(&listener->changed);
    pthread_mutex_unlock(&listener->lock);
}

static int calls_of(struct listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    int calls = listener->calls;
    pthread_mutex_unlock(&listener->lock);
    return calls;
}

static void *subscribe(void *arg)
{
    struct listener *listener = arg;

    return cluster_subscribe(listener->cluster, listen, listener) == 0 ? arg : NULL;
}

/* Who subscribes while an older snapshot is being shown does not get that one after the
 * present one. */
static void test_subscriber_never_goes_back(void **state)
{
    struct cluster_rig *rig = *state;
    struct listener first = {.lock = PTHREAD_MUTEX_INITIALIZER,
                             .changed = PTHREAD_COND_INITIALIZER,
                             .cluster = rig->nodes[2].cluster};
    struct listener second = first;
    int64_t shown;
    pthread_t thread;
    void *good = NULL;

    assert_ptr_equal(subscribe(&first), &first);
    rig_settle(rig);
    hold(&first, true);
    shared_backend_put(rig->backend, "/topicfs/default/elsewhere", "1");
    pthread_mutex_lock(&first.lock);
    while (!first.waits)
        pthread_cond_wait(&first.changed, &first.lock);
    shown = first.revision;
    pthread_mutex_unlock(&first.lock);
    shared_backend_put(rig->backend, "/topicfs/default/elsewhere", "2");
    for (;;) { /* until it is the present one, and not shown yet */
        const struct cluster_snapshot *snapshot =
            cluster_snapshot_get(rig->nodes[2].cluster);
        bool later = snapshot->revision > shown;

        cluster_snapshot_put(snapshot);
        if (later)
            break;
        rig_pause();
    }
    assert_int_equal(pthread_create(&thread, NULL, subscribe, &second), 0);
    for (int i = 0; i < 50 && calls_of(&second) == 0; i++)
        rig_pause(); /* it may have to wait for the first one's call */
    hold(&first, false);
    pthread_join(thread, &good);
    assert_ptr_equal(good, &second);
    rig_settle(rig);
    cluster_unsubscribe(rig->nodes[2].cluster, listen, &first);
    cluster_unsubscribe(rig->nodes[2].cluster, listen, &second);
    assert_false(first.backwards);
    assert_false(second.backwards);
    assert_true(second.revision > shown);
}

/* ---- in-sync replicas ---- */

static int32_t leader_of(struct cluster_rig *rig, const char *topic)
{
    int32_t leader = rig_state(rig, 1, topic, 0).state.leader;
    struct rig_leader wanted = {topic, 0, leader, -1};

    for (int id = 1; id <= 3; id++)
        rig_until(rig, id, rig_leads, &wanted);
    return leader;
}

static void test_leader_changes_the_isr(void **state)
{
    struct cluster_rig *rig = *state;
    struct broker_incarnation joining;
    int64_t revision = 0;
    int32_t leader;

    assert_int_equal(rig_create(rig, 1, "t", NULL), 0);
    leader = leader_of(rig, "t");
    struct cluster *cluster = rig->nodes[leader].cluster;
    struct rig_state s = rig_state(rig, leader, "t", 0);
    struct leadership next = s.state;
    int32_t out = s.replicas.ids[1];

    replica_ids_remove(&next.isr, out);
    assert_int_equal(cluster_change_isr(rig->nodes[out].cluster, &s.topic, 0,
                                        s.revision, &next, NULL, 0, NULL),
                     E_NOT_LEADER);
    assert_int_equal(
        cluster_change_isr(cluster, &s.topic, 0, s.revision, &next, NULL, 0, &revision),
        0);
    assert_true(revision > s.revision);
    assert_int_equal(
        cluster_change_isr(cluster, &s.topic, 0, s.revision, &next, NULL, 0, NULL),
        E_CONFLICT);
    assert_true(cluster_wait_revision(cluster, revision, 5000));
    s = rig_state(rig, leader, "t", 0);
    assert_int_equal(s.state.isr.count, 2);
    /* It comes back: only in the incarnation that has caught up. */
    joining = (struct broker_incarnation){out, rig_self_epoch(rig, out) - 1};
    replica_ids_add(&next.isr, out);
    assert_int_equal(
        cluster_change_isr(cluster, &s.topic, 0, s.revision, &next, &joining, 1, NULL),
        E_CONFLICT);
    joining.epoch++;
    shared_store_fault(rig->nodes[leader].store, SHARED_UNKNOWN_DONE, "/state");
    assert_int_equal(
        cluster_change_isr(cluster, &s.topic, 0, s.revision, &next, &joining, 1, NULL),
        E_OUTCOME_UNKNOWN);
    while (rig_state(rig, leader, "t", 0).state.isr.count != 3)
        rig_pause();
}

static void test_replica_takes_itself_out(void **state)
{
    struct cluster_rig *rig = *state;
    int32_t leader;

    assert_int_equal(rig_create(rig, 1, "t", NULL), 0);
    leader = leader_of(rig, "t");
    struct rig_state s = rig_state(rig, leader, "t", 0);
    struct suspect suspect = {.id = leader, .kind = SUSPECT_CRASHED, .end_offset = 7};
    struct rig_leader wanted = {"t", 0, s.replicas.ids[1], s.state.leader_epoch};

    assert_int_equal(
        cluster_take_out(rig->nodes[leader].cluster, &s.topic, 0, &suspect, NULL), 0);
    rig_until(rig, leader, rig_leads, &wanted);
    s = rig_state(rig, leader, "t", 0);
    assert_false(replica_ids_contain(&s.state.isr, leader));
    assert_int_equal(leadership_suspect(&s.state, leader)->end_offset, 7);
    /* Again: nothing to do. */
    assert_int_equal(
        cluster_take_out(rig->nodes[leader].cluster, &s.topic, 0, &suspect, NULL), 0);
}

/* A node that may lack messages says so before anybody can elect it. */
static void test_takes_itself_out_before_it_joins(void **state)
{
    struct cluster_rig *rig = *state;
    struct suspect suspect = {.kind = SUSPECT_CRASHED, .last_epoch = 0};
    int32_t leader;

    assert_int_equal(rig_create(rig, 1, "t", "{\"flush\":\"os\"}"), 0);
    leader = suspect.id = leader_of(rig, "t");
    struct rig_state s = rig_state(rig, leader, "t", 0);
    int other = leader == 1 ? 2 : 1;

    rig_kill(rig, leader);
    rig->nodes[leader].started = NODE_STARTED_MACHINE_CRASH;
    rig->nodes[leader].join_later = true;
    rig_start(rig, leader);
    rig_until(rig, other, rig_lacks_broker, &leader);
    assert_true(rig_is(rig, leader, rig_is_fenced, NULL));
    assert_int_equal(
        cluster_take_out(rig->nodes[leader].cluster, &s.topic, 0, &suspect, NULL), 0);
    struct rig_state out = rig_state(rig, leader, "t", 0);

    assert_false(replica_ids_contain(&out.state.isr, leader));
    assert_int_equal(cluster_join(rig->nodes[leader].cluster, rig->why, 500), 0);
    assert_int_equal(cluster_join(rig->nodes[leader].cluster, rig->why, 500), 0);
    rig_until(rig, other, rig_has_broker, &leader);
    struct rig_leader wanted = {"t", 0, s.replicas.ids[1], s.state.leader_epoch};

    rig_until(rig, leader, rig_leads, &wanted);
}

/* ---- leaving ---- */

static void test_clean_stop_hands_over_first(void **state)
{
    struct cluster_rig *rig = *state;
    int32_t leader, other;
    struct rig_state before, after;

    assert_int_equal(rig_create(rig, 1, "t", "{\"partitions\":6}"), 0);
    leader = leader_of(rig, "t");
    other = leader == 1 ? 2 : 1;
    before = rig_state(rig, other, "t", 0);
    rig_stop(rig, leader);
    rig_until(rig, other, rig_lacks_broker, &leader);
    for (int32_t p = 0; p < 6; p++) {
        after = rig_state(rig, other, "t", p);
        assert_int_not_equal(after.state.leader, leader);
        assert_true(after.state.leader > 0);
    }
    after = rig_state(rig, other, "t", 0);
    assert_int_equal(after.state.leader_epoch, before.state.leader_epoch + 1);
    char *left =
        shared_backend_get(rig->backend, "/topicfs/default/brokers/stopping/1");
    assert_null(left);
    rig_until(rig, other, rig_has_controller, NULL);
    assert_int_not_equal(controller_of(rig, other, NULL), leader);
}

int main(void)
{
#define NODES_TEST(fn) cmocka_unit_test_setup_teardown(fn, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        NODES_TEST(test_nodes_see_each_other_and_one_controller),
        NODES_TEST(test_another_instance_with_the_id_is_refused),
        NODES_TEST(test_same_instance_is_back_at_once),
        NODES_TEST(test_killed_controller_is_replaced),
        NODES_TEST(test_restarted_controller_does_not_block_election),
        cmocka_unit_test_setup_teardown(test_client_keeps_no_replicas, rig_setup_empty,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_unreachable_store_is_a_clear_error,
                                        rig_setup_empty, rig_teardown),
        NODES_TEST(test_lost_session_fences_and_registers_anew),
        NODES_TEST(test_reported_dead_registers_anew),
        NODES_TEST(test_report_moves_a_partition_once_in_ten_seconds),
        NODES_TEST(test_report_ends_a_registration_once_in_ten_seconds),
        NODES_TEST(test_dead_controller_can_be_reported_by_any),
        NODES_TEST(test_any_node_creates_and_sees_it_at_once),
        NODES_TEST(test_topic_larger_than_a_transaction),
        NODES_TEST(test_racing_nodes_create_each_topic_once),
        NODES_TEST(test_unknown_outcomes_are_settled),
        NODES_TEST(test_lagging_watch_costs_time_only),
        NODES_TEST(test_operations_fail_clearly_without_the_store),
        cmocka_unit_test_setup_teardown(test_delete_many_topics, rig_setup_empty,
                                        rig_teardown),
        NODES_TEST(test_subscriber_never_goes_back),
        NODES_TEST(test_leader_changes_the_isr),
        NODES_TEST(test_replica_takes_itself_out),
        NODES_TEST(test_takes_itself_out_before_it_joins),
        NODES_TEST(test_clean_stop_hands_over_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
