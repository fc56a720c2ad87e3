/*
 * The embedded store's contents: keys in order, each with its value and revisions.
 *
 *     struct store_map map = {0};
 *     rc = store_map_reserve(&map, 1);
 *     store_map_put(&map, store_entry_new("/a", "1", 1, true), revision);
 *     ...
 *     store_map_free(&map);
 *
 * put and remove can't fail once memory was reserved, so that a transaction that is on
 * the disk already is never half applied. Not thread-safe: one owner.
 */
#ifndef TOPICFS_STORE_MAP_H
#define TOPICFS_STORE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store_entry {
    char *key;
    char *value;
    size_t value_length;
    int64_t create_revision;
    int64_t mod_revision;
    bool leased;
};

struct store_map {
    struct store_entry **entries; /* sorted by key */
    size_t count;
    size_t allocated;
    size_t live_bytes; /* about what a snapshot of it takes on disk */
};

/* Copies key and value; NULL: no memory. Revisions are 0. */
struct store_entry *store_entry_new(const char *key, const char *value,
                                    size_t value_length, bool leased);
void store_entry_free(struct store_entry *entry); /* accepts NULL */

void store_map_free(struct store_map *map); /* also resets to empty */

/* Makes room for `more` new keys: 0 or -ENOMEM. */
int store_map_reserve(struct store_map *map, size_t more);

/* The index of `key`, or of the first key after it; *found says which. */
size_t store_map_find(const struct store_map *map, const char *key, bool *found);
const struct store_entry *store_map_get(const struct store_map *map, const char *key);

/* Takes the entry. A key that exists keeps its create revision. Needs a reservation. */
void store_map_put(struct store_map *map, struct store_entry *entry, int64_t revision);
/* Takes the entry with the revisions that it has: for loading a snapshot. */
void store_map_load(struct store_map *map, struct store_entry *entry);
void store_map_remove(struct store_map *map, const char *key); /* absent: nothing */

#endif
