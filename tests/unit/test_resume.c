/* Writes that are given up while other nodes have to do with them, and sent again. */
#include "fs/appender.h"

#include "tests/unit/support/node.h"
#include "tests/unit/support/record.h"
#include "tests/unit/support/replica_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { AT_ONCE_MS = 1500, SETTLE_MS = 50, GRACE_MS = 20 };

struct fixture {
    struct replica_rig *rig;
    int leader, writer, third;
    struct parking *parking;
    struct partition *partition; /* on the writer's node */
    struct appender *appender;
};

static void open_appender(struct fixture *f, int id)
{
    struct rig_node *member = &f->rig->cluster.nodes[id];
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(member->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, "t");
    assert_non_null(topic);
    const struct appender_params params = {
        .cluster = member->cluster,
        .broker = f->rig->nodes[id].broker,
        .parking = f->parking,
        .topic_id = topic->id,
        .partition = 0,
        .grace_ms = GRACE_MS,
    };
    cluster_snapshot_put(snapshot);
    f->partition = replica_rig_partition(f->rig, id, "t");
    assert_int_equal(appender_open(&params, &f->appender), 0);
}

static int begin_with(void **state, const char *settings)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->rig = replica_rig_open(3);
    f->parking = parking_start(&clock_real);
    assert_non_null(f->parking);
    replica_rig_topic(f->rig, "t", settings);
    f->leader = replica_rig_leader(f->rig, 1, "t", -1);
    f->writer = f->leader % 3 + 1;
    f->third = f->writer % 3 + 1;
    *state = f;
    return 0;
}

static int begin(void **state)
{
    return begin_with(state, "{\"replication_factor\":3,\"min_insync_replicas\":2}");
}

/* Writes are answered before they are sent. */
static int begin_unacknowledged(void **state)
{
    return begin_with(state,
                      "{\"replication_factor\":3,\"min_insync_replicas\":2,"
                      "\"acks\":0,\"flush\":\"os\",\"delivery_timeout_ms\":400}");
}

static int end(void **state)
{
    struct fixture *f = *state;
    if (f->appender) {
        appender_release(f->appender, NULL);
    }
    parking_stop(f->parking);
    partition_unref(f->partition);
    replica_rig_close(f->rig);
    free(f);
    return 0;
}

static void begin_write(struct fixture *f, struct record *record, const char *text)
{
    record_init(record);
    appender_write(f->appender, &record->reply, text, strlen(text), 1);
}

static void begin_waiting(struct fixture *f, struct record *record, const char *text)
{
    begin_write(f, record, text);
    assert_false(record_wait_ms(record, SETTLE_MS));
}

static long put(struct fixture *f, const char *text)
{
    struct record record;
    begin_write(f, &record, text);
    return record_result(&record);
}

static void interrupt_write(struct fixture *f, const char *text)
{
    struct record record;
    begin_waiting(f, &record, text);
    record_interrupt(&record);
    assert_true(record_wait_ms(&record, AT_ONCE_MS));
    assert_int_equal(record_result(&record), -EINTR);
}

/* The leader, which writes, has one message; the others are cut off. */
static void leave_alone(struct fixture *f)
{
    open_appender(f, f->leader);
    assert_int_equal(put(f, "one\n"), 4);
    replica_rig_cut_off(f->rig, f->writer);
    replica_rig_cut_off(f->rig, f->third);
}

/* The others are there again, and one of them leads; the old leader, which reaches no
 * store and is not reached, does not know. The partition on the new one's node. */
static struct partition *pass_over(struct fixture *f)
{
    struct replica_node *node = &f->rig->nodes[f->leader];
    http_server_stop(node->server);
    node->server = NULL;
    shared_store_cut(f->rig->cluster.nodes[f->leader].store, true);
    shared_backend_advance(f->rig->cluster.backend, 7000);
    replica_rig_start(f->rig, f->writer);
    replica_rig_start(f->rig, f->third);
    int second = replica_rig_leader(f->rig, f->writer, "t", f->leader);
    return replica_rig_partition(f->rig, second, "t");
}

