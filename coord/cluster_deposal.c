/*
 * Fast detection makes it true: ends the registration of a node whose process seems to
 * be dead, and its controllership, and notes which partitions move for that
 * (coord/deposals.h), all in one transaction.
 */
#include "coord/cluster_private.h"
#include "coord/err.h"

#include <inttypes.h>
#include <stdlib.h>

/* Lists what the end of the node's registration would move; -EBUSY: one of these was
 * moved for this cause a moment ago. */
static int list_moved(const struct snapshot *base, int64_t now_ms, struct deposal *out,
                      uint32_t *allocated)
{
    const struct cluster_snapshot *shown = &base->shown;

    for (uint32_t i = 0; i < shown->topic_count; i++) {
        const struct topic *topic = base->topics[i];

        for (int32_t p = 0; p < topic->partition_count; p++) {
            const struct partition_info *info = &topic->partitions[p];
            bool alive = cluster_snapshot_broker(shown, info->leader) != NULL;
            struct moved_partition *grown = out->moved;

            if (!deposal_moves(out->broker, info->leader, alive, info->replicas,
                               info->replica_count))
                continue;
            if (deposals_moved(base->deposals, &topic->id, p, now_ms))
                return -EBUSY;
            if (out->moved_count == *allocated) {
                *allocated = *allocated ? *allocated * 2 : 64;
                grown = reallocarray(out->moved, *allocated, sizeof(*grown));
            }
            if (!grown)
                return -ENOMEM;
            out->moved = grown;
            grown[out->moved_count++] = (struct moved_partition){topic->id, p};
        }
    }
    return 0;
}

/* What the session's end would drop goes now. */
static int end_registration(struct cluster *cluster, const struct snapshot *base,
                            int64_t now_ms, const struct deposal *deposal)
{
    bool controls =
        base->shown.controller == deposal->broker && base->controller_revision > 0;
    struct buf value;
    struct txn txn;
    int rc;

    buf_init(&value, DEPOSALS_VALUE_MAX);
    deposals_encode(&value, base->deposals, now_ms, deposal);
    txn_init(&txn, cluster->prefix);
    cluster_compare_self(&txn, base);
    txn_compare(&txn, STORE_CREATE_REVISION, deposal->broker_epoch,
                "brokers/ids/%" PRId32, deposal->broker);
    txn_compare(&txn, STORE_MOD_REVISION, base->deposals_revision, "brokers/deposed");
    txn_delete(&txn, "brokers/ids/%" PRId32, deposal->broker);
    txn_put(&txn, false, &value, "brokers/deposed");
    if (controls) {
        txn_compare(&txn, STORE_CREATE_REVISION, base->controller_revision,
                    "controller");
        txn_delete(&txn, "controller");
    }
    rc = cluster_commit(cluster, &txn, base);
    buf_free(&value);
    return rc;
}

int cluster_report_dead(struct cluster *cluster, int32_t broker, int64_t broker_epoch)
{
    int64_t now_ms = clock_mono_ms(cluster->params.clock);
    struct deposal deposal = {.broker = broker, .broker_epoch = broker_epoch};
    const struct broker_info *info;
    const struct snapshot *base;
    uint32_t allocated = 0;
    int rc;

    cluster_begin(cluster, &base);
    info = cluster_snapshot_broker(&base->shown, broker);
    if (!cluster->shared || broker == cluster->self)
        rc = -EINVAL;
    else if (!info || info->epoch != broker_epoch)
        rc = E_CONFLICT;
    else if (deposals_rests(base->deposals, broker, now_ms))
        rc = -EBUSY;
    else
        rc = list_moved(base, now_ms, &deposal, &allocated);
    if (rc == 0)
        rc = end_registration(cluster, base, now_ms, &deposal);
    rc = cluster_end(cluster, base, rc);
    free(deposal.moved);
    return rc == -EAGAIN ? E_CONFLICT : rc;
}
