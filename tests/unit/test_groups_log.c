/* Groups on one node: where in the log a member begins, goes on, and commits. */
#include "replica/partition_internal.h"
#include "tests/unit/support/groups_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Offsets have no gap in a chunk, and a long line is given whole. */
static void test_chunks(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    struct buf out;
    size_t length = (size_t)200 * 1024;
    char *line = malloc(length + 2);
    assert_non_null(line);
    memset(line, 'x', length);
    line[length] = '\n';
    line[length + 1] = '\0';
    groups_rig_append(f, 0, "a\nb\n");
    groups_rig_append(f, 0, "c\n");
    groups_rig_append(f, 0, line);
    struct group_user *user = groups_rig_join(f, "g");
    group_user_until_partitions(user, 4);
    while (!group_member_poll(user->member)) {
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
    assert_false(group_member_poll(user->member));
    buf_free(&out);
    free(line);
    group_user_leave(user);
}

static int locate(struct groups_rig *f, int32_t partition, enum groups_place_kind kind,
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
    struct groups_rig *f = *state;
    int64_t offset = -1;
    groups_rig_append(f, 0, "a\nb\nc\n");
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

static void set_offset(struct groups_rig *f, const char *group, int64_t offset,
                       int32_t epoch)
{
    struct user_call call;
    user_call_init(&call);
    groups_set_offset(f->groups, group, "t", &f->topic, 0, offset, epoch, &call.call);
    assert_int_equal(user_call_await(&call, NULL), 0);
}

/* As retention does it. */
static void raise_start_of(struct groups_rig *f, const char *topic, int32_t partition,
                           int64_t offset)
{
    struct partition *handle = node_partition(&f->node, topic, partition);
    pthread_mutex_lock(&handle->append_lock);
    assert_int_equal(log_raise_start(handle->log, offset), 0);
    pthread_mutex_unlock(&handle->append_lock);
    partition_unref(handle);
}

static void raise_start(struct groups_rig *f, int64_t offset)
{
    raise_start_of(f, "t", 0, offset);
}

static void expect_problem(struct groups_rig *f, const char *part)
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
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    groups_rig_append(f, 0, "a\n");
    groups_rig_append(f, 0, "b\n");
    groups_rig_append(f, 0, "c\n");
    set_offset(f, "g", 1, -1);
    raise_start(f, 2);
    struct group_user *user = groups_rig_join(f, "g");
    group_user_expect(user, "c\n", &chunk);
    assert_int_equal(chunk.first_offset, 2);
    assert_int_equal(group_user_sync(user), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 2);
    expect_problem(f, "kind=group g/t/0: offsets 1 to 1 were deleted");
    assert_int_equal(group_user_finish(user, &chunk), 0);
    groups_rig_append(f, 0, "d\n");
    groups_rig_append(f, 0, "e\n");
    raise_start(f, 4);
    group_user_expect(user, "e\n", &chunk);
    expect_problem(f, "kind=group g/t/0: offsets 3 to 3 were deleted");
    assert_int_equal(group_user_finish(user, &chunk), 0);
    assert_int_equal(group_user_sync(user), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 5);
    group_user_leave(user);
}

static void expect_lag(struct groups_rig *f, const char *group, int32_t partition,
                       int64_t lag)
{
    int64_t found = -1;
    cJSON *described = group_user_describe(f->groups, group, true);
    const cJSON *entry = group_user_entry(described, partition);
    assert_non_null(entry);
    assert_int_equal(json_get_i64(entry, "lag", &found), 0);
    assert_int_equal(found, lag);
    cJSON_Delete(described);
}

/* From what is committed, but not what retention took; where nothing is committed, from
 * where a new member begins. */
static void test_lag(void **state)
{
    struct groups_rig *f = *state;
    for (int i = 0; i < 5; i++) {
        groups_rig_append(f, 0, "a\n");
        groups_rig_append(f, 1, "a\n");
    }
    set_offset(f, "g", 2, -1);
    expect_lag(f, "g", 0, 3);
    expect_lag(f, "g", 1, 5);
    expect_lag(f, "g", 2, 0);
    raise_start(f, 4);
    expect_lag(f, "g", 0, 1);
    groups_rig_configure(f, "g", "{\"start\":\"latest\"}");
    expect_lag(f, "g", 0, 1);
    expect_lag(f, "g", 1, 0);
    groups_rig_append(f, 0, "a\n");
    expect_lag(f, "g", 0, 2);
}

enum { MANY = 12 };

static void append_to_many(struct groups_rig *f, const char *lines)
{
    for (int32_t i = 0; i < MANY; i++) {
        struct partition *handle = node_partition(&f->node, "many", i);
        assert_int_equal(node_append(handle, lines, NULL), 0);
        partition_unref(handle);
    }
}

static unsigned changes_of(struct group_user *user)
{
    pthread_mutex_lock(&user->lock);
    unsigned changes = user->changes;
    pthread_mutex_unlock(&user->lock);
    return changes;
}

/* Who found nothing in all of its partitions, but could by now, is told so. */
static void test_deleted_in_many_partitions(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    struct buf out;
    char settings[64];
    (void)snprintf(settings, sizeof settings, "{\"partitions\":%d,\"flush\":\"os\"}",
                   MANY);
    partition_unref(node_topic(&f->node, "many", settings));
    const struct topic_id id = node_topic_id(&f->node, "many");
    append_to_many(f, "a\n");
    struct group_user *user = group_user_join(f->groups, "g", "many", &id);
    for (int i = 0; i < MANY; i++) {
        group_user_expect(user, "a\n", &chunk);
    }
    append_to_many(f, "b\n");
    append_to_many(f, "c\n");
    for (int32_t i = 0; i < MANY; i++) {
        raise_start_of(f, "many", i, 2);
    }
    buf_init(&out, 1 << 20);
    unsigned seen = changes_of(user);
    int rc = group_member_take(user->member, 100, false, &out, &chunk);
    for (int i = 0; rc == 0 && i < 1000; i++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
        if (changes_of(user) != seen) {
            seen = changes_of(user);
            rc = group_member_take(user->member, 100, false, &out, &chunk);
        }
    }
    assert_int_equal(rc, 1);
    assert_string_equal(out.data, "c\n");
    buf_free(&out);
    group_user_leave(user);
}

/* A leader that lacks what was committed is given a while; then it goes on at its end.
 */
static void test_beyond_the_end(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    char *text = NULL;
    groups_rig_append(f, 0, "a\n");
    groups_rig_restart(f); /* to be in a later epoch */
    set_offset(f, "g", 100, 0);
    struct group_user *user = groups_rig_join(f, "g");
    group_user_until_partitions(user, 4);
    assert_int_equal(group_user_try(user, 50, &text, &chunk), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 0), 100);
    for (int i = 0; i < 20 && group_user_offset(f->groups, "g", 0) != 1; i++) {
        atomic_fetch_add(&f->clock.ahead_ms, 2000);
        assert_int_equal(group_user_try(user, 50, &text, &chunk), 0);
    }
    assert_int_equal(group_user_offset(f->groups, "g", 0), 1);
    expect_problem(f, "kind=group g/t/0: the log ends at offset 1");
    groups_rig_append(f, 0, "b\n");
    group_user_expect(user, "b\n", &chunk);
    group_user_leave(user);
}

