/*
 * Inside of the broker, for broker*.c only.
 *
 * Locks, in the order in which they may be taken:
 *   change_lock  one change of the cluster's snapshot at a time; held while logs are
 *                opened and removed. Guards `snapshot`.
 *   table_lock   short; guards the table of partitions and the list of dead ones.
 * No lock of a partition is held when these are taken, but for an append_lock when the
 * checkpoint is written: checkpoint_lock, then table_lock, and with neither of them
 * held an append_lock is waited for.
 */
#ifndef TOPICFS_BROKER_INTERNAL_H
#define TOPICFS_BROKER_INTERNAL_H

#include "replica/broker.h"
#include "replica/checkpoint.h"
#include "replica/cleaner.h"
#include "replica/datadir.h"
#include "replica/file_cache.h"
#include "replica/partition_internal.h"
#include "replica/replication.h"
#include "replica/scrubber.h"

#include <pthread.h>
#include <uthash.h>

enum { BROKER_OPENERS = 4 };

struct partition_key {
    struct topic_id topic_id;
    int32_t index;
};

struct table_entry {
    struct partition_key key;
    struct partition *partition; /* one reference; NULL while it is not open */
    bool opening;                /* an opener is at it; else NULL: it failed */
    bool copy;                   /* it failed: of a partition that other nodes keep */
    int error;                   /* it failed: why */
    int64_t retry_ms;            /* it failed: when to try again (monotonic) */
    int64_t delay_ms;            /* it failed: after how long that is */
    UT_hash_handle hh;
};

void partition_key_init(struct partition_key *key, const struct topic_id *id,
                        int32_t index);

struct rubbish {
    struct rubbish *next;
    char *dir; /* owned */
};

struct broker {
    struct broker_params params;     /* [const] */
    struct file_cache *files;        /* [const] */
    struct flusher *flusher;         /* [const] */
    struct cleaner *cleaner;         /* [const] */
    struct scrubber *scrubber;       /* [const] */
    struct replication *replication; /* [const] NULL: this node is the cluster */
    _Atomic int64_t outbox_bytes;    /* of writes that wait to be sent */
    struct checkpoint recovered;     /* [const] what the last process left */
    bool checkpoint_lost;            /* [const] or damaged, or never written */
    int32_t self;                    /* [change_lock; const once a partition exists] */
    pthread_mutex_t checkpoint_lock; /* held while the checkpoint is written; may be
                                      * taken under a partition's append_lock */
    uint64_t checkpoint_hash;        /* [checkpoint_lock] */
    bool marked; /* [checkpoint_lock] the marker says how this process would end by a
                  * crash */
    atomic_bool told; /* which replicas here may lack messages, the store knows */

    pthread_mutex_t change_lock;
    const struct cluster_snapshot *snapshot; /* [change_lock] the last one applied */

    pthread_mutex_t table_lock;
    struct table_entry *table;  /* [table_lock] */
    struct partition *dead;     /* [table_lock] nobody uses them; by next_dead */
    struct rubbish *rubbish;    /* [table_lock] directories to be removed */
    _Atomic uint64_t unclean;   /* what handles begin with that are opened from now on;
                                 * written with [change_lock] */
    bool interrupted;           /* [table_lock] new partitions are interrupted too */
    atomic_uint opening;        /* entries that are opened for the first time; changes
                                 * under [table_lock] */
    struct open_job *open_jobs; /* [table_lock] not yet begun */
    struct open_waiter *open_waiters; /* [table_lock] */
    _Atomic int64_t applied_revision; /* of the cluster's snapshots, the last applied */
    pthread_cond_t opened;            /* [table_lock] `opening` fell */
    pthread_t openers[BROKER_OPENERS]; /* [start and stop] */
    unsigned opener_count;             /* [start and stop] */
    pthread_t retrier;                 /* [maintenance thread; stop] */
    bool has_retrier;                  /* [maintenance thread; stop] to be joined */
    bool retrying;                     /* [table_lock] the retrier takes jobs */
    size_t give_way_turn;              /* [the keeper's thread] whose turn it is */

    pthread_t maintenance; /* [const] */
    pthread_mutex_t maintenance_lock;
    pthread_cond_t maintenance_wake;
    int64_t tick_ms; /* [maintenance_lock] */
    bool stopping;   /* [maintenance_lock] */
};

/* References to all open partitions, in no order; the caller unrefs each
 * and frees the list, which is NULL where there are none. 0 or -ENOMEM. */
int broker_partitions(struct broker *broker, struct partition ***out, size_t *count);

/* Likewise of those in observers/, which are not in the other list. */
int broker_copies(struct broker *broker, struct partition ***out, size_t *count);

/* As broker_partition(); at the same moment, whether it is being opened. */
struct partition *broker_look_up(struct broker *broker, const struct topic_id *topic_id,
                                 int32_t index, bool *opening);
/* Ends the waits in a partition, but not of those that topicfs keeps for itself. */
void broker_interrupt_one(struct partition *partition);
/* Replicas of this node that are not open. */
size_t broker_unopened_count(struct broker *broker);

