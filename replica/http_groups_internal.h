/*
 * What http_groups.c and http_members.c share.
 */
#ifndef TOPICFS_HTTP_GROUPS_INTERNAL_H
#define TOPICFS_HTTP_GROUPS_INTERNAL_H

#include "replica/http_groups.h"

#include <pthread.h>

struct http_member;

struct http_groups {
    struct cluster *cluster; /* [const], as the next two */
    struct groups *groups;
    const struct clock *clock;
    pthread_mutex_t lock;
    struct http_member *members; /* [lock] a hash by id */
    unsigned inside;             /* [lock] requests that may call the groups */
    bool ended;                  /* [lock] no more may */
    pthread_cond_t left;         /* one is through */
};

/* From here on the request may call the groups: true; or it is replied to, because the
 * node stops. And no more. */
bool http_groups_enter(struct http_groups *groups, struct http_request *request);
void http_groups_leave(struct http_groups *groups);
/* The same, for what the request's context is to be: so many bytes, all 0, that the
 * caller frees when it leaves. NULL: it is replied to. */
void *http_groups_enter_with(struct http_request *request, size_t size);

/*
 * The topic of that name, if the user may read it: 0, and *out and *key_delimiter are
 * set (either may be NULL); E_UNKNOWN_TOPIC, E_INVALID_NAME, -EACCES.
 */
int http_groups_topic(const struct http_groups *groups, const struct http_user *user,
                      const char *name, struct topic_id *out, int *key_delimiter);

/* Handlers; the route's argument is the struct http_groups. */
void http_members_join(struct http_request *request);
void http_members_poll(struct http_request *request);
void http_members_commit(struct http_request *request);
void http_members_leave(struct http_request *request);
/* All members leave; no request is under way. */
void http_members_clear(struct http_groups *groups);

#endif
