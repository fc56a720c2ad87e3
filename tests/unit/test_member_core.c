/* What a member of a group decides: no threads, a clock of the test's. */
#include "replica/member_core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SESSION_MS = 10000, POLL_MS = 300000 };

struct fixture {
    struct member_core *core;
    struct group_grant grants[8];
    size_t count;
    struct group_wire_beat beat;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->core = member_core_new();
    assert_non_null(f->core);
    f->beat.config = (struct group_config){.start = GROUP_START_EARLIEST,
                                           .commit = GROUP_COMMIT_AUTO,
                                           .group_session_timeout_ms = SESSION_MS,
                                           .max_poll_interval_ms = POLL_MS};
    f->beat.grants = f->grants;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    member_core_free(f->core);
    free(f);
    return 0;
}

static struct group_grant *grant(struct fixture *f, int32_t partition,
                                 int64_t generation, int64_t committed)
{
    struct group_grant *grant = &f->grants[f->beat.count++];
    *grant = (struct group_grant){.partition = partition,
                                  .generation = generation,
                                  .committed = committed,
                                  .leader_epoch = committed < 0 ? -1 : 3};
    return grant;
}

static void answer(struct fixture *f, int64_t sent_ms)
{
    assert_int_equal(member_core_granted(f->core, &f->beat, sent_ms, sent_ms), 0);
}

/* Grants partition 0 at offset 10, with data, at time 0. */
static void open_one(struct fixture *f)
{
    (void)grant(f, 0, 7, 10);
    answer(f, 0);
    member_core_begin(f->core, 0, 7, 10, 3, 0);
    member_core_data(f->core, 0, 7, true, 0);
}

static const struct member_part *part(struct fixture *f, int32_t partition,
                                      int64_t generation)
{
    return member_core_find(f->core, partition, generation);
}

/* Commits what there is to be; how many. */
static size_t commit(struct fixture *f, int64_t *offset)
{
    struct group_commit commits[8];
    bool refused[8] = {false};
    size_t n = member_core_commits(f->core, commits);
    if (n > 0) {
        *offset = commits[0].offset;
        (void)member_core_committed(f->core, commits, refused, n);
    }
    return n;
}

static void test_hands_out_and_commits(void **state)
{
    struct fixture *f = *state;
    int64_t offset = 0;
    open_one(f);
    assert_int_equal(member_core_pick(f->core, 1), 0);
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 1), 0);
    assert_false(member_core_is_dirty(f->core));
    assert_int_equal(member_core_finish(f->core, 0, 7, 15, 4, 2), 0);
    assert_int_equal(commit(f, &offset), 1);
    assert_int_equal(offset, 15);
    assert_int_equal(member_core_finish(f->core, 0, 7, 12, 4, 2), 0); /* not back */
    assert_int_equal(member_core_finish(f->core, 0, 7, 99, 4, 2), 0); /* not beyond */
    assert_int_equal(commit(f, &offset), 1);
    assert_int_equal(offset, 20);
    assert_int_equal(commit(f, &offset), 0);
    assert_int_equal(part(f, 0, 7)->committed, 20);
}

static void test_takes_turns(void **state)
{
    struct fixture *f = *state;
    for (int32_t i = 0; i < 3; i++) {
        (void)grant(f, i * 2, 7, 0);
    }
    answer(f, 0);
    assert_int_equal(member_core_pick(f->core, 0), -1);
    for (int32_t i = 0; i < 3; i++) {
        member_core_begin(f->core, i * 2, 7, 0, -1, 0);
        member_core_data(f->core, i * 2, 7, i != 1, 0);
    }
    assert_int_equal(member_core_pick(f->core, 0), 0);
    assert_int_equal(member_core_pick(f->core, 0), 2);
    assert_int_equal(member_core_pick(f->core, 0), 0);
    member_core_data(f->core, 2, 7, true, 0);
    assert_int_equal(member_core_pick(f->core, 0), 1);
}

