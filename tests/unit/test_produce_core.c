#include "replica/produce_core.h"

#include "tests/unit/support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct rig {
    struct partition_core core;
    struct producer_state *producers;
    struct produce_decision decision;
};

static struct rig rig_new(void)
{
    struct rig rig = {.producers = producer_state_new()};
    assert_non_null(rig.producers);
    core_rig_leader(&rig.core);
    const struct batch stored = {
        .base_offset = 6, .message_count = 4, .base_sequence = 0, .producer_id = 77};
    assert_int_equal(producer_state_add(rig.producers, &stored), 0);
    return rig;
}

static void decide(struct rig *rig, int64_t producer, int32_t sequence, uint32_t count)
{
    const struct batch batch = {
        .message_count = count, .base_sequence = sequence, .producer_id = producer};
    produce_decide(&rig->core, rig->producers, &batch, ACKS_ALL, &rig->decision);
}

static void test_new_duplicate_and_out_of_order(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    decide(&rig, 77, 4, 2);
    assert_int_equal(rig.decision.error, 0);
    assert_false(rig.decision.duplicate);
    decide(&rig, 77, 0, 4);
    assert_int_equal(rig.decision.error, 0);
    assert_true(rig.decision.duplicate);
    assert_int_equal(rig.decision.base_offset, 6);
    assert_int_equal(rig.decision.end_offset, 10);
    /* It is answered when its original is committed, not before. */
    assert_false(rig.decision.acknowledged);
    assert_int_equal(core_outcome(&rig.core, ACKS_ALL, 7, rig.decision.end_offset),
                     CORE_WAIT);
    decide(&rig, 77, 6, 1);
    assert_int_equal(rig.decision.error, E_OUT_OF_ORDER_SEQUENCE);
    producer_state_free(rig.producers);
}

static void test_an_unknown_producer_begins_at_zero(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    decide(&rig, 78, 3, 1);
    assert_int_equal(rig.decision.error, E_OUT_OF_ORDER_SEQUENCE);
    decide(&rig, 78, 0, 1);
    assert_int_equal(rig.decision.error, 0);
    decide(&rig, -1, -1, 1); /* without an id nothing is checked */
    assert_int_equal(rig.decision.error, 0);
    producer_state_free(rig.producers);
}

static void test_a_duplicate_waits_also_below_the_minimum(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    const struct leadership alone = core_rig_state(1, 7, 1);
    assert_int_equal(core_rig_lead(&rig.core, &alone, 101, 0), 0);
    decide(&rig, 77, 4, 2);
    assert_int_equal(rig.decision.error, E_NOT_ENOUGH_REPLICAS);
    decide(&rig, 77, 0, 4);
    assert_int_equal(rig.decision.error, 0);
    assert_true(rig.decision.duplicate);
    const struct leadership other = core_rig_state(2, 8, 3);
    assert_int_equal(core_rig_lead(&rig.core, &other, 102, 0), 0);
    decide(&rig, 77, 0, 4);
    assert_int_equal(rig.decision.error, E_NOT_LEADER);
    producer_state_free(rig.producers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_duplicate_and_out_of_order),
        cmocka_unit_test(test_an_unknown_producer_begins_at_zero),
        cmocka_unit_test(test_a_duplicate_waits_also_below_the_minimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
