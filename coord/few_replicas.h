/*
 * Topics that topicfs keeps for itself are made at their first use, with as many
 * replicas as there are nodes then: one, on the first node of what becomes a cluster.
 * Nobody asked for that number, and nobody sees it, until a disk takes with it what
 * groups have read. So it is told, with the command that changes it.
 *
 * Not done by itself: with three replicas a write waits for two nodes, so that a node
 * that came for a while could stop groups by leaving; and replicas stay assigned to
 * it.
 *
 *     if (few_replicas_find(snapshot, topic, &few))
 *         ... few.what, few.what_to_do
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_FEW_REPLICAS_H
#define TOPICFS_FEW_REPLICAS_H

#include "coord/snapshot.h"

#include <stdbool.h>

struct few_replicas {
    char what[400];
    char what_to_do[500];
};

/* true: there are, and no reassignment of one of its partitions runs. */
bool few_replicas_find(const struct snapshot *snapshot, const struct topic *topic,
                       struct few_replicas *out);

#endif
