/* Asking and changing groups: each call is asks of coordinators, then searches. */
#include "replica/groups_ends.h"
#include "replica/groups_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    PART_MS = 1000
}; /* what may be left out of an answer is not waited for longer */

struct call_ask {
    struct group_ask ask; /* first */
    struct groups_call_state *state;
};

struct groups_call_state {
    struct groups *groups;
    struct groups_call *call; /* [groups->lock] NULL: nobody waits any more */
    void (*begin)(struct groups_call_state *state);
    char *group;
    cJSON *op; /* until it is asked */
    bool ends;
    struct call_ask *asks;
    size_t asks_left;
    size_t ask_count;
    struct group_search search;
    bool searching;
    struct ends_query query;
    cJSON *result;
    struct groups_call_state *prev, *next;
};

/* ---- ends ---------------------------------------------------------------------------
 */

static void free_state(struct groups_call_state *state)
{
    struct groups *groups = state->groups;
    for (size_t i = 0; i < state->ask_count; i++) {
        group_client_cancel(groups->client, &state->asks[i].ask);
    }
    if (state->searching) {
        group_locator_cancel(groups->locator, &state->search);
    }
    ends_query_free(&state->query);
    cJSON_Delete(state->op);
    cJSON_Delete(state->result);
    free(state->asks);
    free(state->group);
    free(state);
}

/* [thread] The answer is the state's result. The state is gone then. */
static void finish(struct groups_call_state *state, int error, const char *why)
{
    struct groups *groups = state->groups;
    DL_DELETE(groups->calls, state);
    pthread_mutex_lock(&groups->lock);
    struct groups_call *call = state->call;
    if (call) {
        call->state = NULL;
        state->call = NULL;
    }
    pthread_mutex_unlock(&groups->lock);
    if (call) {
        call->done(call, error, error ? NULL : state->result, why);
    }
    free_state(state);
}

static void finish_result(struct groups_call_state *state)
{
    finish(state, state->result ? 0 : -ENOMEM, "");
}

bool groups_call_cancel(struct groups *groups, struct groups_call *call)
{
    pthread_mutex_lock(&groups->lock);
    struct groups_call_state *state = call->state;
    if (state) {
        state->call = NULL;
        call->state = NULL;
    }
    pthread_mutex_unlock(&groups->lock);
    return state != NULL;
}

/* ---- beginning ----------------------------------------------------------------------
 */

/* NULL: no memory, and the call has ended. */
static struct groups_call_state *new_state(struct groups *groups,
                                           struct groups_call *call, const char *group,
                                           void (*begin)(struct groups_call_state *))
{
    struct groups_call_state *state = calloc(1, sizeof *state);
    call->state = NULL;
    if (state) {
        state->groups = groups;
        state->call = call;
        state->begin = begin;
        state->group = strdup(group);
    }
    if (!state || !state->group) {
        free(state);
        call->done(call, -ENOMEM, NULL, "");
        return NULL;
    }
    return state;
}

static void submit(struct groups_call_state *state)
{
    struct groups *groups = state->groups;
    struct groups_call *call = state->call;
    pthread_mutex_lock(&groups->lock);
    bool closed = groups->closed;
    if (!closed) {
        call->state = state;
        DL_APPEND(groups->new_calls, state);
    }
    pthread_mutex_unlock(&groups->lock);
    if (closed) {
        free_state(state);
        call->done(call, E_OFFLINE, NULL, "");
    } else {
        group_client_wake(groups->client);
    }
}

static cJSON *new_op(const char *name, const char *group)
{
    cJSON *op = cJSON_CreateObject();
    bool good = cJSON_AddStringToObject(op, "op", name) != NULL;
    good = good && (!group || cJSON_AddStringToObject(op, "group", group));
    if (!good) {
        cJSON_Delete(op);
        op = NULL;
    }
    return op;
}

/* Makes room for the asks. false: no memory, and the call has ended. */
static bool prepare(struct groups_call_state *state, size_t count)
{
    state->asks = calloc(count, sizeof *state->asks);
    if (!state->asks) {
        finish(state, -ENOMEM, "");
        return false;
    }
    state->ask_count = count;
    state->asks_left = count;
    for (size_t i = 0; i < count; i++) {
        state->asks[i].state = state;
    }
    return true;
}

static int64_t call_deadline(const struct groups_call_state *state)
{
    return groups_now(state->groups) + GROUPS_CALL_MS;
}

static struct groups_call_state *state_of(struct group_ask *ask)
{
    return ((struct call_ask *)ask)->state;
}

/* ---- list ---------------------------------------------------------------------------
 */

static int compare_names(const void *a, const void *b)
{
    const cJSON *const *left = a;
    const cJSON *const *right = b;
    return strcmp((*left)->valuestring, (*right)->valuestring);
}

static void sort_names(cJSON *names)
{
    int count = cJSON_GetArraySize(names);
    cJSON **list = count > 0 ? calloc((size_t)count, sizeof(cJSON *)) : NULL;
    for (int i = 0; list && i < count; i++) {
        list[i] = cJSON_DetachItemFromArray(names, 0);
    }
    if (list) {
        qsort(list, (size_t)count, sizeof(cJSON *), compare_names);
    }
    for (int i = 0; list && i < count; i++) {
        (void)cJSON_AddItemToArray(names, list[i]);
    }
    free(list);
}