/* What a new leader cut is not acknowledged for what took its place. */
static void cut_and_overgrown(void **state)
{
    struct fixture *f = *state;
    leave_alone(f);
    interrupt_write(f, "lost\n");
    struct partition *partition = pass_over(f);
    assert_int_equal(node_append(partition, "two\nthree\n", NULL), 0);
    assert_int_equal(node_append(partition, "four\n", NULL), 0);
    shared_store_cut(f->rig->cluster.nodes[f->leader].store, false);
    replica_rig_until_committed(f->partition, 4);
    assert_int_equal(put(f, "lost\n"), 5);
    node_assert_text(f->partition, "one\ntwo\nthree\nfour\nlost\n");
    replica_rig_until_committed(partition, 5);
    node_assert_text(partition, "one\ntwo\nthree\nfour\nlost\n");
    partition_unref(partition);
}

/* Who waits for what a new leader cut waits on: it is appended there. */
static void blocks_through_a_failover(void **state)
{
    struct fixture *f = *state;
    struct record record;
    leave_alone(f);
    begin_waiting(f, &record, "late\nlater\n");
    struct partition *partition = pass_over(f);
    assert_int_equal(node_append(partition, "two\n", NULL), 0);
    shared_store_cut(f->rig->cluster.nodes[f->leader].store, false);
    assert_int_equal(record_result(&record), 11);
    node_assert_text(f->partition, "one\ntwo\nlate\nlater\n");
    partition_unref(partition);
}

/* With one replica away, but still counted, nothing is committed. */
static void hold_commits(struct fixture *f)
{
    open_appender(f, f->writer);
    assert_int_equal(put(f, "one\n"), 4);
    replica_rig_cut_off(f->rig, f->third);
}

static void sent_and_sent_again(void **state)
{
    struct fixture *f = *state;
    struct record record;
    hold_commits(f);
    for (int round = 0; round < 3; round++) {
        interrupt_write(f, "two\nthree\nfo");
    }
    begin_waiting(f, &record, "two\nthree\nfo");
    replica_rig_start(f->rig, f->third);
    assert_int_equal(record_result(&record), 12);
    assert_int_equal(put(f, "ur\n"), 3);
    node_assert_text(f->partition, "one\ntwo\nthree\nfour\n");
    /* The same once more is a new message. */
    assert_int_equal(put(f, "ur\n"), 3);
    node_assert_text(f->partition, "one\ntwo\nthree\nfour\nur\n");
}

static void ended_before_it_is_sent_again(void **state)
{
    struct fixture *f = *state;
    hold_commits(f);
    interrupt_write(f, "two\n");
    replica_rig_start(f->rig, f->third);
    replica_rig_until_committed(f->partition, 2);
    assert_int_equal(put(f, "two\n"), 4);
    node_assert_text(f->partition, "one\ntwo\n");
    assert_int_equal(put(f, "two\n"), 4);
    node_assert_text(f->partition, "one\ntwo\ntwo\n");
}

static void something_else_follows(void **state)
{
    struct fixture *f = *state;
    struct record record;
    hold_commits(f);
    interrupt_write(f, "two\n");
    begin_waiting(f, &record, "three\n");
    replica_rig_start(f->rig, f->third);
    assert_int_equal(record_result(&record), 6);
    node_assert_text(f->partition, "one\ntwo\nthree\n");
}

/* The leader dies with the batch; who follows it knows whether it had come to it. */
static void leader_dies_with_it(void **state)
{
    struct fixture *f = *state;
    struct record record;
    hold_commits(f);
    interrupt_write(f, "two\n");
    replica_rig_kill(f->rig, f->leader);
    begin_waiting(f, &record, "two\n");
    replica_rig_start(f->rig, f->third);
    replica_rig_bury(f->rig, f->leader);
    assert_int_equal(record_result(&record), 4);
    node_assert_text(f->partition, "one\ntwo\n");
}

static void until_appended_on(struct fixture *f, int id, int64_t end_offset)
{
    struct partition *partition = replica_rig_partition(f->rig, id, "t");
    struct partition_status status = {0};
    for (int i = 0; i < 5000 && status.log_end_offset < end_offset; i++) {
        rig_pause();
        partition_status_get(partition, &status);
    }
    assert_int_equal(status.log_end_offset, end_offset);
    partition_unref(partition);
}

/* Its server answers what waits there when it stops. That is no end of the write, which
 * has time: it goes to the next leader. */
static void leader_ends_while_it_waits(void **state)
{
    struct fixture *f = *state;
    struct record record;
    hold_commits(f);
    struct replica_node *node = &f->rig->nodes[f->leader];
    begin_write(f, &record, "two\n");
    until_appended_on(f, f->leader, 2);
    http_server_stop(node->server);
    node->server = NULL;
    assert_false(record_wait_ms(&record, SETTLE_MS));
    replica_rig_kill(f->rig, f->leader);
    replica_rig_start(f->rig, f->third);
    replica_rig_bury(f->rig, f->leader);
    assert_int_equal(record_result(&record), 4);
    node_assert_text(f->partition, "one\ntwo\n");
}

