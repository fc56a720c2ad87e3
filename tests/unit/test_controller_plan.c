#include "coord/controller_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "123" -> 1, 2, 3 */
static struct replica_ids ids(const char *text)
{
    struct replica_ids set = {0};
    for (; *text; text++) {
        replica_ids_add(&set, *text - '0');
    }
    return set;
}

struct rig {
    struct plan_node nodes[9];
    struct plan_view view;
    struct plan_partition partition;
    struct plan_change change;
};

/* Nodes of `live`, all registered as broker epoch 50; assignment 123, ISR and ELR as
 * given, leader 1 in epoch 7, stored at revision 100, minimum 2. */
static void rig_init(struct rig *rig, const char *live, const char *isr,
                     const char *elr)
{
    memset(rig, 0, sizeof *rig);
    for (; *live; live++) {
        rig->nodes[rig->view.node_count++] =
            (struct plan_node){.id = *live - '0', .broker_epoch = 50};
    }
    rig->view.nodes = rig->nodes;
    rig->view.controller_epoch = 4;
    rig->partition = (struct plan_partition){
        .replicas = ids("123"),
        .has_state = true,
        .state_revision = 100,
        .min_insync = 2,
        .unclean_wait_ms = -1,
        .leaderless_since_ms = -1,
        .state = {.controller_epoch = 3,
                  .leader = 1,
                  .leader_epoch = 7,
                  .isr = ids(isr),
                  .elr = ids(elr),
                  .lossy_epoch = -1},
    };
}

static int plan(struct rig *rig)
{
    return plan_partition(&rig->view, &rig->partition, &rig->change);
}

static void assert_ids(const struct replica_ids *set, const char *expected)
{
    const struct replica_ids other = ids(expected);
    assert_true(replica_ids_equal(set, &other));
}

static void test_a_new_partition(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "23", "", "");
    rig.partition.has_state = false;
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.state.leader, 2);
    assert_int_equal(rig.change.state.leader_epoch, 0);
    assert_ids(&rig.change.state.isr, "23");
    assert_int_equal(rig.change.state.lossy_epoch, -1);
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "123", "123", "");
    assert_int_equal(plan(&rig), 0);
    rig_init(&rig, "1", "123", ""); /* the leader sees to its ISR itself */
    assert_int_equal(plan(&rig), 0);
}

static void test_failover(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "23", "132", "");
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.reason, PLAN_ELECT);
    assert_int_equal(rig.change.state.leader, 2);
    assert_int_equal(rig.change.state.leader_epoch, 8);
    assert_int_equal(rig.change.state.controller_epoch, 4);
    assert_ids(&rig.change.state.isr, "32");
    assert_ids(&rig.change.state.elr, "");
}

static void test_those_that_fall_out_below_the_minimum_stay_eligible(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "3", "13", "2");
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.state.leader, 3);
    assert_ids(&rig.change.state.isr, "3");
    assert_ids(&rig.change.state.elr, "12");
}

static void test_an_eligible_replica_leads(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "2", "1", "23");
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.state.leader, 2);
    assert_ids(&rig.change.state.isr, "2");
    assert_ids(&rig.change.state.elr, "13");
    assert_int_equal(rig.change.state.lossy_epoch, -1);
}

static void test_a_restarted_leader_gets_a_new_epoch(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "1", "1", "");
    rig.nodes[0].broker_epoch = 101;
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.state.leader, 1);
    assert_int_equal(rig.change.state.leader_epoch, 8);
}

static void test_nobody_eligible(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "3", "12", "");
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.reason, PLAN_LEADERLESS);
    assert_int_equal(rig.change.state.leader, -1);
    assert_int_equal(rig.change.state.leader_epoch, 8);
    assert_ids(&rig.change.state.isr, "12");
    rig.partition.state = rig.change.state;
    assert_int_equal(plan(&rig), 0);
}

static void test_unclean_elections(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "3", "12", "");
    rig.partition.unclean_wait_ms = 0;
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.reason, PLAN_UNCLEAN);
    assert_int_equal(rig.change.state.leader, 3);
    assert_ids(&rig.change.state.isr, "3");
    assert_int_equal(rig.change.state.lossy_epoch, 8);
    /* After a time of waiting. */
    rig_init(&rig, "3", "12", "");
    rig.partition.unclean_wait_ms = 500;
    rig.partition.state.leader = -1;
    rig.partition.leaderless_since_ms = 1000;
    rig.view.now_ms = 1499;
    assert_int_equal(plan(&rig), 0);
    rig.view.now_ms = 1500;
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.reason, PLAN_UNCLEAN);
    /* Never a damaged one. */
    rig.partition.state.suspects[0] =
        (struct suspect){.id = 3, .kind = SUSPECT_UNUSABLE};
    rig.partition.state.suspect_count = 1;
    assert_int_equal(plan(&rig), 0);
}

