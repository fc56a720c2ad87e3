/* Inside of the groups' client, for group_client*.c only. All is the client's thread's,
 * but what is marked [lock]. */
#ifndef TOPICFS_GROUP_CLIENT_INTERNAL_H
#define TOPICFS_GROUP_CLIENT_INTERNAL_H

#include "replica/group_client.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    GROUP_BEAT_LANES = 4,
    GROUP_BACKOFF_MS = 20,
    GROUP_BACKOFF_MAX_MS = 500,
    GROUP_ROOM_MS = 20,   /* so long a parked beat is left alone at least */
    GROUP_LOOK_MS = 1000, /* should a notice be lost */
    GROUP_IN_LANE_MAX = 4096,
};

enum group_lane_kind { GROUP_LANE_CHANGES, GROUP_LANE_QUESTIONS, GROUP_LANE_BEATS };

/* A request to the coordinator that this node has. */
struct local_call {
    struct coordinator_call call; /* first */
    struct group_client *client;
    struct group_lane *lane; /* NULL: nobody waits for it any more */
    cJSON *answer;           /* [lock] */
    struct local_call *next; /* [lock] in client->answered */
};

/* One request under way, at most. */
struct group_lane {
    struct peer_call call; /* first */
    struct group_client *client;
    struct group_shard *shard;
    enum group_lane_kind kind;
    bool busy;
    struct local_call *local; /* NULL: it went over HTTP */
    int32_t leader;
    int32_t leader_epoch;
    int64_t sent_ms;
    int64_t until_ms; /* beats: how long it is parked */
    /* By place in the request; NULL: given up meanwhile. */
    struct group_ask **asks;
    struct group_beater **beaters;
    size_t count;
};

struct group_shard {
    int32_t index;
    struct group_ask *changes;   /* not under way */
    struct group_ask *questions; /* likewise */
    struct group_beater *due;
    struct group_lane change_lane;
    struct group_lane question_lane;
    struct group_lane beat_lanes[GROUP_BEAT_LANES];
    int64_t retry_ms; /* nothing is sent before */
    int64_t backoff_ms;
    int64_t gather_ms; /* no beats before: others will be due then */
    int32_t leader;    /* by the last snapshot; -1: none */
    int32_t leader_epoch;
};

struct topic_maker;

/* What the client's thread does: others need to wake it only where it waits. */
enum group_client_state {
    GROUP_CLIENT_BUSY,  /* what comes is looked at before it waits, or */
    GROUP_CLIENT_WOKEN, /* came since it waited last: it does not wait the next time */
    GROUP_CLIENT_WAITING, /* it is woken by peer_client_wake() */
};

struct group_client {
    struct groups_params params; /* [const] */
    struct group_coordinator *coordinator;
    struct peer_client *peers;
    const struct cluster_snapshot *snapshot;
    struct group_shard *shards;
    int32_t shard_count;
    struct group_ask *homeless; /* __consumer_offsets is not there yet */
    struct topic_maker *maker;
    bool closed;
    _Atomic enum group_client_state state;

    pthread_mutex_t lock;
    const struct cluster_snapshot *news; /* [lock] NULL: none */
    struct local_call *answered;         /* [lock] */
};

int64_t group_client_now(const struct group_client *client);

/* group_client_lane.c */
void group_lane_init(struct group_lane *lane, struct group_client *client,
                     struct group_shard *shard, enum group_lane_kind kind);
/* Sends what waits for this lane, if it is idle. */
void group_lane_send_asks(struct group_lane *lane, struct group_ask **waiting);
void group_lane_send_beats(struct group_lane *lane);
/* Takes back what is under way: it waits again. */
void group_lane_recall(struct group_lane *lane);
/* The coordinator of this node answered; takes the answer. */
void group_lane_local(struct group_lane *lane, cJSON *answer);
/* Frees it; nothing is under way any more. */
void group_lane_close(struct group_lane *lane);

/* topic_maker.c: makes __consumer_offsets, on a thread that may wait for the store. */
int topic_maker_new(struct group_client *client, struct topic_maker **out);
void topic_maker_begin(struct topic_maker *maker); /* if it isn't at it */
void topic_maker_free(struct topic_maker *maker);  /* joins; NULL is fine */

#endif
