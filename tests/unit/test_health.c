/* What is wrong, from snapshots that are made by hand. */
#include "coord/health.h"

#include "coord/coord.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct snapshot *snapshot;
    struct snapshot_topic *topic;
    struct problems *problems;
    struct health *health;
    int64_t now_ms;
    const char *name; /* of the next topic; NULL: t */
    char found[4096]; /* "kind subject: what\n" of health_find */
};

static const struct store_status reachable = {.reachable = true};

static void set_brokers(struct fixture *f, const int32_t *ids, uint32_t count)
{
    struct broker_info brokers[8] = {0};
    struct registration registrations[8];

    memset(registrations, 0, sizeof(registrations));
    for (uint32_t i = 0; i < count; i++)
        brokers[i] = (struct broker_info){.id = ids[i], .epoch = 10};
    assert_int_equal(snapshot_set_brokers(f->snapshot, brokers, registrations, count),
                     0);
}

/* A topic of one partition; ids end with -1. */
static void set_partition(struct fixture *f, const int32_t *replicas,
                          const int32_t *isr, const int32_t *elr, int32_t leader)
{
    struct snapshot_topic *topic = snapshot_topic_new();
    struct partition_state *state;
    uint32_t n;

    assert_non_null(topic);
    topic->assignment.partitions = calloc(1, sizeof(struct id_list));
    topic->states = calloc(1, sizeof(*topic->states));
    topic->infos = calloc(1, sizeof(*topic->infos));
    assert_true(topic->assignment.partitions && topic->states && topic->infos);
    topic->assignment.partition_count = 1;
    state = &topic->states[0];
    partition_state_init(state);
    for (n = 0; replicas[n] >= 0;)
        n++;
    assert_int_equal(id_list_copy(&topic->assignment.partitions[0], replicas, n), 0);
    for (n = 0; isr[n] >= 0;)
        n++;
    assert_int_equal(id_list_copy(&state->isr, isr, n), 0);
    for (n = 0; elr[n] >= 0;)
        n++;
    assert_int_equal(id_list_copy(&state->elr, elr, n), 0);
    topic->infos[0] = (struct partition_info){
        .replicas = topic->assignment.partitions[0].ids,
        .replica_count = topic->assignment.partitions[0].count,
        .isr = state->isr.ids,
        .isr_count = state->isr.count,
        .elr = state->elr.ids,
        .elr_count = state->elr.count,
        .leader = leader,
        .leader_epoch = 5,
        .lossy_epoch = -1,
        .loss = PARTITION_LOSS_NONE,
    };
    snprintf(topic->topic.name, sizeof(topic->topic.name), "%s",
             f->name ? f->name : "t");
    topic->topic.partition_count = 1;
    topic->topic.partitions = topic->infos;
    topic_config_defaults(&topic->topic.config);
    topic->topic.config.min_insync_replicas = 2;
    assert_int_equal(snapshot_put_topic(f->snapshot, topic), 0);
    f->topic = topic;
    snapshot_topic_unref(topic); /* the snapshot's reference keeps it */
}

static const int32_t none[] = {-1}, one[] = {1, -1}, two[] = {1, 2, -1},
                     all[] = {1, 2, 3, -1};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f)
        return -1;
    f->snapshot = snapshot_new();
    f->problems = problems_new(&clock_real);
    f->health = health_new(f->problems);
    if (!f->snapshot || !f->problems || !f->health)
        return -1;
    f->snapshot->shown.controller = 1;
    set_brokers(f, all, 3);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    health_free(f->health);
    problems_free(f->problems);
    snapshot_unref(f->snapshot);
    free(f);
    return 0;
}

static void collect(void *arg, const char *kind, const char *subject, const char *what,
                    const char *what_to_do)
{
    struct fixture *f = arg;
    size_t length = strlen(f->found);

    assert_true(what_to_do && what_to_do[0]);
    snprintf(f->found + length, sizeof(f->found) - length, "%s %s: %s\n", kind, subject,
             what);
}

static const char *find(struct fixture *f, const struct store_status *status)
{
    f->found[0] = '\0';
    health_find(f->snapshot, status, collect, f);
    return f->found;
}

static void expect(struct fixture *f, const char *begin)
{
    const char *found = find(f, &reachable);

    if (strncmp(found, begin, strlen(begin)) != 0)
        fail_msg("found \"%s\", not \"%s\"", found, begin);
}

static void test_healthy(void **state)
{
    struct fixture *f = *state;

    set_partition(f, all, all, none, 1);
    assert_string_equal(find(f, &reachable), "");
}

