#include "coord/store_embedded.h"

#include "coord/diag.h"
#include "coord/err.h"
#include "coord/store_files.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPACT_MIN_BYTES = 1 << 20, COMPACT_FACTOR = 4 };

/* What a transaction changes: as the watcher gets it, and in journal order. */
struct change_set {
    struct store_kv *kvs;
    bool *leased;
    size_t count;
    size_t allocated;
    int64_t revision;
    struct change_set *next; /* in the queue of events */
};

struct embedded {
    struct store base;
    pthread_mutex_t lock;
    pthread_cond_t delivered_cond;
    struct problems *problems; /* [const] borrowed */
    bool created;              /* [const] */
    struct store_files files;  /* [lock] */
    struct store_map map;      /* [lock] */
    int64_t revision;          /* [lock] */
    off_t compact_at;          /* [lock] not before a copy is this long */

    store_watch_fn *watch_fn;                /* [lock] */
    void *watch_arg;                         /* [lock] */
    struct change_set *events, **events_end; /* [lock] committed, not yet delivered */
    int64_t delivered;                       /* [lock] revision */
    bool delivering;                         /* [lock] */
    pthread_t deliverer;                     /* [lock] valid while delivering */
};

static void change_set_free(struct change_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->count; i++) {
        free(set->kvs[i].key);
        free(set->kvs[i].value);
    }
    free(set->kvs);
    free(set->leased);
    free(set);
}

static int change_set_add(struct change_set *set, const char *key, const char *value,
                          bool leased, int64_t create_revision)
{
    struct store_kv *kv;

    if (set->count == set->allocated) {
        size_t allocated = set->allocated ? set->allocated * 2 : 8;
        struct store_kv *kvs = realloc(set->kvs, allocated * sizeof(*kvs));
        bool *flags;

        if (!kvs)
            return -ENOMEM;
        set->kvs = kvs;
        flags = realloc(set->leased, allocated * sizeof(*flags));
        if (!flags)
            return -ENOMEM;
        set->leased = flags;
        set->allocated = allocated;
    }
    kv = &set->kvs[set->count];
    *kv = (struct store_kv){
        .key = strdup(key),
        .value = value ? strdup(value) : NULL,
        .value_length = value ? strlen(value) : 0,
        .create_revision = create_revision,
        .mod_revision = set->revision,
    };
    set->leased[set->count++] = leased;
    return kv->key && (!value || kv->value) ? 0 : -ENOMEM;
}

static int add_deletions(struct change_set *set, const struct store_map *map,
                         const char *prefix)
{
    size_t length = strlen(prefix);
    bool found;
    int rc = 0;

    for (size_t i = store_map_find(map, prefix, &found);
         i < map->count && rc == 0 &&
         strncmp(map->entries[i]->key, prefix, length) == 0;
         i++)
        rc = change_set_add(set, map->entries[i]->key, NULL, false,
                            map->entries[i]->create_revision);
    return rc;
}

