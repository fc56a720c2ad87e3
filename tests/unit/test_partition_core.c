#include "replica/partition_core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const int32_t three[] = {1, 2, 3};

static struct replica_ids set_of(const int32_t *ids, uint32_t count)
{
    struct replica_ids set = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        set.ids[i] = ids[i];
    }
    return set;
}

static struct leadership state_of(int32_t leader, int32_t epoch, uint32_t isr_count)
{
    return (struct leadership){.leader = leader,
                               .leader_epoch = epoch,
                               .isr = set_of(three, isr_count),
                               .lossy_epoch = -1};
}

/* The store says so, for all three replicas, at this revision. */
static int lead(struct partition_core *core, const struct leadership *state,
                int64_t revision)
{
    const struct core_leadership leadership = {.state = state,
                                               .revision = revision,
                                               .replicas = three,
                                               .replica_count = 3,
                                               .own_broker_epoch = 50};
    return core_lead(core, &leadership);
}

static struct partition_core leader_of(const int32_t *replicas, uint32_t count,
                                       int64_t min_insync, bool flush_counts)
{
    struct partition_core core;
    core_init(&core, 1, 10, 10, 5);
    core.min_insync_replicas = min_insync;
    core.flush_counts = flush_counts;
    const struct leadership state = state_of(1, 7, count);
    const struct core_leadership leadership = {.state = &state,
                                               .revision = 100,
                                               .replicas = replicas,
                                               .replica_count = count,
                                               .own_broker_epoch = 50};
    assert_int_equal(core_lead(&core, &leadership), 0);
    return core;
}

static void test_alone_commits_what_is_flushed(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 1, 1, true);
    assert_true(core_advance(&core));
    assert_int_equal(core.high_watermark, 10);
    core_appended(&core, 13);
    assert_false(core_advance(&core));
    assert_false(core_acknowledged(&core, ACKS_ALL, 13));
    assert_false(core_acknowledged(&core, ACKS_LEADER, 13));
    assert_true(core_acknowledged(&core, ACKS_NONE, 13));
    core_flushed(&core, 12);
    assert_true(core_advance(&core));
    assert_int_equal(core.high_watermark, 12);
    core_flushed(&core, 13);
    assert_true(core_advance(&core));
    assert_true(core_acknowledged(&core, ACKS_ALL, 13));
}

static void test_without_flush_the_page_cache_counts(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 1, 1, false);
    core_appended(&core, 13);
    assert_true(core_advance(&core));
    assert_int_equal(core.high_watermark, 13);
}

static void test_high_watermark_is_the_least_of_the_isr(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 3, 2, false);
    core_appended(&core, 20);
    /* Nothing was heard from the others in this epoch. */
    assert_false(core_advance(&core));
    assert_int_equal(core.high_watermark, 5);
    core.replicas[1].log_end_offset = 18;
    core.replicas[2].log_end_offset = 15;
    assert_true(core_advance(&core));
    assert_int_equal(core.high_watermark, 15);
    core.replicas[2].in_isr = false;
    assert_true(core_advance(&core));
    assert_int_equal(core.high_watermark, 18);
}

static void test_high_watermark_never_falls(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 3, 2, false);
    core_appended(&core, 20);
    core.replicas[1].log_end_offset = 20;
    core.replicas[2].log_end_offset = 20;
    assert_true(core_advance(&core));
    core.replicas[2].log_end_offset = 8;
    assert_false(core_advance(&core));
    assert_int_equal(core.high_watermark, 20);
}

static void test_below_the_minimum_it_stands_still(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 3, 2, false);
    core_appended(&core, 20);
    core.replicas[1].in_isr = false;
    core.replicas[2].in_isr = false;
    assert_false(core_advance(&core));
    assert_int_equal(core_admit(&core, ACKS_ALL), E_NOT_ENOUGH_REPLICAS);
    assert_int_equal(core_admit(&core, ACKS_LEADER), 0);
    assert_int_equal(core_admit(&core, ACKS_NONE), 0);
}

static void test_roles_and_fencing(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 3, 2, false);
    struct leadership other = state_of(2, 6, 3);
    assert_int_equal(lead(&core, &other, 101), E_FENCED_EPOCH);
    assert_int_equal(core.role, ROLE_LEADER);
    other.leader_epoch = 8;
    assert_int_equal(lead(&core, &other, 99), E_FENCED_EPOCH);
    assert_int_equal(lead(&core, &other, 101), 0);
    assert_int_equal(core.role, ROLE_FOLLOWER);
    assert_int_equal(core_admit(&core, ACKS_ALL), E_NOT_LEADER);
    other.leader = -1;
    other.leader_epoch = 9;
    assert_int_equal(lead(&core, &other, 102), 0);
    assert_int_equal(core_admit(&core, ACKS_NONE), E_NO_LEADER);
    core_appended(&core, 30);
    assert_false(core_advance(&core));
    const struct core_leadership many = {.state = &other,
                                         .revision = 103,
                                         .replicas = three,
                                         .replica_count = CORE_REPLICAS_MAX + 1};
    assert_int_equal(core_lead(&core, &many), -E2BIG);
}

