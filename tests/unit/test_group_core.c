/* A group's decisions: members, grants, commits, and the records that keep them. */
#include "support/group_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_first_member_has_everything(void **state)
{
    struct group_rig *rig = *state;

    assert_false(group_core_is_used(rig->core));
    assert_int_equal(group_rig_join(rig, "1-a", "t"), 0);
    assert_true(group_core_is_used(rig->core));
    assert_int_equal(group_core_members(rig->core), 1);
    group_rig_expect(rig, "1-a", "0:1 1:1 2:1 3:1");
    /* The same join, sent again. */
    assert_int_equal(group_rig_join(rig, "1-a", "t"), 0);
    assert_int_equal(rig->records.length, 0);
    group_rig_expect(rig, "1-a", "0:1 1:1 2:1 3:1");
    group_rig_expect(rig, "1-b", "unknown");
}

/* What a member keeps it keeps in its old generation; what is to go is given to the
 * other only after it was released. */
static void test_hand_over_is_by_release(void **state)
{
    struct group_rig *rig = *state;
    uint64_t changes;

    group_rig_join(rig, "1-a", "t");
    changes = group_core_changes(rig->core);
    group_rig_join(rig, "2-a", "t");
    assert_true(group_core_changes(rig->core) > changes);
    group_rig_expect(rig, "1-a", "0:1 1:1 2:1! 3:1!");
    group_rig_expect(rig, "2-a", "");
    changes = group_core_changes(rig->core);
    assert_int_equal(group_rig_release(rig, "1-a"), 0);
    assert_true(group_core_changes(rig->core) > changes);
    group_rig_expect(rig, "1-a", "0:1 1:1");
    group_rig_expect(rig, "2-a", "2:2 3:2");

    assert_int_equal(group_rig_leave(rig, "1-a"), 0);
    group_rig_expect(rig, "1-a", "unknown");
    group_rig_expect(rig, "2-a", "0:3 1:3 2:2 3:2");
    assert_int_equal(group_rig_leave(rig, "1-a"), 0);
    assert_int_equal(rig->records.length, 0);
}

static void test_more_members_than_partitions_wait(void **state)
{
    struct group_rig *rig = *state;

    group_rig_topic(rig, "u", 1);
    group_rig_join(rig, "1-a", "u");
    group_rig_join(rig, "1-b", "u");
    group_rig_expect(rig, "1-b", "");
    group_rig_leave(rig, "1-a");
    group_rig_expect(rig, "1-b", "0:3");
}

/* A release of what nobody asked for comes back under a generation of its own, so that
 * the same release, late, does nothing. */
static void test_stale_releases_are_nothing(void **state)
{
    struct group_rig *rig = *state;
    const struct group_released released[] = {{1, 1}, {7, 1}, {-1, 1}, {2, 9}};
    struct group_grant *grants;
    size_t count;

    group_rig_join(rig, "1-a", "t");
    for (int i = 0; i < 2; i++) {
        buf_clear(&rig->records);
        assert_int_equal(group_core_beat(rig->core, &rig->env, "1-a", released, 4,
                                         &rig->records, &grants, &count),
                         0);
        assert_int_equal(rig->records.length > 0, i == 0);
        free(grants);
        group_rig_expect(rig, "1-a", "0:1 1:2 2:1 3:1");
    }
}

static void test_commits_are_fenced(void **state)
{
    struct group_rig *rig = *state;
    const struct group_commit commits[] = {{0, 1, 5, 2}, {3, 1, 6, 2}, {9, 1, 1, 1}};
    bool refused[3];

    group_rig_join(rig, "1-a", "t");
    group_rig_join(rig, "2-a", "t");
    group_rig_release(rig, "1-a");
    buf_clear(&rig->records);
    assert_int_equal(group_core_commit(rig->core, &rig->env, "1-a", commits, 3, refused,
                                       &rig->records),
                     E_GROUP_FENCED);
    assert_false(refused[0]);
    assert_true(refused[1] && refused[2]);
    group_rig_expect_committed(rig, "t", 0, 5);
    group_rig_expect_committed(rig, "t", 3, -1);

    assert_int_equal(group_rig_commit(rig, "2-a", 3, 1, 5, 0), E_GROUP_FENCED);
    assert_int_equal(group_rig_commit(rig, "2-a", 3, 2, 5, 0), 0);
    assert_int_equal(group_rig_commit(rig, "2-x", 3, 2, 6, 0), E_GROUP_MEMBER_UNKNOWN);
    group_rig_expect_committed(rig, "t", 3, 5);
}

