#include "shared_store.h"

#include "coord/err.h"
#include "coord/sorted.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLIENTS_MAX = 24, KEEPALIVE_NS = 5000000 };
static const int64_t FIRST_NS = INT64_C(1000000000000);
static const int64_t FIRST_WALL_MS = INT64_C(1790000000000);

struct item {
    char *key, *value;
    int64_t create_revision, mod_revision, lease; /* lease 0: none */
};

struct client {
    struct store store; /* first */
    struct shared_backend *backend;
    bool used, cut, hold;
    enum shared_fault fault;
    char fault_part[128];
    bool answer_waits; /* a commit is done and waits with its answer */
    bool short_session, refuse_session;
    int64_t lease, ttl_ns, deadline_ns; /* lease 0: no session */
    bool lost;
    int64_t silent_since_ms;
    store_status_fn *status_fn;
    void *status_arg;
    store_watch_fn *watch_fn;
    void *watch_arg;
    size_t seen; /* events of the log that the watch had */
    bool closing, thread_runs;
    pthread_t thread;
};

struct event {
    int64_t revision;
    struct store_kv kv;
};

struct shared_backend {
    struct clock clock; /* first: the clock's functions get it */
    _Atomic int64_t now_ns;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct item *items; /* [lock] sorted by key */
    size_t item_count, item_allocated;
    struct event *events; /* [lock] */
    size_t event_count, event_allocated;
    int64_t revision, next_lease;
    struct client clients[CLIENTS_MAX];
    bool closing;
    pthread_t thread;
};

static int64_t backend_mono(const struct clock *clock)
{
    return atomic_load(&((struct shared_backend *)(void *)(uintptr_t)clock)->now_ns);
}

static int64_t backend_wall(const struct clock *clock)
{
    return FIRST_WALL_MS + (backend_mono(clock) - FIRST_NS) / 1000000;
}

const struct clock *shared_backend_clock(const struct shared_backend *backend)
{
    return &backend->clock;
}

/* ---- contents; all [lock] ---- */

static int compare_key(const void *item, const void *key)
{
    return strcmp(((const struct item *)item)->key, key);
}

static size_t find(const struct shared_backend *backend, const char *key, bool *found)
{
    return sorted_place(backend->items, backend->item_count, sizeof(*backend->items),
                        key, compare_key, found);
}

static char *copy(const char *text)
{
    char *result = text ? strdup(text) : NULL;

    assert(!text || result);
    return result;
}

static void log_event(struct shared_backend *backend, int64_t revision,
                      const struct item *item, bool deleted)
{
    if (backend->event_count == backend->event_allocated) {
        backend->event_allocated =
            backend->event_allocated ? 2 * backend->event_allocated : 256;
        backend->events = reallocarray(backend->events, backend->event_allocated,
                                       sizeof(*backend->events));
        assert(backend->events);
    }
    backend->events[backend->event_count++] = (struct event){
        .revision = revision,
        .kv = {.key = copy(item->key),
               .value = deleted ? NULL : copy(item->value),
               .value_length = deleted ? 0 : strlen(item->value),
               .create_revision = deleted ? 0 : item->create_revision,
               .mod_revision = revision},
    };
}

static void put(struct shared_backend *backend, int64_t revision, const char *key,
                const char *value, int64_t lease)
{
    bool found;
    size_t at = find(backend, key, &found);
    struct item *item;

    if (!found) {
        if (backend->item_count == backend->item_allocated) {
            backend->item_allocated =
                backend->item_allocated ? 2 * backend->item_allocated : 64;
            backend->items = reallocarray(backend->items, backend->item_allocated,
                                          sizeof(*backend->items));
            assert(backend->items);
        }
        memmove(&backend->items[at + 1], &backend->items[at],
                (backend->item_count - at) * sizeof(*backend->items));
        backend->item_count++;
        backend->items[at] =
            (struct item){.key = copy(key), .create_revision = revision};
    }
    item = &backend->items[at];
    free(item->value);
    item->value = copy(value);
    item->mod_revision = revision;
    item->lease = lease;
    log_event(backend, revision, item, false);
}

static void delete_at(struct shared_backend *backend, int64_t revision, size_t at)
{
    log_event(backend, revision, &backend->items[at], true);
    free(backend->items[at].key);
    free(backend->items[at].value);
    backend->item_count--;
    memmove(&backend->items[at], &backend->items[at + 1],
            (backend->item_count - at) * sizeof(*backend->items));
}

static bool delete (struct shared_backend *backend, int64_t revision, const char *key)
{
    bool found;
    size_t at = find(backend, key, &found);

    if (found)
        delete_at(backend, revision, at);
    return found;
}

