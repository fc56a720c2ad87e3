/*
 * Calls to other nodes, over libcurl: many at a time, on one thread, with connections
 * that stay open between them.
 *
 *     rc = peer_client_new(config, &client);
 *     peer_call_init(&call, on_done);
 *     rc = peer_client_send(client, &call, &address, "/replica/fetch", &body, max,
 * 5000); for (;;) peer_client_run(client, 100);      // on_done() runs in here
 *     peer_call_free(client, &call);
 *     peer_client_free(client);
 *
 * One thread owns the client and its calls; peer_client_wake() alone is for any.
 */
#ifndef TOPICFS_PEER_CLIENT_H
#define TOPICFS_PEER_CLIENT_H

#include "coord/coord.h"

#include <curl/curl.h>
#include <stdbool.h>

struct peer_client;

struct peer_address {
    char host[256];
    int32_t port;
};

struct peer_reply {
    /* 0; -ECONNREFUSED: nobody listens there; -EHOSTUNREACH: no connection came about:
     * with both, nothing was sent. -EACCES: this node is not let in; -EAGAIN: the other
     * can't serve now, or stops; E_NEWER_FORMAT: it speaks an older version of the
     * protocol; else, as -EIO or -ETIMEDOUT, it may have arrived. */
    int error;
    const uint8_t *bytes; /* borrowed until done() returns */
    size_t length;
};

/* Embedded in what the call belongs to; may be sent again once done() runs. */
struct peer_call {
    void (*done)(struct peer_call *call, const struct peer_reply *reply);
    /* private */
    CURL *easy;
    char *body;
    struct buf reply;
    bool running;
};

/* 0 or a negative errno, e.g. of the key's file. `config` is borrowed. */
int peer_client_new(const struct mount_config *config, struct peer_client **out);
void peer_client_free(struct peer_client *client); /* no call may be running */

void peer_call_init(struct peer_call *call,
                    void (*done)(struct peer_call *call,
                                 const struct peer_reply *reply));
/* Gives up a call that runs, without done(). */
void peer_call_free(struct peer_client *client, struct peer_call *call);

/* Begins a POST; takes the body's bytes. 0, or a negative errno: then done() is not
 * called. */
int peer_client_send(struct peer_client *client, struct peer_call *call,
                     const struct peer_address *address, const char *path,
                     struct buf *body, size_t reply_max, int64_t timeout_ms);

/* Does what there is to do; returns when something was done, after a wake, or when the
 * time is over. */
void peer_client_run(struct peer_client *client, int64_t timeout_ms);
void peer_client_wake(struct peer_client *client); /* any thread */

#endif
