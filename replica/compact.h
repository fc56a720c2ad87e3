/*
 * Compaction of one log: of each key the last message stays. The key is what stands
 * before the first delimiter of a line; lines without a delimiter always stay. A line
 * with nothing behind the delimiter is a tombstone: it stays for a day after it was
 * first compacted, so that slow readers see the deletion, then goes.
 *
 *     rc = compact_look(log, high_watermark, &look);     // what there is to do
 *     if (look.dirty_bytes > ...) {
 *         rc = compact_run(&params, &result);
 *     }
 *
 * Works on closed segments below the high watermark: all of them, from the first one
 * on, are written anew (replica/compact_write.h) and then switched in one step
 * (log_replace_prefix). Offsets never change. Memory: the map of keys, the largest
 * batch, one small record per producer.
 *
 * A producer's last message stays for as long as the producer is remembered, also when
 * its key has a later one, so that its sequence can be read from the log. So does, for
 * good, the message with which a leader epoch begins. What is decided about a message
 * is in replica/compact_core.h.
 *
 * After Kafka's LogCleaner. Any thread; one compaction of a log at a time. Appends and
 * reads go on meanwhile; the append lock is taken for the switch only.
 */
#ifndef TOPICFS_COMPACT_H
#define TOPICFS_COMPACT_H

#include "replica/compact_core.h"

#include <pthread.h>

/* Closed segments below the high watermark. */
struct compact_look {
    int64_t end_offset; /* of the last of them; the log's start if there is none */
    int64_t clean_bytes;
    int64_t dirty_bytes; /* were never compacted */
    int64_t
        tombstones_ms; /* when the first tombstones may go; INT64_MAX: there are none */
};

/* 0; E_DAMAGED: one of them is damaged or missing; -ESTALE: they changed meanwhile; a
 * negative errno. */
int compact_look(struct log *log, int64_t high_watermark, struct compact_look *out);

struct compact_params {
    struct log *log;
    int64_t high_watermark;
    int delimiter;
    int64_t segment_bytes;
    int64_t now_ms;
    size_t map_bytes; /* KEY_MAP_BYTES; smaller in tests */
    pthread_mutex_t *append_lock;
    /* Asked now and then, and with the append lock held before the switch: true ends
     * it. */
    bool (*give_up)(void *arg);
    void *arg;
};

struct compact_result {
    int64_t bytes_before; /* of text */
    int64_t bytes_after;
    bool more; /* the map was full: another round is due */
};

/* 0; -ECANCELED; E_DAMAGED; -ESTALE: the segments changed meanwhile; another negative
 * errno. On error the log is as before. */
int compact_run(const struct compact_params *params, struct compact_result *out);

#endif
