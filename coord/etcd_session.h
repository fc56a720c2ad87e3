/*
 * The lease with etcd, and whether etcd is there: a thread that sends the keepalives,
 * or asks for a key while there is no lease, and tells the listener what changed.
 *
 *     etcd_session_start(&params, &session);
 *     rc = etcd_session_open(session, 6000);
 *     ... etcd_session_lease(session, &lease) for leased puts ...
 *     etcd_session_stop(session);      // after etcd_http_stop()
 *
 * A keepalive goes every third of the time to live. The deadline is the time before
 * sending the last one that was answered, plus the time to live that was granted: until
 * then etcd can't have ended the lease. That it did end is only believed when etcd says
 * so.
 *
 * Each answer tells the store's revision: `heard` gets it, to find a watch that went
 * silent.
 *
 * Thread-safe: one mutex, never held during I/O or callbacks.
 */
#ifndef TOPICFS_ETCD_SESSION_H
#define TOPICFS_ETCD_SESSION_H

#include "coord/etcd_call.h"
#include "coord/problems.h"
#include "coord/store.h"

struct etcd_session;

struct etcd_session_params {
    struct etcd_http *http;    /* borrowed */
    struct etcd_call *call;    /* borrowed */
    const char *probe_key;     /* borrowed: asked for while there is no lease */
    const struct clock *clock; /* borrowed */
    struct problems *problems; /* borrowed */
    void (*heard)(void *arg, int64_t revision); /* on the session's thread */
    void *arg;
};

/* Starts the thread; *out is there before it runs. 0 or -ENOMEM, -EAGAIN. */
int etcd_session_start(const struct etcd_session_params *params,
                       struct etcd_session **out);
/* Ends and frees it. Accepts NULL. */
void etcd_session_stop(struct etcd_session *session);

/* As store_ops has them. */
int etcd_session_open(struct etcd_session *session, int64_t ttl_ms);
void etcd_session_close(struct etcd_session *session);
void etcd_session_status(struct etcd_session *session, struct store_status *out);
void etcd_session_listen(struct etcd_session *session, store_status_fn *fn, void *arg);

/* The lease for leased puts. 0, or E_SESSION_LOST: there is none. */
int etcd_session_lease(struct etcd_session *session, int64_t *lease);
/* etcd said that this lease is gone. */
void etcd_session_lost(struct etcd_session *session, int64_t lease);
/* Reachability changed: the thread looks at once. */
void etcd_session_wake(struct etcd_session *session);

#endif
