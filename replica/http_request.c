#include "replica/http_error.h"
#include "replica/http_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct http_request *request_of_timer(struct http_timer *timer)
{
    return (struct http_request *)((char *)timer -
                                   offsetof(struct http_request, timer));
}

static void on_timer(struct http_timer *timer)
{
    struct http_request *request = request_of_timer(timer);

    request->expired(request);
    http_request_unref(request);
}

/* ---- life ---------------------------------------------------------------------------
 */

void *http_request_new(void *arg, const char *target, struct MHD_Connection *connection)
{
    struct http_server *server = arg;
    struct http_request *request = calloc(1, sizeof *request);

    if (request == NULL)
        return NULL;
    request->text = strdup(target);
    request->peer = http_connection_of(connection);
    if (request->text == NULL || request->peer == NULL) {
        free(request->text);
        free(request);
        return NULL;
    }
    atomic_init(&request->references, 1);
    request->server = server;
    request->connection = connection;
    request->timer.fire = on_timer;
    (void)pthread_mutex_init(&request->lock, NULL);
    (void)pthread_mutex_lock(&server->lock);
    server->alive++;
    (void)pthread_mutex_unlock(&server->lock);
    return request;
}

static void request_ref(struct http_request *request)
{
    (void)atomic_fetch_add_explicit(&request->references, 1, memory_order_relaxed);
}

static void request_unref(struct http_request *request, unsigned count)
{
    if (atomic_fetch_sub_explicit(&request->references, count, memory_order_acq_rel) !=
        count)
        return;
    if (request->free_context != NULL)
        request->free_context(request->context);
    if (request->response != NULL)
        MHD_destroy_response(request->response);
    http_user_put(request->user);
    http_target_free(&request->target);
    buf_free(&request->body);
    free(request->text);
    (void)pthread_mutex_destroy(&request->lock);
    free(request);
}

void http_request_unref(struct http_request *request)
{
    request_unref(request, 1);
}

bool http_request_activate(struct http_request *request)
{
    struct http_server *server = request->server;

    (void)pthread_mutex_lock(&server->lock);
    request->counted = !server->stopping;
    server->active += request->counted;
    (void)pthread_mutex_unlock(&server->lock);
    return request->counted;
}

void http_request_settle(struct http_request *request)
{
    struct http_server *server = request->server;

    if (!request->counted)
        return;
    request->counted = false;
    (void)pthread_mutex_lock(&server->lock);
    if (--server->active == 0)
        (void)pthread_cond_broadcast(&server->changed);
    (void)pthread_mutex_unlock(&server->lock);
}

bool http_request_was_delivered(const struct http_request *request)
{
    return request->delivered;
}

