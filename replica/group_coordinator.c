#include "replica/group_coordinator.h"

#include "replica/group_shard.h"

#include <stdlib.h>
#include <time.h>
#include <utlist.h>

enum { INBOX_MAX = 100000 };

struct inbox_item {
    struct group_request *request;
    bool survey;
    struct inbox_item *prev, *next;
};

struct group_coordinator {
    struct groups_params params; /* [const] */
    pthread_t thread;            /* [const] */
    pthread_mutex_t lock;        /* a leaf: held for moments */
    pthread_cond_t wake;
    struct inbox_item *inbox;   /* [lock] */
    size_t inbox_count;         /* [lock] */
    bool poked;                 /* [lock] there is something to look at */
    bool stopping;              /* [lock] */
    struct group_shard *shards; /* [thread] and the appends' ends [lock] */
    int64_t revision;           /* [thread] of the last snapshot */
};

/* ---- from other threads -------------------------------------------------------------
 */

static void poke(struct group_coordinator *coordinator)
{
    pthread_mutex_lock(&coordinator->lock);
    coordinator->poked = true;
    pthread_cond_signal(&coordinator->wake);
    pthread_mutex_unlock(&coordinator->lock);
}

static void on_change(void *arg, const struct cluster_snapshot *snapshot)
{
    (void)snapshot;
    poke(arg);
}

static void on_append_ended(struct group_append *append,
                            const struct produce_result *result)
{
    struct group_coordinator *coordinator = append->arg;
    pthread_mutex_lock(&coordinator->lock);
    append->result = *result;
    append->done = true;
    coordinator->poked = true;
    pthread_cond_signal(&coordinator->wake);
    pthread_mutex_unlock(&coordinator->lock);
}

/* false: it was not taken. */
static bool enqueue(struct group_coordinator *coordinator, struct inbox_item *item)
{
    pthread_mutex_lock(&coordinator->lock);
    bool taken = !coordinator->stopping && coordinator->inbox_count < INBOX_MAX;
    if (taken) {
        DL_APPEND(coordinator->inbox, item);
        coordinator->inbox_count++;
        coordinator->poked = true;
        pthread_cond_signal(&coordinator->wake);
    }
    pthread_mutex_unlock(&coordinator->lock);
    return taken;
}

static void submit(struct group_coordinator *coordinator, cJSON *object, bool survey,
                   struct coordinator_call *call)
{
    struct inbox_item *item = calloc(1, sizeof *item);
    struct group_request *request = group_request_new(object, call);
    if (item) {
        *item = (struct inbox_item){.request = request, .survey = survey};
    }
    if (!item || !request) {
        free(item);
        if (request) {
            group_request_answer(request, NULL);
        } else {
            call->done(call, NULL);
        }
    } else if (!enqueue(coordinator, item)) {
        free(item);
        group_request_refuse(request, E_NOT_COORDINATOR, "too much waits, or it ends");
    }
}

void group_coordinator_submit(struct group_coordinator *coordinator, cJSON *request,
                              struct coordinator_call *call)
{
    submit(coordinator, request, false, call);
}

void group_coordinator_survey(struct group_coordinator *coordinator,
                              struct coordinator_call *call)
{
    submit(coordinator, NULL, true, call);
}

/* ---- the thread ---------------------------------------------------------------------
 */

static void survey(struct group_coordinator *coordinator, struct group_request *request)
{
    cJSON *answer = cJSON_CreateObject();
    cJSON *array = cJSON_AddArrayToObject(answer, "groups");
    int rc = array ? 0 : -ENOMEM;
    for (int32_t i = 0; i < GROUP_SHARDS && !rc; i++) {
        rc = group_shard_describe(&coordinator->shards[i], array);
    }
    if (rc) {
        cJSON_Delete(answer);
        answer = NULL;
    }
    group_request_answer(request, answer);
}

static void take_request(struct group_coordinator *coordinator,
                         const struct group_shard_env *env,
                         struct group_request *request)
{
    int rc = group_wire_get_request(request->object, &request->head);
    int32_t index = rc ? 0 : request->head.shard;
    if (rc) {
        group_request_refuse(request, rc, "malformed");
    } else if (index < 0 || index >= GROUP_SHARDS) {
        group_request_refuse(request, E_NOT_COORDINATOR, "there is no such shard");
    } else {
        group_shard_submit(&coordinator->shards[index], env, request);
    }
}

static void take_inbox(struct group_coordinator *coordinator,
                       const struct group_shard_env *env, struct inbox_item *inbox)
{
    struct inbox_item *item;
    struct inbox_item *next;
    DL_FOREACH_SAFE(inbox, item, next)
    {
        DL_DELETE(inbox, item);
        if (item->survey) {
            survey(coordinator, item->request);
        } else {
            take_request(coordinator, env, item->request);
        }
        free(item);
    }
}

/* The end of the shard's append, once. */
static bool take_ended(struct group_coordinator *coordinator, struct group_shard *shard,
                       struct produce_result *result)
{
    if (group_shard_is_quiet(shard)) {
        return false;
    }
    pthread_mutex_lock(&coordinator->lock);
    bool done = shard->append.done;
    shard->append.done = false;
    *result = shard->append.result;
    pthread_mutex_unlock(&coordinator->lock);
    return done;
}

