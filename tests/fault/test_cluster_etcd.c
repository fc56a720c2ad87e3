/* Three nodes' cluster layer over a real etcd: forming, failover, an etcd that dies. */
#include "coord/cluster_private.h"
#include "coord/coord.h"
#include "tests/fault/etcd_rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { NODES = 3, PATIENCE_MS = 30000 };

struct node {
    struct mount_config config;
    struct problems *problems;
    struct cluster *cluster;
};

struct nodes {
    struct rig rig;
    struct node nodes[NODES + 1]; /* by id */
    char why[500];
};

static int start(struct nodes *nodes, int id, const char *instance)
{
    struct node *node = &nodes->nodes[id];
    char own[32];
    struct cluster_params params = {
        .config = &node->config,
        .instance = instance,
        .clock = &clock_real,
    };

    snprintf(own, sizeof(own), "instance-%d", id);
    if (!instance)
        params.instance = own;
    if (!node->problems)
        node->problems = problems_new(&clock_real);
    assert_non_null(node->problems);
    params.problems = node->problems;
    return cluster_open(&params, &node->cluster, nodes->why, sizeof(nodes->why));
}

static void stop(struct nodes *nodes, int id)
{
    cluster_close(nodes->nodes[id].cluster);
    nodes->nodes[id].cluster = NULL;
}

static void begin(struct nodes *nodes, int members)
{
    memset(nodes, 0, sizeof(*nodes));
    rig_start(&nodes->rig, members, 0);
    for (int id = 1; id <= NODES; id++) {
        struct mount_config *config = &nodes->nodes[id].config;

        assert_int_equal(mount_config_defaults(config), 0);
        free(config->coord);
        config->coord = rig_endpoints(&nodes->rig, "");
        config->node = id;
        config->session_timeout_ms = 2000;
        if (start(nodes, id, NULL) != 0)
            fail_msg("node %d: %s", id, nodes->why);
    }
}

static void end(struct nodes *nodes)
{
    for (int id = 1; id <= NODES; id++) {
        stop(nodes, id);
        problems_free(nodes->nodes[id].problems);
        mount_config_free(&nodes->nodes[id].config);
    }
    rig_stop(&nodes->rig);
}

/* The leader of t-0 and its epoch as node `id` sees it; -2: no such topic. */
static int32_t leader(struct nodes *nodes, int id, int32_t *epoch)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(nodes->nodes[id].cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, "t");
    int32_t result = topic ? topic->partitions[0].leader : -2;

    if (topic && epoch)
        *epoch = topic->partitions[0].leader_epoch;
    cluster_snapshot_put(snapshot);
    return result;
}

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

static int create(struct nodes *nodes, int id, const char *name)
{
    return cluster_create_topic(nodes->nodes[id].cluster, name, NULL, 0, 0, 0755,
                                nodes->why, sizeof(nodes->why));
}

static int32_t until_other_leader(struct nodes *nodes, int id, int32_t old)
{
    int64_t until = rig_now_ms() + PATIENCE_MS;
    int32_t now;

    for (now = leader(nodes, id, NULL); now == old || now < 0;
         now = leader(nodes, id, NULL)) {
        assert_true(rig_now_ms() < until);
        pause_ms(10);
    }
    return now;
}

static void test_forms_and_hands_over(void **state)
{
    struct nodes nodes;
    int32_t old, other;

    (void)state;
    begin(&nodes, 1);
    assert_int_equal(create(&nodes, 2, "t"), 0);
    old = leader(&nodes, 2, NULL);
    assert_true(old > 0);
    other = old == 1 ? 2 : 1;
    (void)until_other_leader(&nodes, other, -2);
    /* A second node of an id that is alive. */
    struct node first = nodes.nodes[other];

    nodes.nodes[other].cluster = NULL;
    assert_int_equal(start(&nodes, other, "somebody-else"), E_NODE_ID_TAKEN);
    assert_non_null(strstr(nodes.why, "is alive"));
    nodes.nodes[other] = first;
    /* A clean stop: the others see the new leader at once. */
    int64_t begun = rig_now_ms();

    stop(&nodes, old);
    (void)until_other_leader(&nodes, other, old);
    assert_true(rig_now_ms() - begun < 1500);
    assert_int_equal(start(&nodes, old, NULL), 0);
    /* A dead session, told by another node: faster than its time-out. */
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(nodes.nodes[other].cluster);
    int32_t now = leader(&nodes, other, NULL);
    int reporter = now == 1 ? 2 : 1;
    int64_t epoch = cluster_snapshot_broker(snapshot, now)->epoch;

    cluster_snapshot_put(snapshot);
    assert_int_equal(cluster_report_dead(nodes.nodes[reporter].cluster, now, epoch), 0);
    (void)until_other_leader(&nodes, reporter, -1);
    end(&nodes);
}

