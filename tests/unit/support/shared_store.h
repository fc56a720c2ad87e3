/*
 * A coordination store that several nodes of one process share, in memory, with the
 * semantics of a remote one: revisions, sessions that end by a clock of the test's,
 * watches that lag, calls that fail or of which the outcome stays unknown.
 *
 *     struct shared_backend *backend = shared_backend_new();
 *     struct store *a = shared_store_open(backend), *b = shared_store_open(backend);
 *     shared_store_cut(a, true);            // a's calls fail, its watch is silent
 *     shared_backend_advance(backend, 7000);  // a's session ends
 *     ...
 *     a->ops->close(a); b->ops->close(b);
 *     shared_backend_free(backend);
 *
 * Sessions of stores that are not cut are kept alive by themselves. Thread-safe.
 */
#ifndef TOPICFS_TEST_SHARED_STORE_H
#define TOPICFS_TEST_SHARED_STORE_H

#include "coord/clock.h"
#include "coord/store.h"

struct shared_backend;

struct shared_backend *shared_backend_new(void);
void shared_backend_free(struct shared_backend *backend);

/* The clock that sessions go by; it stands still but for shared_backend_advance(). */
const struct clock *shared_backend_clock(const struct shared_backend *backend);
void shared_backend_advance(struct shared_backend *backend, int64_t ms);

struct store *shared_store_open(struct shared_backend *backend);

/* No call and no watch event gets through, as with a cable out. */
void shared_store_cut(struct store *store, bool cut);
/* Calls go through, but the watch reports nothing until it goes on. */
void shared_store_hold_watch(struct store *store, bool hold);

enum shared_fault {
    SHARED_NONE,
    SHARED_UNKNOWN_DONE, /* E_OUTCOME_UNKNOWN, and it happened */
    SHARED_UNKNOWN_NOT,  /* E_OUTCOME_UNKNOWN, and it did not */
    SHARED_ANSWER_LATE,  /* it happens, the answer waits for shared_store_answer() */
};
/* The next commit of this store that puts or deletes a key which contains `part`. */
void shared_store_fault(struct store *store, enum shared_fault fault, const char *part);
/* A commit whose answer is late gets it; waits until there is one. */
void shared_store_answer(struct store *store);

/* A put of this store, bound to its session, that was on its way for long. */
void shared_store_put_late(struct store *store, const char *key, const char *value);

/* The session ends although this store keeps it alive. `told`: the listener hears it.
 */
void shared_store_end_session(struct store *store, bool told);
/* The next session that is opened ends, and the listener hears it, before
 * session_open() returns. */
void shared_store_short_session(struct store *store);
/* The next session_open() ends the present session, and opens none. */
void shared_store_refuse_session(struct store *store);

/* What the store holds, as another program would see and change it. NULL: absent; freed
 * by the caller. value NULL: deletes. */
char *shared_backend_get(struct shared_backend *backend, const char *key);
void shared_backend_put(struct shared_backend *backend, const char *key,
                        const char *value);
/* How many transactions changed something. */
int64_t shared_backend_revision(struct shared_backend *backend);

#endif
