/*
 * Compaction's decisions: which segments, which messages stay, what becomes of the
 * batch that they were in. What must hold whenever replicas compact by themselves, at
 * any time: docs/format.md, "Compaction".
 *
 *     if (compact_takes(closed, end_offset, high_watermark)) ...
 *     verdict = compact_judge(&batch, &message, now_ms);   // each message, in order
 *     compact_part(&batch, n, count, verdict, now_ms, &run);
 *
 * Pure.
 */
#ifndef TOPICFS_COMPACT_CORE_H
#define TOPICFS_COMPACT_CORE_H

#include "replica/log.h"

/* Kafka's delete.retention.ms: 24 hours. */
enum { COMPACT_TOMBSTONE_MS = 24 * 60 * 60 * 1000 };

/* May a segment that ends at this offset be compacted? What is above the high watermark
 * may yet be cut, and what it had superseded would be missing then. */
bool compact_takes(bool closed, int64_t end_offset, int64_t high_watermark);

/*
 * Of a segment by the flags in its header (enum index_flag): has compaction looked at
 * all its keys, so that no two of its messages have the same one? Messages of clean
 * segments are not entered into the map of keys.
 */
bool compact_is_clean(uint32_t index_flags);

/* Flags for a segment that an append begins: behind a hole the leader's log was
 * compacted, but nobody has looked at what will come. */
uint32_t compact_flags_behind(bool hole);

struct compact_message {
    int64_t offset;
    bool keyed;
    bool tombstone;         /* nothing stands behind its key */
    int64_t last_of_key;    /* offset of the last message with its key; -1: unknown */
    bool last_of_producer;  /* of one that may come back */
    bool first_of_epoch;    /* in this log */
    bool earlier_key_stays; /* an earlier message with its key does, superseded */
};

enum compact_verdict {
    COMPACT_KEEP = 0,
    COMPACT_KEEP_TOMBSTONE,
    COMPACT_KEEP_SUPERSEDED, /* for what else is to be read from the log by it */
    COMPACT_DROP
};

enum compact_verdict compact_judge(const struct batch *batch,
                                   const struct compact_message *message,
                                   int64_t now_ms);

/* The entry for `count` messages of the batch, from the n-th on, that were judged
 * alike; all but length, position and hash. */
void compact_part(const struct batch *batch, uint32_t n, uint32_t count,
                  enum compact_verdict verdict, int64_t now_ms, struct batch *part);

#endif
