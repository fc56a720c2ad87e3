/* Groups on one node, with its coordinator: members, and calls. */
#include "replica/group_coordinator.h"
#include "replica/group_record.h"
#include "tests/unit/support/groups_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_reads_and_commits(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    groups_rig_append(f, 2, "one\ntwo\n");
    struct group_user *user = groups_rig_join(f, "g");
    group_user_expect(user, "one\ntwo\n", &chunk);
    assert_int_equal(chunk.partition, 2);
    assert_int_equal(chunk.first_offset, 0);
    assert_int_equal(chunk.next_offset, 2);
    assert_int_equal(chunk.count, 2);
    /* Where it began is committed, and no more. */
    assert_int_equal(group_user_offset(f->groups, "g", 2), 0);
    assert_int_equal(group_member_finish(user->member, &chunk, 1), 0);
    assert_int_equal(group_user_sync(user), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 2), 1);
    assert_int_equal(group_user_finish(user, &chunk), 0);
    groups_rig_append(f, 2, "three\n");
    group_user_expect(user, "three\n", &chunk);
    group_user_leave(user);
    /* Leaving commits what was finished, and gives the rest to the next. */
    user = groups_rig_join(f, "g");
    group_user_expect(user, "three\n", &chunk);
    group_user_leave(user);
}

static void test_two_share(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    struct group_user *one = groups_rig_join(f, "g");
    group_user_until_partitions(one, 4);
    struct group_user *two = groups_rig_join(f, "g");
    group_user_until_partitions(two, 2);
    group_user_until_partitions(one, 2);
    groups_rig_append(f, 0, "zero\n");
    groups_rig_append(f, 3, "three\n");
    group_user_expect(one, "zero\n", &chunk);
    assert_int_equal(group_user_finish(one, &chunk), 0);
    group_user_expect(two, "three\n", &chunk);
    /* It goes without having finished: the other gets the line, too. */
    group_user_leave(two);
    group_user_until_partitions(one, 4);
    group_user_expect(one, "three\n", &chunk);
    group_user_leave(one);
}

/* Given up only once what is in hand is finished. */
static void test_in_hand_stays(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    struct group_chunk other;
    char *text = NULL;
    groups_rig_append(f, 3, "a\n");
    struct group_user *one = groups_rig_join(f, "g");
    group_user_expect(one, "a\n", &chunk);
    struct group_user *two = groups_rig_join(f, "g");
    group_user_until_partitions(one, 3);
    group_user_until_partitions(two, 1);
    groups_rig_append(f, 3, "b\n");
    assert_int_equal(group_user_try(one, 50, &text, &other), 0);
    assert_int_equal(group_user_try(two, 50, &text, &other), 0);
    assert_int_equal(group_user_finish(one, &chunk), 0);
    group_user_expect(two, "b\n", &other);
    assert_int_equal(group_user_finish(one, &chunk), E_GROUP_FENCED);
    group_user_leave(one);
    group_user_leave(two);
}

static void test_groups_are_independent(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    groups_rig_append(f, 0, "line\n");
    struct group_user *one = groups_rig_join(f, "g");
    struct group_user *two = groups_rig_join(f, "h");
    group_user_expect(one, "line\n", &chunk);
    group_user_expect(two, "line\n", &chunk);
    group_user_leave(one);
    group_user_leave(two);
}

static void test_latest(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    groups_rig_append(f, 0, "old\n");
    groups_rig_configure(f, "g", "{\"start\":\"latest\"}");
    struct group_user *user = groups_rig_join(f, "g");
    group_user_until_partitions(user, 4);
    while (group_user_offset(f->groups, "g", 0) != 1) {
        struct group_chunk none;
        char *text = NULL;
        assert_int_equal(group_user_try(user, 10, &text, &none), 0);
    }
    groups_rig_append(f, 0, "new\n");
    group_user_expect(user, "new\n", &chunk);
    group_user_leave(user);
}

