/*
 * Brings the partitions of this node in line with the cluster: opens new ones, passes
 * changes on, sets deleted ones on their way out.
 */
#include "replica/broker_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- directories --------------------------------------------------------------------
 */

static char *partition_dir(const struct broker *broker, const char *topic,
                           int32_t index)
{
    char name[TOPIC_NAME_MAX + 16];
    (void)snprintf(name, sizeof name, "%s-%" PRId32, topic, index);
    return datadir_file(broker->params.datadir, name);
}

/* ---- opening ------------------------------------------------------------------------
 */

static void on_last_unref(void *arg, struct partition *partition)
{
    struct broker *broker = arg;
    pthread_mutex_lock(&broker->table_lock);
    partition->next_dead = broker->dead;
    broker->dead = partition;
    pthread_mutex_unlock(&broker->table_lock);
}

static int persist(void *arg)
{
    return broker_checkpoint(arg);
}

static void note_lost(struct broker *broker, const char *dir,
                      const struct checkpoint_entry *entry)
{
    struct disk_stat stat;
    if (!entry || entry->log_end_offset <= entry->log_start_offset ||
        disk_real.ops->stat_path(&disk_real, dir, &stat) != -ENOENT) {
        return;
    }
    char what[256];
    (void)snprintf(what, sizeof what,
                   "the directory is gone, with offsets %" PRId64 " to %" PRId64
                   "; new messages go on behind them",
                   entry->log_start_offset, entry->log_end_offset - 1);
    problems_set(broker->params.problems, "lost", strrchr(dir, '/') + 1, what,
                 "put the directory back from a copy while unmounted, if there is one");
}

static int open_partition(struct broker *broker,
                          const struct cluster_snapshot *snapshot,
                          const struct topic *topic, int32_t index, const char *dir,
                          bool copy, struct partition **out)
{
    /* Not in a checkpoint that could be read: new since, so nothing of it was flushed.
     */
    static const struct checkpoint_entry fresh = {.start_epoch = -1};
    static const struct checkpoint_entry unknown = {.log_start_offset = -1,
                                                    .flushed_offset = -1,
                                                    .high_watermark = -1,
                                                    .log_end_offset = -1,
                                                    .start_epoch = -1};
    const struct checkpoint_entry *entry =
        checkpoint_find(&broker->recovered, &topic->id, index);
    if (copy) {
        entry = &fresh;
    } else {
        note_lost(broker, dir, entry);
    }
    if (!entry) {
        entry = broker->checkpoint_lost ? &unknown : &fresh;
    }
    bool shared = broker->replication && !copy;
    const struct partition_params params = {
        .dir = dir,
        .may_create = true,
        .copy = copy,
        .snapshot = snapshot,
        .topic = topic,
        .index = index,
        .self = snapshot->self,
        .unclean = atomic_load(&broker->unclean),
        .clock = broker->params.clock,
        .problems = broker->params.problems,
        .disk = &disk_real,
        .files = broker->files,
        .flusher = broker->flusher,
        .recovery = copy ? LOG_CLEAN : broker->params.datadir->recovery,
        .log_start_offset = entry->log_start_offset,
        .flushed_offset = entry->flushed_offset,
        .high_watermark = entry->high_watermark,
        .log_end_offset = entry->log_end_offset,
        .start_epoch = entry->start_epoch,
        .unusable = shared && broker_is_noted_unusable(broker, &topic->id, index),
        .replaced = shared && broker_has_replaced(broker, &topic->id, index),
        .persist = shared ? persist : NULL,
        .on_last_unref = on_last_unref,
        .on_last_unref_arg = broker,
        .observer = broker->replication ? broker_notice : NULL,
        .observer_arg = broker,
        .outbox_bytes = &broker->outbox_bytes,
    };
    return partition_open(&params, out);
}

/* A partition that could not be opened (NULL) has an entry, too: what the checkpoint
 * says of it must not be lost, and it is tried again. */
