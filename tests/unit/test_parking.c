#include "fs/parking.h"

#include "tests/unit/support/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* A request as parking.h describes it, waiting for one thing that can be cancelled. */
struct op {
    struct parking_waiter waiter;
    struct record record;
    atomic_int remaining;
    pthread_mutex_t lock;
    bool armed; /* [lock] the thing waited for: whoever clears it ends it */
    int error;
};

static void complete(struct op *op)
{
    reply_on_interrupt(&op->record.reply, NULL, NULL);
    parking_remove(&op->waiter);
    reply_error(&op->record.reply, op->error);
}

static void end_one(struct op *op)
{
    if (atomic_fetch_sub(&op->remaining, 1) == 1)
        complete(op);
}

static bool disarm(struct op *op)
{
    bool was;
    pthread_mutex_lock(&op->lock);
    was = op->armed;
    op->armed = false;
    pthread_mutex_unlock(&op->lock);
    return was;
}

static void give_up(struct parking_waiter *waiter, enum parking_reason reason)
{
    struct op *op = (struct op *)waiter;
    if (!disarm(op))
        return;
    op->error = -1000 - (int)reason;
    end_one(op);
}

static void event(struct op *op)
{
    if (!disarm(op))
        return;
    op->error = 1;
    end_one(op);
}

static void start(struct op *op, int64_t timeout_ms, int64_t grace_ms)
{
    reply_on_interrupt(&op->record.reply, parking_interrupt, &op->waiter);
    parking_add(&op->waiter, timeout_ms, grace_ms);
    end_one(op);
}

static void prepare(struct op *op, struct parking *parking)
{
    record_init(&op->record);
    pthread_mutex_init(&op->lock, NULL);
    op->armed = true;
    op->error = 0;
    atomic_init(&op->remaining, 2);
    parking_waiter_init(&op->waiter, parking, give_up);
}

static void end(struct op *op)
{
    assert_int_equal(op->record.answers, 1);
    record_end(&op->record);
    pthread_mutex_destroy(&op->lock);
}

static int setup(void **state)
{
    *state = parking_start(&clock_real);
    return *state == NULL;
}

static int teardown(void **state)
{
    parking_stop(*state);
    return 0;
}

static void completion_answers(void **state)
{
    struct op op;
    prepare(&op, *state);
    start(&op, PARKING_FOREVER, 0);
    assert_false(record_answered(&op.record));
    event(&op);
    record_wait(&op.record);
    assert_int_equal(op.record.error, 1);
    end(&op);
}

static void completion_before_parking(void **state)
{
    struct op op;
    prepare(&op, *state);
    event(&op);
    assert_false(record_answered(&op.record));
    start(&op, PARKING_FOREVER, 0);
    assert_true(record_answered(&op.record));
    end(&op);
}

static void deadlines_in_order(void **state)
{
    struct op ops[3];
    const int64_t ms[] = {60, 20, 40};
    int64_t begin = clock_mono_ms(&clock_real);
    for (int i = 0; i < 3; i++) {
        prepare(&ops[i], *state);
        start(&ops[i], ms[i], 0);
    }
    record_wait(&ops[1].record);
    assert_true(clock_mono_ms(&clock_real) - begin >= 19);
    record_wait(&ops[2].record);
    record_wait(&ops[0].record);
    assert_true(clock_mono_ms(&clock_real) - begin >= 59);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].record.error, -1000 - PARKING_DEADLINE);
        end(&ops[i]);
    }
}

static void interrupt_waits_for_its_grace(void **state)
{
    struct op op;
    int64_t begin = clock_mono_ms(&clock_real);
    prepare(&op, *state);
    start(&op, 30000, 30);
    record_interrupt(&op.record);
    record_interrupt(&op.record);
    record_wait(&op.record);
    assert_true(clock_mono_ms(&clock_real) - begin >= 29);
    assert_int_equal(op.record.error, -1000 - PARKING_INTERRUPTED);
    end(&op);
}

static void completion_within_the_grace(void **state)
{
    struct op op;
    prepare(&op, *state);
    start(&op, PARKING_FOREVER, 10000);
    record_interrupt(&op.record);
    event(&op);
    record_wait(&op.record);
    assert_int_equal(op.record.error, 1);
    end(&op);
}

