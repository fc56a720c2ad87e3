/* What time and the cluster change in a group. */
#include "support/group_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SESSION_MS = 10000 };
static const int64_t day_ms = 86400000;

static void test_silent_members_go(void **state)
{
    struct group_rig *rig = *state;

    group_rig_join(rig, "1-a", "t");
    group_rig_join(rig, "2-a", "t");
    group_rig_wait(rig, SESSION_MS - 1);
    group_rig_expect(rig, "2-a", "");
    assert_int_equal(group_rig_tick(rig), 0);
    assert_int_equal(rig->next_ms, rig->env.now_ms + 1);
    assert_int_equal(rig->records.length, 0);
    group_rig_wait(rig, 1);
    assert_int_equal(group_rig_tick(rig), 0);
    assert_int_equal(rig->next_ms, rig->env.now_ms - 1 + SESSION_MS);
    group_rig_expect(rig, "1-a", "unknown");
    group_rig_expect(rig, "2-a", "0:3 1:3 2:3 3:3");
    assert_int_equal(group_rig_commit(rig, "1-a", 0, 1, 5, 0), E_GROUP_MEMBER_UNKNOWN);
}

/* A beat that waited for news says when it came, not when it was answered. */
static void test_a_late_beat_does_not_count_twice(void **state)
{
    struct group_rig *rig = *state;

    group_rig_join(rig, "1-a", "t");
    group_rig_wait(rig, 5000);
    group_rig_expect(rig, "1-a", "0:1 1:1 2:1 3:1");
    rig->env.now_ms -= 3000;
    group_rig_expect(rig, "1-a", "0:1 1:1 2:1 3:1");
    rig->env.now_ms += 3000;
    assert_int_equal(group_rig_tick(rig), 0);
    assert_int_equal(rig->next_ms, rig->env.now_ms + SESSION_MS);
}

/* A new coordinator doesn't know when each was heard of. */
static void test_after_loading_all_were_heard(void **state)
{
    struct group_rig *rig = *state;

    group_rig_join(rig, "1-a", "t");
    group_rig_wait(rig, SESSION_MS * 10);
    group_rig_reload(rig);
    group_rig_wait(rig, SESSION_MS - 1);
    assert_int_equal(group_rig_tick(rig), 0);
    assert_int_equal(group_core_members(rig->core), 1);
    group_rig_wait(rig, 1);
    assert_int_equal(group_rig_tick(rig), 0);
    assert_int_equal(group_core_members(rig->core), 0);
}

static void test_nodes_that_are_gone(void **state)
{
    struct group_rig *rig = *state;

    group_rig_join(rig, "1-a", "t");
    group_rig_join(rig, "2-a", "t");
    group_rig_join(rig, "3-a", "t");
    group_rig_kill(rig, 2);
    assert_int_equal(group_rig_tick(rig), 0);
    group_rig_expect(rig, "2-a", "unknown");
    assert_int_equal(group_rig_join(rig, "2-b", "t"), E_STALE_BROKER_EPOCH);
    group_rig_restart(rig, 3);
    assert_int_equal(group_rig_tick(rig), 0);
    group_rig_expect(rig, "3-a", "unknown");
    group_rig_expect(rig, "1-a", "0:1 1:1 2:1 3:1");
    assert_int_equal(group_rig_join(rig, "3-b", "t"), 0);
}

/* The coordinator's snapshot may be older than the node's registration. */
static void test_nodes_that_are_news(void **state)
{
    struct group_rig *rig = *state;
    struct group_join join = {.member = "7-a",
                              .node = {.id = 7, .epoch = 5000},
                              .topic = "t",
                              .topic_id = group_rig_topic_id(rig, "t")};

    assert_int_equal(group_core_join(rig->core, &rig->env, &join, &rig->records), 0);
    assert_int_equal(group_rig_tick(rig), 0);
    assert_int_equal(group_core_members(rig->core), 1);
    rig->snapshot->shown.revision = 5001;
    assert_int_equal(group_rig_tick(rig), 0);
    assert_int_equal(group_core_members(rig->core), 0);
}

