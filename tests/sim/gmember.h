/*
 * A simulated member, as a node runs it for an open stream: joins, beats, hands out
 * messages in chunks to a user who takes a while, commits what the user has finished,
 * releases what it is asked to give up once that is committed, and drops what it lost:
 * what an answer does not name, and everything after a silence of the session time-out
 * or once its node's own session with the store is over.
 */
#ifndef TOPICFS_SIM_GMEMBER_H
#define TOPICFS_SIM_GMEMBER_H

#include "tests/sim/gworld.h"

enum gmember_state {
    GMEMBER_GONE,
    GMEMBER_JOINING,
    GMEMBER_JOINED,
    GMEMBER_LEAVING, /* commits what is finished, for a while, then says so */
};

struct gholding {
    bool has;
    int64_t generation;
    bool give_up;
    bool releasing;   /* nothing is handed out, and the next beat says so */
    int64_t position; /* handed out up to here */
    int64_t finished;
    int64_t acked; /* committed */
};

struct gasked { /* a request that is on its way; one of each kind */
    bool out;
    uint32_t number;
    int64_t sent_ms;
    int64_t until_ms;
};

struct gmember {
    struct gworld *world;
    int32_t slot;
    uint32_t life;
    enum gmember_state state;
    bool hasty; /* releases at once, with commits on their way: they must be refused */
    int32_t node;
    int32_t topic;
    char id[GROUP_MEMBER_ID_MAX + 1];
    bool logged;   /* the log knew of it */
    bool outlived; /* what it reads was reset after the log had removed it */
    struct broker_incarnation incarnation; /* that it joined with */
    uint32_t next_id;
    uint32_t next_number;
    int64_t stop_ms;    /* a leaving one waits so long for its commits */
    int64_t backoff_ms; /* asks nothing before that */
    struct gasked beat; /* or join, or leave */
    struct gasked commit;
    struct group_commit commits[GPARTITIONS_MAX]; /* that are on their way */
    uint64_t seen;
    int64_t heard_ms; /* its last request that was answered was sent then */
    int32_t heard_epoch;
    struct gholding holdings[GPARTITIONS_MAX];
    int32_t hand; /* the partition whose chunk the user has; -1: none */
    int64_t hand_generation;
    int64_t hand_end;
    int64_t hand_until_ms;
    int32_t turn;
};

struct gmember *gmember_new(struct gworld *world, int32_t slot);
void gmember_free(struct gmember *member);
void gmember_reset(struct gmember *member);

void gmember_open(struct gmember *member, int32_t node, int32_t topic);
void gmember_close(struct gmember *member); /* the user is done, or was killed */
void gmember_kill(struct gmember *member);  /* its node is gone */
void gmember_step(struct gmember *member);
void gmember_answered(struct gmember *member, const struct ganswer *answer);

#endif