static void test_the_same_epoch_keeps_what_was_heard(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 3, 2, false);
    core.replicas[1].log_end_offset = 9;
    struct leadership same = state_of(1, 7, 2);
    assert_int_equal(lead(&core, &same, 101), 0);
    assert_int_equal(core.replicas[1].log_end_offset, 9);
    assert_false(core.replicas[2].in_isr);
    same.leader_epoch = 8;
    assert_int_equal(lead(&core, &same, 102), 0);
    assert_int_equal(core.replicas[1].log_end_offset, -1);
}

static void test_an_epoch_belongs_to_one_incarnation(void **state)
{
    (void)state;
    struct partition_core core;
    core_init(&core, 1, 10, 10, 5);
    const struct leadership own = state_of(1, 7, 3);
    /* Stored before this process registered (50): another incarnation's epoch. */
    assert_int_equal(lead(&core, &own, 49), 0);
    assert_int_equal(core.role, ROLE_NONE);
    assert_int_equal(core_admit(&core, ACKS_LEADER), E_NO_LEADER);
    assert_int_equal(lead(&core, &own, 51), 0);
    assert_int_equal(core.role, ROLE_LEADER);
}

static void test_eligible_replicas_hold_the_high_watermark(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 3, 1, false);
    struct leadership alone = state_of(1, 7, 1);
    alone.elr = set_of(three + 1, 1);
    assert_int_equal(lead(&core, &alone, 101), 0);
    core_appended(&core, 20);
    /* The minimum was lowered to 1, but replica 2 may still be elected. */
    assert_false(core_advance(&core));
    alone.elr.count = 0;
    assert_int_equal(lead(&core, &alone, 102), 0);
    assert_true(core_advance(&core));
    assert_int_equal(core.high_watermark, 20);
}

static void test_sessions(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 3, 2, false);
    core_set_session(&core, SESSION_SILENT);
    assert_int_equal(core_admit(&core, ACKS_LEADER), E_SESSION_LOST);
    assert_int_equal(core_admit(&core, ACKS_NONE), E_SESSION_LOST);
    assert_int_equal(core_admit(&core, ACKS_ALL), 0);
    core_set_session(&core, SESSION_GOOD);
    assert_int_equal(core_admit(&core, ACKS_LEADER), 0);
    core_set_session(&core, SESSION_LOST);
    assert_int_equal(core_admit(&core, ACKS_ALL), E_NO_LEADER);
    assert_int_equal(core_outcome(&core, ACKS_ALL, 7, 1), E_NOT_LEADER);
}

static void test_a_flush_that_began_before_a_cut_is_void(void **state)
{
    (void)state;
    struct partition_core core;
    struct epoch_list epochs = {0};
    core_init(&core, 2, 10, 10, 5);
    core_appended(&core, 20);
    const struct core_flush flush = core_flush_begin(&core);
    assert_true(core_cut(&core, &epochs, 12));
    core_appended(&core, 25);
    assert_false(core_flush_end(&core, &flush));
    assert_int_equal(core.flushed_offset, 10);
    const struct core_flush next = core_flush_begin(&core);
    assert_true(core_flush_end(&core, &next));
    assert_int_equal(core.flushed_offset, 25);
}

static void test_outcomes_belong_to_their_epoch(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 3, 2, false);
    assert_int_equal(core_outcome(&core, ACKS_ALL, 7, 5), 0);
    assert_int_equal(core_outcome(&core, ACKS_ALL, 7, 6), CORE_WAIT);
    assert_int_equal(core_outcome(&core, ACKS_LEADER, 7, 10), 0);
    assert_int_equal(core_outcome(&core, ACKS_ALL, 6, 5), E_NOT_LEADER);
}

/* Compaction leaves holes, also where retention takes old messages, too. */
static void test_which_policies_leave_holes(void **state)
{
    (void)state;
    struct partition_core core = {0};
    struct topic_config config = {.cleanup_policy = CLEANUP_DELETE};
    core_configure(&core, &config);
    assert_false(core.compacted);
    config.cleanup_policy = CLEANUP_COMPACT;
    core_configure(&core, &config);
    assert_true(core.compacted);
    config.cleanup_policy = CLEANUP_DELETE | CLEANUP_COMPACT;
    core_configure(&core, &config);
    assert_true(core.compacted);
    /* They stay when the policy is another. */
    config =
        (struct topic_config){.cleanup_policy = CLEANUP_DELETE, .was_compacted = 1};
    core_configure(&core, &config);
    assert_true(core.compacted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_policies_leave_holes),
        cmocka_unit_test(test_alone_commits_what_is_flushed),
        cmocka_unit_test(test_without_flush_the_page_cache_counts),
        cmocka_unit_test(test_high_watermark_is_the_least_of_the_isr),
        cmocka_unit_test(test_high_watermark_never_falls),
        cmocka_unit_test(test_below_the_minimum_it_stands_still),
        cmocka_unit_test(test_roles_and_fencing),
        cmocka_unit_test(test_the_same_epoch_keeps_what_was_heard),
        cmocka_unit_test(test_an_epoch_belongs_to_one_incarnation),
        cmocka_unit_test(test_eligible_replicas_hold_the_high_watermark),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_a_flush_that_began_before_a_cut_is_void),
        cmocka_unit_test(test_outcomes_belong_to_their_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