/* A place that `start` gave is committed before anything is handed out. */
static void test_start_is_committed_first(void **state)
{
    struct fixture *f = *state;
    struct group_commit commits[8];
    const bool refused[8] = {false};
    (void)grant(f, 0, 7, -1);
    f->beat.config.commit = GROUP_COMMIT_MANUAL; /* also then */
    answer(f, 0);
    member_core_begin(f->core, 0, 7, 42, 5, 0);
    member_core_data(f->core, 0, 7, true, 0);
    assert_int_equal(member_core_pick(f->core, 0), -1);
    assert_int_equal(member_core_commits(f->core, commits), 1);
    assert_int_equal(commits[0].offset, 42);
    assert_true(member_core_committed(f->core, commits, refused, 1)); /* look again */
    assert_int_equal(member_core_pick(f->core, 0), 0);
}

static void test_manual_commits_nothing(void **state)
{
    struct fixture *f = *state;
    int64_t offset = 0;
    f->beat.config.commit = GROUP_COMMIT_MANUAL;
    open_one(f);
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 1), 0);
    uint64_t mark = member_core_mark(f->core);
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 2), 0);
    assert_int_equal(commit(f, &offset), 0);
    assert_true(member_core_synced(f->core, mark));
    assert_true(member_core_synced(f->core, member_core_mark(f->core)));
    /* What was done with needs no commit to be given up. */
    f->grants[0].give_up = true;
    answer(f, 3);
    assert_true(member_core_has_releases(f->core));
}

static void test_give_up_waits_for_the_hand_and_the_commit(void **state)
{
    struct fixture *f = *state;
    struct group_released released[8];
    int64_t offset = 0;
    open_one(f);
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 1), 0);
    f->grants[0].give_up = true;
    answer(f, 2);
    assert_int_equal(member_core_pick(f->core, 3), -1);
    assert_int_equal(member_core_hand(f->core, 0, 7, 20, 30, 3), E_GROUP_FENCED);
    assert_false(member_core_has_releases(f->core)); /* in hand */
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 3), 0);
    assert_false(member_core_has_releases(f->core)); /* not committed */
    assert_int_equal(commit(f, &offset), 1);
    assert_true(member_core_has_releases(f->core));
    assert_int_equal(member_core_releases(f->core, released), 1);
    assert_int_equal(released[0].generation, 7);
    assert_false(member_core_has_releases(f->core));
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 3), E_GROUP_FENCED);
    /* Named again until the answers know. */
    answer(f, 4);
    assert_int_equal(member_core_releases(f->core, released), 1);
    f->beat.count = 0;
    answer(f, 5);
    assert_int_equal(member_core_count(f->core), 0);
}

static void test_other_generation_is_another_grant(void **state)
{
    struct fixture *f = *state;
    open_one(f);
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 1), 0);
    f->beat.count = 0;
    (void)grant(f, 0, 9, 10);
    answer(f, 2);
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 3), E_GROUP_FENCED);
    assert_int_equal(part(f, 0, 9)->stage, MEMBER_NEW);
    assert_null(part(f, 0, 7));
}

static void test_fence(void **state)
{
    struct fixture *f = *state;
    open_one(f);
    member_core_touch(f->core, true, 0);
    assert_int_equal(member_core_pick(f->core, SESSION_MS - 1), 0);
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, SESSION_MS),
                     E_GROUP_FENCED);
    assert_false(member_core_poll(f->core, SESSION_MS));
    /* Heard again, and still in the group: it goes on, and who looked is told. */
    assert_int_equal(
        member_core_granted(f->core, &f->beat, SESSION_MS + 5, SESSION_MS + 5), 1);
    answer(f, SESSION_MS + 5);
    assert_true(member_core_poll(f->core, SESSION_MS + 5));
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, SESSION_MS + 6), 0);
}

static void test_poll_interval(void **state)
{
    struct fixture *f = *state;
    open_one(f);
    f->beat.config.group_session_timeout_ms = INT64_MAX / 2;
    answer(f, 0);
    /* Something could be taken. */
    assert_int_equal(member_core_poll_ms(f->core), POLL_MS);
    member_core_touch(f->core, true, 100);
    assert_int_equal(member_core_poll_ms(f->core), INT64_MAX); /* it waits */
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 200), 0);
    assert_int_equal(member_core_poll_ms(f->core), POLL_MS + 200);
    member_core_touch(f->core, false, 300);
    assert_int_equal(member_core_poll_ms(f->core), POLL_MS + 300);
    /* Nothing in hand, nothing there: nobody is held up. */
    member_core_data(f->core, 0, 7, false, 400);
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 400), 0);
    assert_int_equal(member_core_poll_ms(f->core), INT64_MAX);
    member_core_data(f->core, 0, 7, true, 5000);
    assert_false(member_core_poll_expired(f->core, POLL_MS + 4999));
    assert_true(member_core_poll_expired(f->core, POLL_MS + 5000));
    assert_int_equal(member_core_pick(f->core, POLL_MS + 5000), -1);
}

