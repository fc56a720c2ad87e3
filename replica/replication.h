/*
 * The threads of a node that is one of several: the follower's fetches, the leader's
 * dealings with the coordination store, the look-out for nodes that die. The broker
 * starts it before it opens partitions, and stops it before the cluster is closed.
 *
 *     replication_start(&params, &replication);
 *     ... the partitions' observer calls replication_notice() ...
 *     replication_stop(replication);     // notices may still come, and do nothing
 *     replication_free(replication);     // once there are no partitions any more
 */
#ifndef TOPICFS_REPLICATION_H
#define TOPICFS_REPLICATION_H

#include "coord/coord.h"

struct broker;
struct partition;
struct replication;

struct replication_params {
    const struct mount_config *config; /* borrowed, as all of these */
    struct cluster *cluster;
    struct problems *problems;
    const struct clock *clock;
    struct broker *broker;
};

int replication_start(const struct replication_params *params,
                      struct replication **out);
void replication_stop(struct replication *replication); /* NULL is fine; twice, too */
void replication_free(struct replication *replication); /* likewise */

/* For the observer of a partition: it changed; it only has one more write for the
 * leader. */
void replication_notice(struct replication *replication, struct partition *partition);
void replication_notice_writes(struct replication *replication,
                               struct partition *partition);
/* The cluster has another snapshot. NULL is fine. */
void replication_notice_cluster(struct replication *replication);

#endif
