/*
 * HTTP to an etcd cluster: endpoints, which of them is in use, connections that are
 * kept, TLS, time-outs. Knows nothing of what the bodies mean.
 *
 *     rc = etcd_http_open(&params, &http, why, sizeof(why));
 *     etcd_http_post(http, "/v3/kv/range", &body, token, 0, &reply);
 *     if (reply.result != 0) etcd_http_move(http, reply.endpoint);
 *     etcd_http_reply_free(&reply);
 *     etcd_http_stop(http);      // whoever waits in here returns -ECANCELED
 *     ... join the threads ...
 *     etcd_http_close(http);
 *
 * All calls and streams use the same endpoint: a member that is stopped leaves a stream
 * silent for ever, and only a call's time-out tells. etcd_http_move() ends the streams.
 *
 * A call fails after a second without a byte, or as long as it says. It is sent once at
 * most: where a kept connection turns out to be dead, libcurl would send it again, but
 * a change must not be.
 *
 * Thread-safe: one mutex, never held during I/O. A stream belongs to one thread.
 */
#ifndef TOPICFS_ETCD_HTTP_H
#define TOPICFS_ETCD_HTTP_H

#include "coord/buf.h"
#include "coord/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ETCD_ENDPOINTS_MAX = 16 };

struct etcd_http;
struct etcd_stream;

struct etcd_http_params {
    const char *endpoints; /* "etcd://[user[:password]@]host[:port],..." or etcds:// */
    const char *ca_file;   /* PEM; NULL: the system's authorities */
    const char *cert_file; /* PEM; NULL: no client certificate */
    const char *key_file;  /* PEM; with cert_file */
    const struct clock *clock; /* borrowed */
};

struct etcd_http_reply {
    int result;        /* 0: `status` and `body` are there; or a negative errno */
    bool sent;         /* the server may have seen the request */
    long status;       /* HTTP's */
    struct buf body;   /* at most ETCD_BODY_MAX */
    int64_t sent_ns;   /* clock->mono_ns before sending */
    unsigned endpoint; /* which one was asked */
    char text[256];    /* why it failed */
};

/* Checks the parameters; does not connect. 0, -EINVAL, -ENOMEM, or of a file; `why` has
 * the reason.
 */
int etcd_http_open(const struct etcd_http_params *params, struct etcd_http **out,
                   char *why, size_t why_size);
void etcd_http_stop(struct etcd_http *http);
bool etcd_http_stopped(struct etcd_http *http);
/* After stop, with no call left inside. Accepts NULL. */
void etcd_http_close(struct etcd_http *http);

unsigned etcd_http_count(const struct etcd_http *http);
/* User and password of the endpoints' text; NULL: none. Borrowed. */
const char *etcd_http_user(const struct etcd_http *http);
const char *etcd_http_password(const struct etcd_http *http);
/* The text of the endpoint, for messages; borrowed. */
const char *etcd_http_name(const struct etcd_http *http, unsigned endpoint);

/* One attempt. `token` may be NULL. silence_ms: how long it may be without a byte; 0: a
 * second. Fills *reply in any case. */
void etcd_http_post(struct etcd_http *http, const char *path, const struct buf *body,
                    const char *token, int64_t silence_ms,
                    struct etcd_http_reply *reply);
void etcd_http_reply_free(struct etcd_http_reply *reply);

/* Goes on to the next endpoint, unless somebody already left this one; ends the streams
 * on it. */
void etcd_http_move(struct etcd_http *http, unsigned from);
/* Ends the streams. */
void etcd_http_kick(struct etcd_http *http);
/* Waits, but not beyond etcd_http_stop(). */
void etcd_http_pause(struct etcd_http *http, int64_t ms);

/*
 * A POST whose reply goes on. `body` is borrowed until close. wait: 0 once bytes were
 * appended to *in or `timeout_ms` is over, -ECANCELED (stopped, moved or kicked),
 * -ECONNRESET (the server ended it), or another negative errno.
 */
int etcd_http_stream_open(struct etcd_http *http, const char *path,
                          const struct buf *body, const char *token,
                          struct etcd_stream **out);
int etcd_http_stream_wait(struct etcd_stream *stream, int timeout_ms, struct buf *in);
unsigned etcd_http_stream_endpoint(const struct etcd_stream *stream);
void etcd_http_stream_close(struct etcd_stream *stream); /* accepts NULL */

#endif
