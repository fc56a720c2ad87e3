#include "replica/http_internal.h"
#include "replica/http_listen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    POOL_THREADS = 4,
    CONNECTION_BYTES = 64 * 1024,
    CONNECTIONS_MIN = 64,
    CONNECTIONS_MAX = 4096,
    FILES_WANTED = 16384,
    FILES_OF_OTHERS = 400, /* segments, the mount, the store */
    IDLE_S = 75,
    STOP_GRACE_MS = 1000,
    BODY_MS = 60000,
    BODY_BYTES_PER_MS = 16, /* a large body may take longer */
    DISCARD_BYTES_MAX = 2 * 1024 * 1024,
};

/* What all requests together may have in memory. */
static const size_t body_budget_bytes = (size_t)512 * 1024 * 1024;

/* ---- a request's begin --------------------------------------------------------------
 */

static bool is_method(const struct http_route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (!route->no_head && strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 &&
            strcmp(route->method, MHD_HTTP_METHOD_GET) == 0);
}

static void refuse_method(struct http_request *request, const char *allowed)
{
    http_reply_refusal(request, MHD_HTTP_METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED",
                       "this path does not take this method");
    if (request->response != NULL)
        (void)MHD_add_response_header(request->response, MHD_HTTP_HEADER_ALLOW,
                                      allowed);
}

/* Sets request->route, or refuses. */
static void find_route(struct http_request *request, const char *method)
{
    const struct http_server *server = request->server;
    char allowed[64] = "";

    for (size_t i = 0; i < server->set_count; i++) {
        const struct http_route_set *set = &server->sets[i];

        for (size_t j = 0; j < set->count; j++) {
            size_t used = strlen(allowed);

            if (!http_target_match(&request->target, set->routes[j].pattern))
                continue;
            if (is_method(&set->routes[j], method)) {
                request->route = &set->routes[j];
                request->argument = set->argument;
                return;
            }
            (void)snprintf(allowed + used, sizeof allowed - used, "%s%s",
                           used > 0 ? ", " : "", set->routes[j].method);
        }
    }
    if (*allowed != '\0')
        refuse_method(request, allowed);
    else
        http_reply_refusal(request, MHD_HTTP_NOT_FOUND, "NOT_FOUND", "no such path");
}

static void parse_target(struct http_request *request)
{
    int rc = http_target_parse(request->text, &request->target);

    if (rc == -ENAMETOOLONG)
        http_reply_refusal(request, MHD_HTTP_URI_TOO_LONG, "URI_TOO_LONG",
                           "the target has more than 8192 bytes");
    else if (rc == -EINVAL)
        http_reply_refusal(request, MHD_HTTP_BAD_REQUEST, "BAD_TARGET",
                           "the target is malformed, or names an argument twice");
    else if (rc < 0)
        http_reply_error(request, rc, NULL);
}

static enum MHD_Result count_length(void *arg, enum MHD_ValueKind kind,
                                    const char *name, const char *value)
{
    unsigned *count = arg;

    (void)kind;
    (void)value;
    *count += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    return MHD_YES;
}

/* libmicrohttpd has refused malformed lengths already, and takes the first of several:
 * whoever stands between may have taken another. */
static bool announced(const struct http_request *request, bool *has_length,
                      int64_t *length)
{
    const char *text = http_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    unsigned count = 0;

    *has_length = text != NULL;
    *length = 0;
    if (text == NULL)
        return true;
    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, count_length,
                                    &count);
    return count == 1 && http_number(text, 0, INT64_MAX, length) == 0;
}

static void admit_body(struct http_request *request, bool has_length, int64_t length)
{
    const struct http_route *route = request->route;
    size_t limit =
        route->body_limit != NULL ? route->body_limit(request) : route->body_max;
    bool chunked =
        http_request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
    char why[96];

    if (chunked || (!has_length && limit > 0)) {
        http_reply_refusal(request, MHD_HTTP_LENGTH_REQUIRED, "LENGTH_REQUIRED",
                           "the body needs a Content-Length");
        return;
    }
    if ((uint64_t)length > limit) {
        (void)snprintf(why, sizeof why, "the body may have at most %zu bytes here",
                       limit);
        http_reply_refusal(request, MHD_HTTP_CONTENT_TOO_LARGE, "BODY_TOO_LARGE", why);
        return;
    }
    request->body_length = (size_t)length;
    if (atomic_fetch_add(&request->server->body_bytes, request->body_length) +
            request->body_length >
        body_budget_bytes)
        http_reply_refusal(request, MHD_HTTP_SERVICE_UNAVAILABLE, "BUSY",
                           "too many bodies are being received");
    buf_init(&request->body, request->body_length + 1); /* a newline may be added */
}

