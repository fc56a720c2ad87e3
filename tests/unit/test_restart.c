/* What a node among others finds on its disk when it starts, and what has to be there.
 */
#include "replica/broker_internal.h"
#include "tests/unit/support/node.h"
#include "tests/unit/support/replica_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void append(struct replica_rig *rig, int id, const char *topic,
                   const char *lines)
{
    struct partition *partition = replica_rig_partition(rig, id, topic);
    assert_int_equal(node_append(partition, lines, NULL), 0);
    partition_unref(partition);
}

static void until_committed_on(struct replica_rig *rig, const char *topic,
                               int64_t offset)
{
    for (int id = 1; id <= rig->count; id++) {
        struct partition *partition = replica_rig_partition(rig, id, topic);
        replica_rig_until_committed(partition, offset);
        partition_unref(partition);
    }
}

/* ---- the checkpoint -----------------------------------------------------------------
 */

/* Changes what stands in the checkpoint of a node that does not run. */
static void edit_checkpoint(struct replica_rig *rig, int id,
                            void (*edit)(struct checkpoint_entry *entry))
{
    char path[96];
    struct checkpoint checkpoint = {0};
    struct buf bytes;
    (void)snprintf(path, sizeof path, "%s/checkpoint", rig->nodes[id].dir);
    assert_int_equal(checkpoint_read(&checkpoint, &disk_real, path), 0);
    for (size_t i = 0; i < checkpoint.count; i++) {
        edit(&checkpoint.entries[i]);
    }
    buf_init(&bytes, 1 << 20);
    assert_int_equal(checkpoint_encode(&checkpoint, &bytes), 0);
    assert_int_equal(disk_replace(&disk_real, path, bytes.data, bytes.length), 0);
    buf_free(&bytes);
    checkpoint_free(&checkpoint);
}

static void read_entry(struct replica_rig *rig, int id, struct checkpoint_entry *out)
{
    char path[96];
    struct checkpoint checkpoint = {0};
    (void)snprintf(path, sizeof path, "%s/checkpoint", rig->nodes[id].dir);
    assert_int_equal(checkpoint_read(&checkpoint, &disk_real, path), 0);
    assert_int_equal(checkpoint.count, 1);
    *out = checkpoint.entries[0];
    checkpoint_free(&checkpoint);
}

/* Else a crash would find that more was committed than there is, and show what comes
 * there instead. */
static void test_checkpoint_is_lowered_before_the_next_append(void **state)
{
    struct replica_rig *rig = *state;
    struct checkpoint_entry entry;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    append(rig, leader, "t", "one\n");
    until_committed_on(rig, "t", 1);
    for (int id = 1; id <= 3; id++) {
        struct partition *partition = replica_rig_partition(rig, id, "t");
        atomic_store(&partition->on_disk, 1000);
        partition_unref(partition);
    }
    append(rig, leader, "t", "two\n");
    until_committed_on(rig, "t", 2);
    for (int id = 1; id <= 3; id++) {
        struct partition *partition = replica_rig_partition(rig, id, "t");
        assert_true(atomic_load(&partition->on_disk) <= 2);
        partition_unref(partition);
        read_entry(rig, id, &entry);
        assert_true(entry.log_end_offset >= 1);
        assert_true(entry.high_watermark <= 2);
    }
    /* Where it can't be written nothing is appended. */
    struct partition *partition = replica_rig_partition(rig, leader, "t");
    struct broker *broker = rig->nodes[leader].broker;
    replica_rig_run(rig, leader, "mkdir checkpoint.tmp");
    pthread_mutex_lock(&broker->checkpoint_lock); /* its own thread writes, too */
    broker->checkpoint_hash = 0;
    atomic_store(&partition->on_disk, 1000);
    pthread_mutex_unlock(&broker->checkpoint_lock);
    assert_int_equal(node_append(partition, "no\n", NULL), -EISDIR);
    replica_rig_run(rig, leader, "rmdir checkpoint.tmp");
    assert_int_equal(node_append(partition, "three\n", NULL), 0);
    node_assert_text(partition, "one\ntwo\nthree\n");
    partition_unref(partition);
}