static void test_partitions(void **state)
{
    struct fixture *f = *state;

    set_partition(f, all, two, none, 1);
    expect(f, "under-replicated t-0: in sync: node 1, 2; 2 of 3");
    set_partition(f, all, one, two, 1);
    expect(f, "below-minimum t-0: in sync: node 1; 2 are needed");
    set_partition(f, all, two, none, -1);
    expect(f, "leaderless t-0: no leader: node 1 can lead");
    const int32_t third[] = {3, -1};

    set_brokers(f, third, 1);
    expect(f, "leaderless t-0: no leader: of the replicas that have all committed "
              "messages (node 1, 2) none is live");
    set_partition(f, all, none, two, -1);
    expect(f, "leaderless t-0: no leader: of the replicas that have all committed "
              "messages (node 1, 2) none is live");
    set_partition(f, all, none, none, -1);
    expect(f, "leaderless t-0: no leader: every replica that was in sync came back");
}

static void test_dead_nodes_that_hold_replicas(void **state)
{
    struct fixture *f = *state;
    const int32_t ids[] = {1, 3};

    set_brokers(f, ids, 2);
    set_partition(f, all, all, none, 1);
    expect(f, "node 2: not live, and assigned 1 replica\n");
    /* One that holds none is no fault. */
    const int32_t others[] = {1, 3, -1};

    set_partition(f, others, others, none, 1);
    assert_string_equal(find(f, &reachable), "");
}

static void test_losses(void **state)
{
    struct fixture *f = *state;

    set_partition(f, all, all, none, 1);
    f->topic->infos[0].loss = (struct partition_loss){
        .epoch = 4, .at_ms = 1764417600000, .from = -1, .to = -1};
    expect(f,
           "loss t-0: the election of 2025-11-29T12:00:00Z (leader epoch 4) may have "
           "lost messages\n");
    f->topic->infos[0].loss.from = 80;
    expect(f,
           "loss t-0: the election of 2025-11-29T12:00:00Z (leader epoch 4) may have "
           "lost messages from offset 80 on\n");
    f->topic->infos[0].loss.to = 90;
    expect(f,
           "loss t-0: the election of 2025-11-29T12:00:00Z (leader epoch 4) may have "
           "lost messages 80 to 89\n");
}

static void test_session_and_controller(void **state)
{
    struct fixture *f = *state;
    const struct store_status lost = {.reachable = true, .session_lost = true};

    assert_non_null(strstr(find(f, &lost), "session coordination: this node's"));
    f->snapshot->shown.controller = -1;
    assert_non_null(strstr(find(f, &reachable), "controller cluster: no node"));
}

static void test_reassignments(void **state)
{
    struct fixture *f = *state;

    set_partition(f, two, two, none, 1);
    assert_int_equal(
        snapshot_set_text(
            &f->snapshot->running[ADMIN_REASSIGN],
            "{\"version\":1,\"partitions\":[{\"topic\":\"t\",\"partition\":"
            "0,\"replicas\":[3,1],\"original\":[1,2]},{\"topic\":\"gone\","
            "\"partition\":0,\"replicas\":[1]},7]}"),
        0);
    expect(f, "reassigning t-0: moving to node 3, 1: about to begin\n");
    const int32_t grown[] = {3, 1, 2, -1};

    set_partition(f, grown, two, none, 1);
    assert_non_null(strstr(find(f, &reachable), "the new replicas are catching up"));
    const int32_t left[] = {1, 2};

    set_brokers(f, left, 2);
    assert_non_null(
        strstr(find(f, &reachable), "moving to node 3, 1: node 3 is not live"));
    set_brokers(f, all, 3);
    const int32_t done[] = {3, 1, -1};

    set_partition(f, done, done, none, 1);
    assert_string_equal(find(f, &reachable), "");
    assert_int_equal(
        snapshot_set_text(&f->snapshot->running[ADMIN_REASSIGN], "no JSON"), 0);
    assert_string_equal(find(f, &reachable), "");
}

static void collect_advice(void *arg, const char *kind, const char *subject,
                           const char *what, const char *what_to_do)
{
    struct fixture *f = arg;

    (void)what;
    if (strcmp(kind, "few-replicas") == 0 && strcmp(subject, "__t") == 0)
        snprintf(f->found, sizeof(f->found), "%s", what_to_do);
}

static void set_internal(struct fixture *f, const int32_t *replicas)
{
    f->name = "__t";
    set_partition(f, replicas, replicas, none, replicas[0]);
    f->topic->topic.config.min_insync_replicas = 1;
}