/* [table_lock] NULL if there is none. */
struct table_entry *broker_find_entry(struct broker *broker,
                                      const struct partition_key *key);

/* broker_open.c: opening after a crash. */
int broker_open_later(struct broker *broker, const struct cluster_snapshot *snapshot,
                      const struct topic *topic, int32_t index);
/* [table_lock] The same for a partition whose opening failed, and has an entry. */
int broker_open_again(struct broker *broker, const struct cluster_snapshot *snapshot,
                      struct table_entry *entry);
int broker_openers_start(struct broker *broker);
void broker_openers_stop(struct broker *broker);
/* [change_lock; table_lock, not held meanwhile] Opens one that nobody is at yet: who
 * opens others may wait for the change_lock. false: somebody is at it. */
bool broker_open_now(struct broker *broker, const struct partition_key *key);
/* Does the jobs until there is none; *running is false then. */
void broker_open_jobs(struct broker *broker, bool *running);
void broker_release_open_waiters(struct broker *broker);
/* Those of one partition. */
void broker_release_waiters_of(struct broker *broker, const struct partition_key *key);

/* Opens one partition: the replica of this node, or where it has none, the copy. On an
 * error, which is in problems then, *out is NULL. Any thread. */
int broker_open_partition(struct broker *broker,
                          const struct cluster_snapshot *snapshot,
                          const struct topic *topic, int32_t index,
                          struct partition **out);

/* broker_retry.c: logs that could not be opened are tried again. */
/* [table_lock] One failed just now. */
void broker_retry_later(const struct broker *broker, struct table_entry *entry,
                        bool copy, int error);
/* Sets those going that are due. [maintenance thread] */
void broker_retry_due(struct broker *broker);
void broker_retry_stop(struct broker *broker);
/* Of what can't be opened, others are to lead; and what is bad is fetched anew.
 * [the keeper's thread] Blocks on the store. */
void broker_give_way(struct broker *broker);

/* broker_remote.c: partitions that other nodes keep, and the copies of them, which live
 * in <data>/observers and never survive a process. */
int broker_remotes_clear(struct broker *broker);
char *broker_remote_dir(const struct broker *broker, const char *topic, int32_t index);
/* The directory of a copy that became a replica: its name is free at once, the
 * maintenance thread removes it. */
void broker_discard_copy(struct broker *broker, struct partition *partition,
                         const char *dir);
/* What partitions tell of; `arg` is the broker. */
void broker_notice(void *arg, struct partition *partition, enum partition_news news);
/* Gives up the copies that nobody uses. */
void broker_remotes_tend(struct broker *broker);

/* broker_apply.c: brings the partitions in line with a snapshot. */
void broker_apply(void *broker, const struct cluster_snapshot *snapshot);
/* One partition. [change_lock] */
void broker_apply_partition(struct broker *broker,
                            const struct cluster_snapshot *snapshot,
                            const struct topic *topic, int32_t index);
bool broker_is_here(const struct broker *broker, const struct topic *topic,
                    int32_t index);

/*
 * broker_carry.c: where the store is shared and the data directory has an embedded one,
 * brings its topics along and moves it to <data>/carried. Before anything is sorted out
 * or opened. 0, also where there is nothing to do; `why` gets the reason of a failure.
 */
int broker_carry_over(struct broker *broker, char *why, size_t why_size);

/* broker_strays.c */
/* Adopts, or sets aside, partition directories that the store does not know. */
int broker_sort_out_strays(struct broker *broker);
/* Whose log a directory is, by the first index that says so; -ENOENT if none does. */
int broker_dir_topic_id(const char *dir, struct topic_id *id);
/* Moves a log to <data>/<to>/<name>, or a free name like it; the caller frees *moved.
 */
int broker_move_dir(const struct broker *broker, const char *dir, const char *to,
                    const char *name, char **moved);
/* Moves a log that can't be served to stray/ and names it in problems. */
void broker_set_aside(struct broker *broker, const char *dir, const char *why);

/* broker_repair.c: replicas that can't be used. */
/* Does what is to be done for it now. [the keeper's thread] Blocks on the store. */
void broker_repair(struct broker *broker, struct partition *partition);
/* Moves what can't be opened to replaced/, for what is fetched anew. */
int broker_replace_dir(struct broker *broker, const struct topic *topic, int32_t index);
/* What earlier processes left: that it is due; what it was before it was begun anew. */
bool broker_is_noted_unusable(const struct broker *broker,
                              const struct topic_id *topic_id, int32_t index);
bool broker_has_replaced(const struct broker *broker, const struct topic_id *topic_id,
                         int32_t index);
/* Removes what was replaced of topics that are deleted. */
void broker_repairs_clear(struct broker *broker);

/* broker_maintenance.c: the thread for what is due by time. */
int broker_maintenance_start(struct broker *broker);
void broker_maintenance_stop(struct broker *broker);
int broker_checkpoint(struct broker *broker);
void broker_bury(struct broker *broker);

#endif
