/*
 * What a member of a consumer group decides: which of its partitions it may hand
 * messages out of, what of them is in its user's hands, what is finished and to be
 * committed, what it can give up. Pure: no I/O, no clock, no threads;
 * group_member.c runs it.
 *
 *     core = member_core_new();
 *     member_core_granted(core, &beat, sent_ms, now_ms);       // a beat was answered
 *     member_core_begin(core, partition, generation, offset, epoch, now_ms);
 *     member_core_data(core, partition, generation, true, now_ms);
 *     i = member_core_pick(core, now_ms);                      // hand out of this one
 *     member_core_hand(core, partition, generation, first, next, now_ms);
 *     member_core_finish(core, partition, generation, next, epoch, now_ms);
 *     n = member_core_commits(core, commits);                  // send them
 *     member_core_committed(core, commits, refused, n);
 *     n = member_core_releases(core, released);                // for the next beat
 *
 * Stages of a partition:
 *
 *     NEW       granted; where it begins is to be found
 *     STARTING  it begins where nothing was committed yet: that place is committed
 *               first, because a later `latest` would be another one
 *     OPEN      its messages are handed out
 *     RELEASED  given up, or lost by a refused commit, until the coordinator says that
 *               it is not the member's
 *
 * It is told to the coordinator as released once it is to be given up, nothing is in
 * hand, and everything finished is committed.
 *
 * Two limits of time. The fence: nothing is handed out once the session time-out has
 * passed since the *sending* of the last beat that was answered; the coordinator counts
 * from later on, so it gives the partitions to others only after that. And the poll:
 * a member whose user doesn't come back for max_poll_interval_ms while it has
 * something in hand, or could have, must leave the group. Whoever waits in poll(2) for
 * there to be something has come back.
 *
 * One owner. All times are monotonic milliseconds.
 */
#ifndef TOPICFS_MEMBER_CORE_H
#define TOPICFS_MEMBER_CORE_H

#include "replica/group_wire.h"

struct member_core;

enum member_stage { MEMBER_NEW, MEMBER_STARTING, MEMBER_OPEN, MEMBER_RELEASED };

struct member_part {
    int32_t partition;
    int64_t generation; /* of its grant */
    enum member_stage stage;
    bool give_up;
    bool data;         /* there is something beyond `next` */
    int64_t committed; /* as the coordinator has it; -1: nothing */
    int32_t committed_epoch;
    int64_t next;     /* to be handed out */
    int64_t handed;   /* end of what was handed out */
    int64_t finished; /* below that it is done with; < handed: something is in hand */
    int32_t finished_epoch;
    int64_t sending; /* in the commit that is under way; -1: none */
};

struct member_core *member_core_new(void);       /* NULL: no memory */
void member_core_free(struct member_core *core); /* accepts NULL */
/* It has nothing any more: it left, was removed, or joins under another name. */
void member_core_reset(struct member_core *core);

/*
 * A beat, sent at sent_ms, was answered. Partitions that are not in the answer, or with
 * another generation, are lost; new ones begin as NEW. 0; 1: likewise, and the user
 * looked for messages when nothing might be handed out, and is to look again; -ENOMEM:
 * nothing was taken. Answers must be given in the order of their beats.
 */
int member_core_granted(struct member_core *core, const struct group_wire_beat *beat,
                        int64_t sent_ms, int64_t now_ms);

/* Sorted by partition. */
size_t member_core_count(const struct member_core *core);
const struct member_part *member_core_part(const struct member_core *core, size_t i);
/* NULL: that grant is not the member's. */
const struct member_part *member_core_find(const struct member_core *core,
                                           int32_t partition, int64_t generation);
/* Settings of the group, of the last answered beat. */
const struct group_config *member_core_config(const struct member_core *core);

/* NEW: where it begins; `epoch`: of the message before, -1: not known. */
void member_core_begin(struct member_core *core, int32_t partition, int64_t generation,
                       int64_t offset, int32_t epoch, int64_t now_ms);
/* OPEN: what comes next is at `offset`: messages were deleted before they were read, or
 * the log ends before that; `epoch`: in which that is so, -1: not known. */
void member_core_move(struct member_core *core, int32_t partition, int64_t generation,
                      int64_t offset, int32_t epoch, int64_t now_ms);
/* Whether there is something to be handed out. */
void member_core_data(struct member_core *core, int32_t partition, int64_t generation,
                      bool data, int64_t now_ms);
/* One that can't be the member's any more: RELEASED, so that it does not begin anew if
 * an answer that was on its way names it still. */
void member_core_lose(struct member_core *core, int32_t partition, int64_t generation);

/* ---- handing out --------------------------------------------------------------------
 */

/* Inside both limits of time. */
bool member_core_may_hand(const struct member_core *core, int64_t now_ms);
/* The index of the partition whose turn it is, among those that have data; -1: none. */
int member_core_pick(struct member_core *core, int64_t now_ms);
/*
 * The user asks whether to come back, and does so once this says true: there is one, or
 * it has something in hand that is to be given up. Until then it need not come back on
 * account of what it has in hand.
 */
bool member_core_poll(struct member_core *core, int64_t now_ms);
/* Messages [first, next) were read; 0: they may be handed out, and count as such.
 * E_GROUP_FENCED: not any more, or something was handed out of it meanwhile. */
int member_core_hand(struct member_core *core, int32_t partition, int64_t generation,
                     int64_t first, int64_t next, int64_t now_ms);
/* What was handed out from `*offset` on did not reach the user: it is handed out again,
 * but for what is finished. *offset: from where on. false: nothing to be done. */
bool member_core_take_back(struct member_core *core, int32_t partition,
                           int64_t generation, int64_t *offset, int64_t now_ms);
/* 0 or E_GROUP_FENCED. Never goes back. */
int member_core_finish(struct member_core *core, int32_t partition, int64_t generation,
                       int64_t next, int32_t epoch, int64_t now_ms);

/* ---- committing and giving up -------------------------------------------------------
 */

/* Whether member_core_commits() would find something. */
bool member_core_is_dirty(const struct member_core *core);
/* What is to be committed, into room for member_core_count() of them; they are under
 * way then, and nothing else is until member_core_committed(). */
size_t member_core_commits(struct member_core *core, struct group_commit *out);
/* The coordinator answered; what it refused is lost. true: there are partitions that
 * may be handed out of from now on, and the user is to look again. */
bool member_core_committed(struct member_core *core, const struct group_commit *commits,
                           const bool *refused, size_t count);
/* It did not, and won't: what was under way is to be committed again. */
void member_core_uncommitted(struct member_core *core);
/* A mark for member_core_synced(): whether all that was finished before it is committed
 * or lost. */
uint64_t member_core_mark(const struct member_core *core);
bool member_core_synced(const struct member_core *core, uint64_t mark);

/* What the next beat is to name, into room for member_core_count(): what is given up
 * now, and what was before and is still in the answers. */
size_t member_core_releases(struct member_core *core, struct group_released *out);
/* Whether that has something that no beat named yet. */
bool member_core_has_releases(const struct member_core *core);

/* ---- the user -----------------------------------------------------------------------
 */

/* The user came back; `waiting`: and stays until something is handed out, or until the
 * next touch. */
void member_core_touch(struct member_core *core, bool waiting, int64_t now_ms);
/* It does so, or for what it polls for. */
bool member_core_is_waiting(const struct member_core *core);
/* max_poll_interval_ms is over. */
bool member_core_poll_expired(const struct member_core *core, int64_t now_ms);
/* When that may be, at the earliest; INT64_MAX: never, as things are. */
int64_t member_core_poll_ms(const struct member_core *core);

#endif
