/* What goes wrong around the logs: crashes in a row, logs that do not open, topics that
 * are deleted while their files are in use. */
#include "coord/cluster_private.h"
#include "replica/broker_internal.h"
#include "replica/datadir.h"
#include "replica/log_internal.h"
#include "replica/partition_internal.h"
#include "tests/unit/support/node.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int make_node(void **state)
{
    struct node *node = calloc(1, sizeof *node);
    node_make(node);
    node_start(node);
    *state = node;
    return 0;
}

static int remove_node(void **state)
{
    struct node *node = *state;
    if (node->broker) {
        node_stop(node);
    }
    node_remove(node);
    free(node);
    return 0;
}

static void run(const struct node *node, const char *command)
{
    char line[512];
    (void)snprintf(line, sizeof line, "cd %s && %s", node->dir, command);
    assert_int_equal(system(line), 0);
}

static void assert_problems(struct node *node, const char *wanted)
{
    char *problems = node_problems(node);
    if (*wanted) {
        assert_non_null(strstr(problems, wanted));
    } else {
        assert_string_equal(problems, "");
    }
    free(problems);
}

static enum log_recovery recovery_of(struct node *node)
{
    struct datadir *datadir = NULL;
    char why[512] = "";
    assert_int_equal(datadir_open(node->dir, &datadir, why, sizeof why), 0);
    enum log_recovery recovery = datadir->recovery;
    datadir_close(datadir);
    return recovery;
}

/* A process that dies while it repairs what a power cut left does not make it whole. */
static void test_crash_during_recovery(void **state)
{
    struct node *node = *state;
    node_stop(node);
    run(node, "echo '{\"boot_id\":\"another\",\"clean\":false}' > running.json");
    assert_int_equal(recovery_of(node), LOG_MACHINE_CRASHED);
    assert_int_equal(recovery_of(node), LOG_MACHINE_CRASHED);
    node_start(node);
    node_stop(node);
    /* Nobody did anything in between. */
    assert_int_equal(recovery_of(node), LOG_CLEAN);
    assert_int_equal(recovery_of(node), LOG_CLEAN);
    /* What a process leaves that is killed at its work, and looking at it mends
     * nothing. */
    node_start(node);
    run(node, "cp running.json while-running");
    node_stop(node);
    run(node, "mv while-running running.json");
    assert_int_equal(recovery_of(node), LOG_PROCESS_CRASHED);
    assert_int_equal(recovery_of(node), LOG_PROCESS_CRASHED);
}

static void await_opened(struct node *node)
{
    for (int i = 0; i < 1000 && broker_is_opening(node->broker); i++) {
        usleep(10000);
    }
    assert_false(broker_is_opening(node->broker));
}

/* A topic t with two messages, on a node that was stopped; its log can't be opened. */
static void with_unopened_log(struct node *node)
{
    struct partition *partition = node_topic(node, "t", NULL);
    assert_int_equal(node_append(partition, "a\nb\n", NULL), 0);
    partition_unref(partition);
    node_stop(node);
    run(node, "mv t-0 away && touch t-0");
}

static void unopened_is_told(struct node *node)
{
    node_start(node);
    await_opened(node);
    assert_null(node_partition(node, "t", 0));
    assert_problems(node, "kind=offline t-0");
}

static void test_unopened_log_keeps_what_is_known(void **state)
{
    struct node *node = *state;
    struct produce_result result;
    with_unopened_log(node);
    for (int i = 0; i < 2; i++) {
        unopened_is_told(node);
        node_stop(node);
        run(node, "grep -q ' 0 0 2 2 2 t$' checkpoint");
        run(node, "grep -q 'clean\":false' running.json");
    }
    run(node, "rm t-0 && mv away t-0");
    node_start(node);
    await_opened(node);
    struct partition *partition = node_partition(node, "t", 0);
    assert_non_null(partition);
    node_assert_text(partition, "a\nb\n");
    assert_int_equal(node_append(partition, "c\n", &result), 0);
    assert_int_equal(result.base_offset, 2);
    assert_problems(node, "");
    partition_unref(partition);
    node_stop(node);
    assert_int_equal(recovery_of(node), LOG_CLEAN);
}

