/* Deleting topics, and the tombstones that tell of it. */
#include "coord/cluster_private.h"
#include "coord/err.h"

#include <stdlib.h>
#include <string.h>

enum { TOMBSTONES_MAX = 1000, PRUNED_MAX = 20, TOMBSTONE_BYTES = 4096 };
static const int64_t TOMBSTONE_KEEP_MS = INT64_C(7) * 24 * 3600 * 1000;

void cluster_add_deletion(struct cluster *cluster, struct txn *txn,
                          const struct snapshot_topic *topic)
{
    const char *name = topic->topic.name;
    char id[TOPIC_ID_TEXT];
    struct buf value;

    topic_id_format(&topic->topic.id, id);
    cluster_compare_assignment(txn, name, topic->assignment_revision);
    txn_delete_prefix(txn, "brokers/topics/%s/", name);
    txn_delete(txn, "config/topics/%s", name);
    txn_delete(txn, "attributes/topics/%s", name);
    buf_init(&value, TOMBSTONE_BYTES);
    tombstone_encode(&value, name,
                     cluster->params.clock->wall_ms(cluster->params.clock));
    txn_put(txn, false, &value, "deleted/%s", id);
    buf_free(&value);
}

static int order_tombstones(const void *a, const void *b)
{
    const struct tombstone *first = a, *second = b;

    return (first->deleted_ms > second->deleted_ms) -
           (first->deleted_ms < second->deleted_ms);
}

void cluster_add_tombstone_pruning(struct cluster *cluster, struct txn *txn,
                                   const struct snapshot *base, uint32_t more)
{
    int64_t oldest_kept =
        cluster->params.clock->wall_ms(cluster->params.clock) - TOMBSTONE_KEEP_MS;
    uint32_t count = base->tombstone_count;
    struct tombstone *sorted = calloc((size_t)count + 1, sizeof(*sorted));

    if (!sorted) {
        txn_fail(txn, -ENOMEM);
        return;
    }
    if (count > 0)
        memcpy(sorted, base->tombstones, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), order_tombstones);
    for (uint32_t i = 0; i < count; i++) {
        char id[TOPIC_ID_TEXT];

        if (sorted[i].deleted_ms >= oldest_kept && count - i + more <= TOMBSTONES_MAX)
            break;
        if (cluster->shared && i == PRUNED_MAX) /* the rest with the next transaction */
            break;
        topic_id_format(&sorted[i].id, id);
        txn_delete(txn, "deleted/%s", id);
    }
    free(sorted);
}

/* What the cluster itself keeps in a topic is not to be lost by mistake, and the number
 * of its partitions says where it is. */
int cluster_refuse_internal(const char *name, const char *what, char *why,
                            size_t why_size)
{
    if (!topic_name_is_internal(name))
        return 0;
    cluster_explain(why, why_size, "topic %s: %s: topicfs itself uses it", name, what);
    return -EPERM;
}

/* *id: the topic that is deleted, whatever has its name by the next attempt. */
static int delete_once(struct cluster *cluster, const char *name, struct topic_id *id,
                       bool again, char *why, size_t why_size)
{
    const struct snapshot_topic *topic;
    const struct snapshot *base;
    struct txn txn;
    int rc;

    cluster_begin(cluster, &base);
    topic = snapshot_topic_get(base, name);
    if (again && (!topic || !topic_id_equal(&topic->topic.id, id)))
        return cluster_end(cluster, base, 0);
    if (!topic)
        return cluster_end(cluster, base, cluster_unknown_topic(name, why, why_size));
    rc = cluster_refuse_internal(name, "can't be deleted", why, why_size);
    if (rc != 0)
        return cluster_end(cluster, base, rc);
    *id = topic->topic.id;
    txn_init(&txn, cluster->prefix);
    cluster_add_deletion(cluster, &txn, topic);
    cluster_add_tombstone_pruning(cluster, &txn, base, 1);
    rc = cluster_commit(cluster, &txn, base);
    return cluster_end(cluster, base, rc);
}

int cluster_delete_topic(struct cluster *cluster, const char *name, char *why,
                         size_t why_size)
{
    int attempts = 0, rc;
    struct topic_id id;

    memset(&id, 0, sizeof(id));
    do
        rc = delete_once(cluster, name, &id, attempts > 0, why, why_size);
    while (cluster_again(&rc, &attempts));
    return rc;
}
