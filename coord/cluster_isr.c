/*
 * What the layer above asks of the store for replication: changes of in-sync replicas,
 * taking this node out.
 */
#include "coord/cluster_private.h"
#include "coord/err.h"

#include <inttypes.h>

enum { WATCH_LAG_MS = 1000 };

void cluster_session(struct cluster *cluster, struct cluster_session *out)
{
    struct store_status status;

    if (!cluster->shared) {
        *out = (struct cluster_session){.reachable = true, .deadline_ns = INT64_MAX};
        return;
    }
    cluster->store->ops->status(cluster->store, &status);
    *out = (struct cluster_session){
        .shared = true,
        .reachable = status.reachable,
        .lost = status.session_lost,
        .silent_since_ms = status.silent_since_ms,
        .deadline_ns = status.session_deadline_ns,
    };
    pthread_mutex_lock(&cluster->publish_lock);
    out->lost |= cluster->session_lost;
    pthread_mutex_unlock(&cluster->publish_lock);
}

static const struct snapshot_topic *find_topic(const struct snapshot *snapshot,
                                               const struct topic_id *id,
                                               int32_t partition)
{
    const struct topic *topic = cluster_snapshot_topic_by_id(&snapshot->shown, id);

    return topic && partition >= 0 && partition < topic->partition_count
               ? (const struct snapshot_topic *)topic
               : NULL;
}

void cluster_compare_self(struct txn *txn, const struct snapshot *base)
{
    if (base->shown.self_epoch <= 0)
        txn_fail(txn, E_SESSION_LOST);
    txn_compare(txn, STORE_CREATE_REVISION, base->shown.self_epoch,
                "brokers/ids/%" PRId32, base->shown.self);
}

/* Does this incarnation of this node lead in the state as stored? An earlier one's
 * epoch must not be resumed: a write would make it look like this one's. */
static bool leads(const struct snapshot *base, const struct snapshot_topic *topic,
                  int32_t partition)
{
    return topic->states[partition].leader == base->shown.self &&
           topic->infos[partition].state_revision > base->shown.self_epoch;
}

static int add_isr_change(const struct snapshot *base,
                          const struct snapshot_topic *topic, int32_t partition,
                          int64_t expected_revision, const struct leadership *next,
                          struct txn *txn)
{
    const struct partition_state *old = &topic->states[partition];
    struct partition_state state;
    int rc;

    if (topic->infos[partition].state_revision != expected_revision)
        return E_CONFLICT;
    if (!leads(base, topic, partition) || next->leader != old->leader ||
        next->leader_epoch != old->leader_epoch)
        return E_NOT_LEADER;
    rc = partition_state_from_leadership(next, old, &state);
    if (rc != 0)
        return rc;
    cluster_compare_self(txn, base);
    cluster_put_state(txn, topic->topic.name, partition, expected_revision, &state);
    partition_state_free(&state);
    return 0;
}

int cluster_change_isr(struct cluster *cluster, const struct topic_id *topic_id,
                       int32_t partition, int64_t expected_state_revision,
                       const struct leadership *next,
                       const struct broker_incarnation *joining, uint32_t joining_count,
                       int64_t *state_revision)
{
    const struct snapshot_topic *topic;
    const struct snapshot *base;
    int64_t revision = 0;
    struct txn txn;
    int rc;

    /* The leader's change before this one may not have come back through the watch. */
    if (cluster->shared)
        (void)cluster_wait_revision(cluster, expected_state_revision, WATCH_LAG_MS);
    base = cluster_get(cluster);
    topic = find_topic(base, topic_id, partition);
    rc = topic ? 0 : E_UNKNOWN_TOPIC;
    txn_init(&txn, cluster->prefix);
    if (rc == 0)
        rc =
            add_isr_change(base, topic, partition, expected_state_revision, next, &txn);
    for (uint32_t i = 0; i < joining_count; i++)
        if (joining[i].id != cluster->self)
            txn_compare(&txn, STORE_CREATE_REVISION, joining[i].epoch,
                        "brokers/ids/%" PRId32, joining[i].id);
    txn_fail(&txn, rc);
    rc = txn_commit(&txn, cluster->store, &revision);
    if (rc == 0 && state_revision)
        *state_revision = revision;
    snapshot_unref(base);
    return rc;
}

