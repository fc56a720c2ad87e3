/*
 * The follower's engine: one thread that fetches from the leaders of all partitions
 * that this node follows.
 *
 *     replicator_start(&params, &replicator);
 *     replicator_notice(replicator, partition);    // from the partition's observer
 *     replicator_stop(replicator);
 *
 * A request carries as many partitions as are ready for one leader, and waits there for
 * news of any of them. A partition is in one request at a time, and is ready again once
 * what came was taken and, where that counts, flushed; so an idle partition's wait does
 * not hold up a busy one: they soon travel apart. A leader has three requests at most.
 * Where all but one are under way, the last takes over the partitions of the smallest
 * one, which ends at once by the rule that a newer fetch of a follower replaces an
 * older.
 *
 * Everything but start and stop: any thread.
 */
#ifndef TOPICFS_REPLICATOR_H
#define TOPICFS_REPLICATOR_H

#include "coord/coord.h"

struct replicator;
struct partition;

struct replicator_params {
    const struct mount_config *config; /* borrowed, as all of these */
    struct cluster *cluster;
    const struct clock *clock;
    /* A call to a node broke off, or found nobody: its process may be gone. Must not
     * block. */
    void (*on_failed)(void *arg, int32_t broker);
    /* A node began to refuse this one (-EACCES), or speaks another version of the
     * protocol (E_NEWER_FORMAT), or nothing that can be understood (-EBADMSG, -EPROTO);
     * 0: that is over, or the node is not followed any more. Must not block. */
    void (*on_refused)(void *arg, int32_t broker, int error);
    void *arg;
};

int replicator_start(const struct replicator_params *params, struct replicator **out);
/* Gives up what is under way. NULL is fine. No notices may come any more. */
void replicator_stop(struct replicator *replicator);

/* Something about the partition changed: whom it follows, or what it has on disk. Keeps
 * a reference for as long as it is followed. */
void replicator_notice(struct replicator *replicator, struct partition *partition);

#endif