/* A log that was cut: the file says so before anything follows. */
static void test_checkpoint_after_a_cut(void **state)
{
    struct replica_rig *rig = *state;
    struct checkpoint_entry entry;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3,\"acks\":\"1\"}");
    int first = replica_rig_leader(rig, 1, "t", -1);
    int other = first % 3 + 1;
    int third = other % 3 + 1;
    append(rig, first, "t", "one\n");
    until_committed_on(rig, "t", 1);
    replica_rig_kill(rig, other);
    replica_rig_kill(rig, third);
    append(rig, first, "t", "lost\nlost too\nand more\n");
    replica_rig_kill(rig, first); /* its checkpoint speaks of all four as flushed */
    read_entry(rig, first, &entry);
    assert_int_equal(entry.flushed_offset, 4);
    replica_rig_start(rig, other);
    replica_rig_start(rig, third);
    replica_rig_bury(rig, first);
    int second = replica_rig_leader(rig, other, "t", first);
    append(rig, second, "t", "kept\n");
    replica_rig_start(rig, first);
    struct partition *partition = replica_rig_partition(rig, first, "t");
    replica_rig_until_committed(partition, 2);
    node_assert_text(partition, "one\nkept\n");
    partition_unref(partition);
    read_entry(rig, first, &entry);
    assert_true(entry.flushed_offset <= 2);
    assert_true(entry.high_watermark <= 2);
}

static void forget_flushed(struct checkpoint_entry *entry)
{
    entry->flushed_offset = 0;
}

static void forget_all(struct checkpoint_entry *entry)
{
    entry->flushed_offset = 0;
    entry->high_watermark = 0;
    entry->log_end_offset = 0;
}

/* All machines lose power; nothing was flushed, and each kept another part of what was
 * committed. The longest leads, and it is on record; nothing of it is damage. */
static void test_power_cut_of_all(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3,\"flush\":\"os\"}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    for (int i = 0; i < 8; i++) {
        append(rig, leader, "t", "line\n");
    }
    until_committed_on(rig, "t", 8);
    for (int id = 1; id <= 3; id++) {
        replica_rig_kill(rig, id);
    }
    for (int id = 1; id <= 3; id++) {
        char command[256];
        int kept = 2 + 2 * (id % 3); /* messages */
        edit_checkpoint(rig, id, forget_flushed);
        (void)snprintf(command, sizeof command,
                       "truncate -s %d t-0/*.log && truncate -s %d t-0/*.index && "
                       "rm -f t-0/*.producers && "
                       "echo '{\"boot_id\":\"another\",\"clean\":false}' >running.json",
                       5 * kept, 64 + 64 * kept);
        replica_rig_run(rig, id, command);
    }
    for (int id = 1; id <= 3; id++) {
        replica_rig_start(rig, id);
    }
    int longest = 2;
    assert_int_equal(replica_rig_leader(rig, 1, "t", -1), longest);
    until_committed_on(rig, "t", 6);
    for (int id = 1; id <= 3; id++) {
        struct partition *partition = replica_rig_partition(rig, id, "t");
        node_assert_text(partition, "line\nline\nline\nline\nline\nline\n");
        partition_unref(partition);
        rig_until_problem(&rig->cluster, id, "kind=damaged", false);
    }
    struct rig_state now = rig_state(&rig->cluster, 1, "t", 0);
    assert_true(now.state.lossy_epoch >= 0);
    append(rig, longest, "t", "after\n");
}

/* Written a moment ago, so the checkpoint does not speak of it yet, and bad after the
 * crash of the process: what is cut then may have been acknowledged. */
