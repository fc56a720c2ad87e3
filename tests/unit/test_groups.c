/* Groups on one node, with its coordinator: members, and calls. */
#include "replica/group_coordinator.h"
#include "replica/partition_internal.h"
#include "tests/unit/support/group_user.h"
#include "tests/unit/support/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The real clock, that a test can put forward. */
struct test_clock {
    struct clock clock; /* first */
    _Atomic int64_t ahead_ms;
};

static int64_t mono_ns(const struct clock *clock)
{
    const struct test_clock *test = (const struct test_clock *)clock;
    return clock_real.mono_ns(&clock_real) +
           atomic_load(&test->ahead_ms) * INT64_C(1000000);
}

static int64_t wall_ms(const struct clock *clock)
{
    (void)clock;
    return clock_real.wall_ms(&clock_real);
}

struct fixture {
    struct node node;
    struct test_clock clock;
    struct groups *groups;
    struct topic_id topic;
};

static void start_groups(struct fixture *f)
{
    const struct groups_params params = {.config = &f->node.config,
                                         .cluster = f->node.cluster,
                                         .broker = f->node.broker,
                                         .problems = f->node.problems,
                                         .clock = &f->clock.clock};
    assert_int_equal(groups_start(&params, &f->groups), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->clock.clock = (struct clock){.mono_ns = mono_ns, .wall_ms = wall_ms};
    node_make(&f->node);
    node_start(&f->node);
    partition_unref(node_topic(&f->node, "t", "{\"partitions\":4,\"flush\":\"os\"}"));
    f->topic = node_topic_id(&f->node, "t");
    start_groups(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    groups_stop(f->groups);
    node_stop(&f->node);
    node_remove(&f->node);
    free(f);
    return 0;
}

static void restart(struct fixture *f)
{
    groups_stop(f->groups);
    node_stop(&f->node);
    node_start(&f->node);
    start_groups(f);
}

static struct group_user *join(struct fixture *f, const char *group)
{
    return group_user_join(f->groups, group, "t", &f->topic);
}

static void append(struct fixture *f, int32_t partition, const char *lines)
{
    struct partition *handle = node_partition(&f->node, "t", partition);
    assert_non_null(handle);
    assert_int_equal(node_append(handle, lines, NULL), 0);
    partition_unref(handle);
}

/* Takes one chunk, which must be this. */
static void expect(struct group_user *user, const char *text, struct group_chunk *chunk)
{
    char *taken = NULL;
    group_user_take(user, &taken, chunk);
    assert_string_equal(taken, text);
    free(taken);
}

static void configure(struct fixture *f, const char *group, const char *text)
{
    struct user_call call;
    cJSON *object = cJSON_Parse(text);
    cJSON *answer = NULL;
    assert_non_null(object);
    user_call_init(&call);
    groups_configure(f->groups, group, object, &call.call);
    cJSON_Delete(object);
    assert_int_equal(user_call_await(&call, &answer), 0);
    assert_true(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(answer, "commit")));
    cJSON_Delete(answer);
}

static void test_reads_and_commits(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    append(f, 2, "one\ntwo\n");
    struct group_user *user = join(f, "g");
    expect(user, "one\ntwo\n", &chunk);
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
    append(f, 2, "three\n");
    expect(user, "three\n", &chunk);
    group_user_leave(user);
    /* Leaving commits what was finished, and gives the rest to the next. */
    user = join(f, "g");
    expect(user, "three\n", &chunk);
    group_user_leave(user);
}

static void test_two_share(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    struct group_user *one = join(f, "g");
    group_user_until_partitions(one, 4);
    struct group_user *two = join(f, "g");
    group_user_until_partitions(two, 2);
    group_user_until_partitions(one, 2);
    append(f, 0, "zero\n");
    append(f, 3, "three\n");
    expect(one, "zero\n", &chunk);
    assert_int_equal(group_user_finish(one, &chunk), 0);
    expect(two, "three\n", &chunk);
    /* It goes without having finished: the other gets the line, too. */
    group_user_leave(two);
    group_user_until_partitions(one, 4);
    expect(one, "three\n", &chunk);
    group_user_leave(one);
}

/* Given up only once what is in hand is finished. */
static void test_in_hand_stays(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    struct group_chunk other;
    char *text = NULL;
    append(f, 3, "a\n");
    struct group_user *one = join(f, "g");
    expect(one, "a\n", &chunk);
    struct group_user *two = join(f, "g");
    group_user_until_partitions(one, 3);
    group_user_until_partitions(two, 1);
    append(f, 3, "b\n");
    assert_int_equal(group_user_try(one, 50, &text, &other), 0);
    assert_int_equal(group_user_try(two, 50, &text, &other), 0);
    assert_int_equal(group_user_finish(one, &chunk), 0);
    expect(two, "b\n", &other);
    assert_int_equal(group_user_finish(one, &chunk), E_GROUP_FENCED);
    group_user_leave(one);
    group_user_leave(two);
}

static void test_groups_are_independent(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    append(f, 0, "line\n");
    struct group_user *one = join(f, "g");
    struct group_user *two = join(f, "h");
    expect(one, "line\n", &chunk);
    expect(two, "line\n", &chunk);
    group_user_leave(one);
    group_user_leave(two);
}

static void test_latest(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    append(f, 0, "old\n");
    configure(f, "g", "{\"start\":\"latest\"}");
    struct group_user *user = join(f, "g");
    group_user_until_partitions(user, 4);
    while (group_user_offset(f->groups, "g", 0) != 1) {
        struct group_chunk none;
        char *text = NULL;
        assert_int_equal(group_user_try(user, 10, &text, &none), 0);
    }
    append(f, 0, "new\n");
    expect(user, "new\n", &chunk);
    group_user_leave(user);
}

static void test_manual(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    struct user_call call;
    struct group_member_status status;
    append(f, 0, "a\nb\n");
    configure(f, "g", "{\"commit\":\"manual\"}");
    struct group_user *user = join(f, "g");
    expect(user, "a\nb\n", &chunk);
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
    user = join(f, "g");
    expect(user, "b\n", &chunk);
    group_user_leave(user);
}

/* Who doesn't come back is removed, and comes back with its next touch. */
static void test_max_poll(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    struct group_member_status before;
    struct group_member_status after;
    append(f, 0, "a\n");
    configure(f, "g", "{\"max_poll_interval_ms\":60000}");
    struct group_user *one = join(f, "g");
    expect(one, "a\n", &chunk);
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
    struct group_user *two = join(f, "g");
    expect(two, "a\n", &chunk);
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
    struct fixture *f = *state;
    struct group_chunk chunk;
    append(f, 1, "a\nb\n");
    struct group_user *user = join(f, "g");
    expect(user, "a\nb\n", &chunk);
    assert_int_equal(group_member_finish(user->member, &chunk, 1), 0);
    group_user_leave(user); /* commits behind our back */
    restart(f);
    assert_int_equal(group_user_offset(f->groups, "g", 1), 1);
    user = join(f, "g");
    expect(user, "b\n", &chunk);
    group_user_leave(user);
}

/* A commit carries the epoch of the message before it, not of others that were read in
 * the same go: the next member's would seem to go back. */
static void test_epochs_of_commits(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    append(f, 1, "a\nb\nc\n");
    restart(f); /* to be in a later epoch */
    append(f, 1, "d\n");
    struct group_user *user = join(f, "g");
    expect(user, "a\nb\nc\n", &chunk);
    assert_int_equal(group_member_finish(user->member, &chunk, 1), 0);
    assert_int_equal(group_user_sync(user), 0);
    group_user_leave(user);
    user = join(f, "g");
    user->take_bytes = 3;
    expect(user, "b\n", &chunk);
    assert_int_equal(group_user_finish(user, &chunk), 0);
    assert_int_equal(group_user_sync(user), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 1), 2);
    group_user_leave(user);
    user = join(f, "g");
    expect(user, "c\n", &chunk);
    expect(user, "d\n", &chunk);
    group_user_leave(user);
}

