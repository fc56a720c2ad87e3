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

static void test_append_and_read(void **state)
{
    static const char *const policies[] = {"{\"flush\":\"ack\"}", "{\"flush\":\"os\"}",
                                           "{\"flush\":\"interval\",\"flush_ms\":20}"};
    for (size_t i = 0; i < 3; i++) {
        char name[8];
        struct produce_result result;
        (void)snprintf(name, sizeof name, "t%zu", i);
        struct partition *partition = node_topic(*state, name, policies[i]);
        assert_int_equal(node_append(partition, "one\ntwo\n", &result), 0);
        assert_int_equal(result.base_offset, 0);
        assert_int_equal(result.end.offset, 2);
        assert_int_equal(node_append(partition, "\n", &result), 0);
        assert_int_equal(result.base_offset, 2);
        node_assert_text(partition, "one\ntwo\n\n");
        struct partition_status status;
        partition_status_get(partition, &status);
        assert_int_equal(status.high_watermark.offset, 3);
        assert_int_equal(status.log_end_offset, 3);
        partition_unref(partition);
    }
}

static void test_restart_keeps_everything(void **state)
{
    struct node *node = *state;
    struct produce_result result;
    struct partition *partition = node_topic(node, "t", NULL);
    assert_int_equal(node_append(partition, "a\nb\n", NULL), 0);
    struct partition_status before;
    partition_status_get(partition, &before);
    partition_unref(partition);
    node_stop(node);
    node_start(node);
    partition = node_partition(node, "t", 0);
    struct partition_status after;
    partition_status_get(partition, &after);
    assert_true(after.leader_epoch > before.leader_epoch);
    assert_int_equal(node_append(partition, "c\n", &result), 0);
    assert_int_equal(result.base_offset, 2);
    node_assert_text(partition, "a\nb\nc\n");
    struct buf text;
    buf_init(&text, 1 << 16);
    assert_int_equal(partition_state_render(partition, &text), 0);
    cJSON *json = cJSON_Parse(text.data);
    assert_non_null(json);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "epochs")), 2);
    cJSON_Delete(json);
    buf_free(&text);
    partition_unref(partition);
    char *problems = node_problems(node);
    assert_string_equal(problems, "");
    free(problems);
}

/* Flushing can't be held back from outside, so a wait that never ends by itself is one
 * for an offset that nobody wrote yet. */
static void never_done(struct produce_waiter *waiter,
                       const struct produce_result *result)
{
    (void)waiter;
    (void)result;
    fail_msg("a cancelled wait was completed");
}

static void test_cancelled_wait_is_not_completed(void **state)
{
    const struct sync_range range = {.end_offset = 1};
    struct produce_waiter waiter = {.done = never_done};
    struct produce_result result;
    struct partition *partition = node_topic(*state, "t", NULL);
    assert_int_equal(partition_sync(partition, &range, &waiter, &result),
                     PRODUCE_PENDING);
    assert_true(partition_produce_cancel(partition, &waiter, &result));
    assert_int_equal(result.error, E_COMMIT_TIMEOUT);
    assert_false(partition_produce_cancel(partition, &waiter, &result));
    assert_int_equal(node_append(partition, "x\n", NULL), 0);
    assert_int_equal(partition_sync(partition, &range, &waiter, &result), 0);
    assert_int_equal(result.error, 0);
    partition_unref(partition);
}

struct woken {
    struct read_waiter waiter;
    unsigned times;
};

struct ended {
    struct produce_waiter waiter; /* first */
    bool done;
    int error;
};

static void note_end(struct produce_waiter *waiter, const struct produce_result *result)
{
    struct ended *ended = (struct ended *)waiter;
    ended->done = true;
    ended->error = result->error;
}

/* A cut takes what was appended here, and not what the leader has said to be committed,
 * and is only to come. */
static void test_cut_ends_what_was_appended_here(void **state)
{
    struct partition *partition = node_topic(*state, "t", NULL);
    struct produce_result left;
    struct released released;
    struct ended here = {.waiter = {.done = note_end, .acks = ACKS_ALL}};
    struct ended sent = {.waiter = {.done = note_end, .acks = ACKS_ALL}};
    here.waiter.result.leader_epoch = 3;
    sent.waiter.result.leader_epoch = -1;
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    partition_park_produce(partition, &here.waiter, 5);
    partition_park_produce(partition, &sent.waiter, 5);
    partition_fail_produces(partition, 4);
    partition_collect(partition, &released);
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
    assert_true(here.done);
    assert_int_equal(here.error, E_NO_LEADER);
    assert_false(sent.done);
    assert_true(partition_produce_cancel(partition, &sent.waiter, &left));
    partition_unref(partition);
}

