#include "replica/recover.h"

#include "replica/log_internal.h"
#include "replica/recover_segment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEGMENT_DIGITS = 20 };

struct recovery {
    struct log *log;
    const struct log_params *params;
    int64_t limit;  /* nothing below is cut */
    int64_t *bases; /* of the segments in the directory, rising */
    size_t count;
    size_t capacity;
    bool cut_done; /* the tail was cut: what is behind it goes */
    int64_t next;  /* where the segments so far end: the next one should begin here */
    bool
        holes; /* the last one was compacted: it may end earlier than the next begins */
    int64_t base_position; /* of the last segment, from its header */
    int64_t report_base;   /* for report_range() */
    int64_t open_from; /* from here to an end yet unknown is damaged; -1: nothing is */
};

/* ---- the directory --------------------------------------------------------- */

/* The base offset of "<20 digits><suffix>", -1 for another name. */
static int64_t parse_name(const char *name, const char *suffix)
{
    if (strspn(name, "0123456789") != SEGMENT_DIGITS ||
        strcmp(name + SEGMENT_DIGITS, suffix) != 0)
        return -1;
    errno = 0;
    int64_t base = strtoll(name, NULL, 10);
    return errno == 0 ? base : -1;
}

static int add_name(void *arg, const char *name)
{
    struct recovery *recovery = arg;
    int64_t base = parse_name(name, ".log");
    if (base < 0)
        base = parse_name(name, ".index");
    if (base < 0)
        base = parse_name(name, ".deleted");
    if (base < 0 && parse_name(name, ".producers") >= 0)
        return 0; /* the partition's */
    if (base < 0) {
        diag(DIAG_WARNING, "%s/%s: not a file of the log, left alone",
             recovery->log->name, name);
        return 0;
    }
    if (recovery->count == recovery->capacity) {
        size_t capacity = recovery->capacity == 0 ? 16 : recovery->capacity * 2;
        int64_t *bases = realloc(recovery->bases, capacity * sizeof *bases);
        if (bases == NULL)
            return -ENOMEM;
        recovery->bases = bases;
        recovery->capacity = capacity;
    }
    recovery->bases[recovery->count++] = base;
    return 0;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool is_deleted(const struct recovery *recovery, int64_t base)
{
    const struct segment_home *home = recovery->log->home;
    char path[strlen(home->dir) + SEGMENT_PATH_EXTRA];
    struct disk_stat st;
    segment_path(home->dir, base, ".deleted", path);
    return home->disk->ops->stat_path(home->disk, path, &st) == 0;
}

static int remove_files(struct recovery *recovery, int64_t base)
{
    const struct segment_home *home = recovery->log->home;
    recovery->log->dir_dirty = true;
    return segment_remove_files(home->disk, NULL, home->dir, base);
}

static int list_segments(struct recovery *recovery)
{
    const struct log_params *params = recovery->params;
    int rc = log_replace_recover(params->disk, params->dir);
    if (rc == 0)
        rc = params->disk->ops->list(params->disk, params->dir, add_name, recovery);
    if (rc != 0)
        return rc;
    if (recovery->count > 1)
        qsort(recovery->bases, recovery->count, sizeof *recovery->bases, compare);
    size_t kept = 0;
    for (size_t i = 0; i < recovery->count; i++) {
        int64_t base = recovery->bases[i];
        if (kept > 0 && recovery->bases[kept - 1] == base)
            continue;
        recovery->bases[kept++] = base;
    }
    recovery->count = kept;
    kept = 0;
    for (size_t i = 0; rc == 0 && i < recovery->count; i++) {
        bool below = i + 1 < recovery->count &&
                     recovery->bases[i + 1] <= params->log_start_offset;
        if (below || is_deleted(recovery, recovery->bases[i]))
            rc = remove_files(recovery, recovery->bases[i]);
        else
            recovery->bases[kept++] = recovery->bases[i];
    }
    recovery->count = kept;
    return rc;
}

/* ---- the table ------------------------------------------------------------- */

static int add_segment(struct recovery *recovery, struct segment *segment)
{
    struct log *log = recovery->log;
    int rc = log_table_reserve(log, log->count + 1);
    if (rc == 0)
        log->segments[log->count++] = segment_ref(segment);
    return rc;
}

static int add_gap(struct recovery *recovery, int64_t first, int64_t end)
{
    struct segment *gap = segment_new(recovery->log->home, first);
    if (gap == NULL)
        return -ENOMEM;
    gap->flags = SEGMENT_GAP | SEGMENT_DAMAGED | SEGMENT_CLOSED;
    gap->text_size = 1;
    gap->end_offset = end;
    int rc = add_segment(recovery, gap);
    segment_unref(gap);
    if (rc == 0)
        log_report(recovery->log, first, end, first, ".log", "the segment is missing");
    return rc;
}

static void report_range(void *arg, int64_t first_offset, int64_t end_offset)
{
    struct recovery *recovery = arg;
    if (end_offset == INT64_MAX)
        recovery->open_from = first_offset;
    else
        log_report(recovery->log, first_offset, end_offset, recovery->report_base,
                   ".index", "text and index do not match by their checksums");
}

/* ---- one segment ----------------------------------------------------------- */

/* Whether unflushed data may lie in the segment that ends at `next` (INT64_MAX: last).
 */
static bool may_be_torn(const struct recovery *recovery, int64_t next)
{
    const struct log_params *params = recovery->params;
    if (next == INT64_MAX)
        return true;
    return params->recovery != LOG_CLEAN && params->flushed_offset >= 0 &&
           next > params->flushed_offset && next > recovery->limit;
}

/* What is wrong with a segment that can't be served at all; NULL: it can. */
static const char *whole_damage(const struct recover_segment *found, int64_t next,
                                const char **suffix)
{
    *suffix = ".index";
    if (!found->has_index)
        return "the index is missing";
    if (found->index_size == 0)
        return "the index is empty";
    if (!found->header_good)
        return "the header of the index is damaged or of another topic";
    if (found->end_offset > next)
        return "its last offset lies above the next segment's first";
    *suffix = ".log";
    if (!found->has_text)
        return "the text is missing";
    if (found->text_size == 0 && found->entries > 0)
        return "the text is empty";
    return NULL;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Fills the object with what was found, closed, as far as `end_offset`. */
static int keep_segment(struct recovery *recovery, const struct recover_segment *found,
                        int64_t end_offset)
{
    struct segment *segment = found->segment;
    segment->flags |= SEGMENT_CLOSED;
    segment->entry_count = found->entries;
    segment->end_offset = end_offset;
    segment->last_timestamp_ms = found->last_timestamp_ms;
    segment->text_size = found->end_position;
    recovery->next = end_offset;
    recovery->holes = (segment->flags & SEGMENT_COMPACTED) != 0;
    return add_segment(recovery, segment);
}

static int keep_damaged(struct recovery *recovery, struct recover_segment *found,
                        int64_t end_offset, const char *suffix, const char *what)
{
    int64_t base = found->segment->base_offset;
    found->segment->flags |= SEGMENT_DAMAGED;
    /* It takes at least one byte, so that no reader passes it without noticing. */
    found->end_position = larger(larger(found->text_size, found->end_position), 1);
    int rc = keep_segment(recovery, found, end_offset);
    if (rc == 0)
        log_report(recovery->log, base, end_offset, base, suffix, what);
    return rc;
}

/* The first offset whose text lies beyond the end of a shortened text file. */
static int first_without_text(const struct recover_segment *found, int64_t *out)
{
    struct segment *segment = found->segment;
    struct file_cache_file *index = NULL;
    struct index_reader reader;
    struct index_spot spot;
    struct batch batch;
    *out = segment->base_offset;
    int rc = segment_pin_index(segment, &index);
    if (rc != 0)
        return rc;
    index_reader_init(&reader, segment->home->disk, index->fd, segment->base_offset,
                      found->entries);
    rc = index_search(&reader, INDEX_BY_POSITION, found->text_size, &spot);
    if (rc == 0 && spot.low >= 0)
        rc = index_reader_get(&reader, (uint32_t)spot.low, &batch);
    if (rc == 0 && spot.low >= 0)
        *out = batch.base_offset;
    segment_unpin(segment, index);
    return rc;
}

/* A segment with another behind it, which is not to be cut: its end is known. */
static int take_closed(struct recovery *recovery, struct recover_segment *found,
                       int64_t next)
{
    int64_t base = found->segment->base_offset;
    bool compacted = found->segment->flags & SEGMENT_COMPACTED;
    int64_t entries_end = found->end_position;
    int64_t end_offset = compacted ? next : found->end_offset;
    if (found->text_size < entries_end) {
        int64_t first = base;
        int rc = first_without_text(found, &first);
        if (rc != 0)
            return rc;
        log_report(recovery->log, first, found->end_offset, base, ".log",
                   "the text is shorter than its index says");
    }
    bool lost = found->end_offset < next &&
                (found->last_bad || found->text_size > entries_end ||
                 found->index_size != index_entry_at(found->entries));
    if (lost) {
        log_report(recovery->log, found->end_offset, next, base, ".index",
                   "the end of the index is lost or damaged");
        end_offset = next;
        found->end_position = larger(found->text_size, entries_end);
        if (found->end_position == entries_end)
            found->end_position++;
    } else if (!recover_segment_sizes_agree(found)) {
        log_report(recovery->log, next, next, base, ".log",
                   "text or index has bytes behind the last batch");
    }
    return keep_segment(recovery, found, end_offset);
}

/* ---- the tail -------------------------------------------------------------- */

/* Removes what the crash left of a segment whose beginning was not flushed. */
static int remove_torn(struct recovery *recovery, struct recover_segment *found)
{
    recovery->cut_done = true;
    return remove_files(recovery, found->segment->base_offset);
}

/* Where the walk has to begin, and whether it must look at the text. */
static int check_tail(struct recovery *recovery, struct recover_segment *found)
{
    const struct log_params *params = recovery->params;
    bool text = true;
    int64_t from = larger(params->flushed_offset, found->segment->base_offset);
    if (params->recovery == LOG_CLEAN) {
        if (recover_segment_sizes_agree(found))
            return 0;
    } else if (params->recovery == LOG_PROCESS_CRASHED) {
        /* What is in the page cache only is as good as lost until this succeeds. */
        int rc = segment_flush(found->segment);
        if (rc != 0)
            return rc;
    }
    recovery->report_base = found->segment->base_offset;
    return recover_segment_walk(found, from, recovery->limit, text, report_range,
                                recovery);
}

/* In the page cache a batch is whole before its entry is there. */
static void note_lost(struct recovery *recovery)
{
    if (recovery->params->recovery == LOG_PROCESS_CRASHED)
        recovery->log->has_lost = true;
}

static int cut_tail(struct recovery *recovery, struct recover_segment *found)
{
    if (found->cut_entries < found->entries)
        note_lost(recovery);
    int rc = segment_cut(found->segment, found->cut_entries, found->end_position);
    found->segment->dirty = true;
    found->entries = found->cut_entries;
    found->text_size = found->end_position;
    recovery->cut_done = true;
    return rc;
}

/* The end is in doubt, below the limit: [from, ...) is damaged, appends go elsewhere.
 */
static int seal_tail(struct recovery *recovery, struct recover_segment *found,
                     int64_t from)
{
    int64_t lines = 0;
    int rc = 0;
    if (found->text_size > found->end_position)
        rc = recover_segment_count_lines(found, found->end_position, &lines);
    if (rc != 0)
        return rc;
    int64_t end = larger(found->end_offset + lines, recovery->limit);
    end = larger(end, larger(recovery->params->log_end_offset, from + 1));
    int64_t entries_end = found->end_position;
    found->end_position = larger(found->text_size, entries_end);
    if (found->end_position == entries_end)
        found->end_position++;
    log_report(recovery->log, from, end, found->segment->base_offset, ".index",
               "the end of text or index is lost or damaged");
    return keep_segment(recovery, found, end);
}

/* A segment that may hold unflushed data, with both files and a good header. */
static int take_tail(struct recovery *recovery, struct recover_segment *found,
                     int64_t next)
{
    recovery->open_from = -1;
    int rc = check_tail(recovery, found);
    if (rc != 0)
        return rc;
    /* Text that the entries below the limit speak of is missing: it is not to be cut,
     * and the file must not be stretched to their size. */
    bool text_lost = found->text_size < found->end_position;
    bool committed_lost =
        text_lost || recovery->open_from >= 0 || found->end_offset < recovery->limit;
    bool agree = found->text_size == found->end_position &&
                 found->index_size == index_entry_at(found->entries);
    if (!text_lost && (found->cut || (!agree && !committed_lost))) {
        if (!found->cut)
            found->cut_entries = found->entries;
        rc = cut_tail(recovery, found);
        if (rc != 0)
            return rc;
    } else if (committed_lost && (recovery->open_from >= 0 || !agree)) {
        if (next != INT64_MAX)
            return take_closed(recovery, found, next);
        int64_t from =
            recovery->open_from >= 0 ? recovery->open_from : found->end_offset;
        if (found->text_size < found->end_position) {
            rc = first_without_text(found, &from);
            if (rc != 0)
                return rc;
        }
        return seal_tail(recovery, found, from);
    }
    if (recovery->cut_done || next == INT64_MAX) {
        rc = keep_segment(recovery, found, found->end_offset);
        if (rc == 0)
            found->segment->flags &= ~(uint32_t)SEGMENT_CLOSED; /* appended to */
        recovery->log->active_first_ms = found->first_timestamp_ms;
        return rc;
    }
    return take_closed(recovery, found, next);
}

/* Both files of the last segment hold nothing: it was about to begin. Made anew. */
static int renew_empty(struct recovery *recovery, struct recover_segment *found)
{
    struct log *log = recovery->log;
    int64_t base = found->segment->base_offset;
    struct segment *segment = NULL;
    int rc = remove_files(recovery, base);
    if (rc == 0)
        rc = segment_create(log->home, base, found->base_position,
                            log->clock->wall_ms(log->clock), 0, &segment);
    if (rc != 0)
        return rc;
    log->dirty_from = base;
    recovery->next = base;
    recovery->holes = false;
    rc = add_segment(recovery, segment);
    segment_unref(segment);
    return rc;
}

/* ---- all of them ----------------------------------------------------------- */

static int bridge(struct recovery *recovery, int64_t base)
{
    if (recovery->log->count == 0 || base == recovery->next)
        return 0;
    struct segment *before = recovery->log->segments[recovery->log->count - 1];
    if (base > recovery->next && !recovery->holes)
        return add_gap(recovery, recovery->next, base);
    before->end_offset = base;
    return 0;
}

/* Behind every offset that the last segment may have given. */
static int end_of_damaged(struct recovery *recovery,
                          const struct recover_segment *found, int64_t *end)
{
    int64_t base = found->segment->base_offset;
    int64_t lines = 0;
    int rc = 0;
    if (found->has_text)
        rc = recover_segment_count_lines(found, 0, &lines);
    *end = larger(larger(base + lines, found->end_offset), base + 1);
    *end = larger(*end, larger(recovery->limit, recovery->params->log_end_offset));
    return rc;
}

static int take_segment(struct recovery *recovery, int64_t base, int64_t next)
{
    bool torn = may_be_torn(recovery, next);
    /* A hole above the limit: what was written behind it was flushed by chance. */
    bool behind_hole = recovery->log->count > 0 && !recovery->holes &&
                       base > recovery->next && recovery->next >= recovery->limit &&
                       recovery->params->recovery == LOG_MACHINE_CRASHED &&
                       recovery->params->flushed_offset >= 0;
    if (recovery->cut_done || behind_hole) {
        note_lost(recovery);
        recovery->cut_done = true;
        return remove_files(recovery, base);
    }
    struct recover_segment found;
    int rc = recover_segment_load(recovery->log->home, base, &found);
    if (rc != 0)
        return rc;
    rc = bridge(recovery, base);
    recovery->base_position = found.base_position;
    const char *suffix;
    const char *what = whole_damage(&found, next, &suffix);
    bool above = base >= recovery->limit;
    bool empty = found.text_size == 0 && found.entries == 0;
    if (rc == 0 && what == NULL) {
        rc = torn ? take_tail(recovery, &found, next)
                  : take_closed(recovery, &found, next);
    } else if (rc == 0 && torn && above && empty && next == INT64_MAX) {
        rc = renew_empty(recovery, &found);
    } else if (rc == 0 && torn && above &&
               recovery->params->recovery == LOG_MACHINE_CRASHED &&
               recovery->params->flushed_offset >= 0) {
        rc = remove_torn(recovery, &found);
    } else if (rc == 0) {
        int64_t end = next;
        rc = next == INT64_MAX ? end_of_damaged(recovery, &found, &end) : 0;
        if (rc == 0)
            rc = keep_damaged(recovery, &found, end, suffix, what);
    }
    recover_segment_release(&found);
    return rc;
}

/* After all segments: is something missing behind the last one? */
static int take_end(struct recovery *recovery)
{
    struct log *log = recovery->log;
    const struct log_params *params = recovery->params;
    if (log->count == 0) {
        int64_t start = larger(params->log_start_offset, 0);
        int64_t end = larger(start, larger(recovery->limit, params->log_end_offset));
        recovery->next = end;
        return end > start ? add_gap(recovery, start, end) : 0;
    }
    if (recovery->next >= recovery->limit)
        return 0;
    int64_t end = larger(recovery->limit, params->log_end_offset);
    struct segment *last = log->segments[log->count - 1];
    last->flags |= SEGMENT_CLOSED;
    last->end_offset = recovery->next;
    int rc = add_gap(recovery, recovery->next, end);
    recovery->next = end;
    return rc;
}

/* Earlier segments lie before the last one; damaged ones carry the time before them. */
static void lay_out(struct recovery *recovery)
{
    struct log *log = recovery->log;
    int64_t position = recovery->base_position;
    int64_t timestamp = INT64_MIN;
    size_t last = log->count;
    while (last > 0 && (log->segments[last - 1]->flags & SEGMENT_GAP))
        last--;
    for (size_t i = 0; i < log->count; i++) {
        struct segment *segment = log->segments[i];
        if (i + 1 < last)
            position -= segment->text_size;
        if (segment->last_timestamp_ms < timestamp)
            segment->last_timestamp_ms = timestamp;
        timestamp = segment->last_timestamp_ms;
        log->size_bytes += log_segment_bytes(segment);
        if (segment->dirty && segment->base_offset < log->dirty_from)
            log->dirty_from = segment->base_offset;
    }
    /* With the last header lost nothing says where it lay; positions are never
     * negative. */
    if (position < 0)
        position = 0;
    for (size_t i = 0; i < log->count; i++) {
        log->segments[i]->position = position;
        position += log->segments[i]->text_size;
    }
    log->last_timestamp_ms = timestamp;
    log->end = (struct log_place){.offset = recovery->next, .position = position};
}

static int find_start(struct recovery *recovery)
{
    struct log *log = recovery->log;
    int64_t first = log->count > 0 ? log->segments[0]->base_offset : log->end.offset;
    int64_t wanted = recovery->params->log_start_offset;
    log->start.offset = first;
    log->start.position =
        log->count > 0 ? log->segments[0]->position : log->end.position;
    if (wanted <= first)
        return 0;
    struct log_place end = log->end;
    struct log_place place;
    int rc = log_find_offset(log, wanted, &end, &place);
    if (rc == E_DAMAGED) {
        ssize_t i = log_table_by_offset(log, wanted);
        place.position = log->segments[i < 0 ? 0 : i]->position;
        rc = 0;
    }
    if (rc == 0)
        log->start = (struct log_place){.offset = wanted, .position = place.position};
    return rc;
}

int recover_log(struct log *log, const struct log_params *params)
{
    struct recovery recovery = {.log = log, .params = params, .open_from = -1};
    recovery.limit = larger(larger(params->flushed_offset, params->high_watermark), 0);
    int rc = list_segments(&recovery);
    for (size_t i = 0; rc == 0 && i < recovery.count; i++) {
        int64_t next = i + 1 < recovery.count ? recovery.bases[i + 1] : INT64_MAX;
        rc = take_segment(&recovery, recovery.bases[i], next);
    }
    if (rc == 0)
        rc = take_end(&recovery);
    if (rc == 0) {
        lay_out(&recovery);
        rc = find_start(&recovery);
    }
    free(recovery.bases);
    return rc;
}