static bool delete_prefix(struct shared_backend *backend, int64_t revision,
                          const char *prefix)
{
    bool found, any = false;
    size_t at = find(backend, prefix, &found);

    while (at < backend->item_count &&
           strncmp(backend->items[at].key, prefix, strlen(prefix)) == 0) {
        delete_at(backend, revision, at);
        any = true;
    }
    return any;
}

static void end_lease(struct shared_backend *backend, int64_t lease)
{
    int64_t revision = backend->revision + 1;
    bool any = false;

    for (size_t i = 0; i < backend->item_count;) {
        if (lease == 0 || backend->items[i].lease != lease) {
            i++;
            continue;
        }
        delete_at(backend, revision, i);
        any = true;
    }
    if (any) {
        backend->revision = revision;
        pthread_cond_broadcast(&backend->changed);
    }
}

/* ---- sessions ---- */

static void fill_status(const struct client *client, struct store_status *out)
{
    *out = (struct store_status){
        .reachable = !client->cut,
        .silent_since_ms = client->silent_since_ms,
        .session_deadline_ns = client->deadline_ns,
        .session_lost = client->lost,
    };
}

/* [lock, released during the call] */
static void tell_status(struct client *client)
{
    struct store_status status;

    if (!client->status_fn)
        return;
    fill_status(client, &status);
    pthread_mutex_unlock(&client->backend->lock);
    client->status_fn(client->status_arg, &status);
    pthread_mutex_lock(&client->backend->lock);
}

/* [lock] A client that is not cut keeps its session alive, or learns that it is gone.
 */
static void keep_alive(struct shared_backend *backend, struct client *client)
{
    int64_t now_ns = backend_mono(&backend->clock);

    if (client->lease == 0)
        return;
    if (now_ns >= client->deadline_ns && client->cut && client->ttl_ns > 0) {
        end_lease(backend, client->lease);
        client->ttl_ns = 0; /* ended at the store; the client does not know yet */
    }
    if (client->cut || client->lost)
        return;
    if (client->ttl_ns == 0) {
        client->lost = true;
        tell_status(client);
    } else {
        client->deadline_ns = now_ns + client->ttl_ns;
    }
}

/* [lock, released during the call] */
static void end_session(struct client *client, bool told)
{
    end_lease(client->backend, client->lease);
    client->ttl_ns = 0;
    client->lost = true;
    if (told)
        tell_status(client);
}

static void *run_backend(void *arg)
{
    struct shared_backend *backend = arg;
    const struct timespec pause = {.tv_nsec = KEEPALIVE_NS};

    pthread_mutex_lock(&backend->lock);
    while (!backend->closing) {
        for (int i = 0; i < CLIENTS_MAX; i++)
            if (backend->clients[i].used)
                keep_alive(backend, &backend->clients[i]);
        pthread_mutex_unlock(&backend->lock);
        (void)nanosleep(&pause, NULL);
        pthread_mutex_lock(&backend->lock);
    }
    pthread_mutex_unlock(&backend->lock);
    return NULL;
}

struct shared_backend *shared_backend_new(void)
{
    struct shared_backend *backend = calloc(1, sizeof(*backend));

    assert(backend);
    backend->clock = (struct clock){backend_mono, backend_wall};
    atomic_init(&backend->now_ns, FIRST_NS);
    pthread_mutex_init(&backend->lock, NULL);
    pthread_cond_init(&backend->changed, NULL);
    backend->revision = 1;
    backend->next_lease = 1;
    if (pthread_create(&backend->thread, NULL, run_backend, backend) != 0)
        abort();
    return backend;
}

void shared_backend_free(struct shared_backend *backend)
{
    pthread_mutex_lock(&backend->lock);
    backend->closing = true;
    pthread_mutex_unlock(&backend->lock);
    pthread_join(backend->thread, NULL);
    for (size_t i = 0; i < backend->item_count; i++) {
        free(backend->items[i].key);
        free(backend->items[i].value);
    }
    for (size_t i = 0; i < backend->event_count; i++) {
        free(backend->events[i].kv.key);
        free(backend->events[i].kv.value);
    }
    free(backend->items);
    free(backend->events);
    pthread_mutex_destroy(&backend->lock);
    pthread_cond_destroy(&backend->changed);
    free(backend);
}

void shared_backend_advance(struct shared_backend *backend, int64_t ms)
{
    /* Clients that are not cut get their keepalive through: only the cut ones age. */
    pthread_mutex_lock(&backend->lock);
    atomic_fetch_add(&backend->now_ns, ms * 1000000);
    for (int i = 0; i < CLIENTS_MAX; i++)
        if (backend->clients[i].used)
            keep_alive(backend, &backend->clients[i]);
    pthread_mutex_unlock(&backend->lock);
}

