#include "coord/store_map.h"
#include "coord/sorted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Quotes, commas, two revisions and a flag around each key and value. */
enum { ENTRY_OVERHEAD = 48 };

struct store_entry *store_entry_new(const char *key, const char *value,
                                    size_t value_length, bool leased)
{
    struct store_entry *entry = calloc(1, sizeof(*entry));

    if (!entry)
        return NULL;
    entry->key = strdup(key);
    entry->value = malloc(value_length + 1);
    if (!entry->key || !entry->value) {
        store_entry_free(entry);
        return NULL;
    }
    memcpy(entry->value, value, value_length);
    entry->value[value_length] = '\0';
    entry->value_length = value_length;
    entry->leased = leased;
    return entry;
}

void store_entry_free(struct store_entry *entry)
{
    if (!entry)
        return;
    free(entry->key);
    free(entry->value);
    free(entry);
}

void store_map_free(struct store_map *map)
{
    for (size_t i = 0; i < map->count; i++)
        store_entry_free(map->entries[i]);
    free(map->entries);
    *map = (struct store_map){0};
}

int store_map_reserve(struct store_map *map, size_t more)
{
    size_t wanted = map->count + more;
    size_t allocated = map->allocated ? map->allocated : 64;
    struct store_entry **entries;

    if (wanted <= map->allocated)
        return 0;
    while (allocated < wanted)
        allocated *= 2;
    entries = realloc(map->entries, allocated * sizeof(struct store_entry *));
    if (!entries)
        return -ENOMEM;
    map->entries = entries;
    map->allocated = allocated;
    return 0;
}

static int compare_key(const void *item, const void *key)
{
    return strcmp((*(const struct store_entry *const *)item)->key, key);
}

size_t store_map_find(const struct store_map *map, const char *key, bool *found)
{
    return sorted_place((const void *)map->entries, map->count,
                        sizeof(struct store_entry *), key, compare_key, found);
}

const struct store_entry *store_map_get(const struct store_map *map, const char *key)
{
    bool found;
    size_t at = store_map_find(map, key, &found);

    return found ? map->entries[at] : NULL;
}

static size_t entry_bytes(const struct store_entry *entry)
{
    return strlen(entry->key) + entry->value_length + ENTRY_OVERHEAD;
}

void store_map_load(struct store_map *map, struct store_entry *entry)
{
    bool found;
    size_t at = store_map_find(map, entry->key, &found);

    if (found) {
        map->live_bytes -= entry_bytes(map->entries[at]);
        store_entry_free(map->entries[at]);
    } else {
        memmove(&map->entries[at + 1], &map->entries[at],
                (map->count - at) * sizeof(struct store_entry *));
        map->count++;
    }
    map->entries[at] = entry;
    map->live_bytes += entry_bytes(entry);
}

void store_map_put(struct store_map *map, struct store_entry *entry, int64_t revision)
{
    const struct store_entry *old = store_map_get(map, entry->key);

    entry->create_revision = old ? old->create_revision : revision;
    entry->mod_revision = revision;
    store_map_load(map, entry);
}

void store_map_remove(struct store_map *map, const char *key)
{
    bool found;
    size_t at = store_map_find(map, key, &found);

    if (!found)
        return;
    map->live_bytes -= entry_bytes(map->entries[at]);
    store_entry_free(map->entries[at]);
    map->count--;
    memmove(&map->entries[at], &map->entries[at + 1],
            (map->count - at) * sizeof(struct store_entry *));
}