/* Who waits in poll(2) has come back for more, whatever it has in hand. */
static void test_polling(void **state)
{
    struct fixture *f = *state;
    f->beat.config.group_session_timeout_ms = INT64_MAX / 2;
    open_one(f);
    assert_true(member_core_poll(f->core, 1));
    assert_int_equal(member_core_poll_ms(f->core), POLL_MS); /* there is something */
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 2), 0);
    member_core_data(f->core, 0, 7, false, 2);
    assert_int_equal(member_core_poll_ms(f->core), POLL_MS + 2);
    assert_false(member_core_is_waiting(f->core));
    assert_false(member_core_poll(f->core, 3));
    assert_int_equal(member_core_poll_ms(f->core), INT64_MAX);
    assert_true(member_core_is_waiting(f->core));
    /* It is to come back once there is more, */
    member_core_data(f->core, 0, 7, true, 5000);
    assert_int_equal(member_core_poll_ms(f->core), POLL_MS + 5000);
    assert_true(member_core_poll(f->core, 6000));
    assert_int_equal(member_core_poll_ms(f->core), POLL_MS + 5000);
    member_core_data(f->core, 0, 7, false, 7000);
    assert_int_equal(member_core_poll_ms(f->core), INT64_MAX);
    /* and when another is to have what it holds. */
    f->grants[0].give_up = true;
    answer(f, 8000);
    assert_int_equal(member_core_poll_ms(f->core), POLL_MS + 8000);
    assert_true(member_core_poll(f->core, 9000));
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 9000), 0);
    assert_false(member_core_poll(f->core, 9001));
    assert_int_equal(member_core_poll_ms(f->core), INT64_MAX);
    member_core_touch(f->core, false, 9002);
    assert_false(member_core_is_waiting(f->core));
}

static void test_refused_commit_loses_it(void **state)
{
    struct fixture *f = *state;
    struct group_commit commits[8];
    bool refused[8] = {true, false};
    open_one(f);
    (void)grant(f, 1, 8, 5);
    answer(f, 0);
    member_core_begin(f->core, 1, 8, 5, 3, 0);
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 1), 0);
    assert_int_equal(member_core_hand(f->core, 1, 8, 5, 6, 1), 0);
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 2), 0);
    assert_int_equal(member_core_finish(f->core, 1, 8, 6, 4, 2), 0);
    uint64_t mark = member_core_mark(f->core);
    assert_int_equal(member_core_commits(f->core, commits), 2);
    assert_false(member_core_synced(f->core, mark));
    assert_int_equal(member_core_commits(f->core, commits), 0); /* one at a time */
    assert_false(member_core_committed(f->core, commits, refused, 2));
    assert_true(member_core_synced(f->core, mark));
    assert_int_equal(part(f, 0, 7)->stage, MEMBER_RELEASED);
    assert_int_equal(part(f, 1, 8)->committed, 6);
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 3), E_GROUP_FENCED);
    /* An answer that was on its way names it still: it does not begin anew. It is given
     * back, should the coordinator take it for the member's. */
    struct group_released released[8];
    answer(f, 3);
    member_core_begin(f->core, 0, 7, 10, 3, 3);
    member_core_data(f->core, 0, 7, true, 3);
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 3), E_GROUP_FENCED);
    assert_int_equal(member_core_releases(f->core, released), 1);
    assert_int_equal(released[0].partition, 0);
    f->beat.count = 0;
    answer(f, 4);
    assert_int_equal(member_core_count(f->core), 0);
}