static int add_to_table(struct broker *broker, const struct partition_key *key,
                        struct partition *partition, bool copy, int error)
{
    pthread_mutex_lock(&broker->table_lock);
    struct table_entry *entry = broker_find_entry(broker, key);
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (entry) {
            entry->key = *key;
            HASH_ADD(hh, broker->table, key, sizeof entry->key, entry);
        }
    }
    if (entry) {
        entry->partition = partition;
    }
    if (entry && !partition) {
        broker_retry_later(broker, entry, copy, error);
    }
    bool interrupted = broker->interrupted;
    pthread_mutex_unlock(&broker->table_lock);
    if (partition && interrupted) {
        broker_interrupt_one(partition);
    }
    return entry ? 0 : -ENOMEM;
}

static void note_failure(struct broker *broker, const struct topic *topic,
                         int32_t index, int error)
{
    char subject[TOPIC_NAME_MAX + 16];
    (void)snprintf(subject, sizeof subject, "%s-%" PRId32, topic->name, index);
    problems_set(broker->params.problems, "offline", subject, err_text(error),
                 "mend what it says; it is tried again by itself");
}

bool broker_is_here(const struct broker *broker, const struct topic *topic,
                    int32_t index)
{
    const struct partition_info *info = &topic->partitions[index];
    return replica_ids_list(info->replicas, info->replica_count, broker->self);
}

static int open_replica(struct broker *broker, const struct cluster_snapshot *snapshot,
                        const struct topic *topic, int32_t index,
                        struct partition **out)
{
    struct topic_id found;
    char *dir = partition_dir(broker, topic->name, index);
    if (dir && broker_dir_topic_id(dir, &found) == 0 &&
        !topic_id_equal(&found, &topic->id)) {
        broker_set_aside(broker, dir,
                         "the directory belongs to another topic of this name");
    }
    int rc =
        dir ? open_partition(broker, snapshot, topic, index, dir, false, out) : -ENOMEM;
    free(dir);
    return rc;
}

static int open_copy(struct broker *broker, const struct cluster_snapshot *snapshot,
                     const struct topic *topic, int32_t index, struct partition **out)
{
    char *dir = broker_remote_dir(broker, topic->name, index);
    int rc =
        dir ? open_partition(broker, snapshot, topic, index, dir, true, out) : -ENOMEM;
    free(dir);
    return rc;
}

int broker_open_partition(struct broker *broker,
                          const struct cluster_snapshot *snapshot,
                          const struct topic *topic, int32_t index,
                          struct partition **out)
{
    *out = NULL;
    int rc = broker_is_here(broker, topic, index)
                 ? open_replica(broker, snapshot, topic, index, out)
                 : open_copy(broker, snapshot, topic, index, out);
    if (rc) {
        note_failure(broker, topic, index, rc);
    } else {
        problems_clear(broker->params.problems, "offline", (*out)->name);
    }
    return rc;
}

static void open_one(struct broker *broker, const struct cluster_snapshot *snapshot,
                     const struct topic *topic, int32_t index)
{
    /* What this start found after a crash may need long; new partitions do not, nor do
     * copies, which begin empty. */
    bool here = broker_is_here(broker, topic, index);
    bool later =
        here && !broker->snapshot && broker->params.datadir->recovery != LOG_CLEAN;
    int rc = later ? broker_open_later(broker, snapshot, topic, index) : 0;
    if (rc) {
        note_failure(broker, topic, index, rc);
    }
    if (later) {
        return;
    }
    struct partition_key key;
    struct partition *partition = NULL;
    partition_key_init(&key, &topic->id, index);
    rc = broker_open_partition(broker, snapshot, topic, index, &partition);
    rc = add_to_table(broker, &key, partition, !here, rc);
    if (rc) {
        note_failure(broker, topic, index, rc);
        partition_unref(partition);
    }
}

static struct partition *
take_from_table(struct broker *broker, const struct topic_id *topic_id, int32_t index);
static void delete_partition(struct broker *broker, struct partition *partition,
                             bool lost);
static void clear_problems(struct broker *broker, const struct topic *topic,
                           int32_t index);

/* A copy becomes a replica. Where there is a directory already, which a start would
 * open, the handle of the copy makes way for another one. */
