#include "replica/group_client_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

int64_t group_client_now(const struct group_client *client)
{
    return clock_mono_ms(client->params.clock);
}

int group_client_new(const struct groups_params *params,
                     struct group_coordinator *coordinator, struct group_client **out)
{
    struct group_client *client = calloc(1, sizeof *client);
    *out = NULL;
    if (!client) {
        return -ENOMEM;
    }
    client->params = *params;
    client->coordinator = coordinator;
    atomic_init(&client->state, GROUP_CLIENT_BUSY);
    pthread_mutex_init(&client->lock, NULL);
    client->snapshot = cluster_snapshot_get(params->cluster);
    int rc = peer_client_new(params->config, &client->peers);
    rc = rc ? rc : topic_maker_new(client, &client->maker);
    if (rc) {
        group_client_free(client);
        return rc;
    }
    *out = client;
    return 0;
}

static struct group_lane *lane_of(struct group_shard *shard, size_t i)
{
    if (i < GROUP_BEAT_LANES) {
        return &shard->beat_lanes[i];
    }
    return i == GROUP_BEAT_LANES ? &shard->change_lane : &shard->question_lane;
}

enum { LANES = GROUP_BEAT_LANES + 2 };

static void each_lane(struct group_client *client, void (*fn)(struct group_lane *lane))
{
    for (int32_t i = 0; i < client->shard_count; i++) {
        for (size_t j = 0; j < LANES; j++) {
            fn(lane_of(&client->shards[i], j));
        }
    }
}

void group_client_close(struct group_client *client)
{
    if (client && !client->closed) {
        client->closed = true;
        each_lane(client, group_lane_close);
        topic_maker_free(client->maker);
        client->maker = NULL;
    }
}

static struct local_call *take_answered(struct group_client *client)
{
    pthread_mutex_lock(&client->lock);
    struct local_call *first = client->answered;
    client->answered = NULL;
    pthread_mutex_unlock(&client->lock);
    return first;
}

void group_client_free(struct group_client *client)
{
    if (!client) {
        return;
    }
    group_client_close(client);
    struct local_call *local = take_answered(client);
    while (local) {
        struct local_call *next = local->next;
        cJSON_Delete(local->answer);
        free(local);
        local = next;
    }
    cluster_snapshot_put(client->snapshot);
    cluster_snapshot_put(client->news);
    free(client->shards);
    peer_client_free(client->peers);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

/* ---- what comes in ------------------------------------------------------------------
 */

void group_client_wake(struct group_client *client)
{
    if (atomic_exchange(&client->state, GROUP_CLIENT_WOKEN) == GROUP_CLIENT_WAITING) {
        peer_client_wake(client->peers);
    }
}

void group_client_snapshot(struct group_client *client,
                           const struct cluster_snapshot *snapshot)
{
    const struct cluster_snapshot *mine = cluster_snapshot_ref(snapshot);
    pthread_mutex_lock(&client->lock);
    const struct cluster_snapshot *old = client->news;
    client->news = mine;
    pthread_mutex_unlock(&client->lock);
    cluster_snapshot_put(old);
    group_client_wake(client);
}

const struct cluster_snapshot *group_client_cluster(const struct group_client *client)
{
    return client->snapshot;
}

struct peer_client *group_client_peers(struct group_client *client)
{
    return client->peers;
}

int32_t group_client_shards(const struct group_client *client)
{
    return client->shard_count;
}

static void take_answers(struct group_client *client)
{
    struct local_call *local = take_answered(client);
    while (local) {
        struct local_call *next = local->next;
        if (local->lane) {
            local->lane->local = NULL;
            group_lane_local(local->lane, local->answer);
        } else {
            cJSON_Delete(local->answer);
        }
        free(local);
        local = next;
    }
}

/* ---- shards -------------------------------------------------------------------------
 */

static int make_shards(struct group_client *client, int32_t count)
{
    client->shards = calloc((size_t)count, sizeof *client->shards);
    if (!client->shards) {
        return -ENOMEM;
    }
    client->shard_count = count;
    for (int32_t i = 0; i < count; i++) {
        struct group_shard *shard = &client->shards[i];
        shard->index = i;
        shard->leader = -1;
        for (size_t j = 0; j < LANES; j++) {
            enum group_lane_kind kind = j < GROUP_BEAT_LANES    ? GROUP_LANE_BEATS
                                        : j == GROUP_BEAT_LANES ? GROUP_LANE_CHANGES
                                                                : GROUP_LANE_QUESTIONS;
            group_lane_init(lane_of(shard, j), client, shard, kind);
        }
    }
    return 0;
}

static void enqueue(struct group_client *client, struct group_ask *ask)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(ask->op, "group");
    int32_t index = ask->shard;
    if (index < 0 && cJSON_IsString(name)) {
        index = group_wire_shard(name->valuestring, client->shard_count);
    }
    if (index < 0 || index >= client->shard_count) {
        index = 0;
    }
    struct group_shard *shard = &client->shards[index];
    ask->list = ask->question ? &shard->questions : &shard->changes;
    DL_APPEND(*ask->list, ask);
}

