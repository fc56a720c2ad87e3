/*
 * Replicas that may lack what they once acknowledged: after a crash of the machine
 * those whose flush policy does not flush before it acknowledges, and those that could
 * not be opened. They are taken out of the in-sync replicas before the node registers:
 * until then nobody can elect it.
 */
#include "replica/broker_internal.h"
#include "replica/partition_replica.h"

#include <stdlib.h>

struct suspicion {
    struct partition_key key;
    struct suspect suspect;
};

/* [table_lock] Also those that recover: they are through, then. */
static void await_openers(struct broker *broker)
{
    while (broker_is_opening(broker)) {
        pthread_cond_wait(&broker->opened, &broker->table_lock);
    }
}

/* What nobody else has is not given up because it can't be opened now. */
static bool is_last(const struct broker *broker,
                    const struct cluster_snapshot *snapshot,
                    const struct table_entry *entry)
{
    const struct topic *topic =
        cluster_snapshot_topic_by_id(snapshot, &entry->key.topic_id);
    struct leadership state;
    if (!topic || entry->key.index >= topic->partition_count) {
        return false;
    }
    partition_info_leadership(&topic->partitions[entry->key.index], &state);
    return leadership_is_last(&state, broker->self);
}

static bool is_suspect(struct broker *broker, const struct cluster_snapshot *snapshot,
                       const struct table_entry *entry, struct suspect *out)
{
    /* Without the checkpoint nobody can tell whether files are missing. */
    bool crashed = broker->params.datadir->recovery == LOG_MACHINE_CRASHED;
    enum partition_doubt doubt = broker->checkpoint_lost ? DOUBT_ALL
                                 : crashed               ? DOUBT_UNFLUSHED
                                                         : DOUBT_CUT;
    if (!entry->partition) {
        *out = (struct suspect){.kind = SUSPECT_UNUSABLE, .last_epoch = -1};
        return !entry->copy && !is_last(broker, snapshot, entry);
    }
    return !entry->partition->copy && partition_suspect(entry->partition, doubt, out);
}

static int collect(struct broker *broker, struct suspicion **out, size_t *count)
{
    const struct table_entry *entry;
    *count = 0;
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(broker->params.cluster);
    pthread_mutex_lock(&broker->table_lock);
    await_openers(broker);
    size_t total = HASH_COUNT(broker->table);
    struct suspicion *list = calloc(total ? total : 1, sizeof *list);
    for (entry = list ? broker->table : NULL; entry; entry = entry->hh.next) {
        struct suspicion *next = &list[*count];
        if (is_suspect(broker, snapshot, entry, &next->suspect)) {
            next->key = entry->key;
            (*count)++;
        }
    }
    pthread_mutex_unlock(&broker->table_lock);
    cluster_snapshot_put(snapshot);
    *out = list;
    return list ? 0 : -ENOMEM;
}

int broker_take_out_suspects(struct broker *broker)
{
    size_t count = 0;
    struct suspicion *list = NULL;
    if (!broker->replication) {
        return 0;
    }
    int rc = collect(broker, &list, &count);
    for (size_t i = 0; i < count && !rc; i++) {
        list[i].suspect.id = broker->self;
        rc = cluster_take_out(broker->params.cluster, &list[i].key.topic_id,
                              list[i].key.index, &list[i].suspect, NULL);
        rc = rc == E_UNKNOWN_TOPIC ? 0 : rc; /* deleted meanwhile */
    }
    free(list);
    atomic_store(&broker->told, rc == 0);
    return rc;
}