static void promote(struct broker *broker, const struct cluster_snapshot *snapshot,
                    const struct topic *topic, int32_t index,
                    struct partition *partition)
{
    char *former = NULL;
    char *dir = partition_dir(broker, topic->name, index);
    int rc = dir ? partition_promote(partition, topic, dir, persist, &former) : -ENOMEM;
    if (rc) {
        delete_partition(broker, take_from_table(broker, &topic->id, index), false);
        clear_problems(broker, topic, index);
        open_one(broker, snapshot, topic, index);
    } else {
        broker_discard_copy(broker, partition, former);
        partition_update(partition, snapshot, topic);
    }
    free(former);
    free(dir);
}

void broker_apply_partition(struct broker *broker,
                            const struct cluster_snapshot *snapshot,
                            const struct topic *topic, int32_t index)
{
    bool opening = false;
    struct partition *partition = broker_look_up(broker, &topic->id, index, &opening);
    bool here = broker_is_here(broker, topic, index);
    if (partition && partition->copy && here) {
        promote(broker, snapshot, topic, index, partition);
    } else if (partition) {
        partition_update(partition, snapshot, topic);
    } else if (!opening && (here || broker->replication)) {
        open_one(broker, snapshot, topic, index);
    }
    partition_unref(partition);
}

static void apply_topic(struct broker *broker, const struct cluster_snapshot *snapshot,
                        const struct topic *topic)
{
    for (int32_t index = 0; index < topic->partition_count; index++) {
        broker_apply_partition(broker, snapshot, topic, index);
    }
}

/* ---- deletion -----------------------------------------------------------------------
 */

/* Waits for a partition that is being opened: its directory can't go before. */
static struct partition *take_from_table(struct broker *broker,
                                         const struct topic_id *topic_id, int32_t index)
{
    struct partition_key key;
    struct partition *partition = NULL;
    partition_key_init(&key, topic_id, index);
    pthread_mutex_lock(&broker->table_lock);
    struct table_entry *entry = broker_find_entry(broker, &key);
    while (entry && entry->opening) {
        if (!broker_open_now(broker, &key)) {
            pthread_cond_wait(&broker->opened, &broker->table_lock);
        }
        entry = broker_find_entry(broker, &key);
    }
    if (entry) {
        HASH_DEL(broker->table, entry);
        partition = entry->partition;
        free(entry);
    }
    pthread_mutex_unlock(&broker->table_lock);
    return partition;
}

/* The directory gets out of the name's way at once; its files go when nobody reads. */
static void move_to_deleted(struct broker *broker, struct partition *partition)
{
    char id[TOPIC_ID_TEXT];
    char name[TOPIC_ID_TEXT + 16];
    char *moved = NULL;
    topic_id_format(&partition->topic_id, id);
    (void)snprintf(name, sizeof name, "%s-%" PRId32, id, partition->index);
    int rc = broker_move_dir(broker, partition->dir, "deleted", name, &moved);
    if (moved) {
        free(partition->dir);
        partition->dir = moved;
        partition->moved = true;
    }
    if (rc) {
        diag(DIAG_WARNING, "%s: the deleted log was not moved away: %s",
             partition->name, err_text(rc));
    }
}

/* `lost`: its topic is gone, but nobody deleted it: another program wrote to the store,
 * or it was restored. What may be the last copy is not removed for that. */
static void delete_partition(struct broker *broker, struct partition *partition,
                             bool lost)
{
    struct partition_status status;
    partition_mark_deleted(partition);
    partition_status_get(partition, &status);
    if (atomic_load(&broker->unclean) <= status.unclean) {
        /* There may be another handle of it: with its topic's return, for instance. */
        atomic_store(&broker->unclean, status.unclean + 1);
    }
    pthread_mutex_lock(&partition->dir_lock);
    pthread_mutex_lock(&partition->append_lock);
    /* From here on its names may be those of another topic's files. */
    log_detach(partition->log);
    partition->kept = lost && !partition->copy;
    if (partition->kept) {
        broker_set_aside(broker, partition->dir,
                         "its topic vanished from the coordination store without "
                         "having been deleted");
    } else {
        move_to_deleted(broker, partition);
    }
    pthread_mutex_unlock(&partition->append_lock);
    pthread_mutex_unlock(&partition->dir_lock);
    partition_unref(partition);
}

