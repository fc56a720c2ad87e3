#include "replica/fetch_core.h"

#include "tests/unit/support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct rig {
    struct partition_core core;
    struct epoch_list epochs;
    struct fetch_answer answer;
    uint64_t sequence;
};

/* The leader's log: epoch 3 from 0, epoch 5 from 6, end 10. */
static struct rig rig_new(void)
{
    struct rig rig = {0};
    core_rig_leader(&rig.core);
    assert_int_equal(epochs_add(&rig.epochs, 3, 0), 0);
    assert_int_equal(epochs_add(&rig.epochs, 5, 6), 0);
    return rig;
}

static struct fetch_request request_of(struct rig *rig, int64_t offset,
                                       int32_t last_epoch)
{
    return (struct fetch_request){
        .follower = 2,
        .broker_epoch = 20,
        .leader_epoch = 7,
        .sequence = ++rig->sequence,
        .fetch_offset = offset,
        .acknowledged_offset = offset,
        .last_epoch = last_epoch,
    };
}

static enum fetch_kind take(struct rig *rig, const struct fetch_request *request,
                            int64_t now_ms)
{
    fetch_take(&rig->core, &rig->epochs, 0, request, now_ms, &rig->answer);
    return rig->answer.kind;
}

static void test_epochs_are_checked_both_ways(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_request request = request_of(&rig, 10, 5);
    request.leader_epoch = 6;
    assert_int_equal(take(&rig, &request, 1), FETCH_ERROR);
    assert_int_equal(rig.answer.error, E_FENCED_EPOCH);
    request.leader_epoch = 8;
    assert_int_equal(take(&rig, &request, 1), FETCH_ERROR);
    assert_int_equal(rig.answer.error, E_UNKNOWN_EPOCH);
    assert_int_equal(rig.core.replicas[1].log_end_offset, -1);
    request.leader_epoch = 7;
    request.follower = 9;
    assert_int_equal(take(&rig, &request, 1), FETCH_ERROR);
    assert_int_equal(rig.answer.error, E_NOT_LEADER);
    epochs_free(&rig.epochs);
}

/* The request that another one of the same node took over from, replica or not. */
static void test_a_newer_request_replaces_an_older(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    const struct fetch_request older = request_of(&rig, 10, 5);
    struct fetch_request newer = request_of(&rig, 10, 5);
    newer.acknowledged_offset = FETCH_OBSERVES;
    assert_true(fetch_replaces(&newer, &older));
    assert_false(fetch_replaces(&older, &newer));
    assert_false(fetch_replaces(&older, &older));
    /* Each incarnation counts anew. */
    newer.broker_epoch++;
    newer.sequence = 0;
    assert_true(fetch_replaces(&newer, &older));
    assert_false(fetch_replaces(&older, &newer));
    newer.follower = 3;
    assert_false(fetch_replaces(&newer, &older));
    epochs_free(&rig.epochs);
}

/* A node that is no replica may read along, and a replica that says so counts nothing.
 */
static void test_an_observer_counts_nothing(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_request request = request_of(&rig, 10, 5);
    request.acknowledged_offset = FETCH_OBSERVES;
    request.follower = 9;
    assert_int_equal(take(&rig, &request, 1), FETCH_DATA);
    fetch_again(&rig.core, &rig.epochs, 0, &request, &rig.answer);
    assert_int_equal(rig.answer.kind, FETCH_DATA);
    request = request_of(&rig, 10, 5);
    request.acknowledged_offset = FETCH_OBSERVES;
    assert_int_equal(take(&rig, &request, 1), FETCH_DATA);
    assert_int_equal(rig.core.replicas[1].log_end_offset, -1);
    assert_int_equal(rig.core.replicas[1].broker_epoch, -1);
    request.leader_epoch = 6;
    assert_int_equal(take(&rig, &request, 1), FETCH_ERROR);
    epochs_free(&rig.epochs);
}

