/*
 * Inside of the members that speak HTTP, for http_members*.c only: the table of them
 * and the requests that use them (http_members.c), polls and commits
 * (http_members_poll.c).
 *
 * Locks: groups->lock guards the table, member->lock what is marked with it. Neither is
 * held when the member's group is called.
 */
#ifndef TOPICFS_HTTP_MEMBERS_INTERNAL_H
#define TOPICFS_HTTP_MEMBERS_INTERNAL_H

#include "replica/http_groups_internal.h"

#include <uthash.h>

enum { HTTP_MEMBER_ID_TEXT = 33 };

/* Of the lines that were handed out and not finished. */
struct handed_out {
    struct group_chunk *chunks;
    size_t count;
    size_t allocated;
};

struct http_member {
    char id[HTTP_MEMBER_ID_TEXT]; /* [const], as all up to the lock */
    uid_t uid;
    char group[TOPIC_NAME_MAX + 1];
    char topic[TOPIC_NAME_MAX + 1];
    int key_delimiter;
    const struct clock *clock;
    struct group_member *member;
    pthread_mutex_t lock;
    bool busy;                    /* [lock] a request uses it */
    bool left;                    /* [lock] not in the table any more */
    bool listed;                  /* [groups->lock] in the table */
    uint64_t changes;             /* [lock] calls of changed() */
    struct http_request *waiting; /* [lock] for the next change */
    http_request_fn *next;        /* [lock] and what goes on then */
    int64_t used_ms;              /* [lock] monotonic */
    struct handed_out out;        /* of the request that uses it */
    UT_hash_handle hh;            /* [groups->lock] */
};

/* A request that uses a member: its context. */
struct http_use {
    struct http_member *member;
    struct http_groups *groups;
    struct http_request *request;
    struct group_sync sync;
    int error;             /* of the sync */
    http_request_fn *next; /* after the sync */
    bool expired;          /* [member->lock] the time of a wait is over */
    int64_t deadline_ms;
    size_t max_bytes;
    bool gives; /* messages, that are the client's once they are sent */
    struct buf raw;
    struct buf text;
};

/* Begins a request's use of the member that its path names, with the right to read
 * checked anew. NULL: it is replied to. */
struct http_use *http_use_begin(struct http_request *request);
/* Sets how often the member changed. false: it left, or was removed. */
bool http_use_look(struct http_use *use, uint64_t *changes);
/* Goes on with `next` after a change since `seen`, or when the time is over. false: it
 * is over already. */
bool http_use_wait(struct http_use *use, uint64_t seen, http_request_fn *next);
/* What was given out and not finished is to be given out again. */
void http_use_take_back(struct http_use *use);

#endif