/* Alone, this node may become the leader, but commits nothing. */
static void all_others_are_away(void **state)
{
    struct fixture *f = *state;
    struct record record;
    hold_commits(f);
    replica_rig_kill(f->rig, f->leader);
    for (int round = 0; round < 5; round++) {
        interrupt_write(f, "two\n");
    }
    begin_waiting(f, &record, "two\n");
    replica_rig_start(f->rig, f->leader);
    replica_rig_start(f->rig, f->third);
    assert_int_equal(record_result(&record), 4);
    node_assert_text(f->partition, "one\ntwo\n");
}

static void unmount_is_not_held_up(void **state)
{
    struct fixture *f = *state;
    struct record record;
    hold_commits(f);
    begin_waiting(f, &record, "two\n");
    int64_t before_ms = clock_mono_ms(&clock_real);
    parking_drain(f->parking);
    assert_int_equal(record_result(&record), E_COMMIT_TIMEOUT);
    assert_true(clock_mono_ms(&clock_real) - before_ms < AT_ONCE_MS);
}

/* On disk here is not enough: the others must have it. */
static void fsync_waits_for_the_others(void **state)
{
    struct fixture *f = *state;
    struct record record;
    replica_rig_cut_off(f->rig, f->third);
    open_appender(f, f->leader);
    begin_waiting(f, &record, "one\n");
    struct record sync;
    record_init(&sync);
    record_interrupt(&record);
    assert_int_equal(record_result(&record), -EINTR);
    appender_fsync(f->appender, &sync.reply);
    assert_false(record_wait_ms(&sync, 4 * SETTLE_MS));
    replica_rig_start(f->rig, f->third);
    assert_int_equal(record_result(&sync), 0);
    node_assert_text(f->partition, "one\n");
}

static int sync_all(struct fixture *f)
{
    struct record record;
    record_init(&record);
    appender_fsync(f->appender, &record.reply);
    return (int)record_result(&record);
}

/* With acks=0 as well: what was accepted here is sent, and then on all disks. */
static void fsync_of_what_was_only_accepted(void **state)
{
    struct fixture *f = *state;
    open_appender(f, f->writer);
    for (int64_t round = 1; round <= 5; round++) {
        assert_int_equal(put(f, "a\n"), 2);
        assert_int_equal(put(f, "b\n"), 2);
        assert_int_equal(sync_all(f), 0);
        for (int id = 1; id <= 3; id++) {
            struct partition *partition = replica_rig_partition(f->rig, id, "t");
            struct partition_status status;
            partition_status_get(partition, &status);
            assert_true(status.flushed_offset >= 2 * round);
            partition_unref(partition);
        }
    }
    /* What can't be sent is lost: fsync says so, once. */
    replica_rig_cut_off(f->rig, f->leader);
    replica_rig_cut_off(f->rig, f->third);
    assert_int_equal(put(f, "lost\n"), 5);
    assert_true(sync_all(f) < 0);
    replica_rig_start(f->rig, f->leader);
    replica_rig_start(f->rig, f->third);
    int rc = E_COMMIT_TIMEOUT;
    for (int i = 0; i < 20 && rc == E_COMMIT_TIMEOUT; i++) {
        rc = sync_all(f);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cut_and_overgrown, begin, end),
        cmocka_unit_test_setup_teardown(blocks_through_a_failover, begin, end),
        cmocka_unit_test_setup_teardown(sent_and_sent_again, begin, end),
        cmocka_unit_test_setup_teardown(ended_before_it_is_sent_again, begin, end),
        cmocka_unit_test_setup_teardown(something_else_follows, begin, end),
        cmocka_unit_test_setup_teardown(leader_dies_with_it, begin, end),
        cmocka_unit_test_setup_teardown(leader_ends_while_it_waits, begin, end),
        cmocka_unit_test_setup_teardown(all_others_are_away, begin, end),
        cmocka_unit_test_setup_teardown(unmount_is_not_held_up, begin, end),
        cmocka_unit_test_setup_teardown(fsync_waits_for_the_others, begin, end),
        cmocka_unit_test_setup_teardown(fsync_of_what_was_only_accepted,
                                        begin_unacknowledged, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
