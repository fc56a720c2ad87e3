#include "replica/partition_core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const int32_t three[] = {1, 2, 3};

static struct partition_core leader_of(const int32_t *replicas, uint32_t count,
                                       int64_t min_insync, bool flush_counts)
{
    struct partition_core core;
    core_init(&core, 1, 10, 10, 5);
    core.min_insync_replicas = min_insync;
    core.flush_counts = flush_counts;
    const struct core_leadership leadership = {.leader = 1,
                                               .leader_epoch = 7,
                                               .replicas = replicas,
                                               .replica_count = count,
                                               .isr = replicas,
                                               .isr_count = count};
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
    struct core_leadership other = {.leader = 2,
                                    .leader_epoch = 6,
                                    .replicas = three,
                                    .replica_count = 3,
                                    .isr = three,
                                    .isr_count = 3};
    assert_int_equal(core_lead(&core, &other), E_FENCED_EPOCH);
    assert_int_equal(core.role, ROLE_LEADER);
    other.leader_epoch = 8;
    assert_int_equal(core_lead(&core, &other), 0);
    assert_int_equal(core.role, ROLE_FOLLOWER);
    assert_int_equal(core_admit(&core, ACKS_ALL), E_NOT_LEADER);
    other.leader = -1;
    other.leader_epoch = 9;
    assert_int_equal(core_lead(&core, &other), 0);
    assert_int_equal(core_admit(&core, ACKS_NONE), E_NO_LEADER);
    core_appended(&core, 30);
    assert_false(core_advance(&core));
    other.replica_count = CORE_REPLICAS_MAX + 1;
    other.leader_epoch = 10;
    assert_int_equal(core_lead(&core, &other), -E2BIG);
}

static void test_the_same_epoch_keeps_what_was_heard(void **state)
{
    (void)state;
    struct partition_core core = leader_of(three, 3, 2, false);
    core.replicas[1].log_end_offset = 9;
    struct core_leadership same = {.leader = 1,
                                   .leader_epoch = 7,
                                   .replicas = three,
                                   .replica_count = 3,
                                   .isr = three,
                                   .isr_count = 2};
    assert_int_equal(core_lead(&core, &same), 0);
    assert_int_equal(core.replicas[1].log_end_offset, 9);
    assert_false(core.replicas[2].in_isr);
    same.leader_epoch = 8;
    assert_int_equal(core_lead(&core, &same), 0);
    assert_int_equal(core.replicas[1].log_end_offset, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_commits_what_is_flushed),
        cmocka_unit_test(test_without_flush_the_page_cache_counts),
        cmocka_unit_test(test_high_watermark_is_the_least_of_the_isr),
        cmocka_unit_test(test_high_watermark_never_falls),
        cmocka_unit_test(test_below_the_minimum_it_stands_still),
        cmocka_unit_test(test_roles_and_fencing),
        cmocka_unit_test(test_the_same_epoch_keeps_what_was_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
