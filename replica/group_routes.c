#include "replica/group_routes.h"

#include "replica/group_locate.h"
#include "replica/peer_access.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The coordinator answers sooner; this is for when it can't. */
enum { ANSWER_MS = 30000, WAIT_MAX_MS = 30000 };

#define GROUP_TYPE "application/json"

struct group_routes {
    const struct mount_config *config; /* [const] */
    struct broker *broker;             /* [const] */
    char key[PEER_KEY_MAX + 1];        /* [const] */
    pthread_mutex_t lock;              /* held during a submit, which does not wait */
    struct group_coordinator *coordinator; /* [lock] NULL: it ends */
};

/* Counted: the request holds one reference, the coordinator another. */
struct group_task {
    struct coordinator_call call; /* first */
    atomic_uint references;
    atomic_bool ended;            /* the wait; whoever sets it continues the request */
    struct http_request *request; /* valid until it is continued */
    cJSON *answer;                /* owned; written before `ended` is set */
};

static void task_unref(struct group_task *task)
{
    if (atomic_fetch_sub(&task->references, 1) == 1) {
        cJSON_Delete(task->answer);
        free(task);
    }
}

static void task_free(void *context)
{
    task_unref(context);
}

/* Takes the answer; NULL: there was no memory for it. */
static void reply(struct http_request *request, cJSON *answer)
{
    struct buf text;
    buf_init(&text, GROUP_WIRE_MAX);
    int rc = answer ? group_wire_print(answer, &text) : -ENOMEM;
    cJSON_Delete(answer);
    if (rc) {
        buf_free(&text);
        http_reply_error(request, rc, NULL);
        return;
    }
    http_reply_text(request, 200, GROUP_TYPE, &text);
}

static void groups_reply(struct http_request *request)
{
    struct group_task *task = http_request_context(request);
    cJSON *answer = task->answer;
    task->answer = NULL;
    reply(request, answer);
}

static void refusal_reply(struct http_request *request)
{
    reply(request, group_wire_answer(E_NOT_COORDINATOR, "no answer in time"));
}

static void on_answer(struct coordinator_call *call, cJSON *answer)
{
    struct group_task *task = (struct group_task *)call;
    task->answer = answer;
    if (!atomic_exchange(&task->ended, true)) {
        http_request_continue(task->request, groups_reply);
    }
    task_unref(task);
}

static void on_expired(struct http_request *request)
{
    struct group_task *task = http_request_context(request);
    if (!atomic_exchange(&task->ended, true)) {
        http_request_continue(request, refusal_reply);
    }
}

/* ---- requests -----------------------------------------------------------------------
 */

/* NULL: the request was refused. */
static cJSON *understand(struct http_request *request,
                         const struct group_routes *routes)
{
    const struct buf *body = http_request_body(request);
    cJSON *object = NULL;
    if (!peer_access_allowed(request, routes->key)) {
        http_reply_error(request, -EACCES, "not a node of this cluster");
        return NULL;
    }
    int rc = group_wire_parse(body->data ? body->data : "", body->length, &object);
    if (rc) {
        reply(request, group_wire_answer(rc, err_text(rc)));
        return NULL;
    }
    const cJSON *cluster = cJSON_GetObjectItemCaseSensitive(object, "cluster");
    if (!cJSON_IsString(cluster) ||
        strcmp(cluster->valuestring, routes->config->cluster) != 0) {
        http_reply_error(request, -EACCES, "a node of another cluster");
        cJSON_Delete(object);
        object = NULL;
    }
    return object;
}

static void submit(struct group_routes *routes, cJSON *object, struct group_task *task)
{
    pthread_mutex_lock(&routes->lock);
    bool there = routes->coordinator != NULL;
    if (there) {
        group_coordinator_submit(routes->coordinator, object, &task->call);
    }
    pthread_mutex_unlock(&routes->lock);
    if (!there) {
        cJSON_Delete(object);
        on_answer(&task->call, group_wire_answer(E_NOT_COORDINATOR, "this node stops"));
    }
}

static void groups_handle(struct http_request *request)
{
    struct group_routes *routes = http_request_argument(request);
    struct group_wire_head head;
    cJSON *object = understand(request, routes);
    struct group_task *task = object ? calloc(1, sizeof *task) : NULL;
    if (!task) {
        if (object) {
            cJSON_Delete(object);
            http_reply_error(request, -ENOMEM, NULL);
        }
        return;
    }
    int64_t wait_ms =
        group_wire_get_request(object, &head) == 0 && head.wait_ms < WAIT_MAX_MS
            ? head.wait_ms
            : WAIT_MAX_MS;
    task->call.done = on_answer;
    task->request = request;
    atomic_init(&task->references, 2);
    http_request_set_context(request, task, task_free);
    http_request_wait(request, wait_ms + ANSWER_MS, on_expired);
    submit(routes, object, task);
}

static void locate_handle(struct http_request *request)
{
    const struct group_routes *routes = http_request_argument(request);
    cJSON *object = understand(request, routes);
    if (object) {
        cJSON *answer = group_locate_answer(routes->broker, object);
        cJSON_Delete(object);
        reply(request, answer);
    }
}

/* ---- life ---------------------------------------------------------------------------
 */

static const struct http_route routes_served[] = {
    {.method = "POST",
     .pattern = "/replica/groups",
     .access = HTTP_ROUTE_DECIDES,
     .body_max = GROUP_WIRE_MAX,
     .handler = groups_handle},
    {.method = "POST",
     .pattern = "/replica/locate",
     .access = HTTP_ROUTE_DECIDES,
     .body_max = GROUP_WIRE_MAX,
     .handler = locate_handle},
};

int group_routes_new(const struct group_routes_params *params,
                     struct group_routes **out, char *why, size_t why_size)
{
    struct group_routes *routes = calloc(1, sizeof *routes);
    *out = NULL;
    int rc = routes ? peer_access_key(params->config, routes->key) : -ENOMEM;
    if (rc < 0) {
        (void)snprintf(why, why_size, "cluster_key=%s: %s", params->config->cluster_key,
                       err_text(rc));
        free(routes);
        return rc;
    }
    routes->config = params->config;
    routes->broker = params->broker;
    routes->coordinator = params->coordinator;
    pthread_mutex_init(&routes->lock, NULL);
    *out = routes;
    return 0;
}

int group_routes_add(struct group_routes *routes, struct http_server *server)
{
    return http_server_add(server, routes_served,
                           sizeof routes_served / sizeof routes_served[0], routes);
}

void group_routes_end(struct group_routes *routes)
{
    if (routes) {
        pthread_mutex_lock(&routes->lock);
        routes->coordinator = NULL;
        pthread_mutex_unlock(&routes->lock);
    }
}

void group_routes_free(struct group_routes *routes)
{
    if (routes) {
        pthread_mutex_destroy(&routes->lock);
        free(routes);
    }
}
