/* One request at a time to a shard's coordinator, and what its answer means. */
#include "replica/group_client_internal.h"
#include "replica/peer_thread.h"

#include <stdlib.h>
#include <utlist.h>

enum {
    /* A coordinator that is alive answers sooner; of one that is not, snapshots say. */
    ANSWER_MS = 15000,
    BEAT_WAIT_MIN_MS = 50,
    BEAT_WAIT_MAX_MS = 3000,
    BEAT_PARTS = 4, /* of the session time-out */
    BEAT_MARGIN_MS = 5000,
    GATHER_MS = 20,
    IDLE_MS = 100, /* where beats are answered at once, without news */
};

static void on_reply(struct peer_call *call, const struct peer_reply *reply);

void group_lane_init(struct group_lane *lane, struct group_client *client,
                     struct group_shard *shard, enum group_lane_kind kind)
{
    lane->client = client;
    lane->shard = shard;
    lane->kind = kind;
    peer_call_init(&lane->call, on_reply);
}

/* ---- what comes back ----------------------------------------------------------------
 */

static void wait_again(struct group_lane *lane, struct group_ask *ask)
{
    struct group_shard *shard = lane->shard;
    ask->list = ask->question ? &shard->questions : &shard->changes;
    DL_PREPEND(*ask->list, ask);
}

static void be_due(struct group_lane *lane, struct group_beater *beater)
{
    beater->lane = NULL;
    DL_APPEND(lane->shard->due, beater);
}

/* The lane is idle; what was in it is the caller's. */
static void empty(struct group_lane *lane, struct group_lane *was)
{
    *was = *lane;
    lane->busy = false;
    lane->asks = NULL;
    lane->beaters = NULL;
    lane->count = 0;
}

/* Everything is to be sent again. */
static void give_back(struct group_lane *lane, const struct group_lane *was)
{
    for (size_t i = was->count; i-- > 0;) {
        if (was->asks && was->asks[i]) {
            was->asks[i]->lane = NULL;
            wait_again(lane, was->asks[i]);
        }
        if (was->beaters && was->beaters[i]) {
            be_due(lane, was->beaters[i]);
        }
    }
    free(was->asks);
    free(was->beaters);
}

static void back_off(struct group_lane *lane)
{
    struct group_shard *shard = lane->shard;
    int64_t backoff = shard->backoff_ms * 2;
    backoff = backoff < GROUP_BACKOFF_MS ? GROUP_BACKOFF_MS : backoff;
    backoff = backoff > GROUP_BACKOFF_MAX_MS ? GROUP_BACKOFF_MAX_MS : backoff;
    shard->backoff_ms = backoff;
    shard->retry_ms = group_client_now(lane->client) + backoff;
}

static bool is_elsewhere(int error)
{
    return error == E_NOT_COORDINATOR || error == E_NOT_LEADER || error == E_NO_LEADER;
}

/* The asks of a request that was answered as a whole. */
static void answer_asks(struct group_lane *lane, struct group_lane *was,
                        const cJSON *answers)
{
    size_t again = 0;
    const cJSON *answer = answers->child;
    for (size_t i = 0; i < was->count; i++, answer = answer->next) {
        struct group_ask *ask = was->asks[i];
        const char *why = "";
        int error = 0;
        /* done() of another may give it up. */
        if (!ask) {
            continue;
        }
        int rc = group_wire_get_error(answer, &error, &why);
        error = rc ? rc : error;
        if (is_elsewhere(error)) {
            was->asks[again++] = ask;
            continue;
        }
        ask->lane = NULL;
        ask->list = NULL;
        cJSON_Delete(ask->op);
        ask->op = NULL;
        was->asks[i] = NULL;
        ask->done(ask, error, answer, why);
    }
    was->count = again;
    if (again > 0) {
        back_off(lane);
    }
    give_back(lane, was);
}

/* If another beat comes back in a moment, both go on as one. */
static void gather(struct group_lane *lane, const struct group_lane *was)
{
    struct group_shard *shard = lane->shard;
    int64_t now = group_client_now(lane->client);
    if (now < was->until_ms) {
        return; /* there was news */
    }
    for (size_t i = 0; i < GROUP_BEAT_LANES; i++) {
        const struct group_lane *other = &shard->beat_lanes[i];
        if (other->busy && other->until_ms <= now + GATHER_MS &&
            other->until_ms > now - GATHER_MS) {
            shard->gather_ms = now + GATHER_MS;
        }
    }
}