static void clear_problems(struct broker *broker, const struct topic *topic,
                           int32_t index)
{
    static const char *const kinds[] = {"offline", "lost", "disk-full", "refill"};
    char subject[TOPIC_NAME_MAX + 16];
    (void)snprintf(subject, sizeof subject, "%s-%" PRId32, topic->name, index);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        problems_clear(broker->params.problems, kinds[i], subject);
    }
    problems_clear_below(broker->params.problems, "damaged", subject);
}

static void delete_topic(struct broker *broker, const struct cluster_snapshot *snapshot,
                         const struct topic *topic)
{
    bool lost = !cluster_snapshot_deleted(snapshot, &topic->id);
    for (int32_t index = 0; index < topic->partition_count; index++) {
        struct partition *partition = take_from_table(broker, &topic->id, index);
        if (partition) {
            delete_partition(broker, partition, lost);
        }
        clear_problems(broker, topic, index);
    }
}

/* ---- changes ------------------------------------------------------------------------
 */

/* How often the maintenance thread has to look, sooner for interval flushes. */
static int64_t tick_for(const struct broker *broker,
                        const struct cluster_snapshot *snapshot)
{
    int64_t tick_ms = broker->params.tick_ms;
    for (uint32_t i = 0; i < snapshot->topic_count; i++) {
        const struct topic_config *config = &snapshot->topics[i]->config;
        if (config->flush == FLUSH_INTERVAL && config->flush_ms / 2 < tick_ms) {
            tick_ms = config->flush_ms / 2;
        }
    }
    return tick_ms < 10 ? 10 : tick_ms;
}

static void set_tick(struct broker *broker, int64_t tick_ms)
{
    pthread_mutex_lock(&broker->maintenance_lock);
    if (tick_ms < broker->tick_ms) {
        pthread_cond_signal(&broker->maintenance_wake);
    }
    broker->tick_ms = tick_ms;
    pthread_mutex_unlock(&broker->maintenance_lock);
}

static void delete_missing(struct broker *broker,
                           const struct cluster_snapshot *snapshot)
{
    const struct cluster_snapshot *before = broker->snapshot;
    for (uint32_t i = 0; before && i < before->topic_count; i++) {
        const struct topic *topic = before->topics[i];
        const struct topic *now = cluster_snapshot_topic(snapshot, topic->name);
        if (!now || !topic_id_equal(&now->id, &topic->id)) {
            delete_topic(broker, snapshot, topic);
        }
    }
}

/* Whether nodes came or went, or this one registered anew: every leadership is judged
 * by that, too. */
static bool members_changed(const struct cluster_snapshot *before,
                            const struct cluster_snapshot *now)
{
    if (!before || before->self_epoch != now->self_epoch ||
        before->broker_count != now->broker_count) {
        return true;
    }
    for (uint32_t i = 0; i < now->broker_count; i++) {
        if (before->brokers[i].id != now->brokers[i].id ||
            before->brokers[i].epoch != now->brokers[i].epoch) {
            return true;
        }
    }
    return false;
}

void broker_apply(void *arg, const struct cluster_snapshot *snapshot)
{
    struct broker *broker = arg;
    pthread_mutex_lock(&broker->change_lock);
    if (broker->self != snapshot->self) { /* before there are partitions, who read it */
        broker->self = snapshot->self;
    }
    bool all = members_changed(broker->snapshot, snapshot);
    delete_missing(broker, snapshot);
    for (uint32_t i = 0; i < snapshot->topic_count; i++) {
        const struct topic *topic = snapshot->topics[i];
        const struct topic *before =
            broker->snapshot ? cluster_snapshot_topic(broker->snapshot, topic->name)
                             : NULL;
        if (all || !before ||
            topic != before) { /* snapshots share the topics that did not change */
            apply_topic(broker, snapshot, topic);
        }
    }
    cluster_snapshot_put(broker->snapshot);
    broker->snapshot = cluster_snapshot_ref(snapshot);
    set_tick(broker, tick_for(broker, snapshot));
    atomic_store(&broker->applied_revision, snapshot->revision);
    pthread_mutex_unlock(&broker->change_lock);
    replication_notice_cluster(broker->replication);
    /* Who waited for a partition that was news to this node looks again. */
    broker_release_open_waiters(broker);
}