/* ---- the store's functions ---- */

static struct client *client_of(struct store *store)
{
    return (struct client *)(void *)store;
}

static int shared_list(struct store *store, const char *prefix, struct store_list *out)
{
    struct client *client = client_of(store);
    struct shared_backend *backend = client->backend;
    bool found;
    size_t first, last;

    *out = (struct store_list){0};
    pthread_mutex_lock(&backend->lock);
    if (client->cut) {
        pthread_mutex_unlock(&backend->lock);
        return E_STORE_UNREACHABLE;
    }
    first = last = find(backend, prefix, &found);
    while (last < backend->item_count &&
           strncmp(backend->items[last].key, prefix, strlen(prefix)) == 0)
        last++;
    out->items = calloc(last - first + 1, sizeof(*out->items));
    assert(out->items);
    for (size_t i = first; i < last; i++)
        out->items[out->count++] = (struct store_kv){
            .key = copy(backend->items[i].key),
            .value = copy(backend->items[i].value),
            .value_length = strlen(backend->items[i].value),
            .create_revision = backend->items[i].create_revision,
            .mod_revision = backend->items[i].mod_revision,
        };
    out->revision = backend->revision;
    pthread_mutex_unlock(&backend->lock);
    return 0;
}

static bool compares_hold(struct shared_backend *backend, const struct store_txn *txn)
{
    for (size_t i = 0; i < txn->compare_count; i++) {
        const struct store_compare *compare = &txn->compares[i];
        bool found;
        size_t at = find(backend, compare->key, &found);
        int64_t revision = !found ? 0
                           : compare->target == STORE_CREATE_REVISION
                               ? backend->items[at].create_revision
                               : backend->items[at].mod_revision;

        if (revision != compare->revision)
            return false;
    }
    return true;
}

static void apply(struct shared_backend *backend, const struct client *client,
                  const struct store_txn *txn)
{
    int64_t revision = backend->revision + 1;
    bool any = false;

    for (size_t i = 0; i < txn->op_count; i++) {
        const struct store_op *op = &txn->ops[i];

        if (op->verb == STORE_PUT) {
            put(backend, revision, op->key, op->value, op->leased ? client->lease : 0);
            any = true;
        } else if (op->verb == STORE_DELETE) {
            any |= delete (backend, revision, op->key);
        } else {
            any |= delete_prefix(backend, revision, op->key);
        }
    }
    if (any)
        backend->revision = revision;
}

/* As etcd: a key may be touched once. */
static bool touches_twice(const struct store_txn *txn)
{
    for (size_t i = 0; i < txn->op_count; i++)
        for (size_t j = 0; j < txn->op_count; j++) {
            const struct store_op *a = &txn->ops[i], *b = &txn->ops[j];
            size_t length = strlen(a->key);

            if (i == j)
                continue;
            if (strcmp(a->key, b->key) == 0 || (a->verb == STORE_DELETE_PREFIX &&
                                                strncmp(a->key, b->key, length) == 0))
                return true;
        }
    return false;
}

static enum shared_fault take_fault(struct client *client, const struct store_txn *txn)
{
    enum shared_fault fault = client->fault;

    for (size_t i = 0; i < txn->op_count && fault != SHARED_NONE; i++)
        if (strstr(txn->ops[i].key, client->fault_part)) {
            client->fault = SHARED_NONE;
            return fault;
        }
    return SHARED_NONE;
}

static bool needs_session(const struct store_txn *txn)
{
    for (size_t i = 0; i < txn->op_count; i++)
        if (txn->ops[i].leased)
            return true;
    return false;
}

static int shared_commit(struct store *store, const struct store_txn *txn,
                         int64_t *revision)
{
    struct client *client = client_of(store);
    struct shared_backend *backend = client->backend;
    enum shared_fault fault;
    int rc = 0;

    if (txn->op_count > STORE_TXN_MAX || txn->compare_count > STORE_TXN_MAX)
        return -E2BIG;
    if (touches_twice(txn))
        return -EINVAL;
    pthread_mutex_lock(&backend->lock);
    fault = client->cut ? SHARED_NONE : take_fault(client, txn);
    if (client->cut)
        rc = E_STORE_UNREACHABLE;
    else if (fault == SHARED_UNKNOWN_NOT)
        rc = E_OUTCOME_UNKNOWN;
    else if (needs_session(txn) && (client->lease == 0 || client->ttl_ns == 0))
        rc = E_SESSION_LOST;
    else if (!compares_hold(backend, txn))
        rc = E_CONFLICT;
    else
        apply(backend, client, txn);
    *revision = backend->revision;
    client->answer_waits = rc == 0 && fault == SHARED_ANSWER_LATE;
    pthread_cond_broadcast(&backend->changed);
    while (client->answer_waits && !client->closing)
        pthread_cond_wait(&backend->changed, &backend->lock);
    pthread_mutex_unlock(&backend->lock);
    return rc == 0 && fault == SHARED_UNKNOWN_DONE ? E_OUTCOME_UNKNOWN : rc;
}

