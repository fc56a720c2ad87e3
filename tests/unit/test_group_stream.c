/* Streams of groups, on one node with its coordinator. */
#include "fs/group_stream_internal.h"

#include "replica/group_wire.h"
#include "replica/groups_internal.h"
#include "replica/partition_internal.h"
#include "tests/unit/support/groups_rig.h"
#include "tests/unit/support/record.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOMENT_MS = 20, TRIES = 500, POLL_MS = 20000 };

struct fixture {
    struct groups_rig *rig;
    struct parking *parking;
    struct worker *worker;
    atomic_int fired; /* notifies of polls */
    atomic_int freed;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    void *rig = NULL;
    assert_non_null(f);
    assert_int_equal(groups_rig_setup(&rig), 0);
    f->rig = rig;
    f->parking = parking_start(&clock_real);
    f->worker = worker_start();
    assert_non_null(f->parking);
    assert_non_null(f->worker);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    void *rig = f->rig;
    parking_stop(f->parking);
    worker_stop(f->worker);
    (void)groups_rig_teardown(&rig);
    free(f);
    return 0;
}

/* ---- whoever opens ------------------------------------------------------------------
 */

struct opener {
    struct group_stream_waiter waiter; /* first */
    struct record record;              /* tells what done() said, and interrupts */
};

static void opened(struct group_stream_waiter *waiter, int error)
{
    struct opener *opener = (struct opener *)waiter;
    reply_error(&opener->record.reply, error);
}

static void on_interrupt(struct group_stream_waiter *waiter, void (*fn)(void *),
                         void *arg)
{
    struct opener *opener = (struct opener *)waiter;
    reply_on_interrupt(&opener->record.reply, fn, arg);
}

static struct group_stream *begin_open(struct fixture *f, const char *group,
                                       enum stream_format format, struct opener *opener)
{
    const struct group_stream_params params = {.groups = f->rig->groups,
                                               .parking = f->parking,
                                               .worker = f->worker,
                                               .group = group,
                                               .topic = "t",
                                               .topic_id = f->rig->topic,
                                               .format = format,
                                               .key_delimiter = '\t'};
    struct group_stream *stream = NULL;
    opener->waiter =
        (struct group_stream_waiter){.done = opened, .on_interrupt = on_interrupt};
    record_init(&opener->record);
    assert_int_equal(group_stream_open(&params, &stream), 0);
    group_stream_await(stream, &opener->waiter);
    return stream;
}

static struct group_stream *open_stream(struct fixture *f, enum stream_format format)
{
    struct opener opener;
    struct group_stream *stream = begin_open(f, "g", format, &opener);
    record_wait(&opener.record);
    assert_int_equal(opener.record.error, 0);
    record_end(&opener.record);
    return stream;
}

/* ---- reading ------------------------------------------------------------------------
 */

static void begin_read(struct group_stream *stream, struct record *record, int64_t at,
                       size_t size)
{
    record_init(record);
    group_stream_read(stream, &record->reply, at, size, false);
}

static void expect(struct group_stream *stream, int64_t at, const char *want)
{
    struct record record;
    begin_read(stream, &record, at, 100);
    record_expect_bytes(&record, want);
}

static int64_t committed(struct fixture *f)
{
    return group_user_offset(f->rig->groups, "g", 0);
}

/* Nothing is committed until it is let go. */
static struct partition *hold_commits(struct fixture *f)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(f->rig->node.cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, GROUPS_TOPIC);
    assert_non_null(topic);
    struct partition *partition = node_partition(
        &f->rig->node, GROUPS_TOPIC, group_wire_shard("g", topic->partition_count));
    cluster_snapshot_put(snapshot);
    assert_non_null(partition);
    pthread_mutex_lock(&partition->append_lock);
    return partition;
}

static void let_commit(struct partition *partition)
{
    pthread_mutex_unlock(&partition->append_lock);
    partition_unref(partition);
}

static void commits_what_lies_below(void **state)
{
    struct fixture *f = *state;
    struct record record;
    groups_rig_append(f->rig, 0, "a\nb\n");
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    expect(stream, 0, "a\nb\n");
    assert_int_equal(committed(f), 0);
    expect(stream, 3, "\n"); /* within the second line */
    assert_int_equal(committed(f), 1);
    begin_read(stream, &record, 1, 100);
    record_expect_error(&record, -ESTALE);
    begin_read(stream, &record, 5, 100);
    record_expect_error(&record, -EINVAL);
    begin_read(stream, &record, 4, 100);
    assert_false(record_wait_ms(&record, MOMENT_MS));
    assert_int_equal(committed(f), 2);
    groups_rig_append(f->rig, 0, "c\n");
    record_expect_bytes(&record, "c\n");
    begin_read(stream, &record, 4, 0);
    record_expect_bytes(&record, "");
    group_stream_close(stream);
    assert_int_equal(committed(f), 2);
}

