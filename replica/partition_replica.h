/*
 * A partition among its replicas: what a leader answers to fetches, what a follower
 * does with the answers, what comes in from nodes that forward. The decisions are those
 * of fetch_core.h, follower_core.h and produce_core.h; here they meet log, locks and
 * waiters.
 *
 * Leader, for each partition of a request:
 *     partition_fetch(partition, &request, &answer, &hold);
 *     if (hold || fetch_may_wait(&request, &answer))
 *         partition_fetch_park(partition, &waiter);
 *     ...
 *     partition_fetch_again(partition, &request, &answer);
 *     partition_fetch_choose(partition, &answer, request.fetch_offset, n, &batches);
 *     partition_fetch_read(partition, &batches, bytes);
 *
 * Follower:
 *     if (partition_follow_request(partition, &request, &leader)) send it to `leader`;
 *     partition_follow_take(partition, &item);
 *
 * Nothing here waits for another node or a flush. Any thread, no lock held; but
 * partition_follow_take() of one partition one at a time.
 */
#ifndef TOPICFS_PARTITION_REPLICA_H
#define TOPICFS_PARTITION_REPLICA_H

#include "replica/fetch_core.h"
#include "replica/isr.h"
#include "replica/partition.h"
#include "replica/peer_wire.h"

/* ---- leader -------------------------------------------------------------------------
 */

/* How long at most a patient follower is kept without a higher watermark, where more is
 * about to be appended: hearing of both at once spares it, and its leader, every second
 * request. */
enum { FETCH_HOLD_MS = 2 };

/* Judges the request, counts what it acknowledges, and answers it. *hold: if there is
 * nothing for it but at most a higher watermark, it is to wait, for FETCH_HOLD_MS. */
void partition_fetch(struct partition *partition, const struct fetch_request *request,
                     struct fetch_answer *answer, bool *hold);

struct fetch_waiter {
    /* There is something new for the follower, or this node leads no more, or a newer
     * request of the same node came. Runs once, on the thread that made the news. */
    void (*news)(struct fetch_waiter *waiter);
    struct fetch_request request;
    bool hold; /* a higher watermark alone is no news; who parks it sees to the end */
    /* private: [partition->lock] */
    bool parked;
    struct fetch_waiter *prev, *next;
};

/* true: parked, news() will be called once. false: there is news already, or a newer
 * request of the same node. */
bool partition_fetch_park(struct partition *partition, struct fetch_waiter *waiter);
/* true: news() was not and will not be called. */
bool partition_fetch_cancel(struct partition *partition, struct fetch_waiter *waiter);

/* The answer by what is true now; counts nothing. */
void partition_fetch_again(struct partition *partition,
                           const struct fetch_request *request,
                           struct fetch_answer *answer);

/* What of the log answers a fetch: whole batches, at least one if there is any; of the
 * first one the rest (fetch_rest) where the fetch begins inside of it. */
struct fetch_batches {
    int64_t base_offset; /* that the entries count from */
    uint32_t count;
    struct buf entries; /* freed by the caller */
    size_t length;      /* of their bytes */
    int64_t position;   /* where these begin */
    uint64_t rewrites;
};

/* Chooses batches from `offset` on, below answer->log_end, of up to max_bytes; at least
 * one if there is any and max_bytes > 0. 0 or an error of the log. */
int partition_fetch_choose(struct partition *partition,
                           const struct fetch_answer *answer, int64_t offset,
                           size_t max_bytes, struct fetch_batches *out);
/* Reads the bytes of the chosen batches, as they stand, flushed or not. */
int partition_fetch_read(struct partition *partition,
                         const struct fetch_batches *batches, uint8_t *out);

/*
 * Appends a batch that another node forwards, unless it is a duplicate, and waits for
 * its acks. Results as partition_produce(); an E_NOT_LEADER after it was appended means
 * that the next leader knows its fate.
 */
int partition_produce_remote(struct partition *partition,
                             const struct peer_produce *produce,
                             struct produce_waiter *waiter,
                             struct produce_result *result);

