/*
 * The coordination store: a small ordered key-value map with revisions, as etcd has it.
 * Two implementations: embedded (coord/store_embedded.h; one node, in the data
 * directory) and etcd. Kept private to coord: other layers see coord/cluster.h.
 *
 * Every transaction that changes something gets the next revision. A key has a create
 * revision (0 = absent) and a mod revision. A transaction compares, then applies all of
 * its operations or none; it may not touch one key twice.
 *
 * A session is a lease: keys put with it vanish when it ends. The embedded store's only
 * session is the process itself: its leased keys are dropped at open.
 *
 * All calls may block on disk or network: never call them from a FUSE worker.
 * Thread-safe.
 */
#ifndef TOPICFS_STORE_H
#define TOPICFS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store_kv {
    char *key;
    char *value; /* NUL-terminated, NULL in a deletion event */
    size_t value_length;
    int64_t create_revision;
    int64_t mod_revision;
};

struct store_list { /* sorted by key; freed with store_list_free */
    struct store_kv *items;
    size_t count;
    int64_t revision;
};

enum store_target { STORE_CREATE_REVISION, STORE_MOD_REVISION };

struct store_compare {
    const char *key;
    enum store_target target;
    int64_t revision; /* equal to */
};

enum store_verb { STORE_PUT, STORE_DELETE, STORE_DELETE_PREFIX };

struct store_op {
    enum store_verb verb;
    const char *key;
    const char *value; /* STORE_PUT: text */
    bool leased;       /* STORE_PUT: bound to the session */
};

/* A transaction on a shared store has at most so many compares, and so many ops: more
 * are refused with -E2BIG. The embedded store has no limit. */
enum { STORE_TXN_MAX = 128 };

struct store_txn {
    const struct store_compare *compares;
    size_t compare_count;
    const struct store_op *ops;
    size_t op_count;
};

struct store;

/* What happened, in revision order; `kv->value` NULL = deleted. `count` may be 0: then
 * only that everything up to `revision` was delivered is news. Called from the store's
 * thread or from within the committing call, without locks of the store held. */
typedef void store_watch_fn(void *arg, const struct store_kv *kvs, size_t count,
                            int64_t revision);

/*
 * How it stands with a remote store. A session's deadline is the time of sending of the
 * last good keepalive plus the time to live: after it the session may be gone, before
 * it can't.
 */
struct store_status {
    bool reachable;
    int64_t silent_since_ms;     /* wall clock; 0 while reachable */
    int64_t session_deadline_ns; /* clock->mono_ns; INT64_MAX for the embedded store */
    bool session_lost;           /* the store said so: leased keys are gone */
};
/* Called on the store's thread when `reachable` or `session_lost` change; no lock held.
 */
typedef void store_status_fn(void *arg, const struct store_status *status);

struct store_ops {
    int (*list)(struct store *store, const char *prefix, struct store_list *out);
    /* 0: done, *revision is the new one; E_CONFLICT: a comparison failed, nothing done;
     * E_OUTCOME_UNKNOWN (remote): it may have happened or not, read again and compare;
     * else a negative errno, nothing done. */
    int (*commit)(struct store *store, const struct store_txn *txn, int64_t *revision);
    /* One watcher over all keys, from after `revision` on. */
    int (*watch)(struct store *store, int64_t revision, store_watch_fn *fn, void *arg);
    /* Begins a session, or a new one after a loss or in place of the present one, which
     * ends; keeps it alive on a thread of the store's. Leased puts are bound to the
     * latest. Embedded: there is one from open on. */
    int (*session_open)(struct store *store, int64_t ttl_ms);
    /* Ends it, so that leased keys vanish at once. Bounded; errors do not matter. */
    void (*session_close)(struct store *store);
    void (*status)(struct store *store, struct store_status *out);
    /* One listener; before the first session. */
    void (*on_status)(struct store *store, store_status_fn *fn, void *arg);
    void (*close)(struct store *store);
};

struct store {
    const struct store_ops *ops;
};

void store_list_free(struct store_list *list);

#endif
