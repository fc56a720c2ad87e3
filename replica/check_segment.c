/*
 * The walk over one segment. It goes from entry to entry; what no usable entry
 * describes becomes a stretch: bytes [position, end) of the text for offsets [offset,
 * end). Entries around a stretch are anchors: they never move, so a stretch can be
 * given fewer or more lines than offsets without an effect on what follows.
 *
 *   lines = offsets   new batches from the text
 *   fewer             the same, and offsets without a message at the end
 *   more              the last offset gets all surplus lines as one (their newlines
 * become spaces); at the end of a segment the surplus is cut
 *
 * The first walk prints and plans; the second, with the same decisions, hands out
 * batches.
 */
#include "replica/check_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NEW_BATCH_BYTES = 64 * 1024 };

struct walk {
    struct check_segment *segment;
    struct check_plan *plan;
    const struct check_sink *sink; /* NULL: the first walk */
    struct check_text text;
    struct index_reader reader;
    int64_t position; /* where what was handed out ends */
    int64_t offset;
    int64_t timestamp_ms;
    int32_t epoch;
    uint32_t bad_entries; /* unusable ones since then */
    int64_t known_end;    /* an unusable entry told of offsets up to here */
    bool torn;
};

static void found(struct walk *walk, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void found(struct walk *walk, const char *file, const char *format, ...)
{
    char what[512];
    if (walk->sink != NULL)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    check_found(walk->segment->check, file, "%s", what);
    walk->plan->findings++;
}

static void found_text(struct walk *walk, const char *what, int64_t at, int64_t end,
                       int64_t offset, int64_t end_offset)
{
    if (end_offset > offset)
        found(walk, walk->segment->text_name,
              "bytes %" PRId64 " to %" PRId64 " %s: offsets %" PRId64 " to %" PRId64,
              at, end - 1, what, offset, end_offset - 1);
    else
        found(walk, walk->segment->text_name,
              "bytes %" PRId64 " to %" PRId64 " %s: behind offset %" PRId64, at,
              end - 1, what, offset - 1);
}

/* ---- handing out --------------------------------------------------------------------
 */

static int emit(struct walk *walk, struct batch *batch)
{
    if (batch->timestamp_ms < walk->timestamp_ms)
        batch->timestamp_ms = walk->timestamp_ms;
    if (batch->base_offset > walk->offset)
        walk->plan->holes = true;
    walk->timestamp_ms = batch->timestamp_ms;
    walk->epoch = batch->leader_epoch;
    walk->position = batch->position + batch->length;
    walk->offset = batch->base_offset + batch->message_count;
    walk->plan->messages += batch->message_count;
    return walk->sink != NULL ? walk->sink->batch(walk->sink->arg, batch) : 0;
}

static int edit(struct walk *walk, int64_t at, uint8_t byte)
{
    walk->plan->edits = true;
    if (walk->sink == NULL)
        return 0;
    check_text_forget(&walk->text);
    return walk->sink->edit(walk->sink->arg, at, byte);
}

/* What a batch that is made anew takes from its neighbours. */
static struct batch new_batch(const struct walk *walk, const struct batch *behind)
{
    const struct check_segment *segment = walk->segment;
    bool is_first = walk->position == 0;
    int64_t at_most =
        behind != NULL ? behind->timestamp_ms : segment->most_timestamp_ms;
    int64_t timestamp_ms =
        is_first || behind == NULL ? segment->text_mtime_ms : walk->timestamp_ms;
    if (timestamp_ms > at_most)
        timestamp_ms = at_most;
    return (struct batch){.base_offset = walk->offset,
                          .position = walk->position,
                          .timestamp_ms = timestamp_ms,
                          .leader_epoch = walk->epoch,
                          .base_sequence = -1,
                          .producer_id = -1};
}

/* Batches for the lines of [walk->position, end), from walk->offset on. */
static int emit_lines(struct walk *walk, int64_t end, int64_t lines,
                      const struct batch *behind)
{
    int rc = 0;
    if (walk->sink == NULL && lines > 0) {
        struct batch batch = new_batch(walk, behind);
        batch.message_count = (uint32_t)lines;
        batch.length = (uint32_t)(end - batch.position);
        return emit(walk, &batch);
    }
    while (rc == 0 && walk->position < end) {
        struct batch batch = new_batch(walk, behind);
        struct check_scan scan;
        int64_t length = 0;
        rc = check_text_cut(&walk->text, walk->position, end, NEW_BATCH_BYTES, &length);
        if (rc == 0)
            rc = check_text_scan(&walk->text, walk->position, length, &scan);
        if (rc != 0)
            break;
        batch.message_count = (uint32_t)scan.lines;
        batch.length = (uint32_t)length;
        batch.payload_hash = scan.hash;
        rc = emit(walk, &batch);
    }
    return rc;
}

/* Newlines `keep` to the last but one of [at, end) become spaces. */
static int join_lines(struct walk *walk, int64_t at, int64_t end, int64_t keep,
                      int64_t lines)
{
    int rc = 0;
    walk->plan->edits = true;
    if (walk->sink == NULL)
        return 0;
    rc = check_text_skip(&walk->text, at, end, keep - 1, &at);
    for (int64_t i = keep; rc == 0 && i < lines; i++) {
        rc = check_text_skip(&walk->text, at, end, 1, &at);
        if (rc == 0)
            rc = edit(walk, at - 1, ' ');
    }
    return rc;
}

/* ---- stretches ----------------------------------------------------------------------
 */

/*
 * A stretch before an anchor: [walk->position, end), at least one byte, for offsets
 * [walk->offset, end_offset), at least one. `behind` is the anchor, `like` the batch
 * itself where its entry is good but for the checksum.
 */
static int mend_stretch(struct walk *walk, int64_t end, int64_t end_offset,
                        const struct batch *behind, const struct batch *like)
{
    int64_t offsets = end_offset - walk->offset;
    int64_t at = walk->position;
    struct check_scan scan;
    int rc = check_text_scan(&walk->text, at, end - at, &scan);
    if (rc == 0 && !scan.ends_line) {
        /* Whatever stands there, each batch ends with a newline. */
        rc = edit(walk, end - 1, '\n');
        scan.lines++;
    }
    if (rc == 0 && scan.lines != offsets)
        found(walk, walk->segment->text_name,
              "bytes %" PRId64 " to %" PRId64 " have %" PRId64 " lines for %" PRId64
              " offsets from %" PRId64 " on: which line had which is not known",
              at, end - 1, scan.lines, offsets, walk->offset);
    if (rc == 0 && scan.lines > offsets) {
        rc = join_lines(walk, at, end, offsets, scan.lines);
        scan.lines = offsets;
    }
    if (rc == 0 && like != NULL && scan.lines == offsets) {
        struct batch batch = *like;
        rc = check_text_scan(&walk->text, at, end - at, &scan);
        batch.payload_hash = scan.hash;
        return rc != 0 ? rc : emit(walk, &batch);
    }
    return rc != 0 ? rc : emit_lines(walk, end, scan.lines, behind);
}

/* The stretch behind the last usable entry: whole lines, as many as there are offsets.
 */
static int mend_tail(struct walk *walk, int64_t end_offset)
{
    const struct check_segment *segment = walk->segment;
    struct check_scan scan;
    int64_t at = walk->position;
    int64_t end = segment->text_size;
    int rc = check_text_scan(&walk->text, at, end - at, &scan);
    if (rc != 0)
        return rc;
    end = scan.lines_end;
    if (end < segment->text_size)
        found_text(walk, "are no whole line", end, segment->text_size,
                   walk->offset + scan.lines, 0);
    if (segment->next_base >= 0 && scan.lines > end_offset - walk->offset) {
        found(walk, segment->text_name,
              "bytes %" PRId64 " to %" PRId64 " have %" PRId64 " lines for %" PRId64
              " offsets from %" PRId64 " on",
              at, end - 1, scan.lines, end_offset - walk->offset, walk->offset);
        scan.lines = end_offset - walk->offset;
        rc = check_text_skip(&walk->text, at, end, scan.lines, &end);
    }
    return rc != 0 ? rc : emit_lines(walk, end, scan.lines, NULL);
}

/* ---- entries ------------------------------------------------------------------------
 */

/* Only a machine's crash takes what had been written, and only above what was flushed.
 * An index that lost its header was damaged otherwise. */
static bool may_be_torn(const struct walk *walk)
{
    const struct check_segment *segment = walk->segment;
    return segment->next_base < 0 && walk->offset >= segment->cut_floor &&
           (segment->header_good || segment->text_size == 0);
}

/* Whether the entry can stand where the walk has come to. */
static bool fits(struct walk *walk, const struct batch *batch)
{
    const struct check_segment *segment = walk->segment;
    int64_t end_offset = batch->base_offset + batch->message_count;
    if (batch->base_offset < walk->offset || batch->position < walk->position ||
        (segment->next_base >= 0 && end_offset > segment->next_base))
        return false;
    if (end_offset > walk->known_end)
        walk->known_end = end_offset;
    if (batch->position >= segment->text_size)
        return false;
    return batch->position == walk->position || batch->base_offset > walk->offset;
}

/* What lies between the last batch and this one. */
static int pass_gap(struct walk *walk, const struct batch *batch)
{
    struct check_segment *segment = walk->segment;
    bool compacted = !segment->header_good || (segment->header.flags & INDEX_COMPACTED);
    if (batch->position > walk->position) {
        found_text(walk, "have no usable index entry", walk->position, batch->position,
                   walk->offset, batch->base_offset);
        int rc = mend_stretch(walk, batch->position, batch->base_offset, batch, NULL);
        walk->bad_entries = 0;
        return rc;
    }
    bool hole = batch->base_offset > walk->offset;
    if (hole && (!compacted || walk->bad_entries > 0))
        found(walk, segment->index_name,
              "no messages for offsets %" PRId64 " to %" PRId64, walk->offset,
              batch->base_offset - 1);
    else if (walk->bad_entries > 0)
        found(walk, segment->index_name,
              "%u superfluous entries before that of offset %" PRId64,
              walk->bad_entries, batch->base_offset);
    walk->bad_entries = 0;
    return 0;
}

static int mend_batch(struct walk *walk, struct batch *batch)
{
    int64_t at = 0;
    uint8_t byte = 0;
    int64_t end = batch->position + batch->length;
    int flipped = check_text_flipped_bit(&walk->text, batch, &at, &byte);
    if (flipped < 0)
        return flipped;
    if (flipped) {
        found(walk, walk->segment->text_name,
              "one bit of byte %" PRId64
              " is flipped, the checksum tells which: offsets "
              "%" PRId64 " to %" PRId64,
              at, batch->base_offset, batch->base_offset + batch->message_count - 1);
        int rc = edit(walk, at, byte);
        return rc != 0 ? rc : emit(walk, batch);
    }
    found_text(walk, "do not match their checksum", batch->position, end,
               batch->base_offset, batch->base_offset + batch->message_count);
    if (batch->base_offset > walk->offset)
        walk->plan->holes = true;
    walk->offset = batch->base_offset;
    return mend_stretch(walk, end, batch->base_offset + batch->message_count, batch,
                        batch);
}

/* The entry fits; its text is compared. 1: torn from here on. */
static int pass_batch(struct walk *walk, struct batch *batch)
{
    const struct check_segment *segment = walk->segment;
    struct check_scan scan = {0};
    int rc = E_DAMAGED;
    if (batch->position + batch->length <= segment->text_size)
        rc = check_text_scan(&walk->text, batch->position, batch->length, &scan);
    else if (!may_be_torn(walk)) {
        walk->bad_entries++; /* the text ends within: what is there is the tail */
        return 0;
    }
    if (rc == 0 && (scan.hash != batch->payload_hash ||
                    scan.lines != batch->message_count || !scan.ends_line))
        rc = E_DAMAGED;
    if (rc == E_DAMAGED)
        return may_be_torn(walk) ? 1 : mend_batch(walk, batch);
    if (rc != 0)
        return rc;
    if (batch->timestamp_ms < walk->timestamp_ms &&
        batch->base_offset > segment->base_offset)
        found(walk, segment->index_name, "time goes back at offset %" PRId64,
              batch->base_offset);
    return emit(walk, batch);
}

static int walk_entries(struct walk *walk)
{
    struct batch batch;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < walk->reader.count; i++) {
        rc = index_reader_get(&walk->reader, i, &batch);
        bool usable = rc == 0 && fits(walk, &batch);
        if (rc != 0 && rc != E_DAMAGED)
            return rc;
        rc = 0;
        bool whole =
            usable && batch.position == walk->position && walk->bad_entries == 0;
        if (!whole && may_be_torn(walk))
            rc = 1;
        else if (!usable)
            walk->bad_entries++;
        else
            rc = pass_gap(walk, &batch);
        if (rc == 0 && usable)
            rc = pass_batch(walk, &batch);
    }
    walk->torn = rc == 1;
    return rc == 1 ? 0 : rc;
}

