#include "replica/http_groups_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    CONFIG_BYTES_MAX = 64 * 1024,
    OFFSET_BYTES_MAX = 64,
    COMMIT_BYTES_MAX = 1 << 20
};

bool http_groups_enter(struct http_groups *groups, struct http_request *request)
{
    bool ended;

    (void)pthread_mutex_lock(&groups->lock);
    ended = groups->ended;
    if (!ended)
        groups->inside++;
    (void)pthread_mutex_unlock(&groups->lock);
    if (ended)
        http_reply_error(request, E_OFFLINE, "the node stops");
    return !ended;
}

void http_groups_leave(struct http_groups *groups)
{
    (void)pthread_mutex_lock(&groups->lock);
    groups->inside--;
    (void)pthread_cond_broadcast(&groups->left);
    (void)pthread_mutex_unlock(&groups->lock);
}

void *http_groups_enter_with(struct http_request *request, size_t size)
{
    void *context = calloc(1, size);

    if (context == NULL) {
        http_reply_error(request, -ENOMEM, NULL);
    } else if (!http_groups_enter(http_request_argument(request), request)) {
        free(context);
        context = NULL;
    }
    return context;
}

/* A question to the group's coordinator, and the request that waits for it. */
struct ask {
    struct groups_call call; /* first */
    struct http_groups *http;
    struct http_request *request;
    struct groups *groups;
    int error;
    char why[256];
    cJSON *answer;
    /* Of a set_offset, which asks twice. */
    struct topic_id topic_id;
    int32_t partition;
};

static void ask_free(void *context)
{
    struct ask *ask = context;
    struct http_groups *http = ask->http;

    cJSON_Delete(ask->answer);
    free(ask);
    http_groups_leave(http);
}

static void ask_reply(struct http_request *request)
{
    struct ask *ask = http_request_context(request);
    cJSON *answer = ask->answer;

    ask->answer = NULL;
    if (ask->error < 0) {
        cJSON_Delete(answer);
        http_reply_error(request, ask->error, ask->why[0] != '\0' ? ask->why : NULL);
    } else {
        http_reply_json(request, 200, answer != NULL ? answer : cJSON_CreateObject());
    }
}

static void ask_keep(struct ask *ask, int error, const cJSON *answer, const char *why)
{
    ask->error = error;
    (void)snprintf(ask->why, sizeof ask->why, "%s", why != NULL ? why : "");
    if (error == 0 && answer != NULL)
        ask->answer = cJSON_Duplicate(answer, true);
}

static void ask_done(struct groups_call *call, int error, const cJSON *answer,
                     const char *why)
{
    struct ask *ask = (struct ask *)call;

    ask_keep(ask, error, answer, why);
    http_request_continue(ask->request, ask_reply);
}

/* The time is over, or the server stops. */
static void ask_expired(struct http_request *request)
{
    struct ask *ask = http_request_context(request);

    if (groups_call_cancel(ask->groups, &ask->call)) {
        ask->error = E_NO_COORDINATOR;
        http_request_continue(request, ask_reply);
    }
}

/* The request waits from here on; NULL: it is replied to. */
static struct ask *ask_begin(struct http_request *request)
{
    struct http_groups *groups = http_request_argument(request);
    struct ask *ask = http_groups_enter_with(request, sizeof *ask);

    if (ask == NULL)
        return NULL;
    ask->http = groups;
    ask->call.done = ask_done;
    ask->request = request;
    ask->groups = groups->groups;
    http_request_set_context(request, ask, ask_free);
    http_request_wait(request, (int64_t)GROUPS_CALL_MS * 2, ask_expired);
    return ask;
}

/* Whether the user may `want` of topics/, which groups/ goes by, and the group's name
 * is one; else the request is replied to. */
static bool allowed(struct http_request *request, unsigned want)
{
    const struct http_groups *groups = http_request_argument(request);
    const struct http_target *target = http_request_target(request);
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(groups->cluster);
    int rc = http_user_allows(http_request_user(request), snapshot->topics_uid,
                              snapshot->topics_gid, snapshot->topics_mode, want)
                 ? 0
                 : -EACCES;

    cluster_snapshot_put(snapshot);
    if (rc == 0 && target->part_count > 1)
        rc = topic_name_check(target->parts[1]);
    if (rc < 0)
        http_reply_error(request, rc,
                         rc == E_INVALID_NAME ? "no valid name of a group" : NULL);
    return rc == 0;
}