static void test_late_commits_are_passed_over(void **state)
{
    struct group_rig *rig = *state;

    group_rig_join(rig, "1-a", "t");
    assert_int_equal(group_rig_commit(rig, "1-a", 0, 1, 10, 3), 0);
    assert_int_equal(group_rig_commit(rig, "1-a", 0, 1, 8, 3), 0);
    assert_int_equal(rig->records.length, 0);
    assert_int_equal(group_rig_commit(rig, "1-a", 0, 1, 10, 3), 0);
    assert_int_equal(rig->records.length, 0);
    assert_int_equal(group_rig_commit(rig, "1-a", 0, 1, 9, -1), 0);
    group_rig_expect_committed(rig, "t", 0, 10);
    /* Messages were lost in an election. */
    assert_int_equal(group_rig_commit(rig, "1-a", 0, 1, 7, 4), 0);
    group_rig_expect_committed(rig, "t", 0, 7);
    assert_int_equal(group_rig_commit(rig, "1-a", 0, 1, 11, 3), 0);
    group_rig_expect_committed(rig, "t", 0, 7);
    assert_int_equal(group_rig_commit(rig, "1-a", 0, 1, 12, -1), 0);
    group_rig_expect_committed(rig, "t", 0, 12);
}

static void test_a_new_coordinator_goes_on(void **state)
{
    struct group_rig *rig = *state;
    char *before, *after;

    group_rig_join(rig, "1-a", "t");
    group_rig_join(rig, "2-a", "t");
    group_rig_release(rig, "1-a");
    group_rig_commit(rig, "2-a", 3, 2, 5, 0);
    before = group_rig_describe(rig->core);
    group_rig_reload(rig);
    after = group_rig_describe(rig->core);
    assert_string_equal(before, after);
    cJSON_free(before);
    cJSON_free(after);
    assert_int_equal(group_rig_tick(rig), 0);
    assert_int_equal(rig->records.length, 0);
    group_rig_expect(rig, "1-a", "0:1 1:1");
    group_rig_expect(rig, "2-a", "2:2 3:2");
    /* Half-way through a hand-over. */
    group_rig_leave(rig, "1-a");
    group_rig_join(rig, "3-a", "t");
    group_rig_reload(rig);
    group_rig_expect(rig, "2-a", "0:3 1:3 2:2! 3:2!");
    group_rig_expect(rig, "3-a", "");
}

static void test_offsets_are_set_without_members(void **state)
{
    struct group_rig *rig = *state;

    assert_int_equal(group_rig_set(rig, "t", 1, 9, 1), 0);
    assert_true(group_core_is_used(rig->core));
    group_rig_expect_committed(rig, "t", 1, 9);
    assert_int_equal(group_rig_set(rig, "t", 4, 9, 1), -EINVAL);
    assert_int_equal(group_rig_set(rig, "t", -1, 9, 1), -EINVAL);
    group_rig_join(rig, "1-a", "t");
    assert_int_equal(group_rig_set(rig, "t", 1, 3, 1), E_GROUP_BUSY);
    group_rig_leave(rig, "1-a");
    assert_int_equal(group_rig_set(rig, "t", 1, 3, 1), 0);
    group_rig_reload(rig);
    group_rig_expect_committed(rig, "t", 1, 3);
    assert_int_equal(group_rig_set(rig, "t", 1, -1, 1), 0);
    group_rig_expect_committed(rig, "t", 1, -1);
    assert_false(group_core_is_used(rig->core));
    group_rig_reload(rig);
    assert_false(group_core_is_used(rig->core));
}

