/*
 * What cluster.c, cluster_topics.c, cluster_admin.c and cluster_tree.c share. Private
 * to coord.
 *
 * An operation:
 *     cluster_begin(cluster, &base);              // operations lock, present snapshot
 *     ... decide from base, fill a txn ...
 *     rc = cluster_commit(cluster, &txn, base);   // compares the controllership
 *     return cluster_end(cluster, base, rc);      // unlocks, calls subscribers, waits
 *
 * Locks, in this order: operations_lock (held through the store's commit), then lock
 * (short, never during I/O or callbacks). Subscribers are called with neither.
 */
#ifndef TOPICFS_CLUSTER_PRIVATE_H
#define TOPICFS_CLUSTER_PRIVATE_H

#include "coord/model.h"
#include "coord/txn.h"

#include <pthread.h>

enum { CLUSTER_SUBSCRIBERS_MAX = 4 };

struct cluster_notice { /* a snapshot that subscribers are still to see */
    const struct snapshot *snapshot;
    struct cluster_notice *next;
};

struct cluster {
    struct cluster_params params; /* [const] */
    struct topic_config defaults; /* [const] for new topics */
    char *prefix;                 /* [const] "/topicfs/<cluster>/" */
    int32_t self;                 /* [const] */
    bool store_was_created;       /* [const] */
    struct store *store;          /* [const] */
    struct model *model;          /* [watch: one call at a time] */

    pthread_mutex_t operations_lock;

    pthread_mutex_t lock;
    pthread_cond_t notified_cond;
    const struct snapshot *snapshot; /* [lock] holds a reference */
    struct {
        cluster_change_fn *fn;
        void *arg;
    } subscribers[CLUSTER_SUBSCRIBERS_MAX];        /* [lock] */
    int subscriber_count;                          /* [lock] */
    struct cluster_notice *notices, **notices_end; /* [lock] */
    bool notifying;                                /* [lock] */
    pthread_t notifier;                            /* [lock] while notifying */
};

/* Takes the operations lock; *base is the present snapshot with a reference. */
void cluster_begin(struct cluster *cluster, const struct snapshot **base);
/* Commits, provided that this node is still the controller. Frees the txn. */
int cluster_commit(struct cluster *cluster, struct txn *txn,
                   const struct snapshot *base);
/* Ends the operation; returns rc once subscribers have seen what it changed. */
int cluster_end(struct cluster *cluster, const struct snapshot *base, int rc);

/* Live brokers of a snapshot; the ids are to be freed. 0 or -ENOMEM. */
int cluster_live(const struct snapshot *snapshot, struct id_list *out);

/* Adds to a txn what deletes a topic, and its tombstone. */
void cluster_add_deletion(struct cluster *cluster, struct txn *txn,
                          const struct snapshot_topic *topic);
/* Deletes tombstones that are older than they need to be, or too many once `more` are
 * added. */
void cluster_add_tombstone_pruning(struct cluster *cluster, struct txn *txn,
                                   const struct snapshot *base, uint32_t more);

/* Formats a reason; `why` may be NULL. */
void cluster_explain(char *why, size_t why_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