/* Of a topic that nobody made, nobody chose how many replicas it has. */
static void test_internal_topic_with_few_replicas(void **state)
{
    struct fixture *f = *state;
    const int32_t later[] = {1, 2, 3, 4, 5}, third[] = {3, -1};

    set_partition(f, one, one, none, 1); /* a user's own choice */
    f->topic->topic.config.min_insync_replicas = 1;
    assert_string_equal(find(f, &reachable), "");

    set_internal(f, all);
    assert_string_equal(find(f, &reachable), "");
    set_internal(f, third);
    expect(f, "few-replicas __t: 1 of 1 partitions have fewer than 3 replicas, the "
              "least 1: ");
    set_brokers(f, later, 5);
    f->found[0] = '\0';
    health_find(f->snapshot, &reachable, collect_advice, f);
    assert_string_equal(
        f->found, "run in bash, in the mount: r=(3,1,2 1,2,3 2,3,1); for p in {0..0}; "
                  "do echo '{\"version\":1,\"partitions\":[{\"topic\":\"__t\","
                  "\"partition\":'$p',\"replicas\":['${r[p%3]}']}]}' > "
                  "cluster/admin/reassign_partitions; done");

    set_brokers(f, later, 2);
    set_internal(f, two);
    assert_string_equal(find(f, &reachable), "");
    set_internal(f, one);
    expect(f, "few-replicas __t: 1 of 1 partitions have fewer than 2 replicas");
    struct broker_info client = {.id = 2, .epoch = 10, .client = true};
    struct broker_info brokers[] = {{.id = 1, .epoch = 10}, client};
    struct registration registrations[2];

    memset(registrations, 0, sizeof(registrations));
    assert_int_equal(snapshot_set_brokers(f->snapshot, brokers, registrations, 2), 0);
    assert_string_equal(find(f, &reachable), "");

    set_brokers(f, all, 3);
    assert_int_equal(
        snapshot_set_text(
            &f->snapshot->running[ADMIN_REASSIGN],
            "{\"version\":1,\"partitions\":[{\"topic\":\"__t\",\"partition\":"
            "0,\"replicas\":[1,2,3],\"original\":[1]}]}"),
        0);
    expect(f, "reassigning __t-0: ");
}

static void expect_shown(struct fixture *f, const char *part, bool there)
{
    struct buf buf;

    buf_init(&buf, 1 << 16);
    assert_int_equal(problems_render(f->problems, &buf), 0);
    if (there) {
        assert_non_null(buf.data);
        assert_non_null(strstr(buf.data, part));
    } else {
        assert_true(!buf.data || !strstr(buf.data, part));
    }
    buf_free(&buf);
}

static void update(struct fixture *f, int64_t later_ms)
{
    f->now_ms += later_ms;
    health_update(f->health, f->snapshot, &reachable, f->now_ms);
}

static void test_shown_when_it_lasts_and_cleared_when_healed(void **state)
{
    struct fixture *f = *state;

    set_partition(f, all, two, none, 1);
    update(f, 0);
    expect_shown(f, "under-replicated t-0", false);
    update(f, 499);
    expect_shown(f, "under-replicated t-0", false);
    update(f, 1);
    expect_shown(f, "under-replicated t-0", true);
    /* A change of what is wrong; then of nothing. */
    struct snapshot *next = snapshot_copy(f->snapshot);

    assert_non_null(next);
    snapshot_unref(f->snapshot);
    f->snapshot = next;
    set_partition(f, all, one, none, 1);
    update(f, 1000);
    update(f, 1000);
    expect_shown(f, "under-replicated", false);
    expect_shown(f, "below-minimum t-0", true);
    next = snapshot_copy(f->snapshot);
    assert_non_null(next);
    snapshot_unref(f->snapshot);
    f->snapshot = next;
    set_partition(f, all, all, none, 1);
    update(f, 1);
    expect_shown(f, "t-0", false);
}

int main(void)
{
#define HEALTH_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        HEALTH_TEST(test_healthy),
        HEALTH_TEST(test_partitions),
        HEALTH_TEST(test_dead_nodes_that_hold_replicas),
        HEALTH_TEST(test_losses),
        HEALTH_TEST(test_session_and_controller),
        HEALTH_TEST(test_reassignments),
        HEALTH_TEST(test_internal_topic_with_few_replicas),
        HEALTH_TEST(test_shown_when_it_lasts_and_cleared_when_healed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
