/*
 * Consumer groups, as this node sees them: asking and changing any group of the
 * cluster, and being a member of one. What runs behind it: the coordinator of the
 * groups whose partition of __consumer_offsets this node leads (group_coordinator.h),
 * and a client that finds the coordinator of each group and speaks to it
 * (group_client.h).
 *
 *     groups_start(&params, &groups);           // after broker_start()
 *     groups_describe(groups, "workers", true, &call);
 *     rc = group_member_join(groups, &member_params, &member);
 *     groups_interrupt(groups);                 // with broker_interrupt_waiters()
 *     groups_leave(groups);                     // before cluster_stop()
 *     groups_stop(groups);                      // when nobody calls any more
 *
 * Nothing here blocks. Callbacks run on threads of the groups, no lock held.
 */
#ifndef TOPICFS_GROUPS_H
#define TOPICFS_GROUPS_H

#include "replica/broker.h"
#include "replica/group_core.h"

struct groups;
struct group_coordinator;

struct groups_params {
    const struct mount_config *config; /* borrowed, as all of these */
    struct cluster *cluster;
    struct broker *broker;
    struct problems *problems;
    const struct clock *clock;
};

int groups_start(const struct groups_params *params, struct groups **out);
/* Of this node, for the routes that other nodes use; borrowed. */
struct group_coordinator *groups_coordinator(struct groups *groups);
/* Ends every call and every wait with E_OFFLINE, now and from now on, but members still
 * leave and commit in the background. */
void groups_interrupt(struct groups *groups);
/*
 * Sends what members have finished and that they leave, for at most two seconds, and
 * stops the coordinator: while this node still leads what they commit to. What is
 * called afterwards ends with E_OFFLINE, a call's done() then before it returns;
 * joining fails. NULL is fine.
 */
void groups_leave(struct groups *groups);
/* Frees it, after groups_leave() if that was not called. Members and calls must be
 * gone. NULL is fine. */
void groups_stop(struct groups *groups);

/* ---- asking and changing ------------------------------------------------------------
 *
 * Each ends with done(), exactly once, within GROUPS_CALL_MS: E_NO_COORDINATOR if the
 * group's coordinator can't be reached for so long. Group names are checked by
 * topic_name_check().
 */

enum { GROUPS_CALL_MS = 10000 };

struct groups_call {
    /* `answer` is borrowed until it returns; NULL with an error. `why`: the reason of a
     * refusal in words, or "". */
    void (*done)(struct groups_call *call, int error, const cJSON *answer,
                 const char *why);
    /* private: [groups->lock] */
    struct groups_call_state *state;
};

/* true: done() was not and will not be called. */
bool groups_call_cancel(struct groups *groups, struct groups_call *call);

/* ["a","b"]: names of the groups in use, sorted; those whose coordinator does not
 * answer within a second are left out. */
void groups_list(struct groups *groups, struct groups_call *call);

/*
 * As group_core_describe(), of a group that is not used too. With `ends`, each entry of
 * "offsets", and one with "offset":-1 for each further partition of a topic that has
 * members or offsets, has "log_start", "end" (high watermark, read after the offsets,
 * so never below them) and "lag" (what is still to be read); null where no leader
 * answers within a second.
 */
void groups_describe(struct groups *groups, const char *group, bool ends,
                     struct groups_call *call);

/* As group_core_set_offset(); this node is where it was written. */
void groups_set_offset(struct groups *groups, const char *group, const char *topic,
                       const struct topic_id *topic_id, int32_t partition,
                       int64_t offset, int32_t leader_epoch, struct groups_call *call);
/* Takes a copy of the object. The answer is the new config. */
void groups_configure(struct groups *groups, const char *group, const cJSON *object,
                      struct groups_call *call);
void groups_remove(struct groups *groups, const char *group, struct groups_call *call);

/* A place in a log, to be found by the partition's leader. */
enum groups_place_kind {
    GROUPS_PLACE_OFFSET,   /* value: an offset between log start and high watermark */
    GROUPS_PLACE_EARLIEST, /* the log start */
    GROUPS_PLACE_LATEST,   /* the high watermark */
    GROUPS_PLACE_TIME,     /* value: ms since 1970; the first message at or after it */
    GROUPS_PLACE_LAST,     /* value: so many messages before the high watermark */
};
/*
 * {"offset":43,"leader_epoch":5,"log_start":0,"high_watermark":99}. For an OFFSET
 * beyond the log: E_OFFSET_BELOW_START or -ERANGE.
 */
void groups_locate(struct groups *groups, const struct topic_id *topic_id,
                   int32_t partition, enum groups_place_kind kind, int64_t value,
                   struct groups_call *call);

