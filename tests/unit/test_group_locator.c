/* Searches for places in logs whose leader can't tell, by a clock of the test's. */
#include "replica/group_locator.h"

#include "replica/partition_internal.h"
#include "tests/unit/support/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SECOND_MS = 1000, HOUR_MS = 3600 * 1000, STEPS_MAX = 100000 };

struct rig {
    struct clock clock;     /* first */
    _Atomic int64_t now_ms; /* the coordinator looks, too */
    struct node node;
    struct group_coordinator *coordinator;
    struct group_client *client;
    struct group_locator *locator;
    struct group_search search; /* for the end of "t", partition 0 */
    struct group_found found;
    bool done;
};

static int64_t mono_ns(const struct clock *clock)
{
    return ((const struct rig *)clock)->now_ms * 1000000;
}

static int64_t wall_ms(const struct clock *clock)
{
    return ((const struct rig *)clock)->now_ms;
}

static void on_found(struct group_search *search, const struct group_found *found)
{
    struct rig *rig = (struct rig *)((char *)search - offsetof(struct rig, search));
    rig->found = *found;
    rig->done = true;
}

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    rig->clock = (struct clock){.mono_ns = mono_ns, .wall_ms = wall_ms};
    rig->now_ms = SECOND_MS;
    node_make(&rig->node);
    node_start(&rig->node);
    struct partition *partition = node_topic(&rig->node, "t", "{\"flush\":\"os\"}");
    assert_int_equal(node_append(partition, "a\nb\n", NULL), 0);
    partition_unref(partition);
    const struct groups_params params = {.config = &rig->node.config,
                                         .cluster = rig->node.cluster,
                                         .broker = rig->node.broker,
                                         .problems = rig->node.problems,
                                         .clock = &rig->clock};
    assert_int_equal(group_coordinator_start(&params, &rig->coordinator), 0);
    assert_int_equal(group_client_new(&params, rig->coordinator, &rig->client), 0);
    rig->locator = group_locator_new(&params, rig->client);
    assert_non_null(rig->locator);
    rig->search =
        (struct group_search){.done = on_found,
                              .place = {.topic_id = node_topic_id(&rig->node, "t"),
                                        .kind = GROUPS_PLACE_LATEST},
                              .deadline_ms = INT64_MAX};
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    group_client_close(rig->client);
    group_coordinator_stop(rig->coordinator);
    group_locator_free(rig->locator);
    group_client_free(rig->client);
    node_stop(&rig->node);
    node_remove(&rig->node);
    free(rig);
    return 0;
}

/* How often it wants to be called in that time. */
static int steps_in(struct rig *rig, int64_t ms)
{
    int64_t until_ms = rig->now_ms + ms;
    int64_t next_ms = group_locator_step(rig->locator);
    int steps = 0;
    while (next_ms < until_ms && steps < STEPS_MAX) {
        rig->now_ms = next_ms > rig->now_ms ? next_ms : rig->now_ms;
        next_ms = group_locator_step(rig->locator);
        steps++;
    }
    rig->now_ms = until_ms;
    return steps;
}

static void finds(void **state)
{
    struct rig *rig = *state;
    group_locator_find(rig->locator, &rig->search);
    (void)group_locator_step(rig->locator);
    assert_true(rig->done);
    assert_int_equal(rig->found.error, 0);
    assert_int_equal(rig->found.offset, 2);
}

/* Where there is no leader, the news of the cluster will say when there is one. */
static void waits_for_a_leader(void **state)
{
    struct rig *rig = *state;
    rig->search.place.partition = 7;
    group_locator_find(rig->locator, &rig->search);
    assert_int_equal(steps_in(rig, HOUR_MS), 0);
    assert_false(rig->done);
    group_locator_cancel(rig->locator, &rig->search);
    rig->search.deadline_ms = rig->now_ms + SECOND_MS;
    group_locator_find(rig->locator, &rig->search);
    assert_int_equal(group_locator_step(rig->locator), rig->search.deadline_ms);
    assert_int_equal(steps_in(rig, 2 * SECOND_MS), 1);
    assert_true(rig->done);
    assert_int_equal(rig->found.error, E_NO_LEADER);
}

/* A leader that is not certain of it may be so for hours. */
static void asks_less_and_less(void **state)
{
    struct rig *rig = *state;
    struct partition *partition = node_partition(&rig->node, "t", 0);
    pthread_mutex_lock(&partition->lock);
    partition->core.session = SESSION_SILENT;
    pthread_mutex_unlock(&partition->lock);
    group_locator_find(rig->locator, &rig->search);
    assert_in_range(steps_in(rig, SECOND_MS), 3, 6);
    assert_in_range(steps_in(rig, HOUR_MS), HOUR_MS / SECOND_MS - 2,
                    HOUR_MS / SECOND_MS + 2);
    assert_false(rig->done);
    pthread_mutex_lock(&partition->lock);
    partition->core.session = SESSION_GOOD;
    pthread_mutex_unlock(&partition->lock);
    partition_unref(partition);
    (void)steps_in(rig, 2 * SECOND_MS);
    assert_true(rig->done);
    assert_int_equal(rig->found.error, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_for_a_leader, setup, teardown),
        cmocka_unit_test_setup_teardown(asks_less_and_less, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