static void deadline_within_the_grace(void **state)
{
    struct op op;
    prepare(&op, *state);
    start(&op, 20, 10000);
    record_interrupt(&op.record);
    record_wait(&op.record);
    assert_int_equal(op.record.error, -1000 - PARKING_DEADLINE);
    end(&op);
}

static void interrupted_before_parking(void **state)
{
    struct op op;
    prepare(&op, *state);
    record_interrupt(&op.record);
    start(&op, PARKING_FOREVER, 0);
    record_wait(&op.record);
    assert_int_equal(op.record.error, -1000 - PARKING_INTERRUPTED);
    end(&op);
}

static void expire_at_once(void **state)
{
    struct op op;
    prepare(&op, *state);
    start(&op, PARKING_FOREVER, 0);
    parking_expire(&op.waiter);
    record_wait(&op.record);
    assert_int_equal(op.record.error, -1000 - PARKING_STOPPED);
    end(&op);
}

static void drain_ends_all_and_what_comes_later(void **state)
{
    struct op ops[4];
    for (int i = 0; i < 4; i++)
        prepare(&ops[i], *state);
    start(&ops[0], PARKING_FOREVER, 0);
    start(&ops[1], 30000, 0);
    start(&ops[2], PARKING_FOREVER, 30000);
    record_interrupt(&ops[2].record);
    parking_drain(*state);
    start(&ops[3], PARKING_FOREVER, 0);
    for (int i = 0; i < 4; i++)
        record_wait(&ops[i].record);
    assert_int_equal(ops[0].record.error, -1000 - PARKING_STOPPED);
    assert_int_equal(ops[1].record.error, -1000 - PARKING_STOPPED);
    assert_int_equal(ops[2].record.error, -1000 - PARKING_INTERRUPTED);
    assert_int_equal(ops[3].record.error, -1000 - PARKING_STOPPED);
    for (int i = 0; i < 4; i++)
        end(&ops[i]);
}

enum { RACERS = 400 };

struct race {
    struct op ops[RACERS];
    atomic_int next[2]; /* of each kind of thread */
    atomic_int started;
};

static void *completer(void *arg)
{
    struct race *race = arg;
    for (int i; (i = atomic_fetch_add(&race->next[0], 1)) < RACERS;) {
        while (atomic_load(&race->started) <= i)
            continue;
        if (i % 4 != 0)
            event(&race->ops[i]);
    }
    return NULL;
}

static void *interrupter(void *arg)
{
    struct race *race = arg;
    for (int i; (i = atomic_fetch_add(&race->next[1], 1)) < RACERS;) {
        while (atomic_load(&race->started) <= i)
            continue;
        record_interrupt(&race->ops[i].record);
    }
    return NULL;
}

/* Everything at once; each request is answered once and its memory is gone right after.
 */
static void races(void **state)
{
    struct race *race = calloc(1, sizeof *race);
    pthread_t threads[2];
    assert_non_null(race);
    assert_int_equal(pthread_create(&threads[0], NULL, completer, race), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, interrupter, race), 0);
    for (int i = 0; i < RACERS; i++) {
        prepare(&race->ops[i], *state);
        atomic_store(&race->started, i + 1);
        start(&race->ops[i], i % 8 == 0 ? 1 : 1000, i % 3);
    }
    for (int i = 0; i < RACERS; i++)
        record_wait(&race->ops[i].record);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < RACERS; i++)
        end(&race->ops[i]);
    free(race);
}

int main(void)
{
#define PARKING_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        PARKING_TEST(completion_answers),
        PARKING_TEST(completion_before_parking),
        PARKING_TEST(deadlines_in_order),
        PARKING_TEST(interrupt_waits_for_its_grace),
        PARKING_TEST(completion_within_the_grace),
        PARKING_TEST(deadline_within_the_grace),
        PARKING_TEST(interrupted_before_parking),
        PARKING_TEST(expire_at_once),
        PARKING_TEST(drain_ends_all_and_what_comes_later),
        PARKING_TEST(races),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
