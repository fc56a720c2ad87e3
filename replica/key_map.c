#include "replica/key_map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <xxhash.h>

struct slot {
    uint64_t high;
    uint64_t low;
    int64_t next_offset; /* of the message behind the last one; 0: free */
};

struct key_map {
    size_t slots;
    size_t used;
    struct slot at[];
};

struct key_map *key_map_new(size_t bytes)
{
    size_t slots = bytes / sizeof(struct slot);
    if (slots < 16)
        slots = 16;
    struct key_map *map = calloc(1, sizeof *map + slots * sizeof map->at[0]);
    if (map != NULL)
        map->slots = slots;
    return map;
}

void key_map_free(struct key_map *map)
{
    free(map);
}

size_t key_map_room(const struct key_map *map)
{
    /* Kafka's load factor: beyond it, chains of full slots get long. */
    size_t most = map->slots / 10 * 9;
    return map->used < most ? most - map->used : 0;
}

/* The key's slot, or the free one where it belongs. */
static size_t find(const struct key_map *map, const void *key, size_t length,
                   XXH128_hash_t *hash)
{
    *hash = XXH3_128bits(key, length);
    size_t i = hash->low64 % map->slots;
    while (map->at[i].next_offset != 0 &&
           (map->at[i].low != hash->low64 || map->at[i].high != hash->high64))
        i = i + 1 < map->slots ? i + 1 : 0;
    return i;
}

void key_map_put(struct key_map *map, const void *key, size_t length, int64_t offset)
{
    XXH128_hash_t hash;
    size_t i = find(map, key, length, &hash);
    if (map->at[i].next_offset == 0)
        map->used++;
    map->at[i] = (struct slot){
        .high = hash.high64, .low = hash.low64, .next_offset = offset + 1};
}

int64_t key_map_get(const struct key_map *map, const void *key, size_t length)
{
    XXH128_hash_t hash;
    return map->at[find(map, key, length, &hash)].next_offset - 1;
}
