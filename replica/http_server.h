/*
 * The HTTP server of a node, over libmicrohttpd. What it serves are routes; each part
 * of the node registers its own before the start:
 *
 *     static const struct http_route routes[] = {
 *         {.method = "POST", .pattern = "/replica/fetch", .access = HTTP_ROUTE_DECIDES,
 *          .body_max = 1 << 20, .handler = fetch_handle},
 *     };
 *
 *     http_server_new(&params, &server);
 *     http_server_add(server, routes, 1, fetcher);    // before http_server_start()
 *     rc = http_server_start(server, why, sizeof why);
 *     ...
 *     http_server_stop(server);                       // NULL is fine
 *
 * A handler gets the request once its whole body is in memory; see http_request.h. The
 * server itself answers what fits no route (404, 405), bodies without a length (411)
 * or beyond their bound (413), and whoever the route does not let in (401, 403).
 *
 * Who asks: a bearer token or a client certificate names a user of this machine; a
 * client on the loopback interface acts as the user that its process runs as. With
 * HTTP_USERS others are refused. HTTP_ROUTE_DECIDES lets all in, for parts with an
 * authentication of their own: http_request_certificate(), http_request_header().
 *
 * Threads: a small pool runs the handlers, which must not block on anything but the
 * local disk; one more looks after deadlines.
 */
#ifndef TOPICFS_HTTP_SERVER_H
#define TOPICFS_HTTP_SERVER_H

#include "coord/coord.h"
#include "replica/http_request.h"

enum http_access {
    HTTP_USERS, /* a known user; the handler checks owner, group and mode */
    HTTP_ROUTE_DECIDES,
};

struct http_route {
    const char *method;  /* "GET" takes HEAD too, but for: */
    bool no_head;        /* a GET that changes something */
    const char *pattern; /* see http_target_match() */
    enum http_access access;
    size_t body_max; /* 0: no body */
    /* May be NULL; asked before the body is read, instead of body_max. */
    size_t (*body_limit)(struct http_request *request);
    http_request_fn *handler;
};

struct http_server;

struct http_server_params {
    const struct mount_config *config; /* borrowed, as all of these */
    struct problems *problems;
    const struct clock *clock;
};

int http_server_new(const struct http_server_params *params, struct http_server **out);

/* The routes are borrowed, `argument` is for their handlers. Of two that match the one
 * that was added first serves. At most 16 calls: -ENOSPC. */
int http_server_add(struct http_server *server, const struct http_route *routes,
                    size_t count, void *argument);

/*
 * Binds the address of the `listen` setting and serves. 0, or a negative errno with
 * `why`: the address is taken or not this machine's; -EACCES: it is reachable from
 * elsewhere and there is neither a token file nor a CA for clients; a file of the
 * settings can't be read.
 */
int http_server_start(struct http_server *server, char *why, size_t why_size);

/* Takes no more requests, ends every wait (as if its time were over), lets the answers
 * out for up to a second, closes all connections and frees the server. */
void http_server_stop(struct http_server *server);

/* The port that it listens on, for tests with port 0. */
int http_server_port(const struct http_server *server);

#endif