/* ---- being a member -----------------------------------------------------------------
 *
 * One for each open stream. It joins, is given partitions, hands out their messages in
 * chunks, and commits what its user has finished:
 *
 *     rc = group_member_take(member, size, false, &bytes, &chunk);    // 1: a chunk
 *     ... the user works on it ...
 *     group_member_finish(member, &chunk, chunk.next_offset, &sync);
 *
 * A partition that is to be given up is not handed out of any more, and released once
 * everything handed out of it is finished and committed. One that was lost (the member
 * was silent for too long, or held chunks for longer than max_poll_interval_ms without
 * a touch) is dropped; a member that was removed joins again by itself at the next
 * touch.
 */

struct group_member;

struct group_member_params {
    const char *group;
    const char *topic;
    struct topic_id topic_id;
    /* Something may have changed: joined, failed, data, a partition more or less.
     * Called with no lock held; must not call back into the member. */
    void (*changed)(void *arg);
    void *arg;
};

/* Begins to join. 0, E_OFFLINE or -ENOMEM. */
int group_member_join(struct groups *groups, const struct group_member_params *params,
                      struct group_member **out);
/* Frees the member; changed() is not called any more when it returns. What was finished
 * is committed and the partitions go to others, behind this call. */
void group_member_leave(struct group_member *member);

enum group_member_state {
    GROUP_JOINING,
    GROUP_JOINED,
    GROUP_FAILED, /* for good, see error */
};
struct group_member_status {
    enum group_member_state state;
    int error; /* E_TOPIC_DELETED, E_OFFLINE; -EUSERS: the group is full */
    char id[GROUP_MEMBER_ID_MAX + 1];
    uint32_t partitions; /* that it has */
    bool manual;         /* commit=manual */
};
void group_member_status(struct group_member *member, struct group_member_status *out);

/* Its user came back for more: max_poll_interval_ms begins anew; `waiting`: and stays
 * until the next touch, so that it does not run out. */
void group_member_touch(struct group_member *member, bool waiting);
/*
 * Its user asks whether to come back, and does so once this says true, for which
 * changed() is a reason to ask again: a take would find something, or what was handed
 * out is asked for by others. It does not run out until then.
 */
bool group_member_poll(struct group_member *member);

struct group_chunk {
    int32_t partition;
    int64_t generation; /* of the grant */
    int64_t first_offset;
    int64_t next_offset; /* first_offset + count: a chunk has no gaps */
    uint32_t count;
    int32_t leader_epoch; /* of all of it */
    int64_t timestamp_ms; /* of its first batch; of all with `one_batch` */
};

/*
 * Hands out whole lines of one partition, in turn over those that it has: appended to
 * `out`, about max_bytes, but at least one line. 1; 0: there is nothing now, changed()
 * comes when that may be otherwise; E_TOPIC_DELETED, E_OFFLINE, a read error. Reads the
 * disk. Messages that retention deleted before they were read are passed over; the
 * problem is noted once.
 */
int group_member_take(struct group_member *member, size_t max_bytes, bool one_batch,
                      struct buf *out, struct group_chunk *chunk);
/* A chunk did not reach its user: it is handed out again, and what came after it of its
 * partition, too; but not what is finished. */
void group_member_take_back(struct group_member *member,
                            const struct group_chunk *chunk);

struct group_sync {
    void (*done)(struct group_sync *sync, int error);
    /* private: [member->lock] */
    struct group_sync *prev, *next;
    uint64_t await;
    bool parked;
};

/*
 * Everything of the chunk's partition below `next_offset` is done with; commit=manual:
 * done with, but not committed. 0; E_GROUP_FENCED: this grant is not the member's any
 * more. group_member_sync(): 0: all that was finished is committed (or lost to others);
 * 1: sync->done() will be called when it is, E_OFFLINE at the end.
 */
int group_member_finish(struct group_member *member, const struct group_chunk *chunk,
                        int64_t next_offset);
/* Whether the chunk's grant still is the member's. */
bool group_member_has(struct group_member *member, const struct group_chunk *chunk);
int group_member_sync(struct group_member *member, struct group_sync *sync);
/* true: done() was not and will not be called. */
bool group_member_sync_cancel(struct group_member *member, struct group_sync *sync);

/* ---- figures ------------------------------------------------------------------------
 */

/* Lines for /metrics, of the groups that this node coordinates: members, generation,
 * and per topic and partition committed offset and lag. From memory, at most about a
 * second old while somebody asks. */
int groups_metrics(struct groups *groups, struct buf *out);

#endif
