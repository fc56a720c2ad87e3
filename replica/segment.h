/*
 * A segment: one text file and its index. Segments are counted by reference: the log's
 * table holds one, every extent and every look-up another, so that files stay readable
 * while retention or compaction takes the segment away.
 *
 *     rc = segment_create(home, base_offset, position, now_ms, 0, &segment);
 *     rc = segment_append(segment, &batch, bytes);
 *     rc = segment_flush(segment);
 *     segment_unref(segment);
 *
 * Who may touch a field is said at the field. Other threads take a copy under the log's
 * lock (struct segment_view, a reference included) and work with that.
 */
#ifndef TOPICFS_SEGMENT_H
#define TOPICFS_SEGMENT_H

#include "replica/file_cache.h"
#include "replica/index.h"
#include "replica/log.h"

#include <stdatomic.h>

/* What all segments of a log share; counted, because extents outlive the log. */
struct segment_home {
    atomic_int refs;
    const struct disk *disk;  /* [const] borrowed */
    struct file_cache *files; /* [const] borrowed */
    struct topic_id topic_id; /* [const] */
    char dir[];               /* [const] */
};

struct segment_home *segment_home_new(const struct disk *disk, struct file_cache *files,
                                      const struct topic_id *topic_id, const char *dir);
struct segment_home *segment_home_ref(struct segment_home *home); /* the same */
void segment_home_unref(struct segment_home *home);

enum segment_flag {
    SEGMENT_CLOSED = 1,    /* nothing is appended to it any more */
    SEGMENT_DAMAGED = 2,   /* not served at all */
    SEGMENT_COMPACTED = 4, /* offsets may have holes */
    SEGMENT_GAP = 8, /* stands for lost files: has none, takes one byte of position */
    SEGMENT_CLEAN = 16, /* written by compaction, which need not look at its keys again:
                         * nothing may be appended */
};

struct segment {
    struct segment_home *home;     /* [const] */
    struct file_cache_file *text;  /* [the file cache's mutex] */
    struct file_cache_file *index; /* [the file cache's mutex] */
    int64_t base_offset;           /* [const] */
    int64_t position;          /* [const once in the table] log position of byte 0 */
    int64_t end_offset;        /* [log lock] */
    int64_t text_size;         /* [log lock] also counts what damage made unreadable */
    int64_t last_timestamp_ms; /* [log lock] */
    uint32_t entry_count;      /* [log lock] */
    uint32_t flags;            /* [log lock] */
    uint32_t version;          /* [const] counts compactions */
    atomic_int refs;
    bool dirty; /* [log lock] has bytes that were not flushed; the flusher clears it */
    atomic_bool retired; /* its paths may name other files by now */
};

struct segment_view {
    struct segment *segment;
    int64_t end_offset;
    int64_t text_size;
    uint32_t entry_count;
    uint32_t flags;
};

enum { SEGMENT_PATH_EXTRA = 48 }; /* room for "/<20 digits>.index.new" */

/* "<dir>/<base offset><suffix>" into path of at least strlen(dir) + SEGMENT_PATH_EXTRA.
 */
void segment_path(const char *dir, int64_t base_offset, const char *suffix, char *path);

/* An object without looking at any file. NULL: no memory. One reference. */
struct segment *segment_new(struct segment_home *home, int64_t base_offset);
struct segment *segment_ref(struct segment *segment);
void segment_unref(struct segment *segment); /* NULL is fine */

/* Makes both files, with the header; leaves none on error. index_flags: enum
 * index_flag. */
int segment_create(struct segment_home *home, int64_t base_offset, int64_t position,
                   int64_t now_ms, uint32_t index_flags, struct segment **out);

/* Pin and unpin its files. -ESTALE: the segment was retired, look it up again. */
int segment_pin_text(struct segment *segment, struct file_cache_file **out);
int segment_pin_index(struct segment *segment, struct file_cache_file **out);
void segment_unpin(struct segment *segment, struct file_cache_file *file);

/*
 * Writes bytes and entry behind what is there; the caller then publishes the new size
 * and count under the log's lock. batch->position counts within the segment here. On
 * error both files are cut back to what they were; E_OFFLINE where that fails.
 * E_DAMAGED: somebody removed or cut the text, nothing was written. [append lock]
 */
int segment_append(struct segment *segment, const struct batch *batch,
                   const void *bytes);

/* Cuts both files, the index first. [append lock] */
int segment_cut(struct segment *segment, uint32_t entry_count, int64_t text_size);

/* fdatasync of text, then index. E_OFFLINE: one failed, its data may be gone; any other
 * error: they could not be opened, nothing happened. */
int segment_flush(struct segment *segment);

/* Lets the verified map survive the change between live and closed. [append lock] */
void segment_restamp(struct segment *segment, bool closed);

/* Removes its files so that a crash in between is finished by the next open. Their
 * space is freed later, see file_cache_hold(); at once with `files` NULL. */
int segment_remove_files(const struct disk *disk, struct file_cache *files,
                         const char *dir, int64_t base_offset);

/* A range of offsets that turned out to be bad. */
struct segment_bad {
    int64_t first_offset;
    int64_t end_offset;
};

/*
 * Compares the batches that overlap [at, at + *length) of a pinned text with their
 * checksums, unless that is known already. 0: *length bytes are good, at least one,
 * perhaps fewer than asked. E_DAMAGED: the batch at `at` is bad, *bad says which; a
 * negative errno.
 */
int segment_check(const struct segment_view *view, struct file_cache_file *text,
                  int64_t at, size_t *length, struct segment_bad *bad);

/* The unreadable or absent range beside an index position: from where the entry `low`
 * ends (the segment's base for -1) to where `high` begins (the segment's end for
 * count). */
int segment_bad_range(const struct segment_view *view, struct index_reader *reader,
                      const struct index_spot *spot, struct segment_bad *bad);

#endif
