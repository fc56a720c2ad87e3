#include "replica/broker_internal.h"
#include "replica/peer_access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

/* Flushes wait for the disk, not for the processor: more threads than cores. */
enum { FLUSHER_THREADS = 32 };

void partition_key_init(struct partition_key *key, const struct topic_id *id,
                        int32_t index)
{
    memset(key, 0, sizeof *key);
    key->topic_id = *id;
    key->index = index;
}

struct table_entry *broker_find_entry(struct broker *broker,
                                      const struct partition_key *key)
{
    struct table_entry *entry = NULL;
    HASH_FIND(hh, broker->table, key, sizeof *key, entry);
    return entry;
}

struct partition *broker_look_up(struct broker *broker, const struct topic_id *topic_id,
                                 int32_t index, bool *opening)
{
    struct partition_key key;
    struct partition *partition = NULL;
    partition_key_init(&key, topic_id, index);
    pthread_mutex_lock(&broker->table_lock);
    const struct table_entry *entry = broker_find_entry(broker, &key);
    *opening = entry && entry->opening;
    if (entry && entry->partition) {
        partition = partition_ref(entry->partition);
    }
    pthread_mutex_unlock(&broker->table_lock);
    return partition;
}

struct partition *broker_partition(struct broker *broker,
                                   const struct topic_id *topic_id, int32_t index)
{
    bool opening = false;
    return broker_look_up(broker, topic_id, index, &opening);
}

static int list_of(struct broker *broker, bool copies, struct partition ***out,
                   size_t *count)
{
    struct table_entry *entry;
    *count = 0;
    pthread_mutex_lock(&broker->table_lock);
    size_t total = HASH_COUNT(broker->table);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are what it holds */
    struct partition **list = total ? calloc(total, sizeof *list) : NULL;
    for (entry = list ? broker->table : NULL; entry; entry = entry->hh.next) {
        if (entry->partition && entry->partition->copy == copies) {
            list[(*count)++] = partition_ref(entry->partition);
        }
    }
    pthread_mutex_unlock(&broker->table_lock);
    *out = list;
    return total && !list ? -ENOMEM : 0;
}

int broker_partitions(struct broker *broker, struct partition ***out, size_t *count)
{
    return list_of(broker, false, out, count);
}

int broker_copies(struct broker *broker, struct partition ***out, size_t *count)
{
    return list_of(broker, true, out, count);
}

size_t broker_unopened_count(struct broker *broker)
{
    size_t count = 0;
    pthread_mutex_lock(&broker->table_lock);
    for (const struct table_entry *entry = broker->table; entry;
         entry = entry->hh.next) {
        count += !entry->partition && !entry->copy;
    }
    pthread_mutex_unlock(&broker->table_lock);
    return count;
}

void broker_interrupt_one(struct partition *partition)
{
    if (!topic_name_is_internal(partition->name)) {
        partition_interrupt(partition);
    }
}

static void interrupt(struct broker *broker, void (*one)(struct partition *partition))
{
    pthread_mutex_lock(&broker->table_lock);
    broker->interrupted = true;
    pthread_mutex_unlock(&broker->table_lock);
    broker_release_open_waiters(broker);
    for (int copies = 0; copies < 2; copies++) {
        size_t count = 0;
        struct partition **list = NULL;
        (void)list_of(broker, copies, &list, &count);
        for (size_t i = 0; i < count; i++) {
            one(list[i]);
            partition_unref(list[i]);
        }
        free(list);
    }
}

void broker_interrupt_waiters(struct broker *broker)
{
    interrupt(broker, broker_interrupt_one);
}

int broker_statvfs(struct broker *broker, struct statvfs *out)
{
    return statvfs(datadir_path(broker->params.datadir), out) ? -errno : 0;
}

/* ---- start and stop -----------------------------------------------------------------
 */