/* Who wants a number of bytes, as dd and fread() do, need not come back for the end of
 * a line alone: each time it does costs a commit. */
static void goes_on_behind_a_line(void **state)
{
    struct fixture *f = *state;
    groups_rig_append(f->rig, 0, "aa\nbb\ncc\ndd\n");
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    struct record record;
    begin_read(stream, &record, 0, 4);
    record_expect_bytes(&record, "aa\n");
    begin_read(stream, &record, 3, 1);
    record_expect_bytes(&record, "b");
    assert_int_equal(committed(f), 1);
    begin_read(stream, &record, 4, 6);
    record_expect_bytes(&record, "b\ncc\n");
    assert_int_equal(committed(f), 1);
    begin_read(stream, &record, 6, 2); /* lines that are there are not added to */
    record_expect_bytes(&record, "cc");
    assert_int_equal(committed(f), 2);
    expect(stream, 6, "cc\n");
    expect(stream, 8, "\ndd\n");
    assert_int_equal(committed(f), 2);
    expect(stream, 10, "d\n"); /* there is no more */
    assert_int_equal(committed(f), 3);
    group_stream_close(stream);
}

static void json_lines(void **state)
{
    struct fixture *f = *state;
    struct record record;
    groups_rig_append(f->rig, 0, "k\tv\n");
    struct group_stream *stream = open_stream(f, STREAM_JSON);
    begin_read(stream, &record, 0, 4096);
    record_wait(&record);
    assert_int_equal(record.error, 0);
    assert_non_null(strstr(record.bytes, "\"partition\":0,\"offset\":0,"));
    assert_non_null(strstr(record.bytes, "\"key\":\"k\",\"value\":\"v\"}\n"));
    int64_t length = (int64_t)record.length;
    record_end(&record);
    begin_read(stream, &record, length, 4096);
    assert_false(record_wait_ms(&record, MOMENT_MS));
    assert_int_equal(committed(f), 1);
    group_stream_close(stream);
    record_expect_error(&record, -ENOTCONN);
}

static void interrupts(void **state)
{
    struct fixture *f = *state;
    struct record record;
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    begin_read(stream, &record, 0, 100);
    assert_false(record_wait_ms(&record, MOMENT_MS));
    record_interrupt(&record);
    record_expect_error(&record, -EINTR);
    record_init(&record);
    record_interrupt(&record); /* before it is asked */
    group_stream_read(stream, &record.reply, 0, 100, false);
    record_expect_error(&record, -EINTR);
    groups_rig_append(f->rig, 0, "a\n");
    expect(stream, 0, "a\n");
    /* While its commit is on its way. */
    struct partition *held = hold_commits(f);
    begin_read(stream, &record, 2, 100);
    assert_false(record_wait_ms(&record, MOMENT_MS));
    record_interrupt(&record);
    record_expect_error(&record, -EINTR);
    let_commit(held);
    groups_rig_append(f->rig, 0, "b\n");
    expect(stream, 2, "b\n");
    assert_int_equal(committed(f), 1);
    group_stream_close(stream);
}

/* The end of the mount, and of the stream, answers those that wait. */
static void ends(void **state)
{
    struct fixture *f = *state;
    struct record records[2];
    groups_rig_append(f->rig, 0, "a\n");
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    expect(stream, 0, "a\n");
    struct partition *held = hold_commits(f);
    begin_read(stream, &records[0], 2, 100);
    assert_false(record_wait_ms(&records[0], MOMENT_MS));
    group_stream_close(stream);
    record_expect_error(&records[0], -ENOTCONN);
    let_commit(held);
    stream = open_stream(f, STREAM_TEXT);
    begin_read(stream, &records[0], 0, 100);
    begin_read(stream, &records[1], 0, 100);
    assert_false(record_wait_ms(&records[1], MOMENT_MS));
    parking_drain(f->parking);
    record_expect_error(&records[0], -ENOTCONN);
    record_expect_error(&records[1], -ENOTCONN);
    group_stream_close(stream);
}

