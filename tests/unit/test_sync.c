/* fsync among whole nodes: the disks of the others. */
#include "replica/partition_internal.h"
#include "tests/unit/support/node.h"
#include "tests/unit/support/replica_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { NODES = 4, PATIENCE_MS = 10000, SETTLE_MS = 60 };

struct fixture {
    struct replica_rig *rig;
    int leader, follower, third, away; /* `away` keeps no replica */
    struct partition *on[NODES + 1];   /* by node */
};

static void find_nodes(struct fixture *f)
{
    f->leader = replica_rig_leader(f->rig, 1, "t", -1);
    f->follower = f->third = 0;
    for (int id = 1; id <= NODES; id++) {
        f->on[id] = replica_rig_partition(f->rig, id, "t");
        if (partition_is_remote(f->on[id])) {
            f->away = id;
        } else if (id != f->leader) {
            *(f->follower ? &f->third : &f->follower) = id;
        }
    }
}

static int begin(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->rig = replica_rig_open(NODES);
    replica_rig_topic(f->rig, "t",
                      "{\"replication_factor\":3,\"min_insync_replicas\":2,"
                      "\"flush\":\"os\"}");
    find_nodes(f);
    *state = f;
    return 0;
}

static int end(void **state)
{
    struct fixture *f = *state;
    for (int id = 1; id <= NODES; id++) {
        partition_unref(f->on[id]);
    }
    replica_rig_close(f->rig);
    free(f);
    return 0;
}

/* Its session goes on: it is in sync until that ends. */
static void cut_off(struct fixture *f, int id)
{
    partition_unref(f->on[id]);
    f->on[id] = NULL;
    replica_rig_cut_off(f->rig, id);
}

/* ---- one sync -----------------------------------------------------------------------
 */

struct one_sync {
    struct produce_waiter waiter; /* first */
    struct fixture *fixture;
    struct partition *partition;
    int64_t end_offset;
    int64_t flushed[NODES + 1]; /* when it was answered */
    int error;
    atomic_bool done;
};

static void note_end(struct one_sync *sync, const struct produce_result *result)
{
    for (int id = 1; id <= NODES; id++) {
        struct partition_status status = {.flushed_offset = -1};
        if (sync->fixture->on[id]) {
            partition_status_get(sync->fixture->on[id], &status);
        }
        sync->flushed[id] = status.flushed_offset;
    }
    sync->error = result->error;
    atomic_store(&sync->done, true);
}

static void on_done(struct produce_waiter *waiter, const struct produce_result *result)
{
    note_end((struct one_sync *)waiter, result);
}

static void begin_sync(struct fixture *f, int id, int64_t end_offset,
                       struct one_sync *sync)
{
    const struct sync_range range = {.end_offset = end_offset};
    struct produce_result result;
    *sync = (struct one_sync){.waiter = {.done = on_done},
                              .fixture = f,
                              .partition = f->on[id],
                              .end_offset = end_offset};
    if (partition_sync(sync->partition, &range, &sync->waiter, &result) !=
        PRODUCE_PENDING) {
        note_end(sync, &result);
    }
}

static bool ends_within(struct one_sync *sync, int ms)
{
    for (int i = 0; i < ms && !atomic_load(&sync->done); i++) {
        (void)usleep(1000);
    }
    return atomic_load(&sync->done);
}

static void assert_durable(struct one_sync *sync)
{
    struct fixture *f = sync->fixture;
    assert_true(ends_within(sync, PATIENCE_MS));
    assert_int_equal(sync->error, 0);
    for (int id = 1; id <= NODES; id++) {
        if (f->on[id] && id != f->away) {
            assert_true(sync->flushed[id] >= sync->end_offset);
        }
    }
}

static void assert_unflushed(struct fixture *f, int64_t end_offset)
{
    for (int id = 1; id <= NODES; id++) {
        struct partition_status status;
        if (id != f->away) {
            replica_rig_until_committed(f->on[id], end_offset);
            partition_status_get(f->on[id], &status);
            assert_true(status.flushed_offset < end_offset);
        }
    }
}

static uint64_t flushes(struct partition *partition)
{
    struct partition_counters counters;
    partition_counters_get(partition, &counters);
    return counters.flushes;
}

/* ---- tests --------------------------------------------------------------------------
 */