/* ---- ends ---------------------------------------------------------------------------
 */

/* Which offsets the segment should have, as far as anything says. */
static int64_t wanted_end(const struct walk *walk)
{
    const struct check_segment *segment = walk->segment;
    if (segment->next_base >= 0)
        return segment->next_base;
    int64_t end =
        walk->known_end > segment->known_end ? walk->known_end : segment->known_end;
    return end > walk->offset ? end : walk->offset;
}

static void end_in_time(struct walk *walk)
{
    const struct check_segment *segment = walk->segment;
    int64_t end_offset = wanted_end(walk);
    bool compacted = segment->header_good &&
                     (segment->header.flags & INDEX_COMPACTED) &&
                     segment->next_base >= 0;
    if (end_offset <= walk->offset)
        return;
    if (!compacted || walk->bad_entries > 0)
        found(walk, segment->text_name, "offsets %" PRId64 " to %" PRId64 " are lost",
              walk->offset, end_offset - 1);
    walk->plan->holes = true;
    if (segment->next_base < 0)
        walk->plan->successor = end_offset;
}

static int walk_end(struct walk *walk)
{
    const struct check_segment *segment = walk->segment;
    int64_t entries = walk->reader.count;
    int64_t stray = segment->index_size - index_entry_at((uint32_t)entries);
    bool text_left = segment->text_size > walk->position;
    bool odd =
        text_left || walk->bad_entries > 0 || (segment->header_good && stray != 0);
    if (walk->torn || (odd && may_be_torn(walk))) {
        found(walk, segment->text_name,
              "a torn tail: bytes %" PRId64 " to %" PRId64 ", behind offset %" PRId64,
              walk->position, segment->text_size, walk->offset - 1);
        return 0;
    }
    if (segment->header_good && stray != 0)
        found(walk, segment->index_name, "%" PRId64 " bytes behind the last entry",
              stray);
    if (text_left) {
        if (segment->header_good)
            found_text(walk, "have no usable index entry", walk->position,
                       segment->text_size, walk->offset, wanted_end(walk));
        int rc = mend_tail(walk, wanted_end(walk));
        if (rc != 0)
            return rc;
    } else if (walk->bad_entries > 0) {
        found(walk, segment->index_name, "%u unusable entries behind offset %" PRId64,
              walk->bad_entries, walk->offset - 1);
    }
    end_in_time(walk);
    return 0;
}

