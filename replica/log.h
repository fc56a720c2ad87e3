/*
 * One partition's log on disk: segments of message text with an index of batches each.
 * docs/format.md describes the files.
 *
 * Three coordinates name a place in a log:
 *   offset    counts messages, from 0; the only one that other nodes know
 *   position  counts bytes since this process opened the log; local and monotonic, so
 * that an open view stays right while segments are dropped or compacted place     both,
 * always at the beginning of a message
 *
 * Locks and threads: appends, truncation, roll, retention and compaction's switch need
 * the caller's append lock (one at a time). Everything else may run on any thread
 * beside them; log->lock (private, short, never held during I/O) guards the segment
 * table. What they drop loses its names at once, its space with the next
 * file_cache_free_space(), which is for a thread without that lock.
 *
 *     log_open(&params, &log);
 *     pthread_mutex_lock(&append_lock);
 *     batch = (struct batch){.message_count = 2, .length = n, .timestamp_ms = now,
 * ...}; rc = log_append(log, &batch, bytes);     // batch.base_offset, .position now
 * set pthread_mutex_unlock(&append_lock); rc = log_flush(log, &flushed_offset);
 *
 * Kafka calls these segments, offset index and recovery point; the rules are the same
 * but for the text format.
 */
#ifndef TOPICFS_LOG_H
#define TOPICFS_LOG_H

#include "coord/coord.h"
#include "replica/disk.h"
#include "replica/extent.h"

#include <stdbool.h>
#include <stdint.h>

struct log;
struct file_cache; /* replica/file_cache.h: the bounded set of open segment files */

/* Set by compaction alone. */
enum batch_flag {
    BATCH_TOMBSTONES = 1, /* all messages are: a key and no value */
    BATCH_SUPERSEDED =
        2, /* its keys have later messages; it is kept for its producer */
};

/* One index entry, decoded. */
struct batch {
    int64_t base_offset;
    int64_t position; /* of its first byte, as a log position */
    uint32_t message_count;
    uint32_t length; /* bytes, newlines included */
    int64_t timestamp_ms;
    int32_t leader_epoch;
    int32_t base_sequence; /* -1 without a producer */
    int64_t producer_id;   /* -1 without a producer */
    uint32_t flags;        /* enum batch_flag */
    uint64_t payload_hash; /* XXH3 of the bytes */
    int64_t delete_at_ms;  /* with BATCH_TOMBSTONES: when compaction may drop them */
};

struct log_place {
    int64_t offset;
    int64_t position;
};

struct log_bounds {
    struct log_place start; /* first message kept */
    struct log_place end;   /* log end offset: where the next message goes */
    int64_t last_timestamp_ms;
    uint64_t rewrites;  /* rises with every compaction */
    int64_t size_bytes; /* on disk, text and indexes */
};

enum log_recovery {
    LOG_CLEAN,           /* the marker of a clean stop was found */
    LOG_PROCESS_CRASHED, /* same boot id: the page cache is intact; flush before
                            trusting */
    LOG_MACHINE_CRASHED, /* what was not flushed may be gone or garbage */
};

/* A range of offsets that can't be served. `what` and `file` in words for problems. */
struct log_damage {
    int64_t first_offset;
    int64_t end_offset; /* exclusive */
    const char *file;   /* name relative to the data directory */
    const char *what;
};

struct log_params {
    const struct disk *disk; /* borrowed, like all pointers here but `dir` */
    struct file_cache *files;
    const struct clock *clock;
    const char *dir; /* copied; created when absent and `may_create` */
    bool may_create;
    struct topic_id topic_id;
    const struct topic_config *config; /* copied: segment_*, retention_*, ... */
    enum log_recovery recovery;
    /* From the checkpoint; -1 = unknown. Nothing at or below these is ever cut. */
    int64_t log_start_offset;
    int64_t flushed_offset;
    int64_t high_watermark;
    int64_t log_end_offset; /* a floor for new offsets, should the files be lost */
    /* Called for every damage found, at open or later, from any thread, no lock held.
     */
    void (*on_damage)(void *arg, const struct log_damage *damage);
    void *arg;
};

/*
 * Opens and recovers. Cuts a torn tail above what was flushed and committed; keeps
 * everything else, reports damage, and then appends go to a new segment behind it.
 * Never deletes on suspicion. 0, E_NEWER_FORMAT, or a negative errno.
 */
int log_open(const struct log_params *params, struct log **out);
void log_close(struct log *log); /* does not flush; NULL is fine */
/*
 * The directory is about to be moved away, for good: no file is opened by its name any
 * more, and calls answer E_OFFLINE. Extents stay readable. [append lock]
 */
void log_detach(struct log *log);
/* The topic's settings changed. [append lock] */
void log_reconfigure(struct log *log, const struct topic_config *config);

void log_bounds_get(struct log *log, struct log_bounds *out);
/* Whether opening it, after the crash of a process, cut whole batches away: nothing
 * that such a crash leaves is like that, so they had been written, and perhaps
 * acknowledged. */
bool log_has_lost(const struct log *log);