static void test_calls(void **state)
{
    struct fixture *f = *state;
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

    append(f, 1, "a\nb\nc\n");
    struct group_user *user = join(f, "zz");
    expect(user, "a\nb\nc\n", &chunk);
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

static int locate(struct fixture *f, int32_t partition, enum groups_place_kind kind,
                  int64_t value, int64_t *offset)
{
    struct user_call call;
    cJSON *answer = NULL;
    user_call_init(&call);
    groups_locate(f->groups, &f->topic, partition, kind, value, &call.call);
    int rc = user_call_await(&call, &answer);
    if (!rc) {
        assert_int_equal(json_get_i64(answer, "offset", offset), 0);
    }
    cJSON_Delete(answer);
    return rc;
}

static void test_locate(void **state)
{
    struct fixture *f = *state;
    int64_t offset = -1;
    append(f, 0, "a\nb\nc\n");
    assert_int_equal(locate(f, 0, GROUPS_PLACE_EARLIEST, 0, &offset), 0);
    assert_int_equal(offset, 0);
    assert_int_equal(locate(f, 0, GROUPS_PLACE_LATEST, 0, &offset), 0);
    assert_int_equal(offset, 3);
    assert_int_equal(locate(f, 0, GROUPS_PLACE_LAST, 1, &offset), 0);
    assert_int_equal(offset, 2);
    assert_int_equal(locate(f, 0, GROUPS_PLACE_OFFSET, 3, &offset), 0);
    assert_int_equal(locate(f, 0, GROUPS_PLACE_OFFSET, 4, &offset), -ERANGE);
    assert_int_equal(locate(f, 0, GROUPS_PLACE_TIME, 0, &offset), 0);
    assert_int_equal(offset, 0);
}

static void set_offset(struct fixture *f, const char *group, int64_t offset,
                       int32_t epoch)
{
    struct user_call call;
    user_call_init(&call);
    groups_set_offset(f->groups, group, "t", &f->topic, 0, offset, epoch, &call.call);
    assert_int_equal(user_call_await(&call, NULL), 0);
}

/* As retention does it. */
static void raise_start(struct fixture *f, int64_t offset)
{
    struct partition *handle = node_partition(&f->node, "t", 0);
    pthread_mutex_lock(&handle->append_lock);
    assert_int_equal(log_raise_start(handle->log, offset), 0);
    pthread_mutex_unlock(&handle->append_lock);
    partition_unref(handle);
}

static void expect_problem(struct fixture *f, const char *part)
{
    char *problems = node_problems(&f->node);
    if (!strstr(problems, part)) {
        fail_msg("no \"%s\" in: %s", part, problems);
    }
    free(problems);
}

/* Passed over, and said so: before the member came, and while it reads. */
static void test_deleted_before_it_was_read(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    append(f, 0, "a\n");
    append(f, 0, "b\n");
    append(f, 0, "c\n");
    set_offset(f, "g", 1, -1);
    raise_start(f, 2);
    struct group_user *user = join(f, "g");
    expect(user, "c\n", &chunk);
    assert_int_equal(chunk.first_offset, 2);
    assert_int_equal(group_user_sync(user), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 2);
    expect_problem(f, "kind=group g/t/0: offsets 1 to 1 were deleted");
    assert_int_equal(group_user_finish(user, &chunk), 0);
    append(f, 0, "d\n");
    append(f, 0, "e\n");
    raise_start(f, 4);
    expect(user, "e\n", &chunk);
    expect_problem(f, "kind=group g/t/0: offsets 3 to 3 were deleted");
    assert_int_equal(group_user_finish(user, &chunk), 0);
    assert_int_equal(group_user_sync(user), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 5);
    group_user_leave(user);
}

/* A leader that lacks what was committed is given a while; then it goes on at its end.
 */
static void test_beyond_the_end(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    char *text = NULL;
    append(f, 0, "a\n");
    restart(f); /* to be in a later epoch */
    set_offset(f, "g", 100, 0);
    struct group_user *user = join(f, "g");
    group_user_until_partitions(user, 4);
    assert_int_equal(group_user_try(user, 50, &text, &chunk), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 100);
    for (int i = 0; i < 20 && group_user_offset(f->groups, "g", 0) != 1; i++) {
        atomic_fetch_add(&f->clock.ahead_ms, 2000);
        assert_int_equal(group_user_try(user, 50, &text, &chunk), 0);
    }
    assert_int_equal(group_user_offset(f->groups, "g", 0), 1);
    expect_problem(f, "kind=group g/t/0: the log ends at offset 1");
    append(f, 0, "b\n");
    expect(user, "b\n", &chunk);
    group_user_leave(user);
}

static void test_topic_deleted(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    char *text = NULL;
    char why[256];
    struct group_user *user = join(f, "g");
    group_user_until_partitions(user, 4);
    assert_int_equal(cluster_delete_topic(f->node.cluster, "t", why, sizeof why), 0);
    group_user_until_state(user, GROUP_FAILED);
    assert_int_equal(group_user_try(user, 10, &text, &chunk), E_TOPIC_DELETED);
    group_user_leave(user);
}

static void test_partition_added(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    char why[256];
    struct group_user *user = join(f, "g");
    group_user_until_partitions(user, 4);
    assert_int_equal(cluster_add_partition(f->node.cluster, "t", 4, why, sizeof why),
                     0);
    group_user_until_partitions(user, 5);
    append(f, 4, "new\n");
    expect(user, "new\n", &chunk);
    group_user_leave(user);
}

static void test_interrupt(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    struct user_call call;
    char *text = NULL;
    append(f, 0, "a\n");
    struct group_user *user = join(f, "g");
    expect(user, "a\n", &chunk);
    groups_interrupt(f->groups);
    group_user_until_state(user, GROUP_FAILED);
    assert_int_equal(group_user_try(user, 10, &text, &chunk), E_OFFLINE);
    user_call_init(&call);
    groups_list(f->groups, &call.call);
    assert_int_equal(user_call_await(&call, NULL), E_OFFLINE);
    /* What is finished still counts. */
    assert_int_equal(group_user_finish(user, &chunk), 0);
    group_user_leave(user);
    restart(f);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 1);
}