/* [lock, released during the call] The events of one revision. */
static void deliver(struct client *client)
{
    struct shared_backend *backend = client->backend;
    size_t first = client->seen, count = 1;
    int64_t revision = backend->events[first].revision;
    struct store_kv *kvs;

    while (first + count < backend->event_count &&
           backend->events[first + count].revision == revision)
        count++;
    kvs = calloc(count, sizeof(*kvs));
    assert(kvs);
    for (size_t i = 0; i < count; i++)
        kvs[i] = backend->events[first + i].kv; /* texts live as long as the backend */
    client->seen += count;
    pthread_mutex_unlock(&backend->lock);
    client->watch_fn(client->watch_arg, kvs, count, revision);
    free(kvs);
    pthread_mutex_lock(&backend->lock);
}

static void *run_watch(void *arg)
{
    struct client *client = arg;
    struct shared_backend *backend = client->backend;

    pthread_mutex_lock(&backend->lock);
    while (!client->closing) {
        if (!client->cut && !client->hold && client->seen < backend->event_count)
            deliver(client);
        else
            pthread_cond_wait(&backend->changed, &backend->lock);
    }
    pthread_mutex_unlock(&backend->lock);
    return NULL;
}

static int shared_watch(struct store *store, int64_t revision, store_watch_fn *fn,
                        void *arg)
{
    struct client *client = client_of(store);
    struct shared_backend *backend = client->backend;

    pthread_mutex_lock(&backend->lock);
    client->watch_fn = fn;
    client->watch_arg = arg;
    client->seen = 0;
    while (client->seen < backend->event_count &&
           backend->events[client->seen].revision <= revision)
        client->seen++;
    pthread_mutex_unlock(&backend->lock);
    client->thread_runs = pthread_create(&client->thread, NULL, run_watch, client) == 0;
    return client->thread_runs ? 0 : -EAGAIN;
}

static int shared_session_open(struct store *store, int64_t ttl_ms)
{
    struct client *client = client_of(store);
    struct shared_backend *backend = client->backend;
    int rc = 0;

    pthread_mutex_lock(&backend->lock);
    if (client->cut) {
        rc = E_STORE_UNREACHABLE;
    } else {
        if (client->lease != 0)
            end_lease(backend, client->lease);
        client->lease = 0;
    }
    if (rc == 0 && client->refuse_session) {
        client->refuse_session = false;
        rc = E_STORE_UNREACHABLE;
    }
    if (rc == 0) {
        client->lease = backend->next_lease++;
        client->ttl_ns = ttl_ms * 1000000;
        client->deadline_ns = backend_mono(&backend->clock) + client->ttl_ns;
        client->lost = false;
        if (client->short_session)
            end_session(client, true);
        client->short_session = false;
    }
    pthread_mutex_unlock(&backend->lock);
    return rc;
}

static void shared_session_close(struct store *store)
{
    struct client *client = client_of(store);

    pthread_mutex_lock(&client->backend->lock);
    if (!client->cut)
        end_lease(client->backend, client->lease);
    if (!client->cut)
        client->lease = 0;
    pthread_mutex_unlock(&client->backend->lock);
}

static void shared_status(struct store *store, struct store_status *out)
{
    struct client *client = client_of(store);

    pthread_mutex_lock(&client->backend->lock);
    fill_status(client, out);
    pthread_mutex_unlock(&client->backend->lock);
}

static void shared_on_status(struct store *store, store_status_fn *fn, void *arg)
{
    struct client *client = client_of(store);

    pthread_mutex_lock(&client->backend->lock);
    client->status_fn = fn;
    client->status_arg = arg;
    pthread_mutex_unlock(&client->backend->lock);
}

/* Like a process that ends: its session goes on until it times out. */
static void shared_close(struct store *store)
{
    struct client *client = client_of(store);
    struct shared_backend *backend = client->backend;

    pthread_mutex_lock(&backend->lock);
    client->closing = true;
    client->cut = true;
    client->status_fn = NULL;
    pthread_cond_broadcast(&backend->changed);
    pthread_mutex_unlock(&backend->lock);
    if (client->thread_runs)
        pthread_join(client->thread, NULL);
}

