/* A node that had no replica of a partition gets one. Who writes or reads there goes
 * on. */
#include "replica/broker_internal.h"
#include "tests/unit/support/node.h"
#include "tests/unit/support/replica_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TRIES = 5000 };

static bool replicas_are(const struct cluster_snapshot *snapshot, const int32_t *ids,
                         uint32_t count)
{
    const struct topic *topic = cluster_snapshot_topic(snapshot, "t");
    const struct partition_info *info = topic ? &topic->partitions[0] : NULL;
    return info && info->replica_count == count && info->isr_count == count &&
           memcmp(info->replicas, ids, count * sizeof *ids) == 0;
}

/* Returns once they are, everywhere. */
static void reassign(struct replica_rig *rig, const int32_t *ids, uint32_t count)
{
    char list[64] = "";
    char request[192];
    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(list);
        (void)snprintf(list + used, sizeof list - used, "%s%d", i ? "," : "", ids[i]);
    }
    (void)snprintf(request, sizeof request,
                   "{\"version\":1,\"partitions\":[{\"topic\":\"t\",\"partition\":0,"
                   "\"replicas\":[%s]}]}",
                   list);
    assert_int_equal(rig_admin(&rig->cluster, 1, "reassign_partitions", request), 0);
    for (int id = 1; id <= rig->count; id++) {
        bool are = false;
        for (int tries = 0; !are && tries < TRIES; tries++) {
            const struct cluster_snapshot *snapshot =
                cluster_snapshot_get(rig->cluster.nodes[id].cluster);
            are = replicas_are(snapshot, ids, count) &&
                  !cluster_admin_running(rig->cluster.nodes[id].cluster,
                                         "reassign_partitions");
            cluster_snapshot_put(snapshot);
            if (!are) {
                rig_pause();
            }
        }
        assert_true(are);
    }
}

static void until_observed(struct partition *partition)
{
    for (int tries = 0; tries < TRIES && !partition_observe(partition); tries++) {
        rig_pause();
    }
    assert_true(partition_observe(partition));
}

struct two {
    int32_t leader;
    int32_t other;
    struct partition *there; /* of the leader */
    struct partition *here;  /* of the other, who has no replica */
};

static void begin(struct replica_rig *rig, struct two *two)
{
    replica_rig_topic(rig, "t", "{\"replication_factor\":1}");
    two->leader = replica_rig_leader(rig, 1, "t", -1);
    two->other = two->leader % 3 + 1;
    two->there = replica_rig_partition(rig, two->leader, "t");
    two->here = replica_rig_partition(rig, two->other, "t");
    assert_true(partition_is_remote(two->here));
}

static void end(struct two *two)
{
    partition_unref(two->here);
    partition_unref(two->there);
}

/* What it wrote before does not make its first write afterwards a repetition. */
static void test_writer_goes_on(void **state)
{
    struct replica_rig *rig = *state;
    struct two two;
    begin(rig, &two);
    assert_int_equal(node_append(two.here, "one\n", NULL), 0);
    reassign(rig, (int32_t[]){two.leader, two.other}, 2);
    struct partition *now = replica_rig_partition(rig, two.other, "t");
    assert_int_equal(node_append(now, "two\n", NULL), 0);
    assert_int_equal(node_append(two.here, "six\n", NULL), 0);
    node_assert_text(two.there, "one\ntwo\nsix\n");
    replica_rig_until_committed(now, 3);
    node_assert_text(now, "one\ntwo\nsix\n");
    replica_rig_run(rig, two.other, "test -e t-0 && ! test -e observers/t-0");
    partition_unref(now);
    end(&two);
}

/* What was read before is there as soon as anything is; who has it open looks anew. */
static void test_reader_goes_on(void **state)
{
    struct replica_rig *rig = *state;
    struct two two;
    struct partition_status before;
    struct partition_status after;
    begin(rig, &two);
    assert_int_equal(node_append(two.there, "one\ntwo\n", NULL), 0);
    until_observed(two.here);
    node_assert_text(two.here, "one\ntwo\n");
    partition_status_get(two.here, &before);
    reassign(rig, (int32_t[]){two.leader, two.other}, 2);
    until_observed(two.here);
    node_assert_text(two.here, "one\ntwo\n");
    partition_status_get(two.here, &after);
    assert_false(after.deleted);
    assert_true(after.unclean > before.unclean);
    end(&two);

    /* It is a replica as any other. */
    replica_rig_kill(rig, two.other);
    replica_rig_start(rig, two.other);
    two.here = replica_rig_partition(rig, two.other, "t");
    replica_rig_until_committed(two.here, 2);
    node_assert_text(two.here, "one\ntwo\n");
    partition_unref(two.here);
}