static void load_checkpoint(struct broker *broker)
{
    char *path = datadir_file(broker->params.datadir, "checkpoint");
    int rc = path ? checkpoint_read(&broker->recovered, &disk_real, path) : -ENOMEM;
    broker->checkpoint_lost = rc != 0;
    if (rc && rc != -ENOENT) {
        diag(DIAG_WARNING, "%s: %s; every log is checked from further back",
             path ? path : "checkpoint", err_text(rc));
        problems_set(broker->params.problems, "checkpoint", "checkpoint",
                     "the file was damaged and was written anew",
                     "nothing: logs were checked in full; lost files of a log could "
                     "not be noticed this time");
    }
    free(path);
}

static void broker_free(struct broker *broker)
{
    if (!broker) {
        return;
    }
    struct table_entry *entry;
    struct table_entry *next;
    HASH_ITER(hh, broker->table, entry, next)
    {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): HASH_ITER keeps the next one */
        HASH_DEL(broker->table, entry);
        partition_unref(entry->partition);
        free(entry);
    }
    broker_bury(broker);
    replication_free(broker->replication);
    flusher_stop(broker->flusher);
    file_cache_free(broker->files);
    cluster_snapshot_put(broker->snapshot);
    checkpoint_free(&broker->recovered);
    pthread_mutex_destroy(&broker->checkpoint_lock);
    pthread_cond_destroy(&broker->maintenance_wake);
    pthread_mutex_destroy(&broker->maintenance_lock);
    pthread_cond_destroy(&broker->opened);
    pthread_mutex_destroy(&broker->table_lock);
    pthread_mutex_destroy(&broker->change_lock);
    free(broker);
}

/* Descriptors are needed for more than segments. */
static unsigned files_at_most(const struct broker_params *params)
{
    struct rlimit limit;

    if (params->max_open_files != 0)
        return params->max_open_files;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 4 > FILE_CACHE_DEFAULT)
        return FILE_CACHE_DEFAULT;
    return limit.rlim_cur >= 8 ? (unsigned)(limit.rlim_cur / 4) : 1;
}

/* Each flush holds two files open. */
static unsigned flushers_at_most(unsigned files)
{
    unsigned threads = files / 4;

    return threads < 1 ? 1 : threads < FLUSHER_THREADS ? threads : FLUSHER_THREADS;
}

static struct broker *broker_new(const struct broker_params *params)
{
    struct broker *broker = calloc(1, sizeof *broker);
    unsigned files = files_at_most(params);
    if (!broker) {
        return NULL;
    }
    pthread_condattr_t attributes;
    broker->params = *params;
    broker->params.tick_ms = params->tick_ms > 0 ? params->tick_ms : 1000;
    broker->tick_ms = broker->params.tick_ms;
    pthread_mutex_init(&broker->change_lock, NULL);
    pthread_mutex_init(&broker->table_lock, NULL);
    pthread_cond_init(&broker->opened, NULL);
    pthread_mutex_init(&broker->checkpoint_lock, NULL);
    pthread_mutex_init(&broker->maintenance_lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&broker->maintenance_wake, &attributes);
    pthread_condattr_destroy(&attributes);
    broker->files = file_cache_new(&disk_real, files);
    broker->flusher = flusher_start(flushers_at_most(files));
    if (!broker->files || !broker->flusher) {
        broker_free(broker);
        return NULL;
    }
    return broker;
}

static struct partition **list_partitions(void *arg, size_t *count)
{
    struct partition **list = NULL;
    (void)broker_partitions(arg, &list, count);
    return list;
}

static int start_cleaner(struct broker *broker)
{
    const struct cleaner_params params = {.partitions = list_partitions,
                                          .arg = broker,
                                          .problems = broker->params.problems,
                                          .clock = broker->params.clock,
                                          .tick_ms = broker->params.tick_ms};
    return cleaner_start(&params, &broker->cleaner);
}

