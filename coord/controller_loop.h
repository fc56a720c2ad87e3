/*
 * The controller's work: looks at a snapshot, asks coord/controller_plan.h what to do
 * about each partition, and commits that, many partitions in one transaction. Every
 * transaction compares the create revision of the `controller` key, so that a stale
 * controller changes nothing; one that loses a race decides again from the next
 * snapshot. Nothing that matters is kept between rounds but the times of waiting: a new
 * controller begins from the store alone.
 *
 *     loop = controller_loop_new(cluster);
 *     rc = controller_loop_step(loop, snapshot);   // each round
 *
 * One thread: the cluster's loop.
 */
#ifndef TOPICFS_CONTROLLER_LOOP_H
#define TOPICFS_CONTROLLER_LOOP_H

#include "coord/snapshot.h"

struct cluster;
struct controller_loop;

struct controller_loop *controller_loop_new(struct cluster *cluster); /* NULL: memory */
void controller_loop_free(struct controller_loop *loop);              /* accepts NULL */

/* 0: all that was to do is committed, or somebody was faster; else what the store
 * returned: try again a little later. Does nothing where this node is not the
 * controller. */
int controller_loop_step(struct controller_loop *loop, const struct snapshot *snapshot);

/* Whether the next step may have something to do although nothing changes. */
bool controller_loop_waits(const struct controller_loop *loop);

#endif