static void check_access(struct http_request *request)
{
    const char *name = NULL, *why = NULL;
    unsigned status = http_access_check(request, &name, &why);

    if (status != 0)
        http_reply_refusal(request, status, name, why);
}

static int64_t body_ms(int64_t length)
{
    return BODY_MS + length / BODY_BYTES_PER_MS;
}

/* The headers are there. What is refused with a small body is answered behind that:
 * a client that still sends might not read an answer before. */
static enum MHD_Result begin(struct http_request *request, const char *method)
{
    bool has_length = false;
    int64_t length = 0;
    bool known = announced(request, &has_length, &length);

    request->begun = true;
    parse_target(request);
    if (!request->replied)
        find_route(request, method);
    if (!request->replied && !known)
        http_reply_refusal(request, MHD_HTTP_BAD_REQUEST, "BAD_LENGTH",
                           "the Content-Length is no number, or given twice");
    if (!request->replied)
        check_access(request);
    if (!request->replied)
        admit_body(request, has_length, length);
    if (request->replied && (!known || length > DISCARD_BYTES_MAX))
        return http_request_step(request);
    http_connection_expect(request->peer, body_ms(length));
    return MHD_YES;
}

/* ---- callbacks of libmicrohttpd -----------------------------------------------------
 */

static enum MHD_Result take_body(struct http_request *request, const char *bytes,
                                 size_t length)
{
    if (request->replied)
        return MHD_YES; /* it is discarded */
    if (request->body.length + length > request->body_length)
        return MHD_NO;
    return buf_add(&request->body, bytes, length) == 0 ? MHD_YES : MHD_NO;
}

static enum MHD_Result handle(void *server, struct MHD_Connection *connection,
                              const char *url, const char *method, const char *version,
                              const char *upload_data, size_t *upload_data_size,
                              void **context)
{
    struct http_request *request = *context;
    size_t length = *upload_data_size;

    (void)server;
    (void)connection;
    (void)url;
    (void)version;
    if (request == NULL)
        return MHD_NO;
    if (!request->begun)
        return begin(request, method);
    if (length > 0) {
        *upload_data_size = 0;
        return take_body(request, upload_data, length);
    }
    if (!request->replied && !request->counted) {
        http_connection_expect(request->peer, 0);
        request->next = request->route->handler;
        if (!http_request_activate(request))
            http_reply_refusal(request, MHD_HTTP_SERVICE_UNAVAILABLE, "STOPPING",
                               "this node is about to stop");
    }
    return http_request_step(request);
}

static void completed(void *arg, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode code)
{
    struct http_server *server = arg;
    struct http_request *request = *context;

    (void)connection;
    if (request == NULL)
        return;
    *context = NULL;
    request->delivered = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    http_request_settle(request);
    http_connection_expect(request->peer, (int64_t)IDLE_S * 1000);
    (void)atomic_fetch_sub(&server->body_bytes, request->body_length);
    http_request_unref(request);
    (void)pthread_mutex_lock(&server->lock);
    if (--server->alive == 0)
        (void)pthread_cond_broadcast(&server->changed);
    (void)pthread_mutex_unlock(&server->lock);
}

/* ---- start --------------------------------------------------------------------------
 */