static int walk_all(struct check_segment *segment, int text, struct check_plan *plan,
                    const struct check_sink *sink)
{
    struct walk walk = {.segment = segment,
                        .plan = plan,
                        .sink = sink,
                        .offset = segment->base_offset,
                        .timestamp_ms = segment->least_timestamp_ms,
                        .epoch = segment->epoch,
                        .known_end = -1};
    uint32_t count = 0;
    if (segment->index_size > INDEX_HEADER_BYTES)
        count =
            (uint32_t)((segment->index_size - INDEX_HEADER_BYTES) / INDEX_ENTRY_BYTES);
    plan->successor = -1;
    index_reader_init(&walk.reader, segment->check->disk, segment->index,
                      segment->base_offset, count);
    int rc = check_text_open(&walk.text, segment->check->disk, text);
    if (rc == 0)
        rc = walk_entries(&walk);
    if (rc == 0)
        rc = walk_end(&walk);
    plan->text_size = walk.position;
    plan->end_offset = walk.offset;
    plan->last_timestamp_ms = walk.timestamp_ms;
    plan->epoch = walk.epoch;
    check_text_close(&walk.text);
    return rc;
}

/* ---- files --------------------------------------------------------------------------
 */

static int open_one(const struct check *check, const char *name, bool *has, int *file,
                    struct disk_stat *st)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", check->path, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return -ENAMETOOLONG;
    *file = check->disk->ops->open(check->disk, path, DISK_READ);
    *has = *file >= 0;
    if (*file < 0)
        return *file == -ENOENT ? 0 : *file;
    return check->disk->ops->stat(check->disk, *file, st);
}

