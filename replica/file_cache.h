/*
 * The open segment files of this node: at most so many at a time, the longest unused
 * one closed first. Shared by all partitions, so that thousands of them need few
 * descriptors.
 *
 * The owner of a file keeps a slot for it (NULL while it is closed) and pins the file
 * for as long as it uses the descriptor:
 *
 *     struct file_cache_file *slot = NULL;
 *     rc = file_cache_pin(cache, &slot, open_it, arg, &file);
 *     pread(file->fd, ...);
 *     file_cache_unpin(cache, file);
 *     ...
 *     file_cache_drop(cache, &slot);     // before the slot's memory goes
 *
 * A pinned file is never closed. When all are pinned, more than the maximum are open
 * for as long as that lasts. Where the process may not open another one, half of those
 * that are open become the maximum, and it is tried again: others need descriptors too.
 * As files are opened later the maximum rises again, slowly, to what it was.
 *
 * Thread-safe: one mutex inside, not held while a file is opened or closed. Pinning a
 * file that is open takes that mutex and nothing else.
 */
#ifndef TOPICFS_FILE_CACHE_H
#define TOPICFS_FILE_CACHE_H

#include "replica/disk.h"

enum { FILE_CACHE_DEFAULT = 200 };

struct file_cache;

struct file_cache_file {
    int fd; /* [const] */
    /* What the owner remembers for as long as the file is open; freed with it by
     * free(). Set once, by a holder of a pin (compare and exchange). */
    void *_Atomic memo;
    /* private: [the cache's mutex] */
    unsigned pins;
    struct file_cache_file **slot; /* NULL once dropped */
    struct file_cache_file *newer, *older;
};

/* max_open 0 = FILE_CACHE_DEFAULT. NULL: no memory. `disk` is borrowed. */
struct file_cache *file_cache_new(const struct disk *disk, unsigned max_open);
/* All files must be unpinned; NULL is fine. */
void file_cache_free(struct file_cache *cache);

/*
 * Pins the file of this slot; calls open_fn(arg) for a descriptor where it is closed
 * (which then belongs to the cache). 0, or what open_fn returned, or -ENOMEM.
 */
int file_cache_pin(struct file_cache *cache, struct file_cache_file **slot,
                   int (*open_fn)(void *arg), void *arg, struct file_cache_file **out);
void file_cache_unpin(struct file_cache *cache, struct file_cache_file *file);

/* Empties the slot; the file is closed now or with its last pin. */
void file_cache_drop(struct file_cache *cache, struct file_cache_file **slot);

/*
 * Removing the last name of a large file gives its space back, which takes the
 * filesystem long. Around the removal of a name under a lock that others wait for:
 *
 *     int held = file_cache_hold(cache, path);
 *     rc = disk->ops->unlink(disk, path);
 *     file_cache_let_go(cache, held);
 *     ... no lock any more, or another thread, soon ...
 *     file_cache_free_space(cache);
 *
 * The name is gone as always; only the space comes later, also after a crash (what has
 * no name is freed when the filesystem is mounted). At most FILE_CACHE_HELD_MAX files
 * are held; those beyond it, and what can't be opened, are freed with their names.
 * Those that are held are freed, too, where the process may not open another file.
 */
enum { FILE_CACHE_HELD_MAX = 128 };

/* Empties the slot of a file that was removed, and of which nobody has a pin: it is
 * held, too, where it is open. */
void file_cache_drop_removed(struct file_cache *cache, struct file_cache_file **slot);

/* -1: it is not held; always with `cache` NULL. */
int file_cache_hold(struct file_cache *cache, const char *path);
void file_cache_let_go(struct file_cache *cache, int held); /* -1 is fine */
/* Frees what is held. Blocks for as long as that takes. */
void file_cache_free_space(struct file_cache *cache);

/* How many files are open now, but for the held ones. */
unsigned file_cache_open_count(struct file_cache *cache);

#endif