/* Before anything is changed for a cluster that this node could not be part of. */
static int check_access(struct broker *broker, char *why, size_t why_size)
{
    struct cluster_session session;
    cluster_session(broker->params.cluster, &session);
    return session.shared ? peer_access_check(broker->params.config, why, why_size) : 0;
}

static int start_replication(struct broker *broker)
{
    struct cluster_session session;
    cluster_session(broker->params.cluster, &session);
    const struct replication_params params = {.config = broker->params.config,
                                              .cluster = broker->params.cluster,
                                              .problems = broker->params.problems,
                                              .clock = broker->params.clock,
                                              .broker = broker};
    return session.shared ? replication_start(&params, &broker->replication) : 0;
}

void broker_leave(struct broker *broker)
{
    if (broker) {
        replication_stop(broker->replication);
    }
}

int broker_start(const struct broker_params *params, struct broker **out, char *why,
                 size_t why_size)
{
    struct broker *broker = broker_new(params);
    if (!broker) {
        (void)snprintf(why, why_size, "%s", err_text(-ENOMEM));
        return -ENOMEM;
    }
    params->datadir->unused = false;
    load_checkpoint(broker);
    broker->marked = params->datadir->recovery != LOG_MACHINE_CRASHED;
    why[0] = '\0';
    int rc = check_access(broker, why, why_size);
    rc = rc ? rc : broker_carry_over(broker, why, why_size);
    rc = rc ? rc : broker_sort_out_strays(broker);
    rc = rc ? rc : broker_remotes_clear(broker);
    broker_repairs_clear(broker);
    rc = rc ? rc : start_replication(broker);
    rc = rc ? rc : cluster_subscribe(params->cluster, broker_apply, broker);
    rc = rc ? rc : broker_openers_start(broker);
    /* Without it the next start checks more; on a full disk reading must go on. */
    (void)(rc ? rc : broker_checkpoint(broker));
    rc = rc ? rc : broker_maintenance_start(broker);
    rc = rc ? rc : start_cleaner(broker);
    rc = rc ? rc
            : scrubber_start(broker, params->datadir->recovery != LOG_CLEAN,
                             &broker->scrubber);
    if (rc) {
        if (why[0] == '\0') {
            (void)snprintf(why, why_size, "opening the logs in %s: %s",
                           datadir_path(params->datadir), err_text(rc));
        }
        /* The cluster may call broker_apply() until it is closed: the caller ends it
         * first and then this broker. */
    }
    *out = broker;
    return rc;
}

/* Everything on disk, the checkpoint written: then, and only then, the stop was clean.
 * A log that could not be opened still needs its recovery. */
static void settle(struct broker *broker, bool all_open)
{
    size_t count = 0;
    struct partition **list = NULL;
    bool all_flushed = broker_partitions(broker, &list, &count) == 0 && all_open &&
                       broker_unopened_count(broker) == 0;
    for (size_t i = 0; i < count; i++) {
        if (partition_flush_now(list[i])) {
            all_flushed = false;
        }
        partition_producers_save(list[i], true);
        partition_unref(list[i]);
    }
    free(list);
    int rc = all_open ? broker_checkpoint(broker) : 0;
    if (!rc && all_flushed) {
        rc = datadir_mark(broker->params.datadir, DATADIR_STOPPED);
    }
    if (rc) {
        diag(DIAG_ERROR, "the stop leaves no clean marker: %s", err_text(rc));
    }
}

void broker_stop(struct broker *broker)
{
    if (!broker) {
        return;
    }
    broker_leave(broker);
    scrubber_stop(broker->scrubber);
    broker->scrubber = NULL;
    cleaner_stop(broker->cleaner);
    broker->cleaner = NULL;
    broker_maintenance_stop(broker);
    interrupt(broker, partition_interrupt);
    bool all_open = !broker_is_opening(broker);
    broker_openers_stop(broker);
    broker_retry_stop(broker);
    flusher_stop(broker->flusher);
    broker->flusher = NULL;
    settle(broker, all_open);
    broker_free(broker);
}