/* As a mount ends: everything that waits is woken, and still nothing is lost. */
static void test_commits_behind_an_interrupted_broker(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    append(f, 0, "a\n");
    struct group_user *user = join(f, "g");
    expect(user, "a\n", &chunk);
    groups_interrupt(f->groups);
    broker_interrupt_waiters(f->node.broker);
    assert_int_equal(group_user_finish(user, &chunk), 0);
    group_user_leave(user);
    restart(f);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 1);
}

static void test_after_leave(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    struct group_member *member = NULL;
    struct user_call call;
    struct buf out;
    char *text = NULL;
    append(f, 0, "a\n");
    struct group_user *user = join(f, "g");
    expect(user, "a\n", &chunk);
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
    struct fixture *f = *state;
    for (int i = 0; i < 20; i++) {
        struct user_call call;
        user_call_init(&call);
        groups_describe(f->groups, "g", true, &call.call);
        if (!groups_call_cancel(f->groups, &call.call)) {
            assert_int_equal(user_call_await(&call, NULL), 0);
        }
    }
}

/* Offsets have no gap in a chunk, and a long line is given whole. */
static void test_chunks(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    struct buf out;
    size_t length = (size_t)200 * 1024;
    char *line = malloc(length + 2);
    assert_non_null(line);
    memset(line, 'x', length);
    line[length] = '\n';
    line[length + 1] = '\0';
    append(f, 0, "a\nb\n");
    append(f, 0, "c\n");
    append(f, 0, line);
    struct group_user *user = join(f, "g");
    group_user_until_partitions(user, 4);
    while (!group_member_ready(user->member)) {
        struct group_chunk none;
        (void)none;
        (void)group_user_offset(f->groups, "g", 0);
    }
    buf_init(&out, 1 << 20);
    assert_int_equal(group_member_take(user->member, 3, false, &out, &chunk), 1);
    assert_string_equal(out.data, "a\n");
    assert_int_equal(group_member_take(user->member, 100, true, &out, &chunk), 1);
    assert_string_equal(out.data, "a\nb\n");
    assert_int_equal(chunk.first_offset, 1);
    assert_int_equal(group_member_take(user->member, 3, false, &out, &chunk), 1);
    assert_string_equal(out.data, "a\nb\nc\n");
    buf_clear(&out);
    assert_int_equal(group_member_take(user->member, 10, false, &out, &chunk), 1);
    assert_int_equal(out.length, length + 1);
    assert_int_equal(chunk.next_offset, 4);
    assert_false(group_member_ready(user->member));
    buf_free(&out);
    free(line);
    group_user_leave(user);
}

