/* What is due by time: interval flushes, retention, snapshots, the checkpoint, removal
 * of deleted logs. One thread; a slow disk delays only these. */
#include "replica/broker_internal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { RETENTION_EVERY_MS = 1000, RETRY_SLACK_MS = 2000, CHECKPOINT_EVERY_MS = 5000 };

static int add_partition(struct checkpoint *checkpoint, struct partition *partition)
{
    struct partition_status status;
    partition_status_checkpoint(partition, &status);
    struct checkpoint_entry entry = {
        .topic_id = partition->topic_id,
        .partition = partition->index,
        .log_start_offset = status.start.offset,
        .flushed_offset = status.flushed_offset,
        .high_watermark = status.high_watermark.offset,
        .log_end_offset = status.log_end_offset,
        .start_epoch = status.start_epoch,
    };
    const char *dash = strrchr(partition->name, '-');
    memcpy(entry.topic, partition->name, (size_t)(dash - partition->name));
    return checkpoint_add(checkpoint, &entry);
}

/* An idle node leaves its disk alone. */
static int write_if_changed(struct broker *broker, const struct checkpoint *checkpoint)
{
    struct buf bytes;
    buf_init(&bytes, CHECKPOINT_MAX_BYTES);
    char *path = datadir_file(broker->params.datadir, "checkpoint");
    int rc = path ? checkpoint_encode(checkpoint, &bytes) : -ENOMEM;
    uint64_t hash = rc ? 0 : XXH3_64bits(bytes.data, bytes.length);
    if (!rc && hash != broker->checkpoint_hash) {
        rc = disk_replace(&disk_real, path, bytes.data, bytes.length);
        broker->checkpoint_hash = rc ? 0 : hash;
    }
    free(path);
    buf_free(&bytes);
    return rc;
}

/* What the last process knew of logs that are not open yet, or could not be opened.
 * Until all have been looked for that is anything it knew of. */
static int add_unopened(struct checkpoint *checkpoint, struct broker *broker)
{
    int rc = 0;
    bool all = atomic_load(&broker->applied_revision) == 0;
    pthread_mutex_lock(&broker->table_lock);
    for (size_t i = 0; i < broker->recovered.count && !rc; i++) {
        const struct checkpoint_entry *known = &broker->recovered.entries[i];
        struct partition_key key;
        partition_key_init(&key, &known->topic_id, known->partition);
        const struct table_entry *entry = broker_find_entry(broker, &key);
        if (entry ? !entry->partition && !entry->copy : all) {
            rc = checkpoint_add(checkpoint, known);
        }
    }
    pthread_mutex_unlock(&broker->table_lock);
    return rc;
}

/* All that a crash of the machine left was seen to. */
static void mark_recovered(struct broker *broker)
{
    bool told = !broker->replication || atomic_load(&broker->told);
    if (!broker->marked && told && !broker_is_opening(broker) &&
        broker_unopened_count(broker) == 0) {
        broker->marked = datadir_mark(broker->params.datadir, DATADIR_RUNNING) == 0;
    }
}

/* [checkpoint_lock] */
static int write_checkpoint(struct broker *broker, struct partition **list,
                            size_t count)
{
    struct checkpoint checkpoint = {0};
    int rc = add_unopened(&checkpoint, broker);
    size_t first = checkpoint.count;
    for (size_t i = 0; i < count && !rc; i++) {
        rc = add_partition(&checkpoint, list[i]);
    }
    /* Sorted only when it is searched: the order is that of the list. */
    rc = rc ? rc : write_if_changed(broker, &checkpoint);
    for (size_t i = 0; i < count && !rc; i++) {
        const struct checkpoint_entry *entry = &checkpoint.entries[first + i];
        atomic_store(&list[i]->on_disk, entry->flushed_offset > entry->high_watermark
                                            ? entry->flushed_offset
                                            : entry->high_watermark);
    }
    checkpoint_free(&checkpoint);
    return rc;
}

/* That the checkpoint was lost has to show until all know what that means.
 * [checkpoint_lock] */
static bool stays_lost(struct broker *broker)
{
    bool told = !broker->replication || atomic_load(&broker->told);
    return broker->checkpoint_lost && (!told || broker_is_opening(broker));
}

int broker_checkpoint(struct broker *broker)
{
    size_t count = 0;
    struct partition **list = NULL;
    int rc = 0;
    pthread_mutex_lock(&broker->checkpoint_lock);
    if (!stays_lost(broker)) {
        rc = broker_partitions(broker, &list, &count);
        rc = rc ? rc : write_checkpoint(broker, list, count);
        if (rc) {
            diag(DIAG_WARNING, "checkpoint not written: %s", err_text(rc));
        } else {
            mark_recovered(broker);
        }
    }
    pthread_mutex_unlock(&broker->checkpoint_lock);
    for (size_t i = 0; i < count; i++) {
        partition_unref(list[i]); /* the last one may be told of its end */
    }
    free(list);
    return rc;
}

/* Where a deleted log could not be moved away, its directory may be another topic's by
 * now. */
