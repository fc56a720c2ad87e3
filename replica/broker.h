/*
 * The broker: all partitions of this node, over one data directory. It follows the
 * cluster's snapshots (opens, reconfigures and removes partitions), owns the threads
 * that flush, retain and compact, writes the checkpoint, and stops in order.
 *
 *     datadir_open(...)                      -> identity, crash kind, lock
 *     cluster_open(...)
 *     broker_start(&params, &broker);        // subscribes to the cluster
 *     ... mount, serve ...
 *     broker_leave(broker);                  // before cluster_close()
 *     broker_stop(broker);                   // after the mount is gone and
 * cluster_close()
 */
#ifndef TOPICFS_BROKER_H
#define TOPICFS_BROKER_H

#include "coord/coord.h"
#include "replica/partition.h"

struct broker;
struct datadir;

/*
 * The data directory: locked by one process, with its format version, the instance id
 * of this node and how the last process ended. Created if absent (`why` has the reason
 * of a refusal in words): E_IN_USE, E_NEWER_FORMAT, E_CORRUPT, a negative errno.
 */
int datadir_open(const char *path, struct datadir **out, char *why, size_t why_size);
const char *datadir_path(const struct datadir *datadir);
const char *datadir_store_path(const struct datadir *datadir);
const char *datadir_instance(const struct datadir *datadir); /* 32 hex digits */
enum node_started datadir_started(const struct datadir *datadir);
/* Unlocks. Writes no marker, unless no broker was started here: then it is as it was.
 */
void datadir_close(struct datadir *datadir);

struct broker_params {
    struct datadir *datadir; /* borrowed, as all of these */
    struct cluster *cluster;
    struct problems *problems;
    const struct clock *clock;
    unsigned max_open_files; /* of segments; 0 = 200, or a quarter of what is allowed */
    const struct mount_config *config; /* how other nodes are reached */
    int64_t tick_ms; /* how often it looks for what is due by time; 0 = each second */
};

/*
 * Opens every partition of this node; after a crash that goes on behind this call.
 * Errors of single partitions go to problems; only what stops the whole node fails.
 * Also on failure *out may be set: close the cluster, then broker_stop() it.
 */
int broker_start(const struct broker_params *params, struct broker **out, char *why,
                 size_t why_size);

/*
 * Among other nodes: tells the cluster which replicas here may lack what they once
 * acknowledged, after all are open. Between broker_start() and cluster_join(). Blocks
 * on recovery and on the store. 0, or as cluster_take_out().
 */
int broker_take_out_suspects(struct broker *broker);

/* Ends the traffic with other nodes and with the cluster's store that the broker began:
 * before cluster_close(). NULL is fine. */
void broker_leave(struct broker *broker);

/* Completes or fails what is parked, flushes, checkpoints, leaves the clean marker.
 * Bounded by the disk alone. NULL is fine. */
void broker_stop(struct broker *broker);

/* Wakes everything parked with an error, so that the mount can end; call before unmount
 * completes. Later waits fail at once with E_OFFLINE. Topics that topicfs keeps for
 * itself go on until broker_stop(): what members of groups have done is still to be
 * committed. */
void broker_interrupt_waiters(struct broker *broker);

/* A new reference, or NULL if there is no such partition, or it is still recovered. In
 * a cluster every node has all of them: see partition_is_remote(). */
struct partition *broker_partition(struct broker *broker,
                                   const struct topic_id *topic_id, int32_t partition);

/*
 * After a crash partitions are opened one by one while the mount answers already; and
 * one of other nodes must be copied before it is read. Waits for one of them. 0:
 * parked, opened() is called once when opening ended, well or not (or at
 * broker_interrupt_waiters()), on any thread, no lock held: ask broker_partition()
 * again. 1: nothing to wait for; opened() is not called.
 */
struct open_waiter {
    void (*opened)(struct open_waiter *waiter);
    /* private: [broker->table_lock] */
    struct topic_id topic_id;
    int32_t index;
    bool parked;
    struct open_waiter *prev, *next;
};
int broker_await_partition(struct broker *broker, const struct topic_id *topic_id,
                           int32_t partition, struct open_waiter *waiter);
/* Whether any partition is still being opened; costs nothing. And whether this one is.
 */
bool broker_is_opening(const struct broker *broker);
bool broker_partition_is_opening(struct broker *broker, const struct topic_id *topic_id,
                                 int32_t partition);
/* The same, and asks for the copy of a partition that other nodes keep. true: it is
 * still being opened, or the copy is not complete yet; broker_await_partition() waits
 * for both. */
bool broker_must_catch_up(struct broker *broker, const struct topic_id *topic_id,
                          int32_t partition);
/* Likewise for what is not read from the log: a replica of this node that is being
 * filled anew can tell its state. */
bool broker_must_copy(struct broker *broker, const struct topic_id *topic_id,
                      int32_t partition);
/* true: opened() was not and will not be called. */
bool broker_await_cancel(struct broker *broker, struct open_waiter *waiter);

/* Statistics of the data directory's filesystem, for statfs. */
struct statvfs;
int broker_statvfs(struct broker *broker, struct statvfs *out);

#endif
