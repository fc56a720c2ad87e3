#include "fs/locks.h"

#include "tests/unit/support/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/file.h>

#include <cmocka.h>

enum { FILE_A = 7, FILE_B = 8 };

struct fixture {
    struct parking *parking;
    struct locks *locks;
};

static struct fixture make(void)
{
    struct fixture f = {.parking = parking_start(&clock_real)};
    assert_non_null(f.parking);
    f.locks = locks_new(f.parking);
    assert_non_null(f.locks);
    return f;
}

static void end(struct fixture *f)
{
    parking_stop(f->parking);
    locks_free(f->locks);
}

static void begin(struct fixture *f, struct record *record, uint64_t inode,
                  uint64_t owner, int operation)
{
    record_init(record);
    locks_flock(f->locks, &record->reply, inode, owner, operation);
}

static void assert_ends(struct record *record, int want)
{
    record_wait(record);
    assert_int_equal(record->error, want);
    record_end(record);
}

static void flock_now(struct fixture *f, uint64_t inode, uint64_t owner, int operation,
                      int want)
{
    struct record record;
    begin(f, &record, inode, owner, operation);
    assert_true(record_answered(&record));
    assert_ends(&record, want);
}

static void excludes(void **state)
{
    struct fixture f = make();
    (void)state;
    flock_now(&f, FILE_A, 1, LOCK_EX, 0);
    flock_now(&f, FILE_A, 1, LOCK_EX, 0); /* its own does not hinder it */
    flock_now(&f, FILE_A, 2, LOCK_EX | LOCK_NB, -EAGAIN);
    flock_now(&f, FILE_A, 2, LOCK_SH | LOCK_NB, -EAGAIN);
    flock_now(&f, FILE_B, 2, LOCK_EX | LOCK_NB, 0);
    flock_now(&f, FILE_A, 1, LOCK_SH, 0);
    flock_now(&f, FILE_A, 2, LOCK_SH, 0);
    flock_now(&f, FILE_A, 1, LOCK_EX | LOCK_NB, -EAGAIN); /* and has given up its own */
    flock_now(&f, FILE_A, 2, LOCK_EX | LOCK_NB, 0);
    flock_now(&f, FILE_A, 2, LOCK_UN, 0);
    flock_now(&f, FILE_A, 2, LOCK_UN, 0);
    flock_now(&f, FILE_A, 1, LOCK_EX | LOCK_NB, 0);
    flock_now(&f, FILE_A, 1, 0, -EINVAL);
    end(&f);
}

static void waits_in_order(void **state)
{
    struct fixture f = make();
    struct record writer, first, second;
    (void)state;
    flock_now(&f, FILE_A, 1, LOCK_SH, 0);
    begin(&f, &writer, FILE_A, 2, LOCK_EX);
    begin(&f, &first, FILE_A, 3, LOCK_SH); /* behind the writer, or it would starve */
    begin(&f, &second, FILE_A, 4, LOCK_SH);
    assert_false(record_wait_ms(&writer, 10));
    assert_false(record_answered(&first));
    locks_release(f.locks, FILE_A, 1);
    assert_ends(&writer, 0);
    assert_false(record_answered(&first));
    locks_release(f.locks, FILE_A, 2);
    assert_ends(&first, 0);
    assert_ends(&second, 0);
    flock_now(&f, FILE_A, 5, LOCK_EX | LOCK_NB, -EAGAIN);
    end(&f);
}

static void one_that_gives_up_lets_others_pass(void **state)
{
    struct fixture f = make();
    struct record writer, reader;
    (void)state;
    flock_now(&f, FILE_A, 1, LOCK_SH, 0);
    begin(&f, &writer, FILE_A, 2, LOCK_EX);
    begin(&f, &reader, FILE_A, 3, LOCK_SH);
    assert_false(record_wait_ms(&reader, 10));
    record_interrupt(&writer);
    assert_ends(&writer, -EINTR);
    assert_ends(&reader, 0);
    end(&f);
}

static void interrupted_before_it_waits(void **state)
{
    struct fixture f = make();
    struct record record;
    (void)state;
    flock_now(&f, FILE_A, 1, LOCK_EX, 0);
    record_init(&record);
    record_interrupt(&record);
    locks_flock(f.locks, &record.reply, FILE_A, 2, LOCK_EX);
    assert_ends(&record, -EINTR);
    flock_now(&f, FILE_A, 1, LOCK_UN, 0);
    flock_now(&f, FILE_A, 3, LOCK_EX | LOCK_NB, 0);
    end(&f);
}

static void ends_with_the_mount(void **state)
{
    struct fixture f = make();
    struct record record;
    (void)state;
    flock_now(&f, FILE_A, 1, LOCK_EX, 0);
    begin(&f, &record, FILE_A, 2, LOCK_SH);
    parking_drain(f.parking);
    assert_ends(&record, -ENOTCONN);
    end(&f);
}

enum { THREADS = 4, ROUNDS = 200 };

struct contender {
    struct fixture *f;
    uint64_t owner;
    int *counter; /* guarded by the lock alone */
    int taken;
};

static void *contend(void *arg)
{
    struct contender *contender = arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct record record;
        begin(contender->f, &record, FILE_A, contender->owner, LOCK_EX);
        if (i % 3 == 0)
            record_interrupt(&record);
        record_wait(&record);
        if (record.error == 0) {
            ++*contender->counter;
            contender->taken++;
            locks_release(contender->f->locks, FILE_A, contender->owner);
        }
        record_end(&record);
    }
    return NULL;
}

static void threads_contend(void **state)
{
    struct fixture f = make();
    struct contender contenders[THREADS];
    pthread_t threads[THREADS];
    int counter = 0, taken = 0;
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        contenders[i] = (struct contender){&f, (uint64_t)i + 1, &counter, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, contend, &contenders[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        taken += contenders[i].taken;
    }
    assert_int_equal(counter, taken);
    assert_true(taken >= THREADS * ROUNDS / 2);
    flock_now(&f, FILE_A, 99, LOCK_EX | LOCK_NB, 0);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(excludes),
        cmocka_unit_test(waits_in_order),
        cmocka_unit_test(one_that_gives_up_lets_others_pass),
        cmocka_unit_test(interrupted_before_it_waits),
        cmocka_unit_test(ends_with_the_mount),
        cmocka_unit_test(threads_contend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
