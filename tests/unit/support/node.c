#include "tests/unit/support/node.h"

#include "tests/unit/support/scratch.h"

#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { TICK_MS = 20 };

void node_make(struct node *node)
{
    memset(node, 0, sizeof *node);
    later_clock_init(&node->clock, &clock_real);
    scratch_make(node->dir, sizeof node->dir);
    assert_int_equal(mount_config_defaults(&node->config), 0);
}

void node_start(struct node *node)
{
    char why[512] = "";
    node->problems = problems_new(&clock_real);
    assert_non_null(node->problems);
    int rc = datadir_open(node->dir, &node->datadir, why, sizeof why);
    if (!rc) {
        const struct cluster_params params = {
            .config = &node->config,
            .store_dir = datadir_store_path(node->datadir),
            .instance = datadir_instance(node->datadir),
            .problems = node->problems,
            .clock = &clock_real,
        };
        rc = cluster_open(&params, &node->cluster, why, sizeof why);
    }
    if (!rc) {
        const struct broker_params params = {
            .datadir = node->datadir,
            .cluster = node->cluster,
            .problems = node->problems,
            .clock = &node->clock.clock,
            .tick_ms = TICK_MS,
        };
        rc = broker_start(&params, &node->broker, why, sizeof why);
    }
    if (rc) {
        fail_msg("node_start: %s (%s)", why, err_text(rc));
    }
}

void node_stop(struct node *node)
{
    cluster_close(node->cluster);
    broker_stop(node->broker);
    datadir_close(node->datadir);
    problems_free(node->problems);
    node->cluster = NULL;
    node->broker = NULL;
    node->datadir = NULL;
    node->problems = NULL;
}

static int remove_one(const char *path, const struct stat *stat, int type,
                      struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

void node_remove(struct node *node)
{
    (void)nftw(node->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    mount_config_free(&node->config);
}

struct topic_id node_topic_id(struct node *node, const char *name)
{
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(node->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, name);
    assert_non_null(topic);
    struct topic_id id = topic->id;
    cluster_snapshot_put(snapshot);
    return id;
}

struct partition *node_partition(struct node *node, const char *name, int32_t index)
{
    const struct topic_id id = node_topic_id(node, name);
    return broker_partition(node->broker, &id, index);
}

struct partition *node_topic(struct node *node, const char *name, const char *settings)
{
    char why[512] = "";
    cJSON *json = settings ? cJSON_Parse(settings) : NULL;
    assert_true(!settings || json);
    int rc =
        cluster_create_topic(node->cluster, name, json, 0, 0, 0755, why, sizeof why);
    cJSON_Delete(json);
    if (rc) {
        fail_msg("topic %s: %s (%s)", name, why, err_text(rc));
    }
    struct partition *partition = node_partition(node, name, 0);
    assert_non_null(partition);
    return partition;
}

char *node_problems(struct node *node)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    assert_int_equal(problems_render(node->problems, &text), 0);
    buf_adds(&text, "");
    char *taken = buf_take(&text, NULL);
    return taken ? taken : strdup("");
}

struct append_wait {
    struct produce_waiter waiter; /* first, so that done() finds the rest */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
    struct produce_result result;
};

static void append_done(struct produce_waiter *waiter,
                        const struct produce_result *result)
{
    struct append_wait *wait = (struct append_wait *)waiter;
    pthread_mutex_lock(&wait->lock);
    wait->result = *result;
    wait->done = true;
    pthread_cond_signal(&wait->ended);
    pthread_mutex_unlock(&wait->lock);
}

static uint32_t count_lines(const char *lines)
{
    uint32_t count = 0;
    for (; *lines; lines++) {
        count += *lines == '\n';
    }
    return count;
}

int node_append(struct partition *partition, const char *lines,
                struct produce_result *result)
{
    struct append_wait wait = {.waiter = {.done = append_done}};
    struct timespec until;
    pthread_mutex_init(&wait.lock, NULL);
    pthread_cond_init(&wait.ended, NULL);
    int rc = partition_produce(partition, lines, strlen(lines), count_lines(lines),
                               &wait.waiter, &wait.result);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&wait.lock);
    int timed_out = 0;
    while (rc == PRODUCE_PENDING && !wait.done && !timed_out) {
        timed_out = pthread_cond_timedwait(&wait.ended, &wait.lock, &until);
    }
    pthread_mutex_unlock(&wait.lock);
    assert_int_equal(timed_out, 0);
    pthread_cond_destroy(&wait.ended);
    pthread_mutex_destroy(&wait.lock);
    if (result) {
        *result = wait.result;
    }
    return wait.result.error;
}

char *node_read_all(struct partition *partition, size_t *length)
{
    struct partition_status status;
    struct buf text;
    buf_init(&text, 1 << 28);
    partition_status_get(partition, &status);
    int64_t position = status.start.position;
    for (;;) {
        struct extent extent;
        int rc = partition_read(partition, position, 1 << 20, status.rewrites, &extent);
        /* Retention or compaction was quicker. */
        if (rc == E_OFFSET_BELOW_START || rc == E_RANGE_REWRITTEN) {
            buf_clear(&text);
            partition_status_get(partition, &status);
            position = status.start.position;
            continue;
        }
        assert_int_equal(rc, 0);
        if (extent.length == 0) {
            extent_release(&extent);
            break;
        }
        char *bytes = malloc(extent.length);
        assert_non_null(bytes);
        assert_int_equal(pread(extent.fd, bytes, extent.length, extent.at),
                         (ssize_t)extent.length);
        assert_int_equal(buf_add(&text, bytes, extent.length), 0);
        position += (int64_t)extent.length;
        free(bytes);
        extent_release(&extent);
    }
    if (length) {
        *length = text.length;
    }
    char *taken = buf_take(&text, NULL);
    return taken ? taken : strdup("");
}

void node_assert_text(struct partition *partition, const char *wanted)
{
    char *text = node_read_all(partition, NULL);
    assert_string_equal(text, wanted);
    free(text);
}
