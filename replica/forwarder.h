/*
 * The producer's engine of a node: one thread that sends the writes of all outboxes
 * (partition_outbox.h) to the leaders of their partitions, one batch of a partition at
 * a time, again and again until each one's fate is known or its time is over. It also
 * asks leaders to make durable what is waited for here (sync_sender.h).
 *
 *     forwarder_start(&params, &forwarder);
 *     // It has writes, or waits for a sync, or who leads changed:
 *     forwarder_notice(forwarder, partition);
 *     forwarder_stop(forwarder);
 *
 * forwarder_notice(): any thread.
 */
#ifndef TOPICFS_FORWARDER_H
#define TOPICFS_FORWARDER_H

#include "coord/coord.h"

struct forwarder;
struct partition;

struct forwarder_params {
    const struct mount_config *config; /* borrowed, as all of these */
    struct cluster *cluster;
    const struct clock *clock;
};

int forwarder_start(const struct forwarder_params *params, struct forwarder **out);
/* What is under way ends with E_COMMIT_TIMEOUT. NULL is fine. No notices may come any
 * more. */
void forwarder_stop(struct forwarder *forwarder);

void forwarder_notice(struct forwarder *forwarder, struct partition *partition);

#endif
