#include "replica/follower_core.h"

#include "tests/unit/support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct rig {
    struct partition_core core;
    struct epoch_list epochs;
    struct fetch_request request;
};

/* The log: epoch 3 from 0, epoch 4 from 6, end 10, HW 5; asks node 2 in epoch 7. */
static struct rig rig_new(void)
{
    struct rig rig = {0};
    core_rig_follower(&rig.core);
    assert_int_equal(epochs_add(&rig.epochs, 3, 0), 0);
    assert_int_equal(epochs_add(&rig.epochs, 4, 6), 0);
    assert_true(follower_request(&rig.core, &rig.epochs, 0, &rig.request));
    return rig;
}

static struct fetch_answer answer_of(const struct rig *rig, enum fetch_kind kind)
{
    return (struct fetch_answer){.kind = kind,
                                 .leader_epoch = 7,
                                 .sequence = rig->request.sequence,
                                 .start_epoch = -1};
}

static struct follower_step take(const struct rig *rig,
                                 const struct fetch_answer *answer)
{
    return follower_take(&rig->core, &rig->epochs, 0, answer);
}

static void test_what_is_asked(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    assert_int_equal(rig.request.fetch_offset, 10);
    assert_int_equal(rig.request.last_epoch, 4);
    assert_int_equal(rig.request.leader_epoch, 7);
    assert_int_equal(rig.request.broker_epoch, 50);
    core_set_offline(&rig.core);
    assert_false(follower_request(&rig.core, &rig.epochs, 0, &rig.request));
    epochs_free(&rig.epochs);
}

/* A leader keeps a request that has its high watermark until there is news. Where that
 * is not known it must not: readers may wait for nothing else. */
static void test_a_high_watermark_not_heard_yet_is_asked_for(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_answer answer = answer_of(&rig, FETCH_DATA);
    answer.log_end = 10;
    answer.high_watermark = 5; /* as here */
    for (int32_t epoch = 7; epoch <= 8; epoch++) {
        assert_int_equal(rig.core.leader_epoch, epoch);
        assert_true(follower_request(&rig.core, &rig.epochs, 0, &rig.request));
        assert_false(fetch_may_wait(&rig.request, &answer));
        follower_heard(&rig.core, &answer);
        assert_true(follower_request(&rig.core, &rig.epochs, 0, &rig.request));
        assert_int_equal(rig.request.high_watermark, 5);
        assert_true(fetch_may_wait(&rig.request, &answer));
        const struct leadership next = core_rig_state(3, 8, 3);
        assert_int_equal(core_rig_lead(&rig.core, &next, 101, 0), 0);
    }
    epochs_free(&rig.epochs);
}

static void test_only_the_newest_request_is_answered(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_answer answer = answer_of(&rig, FETCH_DATA);
    assert_int_equal(take(&rig, &answer).action, FOLLOW_APPEND);
    answer.leader_epoch = 6;
    assert_int_equal(take(&rig, &answer).action, FOLLOW_IGNORE);
    answer.leader_epoch = 7;
    assert_true(follower_request(&rig.core, &rig.epochs, 0, &rig.request));
    assert_int_equal(take(&rig, &answer).action, FOLLOW_IGNORE);
    answer.kind = FETCH_ERROR;
    answer.sequence = rig.request.sequence;
    assert_int_equal(take(&rig, &answer).action, FOLLOW_RETRY);
    epochs_free(&rig.epochs);
}

/* Until the logs were compared in this epoch, what stands here may be another leader's.
 */
static void test_the_leaders_word_counts_once_the_logs_agree(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    follower_told(&rig.core, 7, 9);
    assert_false(core_advance(&rig.core));
    struct fetch_answer answer = answer_of(&rig, FETCH_DATA);
    answer.log_end = 10;
    answer.high_watermark = 6;
    follower_heard(&rig.core, &answer);
    assert_true(core_advance(&rig.core));
    assert_int_equal(rig.core.high_watermark, 6);
    follower_told(&rig.core, 6, 9);
    assert_false(core_advance(&rig.core));
    follower_told(&rig.core, 7, 8);
    assert_true(core_advance(&rig.core));
    assert_int_equal(rig.core.high_watermark, 8);
    follower_told(&rig.core, 7, 7);
    assert_false(core_advance(&rig.core));
    follower_told(&rig.core, 7, 50); /* more than there is here */
    assert_true(core_advance(&rig.core));
    assert_int_equal(rig.core.high_watermark, 10);
    epochs_free(&rig.epochs);
}