static void test_manual_commits(void **state)
{
    struct group_rig *rig = *state;

    assert_int_equal(group_rig_configure(rig, "{\"commit\":\"manual\"}"), 0);
    group_rig_join(rig, "1-a", "t");
    group_rig_join(rig, "2-a", "t");
    group_rig_release(rig, "1-a");
    assert_int_equal(group_rig_set(rig, "t", 0, 9, 1), 0);
    assert_int_equal(group_rig_set(rig, "t", 0, 4, 1), 0);
    group_rig_expect_committed(rig, "t", 0, 4);
    assert_int_equal(group_rig_set(rig, "t", 0, 5, 2), E_GROUP_BUSY);
    assert_int_equal(group_rig_set(rig, "t", 3, 5, 2), 0);
    assert_int_equal(group_rig_set(rig, "t", 3, 5, 3), E_GROUP_BUSY);
}

/* A partition that this coordinator had not seen yet is given out with it. */
static void test_an_offset_of_a_new_partition(void **state)
{
    struct group_rig *rig = *state;

    assert_int_equal(group_rig_configure(rig, "{\"commit\":\"manual\"}"), 0);
    group_rig_join(rig, "1-a", "t");
    group_rig_topic(rig, "t", 5);
    assert_int_equal(group_rig_set(rig, "t", 4, 9, 1), 0);
    group_rig_expect(rig, "1-a", "0:1 1:1 2:1 3:1 4:2");
    group_rig_reload(rig);
    group_rig_expect(rig, "1-a", "0:1 1:1 2:1 3:1 4:2");
    group_rig_expect_committed(rig, "t", 4, 9);
}

static void test_settings(void **state)
{
    struct group_rig *rig = *state;
    uint64_t changes = group_core_changes(rig->core);

    assert_int_equal(group_rig_configure(rig, "{\"version\":1,\"start\":\"latest\"}"),
                     E_CONFLICT);
    assert_int_equal(group_rig_configure(rig, "{\"start\":\"never\"}"),
                     E_INVALID_CONFIG);
    assert_true(rig->why[0]);
    assert_int_equal(group_core_changes(rig->core), changes);
    assert_int_equal(group_rig_configure(rig, "{\"version\":0,\"start\":\"latest\"}"),
                     0);
    assert_true(group_core_changes(rig->core) > changes);
    assert_true(group_core_is_used(rig->core));
    group_rig_reload(rig);
    assert_int_equal(group_core_config(rig->core)->start, GROUP_START_LATEST);
    assert_int_equal(group_rig_configure(rig, "{\"version\":1,\"start\":null}"), 0);
    assert_int_equal(group_core_config(rig->core)->start, GROUP_START_EARLIEST);
}

/* What it began with stays, whatever the next coordinator's defaults are. */
static void test_a_group_keeps_its_settings(void **state)
{
    struct group_rig *rig = *state;

    group_rig_join(rig, "1-a", "t");
    rig->defaults.start = GROUP_START_LATEST;
    group_rig_reload(rig);
    assert_int_equal(group_core_config(rig->core)->start, GROUP_START_EARLIEST);
    group_rig_leave(rig, "1-a");
    assert_int_equal(group_core_config(rig->core)->start, GROUP_START_LATEST);
}

static void test_removal(void **state)
{
    struct group_rig *rig = *state;

    group_rig_configure(rig, "{\"commit\":\"manual\"}");
    group_rig_join(rig, "1-a", "t");
    group_rig_commit(rig, "1-a", 2, 1, 5, 0);
    buf_clear(&rig->records);
    assert_int_equal(group_core_remove(rig->core, &rig->env, &rig->records),
                     E_GROUP_BUSY);
    group_rig_leave(rig, "1-a");
    buf_clear(&rig->records);
    assert_int_equal(group_core_remove(rig->core, &rig->env, &rig->records), 0);
    assert_non_null(strstr(rig->records.data, "/2\t\n"));
    assert_non_null(strstr(rig->records.data, "g\t\n"));
    assert_int_equal(buf_add(&rig->log, rig->records.data, rig->records.length), 0);
    assert_false(group_core_is_used(rig->core));
    group_rig_reload(rig);
    assert_false(group_core_is_used(rig->core));
    assert_int_equal(group_core_config(rig->core)->commit, GROUP_COMMIT_AUTO);
}

/* Generations begin anew with a group that was removed. What was on its way under one
 * of the same number does not count: ids of members are never used twice. */
