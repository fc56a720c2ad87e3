#include <xxhash.h>

#define HASH_NONFATAL_OOM                1
#define HASH_FUNCTION(key, length, hash) hash = (unsigned)XXH3_64bits(key, length)
/* Without memory for the hash table the node is simply not found by others. */
#define uthash_nonfatal_oom(node) ((node)->shared = false)

#include "fs/node.h"

#include "fs/refusals.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { NODE_KEY_MAX = 512 };

struct node_table {
    pthread_mutex_t lock;
    struct node *root;        /* [const] */
    struct node *hash;        /* [lock] the shared ones, by key */
    struct node *all;         /* [lock] list */
    size_t count;             /* [lock] */
    struct refusals refusals; /* [lock] */
};

/* A key of fixed fields, then the name. */
static size_t node_key(const struct tree_place *place,
                       const struct node_identity *identity,
                       unsigned char key[NODE_KEY_MAX])
{
    struct {
        struct node_identity identity;
        int64_t base_offset;
        struct topic_id topic_id;
        int32_t partition;
        int32_t kind;
    } fixed;
    size_t name_length = strlen(place->name);
    memset(&fixed, 0, sizeof fixed);
    fixed.identity = *identity;
    fixed.kind = (int32_t)place->kind;
    if (tree_is_in_topic(place->kind))
        fixed.topic_id = place->topic_id;
    if (tree_is_in_partition(place->kind))
        fixed.partition = place->partition;
    if (place->kind == TREE_SEGMENT)
        fixed.base_offset = place->base_offset;
    _Static_assert(sizeof fixed + TREE_NAME_MAX <= NODE_KEY_MAX, "a key must fit");
    memcpy(key, &fixed, sizeof fixed);
    memcpy(key + sizeof fixed, place->name, name_length);
    return sizeof fixed + name_length;
}

struct node *node_new(const struct tree_place *place,
                      const struct node_identity *identity)
{
    unsigned char key[NODE_KEY_MAX];
    size_t length = node_key(place, identity, key);
    struct node *node = calloc(1, sizeof *node + length);
    if (node == NULL)
        return NULL;
    node->place = *place;
    node->identity = *identity;
    node->key_length = length;
    memcpy(node->key, key, length);
    return node;
}

void node_free(struct node *node)
{
    if (node == NULL)
        return;
    view_unref(node->view);
    partition_unref(node->partition);
    free(node);
}

struct node_table *node_table_new(void)
{
    static const struct tree_place root_place = {.kind = TREE_ROOT};
    static const struct node_identity no_identity = {0};
    struct node_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->root = node_new(&root_place, &no_identity);
    if (table->root == NULL || pthread_mutex_init(&table->lock, NULL) != 0) {
        node_free(table->root);
        free(table);
        return NULL;
    }
    return table;
}

void node_table_free(struct node_table *table)
{
    struct node *node, *next;
    if (table == NULL)
        return;
    HASH_CLEAR(hh, table->hash);
    DL_FOREACH_SAFE(table->all, node, next)
    node_free(node);
    node_free(table->root);
    (void)pthread_mutex_destroy(&table->lock);
    free(table);
}

struct node *node_table_get(struct node_table *table, uint64_t id)
{
    return id == 1 ? table->root : (struct node *)(uintptr_t)id;
}

uint64_t node_id(const struct node_table *table, const struct node *node)
{
    return node == table->root ? 1 : (uint64_t)(uintptr_t)node;
}

/* [table->lock] */
static struct node *node_lookup(struct node_table *table, const unsigned char *key,
                                size_t length)
{
    struct node *node = NULL;
    HASH_FIND(hh, table->hash, key, length, node);
    return node;
}

/* [table->lock] */
static void node_share(struct node_table *table, struct node *node)
{
    if (node->shared || node_lookup(table, node->key, node->key_length) != NULL)
        return;
    node->shared = true;
    HASH_ADD_KEYPTR(hh, table->hash, node->key, node->key_length, node);
}

/* [table->lock] */
static void node_unshare(struct node_table *table, struct node *node)
{
    if (!node->shared)
        return;
    HASH_DELETE(hh, table->hash, node);
    node->shared = false;
}

static bool node_is_exclusive(const struct tree_place *place)
{
    return place->kind == TREE_LOG || place->kind == TREE_APPEND;
}

