/*
 * Speaks to the coordinators of consumer groups, wherever they are: this node's own
 * directly, others over HTTP. It finds the coordinator of a group in the cluster's
 * snapshots (the leader of the group's shard of __consumer_offsets), gathers what goes
 * to one shard into few requests, and sends again whatever a change of coordinators
 * swallowed.
 *
 *     group_client_new(&params, coordinator, &client);
 *     group_client_ask(client, &ask);                  // ask.done() is called once
 *     group_client_beat(client, &beater);              // beater.answered(), often
 *     for (;;) {
 *         group_client_look(client);
 *         int64_t due_ms = group_client_step(client);
 *         group_client_wait(client, due_ms);
 *     }
 *     group_client_close(client);
 *     group_coordinator_stop(coordinator);
 *     group_client_free(client);
 *
 * Per shard there is one request under way for what changes the group (in order), one
 * for questions, and for the beats of all members of this node usually one that is
 * parked at the coordinator until there is news. A member has one beat under way that
 * counts; a later one supersedes it, whose answer is then not looked at: so that the
 * answers come in the order of the coordinator's decisions.
 *
 * One thread owns all of it; group_client_wake() and group_client_snapshot() are for
 * any.
 */
#ifndef TOPICFS_GROUP_CLIENT_H
#define TOPICFS_GROUP_CLIENT_H

#include "replica/group_coordinator.h"
#include "replica/peer_client.h"

struct group_client;
struct group_lane;
struct group_shard;

int group_client_new(const struct groups_params *params,
                     struct group_coordinator *coordinator, struct group_client **out);
/* Gives up what is under way; no callbacks come any more. Asks and beaters are left as
 * they are. NULL is fine. */
void group_client_close(struct group_client *client);
/* After the coordinator was stopped, which still answers. NULL is fine. */
void group_client_free(struct group_client *client);

/* Looks at what came in; what is asked in between comes under the same snapshot. */
void group_client_look(struct group_client *client);
/* Does what there is to do; when to be called again at the latest (monotonic ms). */
int64_t group_client_step(struct group_client *client);
/* Waits for answers and wakes, until due_ms. */
void group_client_wait(struct group_client *client, int64_t due_ms);
void group_client_wake(struct group_client *client);
/* The cluster changed: to be looked at in the next step. Takes a reference. */
void group_client_snapshot(struct group_client *client,
                           const struct cluster_snapshot *snapshot);
/* The present one, borrowed until the next step. */
const struct cluster_snapshot *group_client_cluster(const struct group_client *client);
struct peer_client *group_client_peers(struct group_client *client);

/* How many shards there are; 0: __consumer_offsets was not made yet. */
int32_t group_client_shards(const struct group_client *client);

/* ---- asks ---------------------------------------------------------------------------
 */

struct group_ask {
    /* `answer` is the entry for this op, borrowed; NULL without one. E_NO_COORDINATOR
     * at the deadline; `why` is never NULL. May ask again. */
    void (*done)(struct group_ask *ask, int error, const cJSON *answer,
                 const char *why);
    cJSON *op;           /* as group_wire.h says; taken */
    int32_t shard;       /* -1: of the op's group */
    int64_t deadline_ms; /* INT64_MAX: none */
    bool question;       /* changes nothing */
    bool creates;        /* makes __consumer_offsets where it is not there */
    /* private */
    struct group_lane *lane;
    struct group_ask *prev, *next;
    struct group_ask **list;
};

void group_client_ask(struct group_client *client, struct group_ask *ask);
/* Gives it up, without done(); what was sent may take effect. Fine where it is done. */
void group_client_cancel(struct group_client *client, struct group_ask *ask);

/* ---- beats --------------------------------------------------------------------------
 */

struct group_beater {
    const char *group;
    int64_t session_timeout_ms; /* a beat is parked for a part of it */
    /* Adds "member", "seen", "released" to the op. 0 or -ENOMEM. */
    int (*fill)(struct group_beater *beater, cJSON *op);
    /* The latest beat, sent at sent_ms, was answered: 0 or E_GROUP_MEMBER_UNKNOWN. The
     * next one follows by itself, unless the beater is ended here. Whether there was
     * news. */
    bool (*answered)(struct group_beater *beater, int error, const cJSON *answer,
                     int64_t sent_ms);
    /* private */
    struct group_lane *lane; /* of its latest beat; NULL: the next one is due */
    struct group_shard *shard;
    struct group_beater *prev, *next; /* in shard->due */
};

/* Beats from now on; if it does already: has something to tell now. */
void group_client_beat(struct group_client *client, struct group_beater *beater);
void group_client_beat_end(struct group_client *client, struct group_beater *beater);

#endif
