#include "replica/log_internal.h"
#include "replica/stamp.h"

#include <string.h>

enum { SCAN_BYTES = 16 * 1024 };

/* What a search within one segment found. */
enum find_result { FOUND = 0, FIND_NEXT_SEGMENT = 1 };

struct finder {
    struct log *log;
    const struct log_place *end;
    uint64_t cuts;
    struct segment_view view;
    struct file_cache_file *index;
    struct index_reader reader;
};

static int finder_open(struct finder *finder)
{
    struct segment *segment = finder->view.segment;
    int rc = segment_pin_index(segment, &finder->index);
    rc = log_report_files(finder->log, &finder->view, finder->cuts, rc);
    if (rc == 0)
        index_reader_init(&finder->reader, segment->home->disk, finder->index->fd,
                          segment->base_offset, finder->view.entry_count);
    return rc;
}

static void finder_close(struct finder *finder)
{
    segment_unpin(finder->view.segment, finder->index);
    finder->index = NULL;
    log_view_release(&finder->view);
}

static int64_t log_position(const struct finder *finder, const struct batch *batch)
{
    return finder->view.segment->position + batch->position;
}

/* Position in the file behind the n-th newline from `at` on. */
static int skip_lines(const struct disk *disk, int file, int64_t at, int64_t end,
                      int64_t n, int64_t *out)
{
    char bytes[SCAN_BYTES];
    while (n > 0) {
        size_t want = end - at < SCAN_BYTES ? (size_t)(end - at) : SCAN_BYTES;
        if (want == 0)
            return E_DAMAGED;
        int rc = disk_read_all(disk, file, bytes, want, at);
        if (rc != 0)
            return rc == -ENODATA ? E_DAMAGED : rc;
        const char *from = bytes;
        const char *stop = bytes + want;
        const char *newline;
        while (n > 0 && (newline = memchr(from, '\n', (size_t)(stop - from))) != NULL) {
            from = newline + 1;
            n--;
        }
        at += n > 0 ? (int64_t)want : from - bytes;
    }
    *out = at;
    return 0;
}

static int place_in_batch(struct finder *finder, const struct batch *batch,
                          int64_t offset, struct log_place *out)
{
    int64_t skip = offset - batch->base_offset;
    *out =
        (struct log_place){.offset = offset, .position = log_position(finder, batch)};
    if (skip == 0)
        return FOUND;
    struct segment *segment = finder->view.segment;
    struct file_cache_file *text = NULL;
    struct segment_bad bad;
    size_t length = batch->length;
    int64_t at = batch->position;
    int rc = segment_pin_text(segment, &text);
    if (rc == 0)
        rc = segment_check(&finder->view, text, batch->position, &length, &bad);
    if (rc == 0)
        rc = skip_lines(segment->home->disk, text->fd, batch->position,
                        batch->position + batch->length, skip, &at);
    segment_unpin(segment, text);
    if (rc == E_DAMAGED) {
        bad = (struct segment_bad){.first_offset = batch->base_offset,
                                   .end_offset =
                                       batch->base_offset + batch->message_count};
        rc = log_report_read(finder->log, &finder->view, finder->cuts, &bad);
    }
    rc = log_report_files(finder->log, &finder->view, finder->cuts, rc);
    if (rc == 0)
        out->position = segment->position + at;
    return rc;
}

static int report_spot(struct finder *finder, const struct index_spot *spot)
{
    struct segment_bad bad;
    int rc = segment_bad_range(&finder->view, &finder->reader, spot, &bad);
    return rc != 0 ? rc
                   : log_report_read(finder->log, &finder->view, finder->cuts, &bad);
}

static int offset_in_segment(struct finder *finder, int64_t offset,
                             struct log_place *out)
{
    struct index_spot spot;
    struct batch batch;
    int rc = index_search(&finder->reader, INDEX_BY_OFFSET, offset, &spot);
    if (rc == 0 && spot.low >= 0) {
        rc = index_reader_get(&finder->reader, (uint32_t)spot.low, &batch);
        if (rc == 0 && offset < batch.base_offset + batch.message_count)
            return place_in_batch(finder, &batch, offset, out);
    }
    if (rc != 0)
        return rc;
    /* Not in a batch: a hole of compaction, or something that can't be read. */
    bool hole = spot.high - spot.low == 1 && (finder->view.flags & SEGMENT_COMPACTED);
    if (offset >= finder->view.end_offset)
        return FIND_NEXT_SEGMENT;
    if (!hole)
        return report_spot(finder, &spot);
    if (spot.high == finder->reader.count)
        return FIND_NEXT_SEGMENT;
    rc = index_reader_get(&finder->reader, (uint32_t)spot.high, &batch);
    if (rc == 0)
        *out = (struct log_place){.offset = batch.base_offset,
                                  .position = log_position(finder, &batch)};
    return rc;
}