/* How many of the topic's partitions the node leads, as node `by` sees it. */
static int led_by(struct nodes *nodes, int by, int32_t id)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(nodes->nodes[by].cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, "t");
    int count = 0;

    for (int32_t p = 0; topic && p < topic->partition_count; p++)
        count += topic->partitions[p].leader == id;
    cluster_snapshot_put(snapshot);
    return count;
}

static void test_moves_a_thousand_partitions(void **state)
{
    cJSON *settings = cJSON_Parse("{\"partitions\":1000}");
    struct nodes nodes;
    int64_t begun;

    (void)state;
    begin(&nodes, 1);
    assert_int_equal(cluster_create_topic(nodes.nodes[1].cluster, "t", settings, 0, 0,
                                          0755, nodes.why, sizeof(nodes.why)),
                     0);
    cJSON_Delete(settings);
    (void)until_other_leader(&nodes, 3, -2);
    while (led_by(&nodes, 3, 2) < 333)
        pause_ms(10);
    begun = rig_now_ms();
    stop(&nodes, 2);
    print_message("handed over in %lld ms\n", (long long)(rig_now_ms() - begun));
    assert_true(rig_now_ms() - begun < 4000);
    assert_int_equal(led_by(&nodes, 3, 2), 0);
    assert_int_equal(led_by(&nodes, 3, -1), 0);
    end(&nodes);
}

static void test_survives_the_death_of_an_etcd_member(void **state)
{
    struct nodes nodes;

    (void)state;
    begin(&nodes, 3);
    assert_int_equal(create(&nodes, 1, "t"), 0);
    rig_kill(&nodes.rig, rig_leader(&nodes.rig));
    for (int i = 0; i < 5; i++) {
        int64_t until = rig_now_ms() + PATIENCE_MS;
        char name[16];
        int rc;

        snprintf(name, sizeof(name), "after%d", i);
        do {
            rc = create(&nodes, 1 + i % NODES, name);
            assert_true(rc == 0 || rc == E_OUTCOME_UNKNOWN ||
                        rc == E_STORE_UNREACHABLE || rc == E_TOPIC_EXISTS);
        } while (rc != 0 && rc != E_TOPIC_EXISTS && rig_now_ms() < until);
        assert_true(rc == 0 || rc == E_TOPIC_EXISTS);
    }
    end(&nodes);
}

static void test_all_of_etcd_away_and_back(void **state)
{
    struct nodes nodes;
    struct cluster_session session;
    int64_t until;

    (void)state;
    begin(&nodes, 1);
    assert_int_equal(create(&nodes, 1, "t"), 0);
    rig_kill(&nodes.rig, 0);
    until = rig_now_ms() + PATIENCE_MS;
    do {
        cluster_session(nodes.nodes[1].cluster, &session);
        pause_ms(10);
    } while (session.reachable && rig_now_ms() < until);
    assert_false(session.reachable);
    assert_true(leader(&nodes, 1, NULL) > 0); /* it shows what it saw last */
    assert_int_equal(create(&nodes, 1, "u"), E_STORE_UNREACHABLE);
    pause_ms(3000); /* longer than the sessions */
    rig_run(&nodes.rig, 0);
    until = rig_now_ms() + PATIENCE_MS;
    for (int id = 1; id <= NODES; id++)
        do {
            cluster_session(nodes.nodes[id].cluster, &session);
            pause_ms(10);
        } while ((!session.reachable || session.lost) && rig_now_ms() < until);
    while (create(&nodes, 1, "u") != 0 && rig_now_ms() < until)
        pause_ms(50);
    (void)until_other_leader(&nodes, 1, -1);
    assert_int_equal(create(&nodes, 1, "u"), E_TOPIC_EXISTS);
    end(&nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_and_hands_over),
        cmocka_unit_test(test_moves_a_thousand_partitions),
        cmocka_unit_test(test_survives_the_death_of_an_etcd_member),
        cmocka_unit_test(test_all_of_etcd_away_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
