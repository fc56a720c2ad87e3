#include "replica/isr.h"

#include "replica/fetch_core.h"
#include "tests/unit/support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Replica `id` has acknowledged `end`, and was last at the end at `caught_up_ms`. */
static void heard(struct partition_core *core, int32_t id, int64_t end,
                  int64_t caught_up_ms)
{
    struct core_replica *replica = core_replica_find(core, id);
    replica->broker_epoch = replica->registered_epoch;
    replica->log_end_offset = end;
    replica->caught_up_ms = caught_up_ms;
    replica->fetch_ms = caught_up_ms;
}

static void test_a_replica_that_lags_leaves(void **state)
{
    (void)state;
    struct partition_core core;
    struct isr_proposal proposal;
    core_rig_leader(&core);
    heard(&core, 2, 10, 0);
    heard(&core, 3, 8, 0);
    assert_false(isr_propose(&core, 1000, &proposal));
    assert_true(isr_propose(&core, 1001, &proposal));
    assert_int_equal(proposal.state.isr.count, 2);
    assert_false(replica_ids_contain(&proposal.state.isr, 3));
    assert_int_equal(proposal.state.elr.count, 0);
    assert_int_equal(proposal.state_revision, 100);
    assert_int_equal(proposal.own_broker_epoch, 50);
    /* One is on its way. The old ISR counts until it is known to be stored. */
    assert_false(isr_propose(&core, 2000, &proposal));
    assert_true(core_advance(&core));
    assert_int_equal(core.high_watermark, 8);
    isr_outcome(&core, &proposal, ISR_STORED, 101);
    assert_true(core_advance(&core));
    assert_int_equal(core.high_watermark, 10);
}

static void test_idle_replicas_stay(void **state)
{
    (void)state;
    struct partition_core core;
    struct isr_proposal proposal;
    core_rig_leader(&core);
    heard(&core, 2, 10, 0);
    heard(&core, 3, 10, 0);
    assert_false(isr_propose(&core, 1000000, &proposal));
}

static void test_the_last_ones_stay_eligible(void **state)
{
    (void)state;
    struct partition_core core;
    struct isr_proposal proposal;
    core_rig_leader(&core);
    heard(&core, 2, 9, 0);
    heard(&core, 3, 8, 0);
    assert_true(isr_propose(&core, 5000, &proposal));
    assert_int_equal(proposal.state.isr.count, 1);
    assert_int_equal(proposal.state.elr.count, 2);
    isr_outcome(&core, &proposal, ISR_STORED, 101);
    assert_false(core_advance(&core));
    /* One comes back: the minimum is met, nobody else is eligible any more. */
    heard(&core, 2, 10, 5000);
    assert_true(isr_propose(&core, 5001, &proposal));
    assert_int_equal(proposal.state.isr.count, 2);
    assert_int_equal(proposal.state.elr.count, 0);
    assert_int_equal(proposal.joined_count, 1);
    assert_int_equal(proposal.joined[0].id, 2);
    assert_int_equal(proposal.joined[0].broker_epoch, 20);
}

static void test_who_is_not_registered_leaves_at_once(void **state)
{
    (void)state;
    struct partition_core core;
    struct isr_proposal proposal;
    const int64_t registrations[] = {50, 0, 30};
    core_rig_leader(&core);
    heard(&core, 2, 10, 0);
    heard(&core, 3, 10, 0);
    core_registrations(&core, registrations);
    assert_true(isr_propose(&core, 1, &proposal));
    assert_false(replica_ids_contain(&proposal.state.isr, 2));
}

static struct partition_core two_in_sync(void)
{
    struct partition_core core;
    const struct leadership state = core_rig_state(1, 7, 2);
    core_init(&core, 1, 10, 10, 5);
    core.min_insync_replicas = 2;
    core.lag_time_max_ms = 1000;
    assert_int_equal(core_rig_lead(&core, &state, 100, 0), 0);
    heard(&core, 2, 10, 0);
    return core;
}