/* From the leader, from a follower, from a node without a replica. */
static void test_every_disk_has_it(void **state)
{
    struct fixture *f = *state;
    const int ids[] = {f->leader, f->follower, f->away};
    for (size_t i = 0; i < 3; i++) {
        struct one_sync sync;
        struct produce_result result;
        int id = ids[i];
        assert_int_equal(node_append(f->on[id], "one\ntwo\n", &result), 0);
        assert_unflushed(f, result.end.offset);
        uint64_t before = flushes(f->on[f->third]);
        begin_sync(f, id, result.end.offset, &sync);
        assert_durable(&sync);
        assert_true(flushes(f->on[f->third]) > before);
        /* Once more: nothing is to be done for it. */
        before = flushes(f->on[f->third]);
        begin_sync(f, id, result.end.offset, &sync);
        assert_durable(&sync);
        assert_int_equal(flushes(f->on[f->third]), before);
    }
    /* No copy was made for it. */
    struct partition_status status;
    partition_status_get(f->on[f->away], &status);
    assert_int_equal(status.log_end_offset, 0);
}

/* All of it is committed; but one disk does not answer, until it is out of the ISR. */
static void test_who_leaves_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    struct one_sync here;
    struct one_sync there;
    assert_int_equal(node_append(f->on[f->leader], "one\n", NULL), 0);
    cut_off(f, f->third);
    begin_sync(f, f->leader, 1, &here);
    begin_sync(f, f->follower, 1, &there);
    assert_false(ends_within(&here, SETTLE_MS));
    assert_false(ends_within(&there, SETTLE_MS));
    replica_rig_bury(f->rig, f->third);
    assert_durable(&here);
    assert_durable(&there);
}

static void test_who_comes_back_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct one_sync sync;
    assert_int_equal(node_append(f->on[f->leader], "one\n", NULL), 0);
    cut_off(f, f->third);
    begin_sync(f, f->away, 1, &sync);
    assert_false(ends_within(&sync, SETTLE_MS));
    replica_rig_start(f->rig, f->third);
    assert_durable(&sync);
}

/* The leader that was asked dies; and the one that waits becomes the next. */
static void test_over_a_failover(void **state)
{
    struct fixture *f = *state;
    struct one_sync syncs[2];
    assert_int_equal(node_append(f->on[f->away], "one\n", NULL), 0);
    cut_off(f, f->third);
    begin_sync(f, f->away, 1, &syncs[0]);
    begin_sync(f, f->follower, 1, &syncs[1]);
    assert_false(ends_within(&syncs[0], SETTLE_MS));
    cut_off(f, f->leader);
    assert_false(ends_within(&syncs[1], SETTLE_MS));
    replica_rig_start(f->rig, f->third);
    f->on[f->third] = replica_rig_partition(f->rig, f->third, "t");
    replica_rig_bury(f->rig, f->leader);
    assert_durable(&syncs[0]);
    assert_durable(&syncs[1]);
}

/* A waiter that leads no more asks the one that does. */
static void test_the_old_leader_asks_the_new(void **state)
{
    struct fixture *f = *state;
    struct one_sync sync;
    int old = f->leader;
    struct store *store = f->rig->cluster.nodes[old].store;
    assert_int_equal(node_append(f->on[old], "one\n", NULL), 0);
    cut_off(f, f->third);
    begin_sync(f, old, 1, &sync);
    assert_false(ends_within(&sync, SETTLE_MS));
    shared_store_cut(store, true);
    shared_backend_advance(f->rig->cluster.backend, 7000);
    (void)replica_rig_leader(f->rig, f->follower, "t", old);
    shared_store_cut(store, false);
    assert_true(ends_within(&sync, PATIENCE_MS));
    assert_int_equal(sync.error, 0);
    assert_true(sync.flushed[f->follower] >= 1);
}

/* What waits for more than there is does not hold up others, and ends when it is told
 * to. */
static void test_cancelled(void **state)
{
    struct fixture *f = *state;
    const int ids[] = {f->leader, f->follower, f->away};
    assert_int_equal(node_append(f->on[f->leader], "one\n", NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        struct one_sync never;
        struct one_sync sync;
        struct produce_result result;
        begin_sync(f, ids[i], 100, &never);
        assert_false(ends_within(&never, SETTLE_MS / 4));
        begin_sync(f, ids[i], 1, &sync);
        assert_durable(&sync);
        assert_false(atomic_load(&never.done));
        assert_true(partition_produce_cancel(never.partition, &never.waiter, &result));
        assert_int_equal(result.error, E_COMMIT_TIMEOUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_disk_has_it, begin, end),
        cmocka_unit_test_setup_teardown(test_who_leaves_is_not_waited_for, begin, end),
        cmocka_unit_test_setup_teardown(test_who_comes_back_is_waited_for, begin, end),
        cmocka_unit_test_setup_teardown(test_over_a_failover, begin, end),
        cmocka_unit_test_setup_teardown(test_the_old_leader_asks_the_new, begin, end),
        cmocka_unit_test_setup_teardown(test_cancelled, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