static void answer_beats(struct group_lane *lane, struct group_lane *was,
                         const cJSON *answers)
{
    gather(lane, was);
    bool again = false;
    bool news = false;
    const cJSON *answer = answers->child;
    for (size_t i = 0; i < was->count; i++, answer = answer->next) {
        struct group_beater *beater = was->beaters[i];
        const char *why = "";
        int error = 0;
        if (!beater) {
            continue;
        }
        int rc = group_wire_get_error(answer, &error, &why);
        be_due(lane, beater);
        if (!rc && (!error || error == E_GROUP_MEMBER_UNKNOWN)) {
            news = beater->answered(beater, error, answer, was->sent_ms) || news;
        } else {
            again = true;
        }
    }
    if (again) {
        back_off(lane);
    }
    int64_t now = group_client_now(lane->client);
    if (!news && now < was->until_ms - IDLE_MS) {
        lane->shard->gather_ms = now + IDLE_MS;
    }
    free(was->beaters);
}

/* `whole` is the answer, or NULL: there was none that could be used. */
static void answered(struct group_lane *lane, const cJSON *whole)
{
    struct group_lane was;
    const char *why = "";
    int error = 0;
    bool good = whole && !group_wire_get_error(whole, &error, &why) && !error;
    const cJSON *answers = good ? group_wire_get_answers(whole, lane->count) : NULL;
    if (answers) {
        lane->shard->backoff_ms = 0;
    }
    if (answers && lane->kind != GROUP_LANE_BEATS) {
        /* Stays readable for group_client_cancel() from done(). */
        empty(lane, &was);
        for (size_t i = 0; i < was.count; i++) {
            if (was.asks[i]) {
                was.asks[i]->lane = &was;
            }
        }
        answer_asks(lane, &was, answers);
    } else if (answers) {
        empty(lane, &was);
        for (size_t i = 0; i < was.count; i++) {
            if (was.beaters[i]) {
                was.beaters[i]->lane = &was;
            }
        }
        answer_beats(lane, &was, answers);
    } else {
        empty(lane, &was);
        give_back(lane, &was);
        back_off(lane);
    }
}

static void on_reply(struct peer_call *call, const struct peer_reply *reply)
{
    struct group_lane *lane = (struct group_lane *)call;
    cJSON *whole = NULL;
    if (!reply->error) {
        (void)group_wire_parse((const char *)reply->bytes, reply->length, &whole);
    }
    answered(lane, whole);
    cJSON_Delete(whole);
}

void group_lane_local(struct group_lane *lane, cJSON *answer)
{
    answered(lane, answer);
    cJSON_Delete(answer);
}

static void disown_local(struct group_lane *lane)
{
    if (lane->local) {
        pthread_mutex_lock(&lane->client->lock);
        lane->local->lane = NULL;
        pthread_mutex_unlock(&lane->client->lock);
        lane->local = NULL;
    }
}

void group_lane_recall(struct group_lane *lane)
{
    struct group_lane was;
    disown_local(lane);
    peer_call_free(lane->client->peers, &lane->call);
    peer_call_init(&lane->call, on_reply);
    empty(lane, &was);
    give_back(lane, &was);
}

void group_lane_close(struct group_lane *lane)
{
    if (lane->busy) {
        group_lane_recall(lane);
    }
    peer_call_free(lane->client->peers, &lane->call);
}

/* ---- sending ------------------------------------------------------------------------
 */

static void on_local(struct coordinator_call *call, cJSON *answer)
{
    struct local_call *local = (struct local_call *)call;
    struct group_client *client = local->client;
    pthread_mutex_lock(&client->lock);
    local->answer = answer;
    local->next = client->answered;
    client->answered = local;
    /* Under the lock: once it is in the list, the client may go. */
    group_client_wake(client);
    pthread_mutex_unlock(&client->lock);
}

/* Takes the request. */
static int send_here(struct group_lane *lane, cJSON *request)
{
    struct local_call *local = calloc(1, sizeof *local);
    if (!local) {
        cJSON_Delete(request);
        return -ENOMEM;
    }
    local->call.done = on_local;
    local->client = lane->client;
    local->lane = lane;
    lane->local = local;
    group_coordinator_submit(lane->client->coordinator, request, &local->call);
    return 0;
}

/* Likewise. */
static int send_there(struct group_lane *lane, cJSON *request, int64_t timeout_ms)
{
    struct group_client *client = lane->client;
    struct peer_address address;
    struct buf body;
    buf_init(&body, GROUP_WIRE_MAX);
    int rc = peer_address_find(client->snapshot, lane->leader, &address)
                 ? group_wire_print(request, &body)
                 : E_NO_LEADER;
    cJSON_Delete(request);
    if (rc) {
        buf_free(&body);
        return rc;
    }
    return peer_client_send(client->peers, &lane->call, &address, "/replica/groups",
                            &body, GROUP_WIRE_MAX, timeout_ms);
}

