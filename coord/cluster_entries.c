/* The entries of the store that several operations write, each with its comparison. */
#include "coord/cluster_private.h"

#include <inttypes.h>

void cluster_put_state(struct txn *txn, const char *topic, int32_t partition,
                       int64_t revision, const struct partition_state *state)
{
    struct buf value;

    buf_init(&value, CLUSTER_VALUE_MAX);
    partition_state_encode(&value, state);
    txn_compare(txn, STORE_MOD_REVISION, revision,
                "brokers/topics/%s/partitions/%" PRId32 "/state", topic, partition);
    txn_put(txn, false, &value, "brokers/topics/%s/partitions/%" PRId32 "/state", topic,
            partition);
    buf_free(&value);
}

void cluster_compare_assignment(struct txn *txn, const char *topic, int64_t revision)
{
    txn_compare(txn, STORE_MOD_REVISION, revision, "brokers/topics/%s/assignment",
                topic);
}

void cluster_put_assignment(struct txn *txn, const char *topic,
                            const struct assignment *assignment)
{
    struct buf value;

    buf_init(&value, CLUSTER_VALUE_MAX);
    assignment_encode(&value, assignment);
    txn_put(txn, false, &value, "brokers/topics/%s/assignment", topic);
    buf_free(&value);
}
