/*
 * Everything at once on one node: appenders under each flush policy, readers that check
 * every line, waits that are cancelled, settings that change, retention and compaction
 * with tiny segments, topics that come and go. Then restarts, after which each line is
 * still in its place.
 */
#include "tests/unit/support/node.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { TOPICS = 3, RUN_MS = 1500, LINE = 24, BATCH_MAX = 8 };
enum { APPENDS_MIN = 10, READS_MIN = 10, CYCLES_MIN = 3 };

struct shared {
    struct node *node;
    struct partition *partitions[TOPICS];
    atomic_bool done;
    atomic_int failures;
    atomic_int appended;
    atomic_int read;
    atomic_int cycles; /* topics made and deleted */
};

static void expect(struct shared *shared, bool right, const char *what, long long n)
{
    if (!right && atomic_fetch_add(&shared->failures, 1) < 10) {
        print_error("%s (%lld)\n", what, n);
    }
}

/* ---- appending ----------------------------------------------------------------------
 */

struct one_append {
    struct produce_waiter waiter; /* first */
    atomic_int calls;
    struct produce_result result;
};

static void appended(struct produce_waiter *waiter, const struct produce_result *result)
{
    struct one_append *append = (struct one_append *)waiter;
    append->result = *result;
    atomic_fetch_add(&append->calls, 1);
}

static int await(const struct one_append *append)
{
    for (int i = 0; i < 20000 && atomic_load(&append->calls) == 0; i++) {
        usleep(500);
    }
    return atomic_load(&append->calls);
}

/* Lines that say where their batch begins can't be written before that is known: they
 * say which topic they belong to and how many bytes they have. */
static size_t make_lines(char *text, int topic, uint32_t count, unsigned seed)
{
    size_t length = 0;
    for (uint32_t i = 0; i < count; i++) {
        length += (size_t)snprintf(text + length, LINE + 1, "k%u\t%d %018u\n",
                                   (seed + i) % 7, topic, seed);
    }
    return length;
}

static void append_once(struct shared *shared, int topic, unsigned seed)
{
    char text[LINE * BATCH_MAX + 1];
    uint32_t count = 1 + seed % BATCH_MAX;
    size_t length = make_lines(text, topic, count, seed);
    struct one_append append = {.waiter = {.done = appended}};
    int rc = partition_produce(shared->partitions[topic], text, length, count,
                               &append.waiter, &append.result);
    if (rc == PRODUCE_PENDING && seed % 5 == 0) {
        struct produce_result result;
        if (partition_produce_cancel(shared->partitions[topic], &append.waiter,
                                     &result)) {
            expect(shared, result.error == E_COMMIT_TIMEOUT, "cancel", result.error);
            usleep(100);
            expect(shared, append.calls == 0, "called after cancel", append.calls);
            return;
        }
    }
    if (rc == PRODUCE_PENDING) {
        expect(shared, await(&append) == 1, "calls", append.calls);
    }
    expect(shared, append.result.error == 0, "append", append.result.error);
    atomic_fetch_add(&shared->appended, 1);
    if (seed % 11 == 0) {
        const struct sync_range range = {.end_offset = append.result.end.offset};
        struct one_append flush = {.waiter = {.done = appended}};
        rc = partition_sync(shared->partitions[topic], &range, &flush.waiter,
                            &flush.result);
        if (rc == PRODUCE_PENDING) {
            expect(shared, await(&flush) == 1, "calls", flush.calls);
        }
        expect(shared, flush.result.error == 0, "fsync", flush.result.error);
    }
}

static void *append_lines(void *arg)
{
    struct shared *shared = arg;
    for (unsigned i = 0; !atomic_load(&shared->done); i++) {
        append_once(shared, (int)(i % TOPICS), i);
    }
    return NULL;
}

/* ---- reading ------------------------------------------------------------------------
 */

struct one_wait {
    struct read_waiter waiter; /* first */
    atomic_int calls;
};

static void woken(struct read_waiter *waiter)
{
    atomic_fetch_add(&((struct one_wait *)waiter)->calls, 1);
}

