/* Durability: what a leader asks for and waits for, what a follower flushes for it. */
#include "replica/follower_core.h"

#include "tests/unit/support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct rig {
    struct partition_core core;
    struct epoch_list epochs;
    struct fetch_answer answer;
    struct fetch_request request; /* the last */
    uint64_t sequence;
};

/* Leads a log that ends at 10, of epoch 5; all of it is committed, 6 are on disk here.
 */
static void lead(struct rig *rig)
{
    *rig = (struct rig){0};
    core_rig_leader(&rig->core);
    assert_int_equal(epochs_add(&rig->epochs, 5, 0), 0);
    rig->core.high_watermark = 10;
    rig->core.flushed_offset = 6;
}

/* A follower that has all, and this much of it on disk. */
static void fetch(struct rig *rig, int32_t follower, int64_t flushed)
{
    rig->request = (struct fetch_request){
        .follower = follower,
        .broker_epoch = follower * 10,
        .leader_epoch = 7,
        .sequence = ++rig->sequence,
        .fetch_offset = 10,
        .acknowledged_offset = flushed,
        .last_epoch = 5,
        .high_watermark = 10,
        .flush_to = rig->request.follower == follower ? rig->answer.flush_to : 0,
    };
    fetch_take(&rig->core, &rig->epochs, 0, &rig->request, 1, &rig->answer);
    assert_int_equal(rig->answer.kind, FETCH_DATA);
}

static void test_every_disk_counts(void **state)
{
    (void)state;
    struct rig rig;
    lead(&rig);
    assert_int_equal(core_durable_end(&rig.core), -1); /* nothing heard */
    fetch(&rig, 2, 8);
    fetch(&rig, 3, 3);
    assert_int_equal(core_durable_end(&rig.core), 3);
    assert_int_equal(core_sync_outcome(&rig.core, 7, 3), 0);
    assert_int_equal(core_sync_outcome(&rig.core, 7, 4), CORE_WAIT);
    fetch(&rig, 3, 9);
    assert_int_equal(core_durable_end(&rig.core), 6); /* the leader's own */
    core_flushed(&rig.core, 10);
    assert_int_equal(core_durable_end(&rig.core), 8);
    /* On all disks, and not committed. */
    rig.core.high_watermark = 5;
    assert_int_equal(core_durable_end(&rig.core), 5);
    epochs_free(&rig.epochs);
}

static void test_the_policy_does_not_matter(void **state)
{
    (void)state;
    struct rig rig;
    lead(&rig);
    rig.core.flush_counts = true;
    core_flushed(&rig.core, 10);
    fetch(&rig, 2, 8);
    fetch(&rig, 3, 7);
    assert_int_equal(core_durable_end(&rig.core), 7);
    epochs_free(&rig.epochs);
}

/* Who may have joined counts, who has left does not. */
static void test_the_largest_set(void **state)
{
    (void)state;
    struct rig rig;
    lead(&rig);
    core_flushed(&rig.core, 10);
    fetch(&rig, 2, 10);
    fetch(&rig, 3, 4);
    assert_int_equal(core_durable_end(&rig.core), 4);
    const struct leadership two = core_rig_state(1, 7, 2);
    assert_int_equal(core_rig_lead(&rig.core, &two, rig.core.revision + 1, 2), 0);
    assert_int_equal(core_durable_end(&rig.core), 10);
    rig.core.replicas[2].maybe_isr = true; /* its expansion is on its way */
    assert_int_equal(core_durable_end(&rig.core), 4);
    fetch(&rig, 3, 10);
    assert_int_equal(core_durable_end(&rig.core), 10);
    epochs_free(&rig.epochs);
}

/* Another incarnation may have lost what was not flushed; another epoch knows nothing.
 */
