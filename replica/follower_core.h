/*
 * A follower's decisions: what to ask, what of an answer to believe, where to cut.
 *
 *     if (follower_request(&core, &epochs, log_start, &request)) send it;
 *     switch (follower_take(&core, &epochs, log_start, &answer, &step).action) ...
 *
 * There is no truncation by a rule of the follower's own: the leader finds in each
 * fetch whether the logs diverge, and the follower cuts there, asks again, and is
 * believed only once it is a prefix of the leader's log.
 *
 * Pure; the owner of the core calls.
 */
#ifndef TOPICFS_FOLLOWER_CORE_H
#define TOPICFS_FOLLOWER_CORE_H

#include "replica/fetch_core.h"
#include "replica/log.h"

enum follower_action {
    FOLLOW_IGNORE,  /* not the answer to the newest request */
    FOLLOW_RETRY,   /* refused: ask again after a pause, or wait for a new leadership */
    FOLLOW_APPEND,  /* append each batch that follower_fits(), then follower_heard() */
    FOLLOW_CUT,     /* cut the log at `offset`, core_cut(), ask again */
    FOLLOW_RESTART, /* drop the log, begin anew at `offset`, core_reset(), ask again;
                       `epoch` is what the leader had before it: it is kept with the
                       log, as its first entry of epochs (epochs_begin) */
    FOLLOW_REFUSE,  /* it would cost committed messages: take the replica offline */
};

struct follower_step {
    enum follower_action action;
    int64_t offset;
    int32_t epoch; /* -1: none */
};

/* The next request; false: this node does not follow. The core's own broker epoch goes
 * into it. An earlier request's answer is ignored from now on. */
bool follower_request(struct partition_core *core, const struct epoch_list *epochs,
                      int64_t log_start, struct fetch_request *out);

/* What to do with an answer. */
struct follower_step follower_take(const struct partition_core *core,
                                   const struct epoch_list *epochs, int64_t log_start,
                                   const struct fetch_answer *answer);

/* May this batch be appended now? It continues the log, and epochs only rise. */
bool follower_fits(const struct partition_core *core, const struct epoch_list *epochs,
                   const struct batch *batch);

/* The batches of an answer were appended: takes note of the leader's high watermark,
 * and of what it wants to have on disk. core_advance() then moves this replica's, also
 * after a later flush; core_must_flush() tells whether there is something to flush. */
void follower_heard(struct partition_core *core, const struct fetch_answer *answer);

/* The leader of that epoch said, in its answer to a write of this node, that everything
 * below end_offset is committed. Counts where an answer to a fetch was taken in that
 * epoch: since then this log is a part of the leader's. */
void follower_told(struct partition_core *core, int32_t leader_epoch,
                   int64_t end_offset);

#endif