static void until_open(struct node *node, const char *topic)
{
    bool opened = false;
    for (int i = 0; i < 1000 && !opened; i++) {
        struct partition *partition = node_partition(node, topic, 0);
        opened = partition != NULL;
        partition_unref(partition);
        later_clock_add(&node->clock, 100); /* the next try is not far */
        usleep(10000);
    }
    assert_true(opened);
}

/* Nobody has to mount again for it. */
static void test_unopened_log_is_tried_again(void **state)
{
    struct node *node = *state;
    struct produce_result result;
    with_unopened_log(node);
    unopened_is_told(node);
    run(node, "rm t-0 && mv away t-0");
    until_open(node, "t");
    assert_problems(node, "");
    struct partition *partition = node_partition(node, "t", 0);
    node_assert_text(partition, "a\nb\n");
    assert_int_equal(node_append(partition, "c\n", &result), 0);
    assert_int_equal(result.base_offset, 2);
    partition_unref(partition);
    node_stop(node);
    assert_int_equal(recovery_of(node), LOG_CLEAN);
}

/* Also one of a topic that is made while there is no place for it, or that goes
 * meanwhile. */
static void test_unopened_log_of_a_new_topic(void **state)
{
    struct node *node = *state;
    char why[256] = "";
    run(node, "touch t-0 u-0");
    assert_int_equal(
        cluster_create_topic(node->cluster, "t", NULL, 0, 0, 0755, why, sizeof why), 0);
    assert_int_equal(
        cluster_create_topic(node->cluster, "u", NULL, 0, 0, 0755, why, sizeof why), 0);
    assert_null(node_partition(node, "t", 0));
    assert_problems(node, "kind=offline u-0");
    assert_int_equal(cluster_delete_topic(node->cluster, "u", NULL, 0), 0);
    run(node, "rm t-0");
    until_open(node, "t");
    assert_problems(node, "");
    run(node, "test -d t-0 && test -f u-0 && rm u-0");
}

/* Its deletion waits for those that are being opened, and who opens them for the
 * deletion. */
static void test_topic_goes_while_it_is_opened(void **state)
{
    struct node *node = *state;
    partition_unref(node_topic(node, "t", "{\"partitions\":1000}"));
    node_stop(node);
    run(node, "echo '{\"boot_id\":\"another\",\"clean\":false}' > running.json");
    node_start(node);
    alarm(60);
    assert_int_equal(cluster_delete_topic(node->cluster, "t", NULL, 0), 0);
    alarm(0);
    run(node, "! test -e t-0 && ! test -e t-999");
    await_opened(node);
    assert_problems(node, "");
}

static void test_flush_of_a_deleted_log(void **state)
{
    struct node *node = *state;
    struct partition *partition = node_topic(node, "t", "{\"flush\":\"os\"}");
    assert_int_equal(node_append(partition, "a\n", NULL), 0);
    assert_int_equal(cluster_delete_topic(node->cluster, "t", NULL, 0), 0);
    (void)partition_flush_now(partition);
    assert_problems(node, "");
    partition_unref(partition);
}

/* A snapshot of producers that is under way when the topic goes is not the next one's.
 */
static void test_snapshot_of_a_deleted_log(void **state)
{
    struct node *node = *state;
    struct partition *partition = node_topic(node, "t", NULL);
    assert_int_equal(node_append(partition, "a\n", NULL), 0);
    assert_int_equal(cluster_delete_topic(node->cluster, "t", NULL, 0), 0);
    partition_unref(node_topic(node, "t", NULL));
    partition_producers_save(partition, true);
    run(node, "! ls t-0 deleted/* | grep -q producers");
    partition_unref(partition);
}