static void test_a_stale_incarnation_counts_nothing(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_request request = request_of(&rig, 10, 5);
    request.broker_epoch = 19;
    assert_int_equal(take(&rig, &request, 1), FETCH_ERROR);
    assert_int_equal(rig.answer.error, E_STALE_BROKER_EPOCH);
    /* A newer one than this node has seen is believed, and what the older one had
     * acknowledged is forgotten. */
    request = request_of(&rig, 10, 5);
    assert_int_equal(take(&rig, &request, 1), FETCH_DATA);
    assert_int_equal(rig.core.replicas[1].log_end_offset, 10);
    request = request_of(&rig, 8, 5);
    request.broker_epoch = 60;
    request.sequence = 1;
    assert_int_equal(take(&rig, &request, 1), FETCH_DATA);
    assert_int_equal(rig.core.replicas[1].log_end_offset, 8);
    request = request_of(&rig, 10, 5);
    assert_int_equal(take(&rig, &request, 1), FETCH_ERROR);
    assert_int_equal(rig.answer.error, E_STALE_BROKER_EPOCH);
    epochs_free(&rig.epochs);
}

static void test_a_late_request_is_ignored(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_request early = request_of(&rig, 8, 5);
    struct fetch_request late = request_of(&rig, 10, 5);
    assert_int_equal(take(&rig, &late, 1), FETCH_DATA);
    assert_int_equal(take(&rig, &early, 2), FETCH_ERROR);
    assert_int_equal(rig.answer.error, E_CONFLICT);
    assert_int_equal(rig.core.replicas[1].log_end_offset, 10);
    epochs_free(&rig.epochs);
}

static void test_a_diverging_fetch_acknowledges_nothing(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    /* Epoch 4 is not in this log: its last one before is 3, which ended at 6. */
    struct fetch_request request = request_of(&rig, 9, 4);
    assert_int_equal(take(&rig, &request, 1), FETCH_DIVERGING);
    assert_int_equal(rig.answer.diverging.epoch, 3);
    assert_int_equal(rig.answer.diverging.end_offset, 6);
    /* Epoch 3 got further there than here. */
    request = request_of(&rig, 8, 3);
    assert_int_equal(take(&rig, &request, 1), FETCH_DIVERGING);
    assert_int_equal(rig.answer.diverging.end_offset, 6);
    /* Longer than this log. */
    request = request_of(&rig, 12, 5);
    assert_int_equal(take(&rig, &request, 1), FETCH_DIVERGING);
    assert_int_equal(rig.answer.diverging.end_offset, 10);
    assert_int_equal(rig.core.replicas[1].log_end_offset, -1);
    request = request_of(&rig, 6, 3);
    assert_int_equal(take(&rig, &request, 1), FETCH_DATA);
    assert_int_equal(rig.core.replicas[1].log_end_offset, 6);
    epochs_free(&rig.epochs);
}

static void test_what_is_on_disk_counts_with_flush_ack(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_request request = request_of(&rig, 10, 5);
    rig.core.flush_counts = true;
    request.acknowledged_offset = 7;
    assert_int_equal(take(&rig, &request, 1), FETCH_DATA);
    assert_int_equal(rig.core.replicas[1].log_end_offset, 7);
    epochs_free(&rig.epochs);
}

static void test_below_the_start_it_begins_anew(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_request request = request_of(&rig, 4, 3);
    fetch_take(&rig.core, &rig.epochs, 6, &request, 1, &rig.answer);
    assert_int_equal(rig.answer.kind, FETCH_RESTART);
    assert_int_equal(rig.answer.log_start, 6);
    assert_int_equal(rig.answer.start_epoch, 3);
    /* An empty log elsewhere is believed until an election gave messages up. */
    request = request_of(&rig, 8, -1);
    assert_int_equal(take(&rig, &request, 1), FETCH_DATA);
    rig.core.state.lossy_epoch = 5;
    request = request_of(&rig, 8, -1);
    assert_int_equal(take(&rig, &request, 1), FETCH_RESTART);
    epochs_free(&rig.epochs);
}

static void test_caught_up_as_of_the_previous_fetch(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    const struct core_replica *replica = &rig.core.replicas[1];
    struct fetch_request request = request_of(&rig, 8, 5);
    (void)take(&rig, &request, 100); /* the leader's end is 10 */
    assert_int_equal(replica->caught_up_ms, 0);
    core_appended(&rig.core, 20);
    request = request_of(&rig, 10, 5);
    (void)take(&rig, &request, 200); /* reaches what there was at 100 */
    assert_int_equal(replica->caught_up_ms, 100);
    request = request_of(&rig, 15, 5);
    (void)take(&rig, &request, 300); /* not the 20 of 200 */
    assert_int_equal(replica->caught_up_ms, 100);
    request = request_of(&rig, 20, 5);
    (void)take(&rig, &request, 400);
    assert_int_equal(replica->caught_up_ms, 400);
    epochs_free(&rig.epochs);
}