struct store *shared_store_open(struct shared_backend *backend)
{
    static const struct store_ops ops = {
        .list = shared_list,
        .commit = shared_commit,
        .watch = shared_watch,
        .session_open = shared_session_open,
        .session_close = shared_session_close,
        .status = shared_status,
        .on_status = shared_on_status,
        .close = shared_close,
    };
    struct client *client = NULL;

    pthread_mutex_lock(&backend->lock);
    for (int i = 0; i < CLIENTS_MAX && !client; i++)
        if (!backend->clients[i].used)
            client = &backend->clients[i];
    assert(client);
    *client = (struct client){.store.ops = &ops, .backend = backend, .used = true};
    pthread_mutex_unlock(&backend->lock);
    return &client->store;
}

/* ---- the test's hand ---- */

void shared_store_cut(struct store *store, bool cut)
{
    struct client *client = client_of(store);
    struct shared_backend *backend = client->backend;

    pthread_mutex_lock(&backend->lock);
    if (client->cut != cut) {
        client->cut = cut;
        client->silent_since_ms = cut ? backend_wall(&backend->clock) : 0;
        pthread_cond_broadcast(&backend->changed);
        tell_status(client);
    }
    pthread_mutex_unlock(&backend->lock);
}

void shared_store_hold_watch(struct store *store, bool hold)
{
    struct client *client = client_of(store);

    pthread_mutex_lock(&client->backend->lock);
    client->hold = hold;
    pthread_cond_broadcast(&client->backend->changed);
    pthread_mutex_unlock(&client->backend->lock);
}

void shared_store_fault(struct store *store, enum shared_fault fault, const char *part)
{
    struct client *client = client_of(store);

    assert(strlen(part) < sizeof(client->fault_part));
    pthread_mutex_lock(&client->backend->lock);
    client->fault = fault;
    memcpy(client->fault_part, part, strlen(part) + 1);
    pthread_mutex_unlock(&client->backend->lock);
}

void shared_store_answer(struct store *store)
{
    struct client *client = client_of(store);
    struct shared_backend *backend = client->backend;

    pthread_mutex_lock(&backend->lock);
    while (!client->answer_waits)
        pthread_cond_wait(&backend->changed, &backend->lock);
    client->answer_waits = false;
    pthread_cond_broadcast(&backend->changed);
    pthread_mutex_unlock(&backend->lock);
}

void shared_store_put_late(struct store *store, const char *key, const char *value)
{
    struct client *client = client_of(store);
    struct shared_backend *backend = client->backend;

    pthread_mutex_lock(&backend->lock);
    put(backend, ++backend->revision, key, value, client->lease);
    pthread_cond_broadcast(&backend->changed);
    pthread_mutex_unlock(&backend->lock);
}

void shared_store_end_session(struct store *store, bool told)
{
    struct client *client = client_of(store);

    pthread_mutex_lock(&client->backend->lock);
    end_session(client, told);
    pthread_mutex_unlock(&client->backend->lock);
}

void shared_store_short_session(struct store *store)
{
    struct client *client = client_of(store);

    pthread_mutex_lock(&client->backend->lock);
    client->short_session = true;
    pthread_mutex_unlock(&client->backend->lock);
}

void shared_store_refuse_session(struct store *store)
{
    struct client *client = client_of(store);

    pthread_mutex_lock(&client->backend->lock);
    client->refuse_session = true;
    pthread_mutex_unlock(&client->backend->lock);
}

char *shared_backend_get(struct shared_backend *backend, const char *key)
{
    bool found;
    char *value = NULL;
    size_t at;

    pthread_mutex_lock(&backend->lock);
    at = find(backend, key, &found);
    if (found)
        value = copy(backend->items[at].value);
    pthread_mutex_unlock(&backend->lock);
    return value;
}

void shared_backend_put(struct shared_backend *backend, const char *key,
                        const char *value)
{
    pthread_mutex_lock(&backend->lock);
    if (value)
        put(backend, ++backend->revision, key, value, 0);
    else if (delete (backend, backend->revision + 1, key))
        backend->revision++;
    pthread_cond_broadcast(&backend->changed);
    pthread_mutex_unlock(&backend->lock);
}

int64_t shared_backend_revision(struct shared_backend *backend)
{
    int64_t revision;

    pthread_mutex_lock(&backend->lock);
    revision = backend->revision;
    pthread_mutex_unlock(&backend->lock);
    return revision;
}