int http_server_new(const struct http_server_params *params, struct http_server **out)
{
    struct http_server *server = calloc(1, sizeof *server);
    pthread_condattr_t attributes;

    if (server == NULL)
        return -ENOMEM;
    server->config = params->config;
    server->problems = params->problems;
    server->clock = params->clock;
    (void)pthread_mutex_init(&server->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&server->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    *out = server;
    return 0;
}

int http_server_add(struct http_server *server, const struct http_route *routes,
                    size_t count, void *argument)
{
    if (server->set_count == HTTP_ROUTE_SETS_MAX)
        return -ENOSPC;
    server->sets[server->set_count++] =
        (struct http_route_set){.routes = routes, .count = count, .argument = argument};
    return 0;
}

/* Each connection takes one descriptor, and one more while a segment is sent on it. */
static unsigned connection_limit(void)
{
    struct rlimit limit;
    rlim_t wanted = FILES_WANTED, spare;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return CONNECTIONS_MIN;
    if (limit.rlim_cur < wanted && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < FILES_OF_OTHERS + 2 * CONNECTIONS_MIN)
        return CONNECTIONS_MIN;
    spare = (limit.rlim_cur - FILES_OF_OTHERS) / 2;
    return spare < CONNECTIONS_MAX ? (unsigned)spare : CONNECTIONS_MAX;
}

/* Not by MHD_quiesce_daemon(): that and the threads of the pool may each find the
 * listening socket taken out of a set by the other, which ends the process. */
static enum MHD_Result may_connect(void *arg, const struct sockaddr *address,
                                   socklen_t length)
{
    struct http_server *server = arg;
    bool stopping;

    (void)address;
    (void)length;
    (void)pthread_mutex_lock(&server->lock);
    stopping = server->stopping;
    (void)pthread_mutex_unlock(&server->lock);
    return stopping ? MHD_NO : MHD_YES;
}

static int start_daemon(struct http_server *server,
                        const struct http_listener *listener)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    struct MHD_OptionItem tls[5] = {{MHD_OPTION_END, 0, NULL}};
    const struct http_tls *files = &server->tls;
    size_t n = 0;

    if (listener->ipv6)
        flags |= MHD_USE_IPv6;
    if (files->certificate != NULL) {
        static char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

        flags |= MHD_USE_TLS;
        tls[n++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, files->certificate};
        tls[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, files->key};
        tls[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, priorities};
        if (files->ca != NULL)
            tls[n++] =
                (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, files->ca};
        tls[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    }
    server->daemon = MHD_start_daemon(
        flags, 0, may_connect, server, handle, server, MHD_OPTION_LISTEN_SOCKET,
        listener->fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)POOL_THREADS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_CONNECTION_LIMIT, connection_limit(), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_S, MHD_OPTION_URI_LOG_CALLBACK, http_request_new, server,
        MHD_OPTION_NOTIFY_COMPLETED, completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        http_connection_notify, server, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    return server->daemon != NULL ? 0 : -EIO;
}

/* A machine's own users are known by their sockets; others have to show something.
 * Nodes that share a store reach each other here, and their calls prove who they are.
 */
static bool is_open_to_strangers(const struct http_server *server,
                                 const struct http_listener *listener)
{
    return !listener->loopback && server->tokens == NULL && server->tls.ca == NULL &&
           strcmp(server->config->coord, "embedded") == 0;
}

static int serve(struct http_server *server, const struct http_listener *listener,
                 char *why, size_t why_size)
{
    const char *address = server->config->listen;
    int rc;

    if (is_open_to_strangers(server, listener)) {
        (void)snprintf(why, why_size,
                       "listen=%s can be reached from other machines: give token_file "
                       "or tls_ca with it, or listen on 127.0.0.1",
                       address);
        return -EACCES;
    }
    rc = http_timers_start(server->clock, &server->timers);
    if (rc == 0)
        rc = start_daemon(server, listener);
    if (rc < 0) {
        (void)snprintf(
            why, why_size, "can't start the HTTP server on %s%s", address,
            server->tls.certificate != NULL ? ": is tls_key the key of tls_cert?" : "");
        return rc;
    }
    server->port = listener->port;
    if (!listener->loopback && server->tls.certificate == NULL &&
        server->tokens != NULL)
        diag(DIAG_WARNING,
             "listen=%s without tls_cert: tokens and messages can be read "
             "on the network",
             address);
    diag(DIAG_INFO, "%s on port %d of %s",
         server->tls.certificate != NULL ? "HTTPS" : "HTTP", server->port, address);
    return 0;
}

int http_server_start(struct http_server *server, char *why, size_t why_size)
{
    const struct mount_config *config = server->config;
    struct http_listener listener = {.fd = -1};
    int rc = http_tls_load(config, &server->tls, why, why_size);

    if (rc == 0 && *config->token_file != '\0')
        rc = http_tokens_open(config->token_file, server->clock, server->problems,
                              &server->tokens, why, why_size);
    if (rc == 0)
        rc = http_listen(config->listen, &listener, why, why_size);
    if (rc == 0)
        rc = serve(server, &listener, why, why_size);
    if (rc < 0 && listener.fd >= 0)
        (void)close(listener.fd);
    return rc;
}

int http_server_port(const struct http_server *server)
{
    return server->port;
}

/* ---- stop ---------------------------------------------------------------------------
 */

/* Every request that a handler has is replied to; then the answers get out, if the
 * clients read them. */
static void drain(struct http_server *server)
{
    struct timespec until;

    (void)pthread_mutex_lock(&server->lock);
    while (server->active > 0)
        (void)pthread_cond_wait(&server->changed, &server->lock);
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += STOP_GRACE_MS / 1000;
    while (server->alive > 0 &&
           pthread_cond_timedwait(&server->changed, &server->lock, &until) == 0)
        ;
    (void)pthread_mutex_unlock(&server->lock);
}

static void stop_daemon(struct http_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->stopping = true;
    (void)pthread_mutex_unlock(&server->lock);
    http_timers_hasten(server->timers);
    drain(server);
    MHD_stop_daemon(server->daemon); /* closes the socket, too */
}

void http_server_stop(struct http_server *server)
{
    if (server == NULL)
        return;
    if (server->daemon != NULL)
        stop_daemon(server);
    http_timers_stop(server->timers);
    http_tokens_close(server->tokens);
    http_tls_free(&server->tls);
    (void)pthread_cond_destroy(&server->changed);
    (void)pthread_mutex_destroy(&server->lock);
    free(server);
}