static void wait_a_little(struct shared *shared, struct partition *partition,
                          int64_t position)
{
    struct one_wait wait = {.waiter = {.ready = woken}};
    if (partition_wait(partition, position, &wait.waiter) != 0) {
        return;
    }
    usleep(200);
    bool cancelled = partition_wait_cancel(partition, &wait.waiter);
    for (int i = 0; !cancelled && i < 20000 && wait.calls == 0; i++) {
        usleep(500);
    }
    expect(shared, wait.calls == (cancelled ? 0 : 1), "wakes", wait.calls);
}

static void check_bytes(struct shared *shared, int topic, const char *bytes, size_t n)
{
    char digit = (char)('0' + topic);
    expect(shared, n % LINE == 0, "length", (long long)n);
    for (size_t i = 0; i + LINE <= n; i += LINE) {
        expect(shared, bytes[i] == 'k' && bytes[i + 3] == digit, "bytes", (long long)i);
        expect(shared, bytes[i + LINE - 1] == '\n', "line end", (long long)i);
    }
}

/* One pass from the start, or from where a look-up leads. */
static void read_pass(struct shared *shared, int topic, unsigned seed)
{
    struct partition *partition = shared->partitions[topic];
    struct partition_status status;
    partition_status_get(partition, &status);
    int64_t position = status.start.position;
    struct log_place place;
    int64_t span = status.high_watermark.offset - status.start.offset;
    if (seed % 2 && span > 0) {
        int rc =
            partition_find_offset(partition, status.start.offset + seed % span, &place);
        position = rc == 0 ? place.position : position;
        expect(shared, rc == 0 || rc == E_OFFSET_BELOW_START, "find", rc);
    } else if (seed % 3 == 0 && partition_find_last(partition, 5, &place) == 0) {
        position = place.position;
    }
    for (int i = 0; i < 50; i++) {
        char bytes[LINE * 100];
        struct extent extent;
        int rc =
            partition_read(partition, position, sizeof bytes, status.rewrites, &extent);
        if (rc == E_OFFSET_BELOW_START || rc == E_RANGE_REWRITTEN) {
            return;
        }
        expect(shared, rc == 0, "read", rc);
        if (rc != 0 || extent.length == 0) {
            return;
        }
        ssize_t n = pread(extent.fd, bytes, extent.length, extent.at);
        expect(shared, n == (ssize_t)extent.length, "pread", n);
        check_bytes(shared, topic, bytes, n > 0 ? (size_t)n : 0);
        position += (int64_t)extent.length;
        extent_release(&extent);
        atomic_fetch_add(&shared->read, 1);
    }
    wait_a_little(shared, partition, position);
}

static void *read_lines(void *arg)
{
    struct shared *shared = arg;
    struct buf text;
    for (unsigned i = 1; !atomic_load(&shared->done); i++) {
        read_pass(shared, (int)(i % TOPICS), i * 7);
        buf_init(&text, 1 << 20);
        (void)partition_state_render(shared->partitions[i % TOPICS], &text);
        buf_free(&text);
    }
    return NULL;
}

/* ---- changes ------------------------------------------------------------------------
 */

static void *change_settings(void *arg)
{
    static const char *const changes[] = {
        "{\"flush\":\"os\"}",
        "{\"flush\":\"interval\",\"flush_ms\":20}",
        "{\"flush\":\"ack\"}",
        "{\"retention_bytes\":20000,\"segment_bytes\":2048}",
        "{\"cleanup_policy\":\"compact,delete\"}",
        "{\"acks\":1}",
        "{\"acks\":\"all\",\"cleanup_policy\":\"delete\"}",
    };
    struct shared *shared = arg;
    for (unsigned i = 0; !atomic_load(&shared->done); i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "t%u", i % TOPICS);
        cJSON *json = cJSON_Parse(changes[i % (sizeof changes / sizeof changes[0])]);
        int rc = cluster_set_config(shared->node->cluster, name, json, NULL, 0);
        expect(shared, rc == 0, "settings", rc);
        cJSON_Delete(json);
        usleep(3000);
    }
    return NULL;
}

