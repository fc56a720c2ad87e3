/*
 * A partition on this node: its log, its high watermark, who waits for what.
 *
 * Handles are reference-counted: broker_partition() gives one, partition_unref() ends
 * it. After the topic is deleted, calls answer E_TOPIC_DELETED.
 *
 * Nothing here blocks on another node or on a flush: what has to wait is parked, and
 * its callback runs exactly once, on the thread that completed it (the appender's, a
 * flusher's, or a timer's), with no lock of the partition held.
 */
#ifndef TOPICFS_PARTITION_H
#define TOPICFS_PARTITION_H

#include "coord/coord.h"
#include "replica/extent.h"
#include "replica/log.h"

#include <stdbool.h>
#include <stdint.h>

struct partition;

struct partition *partition_ref(struct partition *partition);
void partition_unref(struct partition *partition); /* accepts NULL */

struct partition_status {
    struct log_place start;          /* log start */
    struct log_place high_watermark; /* end of what readers may see; never falls */
    int64_t log_end_offset;
    int64_t flushed_offset;
    int64_t last_append_ms; /* 0: never */
    int64_t size_bytes;
    uint64_t rewrites; /* for views: see log_read() */
    uint64_t unclean;  /* rises with every unclean election */
    int32_t leader;    /* -1: none */
    int32_t leader_epoch;
    bool deleted;
    bool offline;
};
void partition_status_get(struct partition *partition, struct partition_status *out);

/* What happened since the partition was opened here; for statistics, each for itself.
 */
struct partition_counters {
    uint64_t messages_in;
    uint64_t bytes_in;
    uint64_t bytes_out;      /* handed to readers */
    uint64_t produce_errors; /* appends that were refused or failed */
    uint64_t flushes;
};
void partition_counters_get(struct partition *partition,
                            struct partition_counters *out);

/* The JSON of topics/<t>/<p>/state. */
int partition_state_render(struct partition *partition, struct buf *out);

/* ---- producing --------------------------------------------------------------------
 */

enum { PRODUCE_PENDING = 1 };

struct produce_result {
    int error; /* 0, or a code: see coord/err.h */
    int64_t base_offset;
    struct log_place end; /* behind the last message of the batch */
};

/* Embedded in the caller's request; must stay put until done() ran or cancel said so.
 */
struct produce_waiter {
    void (*done)(struct produce_waiter *waiter, const struct produce_result *result);
    bool acks_given; /* `acks` counts, instead of the topic's setting */
    int64_t acks;    /* enum topic_acks */
    /* private: [partition->lock] */
    struct produce_waiter *prev, *next;
    struct produce_result result;
    int64_t await_offset;
    bool await_flush;           /* waits for the flush instead of the high watermark */
    bool remote;                /* of another node: ends with this node's leadership */
    bool cut;                   /* what it waits for is not in the log any more */
    int32_t leader_epoch;       /* in which it was appended */
    struct outbox_write *write; /* where it waits to be sent at all */
    bool parked;
};

/*
 * Appends complete lines as one batch and waits for the topic's acks. The bytes are
 * borrowed until this returns. `message_count` must be the number of newlines.
 * 0: *result is filled, also on failure (result->error), done() is not called.
 * PRODUCE_PENDING: done() will be called exactly once, possibly before this returns.
 */
int partition_produce(struct partition *partition, const void *bytes, size_t length,
                      uint32_t message_count, struct produce_waiter *waiter,
                      struct produce_result *result);

/*
 * Stops waiting. true: done() was not and will not be called. `*result` tells then how
 * far it came: E_COMMIT_TIMEOUT if appended (base_offset and end are set), or
 * E_NO_LEADER / E_NOT_ENOUGH_REPLICAS if nothing was appended.
 * false: done() ran, runs, or will once it is known whether another node has appended:
 * when the topic's delivery_timeout_ms is over at the latest.
 */
bool partition_produce_cancel(struct partition *partition,
                              struct produce_waiter *waiter,
                              struct produce_result *result);

/* Waits for what was already appended: everything below `end_offset` committed, or with
 * `durable` also on disk here (fsync). Results as partition_produce(). */
int partition_await(struct partition *partition, int64_t end_offset, bool durable,
                    struct produce_waiter *waiter, struct produce_result *result);

/* ---- reading ----------------------------------------------------------------------
 */

/*
 * Committed bytes from `position` on (never beyond the high watermark), as one extent;
 * length 0 at the end. `rewrites` as in the status when the view was made.
 */
int partition_read(struct partition *partition, int64_t position, size_t max_bytes,
                   uint64_t rewrites, struct extent *out);

/* As log_find_* and log_batch_at, below the high watermark. An offset above it:
 * -ERANGE. */
int partition_find_offset(struct partition *partition, int64_t offset,
                          struct log_place *out);
int partition_find_time(struct partition *partition, int64_t time_ms,
                        struct log_place *out);
int partition_find_last(struct partition *partition, int64_t count,
                        struct log_place *out);
int partition_batch_at(struct partition *partition, int64_t position, uint64_t rewrites,
                       struct batch *out);

struct read_waiter {
    void (*ready)(
        struct read_waiter *waiter); /* data came, or the partition went away */
    /* private: [partition->lock] */
    struct read_waiter *prev, *next;
    int64_t beyond_position;
    bool parked;
};

/* 0: parked, ready() is called once when the high watermark's position exceeds
 * `position` (or on deletion, shutdown). 1: it already does; ready() is not called.
 * Negative: error. */
int partition_wait(struct partition *partition, int64_t position,
                   struct read_waiter *waiter);
/* true: ready() was not and will not be called. */
bool partition_wait_cancel(struct partition *partition, struct read_waiter *waiter);

/* ---- segments/ --------------------------------------------------------------------
 */

/* Closed, wholly committed segments. -ENOENT for another. */
int partition_segment_find(struct partition *partition, int64_t base_offset,
                           struct log_segment_info *out);
/* Calls fn for each of them, oldest first, with no lock held; nonzero from fn ends it
 * and is returned. */
int partition_each_segment(struct partition *partition,
                           int (*fn)(void *arg, const struct log_segment_info *info),
                           void *arg);

#endif