static void test_it_cuts_where_the_logs_part(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_answer answer = answer_of(&rig, FETCH_DIVERGING);
    /* The leader has nothing of epoch 4; 3 ended at 8 there, and at 6 here. */
    answer.diverging = (struct epoch_end){.epoch = 3, .end_offset = 8};
    struct follower_step step = take(&rig, &answer);
    assert_int_equal(step.action, FOLLOW_CUT);
    assert_int_equal(step.offset, 6);
    /* The other way round. */
    answer.diverging = (struct epoch_end){.epoch = 4, .end_offset = 9};
    step = take(&rig, &answer);
    assert_int_equal(step.action, FOLLOW_CUT);
    assert_int_equal(step.offset, 9);
    assert_true(core_cut(&rig.core, &rig.epochs, 6));
    assert_int_equal(epochs_last(&rig.epochs), 3);
    epochs_free(&rig.epochs);
}

static void test_committed_messages_are_not_cut(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_answer answer = answer_of(&rig, FETCH_DIVERGING);
    answer.diverging = (struct epoch_end){.epoch = 3, .end_offset = 4};
    assert_int_equal(take(&rig, &answer).action, FOLLOW_REFUSE);
    /* But for what an election has given up: entries older than its epoch. */
    rig.core.state.lossy_epoch = 5;
    struct follower_step step = take(&rig, &answer);
    assert_int_equal(step.action, FOLLOW_CUT);
    assert_int_equal(step.offset, 4);
    rig.core.state.lossy_epoch = 3;
    assert_int_equal(take(&rig, &answer).action, FOLLOW_REFUSE);
    epochs_free(&rig.epochs);
}

static void test_below_the_leaders_start_it_begins_anew(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_answer answer = answer_of(&rig, FETCH_RESTART);
    answer.log_start = 30;
    answer.start_epoch = 6;
    struct follower_step step = take(&rig, &answer);
    assert_int_equal(step.action, FOLLOW_RESTART);
    assert_int_equal(step.offset, 30);
    epochs_begin(&rig.epochs, step.epoch, step.offset);
    core_reset(&rig.core, step.offset);
    assert_true(follower_request(&rig.core, &rig.epochs, 30, &rig.request));
    assert_int_equal(rig.request.fetch_offset, 30);
    assert_int_equal(rig.request.last_epoch, 6);
    /* A cut at its beginning leaves that known. */
    epochs_cut(&rig.epochs, 30);
    assert_int_equal(epochs_last(&rig.epochs), 6);
    epochs_free(&rig.epochs);
}

static void test_a_visible_log_is_not_dropped(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_answer answer = answer_of(&rig, FETCH_RESTART);
    answer.log_start = 2;
    assert_int_equal(take(&rig, &answer).action, FOLLOW_REFUSE);
    rig.core.high_watermark = 0;
    assert_int_equal(take(&rig, &answer).action, FOLLOW_RESTART);
    epochs_free(&rig.epochs);
}

static void test_batches_must_continue_the_log(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct batch batch = {.base_offset = 10, .message_count = 2, .leader_epoch = 7};
    assert_true(follower_fits(&rig.core, &rig.epochs, &batch));
    batch.base_offset = 11;
    assert_false(follower_fits(&rig.core, &rig.epochs, &batch));
    rig.core.compacted = true;
    assert_true(follower_fits(&rig.core, &rig.epochs, &batch));
    batch.leader_epoch = 3;
    assert_false(follower_fits(&rig.core, &rig.epochs, &batch));
    batch.leader_epoch = 8;
    assert_false(follower_fits(&rig.core, &rig.epochs, &batch));
    epochs_free(&rig.epochs);
}

static void test_the_high_watermark_follows_the_flush(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_answer answer = answer_of(&rig, FETCH_DATA);
    rig.core.flush_counts = true;
    core_appended(&rig.core, 20);
    answer.high_watermark = 15;
    follower_heard(&rig.core, &answer);
    assert_true(core_advance(&rig.core));
    assert_int_equal(rig.core.high_watermark, 10);
    core_flushed(&rig.core, 20);
    assert_true(core_advance(&rig.core));
    assert_int_equal(rig.core.high_watermark, 15);
    /* It never falls, and a new epoch's leader has to tell its own. */
    answer.high_watermark = 3;
    follower_heard(&rig.core, &answer);
    assert_false(core_advance(&rig.core));
    const struct leadership next = core_rig_state(3, 8, 3);
    assert_int_equal(core_rig_lead(&rig.core, &next, 101, 0), 0);
    assert_int_equal(rig.core.leader_high_watermark, -1);
    assert_int_equal(rig.core.high_watermark, 15);
    epochs_free(&rig.epochs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_asked),
        cmocka_unit_test(test_a_high_watermark_not_heard_yet_is_asked_for),
        cmocka_unit_test(test_only_the_newest_request_is_answered),
        cmocka_unit_test(test_the_leaders_word_counts_once_the_logs_agree),
        cmocka_unit_test(test_it_cuts_where_the_logs_part),
        cmocka_unit_test(test_committed_messages_are_not_cut),
        cmocka_unit_test(test_below_the_leaders_start_it_begins_anew),
        cmocka_unit_test(test_a_visible_log_is_not_dropped),
        cmocka_unit_test(test_batches_must_continue_the_log),
        cmocka_unit_test(test_the_high_watermark_follows_the_flush),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