static bool may_remove(const struct partition *partition)
{
    struct topic_id id;
    return partition->deleted && !partition->kept &&
           (partition->moved || (broker_dir_topic_id(partition->dir, &id) == 0 &&
                                 topic_id_equal(&id, &partition->topic_id)));
}

static void remove_dir(const char *dir)
{
    int rc = log_remove(&disk_real, dir);
    if (rc && rc != -ENOENT) {
        diag(DIAG_WARNING, "%s: not removed yet: %s", dir, err_text(rc));
    }
}

void broker_bury(struct broker *broker)
{
    pthread_mutex_lock(&broker->table_lock);
    struct partition *dead = broker->dead;
    struct rubbish *rubbish = broker->rubbish;
    broker->dead = NULL;
    broker->rubbish = NULL;
    pthread_mutex_unlock(&broker->table_lock);
    while (rubbish) {
        struct rubbish *next = rubbish->next;
        remove_dir(rubbish->dir);
        free(rubbish->dir);
        free(rubbish);
        rubbish = next;
    }
    while (dead) {
        struct partition *partition = dead;
        dead = partition->next_dead;
        char *dir = may_remove(partition) ? strdup(partition->dir) : NULL;
        partition_free(partition);
        if (dir) {
            remove_dir(dir);
        }
        free(dir);
    }
}

/*
 * Where there are other replicas, what a producer may still retry is kept: a new leader
 * knows the batches of a producer from the log, and would store a second time what is
 * not in it any more. Longer than a delivery lasts, nobody retries.
 */
static int retain_some(struct partition *partition, int64_t now_ms)
{
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    int64_t high_watermark = partition->high_watermark.offset;
    int64_t keep_ms = partition->core.replica_count > 1
                          ? partition->config.delivery_timeout_ms + RETRY_SLACK_MS
                          : -1;
    /* The leader alone decides; its log start comes to the others with its answers. */
    bool wanted = !partition_refusal(partition) &&
                  partition->core.role == ROLE_LEADER &&
                  (partition->config.cleanup_policy & CLEANUP_DELETE);
    pthread_mutex_unlock(&partition->lock);
    int rc = wanted ? log_retain(partition->log, high_watermark, now_ms, keep_ms) : 0;
    pthread_mutex_unlock(&partition->append_lock);
    return rc;
}

/* Appends wait for names to go, not for the space of the files. */
static void retain(struct broker *broker, struct partition *partition, int64_t now_ms)
{
    int rc;
    do {
        rc = retain_some(partition, now_ms);
        if (rc > 0) {
            file_cache_free_space(broker->files);
        }
    } while (rc == LOG_RETAIN_MAX);
    if (rc < 0) {
        diag(DIAG_WARNING, "%s: retention: %s", partition->name, err_text(rc));
    }
}

static void tend(struct broker *broker, bool retention)
{
    const struct clock *clock = broker->params.clock;
    size_t count = 0;
    struct partition **list = NULL;
    (void)broker_partitions(broker, &list, &count);
    for (size_t i = 0; i < count; i++) {
        partition_flush_due(list[i], clock_mono_ms(clock));
        if (retention) {
            retain(broker, list[i], clock->wall_ms(clock));
            partition_producers_save(list[i], false);
        }
        partition_unref(list[i]);
    }
    free(list);
    file_cache_free_space(broker->files); /* of what others dropped */
}

/* [maintenance_lock] */
static void sleep_until_due(struct broker *broker)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += broker->tick_ms / 1000;
    until.tv_nsec += broker->tick_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&broker->maintenance_wake, &broker->maintenance_lock,
                                 &until);
}

static void *maintenance_main(void *arg)
{
    struct broker *broker = arg;
    int64_t retention_ms = 0;
    int64_t checkpoint_ms = 0;
    pthread_mutex_lock(&broker->maintenance_lock);
    while (!broker->stopping) {
        sleep_until_due(broker);
        if (broker->stopping) {
            break;
        }
        pthread_mutex_unlock(&broker->maintenance_lock);
        int64_t now_ms = clock_mono_ms(broker->params.clock);
        bool retention = now_ms - retention_ms >= RETENTION_EVERY_MS;
        tend(broker, retention);
        broker_bury(broker);
        if (retention) {
            broker_remotes_tend(broker);
            broker_retry_due(broker);
            retention_ms = now_ms;
        }
        if (now_ms - checkpoint_ms >= CHECKPOINT_EVERY_MS) {
            (void)broker_checkpoint(broker);
            checkpoint_ms = now_ms;
        }
        pthread_mutex_lock(&broker->maintenance_lock);
    }
    pthread_mutex_unlock(&broker->maintenance_lock);
    return NULL;
}

int broker_maintenance_start(struct broker *broker)
{
    return -pthread_create(&broker->maintenance, NULL, maintenance_main, broker);
}

void broker_maintenance_stop(struct broker *broker)
{
    if (!broker->maintenance) {
        return;
    }
    pthread_mutex_lock(&broker->maintenance_lock);
    broker->stopping = true;
    pthread_cond_signal(&broker->maintenance_wake);
    pthread_mutex_unlock(&broker->maintenance_lock);
    pthread_join(broker->maintenance, NULL);
}