static void on_listed(struct group_ask *ask, int error, const cJSON *answer,
                      const char *why)
{
    struct groups_call_state *state = state_of(ask);
    const cJSON *names =
        error ? NULL : cJSON_GetObjectItemCaseSensitive(answer, "groups");
    const cJSON *name = NULL;
    (void)why;
    cJSON_ArrayForEach(name, names)
    {
        if (cJSON_IsString(name)) {
            (void)cJSON_AddItemToArray(state->result,
                                       cJSON_CreateString(name->valuestring));
        }
    }
    if (--state->asks_left == 0) {
        sort_names(state->result);
        finish_result(state);
    }
}

static void begin_list(struct groups_call_state *state)
{
    struct groups *groups = state->groups;
    int32_t shards = group_client_shards(groups->client);
    state->result = cJSON_CreateArray();
    if (!state->result || shards == 0) {
        finish_result(state);
        return;
    }
    if (!prepare(state, (size_t)shards)) {
        return;
    }
    for (int32_t i = 0; i < shards; i++) {
        struct group_ask *ask = &state->asks[i].ask;
        *ask = (struct group_ask){.done = on_listed,
                                  .op = new_op("list", NULL),
                                  .shard = i,
                                  .deadline_ms = groups_now(groups) + PART_MS,
                                  .question = true};
        group_client_ask(groups->client, ask);
    }
}

void groups_list(struct groups *groups, struct groups_call *call)
{
    struct groups_call_state *state = new_state(groups, call, "", begin_list);
    if (state) {
        submit(state);
    }
}

/* ---- describe -----------------------------------------------------------------------
 */

static void on_ends(struct ends_query *query)
{
    finish_result(
        (struct groups_call_state *)((char *)query -
                                     offsetof(struct groups_call_state, query)));
}

static void add_ends(struct groups_call_state *state)
{
    struct groups *groups = state->groups;
    if (!state->result || !state->ends) {
        finish_result(state);
        return;
    }
    ends_query_init(&state->query, groups, on_ends);
    if (ends_query_add(&state->query, state->result)) {
        finish(state, -ENOMEM, "");
    } else if (!ends_query_run(&state->query, groups_now(groups) + PART_MS)) {
        finish_result(state);
    }
}

static void on_described(struct group_ask *ask, int error, const cJSON *answer,
                         const char *why)
{
    struct groups_call_state *state = state_of(ask);
    const cJSON *group = cJSON_GetObjectItemCaseSensitive(answer, "group");
    if (error || !cJSON_IsObject(group)) {
        finish(state, error ? error : -EBADMSG, why);
        return;
    }
    state->result = cJSON_Duplicate(group, true);
    add_ends(state);
}

/* There are no groups yet, and this one looks as any does that is not used. */
static cJSON *describe_unused(const struct groups_call_state *state)
{
    struct group_core *core =
        group_core_new(state->group, &state->groups->params.config->group);
    cJSON *group = core ? group_core_describe(core) : NULL;
    group_core_free(core);
    return group;
}

static void begin_describe(struct groups_call_state *state)
{
    struct groups *groups = state->groups;
    if (group_client_shards(groups->client) == 0) {
        state->result = describe_unused(state);
        finish_result(state);
        return;
    }
    if (prepare(state, 1)) {
        state->asks[0].ask = (struct group_ask){.done = on_described,
                                                .op = new_op("describe", state->group),
                                                .shard = -1,
                                                .deadline_ms = call_deadline(state),
                                                .question = true};
        group_client_ask(groups->client, &state->asks[0].ask);
    }
}

void groups_describe(struct groups *groups, const char *group, bool ends,
                     struct groups_call *call)
{
    struct groups_call_state *state = new_state(groups, call, group, begin_describe);
    if (state) {
        state->ends = ends;
        submit(state);
    }
}

/* ---- changes ------------------------------------------------------------------------
 */

static void on_changed(struct group_ask *ask, int error, const cJSON *answer,
                       const char *why)
{
    struct groups_call_state *state = state_of(ask);
    (void)answer;
    if (!error) {
        state->result = cJSON_CreateObject();
        error = state->result ? 0 : -ENOMEM;
    }
    finish(state, error, why);
}

static void change(struct groups_call_state *state, bool creates,
                   void (*done)(struct group_ask *, int, const cJSON *, const char *))
{
    cJSON *op = state->op;
    if (!op) {
        finish(state, -ENOMEM, "");
        return;
    }
    if (prepare(state, 1)) {
        state->op = NULL;
        state->asks[0].ask = (struct group_ask){.done = done,
                                                .op = op,
                                                .shard = -1,
                                                .deadline_ms = call_deadline(state),
                                                .creates = creates};
        group_client_ask(state->groups->client, &state->asks[0].ask);
    }
}

static void begin_set_offset(struct groups_call_state *state)
{
    change(state, true, on_changed);
}

