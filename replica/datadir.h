/*
 * Inside of the data directory, for broker*.c; the public part is in broker.h.
 *
 *   meta.json    {"version":1,"instance":"<32 hex>"}: format and identity
 *   lock         locked (flock) while a process uses the directory
 *   running.json {"boot_id":"...","clean":false}: how the last process ended
 *   checkpoint   offsets of every partition, see checkpoint.h
 *   store/       the embedded coordination store
 *   carried/     such a store, once its topics went along to a shared one
 *   <topic>-<partition>/  a log each
 *   deleted/     logs of deleted topics on their way out
 *   stray/       logs that the store does not know; never deleted by topicfs
 *   observers/   copies of partitions that other nodes keep (broker_remote.c)
 *   replaced/    replicas that could not be used, until they are filled anew
 *   unusable/    which those are, until their files are aside (broker_repair.c)
 *   damaged/     files as they were before topicfs check repaired them
 */
#ifndef TOPICFS_DATADIR_H
#define TOPICFS_DATADIR_H

#include "replica/broker.h"
#include "replica/log.h"

struct datadir {
    char *path;
    char *store_path;
    char instance[33];
    int lock_fd;
    enum log_recovery recovery; /* how the process before this one ended */
    bool unused;                /* that was well, and nothing was done here since */
};

/* A file or directory in it; the caller frees. NULL: no memory. */
char *datadir_file(const struct datadir *datadir, const char *name);

/*
 * Notes that a process works here (so that a crash is seen), or that it ended well.
 * While it still mends what a crash of the machine left, its own crash must not look
 * like one that left all files whole: RECOVERING names no boot.
 */
enum datadir_mark { DATADIR_RECOVERING, DATADIR_RUNNING, DATADIR_STOPPED };
int datadir_mark(const struct datadir *datadir, enum datadir_mark mark);

#endif