int http_groups_topic(const struct http_groups *groups, const struct http_user *user,
                      const char *name, struct topic_id *out, int *key_delimiter)
{
    const struct cluster_snapshot *snapshot;
    const struct topic *topic;
    int rc = topic_name_check(name);

    if (rc < 0)
        return rc;
    snapshot = cluster_snapshot_get(groups->cluster);
    topic = cluster_snapshot_topic(snapshot, name);
    if (!http_user_allows(user, snapshot->topics_uid, snapshot->topics_gid,
                          snapshot->topics_mode, HTTP_EXECUTE))
        rc = -EACCES;
    if (rc == 0 && topic == NULL)
        rc = E_UNKNOWN_TOPIC;
    if (rc == 0 && !http_user_allows(user, topic->uid, topic->gid, topic->mode,
                                     HTTP_READ | HTTP_EXECUTE))
        rc = -EACCES;
    if (rc == 0 && out != NULL)
        *out = topic->id;
    if (rc == 0 && key_delimiter != NULL)
        *key_delimiter = (int)topic->config.key_delimiter;
    cluster_snapshot_put(snapshot);
    return rc;
}

/* ---- the group as a whole -----------------------------------------------------------
 */

static void list(struct http_request *request)
{
    struct ask *ask = allowed(request, HTTP_READ) ? ask_begin(request) : NULL;

    if (ask != NULL)
        groups_list(ask->groups, &ask->call);
}

static void describe(struct http_request *request)
{
    const char *group = http_request_target(request)->parts[1];
    struct ask *ask = allowed(request, HTTP_EXECUTE) ? ask_begin(request) : NULL;

    if (ask != NULL)
        groups_describe(ask->groups, group, true, &ask->call);
}

static void remove_group(struct http_request *request)
{
    const char *group = http_request_target(request)->parts[1];
    struct ask *ask =
        allowed(request, HTTP_WRITE | HTTP_EXECUTE) ? ask_begin(request) : NULL;

    if (ask != NULL)
        groups_remove(ask->groups, group, &ask->call);
}

static void configure(struct http_request *request)
{
    const char *group = http_request_target(request)->parts[1];
    const struct buf *body = http_request_body(request);
    cJSON *object = NULL;
    struct ask *ask;

    if (!allowed(request, HTTP_WRITE | HTTP_EXECUTE))
        return;
    if (json_parse(body->data != NULL ? body->data : "", body->length, &object) < 0 ||
        !cJSON_IsObject(object)) {
        cJSON_Delete(object);
        http_reply_error(request, E_INVALID_JSON, "the body is a JSON object");
        return;
    }
    ask = ask_begin(request);
    if (ask != NULL)
        groups_configure(ask->groups, group, object, &ask->call);
    cJSON_Delete(object);
}

/* ---- offsets ------------------------------------------------------------------------
 */

static void offset_set(struct http_request *request)
{
    struct ask *ask = http_request_context(request);
    const struct http_target *target = http_request_target(request);
    int64_t offset, leader_epoch;

    if (ask->error < 0 || json_get_i64(ask->answer, "offset", &offset) < 0 ||
        json_get_i64(ask->answer, "leader_epoch", &leader_epoch) < 0) {
        ask_reply(request);
        return;
    }
    ask->call = (struct groups_call){.done = ask_done};
    http_request_wait(request, (int64_t)GROUPS_CALL_MS * 2, ask_expired);
    cJSON_Delete(ask->answer);
    ask->answer = NULL;
    groups_set_offset(ask->groups, target->parts[1], target->parts[3], &ask->topic_id,
                      ask->partition, offset, (int32_t)leader_epoch, &ask->call);
}

