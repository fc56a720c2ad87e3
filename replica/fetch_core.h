/*
 * A leader's decisions about fetches: which it refuses, where a follower's log
 * diverges, what a fetch acknowledges, what it may be given.
 *
 *     fetch_take(&core, &epochs, log_start, &request, now_ms, &answer);
 *     core_advance(&core);
 *     if (answer.kind == FETCH_DATA && fetch_may_wait(&core, &request, &answer)) park
 * it;
 *     ... later: fetch_again(&core, log_start, &request, &answer);
 *
 * Pure; the owner of the core calls.
 */
#ifndef TOPICFS_FETCH_CORE_H
#define TOPICFS_FETCH_CORE_H

#include "replica/partition_core.h"

/* As what is acknowledged: the node is no replica, it makes a copy for its readers, and
 * the request counts for nothing. */
enum { FETCH_OBSERVES = -1 };

struct fetch_request {
    int32_t follower;
    int64_t broker_epoch;        /* of the follower's registration */
    int32_t leader_epoch;        /* in which it follows */
    uint64_t sequence;           /* rises with each request of this follower */
    int64_t fetch_offset;        /* its log end: what comes next */
    int64_t acknowledged_offset; /* what it has on disk, at most fetch_offset */
    int32_t last_epoch;          /* of its last batch; -1: nothing is known */
    int64_t high_watermark;      /* that it knows */
    int64_t log_start;           /* of its log */
    bool patient;                /* nobody there waits for the high watermark to rise */
    int64_t flush_to;            /* what it knows that it is to flush */
};

enum fetch_kind {
    FETCH_ERROR,
    FETCH_DIVERGING, /* cut your log by (epoch, end) and ask again */
    FETCH_RESTART,   /* drop your log and begin at log_start */
    FETCH_DATA,      /* batches from fetch_offset up to log_end */
};

struct fetch_answer {
    enum fetch_kind kind;
    int error; /* E_NOT_LEADER, E_FENCED_EPOCH, E_UNKNOWN_EPOCH, E_STALE_BROKER_EPOCH,
                  E_CONFLICT: a newer request of this follower came */
    int32_t leader_epoch;
    uint64_t sequence; /* of the request */
    struct epoch_end diverging;
    int64_t log_start;
    int32_t start_epoch; /* of what was before log_start; -1: nothing was, or unknown */
    int64_t log_end;
    int64_t high_watermark;
    int64_t flush_to; /* have this on disk, and say so */
};

/* Judges the request, counts what it acknowledges, and answers it. */
void fetch_take(struct partition_core *core, const struct epoch_list *epochs,
                int64_t log_start, const struct fetch_request *request, int64_t now_ms,
                struct fetch_answer *answer);

/* Has the answer nothing that the follower does not know? Then it may wait for some. */
bool fetch_may_wait(const struct fetch_request *request,
                    const struct fetch_answer *answer);

/* Or nothing but a higher watermark? A patient follower may be let wait a little, if
 * more is about to come: it then hears of both at once. */
bool fetch_may_hold(const struct fetch_request *request,
                    const struct fetch_answer *answer);

/* Is the older request of no use any more, now that the same node sent the newer one?
 * For a replica its sequence says so, too; an observer's is kept nowhere. */
bool fetch_replaces(const struct fetch_request *newer,
                    const struct fetch_request *older);

/*
 * What is given of the batch that holds the offset from which on is asked, which need
 * not begin it: a follower that had its messages from a compacted log may end at any of
 * them. false: all of it; true: `batch` is its rest, from that offset on; all but
 * length, position and hash.
 */
bool fetch_rest(int64_t fetch_offset, struct batch *batch);

/* The answer to a request that waited, by what is true now. It counts nothing. */
void fetch_again(struct partition_core *core, const struct epoch_list *epochs,
                 int64_t log_start, const struct fetch_request *request,
                 struct fetch_answer *answer);

#endif