static int order_keys(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check_keys_once(const struct change_set *set)
{
    const char **keys = malloc((set->count + 1) * sizeof(*keys));
    int rc = 0;

    if (!keys)
        return -ENOMEM;
    for (size_t i = 0; i < set->count; i++)
        keys[i] = set->kvs[i].key;
    qsort(keys, set->count, sizeof(*keys), order_keys);
    for (size_t i = 1; i < set->count; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            rc = -EINVAL;
    free(keys);
    return rc;
}

/* The effective changes of a transaction: no deletions of what is not there. [lock] */
static int change_set_build(const struct embedded *store, const struct store_op *ops,
                            size_t op_count, struct change_set *set)
{
    int rc = 0;

    for (size_t i = 0; i < op_count && rc == 0; i++) {
        const struct store_op *op = &ops[i];
        const struct store_entry *old = store_map_get(&store->map, op->key);

        if (op->verb == STORE_DELETE_PREFIX)
            rc = add_deletions(set, &store->map, op->key);
        else if (op->verb == STORE_PUT)
            rc = change_set_add(set, op->key, op->value, op->leased,
                                old ? old->create_revision : set->revision);
        else if (old)
            rc = change_set_add(set, op->key, NULL, false, old->create_revision);
    }
    return rc == 0 ? check_keys_once(set) : rc;
}

static bool compares_hold(const struct embedded *store, const struct store_txn *txn)
{
    for (size_t i = 0; i < txn->compare_count; i++) {
        const struct store_compare *compare = &txn->compares[i];
        const struct store_entry *entry = store_map_get(&store->map, compare->key);
        int64_t revision = !entry ? 0
                           : compare->target == STORE_CREATE_REVISION
                               ? entry->create_revision
                               : entry->mod_revision;

        if (revision != compare->revision)
            return false;
    }
    return true;
}

/* Entries for the map, made before anything is on disk; NULL where a key is deleted. */
static struct store_entry **prepare_entries(struct embedded *store,
                                            const struct change_set *set)
{
    struct store_entry **entries = calloc(set->count, sizeof(struct store_entry *));
    bool failed = !entries || store_map_reserve(&store->map, set->count) != 0;

    for (size_t i = 0; i < set->count && !failed; i++) {
        const struct store_kv *kv = &set->kvs[i];

        if (!kv->value)
            continue;
        entries[i] =
            store_entry_new(kv->key, kv->value, kv->value_length, set->leased[i]);
        failed = !entries[i];
    }
    if (!failed)
        return entries;
    for (size_t i = 0; entries && i < set->count; i++)
        store_entry_free(entries[i]);
    free(entries);
    return NULL;
}

/*
 * Whether a transaction makes new keys that stay, and deletes nothing: those of users
 * who create something. The kept space is for the others: a node's start, and
 * deletions.
 */
static bool only_adds(const struct change_set *set)
{
    bool adds = false;

    for (size_t i = 0; i < set->count; i++) {
        if (!set->kvs[i].value)
            return false;
        if (!set->leased[i] && set->kvs[i].create_revision == set->revision)
            adds = true;
    }
    return adds;
}

static int write_changes(struct embedded *store, const struct change_set *set)
{
    struct buf line;
    int rc;

    buf_init(&line, JOURNAL_BYTES_MAX);
    rc = journal_encode_transaction(&line, set->kvs, set->leased, set->count,
                                    set->revision);
    if (rc == 0 && only_adds(set))
        rc = store_files_reserve(&store->files, line.length);
    if (rc == 0)
        rc = store_files_append(&store->files, line.data, line.length);
    buf_free(&line);
    return rc;
}

/* [lock] A failure costs only disk space: tried again after some growth. */
static void compact_if_long(struct embedded *store)
{
    off_t longest = store->files.sizes[0] > store->files.sizes[1]
                        ? store->files.sizes[0]
                        : store->files.sizes[1];
    int rc = 0;

    if (longest <= store->compact_at ||
        (size_t)longest <= COMPACT_FACTOR * store->map.live_bytes)
        return;
    for (int c = 0; c < STORE_COPIES && rc == 0; c++)
        rc =
            store_files_snapshot(&store->files, c, &store->map, store->revision, false);
    store->compact_at = COMPACT_MIN_BYTES;
    if (rc != 0) {
        store->compact_at = longest + COMPACT_MIN_BYTES;
        diag(DIAG_WARNING, "store: compacting the journal: %s", err_text(rc));
    }
}

/* [lock] Writes and applies a set that is not empty; on success the set is queued. */
static int commit_set(struct embedded *store, struct change_set *set)
{
    struct store_entry **entries = prepare_entries(store, set);
    int rc = entries ? write_changes(store, set) : -ENOMEM;

    for (size_t i = 0; entries && i < set->count; i++) {
        if (rc != 0)
            store_entry_free(entries[i]);
        else if (entries[i])
            store_map_put(&store->map, entries[i], set->revision);
        else
            store_map_remove(&store->map, set->kvs[i].key);
    }
    free(entries);
    if (rc != 0)
        return rc;
    store->revision = set->revision;
    *store->events_end = set;
    store->events_end = &set->next;
    compact_if_long(store);
    return 0;
}

/*
 * [lock, released during calls] Delivers events in order, one thread at a time. Returns
 * once everything up to `revision` was delivered, unless this thread is the one that
 * delivers already, further up its stack.
 */
static void deliver(struct embedded *store, int64_t revision)
{
    if (store->delivering && pthread_equal(store->deliverer, pthread_self()))
        return;
    while (store->delivered < revision) {
        struct change_set *set = store->events;
        store_watch_fn *fn = store->watch_fn;
        void *arg = store->watch_arg;

        if (store->delivering) {
            pthread_cond_wait(&store->delivered_cond, &store->lock);
            continue;
        }
        store->delivering = true;
        store->deliverer = pthread_self();
        store->events = set->next;
        if (!store->events)
            store->events_end = &store->events;
        pthread_mutex_unlock(&store->lock);
        if (fn)
            fn(arg, set->kvs, set->count, set->revision);
        pthread_mutex_lock(&store->lock);
        store->delivered = set->revision;
        store->delivering = false;
        change_set_free(set);
        pthread_cond_broadcast(&store->delivered_cond);
    }
}

static int embedded_commit(struct store *base, const struct store_txn *txn,
                           int64_t *revision)
{
    struct embedded *store = (struct embedded *)base;
    struct change_set *set = calloc(1, sizeof(*set));
    int rc;

    if (!set)
        return -ENOMEM;
    pthread_mutex_lock(&store->lock);
    set->revision = store->revision + 1;
    rc = compares_hold(store, txn) ? 0 : E_CONFLICT;
    if (rc == 0)
        rc = change_set_build(store, txn->ops, txn->op_count, set);
    if (rc == 0 && set->count > 0) {
        rc = commit_set(store, set);
        if (rc == 0) {
            *revision = set->revision;
            set = NULL;
            deliver(store, *revision);
        }
    } else if (rc == 0) {
        *revision = store->revision;
    }
    pthread_mutex_unlock(&store->lock);
    change_set_free(set);
    return rc;
}

static int embedded_list(struct store *base, const char *prefix, struct store_list *out)
{
    struct embedded *store = (struct embedded *)base;
    const struct store_map *map = &store->map;
    size_t length = strlen(prefix), first, last;
    bool found;
    int rc = 0;

    *out = (struct store_list){0};
    pthread_mutex_lock(&store->lock);
    out->revision = store->revision;
    first = last = store_map_find(map, prefix, &found);
    while (last < map->count && strncmp(map->entries[last]->key, prefix, length) == 0)
        last++;
    out->items = calloc(last - first + 1, sizeof(*out->items));
    if (!out->items)
        rc = -ENOMEM;
    for (size_t i = first; i < last && rc == 0; i++) {
        const struct store_entry *entry = map->entries[i];
        struct store_kv *kv = &out->items[out->count++];

        *kv = (struct store_kv){
            .key = strdup(entry->key),
            .value = strdup(entry->value),
            .value_length = entry->value_length,
            .create_revision = entry->create_revision,
            .mod_revision = entry->mod_revision,
        };
        if (!kv->key || !kv->value)
            rc = -ENOMEM;
    }
    pthread_mutex_unlock(&store->lock);
    if (rc != 0)
        store_list_free(out);
    return rc;
}

static int embedded_watch(struct store *base, int64_t revision, store_watch_fn *fn,
                          void *arg)
{
    struct embedded *store = (struct embedded *)base;
    int rc = 0;

    pthread_mutex_lock(&store->lock);
    if (revision != store->delivered || revision != store->revision) {
        rc = E_CONFLICT; /* events before now are not kept: list again */
    } else {
        store->watch_fn = fn;
        store->watch_arg = arg;
    }
    pthread_mutex_unlock(&store->lock);
    return rc;
}

static void embedded_free(struct embedded *store)
{
    store_files_close(&store->files);
    store_map_free(&store->map);
    pthread_mutex_destroy(&store->lock);
    pthread_cond_destroy(&store->delivered_cond);
    free(store);
}

static void embedded_close(struct store *base)
{
    struct embedded *store = (struct embedded *)base;
    struct buf line;
    int rc;

    buf_init(&line, 256);
    rc = journal_encode_closed(&line, store->revision);
    if (rc == 0)
        rc = store_files_append(&store->files, line.data, line.length);
    if (rc != 0)
        diag(DIAG_WARNING, "store: closing: %s", err_text(rc));
    buf_free(&line);
    embedded_free(store);
}

/* The process is the session: it began at open, and is never lost or silent. */
static int embedded_session_open(struct store *base, int64_t ttl_ms)
{
    (void)base;
    (void)ttl_ms;
    return 0;
}

static void embedded_session_close(struct store *base)
{
    (void)base;
}

static void embedded_status(struct store *base, struct store_status *out)
{
    (void)base;
    *out = (struct store_status){.reachable = true, .session_deadline_ns = INT64_MAX};
}

static void embedded_on_status(struct store *base, store_status_fn *fn, void *arg)
{
    (void)base;
    (void)fn;
    (void)arg;
}

static const struct store_ops embedded_ops = {
    .list = embedded_list,
    .commit = embedded_commit,
    .watch = embedded_watch,
    .session_open = embedded_session_open,
    .session_close = embedded_session_close,
    .status = embedded_status,
    .on_status = embedded_on_status,
    .close = embedded_close,
};

/* The session of the last process is over: its keys go, in one transaction. */
static int drop_leased(struct embedded *store)
{
    struct change_set *set = calloc(1, sizeof(*set));
    int rc = set ? 0 : -ENOMEM;

    pthread_mutex_lock(&store->lock);
    if (set)
        set->revision = store->revision + 1;
    for (size_t i = 0; i < store->map.count && rc == 0; i++) {
        const struct store_entry *entry = store->map.entries[i];

        if (entry->leased)
            rc = change_set_add(set, entry->key, NULL, false, entry->create_revision);
    }
    if (rc == 0 && set->count > 0) {
        rc = commit_set(store, set);
        if (rc == 0)
            set = NULL;
    }
    if (rc == 0)
        deliver(store, store->revision);
    pthread_mutex_unlock(&store->lock);
    change_set_free(set);
    return rc;
}

static void report_faults(const struct embedded *store,
                          const struct store_recovery *recovery)
{
    for (int c = 0; c < STORE_COPIES; c++) {
        const struct store_verdict *verdict = &recovery->verdicts[c];
        char what[280];

        if (recovery->absent || (!verdict->rewrite && !verdict->cut))
            continue;
        if (!verdict->fault) {
            diag(DIAG_INFO, "store: %s: %s, as a crash leaves it; mended",
                 store_copy_name(c), verdict->what);
            continue;
        }
        snprintf(what, sizeof(what), "%s; restored from %s", verdict->what,
                 store_copy_name(!c));
        diag(DIAG_WARNING, "store: %s: %s", store_copy_name(c), what);
        if (store->problems)
            problems_set(
                store->problems, "store", store_copy_name(c), what,
                "nothing was lost; find out what changed the file, or check the "
                "disk; this line goes with the next mount");
    }
}

static struct embedded *embedded_new(struct problems *problems)
{
    struct embedded *store = calloc(1, sizeof(*store));

    if (!store)
        return NULL;
    store->base.ops = &embedded_ops;
    store->problems = problems;
    store->compact_at = COMPACT_MIN_BYTES;
    store->events_end = &store->events;
    store->files = (struct store_files){.dir_fd = -1, .fds = {-1, -1}};
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->delivered_cond, NULL);
    return store;
}

/* Reads both copies, repairs them, and takes over the state. */
static int embedded_load(struct embedded *store, char *why, size_t why_size)
{
    struct journal_copy copies[STORE_COPIES];
    struct store_recovery recovery;
    int rc = store_files_scan(&store->files, copies);

    if (rc != 0)
        return rc;
    rc = store_recover(copies, &recovery, why, why_size);
    if (rc == 0) {
        rc = store_files_repair(&store->files, copies, &recovery);
        if (rc == 0)
            report_faults(store, &recovery);
        store->map = recovery.map;
        store->revision = store->delivered = recovery.revision;
        store->created = recovery.absent;
    }
    for (int c = 0; c < STORE_COPIES; c++)
        journal_copy_free(&copies[c]);
    return rc;
}

int store_embedded_open_io(const char *dir, struct problems *problems,
                           const struct store_io *io, struct store **out, char *why,
                           size_t why_size)
{
    struct embedded *store = embedded_new(problems);
    int rc = -ENOMEM;

    *out = NULL;
    if (why_size > 0)
        why[0] = '\0';
    if (!store)
        return rc;
    rc = store_files_open(&store->files, dir, true, io);
    if (rc == 0)
        rc = embedded_load(store, why, why_size);
    if (rc == 0)
        rc = drop_leased(store);
    if (rc != 0) {
        if (why_size > 0 && why[0] == '\0')
            snprintf(why, why_size, "opening the store in %s: %s", dir, err_text(rc));
        embedded_free(store);
        return rc;
    }
    *out = &store->base;
    return 0;
}

int store_embedded_open(const char *dir, struct problems *problems, struct store **out,
                        char *why, size_t why_size)
{
    return store_embedded_open_io(dir, problems, &store_io_real, out, why, why_size);
}

bool store_embedded_was_created(const struct store *store)
{
    return ((const struct embedded *)store)->created;
}