bool http_request_is_gone(const struct http_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    char byte;
    ssize_t n =
        info != NULL ? recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : 0;

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* ---- waiting ------------------------------------------------------------------------
 */

void http_request_wait(struct http_request *request, int64_t timeout_ms,
                       http_request_fn *expired)
{
    request_ref(request);
    (void)pthread_mutex_lock(&request->lock);
    request->waiting = true;
    request->expired = expired;
    request->due_ms = clock_mono_ms(request->server->clock) + timeout_ms;
    (void)pthread_mutex_unlock(&request->lock);
}

bool http_request_is_due(const struct http_request *request)
{
    return clock_mono_ms(request->server->clock) >= request->due_ms;
}

void http_request_continue(struct http_request *request, http_request_fn *next)
{
    bool cancelled;

    (void)pthread_mutex_lock(&request->lock);
    request->next = next;
    request->waiting = false;
    cancelled = http_timers_cancel(request->server->timers, &request->timer);
    if (request->parked) {
        request->parked = false;
        MHD_resume_connection(request->connection);
    }
    (void)pthread_mutex_unlock(&request->lock);
    request_unref(request, cancelled ? 2 : 1);
}

/* [request->lock] The handler has returned and waits. The deadline is armed only now,
 * so that `expired` finds the waiter registered. */
static void park(struct http_request *request)
{
    MHD_suspend_connection(request->connection);
    request->parked = true;
    request_ref(request);
    http_timers_arm(request->server->timers, &request->timer, request->due_ms);
}

static enum MHD_Result send_reply(struct http_request *request)
{
    enum MHD_Result result;

    http_request_settle(request);
    if (request->response == NULL)
        return MHD_NO;
    result =
        MHD_queue_response(request->connection, request->status, request->response);
    MHD_destroy_response(request->response);
    request->response = NULL;
    return result;
}

enum MHD_Result http_request_step(struct http_request *request)
{
    while (!request->replied) {
        http_request_fn *next;

        (void)pthread_mutex_lock(&request->lock);
        next = request->next;
        request->next = NULL;
        if (next == NULL && request->waiting) {
            park(request);
            (void)pthread_mutex_unlock(&request->lock);
            return MHD_YES;
        }
        (void)pthread_mutex_unlock(&request->lock);
        if (next != NULL)
            next(request);
        else
            http_reply_refusal(request, MHD_HTTP_INTERNAL_SERVER_ERROR, "NO_ANSWER",
                               "the handler gave no answer");
    }
    return send_reply(request);
}

/* ---- what was asked -----------------------------------------------------------------
 */

const struct http_target *http_request_target(const struct http_request *request)
{
    return &request->target;
}

void *http_request_argument(const struct http_request *request)
{
    return request->argument;
}

const char *http_request_header(const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct buf *http_request_body(struct http_request *request)
{
    return &request->body;
}

const struct http_user *http_request_user(const struct http_request *request)
{
    return request->user;
}

const char *http_request_certificate(const struct http_request *request)
{
    return http_connection_certificate(request->peer, request->connection);
}

bool http_request_is_encrypted(const struct http_request *request)
{
    return request->server->tls.certificate != NULL;
}

bool http_request_is_loopback(const struct http_request *request)
{
    return request->peer->loopback;
}

void http_request_set_context(struct http_request *request, void *context,
                              void (*free_context)(void *context))
{
    request->context = context;
    request->free_context = free_context;
}

void *http_request_context(const struct http_request *request)
{
    return request->context;
}

/* ---- replying -----------------------------------------------------------------------
 */

void http_reply(struct http_request *request, unsigned status,
                struct MHD_Response *response)
{
    request->replied = true;
    request->status = status;
    request->response = response;
    if (response != NULL)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL,
                                      "no-store");
}

struct MHD_Response *http_response_of(struct buf *text, const char *type)
{
    struct MHD_Response *response = NULL;
    size_t length = 0;
    char *bytes;

    if (buf_error(text) == 0) {
        bytes = buf_take(text, &length);
        response = MHD_create_response_from_buffer(
            length, bytes,
            bytes != NULL ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
        if (response == NULL)
            free(bytes);
    }
    buf_free(text);
    if (response != NULL && type != NULL)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return response;
}

void http_reply_number(struct http_request *request, const char *name, int64_t value)
{
    char text[24];

    if (request->response == NULL)
        return;
    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    (void)MHD_add_response_header(request->response, name, text);
}

void http_reply_text(struct http_request *request, unsigned status, const char *type,
                     struct buf *text)
{
    int rc = buf_error(text);

    if (rc < 0) {
        buf_free(text);
        http_reply_error(request, rc == -EMSGSIZE ? -EOVERFLOW : rc, NULL);
        return;
    }
    http_reply(request, status, http_response_of(text, type));
}

void http_reply_json(struct http_request *request, unsigned status, cJSON *object)
{
    char *printed = object != NULL ? cJSON_PrintUnformatted(object) : NULL;
    struct buf text;

    cJSON_Delete(object);
    buf_init(&text, SIZE_MAX / 2);
    if (printed == NULL) {
        http_reply_error(request, -ENOMEM, NULL);
        return;
    }
    buf_adds(&text, printed);
    buf_adds(&text, "\n");
    cJSON_free(printed);
    http_reply_text(request, status, "application/json", &text);
}

static void reply_failure(struct http_request *request, unsigned status,
                          const char *name, int wire, const char *message)
{
    struct MHD_Response *response;
    struct buf text;

    buf_init(&text, 8192);
    (void)http_error_render(&text, name, wire, message);
    response = http_response_of(&text, "application/json");
    if (response != NULL && status == MHD_HTTP_SERVICE_UNAVAILABLE)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (response != NULL && status == MHD_HTTP_UNAUTHORIZED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                      "Bearer realm=\"topicfs\"");
    http_reply(request, status, response);
}

void http_reply_error(struct http_request *request, int code, const char *why)
{
    reply_failure(request, http_error_status(code), http_error_name(code),
                  err_wire(code), why != NULL && *why != '\0' ? why : err_text(code));
}

void http_reply_refusal(struct http_request *request, unsigned status, const char *name,
                        const char *why)
{
    reply_failure(request, status, name, -1, why);
}