static void test_deleted_log_that_can_not_be_moved(void **state)
{
    struct node *node = *state;
    struct partition *old = node_topic(node, "t", NULL);
    assert_int_equal(node_append(old, "old\n", NULL), 0);
    run(node, "rm -rf deleted && touch deleted");
    assert_int_equal(cluster_delete_topic(node->cluster, "t", NULL, 0), 0);
    struct partition *partition = node_topic(node, "t", NULL);
    assert_int_equal(node_append(partition, "new\n", NULL), 0);
    partition_unref(old); /* its files are removed by maintenance, or at the stop */
    partition_unref(partition);
    node_stop(node);
    node_start(node);
    partition = node_partition(node, "t", 0);
    node_assert_text(partition, "new\n");
    partition_unref(partition);
}

/* Nothing that is opened late is opened by the name of another topic's file. */
static void test_reader_of_a_deleted_log(void **state)
{
    struct node *node = *state;
    struct extent extent;
    struct extent late;
    struct partition *old = node_topic(node, "t", NULL);
    assert_int_equal(node_append(old, "old\n", NULL), 0);
    assert_int_equal(partition_read(old, 0, 10, 0, &extent), 0);
    struct log_bounds bounds;
    log_bounds_get(old->log, &bounds);
    file_cache_drop(old->log->home->files, &old->log->segments[0]->index);
    assert_int_equal(cluster_delete_topic(node->cluster, "t", NULL, 0), 0);
    struct partition *partition = node_topic(node, "t", NULL);
    assert_int_equal(node_append(partition, "new\n", NULL), 0);
    struct batch batch;
    assert_int_not_equal(log_batch_at(old->log, 0, 0, &batch), 0);
    assert_int_not_equal(
        log_read(old->log, 0, 10, bounds.end.position, bounds.rewrites, &late), 0);
    char bytes[4];
    assert_int_equal(pread(extent.fd, bytes, 4, extent.at), 4);
    assert_memory_equal(bytes, "old\n", 4);
    extent_release(&extent);
    partition_unref(old);
    partition_unref(partition);
}

static void test_problems_of_a_deleted_topic(void **state)
{
    struct node *node = *state;
    struct partition *partition = node_topic(node, "t", NULL);
    assert_int_equal(node_append(partition, "a\n", NULL), 0);
    partition_unref(partition);
    node_stop(node);
    run(node, "for f in t-0/*.index; do : > $f; done");
    node_start(node);
    assert_problems(node, "kind=damaged t-0/");
    assert_int_equal(cluster_delete_topic(node->cluster, "t", NULL, 0), 0);
    assert_problems(node, "");
}

/* Another program took it out of the store, or the store is an older one: nobody
 * deleted the topic, and its messages stay. */
static void test_topic_that_vanished(void **state)
{
    struct node *node = *state;
    struct partition *partition = node_topic(node, "t", NULL);
    struct txn txn;
    int64_t revision;
    assert_int_equal(node_append(partition, "kept\n", NULL), 0);
    txn_init(&txn, node->cluster->prefix);
    txn_delete_prefix(&txn, "brokers/topics/t/");
    assert_int_equal(txn_commit(&txn, node->cluster->store, &revision), 0);
    partition_unref(node_topic(node, "u", NULL)); /* now the broker knows */
    assert_int_equal(node_append(partition, "no\n", NULL), E_TOPIC_DELETED);
    partition_unref(partition);
    broker_bury(node->broker);
    run(node, "grep -qx kept stray/t-0/*.log && ! test -e t-0");
    assert_problems(node, "kind=stray t-0");
    /* The name is free. */
    partition = node_topic(node, "t", NULL);
    assert_int_equal(node_append(partition, "new\n", NULL), 0);
    node_assert_text(partition, "new\n");
    partition_unref(partition);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_node, remove_node)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_crash_during_recovery),
        TEST(test_unopened_log_keeps_what_is_known),
        TEST(test_unopened_log_is_tried_again),
        TEST(test_unopened_log_of_a_new_topic),
        TEST(test_topic_goes_while_it_is_opened),
        TEST(test_flush_of_a_deleted_log),
        TEST(test_snapshot_of_a_deleted_log),
        TEST(test_deleted_log_that_can_not_be_moved),
        TEST(test_reader_of_a_deleted_log),
        TEST(test_problems_of_a_deleted_topic),
        TEST(test_topic_that_vanished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