static void test_when_all_crashed_the_longest_log_leads(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "123", "", "");
    rig.partition.state.leader = -1;
    rig.partition.state.suspect_count = 3;
    rig.partition.state.suspects[0] = (struct suspect){1, SUSPECT_CRASHED, 6, 90};
    rig.partition.state.suspects[1] = (struct suspect){2, SUSPECT_CRASHED, 7, 80};
    rig.partition.state.suspects[2] = (struct suspect){3, SUSPECT_CRASHED, 7, 70};
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.state.leader, 2);
    assert_int_equal(rig.change.state.lossy_epoch, 8);
    assert_null(leadership_suspect(&rig.change.state, 2));
    /* It is waited for; and as long as somebody has all, nobody else leads. */
    rig.view.node_count = 1;
    assert_int_equal(plan(&rig), 0);
    rig.view.node_count = 3;
    rig.partition.state.elr = ids("4");
    assert_int_equal(plan(&rig), 0);
}

static void test_a_leaving_leader_hands_over(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "123", "123", "");
    rig.nodes[0].leaving = true;
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.state.leader, 2);
    assert_ids(&rig.change.state.isr, "23");
    /* Not if there is nobody to take over. */
    rig_init(&rig, "123", "1", "");
    rig.nodes[0].leaving = true;
    assert_int_equal(plan(&rig), 0);
}

static void test_the_preferred_leader(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "123", "213", "");
    rig.partition.state.leader = 2;
    rig.partition.prefer = true;
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.state.leader, 1);
    assert_true(rig.change.prefer_done);
    assert_ids(&rig.change.state.isr, "213");
    rig.partition.state.isr = ids("23");
    assert_int_equal(plan(&rig), 0);
}

static void test_reassignment(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "12345", "123", "");
    rig.partition.target = ids("345");
    rig.partition.original = ids("123");
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.reason, PLAN_GROW);
    assert_ids(&rig.change.replicas, "34512");
    assert_int_equal(rig.change.state.leader_epoch, 8);
    rig.partition.replicas = rig.change.replicas;
    rig.partition.state = rig.change.state;
    assert_int_equal(plan(&rig), 0); /* waits for 4 and 5 */
    rig.partition.state.isr = ids("12345");
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.reason, PLAN_SHRINK);
    assert_true(rig.change.reassignment_done);
    assert_ids(&rig.change.replicas, "345");
    assert_ids(&rig.change.state.isr, "345");
    assert_int_equal(rig.change.state.leader, 3);
    assert_int_equal(rig.change.state.leader_epoch, 9);
}

static void test_a_cancel_needs_no_dead_node(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "12", "12", "");
    rig.partition.replicas = ids("2412");
    rig.partition.original = ids("12");
    rig.partition.target = ids("12");
    assert_int_equal(plan(&rig), 1);
    assert_int_equal(rig.change.reason, PLAN_SHRINK);
    assert_ids(&rig.change.replicas, "12");
    assert_int_equal(rig.change.state.leader, 1);
    /* Without a live replica that has all: refused. */
    rig_init(&rig, "4", "4", "");
    rig.partition.replicas = ids("24");
    rig.partition.original = ids("12");
    rig.partition.target = ids("12");
    rig.partition.state.leader = 4;
    assert_false(plan_may_return(&rig.view, &rig.partition));
}

static void test_replicas_take_themselves_out(void **state)
{
    (void)state;
    struct leadership next;
    struct leadership old = {
        .leader = 1, .leader_epoch = 7, .isr = ids("12"), .elr = ids("3")};
    struct suspect suspect = {1, SUSPECT_CRASHED, 7, 40};
    assert_int_equal(leadership_take_out(&old, &suspect, false, &next), 1);
    assert_int_equal(next.leader, -1);
    assert_int_equal(next.leader_epoch, 8);
    assert_ids(&next.isr, "2");
    assert_int_equal(leadership_suspect(&next, 1)->end_offset, 40);
    /* Said once. But a registered node moves the revision whatever is there. */
    assert_int_equal(leadership_take_out(&next, &suspect, false, &old), 0);
    assert_int_equal(leadership_take_out(&next, &suspect, true, &old), 1);
    assert_int_equal(old.leader_epoch, 9);
    /* One that counts nowhere has nothing to say after a crash. */
    suspect.id = 4;
    assert_int_equal(leadership_take_out(&next, &suspect, false, &old), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_partition),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_failover),
        cmocka_unit_test(test_those_that_fall_out_below_the_minimum_stay_eligible),
        cmocka_unit_test(test_an_eligible_replica_leads),
        cmocka_unit_test(test_a_restarted_leader_gets_a_new_epoch),
        cmocka_unit_test(test_nobody_eligible),
        cmocka_unit_test(test_unclean_elections),
        cmocka_unit_test(test_when_all_crashed_the_longest_log_leads),
        cmocka_unit_test(test_a_leaving_leader_hands_over),
        cmocka_unit_test(test_the_preferred_leader),
        cmocka_unit_test(test_reassignment),
        cmocka_unit_test(test_a_cancel_needs_no_dead_node),
        cmocka_unit_test(test_replicas_take_themselves_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