/* Everything once; until when there is nothing to do, by the clock of the params. */
static int64_t step(struct group_coordinator *coordinator, struct inbox_item *inbox)
{
    const struct groups_params *params = &coordinator->params;
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(params->cluster);
    const struct group_shard_env env = {
        .broker = params->broker,
        .problems = params->problems,
        .defaults = &params->config->group,
        .snapshot = snapshot,
        .topic = cluster_snapshot_topic(snapshot, GROUPS_TOPIC),
        .now_ms = clock_mono_ms(params->clock),
        .wall_ms = params->clock->wall_ms(params->clock),
    };
    int64_t next_ms = INT64_MAX;
    bool news = snapshot->revision != coordinator->revision;
    coordinator->revision = snapshot->revision;
    take_inbox(coordinator, &env, inbox);
    for (int32_t i = 0; i < GROUP_SHARDS; i++) {
        struct group_shard *shard = &coordinator->shards[i];
        struct produce_result result;
        bool ended = take_ended(coordinator, shard, &result);
        if (news) {
            group_shard_news(shard);
        }
        int64_t shard_ms = group_shard_step(shard, &env, ended ? &result : NULL);
        next_ms = shard_ms < next_ms ? shard_ms : next_ms;
    }
    cluster_snapshot_put(snapshot);
    return next_ms;
}

/* [lock] */
static void sleep_until(struct group_coordinator *coordinator, int64_t until_ms)
{
    int64_t left_ms = until_ms - clock_mono_ms(coordinator->params.clock);
    struct timespec until;
    if (coordinator->poked || coordinator->stopping || left_ms <= 0) {
        return;
    }
    /* The clock may be another than the condition's: it is looked at now and then. */
    left_ms = left_ms < 1000 ? left_ms : 1000;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += left_ms / 1000;
    until.tv_nsec += left_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&coordinator->wake, &coordinator->lock, &until);
}

static void refuse_inbox(struct group_coordinator *coordinator,
                         struct inbox_item *inbox)
{
    struct inbox_item *item;
    struct inbox_item *next;
    DL_FOREACH_SAFE(inbox, item, next)
    {
        DL_DELETE(inbox, item);
        coordinator->inbox_count--;
        group_request_refuse(item->request, E_NOT_COORDINATOR, "this node stops");
        free(item);
    }
}

/* Appends that can't be cancelled are about to end. */
static void end_shards(struct group_coordinator *coordinator)
{
    for (int32_t i = 0; i < GROUP_SHARDS; i++) {
        struct group_shard *shard = &coordinator->shards[i];
        group_shard_drop(shard, 0, false, "this node stops");
        pthread_mutex_lock(&coordinator->lock);
        while (!group_shard_is_quiet(shard) && !shard->append.done) {
            (void)pthread_cond_wait(&coordinator->wake, &coordinator->lock);
        }
        pthread_mutex_unlock(&coordinator->lock);
        group_shard_end(shard);
    }
}

static void *coordinator_main(void *arg)
{
    struct group_coordinator *coordinator = arg;
    int64_t next_ms = 0;
    pthread_mutex_lock(&coordinator->lock);
    while (!coordinator->stopping) {
        struct inbox_item *inbox = coordinator->inbox;
        coordinator->inbox = NULL;
        coordinator->inbox_count = 0;
        coordinator->poked = false;
        pthread_mutex_unlock(&coordinator->lock);
        next_ms = step(coordinator, inbox);
        pthread_mutex_lock(&coordinator->lock);
        sleep_until(coordinator, next_ms);
    }
    struct inbox_item *inbox = coordinator->inbox;
    coordinator->inbox = NULL;
    pthread_mutex_unlock(&coordinator->lock);
    refuse_inbox(coordinator, inbox);
    end_shards(coordinator);
    return NULL;
}

/* ---- life ---------------------------------------------------------------------------
 */

static void free_coordinator(struct group_coordinator *coordinator)
{
    pthread_cond_destroy(&coordinator->wake);
    pthread_mutex_destroy(&coordinator->lock);
    free(coordinator->shards);
    free(coordinator);
}

static struct group_coordinator *make(const struct groups_params *params)
{
    struct group_coordinator *coordinator = calloc(1, sizeof *coordinator);
    pthread_condattr_t attributes;
    if (!coordinator) {
        return NULL;
    }
    coordinator->params = *params;
    coordinator->revision = -1;
    pthread_mutex_init(&coordinator->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&coordinator->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    coordinator->shards = calloc(GROUP_SHARDS, sizeof *coordinator->shards);
    if (!coordinator->shards) {
        free_coordinator(coordinator);
        return NULL;
    }
    for (int32_t i = 0; i < GROUP_SHARDS; i++) {
        group_shard_init(&coordinator->shards[i], i, on_append_ended, coordinator);
    }
    return coordinator;
}

int group_coordinator_start(const struct groups_params *params,
                            struct group_coordinator **out)
{
    struct group_coordinator *coordinator = make(params);
    int rc = coordinator ? 0 : -ENOMEM;
    *out = NULL;
    rc = rc ? rc : cluster_subscribe(params->cluster, on_change, coordinator);
    if (rc) {
        if (coordinator) {
            free_coordinator(coordinator);
        }
        return rc;
    }
    rc = -pthread_create(&coordinator->thread, NULL, coordinator_main, coordinator);
    if (rc) {
        cluster_unsubscribe(params->cluster, on_change, coordinator);
        free_coordinator(coordinator);
        return rc;
    }
    *out = coordinator;
    return 0;
}

void group_coordinator_stop(struct group_coordinator *coordinator)
{
    if (!coordinator) {
        return;
    }
    cluster_unsubscribe(coordinator->params.cluster, on_change, coordinator);
    pthread_mutex_lock(&coordinator->lock);
    coordinator->stopping = true;
    pthread_cond_signal(&coordinator->wake);
    pthread_mutex_unlock(&coordinator->lock);
    pthread_join(coordinator->thread, NULL);
    free_coordinator(coordinator);
}