/* The node stops serving groups: that is the end of the mount, no damage. */
static void groups_end(void **state)
{
    struct fixture *f = *state;
    struct opener opener;
    struct record record;
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    begin_read(stream, &record, 0, 100);
    assert_false(record_wait_ms(&record, MOMENT_MS));
    groups_interrupt(f->rig->groups);
    record_expect_error(&record, -ENOTCONN);
    struct group_stream *late = begin_open(f, "g", STREAM_TEXT, &opener);
    record_expect_error(&opener.record, -ENOTCONN);
    group_stream_close(late);
    group_stream_close(stream);
}

static void openers(void **state)
{
    struct fixture *f = *state;
    struct opener opener;
    group_stream_close(open_stream(f, STREAM_TEXT));
    struct partition *held = hold_commits(f);
    struct group_stream *stream = begin_open(f, "g", STREAM_TEXT, &opener);
    assert_false(record_wait_ms(&opener.record, MOMENT_MS));
    record_interrupt(&opener.record);
    record_expect_error(&opener.record, -EINTR);
    group_stream_close(stream);
    stream = begin_open(f, "g", STREAM_TEXT, &opener);
    let_commit(held);
    record_expect_error(&opener.record, 0);
    group_stream_close(stream);
}

/* A read that must not block waits for a commit, but not for ever. */
static void nonblocking(void **state)
{
    struct fixture *f = *state;
    struct record record;
    groups_rig_append(f->rig, 0, "a\n");
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    expect(stream, 0, "a\n");
    record_init(&record);
    group_stream_read(stream, &record.reply, 2, 100, true);
    record_expect_error(&record, -EAGAIN);
    assert_int_equal(committed(f), 1);
    groups_rig_append(f->rig, 0, "b\n");
    expect(stream, 2, "b\n");
    struct partition *held = hold_commits(f);
    record_init(&record);
    group_stream_read(stream, &record.reply, 4, 100, true);
    assert_true(record_wait_ms(&record, 3000));
    record_expect_error(&record, -EAGAIN);
    let_commit(held);
    groups_rig_append(f->rig, 0, "c\n");
    expect(stream, 4, "c\n");
    assert_int_equal(committed(f), 2);
    group_stream_close(stream);
}

/* What another reads by now is not handed out again, also not from memory. */
static void what_was_lost_is_not_handed_out(void **state)
{
    struct fixture *f = *state;
    struct record record;
    struct group_chunk chunk;
    groups_rig_configure(f->rig, "g", "{\"max_poll_interval_ms\":5000}");
    groups_rig_append(f->rig, 0, "a\nb\nc\n");
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    expect(stream, 0, "a\nb\nc\n");
    expect(stream, 2, "b\nc\n");
    struct group_user *other = groups_rig_join(f->rig, "g");
    atomic_fetch_add(&f->rig->clock.ahead_ms, 6000);
    group_user_until_partitions(other, 4);
    group_user_expect(other, "b\nc\n", &chunk);
    assert_int_equal(group_user_finish(other, &chunk), 0);
    assert_int_equal(group_user_sync(other), 0);
    begin_read(stream, &record, 2, 100);
    assert_false(record_wait_ms(&record, MOMENT_MS));
    group_user_leave(other);
    groups_rig_append(f->rig, 0, "d\n");
    record_expect_bytes(&record, "d\n");
    group_stream_close(stream);
}

/* Two that share an open file: what one does is not the end of the other's wait. */
static void who_waits_joins_again(void **state)
{
    struct fixture *f = *state;
    struct record waiting;
    struct record record;
    groups_rig_append(f->rig, 0, "a\nb\n");
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    expect(stream, 0, "a\nb\n");
    begin_read(stream, &waiting, 4, 100);
    assert_false(record_wait_ms(&waiting, MOMENT_MS));
    begin_read(stream, &record, 0, 100);
    record_expect_error(&record, -ESTALE);
    atomic_fetch_add(&f->rig->clock.ahead_ms, 20000);
    for (int i = 0; i < TRIES; i++)
        (void)committed(f);
    groups_rig_append(f->rig, 0, "c\n");
    record_expect_bytes(&waiting, "c\n");
    group_stream_close(stream);
}

/* ---- poll ---------------------------------------------------------------------------
 */

struct notify {
    struct stream_notify base; /* first */
    atomic_int *fired;
    atomic_int *freed;
};

static void notify_free(struct stream_notify *base)
{
    struct notify *notify = (struct notify *)base;
    (void)atomic_fetch_add(notify->freed, 1);
    free(notify);
}