static void count_ready(struct read_waiter *waiter)
{
    ((struct woken *)waiter)->times++;
}

static void test_readers_wake_once(void **state)
{
    struct woken woken = {.waiter = {.ready = count_ready}};
    struct partition *partition = node_topic(*state, "t", "{\"flush\":\"os\"}");
    assert_int_equal(partition_wait(partition, 0, &woken.waiter), 0);
    assert_int_equal(node_append(partition, "x\n", NULL), 0);
    assert_int_equal(woken.times, 1);
    assert_int_equal(node_append(partition, "y\n", NULL), 0);
    assert_int_equal(woken.times, 1);
    assert_false(partition_wait_cancel(partition, &woken.waiter));
    assert_int_equal(partition_wait(partition, 2, &woken.waiter), 1);
    assert_int_equal(partition_wait(partition, 4, &woken.waiter), 0);
    assert_true(partition_wait_cancel(partition, &woken.waiter));
    assert_int_equal(node_append(partition, "z\n", NULL), 0);
    assert_int_equal(woken.times, 1);
    partition_unref(partition);
}

static void test_deletion_ends_waits_and_frees_the_name(void **state)
{
    struct node *node = *state;
    struct woken woken = {.waiter = {.ready = count_ready}};
    struct partition *partition = node_topic(node, "t", NULL);
    assert_int_equal(node_append(partition, "old\n", NULL), 0);
    assert_int_equal(partition_wait(partition, 4, &woken.waiter), 0);
    assert_int_equal(cluster_delete_topic(node->cluster, "t", NULL, 0), 0);
    assert_int_equal(woken.times, 1);
    assert_int_equal(node_append(partition, "x\n", NULL), E_TOPIC_DELETED);
    struct extent extent;
    assert_int_equal(partition_read(partition, 0, 10, 0, &extent), E_TOPIC_DELETED);
    struct partition *again = node_topic(node, "t", NULL);
    node_assert_text(again, "");
    assert_int_equal(node_append(again, "new\n", NULL), 0);
    partition_unref(partition);
    partition_unref(again);
    node_stop(node);
    node_start(node);
    again = node_partition(node, "t", 0);
    node_assert_text(again, "new\n");
    partition_unref(again);
}

static void test_lost_store_brings_topics_back(void **state)
{
    struct node *node = *state;
    char command[256];
    char why[128];
    struct partition *partition = node_topic(node, "orders", NULL);
    assert_int_equal(node_append(partition, "one\n", NULL), 0);
    partition_unref(partition);
    assert_int_equal(cluster_add_partition(node->cluster, "orders", 1, why, sizeof why),
                     0);
    partition = node_partition(node, "orders", 1);
    assert_int_equal(node_append(partition, "two\n", NULL), 0);
    partition_unref(partition);
    const struct topic_id id = node_topic_id(node, "orders");
    node_stop(node);
    (void)snprintf(command, sizeof command, "rm -r %s/store", node->dir);
    assert_int_equal(system(command), 0);
    node_start(node);
    const struct topic_id found = node_topic_id(node, "orders");
    assert_true(topic_id_equal(&id, &found));
    partition = node_partition(node, "orders", 0);
    node_assert_text(partition, "one\n");
    partition_unref(partition);
    partition = node_partition(node, "orders", 1);
    node_assert_text(partition, "two\n");
    partition_unref(partition);
    char *problems = node_problems(node);
    assert_non_null(strstr(problems, "kind=adopted"));
    free(problems);
}