/*
 * Appends one batch; takes message_count, length, leader_epoch, producer and flags, and
 * a timestamp that is raised to the last one's if lower. Sets base_offset, position,
 * timestamp_ms and payload_hash. Rolls to a new segment first where segment_bytes or
 * segment_ms ask for it. The bytes are in the page cache when it returns, not flushed.
 * On error nothing was appended: -ENOSPC, another negative errno (E_OFFLINE if the file
 * could not be restored to what it was). [append lock]
 */
int log_append(struct log *log, struct batch *batch, const void *bytes);

/*
 * Appends a batch as the leader has it: all fields but position are taken as they are,
 * payload_hash among them, which the caller compared with the bytes. base_offset is at
 * or behind the log's end; what lies between, compaction took. -EINVAL if it isn't;
 * -EOVERFLOW for a hole of 2^31 offsets. Else as log_append(). [append lock]
 */
int log_append_verbatim(struct log *log, struct batch *batch, const void *bytes);

/*
 * Makes everything appended before the call durable; *flushed is the log end offset at
 * the call. A failure is final: the data may be gone, so the log turns E_OFFLINE and is
 * not flushed again; but for -EMFILE, -ENFILE and -ENOMEM: nothing happened, call it
 * again. One at a time per log; appends may go on meanwhile.
 */
int log_flush(struct log *log, int64_t *flushed);

/* Cuts the log so that `offset` is its end; offset must begin a batch. [append lock] */
int log_truncate(struct log *log, int64_t offset);

/*
 * The bytes from `position` on, at most max_bytes and not beyond `limit_position`, as
 * one extent. `rewrites` is log_bounds.rewrites when the reader's view was made. Length
 * 0 at the limit. E_OFFSET_BELOW_START, E_RANGE_REWRITTEN, E_DAMAGED, a negative errno.
 */
int log_read(struct log *log, int64_t position, size_t max_bytes,
             int64_t limit_position, uint64_t rewrites, struct extent *out);

/*
 * Places. All look only at what lies below the place `end` (the high watermark), which
 * is also the answer where nothing lies at or after what was asked for.
 * By offset: the message with that offset, or the first after it (compaction leaves
 * holes); E_OFFSET_BELOW_START below the log start. By time: the first message at or
 * after it. By count: the last n messages. By position: the message that contains it.
 */
int log_find_offset(struct log *log, int64_t offset, const struct log_place *end,
                    struct log_place *out);
int log_find_time(struct log *log, int64_t time_ms, const struct log_place *end,
                  struct log_place *out);
int log_find_last(struct log *log, int64_t count, const struct log_place *end,
                  struct log_place *out);
/* The batch whose bytes contain `position`; -ENOENT at or after the log's end. */
int log_batch_at(struct log *log, int64_t position, uint64_t rewrites,
                 struct batch *out);

/* Calls fn for every batch from offset on, in order; nonzero from fn ends it and is
 * returned. For producer state and for followers. */
int log_each_batch(struct log *log, int64_t offset,
                   int (*fn)(void *arg, const struct batch *batch), void *arg);

/* Closed segments, oldest first: base offset, end offset, bytes; for segments/. */
struct log_segment_info {
    int64_t base_offset;
    int64_t end_offset;
    int64_t position;
    int64_t size;
    int64_t mtime_ms;
    uint64_t version; /* changes when compaction rewrites the segment */
    bool closed;
    bool damaged;
};
int log_each_segment(struct log *log,
                     int (*fn)(void *arg, const struct log_segment_info *info),
                     void *arg);
int log_segment_find(struct log *log, int64_t base_offset,
                     struct log_segment_info *out);

/*
 * Drops closed segments wholly below `high_watermark` by retention_ms and
 * retention_bytes, but none whose last message is not older than `keep_ms` (-1: of any
 * age). Reads no file. Returns how many, or a negative errno; LOG_RETAIN_MAX: there may
 * be more, call it again, so that appends come in between. [append lock]
 */
enum { LOG_RETAIN_MAX = 32 };
int log_retain(struct log *log, int64_t high_watermark, int64_t now_ms,
               int64_t keep_ms);
/* Raises the log start to `offset` (never lowers it) and drops segments wholly below.
 * [append lock] */
int log_raise_start(struct log *log, int64_t offset);
/* Drops all that the log holds, and begins anew at `offset`, wherever that is.
 * Positions go on. [append lock] */
int log_restart(struct log *log, int64_t offset);
/*
 * Begins anew at `offset` in an empty directory: move() takes the present one away, by
 * renaming it. What was read stays readable where it is held; damage is forgotten, and
 * a log that had turned E_OFFLINE is used again. On an error of move() all is as it
 * was; on a later one the log holds nothing, and the call may be repeated.
 * [append lock]
 */
int log_renew(struct log *log, int64_t offset, int (*move)(void *arg), void *arg);

/* As log_renew(), in `dir`, which is made, and is the log's from then on; the files
 * stay where they were. -EEXIST: it is there. [append lock] */
int log_renew_in(struct log *log, const char *dir, int64_t offset);

/* Removes all files of the log. The log must be closed. */
int log_remove(const struct disk *disk, const char *dir);

#endif