static void house_asks(struct group_client *client)
{
    struct group_ask *ask;
    struct group_ask *next;
    DL_FOREACH_SAFE(client->homeless, ask, next)
    {
        DL_DELETE(client->homeless, ask);
        enqueue(client, ask);
    }
}

/* Who coordinates a shard now. What went to another is taken back: it may never be
 * answered. */
static void follow_leader(struct group_client *client, struct group_shard *shard,
                          const struct topic *topic)
{
    bool there = topic && shard->index < topic->partition_count;
    const struct partition_info *info = there ? &topic->partitions[shard->index] : NULL;
    int32_t leader = info ? info->leader : -1;
    int32_t epoch = info ? info->leader_epoch : -1;
    if (leader == shard->leader && epoch == shard->leader_epoch) {
        return;
    }
    shard->leader = leader;
    shard->leader_epoch = epoch;
    shard->retry_ms = 0;
    shard->backoff_ms = 0;
    shard->gather_ms = 0;
    for (size_t i = 0; i < LANES; i++) {
        struct group_lane *lane = lane_of(shard, i);
        if (lane->busy && !lane->local) {
            group_lane_recall(lane);
        }
    }
    (void)client;
}

static void take_snapshot(struct group_client *client)
{
    pthread_mutex_lock(&client->lock);
    const struct cluster_snapshot *news = client->news;
    client->news = NULL;
    pthread_mutex_unlock(&client->lock);
    if (news) {
        cluster_snapshot_put(client->snapshot);
        client->snapshot = news;
    } else if (client->shard_count > 0) {
        return;
    }
    const struct topic *topic = cluster_snapshot_topic(client->snapshot, GROUPS_TOPIC);
    if (client->shard_count == 0 && topic && topic->partition_count > 0 &&
        !make_shards(client, topic->partition_count)) {
        house_asks(client);
    }
    for (int32_t i = 0; i < client->shard_count; i++) {
        follow_leader(client, &client->shards[i], topic);
    }
}

/* ---- asks and beats -----------------------------------------------------------------
 */

void group_client_ask(struct group_client *client, struct group_ask *ask)
{
    ask->lane = NULL;
    if (client->shard_count > 0) {
        enqueue(client, ask);
    } else {
        ask->list = &client->homeless;
        DL_APPEND(client->homeless, ask);
    }
}

void group_client_cancel(struct group_client *client, struct group_ask *ask)
{
    (void)client;
    if (ask->lane) {
        for (size_t i = 0; i < ask->lane->count; i++) {
            if (ask->lane->asks[i] == ask) {
                ask->lane->asks[i] = NULL;
            }
        }
        ask->lane = NULL;
    } else if (ask->list) {
        DL_DELETE(*ask->list, ask);
        ask->list = NULL;
    }
    cJSON_Delete(ask->op);
    ask->op = NULL;
}

static void drop_beat(struct group_beater *beater)
{
    if (beater->lane) {
        for (size_t i = 0; i < beater->lane->count; i++) {
            if (beater->lane->beaters[i] == beater) {
                beater->lane->beaters[i] = NULL;
            }
        }
        beater->lane = NULL;
    } else if (beater->shard) {
        DL_DELETE(beater->shard->due, beater);
    }
}

void group_client_beat(struct group_client *client, struct group_beater *beater)
{
    drop_beat(beater);
    if (client->shard_count > 0) {
        beater->shard =
            &client->shards[group_wire_shard(beater->group, client->shard_count)];
        DL_APPEND(beater->shard->due, beater);
        beater->shard->gather_ms = 0;
    }
}

