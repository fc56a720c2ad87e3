#include "replica/file_cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* So many that were opened after a shortage raise the maximum by one again. */
enum { GROW_EVERY = 16 };

struct file_cache {
    const struct disk *disk; /* [const] */
    pthread_mutex_t lock;
    unsigned max_wanted;            /* [const] */
    unsigned max_open;              /* [lock] no more than that */
    unsigned opened;                /* [lock] since max_open changed */
    unsigned open_count;            /* [lock] pinned, idle and dropped ones */
    struct file_cache_file *newest; /* [lock] idle files only: those without a pin */
    struct file_cache_file *oldest; /* [lock] */
    int held[FILE_CACHE_HELD_MAX];  /* [lock] */
    unsigned held_count;            /* [lock] */
};

struct file_cache *file_cache_new(const struct disk *disk, unsigned max_open)
{
    struct file_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->disk = disk;
    cache->max_wanted = max_open == 0 ? FILE_CACHE_DEFAULT : max_open;
    cache->max_open = cache->max_wanted;
    pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

/* Closes files that were taken off the cache, chained by `older`. [no lock] */
static void close_chain(struct file_cache *cache, struct file_cache_file *file)
{
    while (file != NULL) {
        struct file_cache_file *next = file->older;
        cache->disk->ops->close(cache->disk, file->fd);
        free(atomic_load(&file->memo));
        free(file);
        file = next;
    }
}

static void idle_remove(struct file_cache *cache, struct file_cache_file *file)
{
    *(file->newer != NULL ? &file->newer->older : &cache->newest) = file->older;
    *(file->older != NULL ? &file->older->newer : &cache->oldest) = file->newer;
    file->newer = file->older = NULL;
}

static void idle_add(struct file_cache *cache, struct file_cache_file *file)
{
    file->newer = NULL;
    file->older = cache->newest;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = file;
    cache->newest = file;
}

/* Takes idle files off until the limit is kept; the caller closes them unlocked. */
static struct file_cache_file *evict(struct file_cache *cache)
{
    struct file_cache_file *chain = NULL;
    while (cache->open_count > cache->max_open && cache->oldest != NULL) {
        struct file_cache_file *file = cache->oldest;
        idle_remove(cache, file);
        *file->slot = NULL;
        cache->open_count--;
        file->older = chain;
        chain = file;
    }
    return chain;
}

void file_cache_free(struct file_cache *cache)
{
    if (cache == NULL)
        return;
    cache->max_open = 0;
    close_chain(cache, evict(cache));
    file_cache_free_space(cache);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static struct file_cache_file *pin_open_file(struct file_cache *cache,
                                             struct file_cache_file *const *slot)
{
    struct file_cache_file *file = *slot;
    if (file == NULL)
        return NULL;
    if (file->pins++ == 0)
        idle_remove(cache, file);
    return file;
}

/* true: something was closed. */
static bool close_held(struct file_cache *cache)
{
    int held[FILE_CACHE_HELD_MAX];
    pthread_mutex_lock(&cache->lock);
    unsigned count = cache->held_count;
    memcpy(held, cache->held, count * sizeof *held);
    cache->held_count = 0;
    pthread_mutex_unlock(&cache->lock);
    for (unsigned i = 0; i < count; i++)
        cache->disk->ops->close(cache->disk, held[i]);
    return count > 0;
}

/* Likewise. Held ones, whose space takes long to free, are the last resort. */
static bool make_do_with_less(struct file_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    if (cache->max_open > cache->open_count / 2)
        cache->max_open = cache->open_count / 2;
    cache->opened = 0;
    struct file_cache_file *chain = evict(cache);
    bool closed = chain != NULL;
    pthread_mutex_unlock(&cache->lock);
    close_chain(cache, chain);
    return closed || close_held(cache);
}

/* [lock] The shortage may be over. */
static void note_opened(struct file_cache *cache)
{
    if (cache->max_open < cache->max_wanted && ++cache->opened == GROW_EVERY) {
        cache->max_open++;
        cache->opened = 0;
    }
}

int file_cache_pin(struct file_cache *cache, struct file_cache_file **slot,
                   int (*open_fn)(void *arg), void *arg, struct file_cache_file **out)
{
    pthread_mutex_lock(&cache->lock);
    *out = pin_open_file(cache, slot);
    pthread_mutex_unlock(&cache->lock);
    if (*out != NULL)
        return 0;

    struct file_cache_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return -ENOMEM;
    do
        file->fd = open_fn(arg);
    while ((file->fd == -EMFILE || file->fd == -ENFILE) && make_do_with_less(cache));
    if (file->fd < 0) {
        int rc = file->fd;
        free(file);
        return rc;
    }

    pthread_mutex_lock(&cache->lock);
    cache->open_count++;
    note_opened(cache);
    *out = pin_open_file(cache, slot);
    struct file_cache_file *chain;
    if (*out != NULL) { /* somebody else opened it meanwhile */
        cache->open_count--;
        chain = file;
    } else {
        file->pins = 1;
        file->slot = slot;
        *slot = *out = file;
        chain = evict(cache);
    }
    pthread_mutex_unlock(&cache->lock);
    close_chain(cache, chain);
    return 0;
}

void file_cache_unpin(struct file_cache *cache, struct file_cache_file *file)
{
    struct file_cache_file *chain = NULL;
    pthread_mutex_lock(&cache->lock);
    if (--file->pins == 0) {
        if (file->slot == NULL) {
            cache->open_count--;
            chain = file;
        } else {
            idle_add(cache, file);
            chain = evict(cache);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    close_chain(cache, chain);
}

/* [lock] The file of the slot, which is empty then, if the caller is to close it. */
static struct file_cache_file *take(struct file_cache *cache,
                                    struct file_cache_file **slot)
{
    struct file_cache_file *file = *slot;
    if (file == NULL)
        return NULL;
    *slot = NULL;
    file->slot = NULL;
    if (file->pins != 0)
        return NULL; /* the last pin closes it */
    idle_remove(cache, file);
    cache->open_count--;
    return file;
}

void file_cache_drop(struct file_cache *cache, struct file_cache_file **slot)
{
    pthread_mutex_lock(&cache->lock);
    struct file_cache_file *file = take(cache, slot);
    pthread_mutex_unlock(&cache->lock);
    close_chain(cache, file);
}

unsigned file_cache_open_count(struct file_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    unsigned count = cache->open_count;
    pthread_mutex_unlock(&cache->lock);
    return count;
}

/* ---- files without a name -------------------------------------------------- */

int file_cache_hold(struct file_cache *cache, const char *path)
{
    if (cache == NULL)
        return -1;
    pthread_mutex_lock(&cache->lock);
    bool full = cache->held_count == FILE_CACHE_HELD_MAX;
    pthread_mutex_unlock(&cache->lock);
    int held = full ? -1 : cache->disk->ops->open(cache->disk, path, DISK_READ);
    return held < 0 ? -1 : held;
}

void file_cache_let_go(struct file_cache *cache, int held)
{
    if (held < 0)
        return;
    pthread_mutex_lock(&cache->lock);
    bool full = cache->held_count == FILE_CACHE_HELD_MAX;
    if (!full)
        cache->held[cache->held_count++] = held;
    pthread_mutex_unlock(&cache->lock);
    if (full)
        cache->disk->ops->close(cache->disk, held);
}

void file_cache_free_space(struct file_cache *cache)
{
    (void)close_held(cache);
}

void file_cache_drop_removed(struct file_cache *cache, struct file_cache_file **slot)
{
    pthread_mutex_lock(&cache->lock);
    struct file_cache_file *file = take(cache, slot);
    pthread_mutex_unlock(&cache->lock);
    if (file == NULL)
        return;
    file_cache_let_go(cache, file->fd);
    free(atomic_load(&file->memo));
    free(file);
}