static int take_out_once(struct cluster *cluster, const struct topic_id *topic_id,
                         int32_t partition, const struct suspect *suspect,
                         int64_t *revision)
{
    const struct snapshot_topic *topic;
    struct partition_state state;
    struct leadership old, next;
    const struct snapshot *base;
    bool registered;
    struct txn txn;
    int rc;

    cluster_begin(cluster, &base);
    registered = base->shown.self_epoch > 0;
    topic = find_topic(base, topic_id, partition);
    if (!topic)
        return cluster_end(cluster, base, E_UNKNOWN_TOPIC);
    *revision = topic->infos[partition].state_revision;
    if (topic->states[partition].leader_epoch < 0)
        return cluster_end(cluster, base, 0);
    partition_info_leadership(&topic->infos[partition], &old);
    rc = leadership_take_out(&old, suspect, registered, &next);
    if (rc <= 0)
        return cluster_end(cluster, base, rc);
    rc = partition_state_from_leadership(&next, &topic->states[partition], &state);
    if (rc != 0)
        return cluster_end(cluster, base, rc);
    txn_init(&txn, cluster->prefix);
    if (cluster->shared) /* that it has this registration still, or still none */
        txn_compare(&txn, STORE_CREATE_REVISION,
                    registered ? base->shown.self_epoch : 0, "brokers/ids/%" PRId32,
                    cluster->self);
    cluster_put_state(&txn, topic->topic.name, partition,
                      topic->infos[partition].state_revision, &state);
    partition_state_free(&state);
    rc = cluster_commit(cluster, &txn, base);
    if (rc == 0)
        *revision = cluster->commit_revision;
    return cluster_end(cluster, base, rc);
}

int cluster_take_out(struct cluster *cluster, const struct topic_id *topic,
                     int32_t partition, const struct suspect *suspect,
                     int64_t *revision)
{
    int64_t stored = 0;
    int attempts = 0, rc;

    do
        rc = take_out_once(cluster, topic, partition, suspect, &stored);
    while (cluster_again(&rc, &attempts));
    if (rc == 0 && revision)
        *revision = stored;
    return rc;
}

/* Lets the record cover what was found; false: it does. */
static bool widen(struct partition_loss *record, const struct partition_loss *found)
{
    struct partition_loss before = *record;

    if (found->from >= 0 && (record->from < 0 || found->from < record->from))
        record->from = found->from;
    if (found->to > record->to)
        record->to = found->to;
    return record->from != before.from || record->to != before.to;
}

static int record_loss_once(struct cluster *cluster, const struct topic_id *topic_id,
                            int32_t partition, const struct partition_loss *found)
{
    const struct snapshot_topic *topic;
    struct partition_state state;
    const struct snapshot *base;
    struct txn txn;
    int rc;

    cluster_begin(cluster, &base);
    topic = find_topic(base, topic_id, partition);
    if (!topic || topic->states[partition].loss.epoch != found->epoch)
        return cluster_end(cluster, base, topic ? 0 : E_UNKNOWN_TOPIC);
    rc = partition_state_copy(&state, &topic->states[partition]);
    if (rc != 0)
        return cluster_end(cluster, base, rc);
    if (widen(&state.loss, found)) {
        txn_init(&txn, cluster->prefix);
        if (cluster->shared)
            cluster_compare_self(&txn, base);
        cluster_put_state(&txn, topic->topic.name, partition,
                          topic->infos[partition].state_revision, &state);
        rc = cluster_commit(cluster, &txn, base);
    }
    partition_state_free(&state);
    return cluster_end(cluster, base, rc);
}

int cluster_record_loss(struct cluster *cluster, const struct topic_id *topic,
                        int32_t partition, const struct partition_loss *loss)
{
    int attempts = 0, rc;

    do
        rc = record_loss_once(cluster, topic, partition, loss);
    while (cluster_again(&rc, &attempts));
    return rc;
}
