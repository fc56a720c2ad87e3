/*
 * Users of consumer groups, for tests: members that wait for their lines, and calls
 * that wait for their answers.
 *
 *     struct group_user *user = group_user_join(groups, "g", "t", &topic_id);
 *     group_user_until_partitions(user, 2);
 *     group_user_take(user, &text, &chunk);      // waits; text is freed by the caller
 *     group_user_finish(user, &chunk);
 *     group_user_leave(user);
 *
 *     cJSON *answer = group_user_describe(groups, "g", true);
 *
 * All wait for at most 10 s; failures are failed assertions of the running test.
 */
#ifndef TOPICFS_TEST_GROUP_USER_H
#define TOPICFS_TEST_GROUP_USER_H

#include "replica/groups.h"

#include <pthread.h>

struct group_user {
    struct groups *groups;
    struct group_member *member;
    size_t take_bytes; /* may be changed */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned changes; /* [lock] */
};

struct group_user *group_user_join(struct groups *groups, const char *group,
                                   const char *topic, const struct topic_id *topic_id);
void group_user_leave(struct group_user *user);

void group_user_until_partitions(struct group_user *user, uint32_t count);
void group_user_until_state(struct group_user *user, enum group_member_state state);

/* 1 and the chunk's text, or what take answered instead: 0 after `ms`. */
int group_user_try(struct group_user *user, int64_t ms, char **text,
                   struct group_chunk *chunk);
/* One must come. */
void group_user_take(struct group_user *user, char **text, struct group_chunk *chunk);
/* All of the chunk. */
int group_user_finish(struct group_user *user, const struct group_chunk *chunk);
/* Waits until all that was finished is committed; the sync's error. */
int group_user_sync(struct group_user *user);

/* ---- calls --------------------------------------------------------------------------
 */

struct user_call {
    struct groups_call call; /* first */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
    int error;
    cJSON *answer;
    char why[256];
};
void user_call_init(struct user_call *call);
/* The error; the answer, if any, is the caller's. */
int user_call_await(struct user_call *call, cJSON **answer);

cJSON *group_user_describe(struct groups *groups, const char *group, bool ends);
/* An entry of "offsets", borrowed; NULL: there is none. */
const cJSON *group_user_entry(const cJSON *group, int32_t partition);
/* The committed offset of a partition; -1: none. */
int64_t group_user_offset(struct groups *groups, const char *group, int32_t partition);

#endif