/* What was made is there at once. */
static struct partition *find_gone(struct shared *shared)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(shared->node->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, "gone");
    struct partition *partition =
        topic ? broker_partition(shared->node->broker, &topic->id, 0) : NULL;
    expect(shared, topic != NULL, "topic is not there", 0);
    expect(shared, !topic || partition, "partition is not there", 0);
    cluster_snapshot_put(snapshot);
    return partition;
}

static void *come_and_go(void *arg)
{
    struct shared *shared = arg;
    while (!atomic_load(&shared->done)) {
        struct cluster *cluster = shared->node->cluster;
        cJSON *json = cJSON_Parse("{\"flush\":\"ack\",\"segment_bytes\":1024}");
        int rc = cluster_create_topic(cluster, "gone", json, 0, 0, 0755, NULL, 0);
        cJSON_Delete(json);
        expect(shared, rc == 0, "create", rc);
        struct partition *partition = find_gone(shared);
        if (!partition) {
            (void)cluster_delete_topic(cluster, "gone", NULL, 0);
            continue;
        }
        struct one_append append = {.waiter = {.done = appended}};
        rc = partition_produce(partition, "x\n", 2, 1, &append.waiter, &append.result);
        int deleted = cluster_delete_topic(cluster, "gone", NULL, 0);
        expect(shared, deleted == 0, "delete", deleted);
        if (rc == PRODUCE_PENDING) {
            expect(shared, await(&append) == 1, "calls", append.calls);
        }
        rc = append.result.error;
        expect(shared, rc == 0 || rc == E_TOPIC_DELETED, "append to gone", rc);
        partition_unref(partition);
        atomic_fetch_add(&shared->cycles, 1);
    }
    return NULL;
}

/* ---- the test -----------------------------------------------------------------------
 */

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

/* Of everything, so much that it happened beside the rest. */
static bool did_enough(struct shared *shared)
{
    return atomic_load(&shared->appended) >= APPENDS_MIN &&
           atomic_load(&shared->read) >= READS_MIN &&
           atomic_load(&shared->cycles) >= CYCLES_MIN;
}

static void run_all(struct shared *shared)
{
    static void *(*const work[])(void *) = {append_lines,   append_lines, append_lines,
                                            read_lines,     read_lines,   come_and_go,
                                            change_settings};
    enum { THREADS = sizeof work / sizeof work[0] };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work[i], shared), 0);
    }
    usleep(RUN_MS * 1000);
    for (int i = 0; i < 20000 && !did_enough(shared); i++) {
        usleep(1000); /* a machine that has much to do */
    }
    atomic_store(&shared->done, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void check_all(struct shared *shared, const int64_t *ends)
{
    for (int i = 0; i < TOPICS; i++) {
        size_t length = 0;
        struct partition_status status;
        char *text = node_read_all(shared->partitions[i], &length);
        check_bytes(shared, i, text, length);
        free(text);
        partition_status_get(shared->partitions[i], &status);
        expect(shared, status.log_end_offset == ends[i], "end", status.log_end_offset);
    }
}

static void test_everything_at_once(void **state)
{
    struct shared shared = {.node = *state};
    int64_t ends[TOPICS];
    char name[8];
    for (int i = 0; i < TOPICS; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        shared.partitions[i] = node_topic(*state, name, "{\"segment_bytes\":4096}");
    }
    run_all(&shared);
    char *problems = node_problems(*state);
    assert_string_equal(problems, "");
    free(problems);
    for (int i = 0; i < TOPICS; i++) {
        struct partition_status status;
        partition_status_get(shared.partitions[i], &status);
        ends[i] = status.log_end_offset;
        partition_unref(shared.partitions[i]);
    }
    node_stop(*state);
    node_start(*state);
    for (int i = 0; i < TOPICS; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        shared.partitions[i] = node_partition(*state, name, 0);
        assert_non_null(shared.partitions[i]);
    }
    check_all(&shared, ends);
    for (int i = 0; i < TOPICS; i++) {
        partition_unref(shared.partitions[i]);
    }
    problems = node_problems(*state);
    assert_string_equal(problems, "");
    free(problems);
    assert_int_equal(shared.failures, 0);
    assert_true(did_enough(&shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_everything_at_once, make_node,
                                        remove_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