enum { CHURN_LINES = 400, CHURN_THREADS = 3, CHURN_ROUNDS = 12 };

struct churn {
    struct fixture *f;
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
        struct group_user *user = join(churn->f, "g");
        use_for_a_while(churn, user, rand_r(&churn->seed) % 8);
        group_user_leave(user);
    }
    return NULL;
}

/* Members come and go: every line is given out, and what was finished is not given out
 * again, because all of them leave in peace. */
static void test_churn(void **state)
{
    struct fixture *f = *state;
    static atomic_int seen[CHURN_LINES];
    static atomic_int finished[CHURN_LINES];
    pthread_t threads[CHURN_THREADS];
    struct churn churns[CHURN_THREADS];
    for (int i = 0; i < CHURN_LINES; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "%d\n", i);
        append(f, i % 4, line);
    }
    for (unsigned i = 0; i < CHURN_THREADS; i++) {
        churns[i] = (struct churn){f, i + 1, seen, finished};
        assert_int_equal(pthread_create(&threads[i], NULL, churn_main, &churns[i]), 0);
    }
    for (unsigned i = 0; i < CHURN_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    struct group_user *user = join(f, "g");
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
    struct fixture *f = *state;
    struct group_user *users[GROUPS];
    int64_t begin_ms = clock_mono_ms(&clock_real);
    int count = 0;
    for (int i = 0; count < GROUPS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "g%d", i);
        if (group_wire_shard(name, GROUP_SHARDS) == 0) {
            users[count] = join(f, name);
            group_user_until_partitions(users[count], 4);
            count++;
        }
    }
    assert_in_range(clock_mono_ms(&clock_real) - begin_ms, 0, 2000);
    for (int i = 0; i < GROUPS; i++) {
        group_user_leave(users[i]);
    }
}

static void test_metrics(void **state)
{
    struct fixture *f = *state;
    struct group_chunk chunk;
    struct buf out;
    append(f, 0, "a\nb\n");
    struct group_user *user = join(f, "g");
    expect(user, "a\nb\n", &chunk);
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

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

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
        TEST(test_epochs_of_commits),
        TEST(test_calls),
        TEST(test_locate),
        TEST(test_deleted_before_it_was_read),
        TEST(test_beyond_the_end),
        TEST(test_topic_deleted),
        TEST(test_partition_added),
        TEST(test_interrupt),
        TEST(test_commits_behind_an_interrupted_broker),
        TEST(test_after_leave),
        TEST(test_cancel_call),
        TEST(test_chunks),
        TEST(test_metrics),
        TEST(test_churn),
        TEST(test_many_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