static void test_after_removal_old_members_are_unknown(void **state)
{
    struct group_rig *rig = *state;
    const struct group_released released = {2, 1};
    struct group_grant *grants = NULL;
    size_t count = 0;

    group_rig_join(rig, "1-a", "t");
    group_rig_leave(rig, "1-a");
    assert_int_equal(group_core_remove(rig->core, &rig->env, &rig->records), 0);
    group_rig_join(rig, "2-a", "t");
    group_rig_expect(rig, "2-a", "0:1 1:1 2:1 3:1");
    assert_int_equal(group_rig_commit(rig, "1-a", 2, 1, 5, 0), E_GROUP_MEMBER_UNKNOWN);
    assert_int_equal(group_core_beat(rig->core, &rig->env, "1-a", &released, 1,
                                     &rig->records, &grants, &count),
                     E_GROUP_MEMBER_UNKNOWN);
    free(grants);
    group_rig_expect_committed(rig, "t", 2, -1);
    group_rig_expect(rig, "2-a", "0:1 1:1 2:1 3:1");
}

static void test_refused_joins(void **state)
{
    struct group_rig *rig = *state;
    char id[GROUP_MEMBER_ID_MAX + 1];

    assert_int_equal(group_rig_join(rig, "1-\"", "t"), -EINVAL);
    assert_int_equal(group_rig_join(rig, "1-a", "nothing"), E_TOPIC_DELETED);
    assert_int_equal(group_rig_join(rig, "9-a", "t"), E_STALE_BROKER_EPOCH);
    group_rig_topic(rig, "u", 1);
    group_rig_join(rig, "1-a", "u");
    assert_int_equal(group_rig_join(rig, "1-a", "t"), -EINVAL);
    for (int i = 1; i < GROUP_MEMBERS_MAX; i++) {
        snprintf(id, sizeof id, "1-%d", i);
        assert_int_equal(group_rig_join(rig, id, "t"), 0);
        buf_clear(&rig->log);
    }
    assert_int_equal(group_rig_join(rig, "1-x", "t"), -EUSERS);
}

static void test_description(void **state)
{
    struct group_rig *rig = *state;
    char *text, *expected, id[TOPIC_ID_TEXT];
    struct topic_id topic_id = group_rig_topic_id(rig, "t");

    topic_id_format(&topic_id, id);
    group_rig_join(rig, "1-a", "t");
    group_rig_commit(rig, "1-a", 2, 1, 43, 5);
    text = group_rig_describe(rig->core);
    assert_true(
        asprintf(
            &expected,
            "{\"group\":\"g\",\"generation\":1,\"version\":0,\"config\":{\"version\":"
            "0,\"start\":\"earliest\",\"commit\":\"auto\","
            "\"group_session_timeout_ms\":10000,\"max_poll_interval_ms\":300000,"
            "\"offsets_retention_ms\":604800000},\"members\":[{\"id\":\"1-a\","
            "\"node\":1,\"topic\":\"t\",\"topic_id\":\"%s\",\"partitions\":[0,1,2,3],"
            "\"joined\":1764417600000}],\"offsets\":[{\"topic\":\"t\","
            "\"topic_id\":\"%s\",\"partition\":2,\"offset\":43,\"leader_epoch\":5,"
            "\"timestamp\":1764417600000}]}",
            id, id) > 0);
    assert_string_equal(text, expected);
    cJSON_free(text);
    free(expected);
}

#define TEST(test)                                                                     \
    cmocka_unit_test_setup_teardown(test, group_rig_setup, group_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first_member_has_everything),
        TEST(test_hand_over_is_by_release),
        TEST(test_more_members_than_partitions_wait),
        TEST(test_stale_releases_are_nothing),
        TEST(test_commits_are_fenced),
        TEST(test_late_commits_are_passed_over),
        TEST(test_a_new_coordinator_goes_on),
        TEST(test_offsets_are_set_without_members),
        TEST(test_manual_commits),
        TEST(test_an_offset_of_a_new_partition),
        TEST(test_settings),
        TEST(test_a_group_keeps_its_settings),
        TEST(test_removal),
        TEST(test_after_removal_old_members_are_unknown),
        TEST(test_refused_joins),
        TEST(test_description),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