static void offset_located(struct groups_call *call, int error, const cJSON *answer,
                           const char *why)
{
    struct ask *ask = (struct ask *)call;

    if (error == E_OFFSET_BELOW_START || error == -ERANGE) {
        why = "the log has no such offset";
        error = -EINVAL;
    }
    ask_keep(ask, error, answer, why);
    http_request_continue(ask->request, offset_set);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* One word with blanks around it, as in the mount's offsets/. */
static int parse_place(const struct buf *body, enum groups_place_kind *kind,
                       int64_t *value)
{
    const char *at = body->data;
    size_t length = body->length;
    char text[OFFSET_BYTES_MAX + 1] = "";

    while (length > 0 && is_blank(at[length - 1]))
        length--;
    for (; length > 0 && is_blank(*at); at++)
        length--;
    if (length == 0 || length > OFFSET_BYTES_MAX || memchr(at, '\0', length) != NULL)
        return -EINVAL;
    memcpy(text, at, length);
    *value = 0;
    if (strcmp(text, "earliest") == 0)
        *kind = GROUPS_PLACE_EARLIEST;
    else if (strcmp(text, "latest") == 0)
        *kind = GROUPS_PLACE_LATEST;
    else if (http_number(text, 0, INT64_MAX, value) == 0)
        *kind = GROUPS_PLACE_OFFSET;
    else
        return -EINVAL;
    return 0;
}

static void set_offset(struct http_request *request)
{
    const struct http_groups *groups = http_request_argument(request);
    const struct http_target *target = http_request_target(request);
    enum groups_place_kind kind;
    struct topic_id topic_id;
    int64_t value, partition;
    struct ask *ask;
    int rc;

    if (!allowed(request, HTTP_EXECUTE))
        return;
    rc = http_groups_topic(groups, http_request_user(request), target->parts[3],
                           &topic_id, NULL);
    if (rc < 0) {
        http_reply_error(request, rc, NULL);
        return;
    }
    if (http_number(target->parts[4], 0, INT32_MAX, &partition) < 0) {
        http_reply_error(request, -EINVAL, "the partition is no number");
        return;
    }
    if (parse_place(http_request_body(request), &kind, &value) < 0) {
        http_reply_error(request, -EINVAL, "the body is an offset, earliest or latest");
        return;
    }
    ask = ask_begin(request);
    if (ask == NULL)
        return;
    ask->call.done = offset_located;
    ask->topic_id = topic_id;
    ask->partition = (int32_t)partition;
    groups_locate(ask->groups, &topic_id, ask->partition, kind, value, &ask->call);
}

/* ---- life ---------------------------------------------------------------------------
 */

int http_groups_new(const struct http_groups_params *params, struct http_groups **out)
{
    struct http_groups *groups = calloc(1, sizeof *groups);

    if (groups == NULL)
        return -ENOMEM;
    groups->cluster = params->cluster;
    groups->groups = params->groups;
    groups->clock = params->clock;
    (void)pthread_mutex_init(&groups->lock, NULL);
    (void)pthread_cond_init(&groups->left, NULL);
    *out = groups;
    return 0;
}

int http_groups_add(struct http_groups *groups, struct http_server *server)
{
    static const struct http_route routes[] = {
        {.method = "GET", .pattern = "/groups", .handler = list},
        {.method = "GET", .pattern = "/groups/*", .handler = describe},
        {.method = "DELETE", .pattern = "/groups/*", .handler = remove_group},
        {.method = "POST",
         .pattern = "/groups/*/config",
         .body_max = CONFIG_BYTES_MAX,
         .handler = configure},
        {.method = "POST",
         .pattern = "/groups/*/offsets/*/*",
         .body_max = OFFSET_BYTES_MAX,
         .handler = set_offset},
        {.method = "POST",
         .pattern = "/groups/*/members",
         .handler = http_members_join},
        {.method = "GET",
         .pattern = "/groups/*/members/*",
         .no_head = true, /* what it gave out would count as seen */
         .handler = http_members_poll},
        {.method = "POST",
         .pattern = "/groups/*/members/*",
         .body_max = COMMIT_BYTES_MAX,
         .handler = http_members_commit},
        {.method = "DELETE",
         .pattern = "/groups/*/members/*",
         .handler = http_members_leave},
    };

    return http_server_add(server, routes, sizeof routes / sizeof routes[0], groups);
}

void http_groups_end(struct http_groups *groups)
{
    if (groups == NULL)
        return;
    (void)pthread_mutex_lock(&groups->lock);
    groups->ended = true;
    (void)pthread_mutex_unlock(&groups->lock);
    groups_interrupt(groups->groups);
    http_members_clear(groups);
    (void)pthread_mutex_lock(&groups->lock);
    while (groups->inside > 0)
        (void)pthread_cond_wait(&groups->left, &groups->lock);
    (void)pthread_mutex_unlock(&groups->lock);
}

void http_groups_free(struct http_groups *groups)
{
    if (groups == NULL)
        return;
    (void)pthread_cond_destroy(&groups->left);
    (void)pthread_mutex_destroy(&groups->lock);
    free(groups);
}
