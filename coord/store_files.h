/*
 * The two files of the embedded store: reading, appending to both, cutting back,
 * writing anew. Knows nothing of keys. Used under the store's mutex.
 */
#ifndef TOPICFS_STORE_FILES_H
#define TOPICFS_STORE_FILES_H

#include "coord/store_embedded.h"
#include "coord/store_recover.h"

struct store_files {
    const struct store_io *io;
    int dir_fd;
    int fds[STORE_COPIES];        /* -1: not open */
    off_t sizes[STORE_COPIES];    /* of what is committed */
    off_t reserved[STORE_COPIES]; /* up to here space is kept */
    bool uncut[STORE_COPIES];     /* bytes beyond `sizes` may be there */
};

/* Creates `dir` if absent and `may_create`. 0 or a negative errno. */
int store_files_open(struct store_files *files, const char *dir, bool may_create,
                     const struct store_io *io);
void store_files_close(struct store_files *files);

/* Reads and scans both files. 0 or a negative errno; copies are to be freed if 0. */
int store_files_scan(struct store_files *files,
                     struct journal_copy copies[STORE_COPIES]);

/* Opens both for appending, where the copies end, after recovery repaired them. */
int store_files_attach(struct store_files *files);

/*
 * Keeps space beyond the end of both files, `length` more than the usual: so that on a
 * full disk a node can still start (which takes a few transactions) and topics can be
 * deleted. 0, also where the filesystem can't do this; -ENOSPC or -EDQUOT.
 */
int store_files_reserve(struct store_files *files, size_t length);

/*
 * Appends to both and flushes both. On failure both are cut back to what they were and
 * the errno is returned; where even that fails, the next append begins with it.
 */
int store_files_append(struct store_files *files, const void *bytes, size_t length);

/* Replaces one file: written beside it, flushed, renamed. `keep_damaged` keeps the old
 * one as <name>.damaged. An open descriptor of that copy is replaced too. */
int store_files_rewrite(struct store_files *files, int copy, const void *bytes,
                        size_t length, bool keep_damaged);

/* Writes a snapshot of `map` into one copy. */
int store_files_snapshot(struct store_files *files, int copy,
                         const struct store_map *map, int64_t revision,
                         bool keep_damaged);

/* Brings both copies to what `recovery` found. */
int store_files_repair(struct store_files *files, const struct journal_copy *copies,
                       const struct store_recovery *recovery);

#endif
