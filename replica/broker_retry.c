/*
 * Logs that could not be opened: no descriptors or memory left, a full or failing disk,
 * wrong permissions, files that recovery can make nothing of. Each is tried again, from
 * time to time, for as long as the topic is there: on a thread of its own, because a
 * failing disk may take long.
 *
 * Among other nodes such a replica is of no use meanwhile. It leaves the in-sync
 * replicas, so that another one leads, unless nobody else has what it has. Where the
 * files themselves are bad, and another node leads, they go to <data>/replaced; what
 * is opened next finds nothing, and is filled from the leader as every replica that
 * lost its files (broker_repair.c).
 */
#include "replica/broker_internal.h"

#include <stdlib.h>

enum {
    DELAY_MIN_MS = 500,
    DELAY_MAX_MS = 30000,
    GIVE_WAY_MAX = 16, /* in one round */
};

void broker_retry_later(const struct broker *broker, struct table_entry *entry,
                        bool copy, int error)
{
    int64_t delay_ms = entry->delay_ms * 2;
    delay_ms = delay_ms < DELAY_MIN_MS ? DELAY_MIN_MS : delay_ms;
    entry->delay_ms = delay_ms < DELAY_MAX_MS ? delay_ms : DELAY_MAX_MS;
    entry->retry_ms = clock_mono_ms(broker->params.clock) + entry->delay_ms;
    entry->copy = copy;
    entry->error = error;
}

static bool has_failed(const struct table_entry *entry)
{
    return !entry->partition && !entry->opening;
}

static bool has_any(struct broker *broker)
{
    pthread_mutex_lock(&broker->table_lock);
    const struct table_entry *entry = broker->table;
    while (entry && !has_failed(entry)) {
        entry = entry->hh.next;
    }
    pthread_mutex_unlock(&broker->table_lock);
    return entry != NULL;
}

/* ---- trying again -------------------------------------------------------------------
 */

/* [change_lock] true: there are some, and nobody who does them. */
static bool queue_due(struct broker *broker)
{
    int64_t now_ms = clock_mono_ms(broker->params.clock);
    pthread_mutex_lock(&broker->table_lock);
    for (struct table_entry *entry = broker->table; entry && !broker->interrupted;
         entry = entry->hh.next) {
        if (has_failed(entry) && now_ms >= entry->retry_ms &&
            cluster_snapshot_topic_by_id(broker->snapshot, &entry->key.topic_id)) {
            (void)broker_open_again(broker, broker->snapshot, entry);
        }
    }
    bool wanted = broker->open_jobs && !broker->retrying;
    broker->retrying |= wanted;
    pthread_mutex_unlock(&broker->table_lock);
    return wanted;
}

static void *retrier_main(void *arg)
{
    struct broker *broker = arg;
    broker_open_jobs(broker, &broker->retrying);
    return NULL;
}

void broker_retry_due(struct broker *broker)
{
    /* Whoever changes something now opens logs, too: the next round will do. */
    if (!has_any(broker) || pthread_mutex_trylock(&broker->change_lock)) {
        return;
    }
    bool wanted = queue_due(broker);
    pthread_mutex_unlock(&broker->change_lock);
    if (!wanted) {
        return;
    }
    broker_retry_stop(broker); /* the last one has nothing to do any more */
    broker->has_retrier =
        pthread_create(&broker->retrier, NULL, retrier_main, broker) == 0;
    if (!broker->has_retrier) {
        (void)retrier_main(broker);
    }
}

void broker_retry_stop(struct broker *broker)
{
    if (broker->has_retrier) {
        pthread_join(broker->retrier, NULL);
    }
    broker->has_retrier = false;
}

/* ---- among other nodes --------------------------------------------------------------
 */

struct failure {
    struct partition_key key;
    int error;
};

/* Whether what is on the disk is the reason, so that trying again is of no use. */
static bool is_bad(int error)
{
    switch (error) {
    case -EIO:
    case -ENOTDIR:
    case -EISDIR:
    case -EUCLEAN:
    case -EBADMSG:
    case E_DAMAGED:
    case E_CORRUPT:
        return true;
    default:
        return false;
    }
}

/* The replicas that failed; the caller frees. */
static struct failure *collect(struct broker *broker, size_t *count)
{
    *count = 0;
    pthread_mutex_lock(&broker->table_lock);
    struct failure *failures = calloc(HASH_COUNT(broker->table) + 1, sizeof *failures);
    for (const struct table_entry *entry = failures ? broker->table : NULL; entry;
         entry = entry->hh.next) {
        if (has_failed(entry) && !entry->copy) {
            failures[(*count)++] =
                (struct failure){.key = entry->key, .error = entry->error};
        }
    }
    pthread_mutex_unlock(&broker->table_lock);
    return failures;
}

/* [change_lock] Opening is not under way. */
static bool is_still_failed(struct broker *broker, const struct partition_key *key)
{
    pthread_mutex_lock(&broker->table_lock);
    const struct table_entry *entry = broker_find_entry(broker, key);
    bool failed = entry && has_failed(entry) && !entry->copy;
    pthread_mutex_unlock(&broker->table_lock);
    return failed;
}

/* [change_lock] */
static void retry_at_once(struct broker *broker, const struct partition_key *key)
{
    pthread_mutex_lock(&broker->table_lock);
    broker_find_entry(broker, key)->retry_ms = 0;
    pthread_mutex_unlock(&broker->table_lock);
}

/* Once: where what is begun anew can't be opened either, the disk goes on failing. */
static void replace(struct broker *broker, const struct topic *topic,
                    const struct partition_key *key)
{
    if (broker_has_replaced(broker, &topic->id, key->index) ||
        pthread_mutex_trylock(&broker->change_lock)) {
        return;
    }
    if (is_still_failed(broker, key)) {
        int rc = broker_replace_dir(broker, topic, key->index);
        if (rc) {
            diag(DIAG_DEBUG, "%s-%d: not moved away: %s", topic->name, key->index,
                 err_text(rc));
        } else {
            retry_at_once(broker, key);
        }
    }
    pthread_mutex_unlock(&broker->change_lock);
}

static void give_way(struct broker *broker, const struct cluster_snapshot *snapshot,
                     const struct failure *failure)
{
    const int32_t self = snapshot->self;
    const int32_t index = failure->key.index;
    const struct topic *topic =
        cluster_snapshot_topic_by_id(snapshot, &failure->key.topic_id);
    struct leadership state;
    if (!topic || index >= topic->partition_count ||
        !broker_is_here(broker, topic, index)) {
        return;
    }
    partition_info_leadership(&topic->partitions[index], &state);
    if (leadership_is_last(&state, self)) {
        return;
    }
    if (state.leader == self || replica_ids_contain(&state.isr, self) ||
        replica_ids_contain(&state.elr, self)) {
        const struct suspect suspect = {
            .id = self, .kind = SUSPECT_UNUSABLE, .last_epoch = -1};
        (void)cluster_take_out(broker->params.cluster, &failure->key.topic_id, index,
                               &suspect, NULL);
    } else if (state.leader >= 0 && is_bad(failure->error)) {
        replace(broker, topic, &failure->key);
    }
}

void broker_give_way(struct broker *broker)
{
    size_t count;
    if (!has_any(broker)) {
        return;
    }
    struct failure *failures = collect(broker, &count);
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(broker->params.cluster);
    /* In turn: those that stay as they are must not keep the others from it. */
    for (size_t i = 0; i < count && i < GIVE_WAY_MAX; i++) {
        give_way(broker, snapshot, &failures[broker->give_way_turn++ % count]);
    }
    cluster_snapshot_put(snapshot);
    free(failures);
}
