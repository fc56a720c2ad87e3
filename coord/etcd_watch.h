/*
 * All changes below a prefix, in order: a thread on etcd's watch stream.
 *
 *     etcd_watch_new(&params, &watch);
 *     etcd_watch_remember(watch, &list);            // what the caller listed
 *     rc = etcd_watch_start(watch, list.revision, fn, arg);
 *     ...
 *     etcd_watch_stop(watch);                       // after etcd_http_stop()
 *
 * fn is called once per revision, with all of a transaction's events. A stream that
 * ends is opened again behind the last revision that was delivered; where that is
 * compacted already, everything is listed and compared with what is known: the
 * difference is delivered as if it had been one transaction at the list's revision
 * (perhaps without any event, then only the revision is news).
 *
 * Thread-safe; the thread alone calls fn, without a lock.
 */
#ifndef TOPICFS_ETCD_WATCH_H
#define TOPICFS_ETCD_WATCH_H

#include "coord/etcd_call.h"
#include "coord/problems.h"
#include "coord/store.h"

struct etcd_watch;

struct etcd_watch_params {
    struct etcd_http *http;    /* borrowed */
    struct etcd_call *call;    /* borrowed */
    const char *prefix;        /* borrowed */
    struct problems *problems; /* borrowed */
};

struct etcd_watch *etcd_watch_new(const struct etcd_watch_params *params);

/* The keys below the prefix at a revision, to tell later what was deleted. Without
 * effect once started. */
int etcd_watch_remember(struct etcd_watch *watch, const struct store_list *list);
/* 0, -EBUSY (started before), -ESTALE (the revision is compacted: list again), or as
 * etcd_call_run. */
int etcd_watch_start(struct etcd_watch *watch, int64_t revision, store_watch_fn *fn,
                     void *arg);

/* The last revision delivered; before the start that of the remembered list. */
int64_t etcd_watch_revision(struct etcd_watch *watch);
/*
 * etcd is at `revision`. When the watch has not moved since it heard of a later one the
 * last time, it asks whether it missed something, and if so opens a new stream. Blocks
 * on the network; one caller.
 */
void etcd_watch_check(struct etcd_watch *watch, int64_t revision);

void etcd_watch_stop(struct etcd_watch *watch); /* ends and frees; accepts NULL */

#endif
