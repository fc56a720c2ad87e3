/*
 * Inside of the groups, for groups*.c, group_member*.c and group_held.c only.
 *
 * One thread, the groups', owns the client, the locator, the calls and the members'
 * relations with their coordinators. Locks, in the order in which they may be taken:
 *   member->take_lock   one take at a time; held while the disk is read
 *   member->lock        what a member has; short
 *   groups->lock        short, innermost
 * Callbacks to users run with none of them.
 */
#ifndef TOPICFS_GROUPS_INTERNAL_H
#define TOPICFS_GROUPS_INTERNAL_H

#include "replica/group_chunk.h"
#include "replica/group_client.h"
#include "replica/group_locator.h"
#include "replica/groups.h"
#include "replica/member_core.h"

#include <pthread.h>

struct groups_survey;

struct groups {
    struct groups_params params;           /* [const] */
    struct group_coordinator *coordinator; /* [start and stop] */
    struct group_client *client;           /* [thread] */
    struct group_locator *locator;         /* [thread] */
    struct groups_survey *survey;          /* [const] */
    pthread_t thread;                      /* [start and stop] */
    bool running;                          /* [start and stop] */
    struct groups_call_state *calls;       /* [thread] */
    struct group_member *members;          /* [thread] */
    struct farewell *farewells;            /* [thread] under way */
    int64_t seen_revision;                 /* [thread] of the cluster, by the members */
    int64_t seen_epoch;                    /* [thread] likewise */
    bool seen_interrupted;                 /* [thread] likewise */
    int64_t notes_ms;                      /* [thread] when to look at notes again */
    int64_t members_ms;                    /* [thread] no member is due before */

    pthread_mutex_t lock;
    struct groups_call_state *new_calls; /* [lock] */
    struct group_member *new_members;    /* [lock] */
    struct group_member *woken;          /* [lock] */
    struct groups_note *notes;           /* [lock] */
    uint64_t member_count;               /* [lock] ids that were given */
    bool interrupted;                    /* [lock] */
    bool stopping;                       /* [lock] */
    bool closed;                         /* [lock] the thread is gone, or will be */
};

int64_t groups_now(const struct groups *groups);
bool groups_is_interrupted(struct groups *groups);
/* The session of this node is over, by its own clock: the others may know by now, and
 * read what its members had. Any lock may be held. */
bool groups_is_silent(struct groups *groups);

/* groups_notes.c: something about a partition of a group that somebody should know; it
 * stands in problems for an hour. Any thread. */
void groups_note(struct groups *groups, const struct group_member *member,
                 int32_t partition, const char *what, const char *what_to_do);
void groups_notes_tend(struct groups *groups, bool all);

/* groups_call.c [thread] */
void groups_calls_step(struct groups *groups);
void groups_calls_end(struct groups *groups, int error);

/* groups_metrics.c */
int groups_survey_new(struct groups *groups);
int64_t groups_survey_step(struct groups *groups); /* [thread] */
void groups_survey_close(struct groups *groups);   /* [thread, or when it is over] */
void groups_survey_free(struct groups *groups);

/* ---- members ------------------------------------------------------------------------
 */

enum held_state {
    HELD_OPENING,  /* the partition is to be opened here, or copied to here */
    HELD_LOCATING, /* the leader is asked where to begin */
    HELD_PLACING,  /* the offset is to be found in the log, or is not there yet */
    HELD_READY,
};

/* A granted partition, as it is read. All [member->lock], but what is marked. */
struct held {
    struct group_member *member; /* one reference */
    int references;
    bool gone; /* it is not in member->held any more */
    int32_t partition;
    int64_t generation;
    struct partition *handle; /* NULL until it is open; held by partition_hold() */
    enum held_state state;
    struct open_waiter opener;
    bool opening; /* opener is parked, or its callback runs */
    struct read_waiter reader;
    bool reading;               /* likewise */
    struct group_search search; /* [thread] */
    bool searching;             /* [thread] */
    bool checked;               /* the leader has the offset, too */
    int64_t beyond_ms;          /* since when it has not; 0: it has */
    struct chunk_place place;   /* HELD_PLACING: only its offset counts */
    uint64_t unclean;
    int64_t retry_ms;
};