struct writer {
    struct partition *partition;
    atomic_bool over;
    int count; /* [its thread until joined], as the next */
    int error;
};

static void *write_on(void *arg)
{
    struct writer *writer = arg;
    while (!atomic_load(&writer->over) && writer->error == 0) {
        char line[16];
        (void)snprintf(line, sizeof line, "%d\n", writer->count);
        writer->error = node_append(writer->partition, line, NULL);
        writer->count += writer->error == 0;
    }
    return NULL;
}

/* Each write that is under way meanwhile ends well, and is stored once. */
static void test_writes_meanwhile(void **state)
{
    struct replica_rig *rig = *state;
    struct two two;
    pthread_t thread;
    begin(rig, &two);
    struct writer writer = {.partition = two.here};
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    reassign(rig, (int32_t[]){two.leader, two.other}, 2);
    reassign(rig, (int32_t[]){two.other}, 1);
    reassign(rig, (int32_t[]){two.leader}, 1);
    reassign(rig, (int32_t[]){two.other, two.leader}, 2);
    atomic_store(&writer.over, true);
    pthread_join(thread, NULL);
    assert_int_equal(writer.error, 0);
    struct buf expected;
    buf_init(&expected, 1 << 24);
    for (int i = 0; i < writer.count; i++) {
        buf_printf(&expected, "%d\n", i);
    }
    assert_int_equal(buf_error(&expected), 0);
    replica_rig_until_committed(two.there, writer.count);
    until_observed(two.there);
    node_assert_text(two.there, expected.data);
    buf_free(&expected);
    end(&two);
}

static void damage_the_copy(struct replica_rig *rig, const struct two *two)
{
    atomic_store(&two->here->damaged, true);
    problems_set(rig->cluster.nodes[two->other].problems, "damaged", "t-0/0.log", "bad",
                 "nothing");
}

/* What was wrong with the copy is no fault of the replica. */
static void test_damage_ends_with_the_copy(void **state)
{
    struct replica_rig *rig = *state;
    struct two two;
    begin(rig, &two);
    assert_int_equal(node_append(two.there, "one\n", NULL), 0);
    until_observed(two.here);
    damage_the_copy(rig, &two);
    reassign(rig, (int32_t[]){two.leader, two.other}, 2);
    until_observed(two.here);
    node_assert_text(two.here, "one\n");
    rig_until_problem(&rig->cluster, two.other, "kind=damaged", false);
    end(&two);
}

/* Where its directory is there already, it is opened as a start would open it: then the
 * handle is a new one, which must not be taken for the old one in anything. */
static void test_directory_is_there(void **state)
{
    struct replica_rig *rig = *state;
    struct two two;
    struct partition_status before;
    struct partition_status after;
    begin(rig, &two);
    assert_int_equal(node_append(two.here, "one\n", NULL), 0);
    until_observed(two.here);
    partition_status_get(two.here, &before);
    damage_the_copy(rig, &two);
    replica_rig_run(rig, two.other, "mkdir t-0");
    reassign(rig, (int32_t[]){two.leader, two.other}, 2);
    struct partition *now = replica_rig_partition(rig, two.other, "t");
    assert_ptr_not_equal(now, two.here);
    partition_status_get(now, &after);
    assert_true(after.unclean > before.unclean);
    rig_until_problem(&rig->cluster, two.other, "kind=damaged", false);
    assert_int_equal(node_append(now, "two\n", NULL), 0);
    node_assert_text(two.there, "one\ntwo\n");
    replica_rig_until_committed(now, 2);
    node_assert_text(now, "one\ntwo\n");
    partition_unref(now);
    end(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_writer_goes_on, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_reader_goes_on, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_writes_meanwhile, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_damage_ends_with_the_copy,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_directory_is_there, replica_rig_setup,
                                        replica_rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