bool node_table_wants_own(struct node_table *table, const struct tree_place *place,
                          int64_t thread, int64_t now_ms)
{
    if (!node_is_exclusive(place))
        return false;
    (void)pthread_mutex_lock(&table->lock);
    bool own = refusals_has(&table->refusals, thread, tree_inode(place, 0), now_ms);
    (void)pthread_mutex_unlock(&table->lock);
    return own;
}

struct node *node_table_find(struct node_table *table, const struct tree_place *place,
                             const struct node_identity *identity)
{
    unsigned char key[NODE_KEY_MAX];
    size_t length = node_key(place, identity, key);
    (void)pthread_mutex_lock(&table->lock);
    struct node *node = node_lookup(table, key, length);
    if (node != NULL)
        node->lookups++;
    (void)pthread_mutex_unlock(&table->lock);
    return node;
}

void node_table_add_own(struct node_table *table, struct node *node)
{
    (void)pthread_mutex_lock(&table->lock);
    node->lookups = 1;
    DL_APPEND(table->all, node);
    table->count++;
    (void)pthread_mutex_unlock(&table->lock);
}

struct node *node_table_add(struct node_table *table, struct node *node)
{
    (void)pthread_mutex_lock(&table->lock);
    struct node *other = node_lookup(table, node->key, node->key_length);
    if (other != NULL) {
        other->lookups++;
    } else {
        node->lookups = 1;
        DL_APPEND(table->all, node);
        table->count++;
        node_share(table, node);
    }
    (void)pthread_mutex_unlock(&table->lock);
    if (other == NULL)
        return node;
    node_free(node);
    return other;
}

/* [table->lock] Takes the node out if nobody knows it any more; the caller frees it. */
static bool node_unlink_unused(struct node_table *table, struct node *node)
{
    if (node == table->root || node->lookups > 0 || node->opens > 0)
        return false;
    node_unshare(table, node);
    DL_DELETE(table->all, node);
    table->count--;
    return true;
}

void node_table_forget(struct node_table *table, struct node *node, uint64_t lookups)
{
    (void)pthread_mutex_lock(&table->lock);
    node->lookups -= lookups < node->lookups ? lookups : node->lookups;
    bool unused = node_unlink_unused(table, node);
    (void)pthread_mutex_unlock(&table->lock);
    if (unused)
        node_free(node);
}

int node_table_open(struct node_table *table, struct node *node, bool writing,
                    int64_t thread, int64_t now_ms)
{
    int rc = 0;
    bool exclusive = node_is_exclusive(&node->place);
    uint64_t inode = tree_inode(&node->place, 0);
    (void)pthread_mutex_lock(&table->lock);
    if (exclusive && node->writers > 0 &&
        !refusals_has(&table->refusals, thread, inode, now_ms)) {
        refusals_note(&table->refusals, thread, inode, now_ms);
        rc = -ESTALE;
    } else {
        if (exclusive)
            refusals_end(&table->refusals, thread);
        node->opens++;
        if (writing)
            node->writers++;
        if (writing && exclusive)
            node_unshare(table, node);
    }
    (void)pthread_mutex_unlock(&table->lock);
    return rc;
}

void node_table_close(struct node_table *table, struct node *node, bool writing)
{
    (void)pthread_mutex_lock(&table->lock);
    node->opens--;
    if (writing)
        node->writers--;
    bool unused = node_unlink_unused(table, node);
    if (!unused && node->writers == 0 && node != table->root)
        node_share(table, node);
    (void)pthread_mutex_unlock(&table->lock);
    if (unused)
        node_free(node);
}

size_t node_table_ids(struct node_table *table, const struct topic_id *topic_id,
                      uint64_t *ids, size_t count)
{
    size_t found = 0;
    struct node *node;
    (void)pthread_mutex_lock(&table->lock);
    DL_FOREACH(table->all, node)
    {
        enum tree_kind kind = node->place.kind;
        bool wanted = topic_id == NULL
                          ? kind == TREE_TOPICS
                          : tree_is_in_topic(kind) &&
                                topic_id_equal(&node->place.topic_id, topic_id);
        if (!wanted)
            continue;
        if (found < count)
            ids[found] = node_id(table, node);
        found++;
    }
    (void)pthread_mutex_unlock(&table->lock);
    return found;
}

size_t node_table_count(struct node_table *table)
{
    (void)pthread_mutex_lock(&table->lock);
    size_t count = table->count;
    (void)pthread_mutex_unlock(&table->lock);
    return count;
}
