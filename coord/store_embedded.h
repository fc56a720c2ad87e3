/*
 * The coordination store of a single node: a map in memory, and its journal in two
 * files
 * (`store.a`, `store.b`; coord/store_journal.h has the format). A commit is written to
 * both and flushed before it is visible. Either file can be lost or damaged.
 *
 *     rc = store_embedded_open(dir, problems, &store, why, sizeof(why));
 *     ... store->ops ...
 *     store->ops->close(store);
 *
 * The journal is rewritten as a snapshot, one file after the other, once it is longer
 * than 1 MiB and four times what is in it. A damaged file that is replaced stays beside
 * it as `store.a.damaged` (or .b).
 *
 * Locks: one mutex, held through a commit's write and flush; watchers are called
 * without it, in revision order, before commit returns. A watcher may itself commit:
 * those events follow when it has returned.
 */
#ifndef TOPICFS_STORE_EMBEDDED_H
#define TOPICFS_STORE_EMBEDDED_H

#include "coord/problems.h"
#include "coord/store.h"

#include <sys/types.h>

/* How the store writes; tests put failures in. As the system calls, but -1 and errno
 * become a negative errno. */
struct store_io {
    ssize_t (*pwrite)(const struct store_io *io, int fd, const void *bytes, size_t n,
                      off_t at);
    int (*flush)(const struct store_io *io, int fd); /* fdatasync */
    int (*truncate)(const struct store_io *io, int fd, off_t size);
};

extern const struct store_io store_io_real;

/*
 * Opens or creates the store in `dir` (created if absent; its parent must exist),
 * repairs what one copy lacks, and drops leased keys. `problems` (borrowed) gets a
 * fault of kind "store" for each copy that was damaged. 0; E_CORRUPT; E_NEWER_FORMAT; a
 * negative errno; `why` has the reason.
 */
int store_embedded_open(const char *dir, struct problems *problems, struct store **out,
                        char *why, size_t why_size);
int store_embedded_open_io(const char *dir, struct problems *problems,
                           const struct store_io *io, struct store **out, char *why,
                           size_t why_size);

/* Whether open found no files and made a new store. */
bool store_embedded_was_created(const struct store *store);

#endif
