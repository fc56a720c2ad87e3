/*
 * Inside of the HTTP server, for http_server.c, http_request.c and http_connection.c
 * only.
 *
 * A request's life:
 *
 *     RECEIVING   headers came, the body is coming
 *     RUNNING     a handler or continuation runs on the connection's thread
 *     WAITING     a wait has begun; once the handler has returned the connection is
 *                 suspended (`parked`), and the deadline armed
 *     DONE        the response is queued
 *
 * The wait's beginning, the suspension and the continuation are under request->lock, so
 * a continuation that comes before the suspension is seen, and one that comes after it
 * resumes. References: one of the connection (until libmicrohttpd says that the request
 * is completed), one of each wait until its continuation, one of an armed timer.
 *
 * Locks: request->lock, connection->lock; below both: the timers', server->lock.
 */
#ifndef TOPICFS_HTTP_INTERNAL_H
#define TOPICFS_HTTP_INTERNAL_H

#include "replica/http_request.h"
#include "replica/http_server.h"
#include "replica/http_timer.h"
#include "replica/http_tls.h"
#include "replica/http_tokens.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

enum { HTTP_ROUTE_SETS_MAX = 16 };

struct http_route_set {
    const struct http_route *routes;
    size_t count;
    void *argument;
};

struct http_server {
    const struct mount_config *config;               /* [const] */
    struct problems *problems;                       /* [const] */
    const struct clock *clock;                       /* [const] */
    struct http_route_set sets[HTTP_ROUTE_SETS_MAX]; /* [const] from the start on */
    size_t set_count;
    struct http_timers *timers; /* [const] */
    struct http_tokens *tokens; /* [const] NULL: none */
    struct http_tls tls;        /* [const] */
    struct MHD_Daemon *daemon;  /* [const] */
    int port;                   /* [const] */
    atomic_size_t body_bytes;   /* of all requests that are being received */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t active; /* [lock] handed to a handler, not yet replied */
    size_t alive;  /* [lock] not yet completed */
    bool stopping; /* [lock] */
};

struct http_connection {
    atomic_uint references;
    struct http_server *server;
    int fd;
    bool loopback;                /* [const] */
    const struct http_user *user; /* [const] owner of the client's socket, or NULL */
    /* [thread of the connection] What the client's certificate says, once asked. */
    bool certificate_checked;
    char *certificate;
    pthread_mutex_t lock;
    bool closed; /* [lock] the descriptor is not ours any more */
    struct http_timer timer;
};

struct http_request {
    atomic_uint references;
    struct http_server *server;
    struct MHD_Connection *connection;
    struct http_connection *peer;
    char *text; /* the target, as sent */
    struct http_target target;
    const struct http_route *route; /* NULL until found */
    void *argument;
    const struct http_user *user;
    struct buf body;
    size_t body_length; /* as announced */
    bool begun;
    bool counted; /* in server->active */
    bool replied;
    bool delivered; /* all of the answer was sent */
    unsigned status;
    struct MHD_Response *response; /* taken by the queue */
    void *context;
    void (*free_context)(void *context);

    pthread_mutex_t lock;
    http_request_fn *next; /* [lock] what to run */
    bool waiting;          /* [lock] */
    bool parked;           /* [lock] suspended */
    int64_t due_ms;        /* [lock] of the wait */
    http_request_fn *expired;
    struct http_timer timer;
};

/* http_connection.c: callbacks of libmicrohttpd, and who the client is. */
void http_connection_notify(void *server, struct MHD_Connection *connection,
                            void **context, enum MHD_ConnectionNotificationCode code);
/* The connection of a request, or NULL. */
struct http_connection *http_connection_of(struct MHD_Connection *connection);
/* Closes the connection unless it is called again in time; 0: no bound. */
void http_connection_expect(struct http_connection *peer, int64_t within_ms);
const char *http_connection_certificate(struct http_connection *peer,
                                        struct MHD_Connection *connection);

/* http_access.c: 0 and request->user (a reference, or NULL with HTTP_ROUTE_DECIDES), or
 * the status of a refusal with its name and reason. */
unsigned http_access_check(struct http_request *request, const char **name,
                           const char **why);

/* http_request.c */
void *http_request_new(void *server, const char *target,
                       struct MHD_Connection *connection);
void http_request_unref(struct http_request *request);
/* Runs what is to be run; the result is the access handler's. */
enum MHD_Result http_request_step(struct http_request *request);
/* [connection's thread] Counts the request as being handled; false: the server stops.
 */
bool http_request_activate(struct http_request *request);
/* Undoes that; also if it never was. */
void http_request_settle(struct http_request *request);

#endif