static void test_strays_are_set_aside(void **state)
{
    struct node *node = *state;
    char path[256];
    partition_unref(node_topic(node, "t", NULL));
    node_stop(node);
    /* An empty one is what a crash leaves of a new topic: nobody misses it. */
    (void)snprintf(path, sizeof path, "%s/empty-0", node->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/unknown-7", node->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/unknown-7/notes", node->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    node_start(node);
    char *problems = node_problems(node);
    assert_non_null(strstr(problems, "kind=stray unknown-7"));
    free(problems);
    (void)snprintf(path, sizeof path, "%s/stray/unknown-7/notes", node->dir);
    assert_int_equal(access(path, F_OK), 0);
    (void)snprintf(path, sizeof path, "%s/stray/empty-0", node->dir);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_lost_directory_is_named(void **state)
{
    struct node *node = *state;
    char command[256];
    struct produce_result result;
    struct partition *partition = node_topic(node, "t", NULL);
    assert_int_equal(node_append(partition, "a\nb\n", NULL), 0);
    partition_unref(partition);
    node_stop(node);
    (void)snprintf(command, sizeof command, "rm -r %s/t-0", node->dir);
    assert_int_equal(system(command), 0);
    node_start(node);
    char *problems = node_problems(node);
    assert_non_null(strstr(problems, "kind=lost t-0"));
    free(problems);
    /* An offset is never given twice. */
    partition = node_partition(node, "t", 0);
    assert_int_equal(node_append(partition, "c\n", &result), 0);
    assert_int_equal(result.base_offset, 2);
    partition_unref(partition);
}

enum { WRITERS = 4, LINES_EACH = 200 };

static void *write_lines(void *arg)
{
    for (int i = 0; i < LINES_EACH; i++) {
        assert_int_equal(node_append(arg, "line\n", NULL), 0);
    }
    return NULL;
}

static void test_parallel_writers(void **state)
{
    pthread_t threads[WRITERS];
    struct partition *partition = node_topic(*state, "t", "{\"segment_bytes\":1024}");
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, partition), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
    }
    size_t length = 0;
    free(node_read_all(partition, &length));
    assert_int_equal(length, WRITERS * LINES_EACH * 5);
    partition_unref(partition);
}

/* What was appended under flush=os is flushed once the policy asks for it. */
static void test_flush_policy_changes(void **state)
{
    static const char *const policies[] = {"{\"flush\":\"ack\"}",
                                           "{\"flush\":\"interval\"}"};
    struct node *node = *state;
    struct partition *partition = node_topic(node, "t", NULL);
    for (int i = 0; i < 2; i++) {
        struct partition_status status;
        cJSON *os = cJSON_Parse("{\"flush\":\"os\"}");
        cJSON *policy = cJSON_Parse(policies[i]);
        assert_int_equal(cluster_set_config(node->cluster, "t", os, NULL, 0), 0);
        assert_int_equal(node_append(partition, "x\n", NULL), 0);
        partition_status_get(partition, &status);
        assert_true(status.flushed_offset < status.log_end_offset);
        assert_int_equal(cluster_set_config(node->cluster, "t", policy, NULL, 0), 0);
        for (int k = 0; k < 500 && status.flushed_offset < status.log_end_offset; k++) {
            usleep(10000);
            partition_status_get(partition, &status);
        }
        assert_int_equal(status.flushed_offset, status.log_end_offset);
        cJSON_Delete(os);
        cJSON_Delete(policy);
    }
    partition_unref(partition);
}

static void test_interrupt_ends_waits(void **state)
{
    struct node *node = *state;
    struct woken woken = {.waiter = {.ready = count_ready}};
    struct partition *partition = node_topic(node, "t", NULL);
    assert_int_equal(partition_wait(partition, 0, &woken.waiter), 0);
    broker_interrupt_waiters(node->broker);
    assert_int_equal(woken.times, 1);
    assert_int_equal(partition_wait(partition, 0, &woken.waiter), E_OFFLINE);
    partition_unref(partition);
}

static void test_one_process_a_directory(void **state)
{
    struct node *node = *state;
    struct datadir *second = NULL;
    char why[512] = "";
    assert_int_equal(datadir_open(node->dir, &second, why, sizeof why), E_IN_USE);
    assert_non_null(strstr(why, node->dir));
    assert_null(second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_node, remove_node)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_append_and_read),
        TEST(test_restart_keeps_everything),
        TEST(test_cancelled_wait_is_not_completed),
        TEST(test_cut_ends_what_was_appended_here),
        TEST(test_readers_wake_once),
        TEST(test_deletion_ends_waits_and_frees_the_name),
        TEST(test_lost_store_brings_topics_back),
        TEST(test_strays_are_set_aside),
        TEST(test_lost_directory_is_named),
        TEST(test_parallel_writers),
        TEST(test_flush_policy_changes),
        TEST(test_interrupt_ends_waits),
        TEST(test_one_process_a_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