/* A commit carries the epoch of the message before it, not of others that were read in
 * the same go: the next member's would seem to go back. */
static void test_epochs_of_commits(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunk;
    groups_rig_append(f, 1, "a\nb\nc\n");
    groups_rig_restart(f); /* to be in a later epoch */
    groups_rig_append(f, 1, "d\n");
    struct group_user *user = groups_rig_join(f, "g");
    group_user_expect(user, "a\nb\nc\n", &chunk);
    assert_int_equal(group_member_finish(user->member, &chunk, 1), 0);
    assert_int_equal(group_user_sync(user), 0);
    group_user_leave(user);
    user = groups_rig_join(f, "g");
    user->take_bytes = 3;
    group_user_expect(user, "b\n", &chunk);
    assert_int_equal(group_user_finish(user, &chunk), 0);
    assert_int_equal(group_user_sync(user), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 1), 2);
    group_user_leave(user);
    user = groups_rig_join(f, "g");
    group_user_expect(user, "c\n", &chunk);
    group_user_expect(user, "d\n", &chunk);
    group_user_leave(user);
}

static void test_take_back(void **state)
{
    struct groups_rig *f = *state;
    struct group_chunk chunks[3];
    groups_rig_append(f, 1, "a\nb\n");
    groups_rig_append(f, 1, "c\n");
    struct group_user *user = groups_rig_join(f, "g");
    user->take_bytes = 3;
    group_user_expect(user, "a\n", &chunks[0]);
    group_user_expect(user, "b\n", &chunks[1]);
    group_user_expect(user, "c\n", &chunks[2]);
    assert_int_equal(group_user_finish(user, &chunks[0]), 0);
    for (int i = 0; i < 3; i++) {
        group_member_take_back(user->member, &chunks[i]);
    }
    group_user_expect(user, "b\n", &chunks[1]);
    group_user_expect(user, "c\n", &chunks[2]);
    assert_int_equal(group_user_finish(user, &chunks[2]), 0);
    assert_int_equal(group_user_sync(user), 0);
    assert_int_equal(group_user_offset(f->groups, "g", 1), 3);
    group_user_leave(user);
}

#define TEST(test)                                                                     \
    cmocka_unit_test_setup_teardown(test, groups_rig_setup, groups_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_epochs_of_commits),
        TEST(test_locate),
        TEST(test_deleted_before_it_was_read),
        TEST(test_deleted_in_many_partitions),
        TEST(test_lag),
        TEST(test_beyond_the_end),
        TEST(test_chunks),
        TEST(test_take_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
