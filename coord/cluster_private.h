/*
 * What the cluster_*.c files and controller_loop.c share. Private to coord.
 *
 * An operation:
 *     cluster_begin(cluster, &base);              // operations lock, present snapshot
 *     ... decide from base, fill a txn ...
 *     rc = cluster_commit(cluster, &txn, base);
 *     return cluster_end(cluster, base, rc);      // unlocks, waits until it is shown
 *
 * Two kinds of cluster. In the embedded store this node is alone: it is the controller,
 * every operation compares that, and the thread that committed calls the subscribers.
 * In a shared store operations compare what they read; a lost race is -EAGAIN and the
 * operation decides again. A node has two threads there: the notifier calls the
 * subscribers, the loop (cluster_loop.c) keeps session and registration, elects, is the
 * controller while it is elected, and computes problems.
 *
 * Locks, in this order: operations_lock (held through the store's commit), publish_lock
 * (the model; while a snapshot is made), lock (short, never during I/O or callbacks).
 * Subscribers are called with none of them.
 */
#ifndef TOPICFS_CLUSTER_PRIVATE_H
#define TOPICFS_CLUSTER_PRIVATE_H

#include "coord/model.h"
#include "coord/txn.h"

#include <pthread.h>

enum { CLUSTER_SUBSCRIBERS_MAX = 8 };
/* What json_parse() takes: a value beyond that could not be read back. */
enum { CLUSTER_VALUE_MAX = 1 << 20 };

struct cluster_notice { /* a snapshot that subscribers are still to see */
    const struct snapshot *snapshot;
    uint64_t sequence;
    struct cluster_notice *next;
};

struct cluster {
    struct cluster_params params;    /* [const] */
    struct topic_config defaults;    /* [const] of the mount, for new topics */
    struct topic_config built_in;    /* [const] for what a topic's entry leaves out */
    char *prefix;                    /* [const] "/topicfs/<cluster>/" */
    int32_t self;                    /* [const] */
    bool store_was_created;          /* [const] */
    struct store *store;             /* [const] */
    bool shared;                     /* [const] other nodes use the store too */
    char instance[INSTANCE_MAX + 1]; /* [const] of the data directory */
    enum node_started started;       /* [const] */

    pthread_mutex_t publish_lock;
    struct model *model;     /* [publish_lock] */
    int64_t own_epoch;       /* [publish_lock] of the registration of this process; 0 */
    bool session_lost;       /* [publish_lock] the store said so */
    bool register_unknown;   /* [loop] an attempt's outcome is not known */
    bool register_late;      /* [loop, before it: open] a registration of this session
                              * may still be on its way */
    int64_t last_epoch;      /* [loop, before it: open] the latest that it had */
    int64_t commit_revision; /* [operations_lock] the latest of an operation */

    pthread_mutex_t operations_lock;

    pthread_mutex_t lock;
    pthread_cond_t notified_cond;
    const struct snapshot *snapshot; /* [lock] holds a reference */
    struct {
        cluster_change_fn *fn;
        void *arg;
        uint64_t seen; /* sequence of its first snapshot: none before is shown to it */
    } subscribers[CLUSTER_SUBSCRIBERS_MAX];        /* [lock] */
    int subscriber_count;                          /* [lock] */
    struct cluster_notice *notices, **notices_end; /* [lock] */
    bool notifying;                    /* [lock] a subscriber is being called */
    pthread_t notifier;                /* [lock] while notifying */
    uint64_t sequence, shown_sequence; /* [lock] of snapshots: latest; seen by all */

    pthread_cond_t wake_cond;      /* for the loop */
    bool woken, ending;            /* [lock] */
    bool notifier_ends;            /* [lock] */
    bool notifier_runs, loop_runs; /* [const after open] */
    pthread_t notifier_thread, loop_thread;
};

/* Takes the operations lock; *base is the present snapshot with a reference. */
void cluster_begin(struct cluster *cluster, const struct snapshot **base);
/*
 * Commits; frees the txn. Embedded: provided that this node is still the controller.
 * Shared: -EAGAIN if a comparison failed, and the operation is to be decided again from
 * a newer snapshot; E_OUTCOME_UNKNOWN if even looking again did not tell.
 */
int cluster_commit(struct cluster *cluster, struct txn *txn,
                   const struct snapshot *base);
/*
 * Ends the operation; returns rc once subscribers have seen what it changed. After
 * -EAGAIN it returns once there is a newer snapshot, or after a short while.
 */
int cluster_end(struct cluster *cluster, const struct snapshot *base, int rc);
/* Is an operation that ended with rc to be tried again? Counts in *attempts. Turns
 * -EAGAIN into E_CONFLICT once it is enough. */
bool cluster_again(int *rc, int *attempts);

/* ---- cluster.c, cluster_notify.c ---- */

