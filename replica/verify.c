#include "replica/verify.h"

#include "replica/payload_hash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

int verify_open(struct verify *verify, const struct disk *disk, int file)
{
    *verify = (struct verify){.disk = disk, .file = file};
    verify->window = malloc(VERIFY_WINDOW_BYTES);
    return verify->window == NULL ? -ENOMEM : 0;
}

void verify_close(struct verify *verify)
{
    free(verify->window);
    if (verify->hash != NULL)
        XXH3_freeState(verify->hash);
    verify->window = NULL;
    verify->hash = NULL;
}

static int fill_window(struct verify *verify, int64_t at)
{
    verify->at = at;
    verify->length = 0;
    while (verify->length < VERIFY_WINDOW_BYTES) {
        ssize_t got = verify->disk->ops->pread(
            verify->disk, verify->file, verify->window + verify->length,
            VERIFY_WINDOW_BYTES - verify->length, at + (int64_t)verify->length);
        if (got < 0) {
            verify->length = 0;
            return (int)got;
        }
        if (got == 0)
            break;
        verify->length += (size_t)got;
    }
    return 0;
}

static bool window_holds(const struct verify *verify, int64_t at, size_t length)
{
    return at >= verify->at &&
           at + (int64_t)length <= verify->at + (int64_t)verify->length;
}

static int hash_in_parts(struct verify *verify, const struct batch *batch,
                         uint64_t *out)
{
    if (verify->hash == NULL)
        verify->hash = XXH3_createState();
    if (verify->hash == NULL)
        return -ENOMEM;
    XXH3_64bits_reset(verify->hash);
    int64_t at = batch->position;
    int64_t end = at + batch->length;
    while (at < end) {
        int rc = fill_window(verify, at);
        if (rc != 0)
            return rc;
        size_t part = verify->length;
        if ((int64_t)part > end - at)
            part = (size_t)(end - at);
        if (part == 0)
            return E_DAMAGED;
        XXH3_64bits_update(verify->hash, verify->window, part);
        at += (int64_t)part;
    }
    *out = XXH3_64bits_digest(verify->hash);
    return 0;
}

int verify_batch(struct verify *verify, const struct batch *batch)
{
    uint64_t hash;
    int rc = 0;
    if (batch->length > VERIFY_WINDOW_BYTES) {
        rc = hash_in_parts(verify, batch, &hash);
    } else {
        if (!window_holds(verify, batch->position, batch->length))
            rc = fill_window(verify, batch->position);
        if (rc == 0 && !window_holds(verify, batch->position, batch->length))
            rc = E_DAMAGED;
        if (rc == 0)
            hash = XXH3_64bits(verify->window + (batch->position - verify->at),
                               batch->length);
    }
    if (rc != 0)
        return rc;
    return hash == batch->payload_hash ? 0 : E_DAMAGED;
}

/* ---- the map --------------------------------------------------------------- */

enum { MAP_CHUNKS = (int)((INT64_C(1) << 31) / VERIFY_CHUNK_BYTES) };

struct verify_map {
    pthread_mutex_t lock;
    int64_t stamp; /* [lock] */
    uint8_t
        bits[MAP_CHUNKS / 8]; /* [lock] 4 KiB: of these, only what is used is touched */
};

struct verify_map *verify_map_of(struct file_cache_file *file)
{
    struct verify_map *map = atomic_load(&file->memo);
    if (map != NULL)
        return map;
    map = calloc(1, sizeof *map);
    if (map == NULL)
        return NULL;
    pthread_mutex_init(&map->lock, NULL);
    void *other = NULL;
    if (!atomic_compare_exchange_strong(&file->memo, &other, (void *)map)) {
        free(map);
        map = other;
    }
    return map;
}

static void set_chunks(struct verify_map *map, int64_t first, int64_t end)
{
    for (int64_t chunk = first; chunk < end && chunk < MAP_CHUNKS; chunk++)
        map->bits[chunk / 8] |= (uint8_t)(1 << (chunk % 8));
}

bool verify_map_has(struct verify_map *map, int64_t stamp, int64_t at, int64_t length)
{
    int64_t chunk = at / VERIFY_CHUNK_BYTES;
    int64_t end = (at + length + VERIFY_CHUNK_BYTES - 1) / VERIFY_CHUNK_BYTES;
    bool all = end <= MAP_CHUNKS;
    pthread_mutex_lock(&map->lock);
    if (map->stamp != stamp) {
        memset(map->bits, 0, sizeof map->bits);
        map->stamp = stamp;
    }
    for (; all && chunk < end; chunk++)
        all = map->bits[chunk / 8] & (1 << (chunk % 8));
    pthread_mutex_unlock(&map->lock);
    return all;
}

void verify_map_checked(struct verify_map *map, int64_t stamp, int64_t at, int64_t end,
                        bool last)
{
    int64_t first = (at + VERIFY_CHUNK_BYTES - 1) / VERIFY_CHUNK_BYTES;
    int64_t chunks_end =
        (last ? end + VERIFY_CHUNK_BYTES - 1 : end) / VERIFY_CHUNK_BYTES;
    pthread_mutex_lock(&map->lock);
    if (map->stamp == stamp)
        set_chunks(map, first, chunks_end);
    pthread_mutex_unlock(&map->lock);
}

void verify_map_appended(struct verify_map *map, int64_t at, int64_t length)
{
    /* A chunk that held bytes before keeps what is known of those. */
    int64_t first = (at + VERIFY_CHUNK_BYTES - 1) / VERIFY_CHUNK_BYTES;
    int64_t end = (at + length + VERIFY_CHUNK_BYTES - 1) / VERIFY_CHUNK_BYTES;
    pthread_mutex_lock(&map->lock);
    set_chunks(map, first, end);
    pthread_mutex_unlock(&map->lock);
}

void verify_map_restamp(struct verify_map *map, int64_t stamp)
{
    pthread_mutex_lock(&map->lock);
    map->stamp = stamp;
    pthread_mutex_unlock(&map->lock);
}