static void test_manual(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    struct user_call call;
    struct group_member_status status;
    groups_rig_append(f, 0, "a\nb\n");
    groups_rig_configure(f, "g", "{\"commit\":\"manual\"}");
    struct group_user *user = groups_rig_join(f, "g");
    group_user_expect(user, "a\nb\n", &chunk);
    group_member_status(user->member, &status);
    assert_true(status.manual);
    assert_int_equal(group_user_finish(user, &chunk), 0);
    assert_int_equal(group_user_sync(user), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 0);
    user_call_init(&call);
    groups_set_offset(f->groups, "g", "t", &f->topic, 0, 1, chunk.leader_epoch,
                      &call.call);
    assert_int_equal(user_call_await(&call, NULL), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 1);
    group_user_leave(user);
    user = groups_rig_join(f, "g");
    group_user_expect(user, "b\n", &chunk);
    group_user_leave(user);
}

/* Who doesn't come back is removed, and comes back with its next touch. */
static void test_max_poll(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    struct group_member_status before;
    struct group_member_status after;
    groups_rig_append(f, 0, "a\n");
    groups_rig_configure(f, "g", "{\"max_poll_interval_ms\":60000}");
    struct group_user *one = groups_rig_join(f, "g");
    group_user_expect(one, "a\n", &chunk);
    group_member_status(one->member, &before);
    atomic_fetch_add(&f->clock.ahead_ms, 3000); /* beats go on meanwhile */
    group_user_until_partitions(one, 4);
    /* In steps that no session ends in. */
    for (int i = 0; i < 30 && before.partitions > 0; i++) {
        atomic_fetch_add(&f->clock.ahead_ms, 3000);
        (void)group_user_offset(f->groups, "g", 0);
        group_member_status(one->member, &before);
    }
    group_user_until_state(one, GROUP_JOINING);
    assert_int_equal(group_user_finish(one, &chunk), E_GROUP_FENCED);
    struct group_user *two = groups_rig_join(f, "g");
    group_user_expect(two, "a\n", &chunk);
    group_user_until_partitions(two, 4);
    group_member_touch(one->member, true);
    group_user_until_partitions(one, 2);
    group_member_status(one->member, &after);
    assert_string_not_equal(before.id, after.id);
    group_user_leave(one);
    group_user_leave(two);
}

static void test_restart_goes_on(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    groups_rig_append(f, 1, "a\nb\n");
    struct group_user *user = groups_rig_join(f, "g");
    group_user_expect(user, "a\nb\n", &chunk);
    assert_int_equal(group_member_finish(user->member, &chunk, 1), 0);
    group_user_leave(user); /* commits behind our back */
    groups_rig_restart(f);
    assert_int_equal(group_user_offset(f->groups, "g", 1), 1);
    user = groups_rig_join(f, "g");
    group_user_expect(user, "b\n", &chunk);
    group_user_leave(user);
}

