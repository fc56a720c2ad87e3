#include "coord/etcd_known.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct known_key {
    int64_t create_revision, mod_revision;
    UT_hash_handle hh;
    char key[];
};

struct etcd_known {
    struct known_key *keys;
};

struct etcd_known *etcd_known_new(void)
{
    return calloc(1, sizeof(struct etcd_known));
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void forget(struct etcd_known *known, struct known_key *key)
{
    HASH_DEL(known->keys, key);
    free(key);
}

static void forget_all(struct etcd_known *known)
{
    struct known_key *key = known->keys, *next;

    HASH_CLEAR(hh, known->keys);
    for (; key; key = next) { /* they are still linked */
        next = key->hh.next;
        free(key);
    }
}

void etcd_known_free(struct etcd_known *known)
{
    if (!known)
        return;
    forget_all(known);
    free(known);
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static struct known_key *find(const struct etcd_known *known, const char *name)
{
    struct known_key *key;

    HASH_FIND_STR(known->keys, name, key);
    return key;
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static int learn(struct etcd_known *known, const struct store_kv *kv)
{
    struct known_key *key = find(known, kv->key);

    if (!key) {
        size_t length = strlen(kv->key);
        key = calloc(1, sizeof(*key) + length + 1);
        if (!key)
            return -ENOMEM;
        memcpy(key->key, kv->key, length + 1);
        HASH_ADD_KEYPTR(hh, known->keys, key->key, length, key);
        if (!key->hh.tbl) { /* uthash found no memory */
            free(key);
            return -ENOMEM;
        }
    }
    key->create_revision = kv->create_revision;
    key->mod_revision = kv->mod_revision;
    return 0;
}

int etcd_known_set(struct etcd_known *known, const struct store_list *list)
{
    int rc = 0;

    forget_all(known);
    for (size_t i = 0; rc == 0 && i < list->count; i++)
        rc = learn(known, &list->items[i]);
    return rc;
}

int etcd_known_apply(struct etcd_known *known, struct store_kv *event)
{
    struct known_key *key = find(known, event->key);

    if (event->value)
        return learn(known, event);
    if (key) {
        event->create_revision = key->create_revision;
        forget(known, key);
    }
    return 0;
}

static int compare_key(const void *key, const void *kv)
{
    return strcmp(key, ((const struct store_kv *)kv)->key);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct store_kv *)a)->key, ((const struct store_kv *)b)->key);
}

int etcd_known_diff(struct etcd_known *known, const struct store_list *list,
                    struct store_kv **out, size_t *count)
{
    struct store_kv *events =
        calloc(HASH_COUNT(known->keys) + list->count + 1, sizeof(*events));
    struct known_key *key, *next;
    size_t n = 0;

    *out = events;
    *count = 0;
    if (!events)
        return -ENOMEM;
    HASH_ITER(hh, known->keys, key, next)
    {
        if (list->count > 0 && bsearch(key->key, list->items, list->count,
                                       sizeof(*list->items), compare_key))
            continue;
        events[n++] = (struct store_kv){
            .key = key->key,
            .create_revision = key->create_revision,
            .mod_revision = list->revision,
        };
    }
    qsort(events, n, sizeof(*events), by_key);
    for (size_t i = 0; i < list->count; i++) {
        key = find(known, list->items[i].key);
        if (!key || key->mod_revision != list->items[i].mod_revision)
            events[n++] = list->items[i];
    }
    *count = n;
    return 0;
}