static void test_what_recovery_cut_is_told(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    for (int i = 0; i < 4; i++) {
        append(rig, leader, "t", "line\n");
    }
    until_committed_on(rig, "t", 4);
    for (int id = 1; id <= 3; id++) {
        replica_rig_kill(rig, id);
    }
    edit_checkpoint(rig, 2, forget_all);
    replica_rig_run(rig, 2,
                    "printf X | dd of=$(ls t-0/*.log) bs=1 seek=12 conv=notrunc "
                    "status=none && rm -f t-0/*.producers && "
                    "sed -i s/true/false/ running.json");
    replica_rig_start(rig, 2);
    struct rig_state now = rig_state(&rig->cluster, 2, "t", 0);
    assert_false(replica_ids_contain(&now.state.isr, 2));
    assert_int_not_equal(now.state.leader, 2);
    replica_rig_start(rig, 1);
    replica_rig_start(rig, 3);
    until_committed_on(rig, "t", 4);
    replica_rig_until_isr(rig, 1, "t", 3);
    for (int id = 1; id <= 3; id++) {
        struct partition *partition = replica_rig_partition(rig, id, "t");
        node_assert_text(partition, "line\nline\nline\nline\n");
        partition_unref(partition);
    }
    now = rig_state(&rig->cluster, 2, "t", 0);
    assert_int_equal(now.state.lossy_epoch, -1);
}

/* ---- what is due --------------------------------------------------------------------
 */

/* The next crash must not look like one that left everything whole. */
static void test_marker_waits_until_all_know(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3,\"flush\":\"os\"}");
    struct broker *broker = rig->nodes[1].broker;
    pthread_mutex_lock(&broker->checkpoint_lock); /* its own thread writes, too */
    broker->marked = false;
    atomic_store(&broker->told, false);
    assert_int_equal(datadir_mark(rig->nodes[1].datadir, DATADIR_RECOVERING), 0);
    pthread_mutex_unlock(&broker->checkpoint_lock);
    assert_int_equal(broker_checkpoint(broker), 0);
    replica_rig_run(rig, 1, "grep -q 'boot_id\":\"\"' running.json");
    assert_int_equal(broker_take_out_suspects(broker), 0);
    assert_int_equal(broker_checkpoint(broker), 0);
    replica_rig_run(rig, 1, "! grep -q 'boot_id\":\"\"' running.json");

    pthread_mutex_lock(&broker->checkpoint_lock);
    broker->checkpoint_lost = true;
    broker->checkpoint_hash = 0;
    atomic_store(&broker->told, false);
    replica_rig_run(rig, 1, "rm checkpoint");
    pthread_mutex_unlock(&broker->checkpoint_lock);
    assert_int_equal(broker_checkpoint(broker), 0);
    replica_rig_run(rig, 1, "! test -e checkpoint");
    assert_int_equal(broker_take_out_suspects(broker), 0);
    assert_int_equal(broker_checkpoint(broker), 0);
    replica_rig_run(rig, 1, "test -e checkpoint");
}

/* ---- the epoch before the log start -------------------------------------------------
 */

static void test_epoch_before_the_start_survives(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    int id = leader % 3 + 1;
    append(rig, leader, "t", "one\ntwo\n");
    until_committed_on(rig, "t", 2);
    struct partition *partition = replica_rig_partition(rig, id, "t");
    pthread_mutex_lock(&partition->append_lock);
    assert_int_equal(partition_begin_anew(partition, 2, 0), 0);
    pthread_mutex_unlock(&partition->append_lock);
    struct partition_status status;
    partition_status_get(partition, &status);
    assert_int_equal(status.start_epoch, 0);
    partition_unref(partition);
    replica_rig_kill(rig, id);
    struct checkpoint_entry entry; /* as a crash would find it, a moment later */
    read_entry(rig, id, &entry);
    assert_int_equal(entry.log_start_offset, 2);
    assert_int_equal(entry.start_epoch, 0);

    replica_rig_start(rig, id);
    partition = replica_rig_partition(rig, id, "t");
    partition_status_get(partition, &status);
    assert_int_equal(status.start.offset, 2);
    assert_int_equal(status.start_epoch, 0);
    partition_unref(partition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_checkpoint_is_lowered_before_the_next_append, replica_rig_setup,
            replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_checkpoint_after_a_cut, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_power_cut_of_all, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_what_recovery_cut_is_told,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_marker_waits_until_all_know,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_epoch_before_the_start_survives,
                                        replica_rig_setup, replica_rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