static void test_calls(void **state)
{
    struct groups_rig *f = *state;
    struct user_call call;
    struct group_chunk chunk;
    cJSON *answer = NULL;
    int64_t value = 0;
    /* Nothing was ever used. */
    user_call_init(&call);
    groups_list(f->groups, &call.call);
    assert_int_equal(user_call_await(&call, &answer), 0);
    assert_int_equal(cJSON_GetArraySize(answer), 0);
    cJSON_Delete(answer);
    answer = group_user_describe(f->groups, "g", true);
    assert_int_equal(
        cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(answer, "offsets")), 0);
    cJSON_Delete(answer);
    user_call_init(&call);
    groups_remove(f->groups, "g", &call.call);
    assert_int_equal(user_call_await(&call, NULL), 0);

    groups_rig_append(f, 1, "a\nb\nc\n");
    struct group_user *user = groups_rig_join(f, "zz");
    group_user_expect(user, "a\nb\nc\n", &chunk);
    assert_int_equal(group_member_finish(user->member, &chunk, 2), 0);
    assert_int_equal(group_user_sync(user), 0);
    user_call_init(&call);
    groups_set_offset(f->groups, "zz", "t", &f->topic, 1, 0, -1, &call.call);
    assert_int_equal(user_call_await(&call, NULL), E_GROUP_BUSY);
    user_call_init(&call);
    groups_remove(f->groups, "zz", &call.call);
    assert_int_equal(user_call_await(&call, NULL), E_GROUP_BUSY);

    answer = group_user_describe(f->groups, "zz", true);
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(answer, "offsets");
    assert_int_equal(cJSON_GetArraySize(offsets), 4);
    const cJSON *entry = group_user_entry(answer, 1);
    assert_non_null(entry);
    assert_ptr_equal(entry, cJSON_GetArrayItem(offsets, 1));
    assert_int_equal(json_get_i64(entry, "offset", &value), 0);
    assert_int_equal(value, 2);
    assert_int_equal(json_get_i64(entry, "end", &value), 0);
    assert_int_equal(value, 3);
    assert_int_equal(json_get_i64(entry, "log_start", &value), 0);
    assert_int_equal(value, 0);
    cJSON_Delete(answer);
    group_user_leave(user);

    user_call_init(&call);
    groups_set_offset(f->groups, "a", "t", &f->topic, 1, 3, -1, &call.call);
    assert_int_equal(user_call_await(&call, NULL), 0);
    user_call_init(&call);
    groups_list(f->groups, &call.call);
    assert_int_equal(user_call_await(&call, &answer), 0);
    assert_int_equal(cJSON_GetArraySize(answer), 2);
    assert_string_equal(cJSON_GetArrayItem(answer, 0)->valuestring, "a");
    assert_string_equal(cJSON_GetArrayItem(answer, 1)->valuestring, "zz");
    cJSON_Delete(answer);
    user_call_init(&call);
    groups_remove(f->groups, "a", &call.call);
    assert_int_equal(user_call_await(&call, NULL), 0);
    assert_int_equal(group_user_offset(f->groups, "a", 1), -1);
}

static void test_topic_deleted(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    char *text = NULL;
    char why[256];
    struct group_user *user = groups_rig_join(f, "g");
    group_user_until_partitions(user, 4);
    assert_int_equal(cluster_delete_topic(f->node.cluster, "t", why, sizeof why), 0);
    group_user_until_state(user, GROUP_FAILED);
    assert_int_equal(group_user_try(user, 10, &text, &chunk), E_TOPIC_DELETED);
    group_user_leave(user);
}

static void test_partition_added(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    char why[256];
    struct group_user *user = groups_rig_join(f, "g");
    group_user_until_partitions(user, 4);
    assert_int_equal(cluster_add_partition(f->node.cluster, "t", 4, why, sizeof why),
                     0);
    group_user_until_partitions(user, 5);
    groups_rig_append(f, 4, "new\n");
    group_user_expect(user, "new\n", &chunk);
    group_user_leave(user);
}

static void test_interrupt(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    struct user_call call;
    char *text = NULL;
    groups_rig_append(f, 0, "a\n");
    struct group_user *user = groups_rig_join(f, "g");
    group_user_expect(user, "a\n", &chunk);
    groups_interrupt(f->groups);
    group_user_until_state(user, GROUP_FAILED);
    assert_int_equal(group_user_try(user, 10, &text, &chunk), E_OFFLINE);
    user_call_init(&call);
    groups_list(f->groups, &call.call);
    assert_int_equal(user_call_await(&call, NULL), E_OFFLINE);
    /* What is finished still counts. */
    assert_int_equal(group_user_finish(user, &chunk), 0);
    group_user_leave(user);
    groups_rig_restart(f);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 1);
}

/* As a mount ends: everything that waits is woken, and still nothing is lost. */
static void test_commits_behind_an_interrupted_broker(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    groups_rig_append(f, 0, "a\n");
    struct group_user *user = groups_rig_join(f, "g");
    group_user_expect(user, "a\n", &chunk);
    groups_interrupt(f->groups);
    broker_interrupt_waiters(f->node.broker);
    assert_int_equal(group_user_finish(user, &chunk), 0);
    group_user_leave(user);
    groups_rig_restart(f);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 1);
}

