/*
 * The cleaner: one thread that compacts the logs of the topics with cleanup_policy
 * "compact", the dirtiest one first, as Kafka's log cleaner does. A log is due when at
 * least half of its closed segments' bytes were never compacted (Kafka's
 * min.cleanable.dirty.ratio), or when tombstones are due to go.
 *
 * A log that can't be compacted (damage, full disk) is named in problems and tried
 * again after a while; the others go on.
 */
#ifndef TOPICFS_CLEANER_H
#define TOPICFS_CLEANER_H

#include "coord/coord.h"

struct cleaner;
struct partition;

struct cleaner_params {
    /* As broker_partitions(): references, the caller unrefs each and frees the list. */
    struct partition **(*partitions)(void *arg, size_t *count);
    void *arg;
    struct problems *problems;
    const struct clock *clock;
    int64_t tick_ms; /* how often it looks; 0 = each second */
};

/* 0, or a negative errno. */
int cleaner_start(const struct cleaner_params *params, struct cleaner **out);
/* Ends a compaction that runs, without an effect on its log. NULL is fine. */
void cleaner_stop(struct cleaner *cleaner);

#endif