static void test_synced_when_lost(void **state)
{
    struct fixture *f = *state;
    open_one(f);
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 1), 0);
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 2), 0);
    uint64_t mark = member_core_mark(f->core);
    assert_false(member_core_synced(f->core, mark));
    f->beat.count = 0;
    answer(f, 3);
    assert_true(member_core_synced(f->core, mark));
}

static void test_what_was_not_answered_is_committed_again(void **state)
{
    struct fixture *f = *state;
    struct group_commit commits[8];
    int64_t offset = 0;
    open_one(f);
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 1), 0);
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 2), 0);
    assert_int_equal(member_core_commits(f->core, commits), 1);
    assert_false(member_core_is_dirty(f->core));
    member_core_uncommitted(f->core);
    assert_int_equal(commit(f, &offset), 1);
    assert_int_equal(offset, 20);
}

/* Retention passed what was next: with and without something in hand. */
static void test_moves(void **state)
{
    struct fixture *f = *state;
    int64_t offset = 0;
    open_one(f);
    member_core_move(f->core, 0, 7, 50, -1, 1);
    assert_int_equal(commit(f, &offset), 1);
    assert_int_equal(offset, 50);
    assert_int_equal(member_core_hand(f->core, 0, 7, 50, 60, 1), 0);
    member_core_move(f->core, 0, 7, 80, -1, 2);
    assert_int_equal(commit(f, &offset), 0);
    assert_int_equal(member_core_finish(f->core, 0, 7, 60, 4, 3), 0);
    assert_int_equal(commit(f, &offset), 1);
    assert_int_equal(offset, 60);
    assert_int_equal(member_core_hand(f->core, 0, 7, 70, 75, 4), E_GROUP_FENCED);
    /* And back, behind an unclean election. */
    member_core_move(f->core, 0, 7, 30, -1, 5);
    assert_int_equal(commit(f, &offset), 1);
    assert_int_equal(offset, 30);
    assert_int_equal(member_core_finish(f->core, 0, 7, 60, 4, 6), 0);
    assert_int_equal(commit(f, &offset), 0);
}

/* What did not reach the user is handed out again; not what is finished. */
static void test_take_back(void **state)
{
    struct fixture *f = *state;
    int64_t offset = 15;
    open_one(f);
    assert_false(member_core_take_back(f->core, 0, 7, &offset, 1)); /* not handed out */
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 1), 0);
    assert_int_equal(member_core_hand(f->core, 0, 7, 20, 30, 1), 0);
    assert_false(member_core_take_back(f->core, 0, 8, &offset, 1));
    assert_int_equal(member_core_finish(f->core, 0, 7, 17, 4, 2), 0);
    assert_true(member_core_take_back(f->core, 0, 7, &offset, 2));
    assert_int_equal(offset, 17);
    offset = 20; /* of the chunk behind: it went along */
    assert_false(member_core_take_back(f->core, 0, 7, &offset, 2));
    assert_int_equal(member_core_finish(f->core, 0, 7, 30, 4, 3), 0);
    assert_int_equal(commit(f, &offset), 1);
    assert_int_equal(offset, 17);
    assert_int_equal(member_core_hand(f->core, 0, 7, 17, 30, 4), 0);
}

static void test_reset(void **state)
{
    struct fixture *f = *state;
    open_one(f);
    assert_int_equal(member_core_hand(f->core, 0, 7, 10, 20, 1), 0);
    member_core_reset(f->core);
    assert_int_equal(member_core_count(f->core), 0);
    assert_int_equal(member_core_finish(f->core, 0, 7, 20, 4, 2), E_GROUP_FENCED);
    assert_int_equal(member_core_poll_ms(f->core), INT64_MAX);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hands_out_and_commits),
        TEST(test_takes_turns),
        TEST(test_start_is_committed_first),
        TEST(test_manual_commits_nothing),
        TEST(test_give_up_waits_for_the_hand_and_the_commit),
        TEST(test_other_generation_is_another_grant),
        TEST(test_fence),
        TEST(test_poll_interval),
        TEST(test_polling),
        TEST(test_refused_commit_loses_it),
        TEST(test_synced_when_lost),
        TEST(test_what_was_not_answered_is_committed_again),
        TEST(test_moves),
        TEST(test_take_back),
        TEST(test_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