static void test_after_leave(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    struct group_member *member = NULL;
    struct user_call call;
    struct buf out;
    char *text = NULL;
    groups_rig_append(f, 0, "a\n");
    struct group_user *user = groups_rig_join(f, "g");
    group_user_expect(user, "a\n", &chunk);
    groups_leave(f->groups);
    assert_int_equal(group_user_try(user, 0, &text, &chunk), E_OFFLINE);
    assert_int_equal(group_user_sync(user), E_OFFLINE);
    user_call_init(&call);
    groups_describe(f->groups, "g", true, &call.call);
    assert_int_equal(user_call_await(&call, NULL), E_OFFLINE);
    const struct group_member_params params = {
        .group = "g", .topic = "t", .topic_id = f->topic};
    assert_int_equal(group_member_join(f->groups, &params, &member), E_OFFLINE);
    buf_init(&out, 1 << 20);
    assert_int_equal(groups_metrics(f->groups, &out), 0);
    buf_free(&out);
    group_user_leave(user);
}

static void test_cancel_call(void **state)
{
    struct groups_rig *f = *state;
    for (int i = 0; i < 20; i++) {
        struct user_call call;
        user_call_init(&call);
        groups_describe(f->groups, "g", true, &call.call);
        if (!groups_call_cancel(f->groups, &call.call)) {
            assert_int_equal(user_call_await(&call, NULL), 0);
        }
    }
}

enum { CHURN_LINES = 400, CHURN_THREADS = 3, CHURN_ROUNDS = 12 };

struct churn {
    struct groups_rig *f;
    unsigned seed;
    atomic_int *seen;
    atomic_int *finished;
};

static void count_lines(atomic_int *counts, const char *text)
{
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        long number = strtol(line, NULL, 10);
        if (number >= 0 && number < CHURN_LINES) {
            atomic_fetch_add(&counts[number], 1);
        }
    }
}

/* Takes a few chunks; finishes them all, but for the last one now and then. */
static void use_for_a_while(struct churn *churn, struct group_user *user, int chunks)
{
    user->take_bytes = 12;
    for (int i = 0; i < chunks; i++) {
        struct group_chunk chunk;
        char *text = NULL;
        if (group_user_try(user, 30, &text, &chunk) != 1) {
            return;
        }
        count_lines(churn->seen, text);
        bool leaves_it = i == chunks - 1 && rand_r(&churn->seed) % 2 == 0;
        if (!leaves_it && group_user_finish(user, &chunk) == 0) {
            count_lines(churn->finished, text);
        }
        free(text);
    }
}

static void *churn_main(void *arg)
{
    struct churn *churn = arg;
    for (int i = 0; i < CHURN_ROUNDS; i++) {
        struct group_user *user = groups_rig_join(churn->f, "g");
        use_for_a_while(churn, user, rand_r(&churn->seed) % 8);
        group_user_leave(user);
    }
    return NULL;
}

/* Members come and go: every line is given out, and what was finished is not given out
 * again, because all of them leave in peace. */
static void test_churn(void **state)
{
    struct groups_rig *f = *state;
    static atomic_int seen[CHURN_LINES];
    static atomic_int finished[CHURN_LINES];
    pthread_t threads[CHURN_THREADS];
    struct churn churns[CHURN_THREADS];
    for (int i = 0; i < CHURN_LINES; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "%d\n", i);
        groups_rig_append(f, i % 4, line);
    }
    for (unsigned i = 0; i < CHURN_THREADS; i++) {
        churns[i] = (struct churn){f, i + 1, seen, finished};
        assert_int_equal(pthread_create(&threads[i], NULL, churn_main, &churns[i]), 0);
    }
    for (unsigned i = 0; i < CHURN_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    struct group_user *user = groups_rig_join(f, "g");
    group_user_until_partitions(user, 4);
    use_for_a_while(&churns[0], user, CHURN_LINES);
    assert_int_equal(group_user_sync(user), 0);
    group_user_leave(user);
    for (int i = 0; i < CHURN_LINES; i++) {
        assert_true(atomic_load(&seen[i]) > 0);
        assert_int_equal(atomic_load(&finished[i]), 1);
    }
}

/* However many groups of one shard begin at once: none waits for the beats of the
 * others to come back. */