static void test_topics_that_are_deleted(void **state)
{
    struct group_rig *rig = *state;

    group_rig_topic(rig, "u", 1);
    group_rig_join(rig, "1-a", "t");
    group_rig_join(rig, "1-b", "u");
    group_rig_commit(rig, "1-a", 3, 1, 7, 0);
    group_rig_delete_topic(rig, "t");
    assert_int_equal(group_rig_tick(rig), 0);
    assert_non_null(strstr(rig->records.data, "/3\t\n"));
    group_rig_expect(rig, "1-a", "unknown");
    group_rig_expect(rig, "1-b", "0:2");
    group_rig_expect_committed(rig, "t", 3, -1);
    assert_int_equal(group_rig_join(rig, "1-c", "t"), E_TOPIC_DELETED);
    /* One of the same name has nothing of it. */
    group_rig_topic(rig, "t", 4);
    assert_int_equal(group_rig_join(rig, "1-c", "t"), 0);
    group_rig_expect_committed(rig, "t", 3, -1);
}

static void test_partitions_that_are_added(void **state)
{
    struct group_rig *rig = *state;

    group_rig_topic(rig, "u", 1);
    group_rig_join(rig, "1-a", "u");
    group_rig_join(rig, "2-a", "u");
    group_rig_topic(rig, "u", 2);
    assert_int_equal(group_rig_tick(rig), 0);
    group_rig_expect(rig, "1-a", "0:1");
    group_rig_expect(rig, "2-a", "1:3");
    assert_int_equal(group_rig_tick(rig), 0);
    assert_int_equal(rig->records.length, 0);
}

static void test_offsets_expire(void **state)
{
    struct group_rig *rig = *state;

    group_rig_join(rig, "1-a", "t");
    group_rig_commit(rig, "1-a", 0, 1, 5, 0);
    group_rig_wait(rig, 30 * day_ms);
    group_rig_expect(rig, "1-a", "0:1 1:1 2:1 3:1");
    assert_int_equal(group_rig_tick(rig), 0);
    group_rig_expect_committed(rig, "t", 0, 5);
    /* From when the last member left, over a new coordinator too. */
    group_rig_leave(rig, "1-a");
    group_rig_wait(rig, 7 * day_ms - 1);
    group_rig_reload(rig);
    assert_int_equal(group_rig_tick(rig), 0);
    assert_int_equal(rig->next_ms, rig->env.now_ms + 1);
    group_rig_expect_committed(rig, "t", 0, 5);
    group_rig_wait(rig, 1);
    assert_int_equal(group_rig_tick(rig), 0);
    group_rig_expect_committed(rig, "t", 0, -1);
    assert_int_equal(rig->next_ms, INT64_MAX);
    assert_false(group_core_is_used(rig->core));
    assert_non_null(strstr(rig->records.data, "g\t\n"));
}

static void test_offsets_that_were_set_expire(void **state)
{
    struct group_rig *rig = *state;

    group_rig_set(rig, "t", 1, 9, 1);
    group_rig_wait(rig, 2 * day_ms);
    group_rig_set(rig, "t", 2, 9, 1);
    group_rig_wait(rig, 5 * day_ms);
    assert_int_equal(group_rig_tick(rig), 0);
    group_rig_expect_committed(rig, "t", 1, -1);
    group_rig_expect_committed(rig, "t", 2, 9);
    assert_int_equal(group_rig_configure(rig, "{\"offsets_retention_ms\":-1}"), 0);
    group_rig_wait(rig, 1000 * day_ms);
    assert_int_equal(group_rig_tick(rig), 0);
    group_rig_expect_committed(rig, "t", 2, 9);
}

#define TEST(test)                                                                     \
    cmocka_unit_test_setup_teardown(test, group_rig_setup, group_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_silent_members_go),
        TEST(test_a_late_beat_does_not_count_twice),
        TEST(test_after_loading_all_were_heard),
        TEST(test_nodes_that_are_gone),
        TEST(test_nodes_that_are_news),
        TEST(test_topics_that_are_deleted),
        TEST(test_partitions_that_are_added),
        TEST(test_offsets_expire),
        TEST(test_offsets_that_were_set_expire),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