static void notify_fire(struct stream_notify *base)
{
    struct notify *notify = (struct notify *)base;
    (void)atomic_fetch_add(notify->fired, 1);
    notify_free(base);
}

static struct stream_notify *notify_new(atomic_int *fired, atomic_int *freed)
{
    struct notify *notify = malloc(sizeof *notify);
    assert_non_null(notify);
    *notify = (struct notify){.base = {.fire = notify_fire, .free = notify_free},
                              .fired = fired,
                              .freed = freed};
    return &notify->base;
}

static void poll_tells(void **state)
{
    struct fixture *f = *state;
    atomic_int fired = 0;
    atomic_int freed = 0;
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    struct record record;
    record_init(&record); /* until its partitions are there */
    group_stream_read(stream, &record.reply, 0, 100, false);
    groups_rig_append(f->rig, 0, "a\n");
    record_expect_bytes(&record, "a\n");
    assert_false(group_stream_poll(stream, notify_new(&fired, &freed)));
    groups_rig_append(f->rig, 0, "b\n");
    for (int i = 0; i < TRIES && atomic_load(&fired) == 0; i++)
        (void)committed(f);
    assert_int_equal(atomic_load(&fired), 1);
    assert_true(group_stream_poll(stream, notify_new(&fired, &freed)));
    assert_true(group_stream_poll(stream, notify_new(&fired, &freed)));
    assert_true(group_stream_poll(stream, NULL));
    group_stream_close(stream);
    assert_int_equal(atomic_load(&freed), 3);
}

/* Waits as poll(2) does. */
static void await_poll(struct fixture *f, struct group_stream *stream)
{
    int seen = atomic_load(&f->fired);
    while (!group_stream_poll(stream, notify_new(&f->fired, &f->freed))) {
        const int64_t until_ms = clock_mono_ms(&clock_real) + POLL_MS;
        while (atomic_load(&f->fired) == seen) {
            assert_true(clock_mono_ms(&clock_real) < until_ms);
            (void)committed(f);
        }
        seen = atomic_load(&f->fired);
    }
}

/* Who waits in poll(2) does not run out, whatever it has in hand. */
static void pollers_stay(void **state)
{
    struct fixture *f = *state;
    groups_rig_configure(f->rig, "g", "{\"max_poll_interval_ms\":5000}");
    groups_rig_append(f->rig, 0, "a\n");
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    expect(stream, 0, "a\n");
    assert_false(group_stream_poll(stream, notify_new(&f->fired, &f->freed)));
    for (int i = 0; i < 5; i++) { /* in steps that no session ends in */
        atomic_fetch_add(&f->rig->clock.ahead_ms, 3000);
        (void)committed(f);
    }
    groups_rig_append(f->rig, 0, "b\n");
    await_poll(f, stream);
    expect(stream, 2, "b\n");
    assert_int_equal(committed(f), 1);
    group_stream_close(stream);
}

/* Nor is it left out when its session ended meanwhile. */
static void pollers_join_again(void **state)
{
    struct fixture *f = *state;
    groups_rig_append(f->rig, 0, "a\n");
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    expect(stream, 0, "a\n");
    assert_false(group_stream_poll(stream, notify_new(&f->fired, &f->freed)));
    atomic_fetch_add(&f->rig->clock.ahead_ms, 20000);
    await_poll(f, stream);
    expect(stream, 0, "a\n"); /* it was not committed */
    group_stream_close(stream);
}

/* What it has is asked for by another: it is to come back for that. */
static void pollers_give_up(void **state)
{
    struct fixture *f = *state;
    struct record record;
    struct group_chunk chunk;
    groups_rig_append(f->rig, 3, "a\n");
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    expect(stream, 0, "a\n");
    assert_false(group_stream_poll(stream, notify_new(&f->fired, &f->freed)));
    struct group_user *other = groups_rig_join(f->rig, "g");
    await_poll(f, stream);
    record_init(&record);
    group_stream_read(stream, &record.reply, 2, 100, true);
    record_expect_error(&record, -EAGAIN);
    groups_rig_append(f->rig, 3, "b\n");
    group_user_expect(other, "b\n", &chunk);
    group_user_leave(other);
    group_stream_close(stream);
}

static bool await_fired(struct fixture *f, int seen, int ms)
{
    const int64_t until_ms = clock_mono_ms(&clock_real) + ms;
    while (atomic_load(&f->fired) == seen && clock_mono_ms(&clock_real) < until_ms)
        sched_yield();
    return atomic_load(&f->fired) != seen;
}