int check_segment_open(struct check_segment *segment)
{
    struct check *check = segment->check;
    struct disk_stat text = {0};
    struct disk_stat index = {0};
    uint8_t bytes[INDEX_HEADER_BYTES];
    segment->text = segment->index = -1;
    int rc =
        open_one(check, segment->text_name, &segment->has_text, &segment->text, &text);
    if (rc == 0)
        rc = open_one(check, segment->index_name, &segment->has_index, &segment->index,
                      &index);
    segment->text_size = text.size;
    segment->text_mtime_ms = text.mtime_ms;
    segment->index_size = index.size;
    if (rc != 0 || index.size < INDEX_HEADER_BYTES)
        return rc;
    rc = disk_read_all(check->disk, segment->index, bytes, sizeof bytes, 0);
    if (rc == 0)
        rc = index_header_decode(bytes, &segment->header);
    segment->header_good = rc == 0;
    return rc == E_CORRUPT ? 0 : rc;
}

void check_segment_close(struct check_segment *segment)
{
    const struct disk *disk = segment->check->disk;
    if (segment->text >= 0)
        (void)disk->ops->close(disk, segment->text);
    if (segment->index >= 0)
        (void)disk->ops->close(disk, segment->index);
    segment->text = segment->index = -1;
}

/* The files are there but for what a crash right after a roll leaves. */
static void check_files(struct check_segment *segment, struct walk *walk)
{
    if (!segment->has_index)
        found(walk, segment->index_name, "the file is missing; the text is there");
    else if (!segment->header_good)
        found(walk, segment->index_name, "the header is damaged");
    if (!segment->has_text)
        found(walk, segment->text_name, "the file is missing");
}

int check_segment_walk(struct check_segment *segment, struct check_plan *plan)
{
    *plan = (struct check_plan){0};
    struct walk walk = {.segment = segment, .plan = plan};
    check_files(segment, &walk);
    return walk_all(segment, segment->text, plan, NULL);
}

int check_segment_mend(struct check_segment *segment, int text,
                       const struct check_sink *sink)
{
    struct check_plan plan = {0};
    return walk_all(segment, text, &plan, sink);
}
