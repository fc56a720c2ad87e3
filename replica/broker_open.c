/*
 * Opening partitions after a crash, beside everything else: recovery may read and flush
 * much, and the mount is to answer meanwhile. Until a partition is open, its entry in
 * the table has none, and who needs it may wait (broker_await_partition).
 */
#include "replica/broker_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct open_job {
    struct partition_key key;
    const struct cluster_snapshot *snapshot; /* one reference; has the topic */
    bool again;                              /* it failed before */
    struct open_job *prev, *next;
};

/* [table_lock] Takes the waiters of one partition (key NULL: all) off the list. */
static struct open_waiter *take_waiters(struct broker *broker,
                                        const struct partition_key *key)
{
    struct open_waiter *taken = NULL;
    struct open_waiter *waiter;
    struct open_waiter *next;
    DL_FOREACH_SAFE(broker->open_waiters, waiter, next)
    {
        if (!key || (topic_id_equal(&waiter->topic_id, &key->topic_id) &&
                     waiter->index == key->index)) {
            DL_DELETE(broker->open_waiters, waiter);
            waiter->parked = false;
            DL_APPEND(taken, waiter);
        }
    }
    return taken;
}

static void call_waiters(struct open_waiter *taken)
{
    struct open_waiter *waiter;
    struct open_waiter *next;
    DL_FOREACH_SAFE(taken, waiter, next)
    {
        waiter->opened(waiter);
    }
}

/* Does the cluster know a topic whose partitions this broker has not been told of? A
 * topic that another node made shows there a moment before it can be used here. */
static bool is_behind(struct broker *broker, const struct topic_id *topic_id)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(broker->params.cluster);
    bool behind = atomic_load(&broker->applied_revision) < snapshot->revision &&
                  cluster_snapshot_topic_by_id(snapshot, topic_id);
    cluster_snapshot_put(snapshot);
    return behind;
}

int broker_await_partition(struct broker *broker, const struct topic_id *topic_id,
                           int32_t index, struct open_waiter *waiter)
{
    struct partition_key key;
    partition_key_init(&key, topic_id, index);
    pthread_mutex_lock(&broker->table_lock);
    const struct table_entry *entry = broker_find_entry(broker, &key);
    const struct partition *partition = entry ? entry->partition : NULL;
    bool catching_up = partition && partition_must_catch_up(entry->partition);
    bool opening = entry ? entry->opening || catching_up : is_behind(broker, topic_id);
    opening = opening && !broker->interrupted;
    if (opening) {
        waiter->topic_id = *topic_id;
        waiter->index = index;
        waiter->parked = true;
        DL_APPEND(broker->open_waiters, waiter);
    }
    pthread_mutex_unlock(&broker->table_lock);
    return opening ? 0 : 1;
}

bool broker_await_cancel(struct broker *broker, struct open_waiter *waiter)
{
    pthread_mutex_lock(&broker->table_lock);
    bool parked = waiter->parked;
    if (parked) {
        DL_DELETE(broker->open_waiters, waiter);
        waiter->parked = false;
    }
    pthread_mutex_unlock(&broker->table_lock);
    return parked;
}

void broker_release_open_waiters(struct broker *broker)
{
    pthread_mutex_lock(&broker->table_lock);
    struct open_waiter *taken = take_waiters(broker, NULL);
    pthread_mutex_unlock(&broker->table_lock);
    call_waiters(taken);
}

void broker_release_waiters_of(struct broker *broker, const struct partition_key *key)
{
    pthread_mutex_lock(&broker->table_lock);
    struct open_waiter *taken = take_waiters(broker, key);
    pthread_mutex_unlock(&broker->table_lock);
    call_waiters(taken);
}

/* `partition` NULL: it could not be opened; its entry tells so. */
static void publish(struct broker *broker, const struct open_job *job,
                    struct partition *partition, bool copy, int error)
{
    pthread_mutex_lock(&broker->table_lock);
    struct table_entry *entry = broker_find_entry(broker, &job->key);
    entry->partition = partition;
    entry->opening = false;
    if (!partition) {
        broker_retry_later(broker, entry, copy, error);
    }
    if (!job->again) {
        atomic_fetch_sub(&broker->opening, 1);
    }
    bool interrupted = broker->interrupted;
    struct open_waiter *taken = take_waiters(broker, &job->key);
    pthread_cond_broadcast(&broker->opened);
    pthread_mutex_unlock(&broker->table_lock);
    if (partition && interrupted) {
        broker_interrupt_one(partition);
    }
    call_waiters(taken);
}

/* Settings, leadership or who has a replica may have changed while it was opened. */
static void catch_up(struct broker *broker, const struct open_job *job)
{
    const struct topic *opened_as =
        cluster_snapshot_topic_by_id(job->snapshot, &job->key.topic_id);
    pthread_mutex_lock(&broker->change_lock);
    const struct topic *now =
        cluster_snapshot_topic_by_id(broker->snapshot, &job->key.topic_id);
    if (now && now != opened_as) {
        broker_apply_partition(broker, broker->snapshot, now, job->key.index);
    }
    pthread_mutex_unlock(&broker->change_lock);
}

/* true: it is open. */
static bool do_job(struct broker *broker, const struct open_job *job, bool stopping)
{
    const struct topic *topic =
        cluster_snapshot_topic_by_id(job->snapshot, &job->key.topic_id);
    struct partition *partition = NULL;
    bool copy = !broker_is_here(broker, topic, job->key.index);
    int rc = stopping ? -ECANCELED
                      : broker_open_partition(broker, job->snapshot, topic,
                                              job->key.index, &partition);
    publish(broker, job, partition, copy, rc);
    return partition != NULL;
}