/* Takes the request, NULL: no memory. What it carries is in the lane by now. */
static void send_request(struct group_lane *lane, cJSON *request, int64_t timeout_ms)
{
    struct group_client *client = lane->client;
    struct group_lane was;
    lane->leader = lane->shard->leader;
    lane->leader_epoch = lane->shard->leader_epoch;
    lane->sent_ms = group_client_now(client);
    lane->busy = true;
    int rc = -ENOMEM;
    if (request && lane->leader == client->snapshot->self) {
        rc = send_here(lane, request);
    } else if (request) {
        rc = send_there(lane, request, timeout_ms);
    }
    if (rc) {
        empty(lane, &was);
        give_back(lane, &was);
        back_off(lane);
    }
}

static cJSON *new_request(struct group_lane *lane, int64_t wait_ms)
{
    struct peer_sender from;
    peer_sender_set(&from, lane->client->params.config->cluster,
                    lane->client->snapshot);
    return group_wire_request(&from, lane->shard->index, wait_ms);
}

static bool add_ask(cJSON *request, const struct group_ask *ask)
{
    cJSON *ops = cJSON_GetObjectItemCaseSensitive(request, "ops");
    cJSON *copy = cJSON_Duplicate(ask->op, true);
    if (copy && cJSON_AddItemToArray(ops, copy)) {
        return true;
    }
    cJSON_Delete(copy);
    return false;
}

static size_t count_asks(struct group_ask *list)
{
    const struct group_ask *ask;
    size_t n = 0;
    DL_COUNT(list, ask, n);
    return n < GROUP_IN_LANE_MAX ? n : GROUP_IN_LANE_MAX;
}

void group_lane_send_asks(struct group_lane *lane, struct group_ask **waiting)
{
    if (lane->busy || !*waiting) {
        return;
    }
    size_t count = count_asks(*waiting);
    cJSON *request = new_request(lane, 0);
    lane->asks = calloc(count, sizeof(struct group_ask *));
    if (!lane->asks) {
        cJSON_Delete(request);
        back_off(lane);
        return;
    }
    for (struct group_ask *ask = *waiting;
         ask && request && lane->count < count && add_ask(request, ask);
         ask = *waiting) {
        DL_DELETE(*waiting, ask);
        ask->list = NULL;
        ask->lane = lane;
        lane->asks[lane->count++] = ask;
    }
    if (request && lane->count < count) {
        cJSON_Delete(request);
        request = NULL;
    }
    send_request(lane, request, ANSWER_MS);
}

static size_t count_due(struct group_beater *list)
{
    const struct group_beater *beater;
    size_t n = 0;
    DL_COUNT(list, beater, n);
    return n < GROUP_IN_LANE_MAX ? n : GROUP_IN_LANE_MAX;
}

/* How long the next beat may be parked: well below any session time-out, and to the end
 * of what is parked already, so that both go on as one. */
static int64_t wait_of(const struct group_lane *lane)
{
    const struct group_shard *shard = lane->shard;
    const struct group_beater *beater;
    int64_t now = group_client_now(lane->client);
    int64_t wait = BEAT_WAIT_MAX_MS;
    DL_FOREACH(shard->due, beater)
    {
        int64_t part = beater->session_timeout_ms / BEAT_PARTS;
        wait = part > 0 && part < wait ? part : wait;
    }
    for (size_t i = 0; i < GROUP_BEAT_LANES; i++) {
        const struct group_lane *other = &shard->beat_lanes[i];
        if (other->busy && other->until_ms - now < wait) {
            wait = other->until_ms - now;
        }
    }
    return wait < BEAT_WAIT_MIN_MS ? BEAT_WAIT_MIN_MS : wait;
}

void group_lane_send_beats(struct group_lane *lane)
{
    struct group_shard *shard = lane->shard;
    if (lane->busy || !shard->due) {
        return;
    }
    size_t count = count_due(shard->due);
    int64_t wait = wait_of(lane);
    cJSON *request = new_request(lane, wait);
    lane->beaters = calloc(count, sizeof(struct group_beater *));
    if (!lane->beaters) {
        cJSON_Delete(request);
        back_off(lane);
        return;
    }
    bool good = request != NULL;
    while (lane->count < count) {
        struct group_beater *beater = shard->due;
        DL_DELETE(shard->due, beater);
        beater->lane = lane;
        lane->beaters[lane->count++] = beater;
        cJSON *op = good ? group_wire_add_op(request, "beat", beater->group) : NULL;
        good = op && !beater->fill(beater, op);
    }
    if (!good) {
        cJSON_Delete(request);
        request = NULL;
    }
    lane->until_ms = group_client_now(lane->client) + wait;
    send_request(lane, request, wait + BEAT_MARGIN_MS);
}
