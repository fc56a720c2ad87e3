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
    uint64_t rewrites;   /* for views: see log_read() */
    uint64_t unclean;    /* rises with every unclean election */
    int32_t start_epoch; /* leader epoch of what lies before `start`; -1: unknown */
    int32_t leader;      /* -1: none */
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

enum { PRODUCE_PENDING = 1, PRODUCE_GONE = 2 };

struct produce_result {
    int error; /* 0, or a code: see coord/err.h */
    int64_t base_offset;
    struct log_place end; /* behind the last message of the batch */
    /* In which it was appended, for partition_resume(): at the same offset, another
     * epoch is another batch. -1: another node says that it met its acks. */
    int32_t leader_epoch;
    uint32_t length; /* of its bytes, where this node appended it; else 0 */
    /* Of a write that was given up on its way to the leader; 0: it was not. */
    uint64_t ticket;
    /* With acks=0: it waits to be sent, under this number; 0: it does not. */
    uint64_t queued;
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
    bool await_flush;      /* of partition_sync() */
    bool durable;          /* of that: the leader, another node, said that it is */
    uint64_t first_queued; /* likewise: what was only accepted */
    uint64_t last_queued;
    bool remote;          /* of another node: ends with this node's leadership */
    bool cut;             /* what it waits for is not in the log any more */
    bool doubtful;        /* the log was begun anew: is it in what came? */
    int32_t leader_epoch; /* in which it was appended */
    int64_t producer_id;  /* of what was appended here; -1: not known */
    int32_t base_sequence;
    struct outbox_write *write; /* in the outbox, or kept for it */
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
 * far it came: E_COMMIT_TIMEOUT if appended (base_offset, end and leader_epoch are set)
 * or on its way to the leader (the ticket is set: it goes on without its waiter), or
 * E_NO_LEADER / E_NOT_ENOUGH_REPLICAS if nothing was appended nor will be.
 * false: done() ran or runs; or, where memory is short, will within the topic's
 * delivery_timeout_ms.
 */
bool partition_produce_cancel(struct partition *partition,
                              struct produce_waiter *waiter,
                              struct produce_result *result);

/*
 * The same when its time is over. Only, a write that is just on its way to the leader
 * may be refused there, and then nothing of it is stored: it is given a moment more to
 * learn that. false: done() ran, or will within OUTBOX_SETTLE_MS.
 */
bool partition_produce_expire(struct partition *partition,
                              struct produce_waiter *waiter,
                              struct produce_result *result);

/*
 * Goes on with what partition_produce_cancel() left: by its ticket, or by its end and
 * epoch until it is committed. Results as partition_produce(); or PRODUCE_GONE: nothing
 * of it is known to be in the log, and it is to be produced anew. That is certain where
 * a new leader cut it. A ticket is kept for the topic's delivery_timeout_ms after its
 * write ended, and of the newest TICKETS_MAX.
 */
int partition_resume(struct partition *partition, const struct produce_result *left,
                     struct produce_waiter *waiter, struct produce_result *result);

/* What somebody has written. */
struct sync_range {
    int64_t end_offset; /* of what was appended */
    /* Of what was only accepted: produce_result.queued; 0: none. */
    uint64_t first_queued;
    uint64_t last_queued;
};

/* fsync: all of it committed, and on the disk of every in-sync replica. Waits over
 * changes of the leader, until cancelled. Results as partition_produce(); also the
 * error of a write with acks=0, this one's or a later one's, that was given up
 * meanwhile. */
int partition_sync(struct partition *partition, const struct sync_range *range,
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

/* ---- partitions of other nodes ------------------------------------------------------
 *
 * Where this node keeps no replica, the handle takes writes and sends them to the
 * leader. To be read it needs a copy, which is begun when somebody asks for it, follows
 * the leader, and is given up some minutes after its last use.
 */

bool partition_is_remote(const struct partition *partition);
/* Asks for the copy. true: it can be read: it holds what was committed then; or there
 * is nothing to wait for. A replica can be, unless it is being filled anew. Does not
 * block. */
bool partition_observe(struct partition *partition);
/* An open file: the copy stays for as long. NULL is fine. */
void partition_hold(struct partition *partition);
void partition_let_go(struct partition *partition);

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