static void test_joining_takes_hw_epoch_start_and_registration(void **state)
{
    (void)state;
    struct partition_core core = two_in_sync();
    struct isr_proposal proposal;
    heard(&core, 3, 9, 0); /* above the HW of 5, below the epoch's start of 10 */
    assert_false(isr_propose(&core, 1, &proposal));
    heard(&core, 3, 10, 0);
    core_replica_find(&core, 3)->broker_epoch = 29;
    assert_false(isr_propose(&core, 1, &proposal));
    heard(&core, 3, 10, 0);
    assert_true(isr_propose(&core, 1, &proposal));
    assert_int_equal(proposal.state.isr.count, 3);
}

static void test_nobody_joins_before_the_leader_has_flushed_its_start(void **state)
{
    (void)state;
    struct partition_core core = two_in_sync();
    struct isr_proposal proposal;
    heard(&core, 3, 10, 0);
    core.flush_counts = true;
    core.flushed_offset = core.epoch_start - 1;
    assert_false(isr_propose(&core, 1, &proposal));
    core.flushed_offset = core.epoch_start;
    assert_true(isr_propose(&core, 1, &proposal));
    assert_true(replica_ids_contain(&proposal.state.isr, 3));
}

static void test_an_unknown_outcome_counts_until_the_revision_moves(void **state)
{
    (void)state;
    struct partition_core core = two_in_sync();
    struct isr_proposal proposal;
    heard(&core, 3, 10, 0);
    assert_true(isr_propose(&core, 1, &proposal));
    isr_outcome(&core, &proposal, ISR_UNKNOWN, 0);
    core_appended(&core, 20);
    heard(&core, 2, 20, 2);
    /* 3 may be in the ISR by now, or at any later time. */
    assert_true(core_advance(&core));
    assert_int_equal(core.high_watermark, 10);
    assert_false(isr_propose(&core, 2, &proposal));
    /* The state was read, and is still the old one. 3 is out of reach meanwhile: the
     * ISR is written once more, so that the lost proposal can't be stored any more. */
    const struct leadership old = core_rig_state(1, 7, 2);
    assert_int_equal(core_rig_lead(&core, &old, 100, 2), 0);
    isr_reread(&core);
    assert_false(core_advance(&core));
    heard(&core, 2, 20, 5000);
    assert_true(isr_propose(&core, 5000, &proposal));
    assert_int_equal(proposal.state.isr.count, 2);
    isr_outcome(&core, &proposal, ISR_STORED, 101);
    assert_true(core_advance(&core));
    assert_int_equal(core.high_watermark, 20);
}

static void test_a_conflict_is_read_again(void **state)
{
    (void)state;
    struct partition_core core = two_in_sync();
    struct isr_proposal proposal;
    heard(&core, 3, 10, 0);
    assert_true(isr_propose(&core, 1, &proposal));
    isr_outcome(&core, &proposal, ISR_CONFLICT, 0);
    assert_false(isr_propose(&core, 2, &proposal));
    assert_true(core.isr_reread);
    isr_reread(&core);
    assert_true(isr_propose(&core, 2, &proposal));
    /* The watch told of the new state before the answer came. */
    const struct leadership stored = core_rig_state(1, 7, 3);
    assert_int_equal(core_rig_lead(&core, &stored, 101, 3), 0);
    isr_outcome(&core, &proposal, ISR_CONFLICT, 0);
    assert_false(core.isr_reread);
}

static void test_lag_in_messages(void **state)
{
    (void)state;
    struct partition_core core;
    struct isr_proposal proposal;
    core_rig_leader(&core);
    core.lag_max_messages = 4;
    core_appended(&core, 20);
    heard(&core, 2, 16, 0);
    heard(&core, 3, 15, 0);
    assert_true(isr_propose(&core, 1, &proposal));
    assert_true(replica_ids_contain(&proposal.state.isr, 2));
    assert_false(replica_ids_contain(&proposal.state.isr, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_replica_that_lags_leaves),
        cmocka_unit_test(test_idle_replicas_stay),
        cmocka_unit_test(test_the_last_ones_stay_eligible),
        cmocka_unit_test(test_who_is_not_registered_leaves_at_once),
        cmocka_unit_test(test_joining_takes_hw_epoch_start_and_registration),
        cmocka_unit_test(test_nobody_joins_before_the_leader_has_flushed_its_start),
        cmocka_unit_test(test_an_unknown_outcome_counts_until_the_revision_moves),
        cmocka_unit_test(test_a_conflict_is_read_again),
        cmocka_unit_test(test_lag_in_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