static void test_many_groups(void **state)
{
    enum { GROUPS = 12 };
    struct groups_rig *f = *state;
    struct group_user *users[GROUPS];
    int64_t begin_ms = clock_mono_ms(&clock_real);
    int count = 0;
    for (int i = 0; count < GROUPS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "g%d", i);
        if (group_wire_shard(name, GROUP_SHARDS) == 0) {
            users[count] = groups_rig_join(f, name);
            group_user_until_partitions(users[count], 4);
            count++;
        }
    }
    assert_in_range(clock_mono_ms(&clock_real) - begin_ms, 0, 2000);
    for (int i = 0; i < GROUPS; i++) {
        group_user_leave(users[i]);
    }
}

/* There is no use in waiting for room. */
static void test_full_group(void **state)
{
    struct groups_rig *f = *state;
    struct group_record_topic topic = {
        .name = "t", .id = f->topic, .partitions = 4, .left_ms = -1};
    struct group_record record = {.generation = 1, .topics = &topic, .topic_count = 1};
    struct group_member_status status;
    struct buf line;
    record.config = f->node.config.group;
    record.member_count = GROUP_MEMBERS_MAX;
    record.members = calloc(GROUP_MEMBERS_MAX, sizeof *record.members);
    assert_non_null(record.members);
    for (int i = 0; i < GROUP_MEMBERS_MAX; i++) {
        struct group_record_member *member = &record.members[i];
        (void)snprintf(member->id, sizeof member->id, "1-x-%04d", i);
        member->node = (struct broker_incarnation){1, INT64_C(1) << 40}; /* for ever */
        (void)snprintf(member->topic, sizeof member->topic, "t");
        member->topic_id = f->topic;
    }
    buf_init(&line, 1 << 20);
    assert_int_equal(group_record_encode("g", &record, &line), 0);
    free(record.members);
    struct group_user *user = groups_rig_join(f, "h"); /* makes the groups' topic */
    group_user_until_partitions(user, 4);
    group_user_leave(user);
    struct partition *shard =
        node_partition(&f->node, GROUPS_TOPIC, group_wire_shard("g", GROUP_SHARDS));
    assert_int_equal(node_append(shard, line.data, NULL), 0);
    partition_unref(shard);
    buf_free(&line);
    groups_rig_restart(f);
    user = groups_rig_join(f, "g");
    group_user_until_state(user, GROUP_FAILED);
    group_member_status(user->member, &status);
    assert_int_equal(status.error, -EUSERS);
    group_user_leave(user);
}

static void test_metrics(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    struct buf out;
    groups_rig_append(f, 0, "a\nb\n");
    struct group_user *user = groups_rig_join(f, "g");
    group_user_expect(user, "a\nb\n", &chunk);
    assert_int_equal(group_member_finish(user->member, &chunk, 1), 0);
    assert_int_equal(group_user_sync(user), 0);
    bool found = false;
    for (int i = 0; i < 1000 && !found; i++) {
        buf_init(&out, 1 << 20);
        assert_int_equal(groups_metrics(f->groups, &out), 0);
        found = out.data &&
                strstr(out.data, "topicfs_group_lag{group=\"g\",topic=\"t\","
                                 "partition=\"0\"} 1\n") &&
                strstr(out.data, "topicfs_group_members{group=\"g\"} 1\n");
        buf_free(&out);
        (void)group_user_offset(f->groups, "g", 0);
    }
    assert_true(found);
    group_user_leave(user);
}

#define TEST(test)                                                                     \
    cmocka_unit_test_setup_teardown(test, groups_rig_setup, groups_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_reads_and_commits),
        TEST(test_two_share),
        TEST(test_in_hand_stays),
        TEST(test_groups_are_independent),
        TEST(test_latest),
        TEST(test_manual),
        TEST(test_max_poll),
        TEST(test_restart_goes_on),
        TEST(test_calls),
        TEST(test_topic_deleted),
        TEST(test_partition_added),
        TEST(test_interrupt),
        TEST(test_commits_behind_an_interrupted_broker),
        TEST(test_after_leave),
        TEST(test_cancel_call),
        TEST(test_full_group),
        TEST(test_metrics),
        TEST(test_churn),
        TEST(test_many_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
