/*
 * Comparing message text with the checksums in its index.
 *
 * A verifier hashes the batches of one file through a window, so that many small
 * batches cost one read. It uses pread, not mmap: a file that somebody cuts must not
 * raise SIGBUS.
 *
 *     rc = verify_open(&verify, disk, fd);
 *     rc = verify_batch(&verify, &batch);    // batch.position counts within the file
 *     verify_close(&verify);
 *
 * A verified map remembers which chunks of a segment's text have been compared since
 * its file was opened, so that reads pay for it once. It hangs on the open file
 * (file_cache_file.memo) and goes with it.
 *
 * A verifier belongs to one thread. A map has a mutex of its own.
 */
#ifndef TOPICFS_VERIFY_H
#define TOPICFS_VERIFY_H

#include "replica/file_cache.h"
#include "replica/log.h"

struct verify {
    const struct disk *disk;
    int file;
    void *hash;      /* XXH3 state, made for the first batch that exceeds the window */
    uint8_t *window; /* VERIFY_WINDOW_BYTES */
    int64_t at;      /* what the window holds */
    size_t length;
};

enum { VERIFY_WINDOW_BYTES = 64 * 1024, VERIFY_CHUNK_BYTES = 64 * 1024 };

/* 0 or -ENOMEM. verify_close() is needed in either case, and fine after memset 0. */
int verify_open(struct verify *verify, const struct disk *disk, int file);
/* 0; E_DAMAGED: other bytes, or the file ends before; a negative errno. */
int verify_batch(struct verify *verify, const struct batch *batch);
void verify_close(struct verify *verify);

struct verify_map;

/* The map of an open, pinned text file, made when first asked for. NULL: no memory. */
struct verify_map *verify_map_of(struct file_cache_file *file);

/*
 * Whether all of [at, at + length) is known to be good. `stamp` is the file's present
 * ctime, or VERIFY_LIVE for a segment that this process appends to, which changes it
 * all the time. A stamp that is not the map's empties the map: somebody touched the
 * file.
 */
enum { VERIFY_LIVE = 0 };
bool verify_map_has(struct verify_map *map, int64_t stamp, int64_t at, int64_t length);
/* Batches that cover [at, end) were compared; `last`: nothing but what this process
 * appends lies behind. No effect where the map has another stamp by now. */
void verify_map_checked(struct verify_map *map, int64_t stamp, int64_t at, int64_t end,
                        bool last);
/* This process appended [at, at + length): good as it stands. */
void verify_map_appended(struct verify_map *map, int64_t at, int64_t length);
/* The segment was closed, or is appended to again: the map holds under a new stamp. */
void verify_map_restamp(struct verify_map *map, int64_t stamp);

#endif
