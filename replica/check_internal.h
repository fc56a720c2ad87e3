/*
 * Inside of `topicfs check`, for check*.c only.
 *
 *   check.c            the data directory: lock, small files, summary
 *   check_partition.c  one partition: names, order, gaps, producer snapshots
 *   check_segment.c    one segment: a walk over its index and text, which says what is
 *                      wrong and what the segment would be when mended
 *   check_text.c       reading and scanning a text file
 *   check_repair.c     puts the mended segment in the place of the old one
 *
 * One thread. Nothing here is used while a daemon has the directory.
 */
#ifndef TOPICFS_CHECK_INTERNAL_H
#define TOPICFS_CHECK_INTERNAL_H

#include "replica/checkpoint.h"
#include "replica/index.h"
#include "replica/log.h"

#include <stdio.h>

struct check {
    const char *path;
    const struct disk *disk;
    bool repair;
    FILE *out;
    enum log_recovery recovery; /* how the last process ended */
    struct checkpoint checkpoint;
    bool checkpoint_good; /* it could be read */
    size_t findings;
    size_t repaired;
    size_t partitions;
    size_t segments;
    int64_t messages;
    int64_t bytes;
};

/* One line: "<file>: <what>". A finding is counted; a note is not damage. */
void check_found(struct check *check, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_note(struct check *check, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Copies <data>/<file> to <data>/damaged/<file>, durably; never over an older copy. A
 * file that is not there is fine. */
int check_save(struct check *check, const char *file);

/* ---- text ---------------------------------------------------------------------------
 */

enum { CHECK_WINDOW_BYTES = 256 * 1024 };

struct check_text {
    const struct disk *disk;
    int file;
    void *hash;      /* XXH3 state */
    uint8_t *window; /* CHECK_WINDOW_BYTES */
    int64_t at;      /* what the window holds */
    size_t length;
};

struct check_scan {
    uint64_t hash;
    int64_t lines;
    int64_t lines_end; /* behind the last newline; where the scan began without one */
    bool ends_line;    /* the last byte is a newline */
};

int check_text_open(struct check_text *text, const struct disk *disk, int file);
void check_text_close(struct check_text *text); /* also after memset 0 */
/* The file was written to. */
void check_text_forget(struct check_text *text);
/* [at, at + length). E_DAMAGED: the file ends before. */
int check_text_scan(struct check_text *text, int64_t at, int64_t length,
                    struct check_scan *out);
/* *out: behind the n-th newline of [at, end), or end. */
int check_text_skip(struct check_text *text, int64_t at, int64_t end, int64_t n,
                    int64_t *out);
/* The length of whole lines from `at` on, about `wanted` bytes; one line may be longer.
 */
int check_text_cut(struct check_text *text, int64_t at, int64_t end, int64_t wanted,
                   int64_t *length);
/*
 * Looks for the single bit of a small batch that was flipped: with it back, the
 * checksum is right. 1: *at and *byte say what to write where; 0: not found, or too
 * large to try.
 */
int check_text_flipped_bit(struct check_text *text, const struct batch *batch,
                           int64_t *at, uint8_t *byte);

/* ---- a segment ----------------------------------------------------------------------
 */

struct check_segment {
    struct check *check;
    const char *partition; /* name of the directory */
    struct topic_id topic_id;
    int64_t base_offset;
    int64_t next_base; /* of the segment behind it; -1: it is the last */
    int64_t
        cut_floor; /* a tail from here on may be what a crash tore; INT64_MAX: none */
    int64_t known_end;     /* last segment: the log had at least this end; -1 unknown */
    int64_t base_position; /* hint, where the index does not say */
    int64_t least_timestamp_ms; /* of the batch before the segment; INT64_MIN */
    int64_t most_timestamp_ms;  /* of the first one behind it; INT64_MAX */
    int32_t epoch;              /* of the batch before it, or behind it */

    char text_name[TOPIC_NAME_MAX + 64]; /* "<partition>/<base>.log" */
    char index_name[TOPIC_NAME_MAX + 64];
    bool has_text;
    bool has_index;
    int text;  /* file or -1 */
    int index; /* file or -1 */
    int64_t text_size;
    int64_t index_size;
    int64_t text_mtime_ms;
    bool header_good;
    struct index_header header;
};

/* What a walk found, and what the mended segment has. */
struct check_plan {
    size_t findings;
    bool edits;         /* bytes of the text change, its size does not */
    bool holes;         /* offsets without messages: the compacted flag is due */
    int64_t text_size;  /* at most what the file has */
    int64_t end_offset; /* of the last batch */
    int64_t messages;
    int64_t last_timestamp_ms;
    int32_t epoch;
    int64_t successor; /* an empty segment is to keep this log end; -1: none */
};

/* Who gets the mended segment. */
struct check_sink {
    int (*batch)(void *arg, const struct batch *batch);
    /* A byte of the text becomes another; the next read of `text` sees it. */
    int (*edit)(void *arg, int64_t at, uint8_t byte);
    void *arg;
};

/* Opens the files and reads the header. 0, E_NEWER_FORMAT or an errno; damage is not an
 * error. */
int check_segment_open(struct check_segment *segment);
void check_segment_close(struct check_segment *segment);
/* Prints what is wrong and fills *plan. */
int check_segment_walk(struct check_segment *segment, struct check_plan *plan);
/* The same walk, silent: the sink gets what the segment shall be. `text` is a file that
 * may be edited, or the segment's own where no edits are planned. */
int check_segment_mend(struct check_segment *segment, int text,
                       const struct check_sink *sink);

/* ---- repair -------------------------------------------------------------------------
 */

/* Saves the originals, writes the mended files and renames them into place. */
int check_repair_segment(struct check_segment *segment, const struct check_plan *plan);
/* An empty segment; `compacted`: a hole that reaches to the next one. */
int check_repair_empty(struct check *check, const char *partition,
                       const struct topic_id *topic_id, int64_t base_offset,
                       bool compacted);

/* ---- a partition --------------------------------------------------------------------
 */

/* 0, E_NEWER_FORMAT, or an errno. */
int check_partition(struct check *check, const char *name);

#endif
