/*
 * One question to etcd, wherever it is answered: goes from endpoint to endpoint,
 * authenticates, and says what a failure means.
 *
 *     rc = etcd_call_run(call, ETCD_READ, "/v3/kv/range", &body, &answer);
 *     ... answer.body ...
 *     etcd_answer_free(&answer);
 *
 * A read is repeated as long as it takes; a change only if it certainly was not done.
 * It gives up after one round through the endpoints that began after 3 s; once etcd is
 * known to be unreachable, after the first round: then nobody waits for long.
 *
 * Thread-safe: one mutex, never held during I/O or callbacks, and one for who asks for
 * a token.
 */
#ifndef TOPICFS_ETCD_CALL_H
#define TOPICFS_ETCD_CALL_H

#include "coord/etcd_http.h"

struct etcd_call;

enum etcd_kind { ETCD_READ, ETCD_CHANGE };

struct etcd_answer {
    struct buf body;
    int64_t sent_ns; /* clock->mono_ns before the answered request was sent */
    int code;        /* gRPC's, of a failure that etcd itself reported; else -1 */
    char text[256];  /* why it failed */
};

/* Something about `reachable` changed; on any thread, no lock held. */
typedef void etcd_call_changed_fn(void *arg);

struct etcd_call_params {
    struct etcd_http *http;    /* borrowed */
    const char *user;          /* NULL: without authentication */
    const char *password;      /* copied */
    const struct clock *clock; /* borrowed */
    etcd_call_changed_fn *changed;
    void *arg;
};

struct etcd_call *
etcd_call_new(const struct etcd_call_params *params); /* NULL: memory */
void etcd_call_free(struct etcd_call *call);

/*
 * Fills *answer in any case. 0; E_STORE_UNREACHABLE (nothing done);
 * E_OUTCOME_UNKNOWN (a change); E_SESSION_LOST (no such lease); -EACCES (refused, or a
 * wrong password); -E2BIG; -ENOSPC (etcd's quota); -EEXIST (the lease); -ESTALE (a
 * revision that was compacted); -EINVAL; -ECANCELED; -ENOMEM: nothing done.
 */
int etcd_call_run(struct etcd_call *call, enum etcd_kind kind, const char *path,
                  const struct buf *body, struct etcd_answer *answer);
void etcd_answer_free(struct etcd_answer *answer);

/* A copy of the token for a stream, NULL if none is needed. 0 or as etcd_call_run. */
int etcd_call_token(struct etcd_call *call, char **token);
/* It was refused: the next one is fetched anew. */
void etcd_call_drop_token(struct etcd_call *call, const char *token);

/* Since when nothing was heard, wall clock; 0 while reachable. `why` is the last
 * failure. */
int64_t etcd_call_silent_since(struct etcd_call *call, char *why, size_t why_size);

#endif