/* The leader does not say where to begin while it is silent. */
static void set_session(struct partition *partition, enum core_session session)
{
    pthread_mutex_lock(&partition->lock);
    partition->core.session = session;
    pthread_mutex_unlock(&partition->lock);
}

/* It knows where it begins, and that there are messages. */
static bool is_placed(struct group_stream *stream)
{
    struct group_member *member = stream->member;
    pthread_mutex_lock(&member->lock);
    const struct member_part *part = member_core_part(member->core, 0);
    bool placed = part->stage == MEMBER_STARTING && part->data;
    pthread_mutex_unlock(&member->lock);
    return placed;
}

/* Where a new group begins is committed before the first message is handed out: who
 * polled meanwhile is told of the message then. */
static void pollers_begin(void **state)
{
    struct fixture *f = *state;
    int seen;
    groups_rig_append(f->rig, 0, "a\n");
    struct partition *read = node_partition(&f->rig->node, "t", 0);
    set_session(read, SESSION_SILENT);
    struct group_stream *stream = open_stream(f, STREAM_TEXT);
    struct group_member_status status = {0};
    for (int i = 0; i < TRIES && status.partitions < 4; i++) {
        (void)committed(f);
        group_member_status(stream->member, &status);
    }
    assert_int_equal(status.partitions, 4);
    struct partition *held = hold_commits(f);
    set_session(read, SESSION_GOOD);
    partition_unref(read);
    const int64_t until_ms = clock_mono_ms(&clock_real) + POLL_MS;
    while (!is_placed(stream)) {
        assert_true(clock_mono_ms(&clock_real) < until_ms);
        sched_yield();
    }
    do { /* until nothing more is told */
        seen = atomic_load(&f->fired);
        assert_false(group_stream_poll(stream, notify_new(&f->fired, &f->freed)));
    } while (await_fired(f, seen, 2 * MOMENT_MS));
    let_commit(held);
    assert_true(await_fired(f, seen, POLL_MS));
    await_poll(f, stream);
    expect(stream, 0, "a\n");
    group_stream_close(stream);
}

/* ---- all at once --------------------------------------------------------------------
 */

enum { STORM_LINES = 60, STORM_THREADS = 3 };

struct storm {
    struct fixture *f;
    unsigned seed;
};

/* Reads line by line, and is interrupted at any moment. */
static void storm_read(struct storm *storm, struct group_stream *stream, int lines)
{
    int64_t at = 0;
    for (int i = 0; i < lines; i++) {
        struct record record;
        begin_read(stream, &record, at, 2);
        if (rand_r(&storm->seed) % 2 == 0)
            (void)record_wait_ms(&record, rand_r(&storm->seed) % 3);
        record_interrupt(&record);
        record_wait(&record);
        assert_true(record.error == 0 || record.error == -EINTR);
        at += record.error == 0 ? (int64_t)record.length : 0;
        record_end(&record);
    }
}

static void *storm_main(void *arg)
{
    struct storm *storm = arg;
    for (int i = 0; i < 4; i++) {
        struct opener opener;
        struct group_stream *stream = begin_open(storm->f, "g", STREAM_TEXT, &opener);
        if (rand_r(&storm->seed) % 3 == 0)
            record_interrupt(&opener.record);
        record_wait(&opener.record);
        if (opener.record.error == 0)
            storm_read(storm, stream, 30);
        record_end(&opener.record);
        group_stream_close(stream);
    }
    return NULL;
}

static void interrupted_at_any_moment(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[STORM_THREADS];
    struct storm storms[STORM_THREADS];
    for (int i = 0; i < STORM_LINES; i++)
        groups_rig_append(f->rig, i % 4, "x\n");
    for (unsigned i = 0; i < STORM_THREADS; i++) {
        storms[i] = (struct storm){f, i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, storm_main, &storms[i]), 0);
    }
    for (unsigned i = 0; i < STORM_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(commits_what_lies_below),
        TEST(goes_on_behind_a_line),
        TEST(json_lines),
        TEST(interrupts),
        TEST(ends),
        TEST(groups_end),
        TEST(openers),
        TEST(nonblocking),
        TEST(what_was_lost_is_not_handed_out),
        TEST(who_waits_joins_again),
        TEST(poll_tells),
        TEST(pollers_stay),
        TEST(pollers_join_again),
        TEST(pollers_give_up),
        TEST(pollers_begin),
        TEST(interrupted_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
