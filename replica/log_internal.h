/*
 * Inside of struct log, for the modules that work on it: log*.c, recover.c, and the
 * compaction, which goes
 *
 *     int64_t base = -1;
 *     while (log_view_after(log, base, &view) == 0 && ... closed, below the end ...) {
 *         base = view.segment->base_offset;
 *         ... read it; write "<base>.log.new" and "<base>.index.new", flush both ...
 *         log_view_release(&view);
 *     }
 *     log_replace_prefix(log, bases, n, end_offset);
 */
#ifndef TOPICFS_LOG_INTERNAL_H
#define TOPICFS_LOG_INTERNAL_H

#include "replica/log.h"
#include "replica/segment.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LOG_DAMAGE_MAX = 64 };

struct log {
    struct segment_home *home; /* [lock] written with the append lock held, too */
    const struct clock *clock; /* [const] */
    char *name;                /* [const] last part of the directory's path */
    void (*on_damage)(void *arg, const struct log_damage *damage); /* [const] */
    void *arg;                                                     /* [const] */

    struct topic_config config; /* [append lock] */
    int64_t
        active_first_ms; /* [append lock] timestamp of the last segment's first batch */
    bool has_lost;       /* [const once open] */
    atomic_bool offline; /* cleared by log_renew() alone */

    pthread_mutex_t lock; /* short: never held during I/O or a callback */
    /*
     * [lock] Sorted by base offset. Each ends where the next begins, in offsets and in
     * positions; the last one, unless closed, is appended to.
     */
    struct segment **segments;
    size_t count;
    size_t capacity;
    struct log_place start;    /* [lock] */
    struct log_place end;      /* [lock] written with the append lock held, too */
    int64_t last_timestamp_ms; /* [lock] likewise */
    int64_t size_bytes;        /* [lock] */
    uint64_t rewrites;         /* [lock] */
    int64_t rewritten_end;     /* [lock] position below which older views are void */
    uint64_t cuts;             /* [lock] rises when batches vanish from the end */
    uint64_t lives;            /* [lock] rises with every log_renew() */
    int64_t dirty_from;        /* [lock] base offset of the first segment to flush */
    bool dir_dirty;            /* [lock] files came or went */
    bool parent_dirty;         /* [lock] the directory itself is new */
    struct segment_bad damage[LOG_DAMAGE_MAX]; /* [lock] reported already */
    size_t damage_count;                       /* [lock] */
};

/* ---- the segment table ----------------------------------------------------- */

/* [lock] The last segment that begins at or below; -1 if none. */
ssize_t log_table_by_offset(const struct log *log, int64_t offset);
ssize_t log_table_by_position(const struct log *log, int64_t position);
/* [lock] Makes room for one more. 0 or -ENOMEM. */
int log_table_reserve(struct log *log, size_t count);
/* [lock] Copies what readers need and takes a reference. */
void log_view(const struct log *log, size_t i, struct segment_view *view);
void log_view_release(struct segment_view *view);

/* Takes the lock. -ENOENT where there is none. */
int log_view_by_offset(struct log *log, int64_t offset, struct segment_view *view);
/* The first segment that begins above `base_offset`. */
int log_view_after(struct log *log, int64_t base_offset, struct segment_view *view);
uint64_t log_cuts(struct log *log);
/* Whether a reader must look again, because its segment was taken away (-ESTALE) or the
 * log was cut under it (-EAGAIN). Turns *rc into E_OFFLINE where that would go on. */
bool log_must_retry(struct log *log, int *rc);

/* [append lock] Closes the last segment and begins one at the log's end. */
int log_roll(struct log *log);
/* The age at which a segment is closed. */
int64_t log_roll_after_ms(const struct topic_config *config);
/* Bytes on disk of a segment. [lock] */
int64_t log_segment_bytes(const struct segment *segment);
/* [append lock, not lock] Takes segments [first, end) out of the table, for good; their
 * files are removed, newest first with `from_end`. Start and end are left to the
 * caller. */
int log_drop_segments(struct log *log, size_t first, size_t end, bool from_end);

/* Tells on_damage, once per range. No lock held. */
void log_report(struct log *log, int64_t first_offset, int64_t end_offset,
                int64_t base_offset, const char *suffix, const char *what);
/* What a bad read returns: reports `bad` unless the log was cut meanwhile (-EAGAIN). */
int log_report_read(struct log *log, const struct segment_view *view, uint64_t cuts,
                    const struct segment_bad *bad);

/* The same where a file of the segment could not be opened or read: if it is gone, or
 * the disk can't read it (rc), none of the segment can be served. Else rc. */
int log_report_files(struct log *log, const struct segment_view *view, uint64_t cuts,
                     int rc);

/* The message with that offset, or the first one after it, in one undamaged segment,
 * which need not be in the table. 1: it has none. */
int log_find_in_view(struct log *log, const struct segment_view *view, int64_t offset,
                     const struct log_place *end, struct log_place *out);

/* ---- for the compaction ---------------------------------------------------- */

/*
 * Puts rewritten segments in the place of all segments below `end_offset`, which must
 * be the base of a segment. `bases`: their base offsets, rising, n >= 1, the first one
 * at or below the first one replaced; for each, "<base>.log.new" and "<base>.index.new"
 * are complete and flushed, with the header's compacted flag set. A crash leaves the
 * old or the new. The new ones are laid so that they end at the position of
 * `end_offset`. Bytes pinned before stay readable. On error the old ones are in force.
 * [append lock]
 */
int log_replace_prefix(struct log *log, const int64_t *bases, size_t n,
                       int64_t end_offset);
/* Finishes or undoes a replacement that a crash interrupted; removes leftovers of one.
 * Before the files are looked at. */
int log_replace_recover(const struct disk *disk, const char *dir);

#endif