void groups_set_offset(struct groups *groups, const char *group, const char *topic,
                       const struct topic_id *topic_id, int32_t partition,
                       int64_t offset, int32_t leader_epoch, struct groups_call *call)
{
    struct groups_call_state *state = new_state(groups, call, group, begin_set_offset);
    if (!state) {
        return;
    }
    cJSON *op = new_op("set_offset", group);
    if (op && (group_wire_add_topic(op, topic, topic_id) ||
               json_add_i64(op, "partition", partition) ||
               json_add_i64(op, "offset", offset) ||
               json_add_i64(op, "leader_epoch", leader_epoch))) {
        cJSON_Delete(op);
        op = NULL;
    }
    state->op = op;
    submit(state);
}

static void begin_remove(struct groups_call_state *state)
{
    if (group_client_shards(state->groups->client) == 0) {
        state->result = cJSON_CreateObject();
        finish_result(state);
        return;
    }
    change(state, false, on_changed);
}

void groups_remove(struct groups *groups, const char *group, struct groups_call *call)
{
    struct groups_call_state *state = new_state(groups, call, group, begin_remove);
    if (state) {
        state->op = new_op("remove", group);
        submit(state);
    }
}

static void on_config(struct group_ask *ask, int error, const cJSON *answer,
                      const char *why)
{
    struct groups_call_state *state = state_of(ask);
    const cJSON *group = cJSON_GetObjectItemCaseSensitive(answer, "group");
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(group, "config");
    if (!error) {
        state->result = cJSON_Duplicate(config, true);
        error = state->result ? 0 : -ENOMEM;
    }
    finish(state, error, why);
}

static void on_configured(struct group_ask *ask, int error, const cJSON *answer,
                          const char *why)
{
    struct groups_call_state *state = state_of(ask);
    cJSON *op = error ? NULL : new_op("describe", state->group);
    (void)answer;
    if (!op) {
        finish(state, error ? error : -ENOMEM, why);
        return;
    }
    ask->done = on_config;
    ask->op = op;
    ask->question = true;
    group_client_ask(state->groups->client, ask);
}

static void begin_configure(struct groups_call_state *state)
{
    change(state, true, on_configured);
}

void groups_configure(struct groups *groups, const char *group, const cJSON *object,
                      struct groups_call *call)
{
    struct groups_call_state *state = new_state(groups, call, group, begin_configure);
    if (!state) {
        return;
    }
    cJSON *copy = cJSON_Duplicate(object, true);
    state->op = new_op("configure", group);
    if (!copy || !cJSON_AddItemToObject(state->op, "config", copy)) {
        cJSON_Delete(copy);
        cJSON_Delete(state->op);
        state->op = NULL;
    }
    submit(state);
}

/* ---- places -------------------------------------------------------------------------
 */

static cJSON *found_to_json(const struct group_found *found)
{
    cJSON *object = cJSON_CreateObject();
    if (json_add_i64(object, "offset", found->offset) ||
        json_add_i64(object, "leader_epoch", found->leader_epoch) ||
        json_add_i64(object, "log_start", found->log_start) ||
        json_add_i64(object, "high_watermark", found->high_watermark)) {
        cJSON_Delete(object);
        object = NULL;
    }
    return object;
}

static void on_located(struct group_search *search, const struct group_found *found)
{
    struct groups_call_state *state =
        (struct groups_call_state *)((char *)search -
                                     offsetof(struct groups_call_state, search));
    state->searching = false;
    if (found->error) {
        finish(state, found->error, "");
        return;
    }
    state->result = found_to_json(found);
    finish_result(state);
}

static void begin_locate(struct groups_call_state *state)
{
    state->search.done = on_located;
    state->search.deadline_ms = call_deadline(state);
    state->searching = true;
    group_locator_find(state->groups->locator, &state->search);
}

void groups_locate(struct groups *groups, const struct topic_id *topic_id,
                   int32_t partition, enum groups_place_kind kind, int64_t value,
                   struct groups_call *call)
{
    struct groups_call_state *state = new_state(groups, call, "", begin_locate);
    if (state) {
        state->search.place = (struct group_place){.topic_id = *topic_id,
                                                   .partition = partition,
                                                   .kind = kind,
                                                   .value = value};
        submit(state);
    }
}

/* ---- running ------------------------------------------------------------------------
 */

static void take_new(struct groups *groups)
{
    pthread_mutex_lock(&groups->lock);
    struct groups_call_state *news = groups->new_calls;
    groups->new_calls = NULL;
    pthread_mutex_unlock(&groups->lock);
    while (news) {
        struct groups_call_state *state = news;
        DL_DELETE(news, state);
        DL_APPEND(groups->calls, state);
        state->begin(state);
    }
}

void groups_calls_end(struct groups *groups, int error)
{
    while (groups->calls) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it leaves the list */
        finish(groups->calls, error, "");
    }
}

void groups_calls_step(struct groups *groups)
{
    if (groups_is_interrupted(groups)) {
        take_new(groups);
        groups_calls_end(groups, E_OFFLINE);
    } else {
        take_new(groups);
    }
}