const struct snapshot *cluster_get(struct cluster *cluster); /* with a reference */
/* Makes the snapshot anew, after a change of own_epoch or session_lost. */
void cluster_republish(struct cluster *cluster);
/* Fences this node if the store says that the session is lost. Is it, or was it and
 * none was opened since? Any thread. */
bool cluster_note_session(struct cluster *cluster, const struct store_status *status);
/* [lock, released during calls] Shows queued snapshots to subscribers, in order. */
void cluster_notify(struct cluster *cluster);
int cluster_notifier_start(struct cluster *cluster);
void cluster_notifier_stop(struct cluster *cluster);
/*
 * Waits until `ready` says true of the present snapshot, which subscribers have seen by
 * then; false after timeout_ms. Not from a subscriber.
 */
bool cluster_wait(struct cluster *cluster, int64_t timeout_ms,
                  bool (*ready)(const struct snapshot *snapshot, void *arg), void *arg);
bool cluster_wait_revision(struct cluster *cluster, int64_t revision,
                           int64_t timeout_ms);

/*
 * Opens a cluster over a store that is open, and takes the store also on failure. For
 * cluster_open() and for tests with a store of their own.
 */
int cluster_open_shared(const struct cluster_params *params, struct store *store,
                        struct cluster **out, char *why, size_t why_size);

/* ---- cluster_member.c ---- */

void cluster_describe_self(const struct cluster *cluster, struct registration *out);
/*
 * Registers this process with the present session: a registration of the same data
 * directory is replaced if `replace`. 0; E_NODE_ID_TAKEN; what the store returns.
 */
int cluster_register(struct cluster *cluster, bool replace, char *why, size_t why_size);
/*
 * Opens a new session if the present one is lost; what this process registered counts
 * no longer then. 0: there is one that is not known to be lost; or what the store
 * returns. One thread at a time: the loop, or cluster_join() before it.
 */
int cluster_keep_session(struct cluster *cluster);
/* Opens a new one in any case; what was bound to the present one ends.
 * This node is fenced already. Likewise. */
int cluster_renew_session(struct cluster *cluster);
/* Ends the registration that an earlier incarnation of this node left. Likewise. */
int cluster_unseat(struct cluster *cluster, char *why, size_t why_size);
/* Becomes controller if nobody is. 0, E_CONFLICT, or what the store returns. */
int cluster_elect_self(struct cluster *cluster, const struct snapshot *base);
/* Is this process the controller, as far as the snapshot knows? */
bool cluster_is_controller(const struct snapshot *snapshot);

/* ---- cluster_entries.c ---- */

/* Puts a state; `revision`: of the one that is there, 0 if none. */
void cluster_put_state(struct txn *txn, const char *topic, int32_t partition,
                       int64_t revision, const struct partition_state *state);
/* Likewise the assignment, in two parts: who changes states alone compares it, too. */
void cluster_compare_assignment(struct txn *txn, const char *topic, int64_t revision);
void cluster_put_assignment(struct txn *txn, const char *topic,
                            const struct assignment *assignment);

/* ---- cluster_loop.c ---- */

int cluster_loop_start(struct cluster *cluster);
void cluster_loop_stop(struct cluster *cluster);
void cluster_wake(struct cluster *cluster);

/* Live brokers of a snapshot; the ids are to be freed. 0 or -ENOMEM. */
int cluster_live(const struct snapshot *snapshot, struct id_list *out);

/* E_UNKNOWN_TOPIC, with the reason. */
int cluster_unknown_topic(const char *name, char *why, size_t why_size);
/*
 * What of the settings is not a built-in default: that is what the store keeps. So the
 * mount's defaults, which may differ between nodes and from one mount to the next,
 * matter only at the time a topic is made. *out is to be deleted. 0 or -ENOMEM.
 */
int cluster_own_settings(const struct topic_config *config, cJSON **out);
/* -EPERM, with the reason, for a topic that topicfs keeps for itself; else 0. */
int cluster_refuse_internal(const char *name, const char *what, char *why,
                            size_t why_size);

/* Compares this node's registration: a node that is fenced changes nothing. */
void cluster_compare_self(struct txn *txn, const struct snapshot *base);
/* Adds to a txn what deletes a topic, and its tombstone. */
void cluster_add_deletion(struct cluster *cluster, struct txn *txn,
                          const struct snapshot_topic *topic);
/* Deletes tombstones that are older than they need to be, or too many once `more` are
 * added. */
void cluster_add_tombstone_pruning(struct cluster *cluster, struct txn *txn,
                                   const struct snapshot *base, uint32_t more);

/* Adds the outcome of an admin operation: admin/last/<operation>. */
void cluster_add_outcome(struct cluster *cluster, struct txn *txn,
                         enum admin_operation operation, const char *result,
                         const char *reason);

/* Formats a reason; `why` may be NULL. */
void cluster_explain(char *why, size_t why_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