int log_find_in_view(struct log *log, const struct segment_view *view, int64_t offset,
                     const struct log_place *end, struct log_place *out)
{
    struct finder finder = {
        .log = log, .end = end, .cuts = log_cuts(log), .view = *view};
    segment_ref(view->segment);
    int rc = finder_open(&finder);
    if (rc == 0)
        rc = offset_in_segment(&finder, offset, out);
    finder_close(&finder);
    return rc;
}

/* One segment's answer. The view is released. */
static int search_view(struct finder *finder, int64_t offset, struct log_place *out)
{
    int rc;
    if (!(finder->view.flags & (SEGMENT_DAMAGED | SEGMENT_GAP))) {
        rc = finder_open(finder);
        if (rc == 0)
            rc = offset_in_segment(finder, offset, out);
    } else {
        rc = offset < finder->view.end_offset ? E_DAMAGED : FIND_NEXT_SEGMENT;
    }
    finder_close(finder);
    return rc;
}

static int find_offset_once(struct log *log, int64_t offset,
                            const struct log_place *end, struct log_place *out)
{
    struct finder finder = {.log = log, .end = end, .cuts = log_cuts(log)};
    int rc = log_view_by_offset(log, offset, &finder.view);
    if (rc == -ENOENT)
        return E_OFFSET_BELOW_START;
    while (rc == 0) {
        int64_t base = finder.view.segment->base_offset;
        rc = search_view(&finder, offset, out);
        if (rc != FIND_NEXT_SEGMENT)
            return rc;
        rc = log_view_after(log, base, &finder.view);
        if (rc == 0 && finder.view.segment->base_offset > offset)
            offset = finder.view.segment->base_offset;
    }
    if (rc == -ENOENT) {
        *out = *end;
        rc = 0;
    }
    return rc;
}

/* The searches keep to [start, end]. */
static int clamp(struct log *log, int rc, const struct log_place *end,
                 struct log_place *out)
{
    if (rc != 0)
        return rc;
    struct log_bounds bounds;
    log_bounds_get(log, &bounds);
    if (out->offset < bounds.start.offset)
        *out = bounds.start;
    if (out->offset >= end->offset)
        *out = *end;
    return 0;
}

int log_find_offset(struct log *log, int64_t offset, const struct log_place *end,
                    struct log_place *out)
{
    int rc = 0;
    do {
        struct log_bounds bounds;
        log_bounds_get(log, &bounds);
        rc = 0;
        if (offset < bounds.start.offset)
            return E_OFFSET_BELOW_START;
        if (offset >= end->offset)
            *out = *end;
        else if (offset == bounds.start.offset)
            *out = bounds.start;
        else
            rc = find_offset_once(log, offset, end, out);
    } while (log_must_retry(log, &rc));
    if (rc != 0)
        return rc;
    /* Retention may have overtaken the search: a later message is no answer to this
     * one. */
    struct log_bounds bounds;
    log_bounds_get(log, &bounds);
    if (offset < bounds.start.offset)
        return E_OFFSET_BELOW_START;
    if (out->offset >= end->offset)
        *out = *end;
    return 0;
}

/* ---- by time --------------------------------------------------------------- */

/* [log->lock] */
static int64_t last_time_of(const void *log, size_t i)
{
    return ((const struct log *)log)->segments[i]->last_timestamp_ms;
}

/* The first segment whose last message is at or after the time. */
static int view_by_time(struct log *log, int64_t time_ms, struct segment_view *view)
{
    pthread_mutex_lock(&log->lock);
    size_t low = stamp_search(last_time_of, log, log->count, time_ms);
    /* Damaged ones carry the time of what is before them, and hold nothing to find. */
    while (low < log->count && (log->segments[low]->entry_count == 0 ||
                                (log->segments[low]->flags & SEGMENT_DAMAGED)))
        low++;
    bool found = low < log->count;
    if (found)
        log_view(log, low, view);
    pthread_mutex_unlock(&log->lock);
    return found ? 0 : -ENOENT;
}