/* What a member has to do with its coordinator: [thread]. */
enum member_phase { MEMBER_OUT, MEMBER_JOINING, MEMBER_IN };

struct group_member {
    struct groups *groups;             /* [const] */
    struct group_member_params params; /* [const] its texts are the member's */
    pthread_mutex_t take_lock;

    pthread_mutex_t lock;
    pthread_cond_t quiet;             /* notifying fell to 0 */
    int references;                   /* [lock] the user, the thread, each held */
    bool left;                        /* [lock] the user is gone */
    int notifying;                    /* [lock] */
    enum group_member_state state;    /* [lock] */
    int error;                        /* [lock] */
    char id[GROUP_MEMBER_ID_MAX + 1]; /* [lock] "": none */
    struct member_core *core;         /* [lock] */
    struct held **held;               /* [lock] sorted by partition */
    size_t held_count;                /* [lock] */
    struct group_sync *syncs;         /* [lock] */
    bool rejoin;                      /* [lock] as soon as it can */
    bool tell;                        /* [lock] changed() is due */
    bool hushed;       /* [lock] got nothing, because its node is silent */
    int64_t hushed_ms; /* [lock] since then */

    enum member_phase phase;      /* [thread] */
    int64_t epoch;                /* [thread] of the registration that the id names */
    uint64_t seen;                /* [thread] changes of the last answered beat */
    struct group_beater beater;   /* [thread] */
    struct group_ask join;        /* [thread] */
    struct group_ask commit;      /* [thread] */
    bool committing;              /* [thread] */
    struct group_commit *commits; /* [thread] under way */
    size_t commit_count;          /* [thread] */
    int64_t commit_ms;            /* [thread] not before */
    int64_t retry_ms;             /* [thread] joins not before */
    int64_t due_ms;               /* [thread] */
    struct group_member *prev, *next; /* [thread], before in groups->new_members */

    bool queued;                     /* [groups->lock] */
    bool ended;                      /* [groups->lock] */
    struct group_member *prev_woken; /* [groups->lock] */
    struct group_member *next_woken; /* [groups->lock] */
};

/* group_member.c; any thread. */
void group_member_wake(struct group_member *member); /* lock held or not */
void group_member_ref(struct group_member *member);  /* [lock] */
void group_member_unref(struct group_member *member);
void group_member_notify(struct group_member *member); /* no lock */
/* Those that can be answered; to be ended by group_member_end_syncs(). [lock] */
struct group_sync *group_member_take_syncs(struct group_member *member, bool all);
void group_member_end_syncs(struct group_sync *syncs, int error); /* no lock */
void group_member_fail(struct group_member *member, int error);   /* [lock] */

/* group_member_step.c [thread] */
int64_t group_members_step(struct groups *groups); /* when to come back */
/* Whoever is still there has failed, and leaves. */
void group_members_close(struct groups *groups);
/* [lock] Nothing is the member's any more. */
void group_member_drop_all(struct group_member *member);

/* group_member_talk.c [thread]: what is said to the coordinator. No lock held but where
 * it is said. */
void group_member_join_now(struct group_member *member);
/* [lock] */
void group_member_commit_now(struct group_member *member);
/* [lock] Commits and leaves, behind the member's back; then it is out. */
void group_member_goodbye(struct group_member *member);
void group_member_talk_init(struct group_member *member);
/* Gives up the last words that nobody heard. */
void group_farewells_end(struct groups *groups);

/* group_held.c; [member->lock], where not marked. */
int held_new(struct group_member *member, const struct member_part *part,
             struct held **out);
void held_drop(struct held *held);
/* Gives a reference back; the member's lock is held, and is given back by this. */
void held_put_unlock(struct held *held);
/* [thread] Does what can be done; when to be called again. */
int64_t held_step(struct held *held, int64_t now_ms);
/* Finds the place of held->place.offset. HELD_READY then, or to be continued by
 * held_step(). 0 or an error of reading. */
int held_place(struct held *held, int64_t now_ms);
/* What comes next is at this offset, which lies before. */
void held_go_back(struct held *held, int64_t offset, int64_t now_ms);
/* Waits for what comes behind the place; tells the core whether there is something. */
int held_await(struct held *held, int64_t now_ms);

#endif