static void test_what_is_forgotten(void **state)
{
    (void)state;
    struct rig rig;
    lead(&rig);
    core_flushed(&rig.core, 10);
    fetch(&rig, 2, 10);
    fetch(&rig, 3, 10);
    core_sync(&rig.core, 10);
    assert_int_equal(core_sync_outcome(&rig.core, 7, 10), 0);
    rig.request.broker_epoch++;
    rig.request.fetch_offset = 12; /* diverges: acknowledges nothing */
    fetch_take(&rig.core, &rig.epochs, 0, &rig.request, 1, &rig.answer);
    assert_int_equal(rig.answer.kind, FETCH_DIVERGING);
    assert_int_equal(core_durable_end(&rig.core), -1);
    const struct leadership next = core_rig_state(1, 8, 3);
    assert_int_equal(core_rig_lead(&rig.core, &next, rig.core.revision + 1, 2), 0);
    assert_int_equal(rig.core.flush_to, 0);
    assert_int_equal(core_durable_end(&rig.core), -1);
    assert_int_equal(core_sync_outcome(&rig.core, 7, 10), E_NOT_LEADER);
    const struct leadership other = core_rig_state(2, 9, 3);
    assert_int_equal(core_rig_lead(&rig.core, &other, rig.core.revision + 1, 2), 0);
    assert_int_equal(core_sync_outcome(&rig.core, 9, 0), E_NOT_LEADER);
    epochs_free(&rig.epochs);
}

/* A follower is told once, also where it waits, and not again while it flushes. */
static void test_followers_are_told(void **state)
{
    (void)state;
    struct rig rig;
    lead(&rig);
    fetch(&rig, 2, 8);
    assert_true(fetch_may_wait(&rig.request, &rig.answer));
    core_sync(&rig.core, 7); /* it has that */
    fetch_again(&rig.core, &rig.epochs, 0, &rig.request, &rig.answer);
    assert_true(fetch_may_wait(&rig.request, &rig.answer));
    core_sync(&rig.core, 10);
    fetch_again(&rig.core, &rig.epochs, 0, &rig.request, &rig.answer);
    assert_false(fetch_may_wait(&rig.request, &rig.answer));
    assert_int_equal(rig.answer.flush_to, 10);
    fetch(&rig, 2, 8);
    assert_int_equal(rig.request.flush_to, 10);
    assert_true(fetch_may_wait(&rig.request, &rig.answer));
    fetch(&rig, 2, 10);
    assert_true(fetch_may_wait(&rig.request, &rig.answer));
    assert_int_equal(core_synced_to(&rig.core), 6);
    /* Never more than there is, and never less than before. */
    core_sync(&rig.core, 99);
    core_sync(&rig.core, 3);
    assert_int_equal(rig.core.flush_to, 10);
    /* A copy for readers is asked for nothing. */
    rig.request.acknowledged_offset = FETCH_OBSERVES;
    rig.request.flush_to = 0;
    fetch_again(&rig.core, &rig.epochs, 0, &rig.request, &rig.answer);
    assert_int_equal(rig.answer.flush_to, 0);
    assert_true(fetch_may_wait(&rig.request, &rig.answer));
    epochs_free(&rig.epochs);
}

static void test_a_follower_flushes(void **state)
{
    (void)state;
    struct partition_core core;
    struct epoch_list epochs = {0};
    struct fetch_request request;
    core_rig_follower(&core);
    core.flushed_offset = 4;
    core_sync(&core, 10); /* only a leader asks */
    assert_int_equal(core.flush_to, 0);
    assert_false(core_must_flush(&core));
    struct fetch_answer answer = {.kind = FETCH_DATA, .flush_to = 8, .log_end = 12};
    follower_heard(&core, &answer);
    assert_true(core_must_flush(&core));
    assert_int_equal(core_synced_to(&core), 4);
    assert_true(follower_request(&core, &epochs, 0, &request));
    assert_int_equal(request.acknowledged_offset, 4);
    assert_int_equal(request.flush_to, 8);
    core_flushed(&core, 8);
    assert_false(core_must_flush(&core));
    assert_int_equal(core_synced_to(&core), 8);
    /* What has yet to come: in sync, it is flushed as it comes; else once it is there.
     */
    answer.flush_to = 12;
    follower_heard(&core, &answer);
    assert_true(core_must_flush(&core));
    core.state.isr.count = 0;
    assert_false(core_must_flush(&core));
    core_appended(&core, 12);
    assert_true(core_must_flush(&core));
    const struct leadership next = core_rig_state(2, 8, 3);
    assert_int_equal(core_rig_lead(&core, &next, core.revision + 1, 2), 0);
    assert_false(core_must_flush(&core));
    core_observe(&core, true);
    core.remote = true;
    assert_int_equal(core_synced_to(&core), -1);
    epochs_free(&epochs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_disk_counts),
        cmocka_unit_test(test_the_policy_does_not_matter),
        cmocka_unit_test(test_the_largest_set),
        cmocka_unit_test(test_what_is_forgotten),
        cmocka_unit_test(test_followers_are_told),
        cmocka_unit_test(test_a_follower_flushes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