static void job_free(struct open_job *job)
{
    cluster_snapshot_put(job->snapshot);
    free(job);
}

static void run_job(struct broker *broker, struct open_job *job, bool stopping)
{
    if (do_job(broker, job, stopping)) {
        catch_up(broker, job);
    }
    job_free(job);
}

bool broker_open_now(struct broker *broker, const struct partition_key *key)
{
    struct open_job *job;
    DL_FOREACH(broker->open_jobs, job)
    {
        if (memcmp(&job->key, key, sizeof *key) == 0) {
            break;
        }
    }
    if (!job) {
        return false;
    }
    DL_DELETE(broker->open_jobs, job);
    bool stopping = broker->interrupted;
    pthread_mutex_unlock(&broker->table_lock);
    (void)do_job(broker, job, stopping);
    job_free(job);
    pthread_mutex_lock(&broker->table_lock);
    return true;
}

void broker_open_jobs(struct broker *broker, bool *running)
{
    for (;;) {
        pthread_mutex_lock(&broker->table_lock);
        struct open_job *job = broker->open_jobs;
        if (job) {
            DL_DELETE(broker->open_jobs, job);
        } else {
            *running = false;
        }
        bool stopping = broker->interrupted;
        pthread_mutex_unlock(&broker->table_lock);
        if (!job) {
            return;
        }
        run_job(broker, job, stopping);
    }
}

static void *opener_main(void *arg)
{
    bool running = true;
    broker_open_jobs(arg, &running);
    return NULL;
}

/* [table_lock] */
static void add_job(struct broker *broker, const struct cluster_snapshot *snapshot,
                    struct table_entry *entry, struct open_job *job)
{
    entry->opening = true;
    job->key = entry->key;
    job->snapshot = cluster_snapshot_ref(snapshot);
    DL_APPEND(broker->open_jobs, job);
    if (!job->again) {
        atomic_fetch_add(&broker->opening, 1);
    }
}

int broker_open_again(struct broker *broker, const struct cluster_snapshot *snapshot,
                      struct table_entry *entry)
{
    struct open_job *job = calloc(1, sizeof *job);
    if (!job) {
        return -ENOMEM;
    }
    job->again = true;
    add_job(broker, snapshot, entry, job);
    return 0;
}

int broker_open_later(struct broker *broker, const struct cluster_snapshot *snapshot,
                      const struct topic *topic, int32_t index)
{
    struct open_job *job = calloc(1, sizeof *job);
    struct table_entry *entry = calloc(1, sizeof *entry);
    if (!job || !entry) {
        free(job);
        free(entry);
        return -ENOMEM;
    }
    partition_key_init(&entry->key, &topic->id, index);
    pthread_mutex_lock(&broker->table_lock);
    HASH_ADD(hh, broker->table, key, sizeof entry->key, entry);
    add_job(broker, snapshot, entry, job);
    pthread_mutex_unlock(&broker->table_lock);
    return 0;
}

int broker_openers_start(struct broker *broker)
{
    pthread_mutex_lock(&broker->table_lock);
    bool wanted = broker->open_jobs != NULL;
    pthread_mutex_unlock(&broker->table_lock);
    while (wanted && broker->opener_count < BROKER_OPENERS) {
        int rc = pthread_create(&broker->openers[broker->opener_count], NULL,
                                opener_main, broker);
        if (rc) {
            /* One is enough. */
            return broker->opener_count ? 0 : -rc;
        }
        broker->opener_count++;
    }
    return 0;
}

void broker_openers_stop(struct broker *broker)
{
    for (unsigned i = 0; i < broker->opener_count; i++) {
        pthread_join(broker->openers[i], NULL);
    }
    broker->opener_count = 0;
}

bool broker_is_opening(const struct broker *broker)
{
    return atomic_load_explicit(&broker->opening, memory_order_acquire) > 0;
}

/* Whether it is to be waited for: it is not open yet, or lacks something. */
static bool is_awaited(struct broker *broker, const struct topic_id *topic_id,
                       int32_t index, bool (*lacks)(struct partition *partition))
{
    bool opening = false;
    struct partition *partition = broker_look_up(broker, topic_id, index, &opening);
    bool awaited =
        partition ? lacks(partition) : opening || is_behind(broker, topic_id);
    partition_unref(partition);
    return awaited;
}

static bool lacks_nothing(struct partition *partition)
{
    (void)partition;
    return false;
}

static bool lacks_messages(struct partition *partition)
{
    return !partition_observe(partition);
}

static bool lacks_copy(struct partition *partition)
{
    return partition_is_remote(partition) && !partition_observe(partition);
}

bool broker_partition_is_opening(struct broker *broker, const struct topic_id *topic_id,
                                 int32_t index)
{
    return is_awaited(broker, topic_id, index, lacks_nothing);
}

bool broker_must_catch_up(struct broker *broker, const struct topic_id *topic_id,
                          int32_t index)
{
    return is_awaited(broker, topic_id, index, lacks_messages);
}

bool broker_must_copy(struct broker *broker, const struct topic_id *topic_id,
                      int32_t index)
{
    return is_awaited(broker, topic_id, index, lacks_copy);
}