static int time_in_segment(struct finder *finder, int64_t time_ms,
                           struct log_place *out)
{
    struct index_spot spot;
    struct batch batch;
    int64_t before = time_ms == INT64_MIN ? time_ms : time_ms - 1;
    int rc = index_search(&finder->reader, INDEX_BY_TIME, before, &spot);
    if (rc != 0)
        return rc;
    if (spot.high - spot.low > 1) {
        /* It may be one of those that can't be read: begin there, and say so on
         * reading. */
        batch = (struct batch){.base_offset = finder->view.segment->base_offset};
        if (spot.low >= 0)
            rc = index_reader_get(&finder->reader, (uint32_t)spot.low, &batch);
        batch.base_offset += batch.message_count;
        batch.position += batch.length;
    } else if (spot.high < finder->reader.count) {
        rc = index_reader_get(&finder->reader, (uint32_t)spot.high, &batch);
    } else {
        *out = *finder->end; /* cut meanwhile */
        return 0;
    }
    *out = (struct log_place){.offset = batch.base_offset,
                              .position = log_position(finder, &batch)};
    return rc;
}

int log_find_time(struct log *log, int64_t time_ms, const struct log_place *end,
                  struct log_place *out)
{
    for (;;) {
        struct finder finder = {.log = log, .end = end, .cuts = log_cuts(log)};
        int rc = view_by_time(log, time_ms, &finder.view);
        if (rc == -ENOENT) {
            *out = *end;
            return 0;
        }
        rc = finder_open(&finder);
        if (rc == 0)
            rc = time_in_segment(&finder, time_ms, out);
        finder_close(&finder);
        if (!log_must_retry(log, &rc))
            return clamp(log, rc, end, out);
    }
}

/* ---- the last n ------------------------------------------------------------ */

/*
 * Counts back from `limit` (an offset) in one compacted segment. 0: *offset is the n-th
 * last message; FIND_NEXT_SEGMENT: the segment has fewer, *n is lowered by them.
 */
static int count_back(struct finder *finder, int64_t limit, int64_t *n, int64_t *offset)
{
    int rc = 0;
    for (int64_t i = (int64_t)finder->reader.count - 1; rc == 0 && i >= 0; i--) {
        struct batch batch;
        rc = index_reader_get(&finder->reader, (uint32_t)i, &batch);
        if (rc == E_DAMAGED) {
            struct index_spot spot = {.low = i - 1, .high = i + 1};
            rc = report_spot(finder, &spot);
        }
        if (rc != 0 || batch.base_offset >= limit)
            continue;
        int64_t batch_end = batch.base_offset + batch.message_count;
        int64_t count = (batch_end < limit ? batch_end : limit) - batch.base_offset;
        if (*n <= count) {
            *offset = batch.base_offset + count - *n;
            return FOUND;
        }
        *n -= count;
    }
    return rc != 0 ? rc : FIND_NEXT_SEGMENT;
}

static int last_in_view(struct finder *finder, int64_t limit, int64_t *n,
                        int64_t *offset)
{
    int64_t base = finder->view.segment->base_offset;
    int64_t end = finder->view.end_offset < limit ? finder->view.end_offset : limit;
    int rc = FIND_NEXT_SEGMENT;
    if (finder->view.flags & SEGMENT_COMPACTED &&
        !(finder->view.flags & (SEGMENT_DAMAGED | SEGMENT_GAP))) {
        rc = finder_open(finder);
        if (rc == 0)
            rc = count_back(finder, end, n, offset);
    } else if (end - base >= *n) {
        *offset = end - *n;
        rc = FOUND;
    } else {
        *n -= end - base;
    }
    finder_close(finder);
    return rc;
}

static int find_last_once(struct log *log, int64_t n, const struct log_place *end,
                          int64_t *offset)
{
    struct finder finder = {.log = log, .end = end, .cuts = log_cuts(log)};
    int64_t limit = end->offset;
    for (;;) {
        struct log_bounds bounds;
        log_bounds_get(log, &bounds);
        *offset = bounds.start.offset;
        if (limit <= *offset || log_view_by_offset(log, limit - 1, &finder.view) != 0)
            return 0;
        int64_t base = finder.view.segment->base_offset;
        int rc = last_in_view(&finder, limit, &n, offset);
        if (rc != FIND_NEXT_SEGMENT)
            return rc;
        limit = base;
    }
}

int log_find_last(struct log *log, int64_t count, const struct log_place *end,
                  struct log_place *out)
{
    if (count <= 0) {
        *out = *end;
        return 0;
    }
    for (;;) {
        int64_t offset;
        int rc = find_last_once(log, count, end, &offset);
        if (rc == 0) {
            struct log_bounds bounds;
            log_bounds_get(log, &bounds);
            if (offset < bounds.start.offset)
                offset = bounds.start.offset;
            rc = log_find_offset(log, offset, end, out);
        }
        /* Retention may have overtaken the count. */
        if (!log_must_retry(log, &rc) && rc != E_OFFSET_BELOW_START)
            return rc;
    }
}
