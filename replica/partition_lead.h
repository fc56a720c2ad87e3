/*
 * For what keeps its state in a partition's log and acts only while this node leads it,
 * such as the coordinator of consumer groups: appends that belong to one leader epoch,
 * and are never passed on to another leader.
 *
 *     if (partition_lead_get(partition, &lead)) {
 *         ... read the log, then
 *         rc = partition_lead_produce(partition, lead.leader_epoch, bytes, length,
 *                                     message_count, &waiter, &result);
 *     }
 *
 * What this node appended in `epoch` is committed in that order, or not at all once
 * another epoch has begun: so nobody can slip in behind what the next leader read.
 *
 * Any thread, no lock held.
 */
#ifndef TOPICFS_PARTITION_LEAD_H
#define TOPICFS_PARTITION_LEAD_H

#include "replica/partition.h"

struct partition_lead {
    int32_t leader_epoch;
    /* The store was heard within the session's time: nobody else can lead. If not,
     * somebody may, and only what gets committed shows that it isn't so. */
    bool certain;
    bool writable; /* there are enough in-sync replicas for acks=all */
};
/* true: this node leads the partition, by all that it knows. */
bool partition_lead_get(struct partition *partition, struct partition_lead *out);

/*
 * As partition_produce() with acks=all, but: E_NOT_LEADER where this node does not lead
 * in that epoch; also once it is appended and the epoch ends before it is committed:
 * its fate is then the next leader's. To be ended by partition_produce_cancel().
 */
int partition_lead_produce(struct partition *partition, int32_t leader_epoch,
                           const void *bytes, size_t length, uint32_t message_count,
                           struct produce_waiter *waiter,
                           struct produce_result *result);

/* The leader epoch in which the message before `offset` was appended; -1: not known. */
int32_t partition_lead_epoch_before(struct partition *partition, int64_t offset);

#endif