static void test_a_parked_fetch_is_judged_again(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_request request = request_of(&rig, 10, 5);
    request.high_watermark = 5;
    assert_int_equal(take(&rig, &request, 1), FETCH_DATA);
    assert_true(fetch_may_wait(&request, &rig.answer));
    core_appended(&rig.core, 11);
    fetch_again(&rig.core, &rig.epochs, 0, &request, &rig.answer);
    assert_false(fetch_may_wait(&request, &rig.answer));
    const struct leadership next = core_rig_state(2, 8, 3);
    assert_int_equal(core_rig_lead(&rig.core, &next, 101, 2), 0);
    fetch_again(&rig.core, &rig.epochs, 0, &request, &rig.answer);
    assert_int_equal(rig.answer.error, E_FENCED_EPOCH);
    epochs_free(&rig.epochs);
}

static void test_a_patient_follower_is_kept_for_a_watermark_alone(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct fetch_request request = request_of(&rig, 10, 5);
    request.high_watermark = 4;
    assert_int_equal(take(&rig, &request, 1), FETCH_DATA);
    rig.answer.high_watermark = 5;
    assert_false(fetch_may_wait(&request, &rig.answer));
    assert_false(fetch_may_hold(&request, &rig.answer));
    request.patient = true;
    assert_true(fetch_may_hold(&request, &rig.answer));
    rig.answer.log_start = 1;
    assert_false(fetch_may_hold(&request, &rig.answer));
    rig.answer.log_start = 0;
    rig.answer.log_end = 11;
    assert_false(fetch_may_hold(&request, &rig.answer));
    rig.answer.log_end = 10;
    rig.answer.kind = FETCH_DIVERGING;
    assert_false(fetch_may_hold(&request, &rig.answer));
    epochs_free(&rig.epochs);
}

static void test_a_fetch_may_begin_inside_of_a_batch(void **state)
{
    (void)state;
    const struct batch whole = {.base_offset = 10,
                                .message_count = 5,
                                .leader_epoch = 3,
                                .producer_id = 7,
                                .base_sequence = INT32_MAX - 1,
                                .flags = BATCH_TOMBSTONES,
                                .delete_at_ms = 99};
    struct batch rest = whole;
    assert_false(fetch_rest(10, &rest));
    assert_false(fetch_rest(9, &rest)); /* behind a hole */
    assert_memory_equal(&rest, &whole, sizeof rest);
    assert_true(fetch_rest(13, &rest));
    assert_int_equal(rest.base_offset, 13);
    assert_int_equal(rest.message_count, 2);
    assert_int_equal(rest.base_sequence, 1);
    assert_int_equal(rest.leader_epoch, 3);
    assert_int_equal(rest.flags, BATCH_TOMBSTONES);
    assert_int_equal(rest.delete_at_ms, 99);
    rest = whole;
    rest.producer_id = rest.base_sequence = -1;
    assert_true(fetch_rest(14, &rest));
    assert_int_equal(rest.base_sequence, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_patient_follower_is_kept_for_a_watermark_alone),
        cmocka_unit_test(test_epochs_are_checked_both_ways),
        cmocka_unit_test(test_a_newer_request_replaces_an_older),
        cmocka_unit_test(test_an_observer_counts_nothing),
        cmocka_unit_test(test_a_stale_incarnation_counts_nothing),
        cmocka_unit_test(test_a_late_request_is_ignored),
        cmocka_unit_test(test_a_diverging_fetch_acknowledges_nothing),
        cmocka_unit_test(test_what_is_on_disk_counts_with_flush_ack),
        cmocka_unit_test(test_below_the_start_it_begins_anew),
        cmocka_unit_test(test_caught_up_as_of_the_previous_fetch),
        cmocka_unit_test(test_a_parked_fetch_is_judged_again),
        cmocka_unit_test(test_a_fetch_may_begin_inside_of_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