void group_client_beat_end(struct group_client *client, struct group_beater *beater)
{
    (void)client;
    drop_beat(beater);
    beater->shard = NULL;
}

/* ---- running ------------------------------------------------------------------------
 */

/* Ends an ask whose time is over; else when that will be. */
static int64_t expire(struct group_client *client, struct group_ask *ask)
{
    if (group_client_now(client) < ask->deadline_ms) {
        return ask->deadline_ms;
    }
    group_client_cancel(client, ask);
    ask->done(ask, E_NO_COORDINATOR, NULL, "");
    return INT64_MAX;
}

static int64_t expire_list(struct group_client *client, struct group_ask *list)
{
    struct group_ask *ask;
    struct group_ask *next;
    int64_t first = INT64_MAX;
    DL_FOREACH_SAFE(list, ask, next)
    {
        int64_t due = expire(client, ask);
        first = due < first ? due : first;
    }
    return first;
}

static int64_t expire_lane(struct group_client *client, struct group_lane *lane)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; lane->busy && lane->asks && i < lane->count; i++) {
        int64_t due = lane->asks[i] ? expire(client, lane->asks[i]) : INT64_MAX;
        first = due < first ? due : first;
    }
    return first;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* All that may be parked is: the oldest is taken back, and goes along with what is due.
 */
static int64_t make_room(struct group_shard *shard, int64_t now)
{
    struct group_lane *oldest = &shard->beat_lanes[0];
    for (size_t i = 1; i < GROUP_BEAT_LANES; i++) {
        if (shard->beat_lanes[i].sent_ms < oldest->sent_ms) {
            oldest = &shard->beat_lanes[i];
        }
    }
    if (now - oldest->sent_ms < GROUP_ROOM_MS) {
        return oldest->sent_ms + GROUP_ROOM_MS;
    }
    group_lane_recall(oldest);
    group_lane_send_beats(oldest);
    return INT64_MAX;
}

static int64_t step_shard(struct group_client *client, struct group_shard *shard)
{
    int64_t now = group_client_now(client);
    int64_t due = expire_list(client, shard->changes);
    due = earlier(due, expire_list(client, shard->questions));
    due = earlier(due, expire_lane(client, &shard->change_lane));
    due = earlier(due, expire_lane(client, &shard->question_lane));
    if (shard->leader < 0 || client->snapshot->self_epoch < 0) {
        return due;
    }
    if (shard->retry_ms > now) {
        return earlier(due, shard->retry_ms);
    }
    group_lane_send_asks(&shard->change_lane, &shard->changes);
    group_lane_send_asks(&shard->question_lane, &shard->questions);
    if (shard->due && shard->gather_ms > now) {
        return earlier(due, shard->gather_ms);
    }
    for (size_t i = 0; shard->due && i < GROUP_BEAT_LANES; i++) {
        group_lane_send_beats(&shard->beat_lanes[i]);
    }
    if (shard->due && shard->retry_ms <= now) {
        due = earlier(due, make_room(shard, now));
    }
    /* A failed attempt set it. */
    return shard->retry_ms > now ? earlier(due, shard->retry_ms) : due;
}

static bool wants_topic(const struct group_client *client)
{
    const struct group_ask *ask;
    bool wanted = false;
    DL_FOREACH(client->homeless, ask)
    {
        wanted = wanted || ask->creates;
    }
    return wanted;
}

void group_client_look(struct group_client *client)
{
    take_snapshot(client);
    take_answers(client);
}

int64_t group_client_step(struct group_client *client)
{
    int64_t due = group_client_now(client) + GROUP_LOOK_MS;
    if (wants_topic(client)) {
        topic_maker_begin(client->maker);
    }
    due = earlier(due, expire_list(client, client->homeless));
    for (int32_t i = 0; i < client->shard_count; i++) {
        due = earlier(due, step_shard(client, &client->shards[i]));
    }
    return due;
}

void group_client_wait(struct group_client *client, int64_t due_ms)
{
    enum group_client_state busy = GROUP_CLIENT_BUSY;
    int64_t now = group_client_now(client);
    bool waits =
        atomic_compare_exchange_strong(&client->state, &busy, GROUP_CLIENT_WAITING);
    peer_client_run(client->peers, waits && due_ms > now ? due_ms - now : 0);
    atomic_store(&client->state, GROUP_CLIENT_BUSY);
}