/* Waits for a node that is not the leader, as partition_sync(), but ends with this
 * node's leadership: E_NOT_LEADER. */
int partition_sync_remote(struct partition *partition, const struct peer_sync *sync,
                          struct produce_waiter *waiter, struct produce_result *result);
/* How far everything is durable; -1: this node does not know. */
int64_t partition_durable_end(struct partition *partition);

/* The in-sync replicas: as isr.h. */
bool partition_isr_propose(struct partition *partition, struct isr_proposal *out);
void partition_isr_outcome(struct partition *partition,
                           const struct isr_proposal *proposal, enum isr_result result,
                           int64_t revision);

/* The store was read after the last outcome. */
void partition_isr_reread(struct partition *partition);

/*
 * What an unclean election gave up, as far as this replica knows: a leader where its
 * own log ended, a follower what it showed beyond that and cut. true: *out is to be put
 * on record (cluster_record_loss), and partition_loss_recorded() called then.
 */
bool partition_loss_get(struct partition *partition, struct partition_loss *out);
void partition_loss_recorded(struct partition *partition,
                             const struct partition_loss *recorded);

/* How much may be missing, by how the last process ended. */
enum partition_doubt {
    DOUBT_NONE,      /* it was open already */
    DOUBT_CUT,       /* only what opening it had to cut away */
    DOUBT_UNFLUSHED, /* the machine crashed: what counts before it is flushed */
    DOUBT_ALL,       /* nothing tells what was here */
};
/* May this replica lack what it once acknowledged, so that others must know? It can't
 * be used (damaged, its disk failed, or it diverged), or by that doubt. *out: all but
 * the id. */
bool partition_suspect(struct partition *partition, enum partition_doubt doubt,
                       struct suspect *out);

/* Whether the session's deadline has passed without a word from the store. That it is
 * lost, snapshots say. */
void partition_set_silent(struct partition *partition, bool silent);
/* Now and then: lets readers go on that have waited long enough after a start. */
void partition_end_start(struct partition *partition);

/* ---- follower -----------------------------------------------------------------------
 */

struct follow_state {
    bool follows;
    bool flushing; /* what it acknowledges next is on its way to the disk */
    int32_t leader;
    int32_t leader_epoch;
    int64_t synced_to; /* on disk, of what the leader asked for: it waits to hear */
};
/* `flushing` ends with a call of the observer. */
void partition_follow_state(struct partition *partition, struct follow_state *out);

/* The next request, and to whom. false: this node does not follow, or what it holds is
 * still on its way to the disk: the observer is told when that is done. */
bool partition_follow_request(struct partition *partition, struct fetch_request *out,
                              int32_t *leader);

/* ---- syncs that the leader, another node, is asked for ------------------------------
 */

struct sync_ask {
    int64_t end_offset;
    int32_t leader;
    int32_t leader_epoch;
};

enum sync_state {
    SYNC_NONE, /* nobody waits for another node */
    SYNC_WAIT, /* no leader is known: the observer is told when there is one */
    SYNC_SEND,
};

/* Is there a waiter that the leader, another node or none, is to be asked for? */
bool partition_sync_pending(struct partition *partition);
/* The next thing to ask. */
enum sync_state partition_sync_next(struct partition *partition, struct sync_ask *out);
/* Does another leadership hold than the one that was asked? */
bool partition_sync_moved(struct partition *partition, const struct sync_ask *ask);
/* The leader says that everything below `durable_end` is durable. */
void partition_sync_settle(struct partition *partition, int64_t durable_end);

/* ---- what a follower does with an answer --------------------------------------------
 */

enum follow_outcome {
    FOLLOWED,     /* ask again */
    FOLLOW_PAUSE, /* refused, or not to be had just now: ask again after a pause */
    FOLLOW_STOP,  /* this replica can't follow any more; `problems` says why */
};

/* Does what the answer asks for: appends its batches, cuts, begins anew. */
enum follow_outcome partition_follow_take(struct partition *partition,
                                          const struct peer_fetched_item *item);

#endif
