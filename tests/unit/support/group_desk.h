/*
 * Asking a coordinator of consumer groups, and waiting for what it says.
 *
 *     struct group_desk desk = {.coordinator = coordinator, .node = 1, .epoch = 17};
 *     desk_ok(&desk, "g", "{\"op\":\"join\",\"group\":\"g\",\"member\":\"m\",...}");
 *
 * Requests go to the shard of the group, of GROUP_SHARDS. Each waits for at most 15 s.
 * Failures are failed assertions of the running test. Any thread; but cmocka's
 * assertions belong on the test's.
 */
#ifndef TOPICFS_TEST_GROUP_DESK_H
#define TOPICFS_TEST_GROUP_DESK_H

#include "replica/group_coordinator.h"

#include <pthread.h>

struct group_desk {
    struct group_coordinator *coordinator;
    int32_t node; /* who speaks */
    int64_t epoch;
};

/* One that is under way. */
struct desk_call {
    struct coordinator_call call; /* first */
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool done;
    cJSON *answer;
};

/* Ops as JSON objects, separated by commas; printf's format. */
cJSON *desk_request(const struct group_desk *desk, const char *group, int64_t wait_ms,
                    const char *ops);
void desk_send(const struct group_desk *desk, struct desk_call *call, cJSON *request);
/* The whole answer; the caller deletes it. */
cJSON *desk_await(struct desk_call *call);
bool desk_is_answered(struct desk_call *call);

/* Sends one request, again for as long as the coordinator is not it, and gives the
 * answer to its only op; the caller deletes it. */
cJSON *desk_ask(const struct group_desk *desk, const char *group, const char *op);
/* The same, of which the error alone matters. */
int desk_error(const struct group_desk *desk, const char *group, const char *op);
void desk_ok(const struct group_desk *desk, const char *group, const char *op);

int desk_join(const struct group_desk *desk, const char *group, const char *member,
              const char *topic, const struct topic_id *id);
/* What a beat is answered; the caller frees out->grants. The error. */
int desk_beat(const struct group_desk *desk, const char *group, const char *member,
              struct group_wire_beat *out);
int desk_commit(const struct group_desk *desk, const char *group, const char *member,
                int32_t partition, int64_t generation, int64_t offset);
/* The committed offset of a partition; -1: there is none. */
int64_t desk_offset(const struct group_desk *desk, const char *group,
                    int32_t partition);

#endif
