#include "replica/log_internal.h"

#include <unistd.h>

int extent_read(const struct extent *extent, void *out)
{
    size_t done = 0;
    while (done < extent->length) {
        ssize_t n = pread(extent->fd, (char *)out + done, extent->length - done,
                          extent->at + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : E_DAMAGED; /* others cut it: never zeros */
        done += (size_t)n;
    }
    return 0;
}

void extent_release(struct extent *extent)
{
    if (extent->segment == NULL)
        return;
    /* While it is pinned, the file stays in its slot. */
    segment_unpin(extent->segment, extent->segment->text);
    segment_unref(extent->segment);
    *extent = (struct extent){.fd = -1};
}

/*
 * The segment that holds `position`. 0; 1: nothing there below the limit; an error.
 * *limit is lowered to the log's end.
 */
static int locate(struct log *log, int64_t position, uint64_t rewrites, int64_t *limit,
                  struct segment_view *view, uint64_t *cuts)
{
    int rc = 0;
    pthread_mutex_lock(&log->lock);
    if (*limit > log->end.position)
        *limit = log->end.position;
    *cuts = log->cuts;
    ssize_t i = log_table_by_position(log, position);
    if (rewrites < log->rewrites && position < log->rewritten_end)
        rc = E_RANGE_REWRITTEN;
    else if (position < log->start.position)
        rc = E_OFFSET_BELOW_START;
    else if (position >= *limit || i < 0)
        rc = 1;
    else
        log_view(log, (size_t)i, view);
    pthread_mutex_unlock(&log->lock);
    return rc;
}

static int read_view(struct log *log, const struct segment_view *view, int64_t at,
                     size_t length, uint64_t cuts, struct extent *out)
{
    struct segment *segment = view->segment;
    if (view->flags & (SEGMENT_DAMAGED | SEGMENT_GAP))
        return E_DAMAGED;
    struct file_cache_file *text = NULL;
    struct segment_bad bad;
    int rc = segment_pin_text(segment, &text);
    if (rc == 0)
        rc = segment_check(view, text, at, &length, &bad);
    if (rc == E_DAMAGED)
        rc = log_report_read(log, view, cuts, &bad);
    rc = log_report_files(log, view, cuts, rc);
    if (rc != 0) {
        segment_unpin(segment, text);
        return rc;
    }
    *out = (struct extent){.fd = text->fd,
                           .at = at,
                           .length = length,
                           .position = segment->position + at,
                           .segment = segment_ref(segment)};
    return 0;
}

int log_read(struct log *log, int64_t position, size_t max_bytes,
             int64_t limit_position, uint64_t rewrites, struct extent *out)
{
    for (;;) {
        struct segment_view view;
        uint64_t cuts;
        int64_t limit = limit_position;
        *out = (struct extent){.fd = -1, .position = position};
        int rc = locate(log, position, rewrites, &limit, &view, &cuts);
        if (rc != 0)
            return rc < 0 ? rc : 0;
        int64_t at = position - view.segment->position;
        int64_t length = limit - position;
        if (length > view.text_size - at)
            length = view.text_size - at;
        if (length > (int64_t)max_bytes)
            length = (int64_t)max_bytes;
        if (length > 0)
            rc = read_view(log, &view, at, (size_t)length, cuts, out);
        log_view_release(&view);
        /* The segment was dropped or the log cut under us: look again. */
        if (!log_must_retry(log, &rc))
            return rc;
    }
}

/* ---- batches --------------------------------------------------------------- */

static int batch_in_view(const struct segment_view *view, int64_t at, struct batch *out,
                         struct segment_bad *bad)
{
    struct file_cache_file *index = NULL;
    int rc = segment_pin_index(view->segment, &index);
    if (rc != 0)
        return rc;
    struct index_reader reader;
    struct index_spot spot;
    index_reader_init(&reader, view->segment->home->disk, index->fd,
                      view->segment->base_offset, view->entry_count);
    rc = index_search(&reader, INDEX_BY_POSITION, at, &spot);
    bool found = false;
    if (rc == 0 && spot.low >= 0) {
        rc = index_reader_get(&reader, (uint32_t)spot.low, out);
        found = rc == 0 && at < out->position + out->length;
    }
    if (rc == 0 && !found) {
        rc = segment_bad_range(view, &reader, &spot, bad);
        if (rc == 0)
            rc = E_DAMAGED;
    }
    segment_unpin(view->segment, index);
    return rc;
}

int log_batch_at(struct log *log, int64_t position, uint64_t rewrites,
                 struct batch *out)
{
    for (;;) {
        struct segment_view view;
        uint64_t cuts;
        int64_t limit = INT64_MAX;
        int rc = locate(log, position, rewrites, &limit, &view, &cuts);
        if (rc != 0)
            return rc < 0 ? rc : -ENOENT;
        struct segment_bad bad;
        if (view.flags & (SEGMENT_DAMAGED | SEGMENT_GAP)) {
            rc = E_DAMAGED;
        } else {
            rc = batch_in_view(&view, position - view.segment->position, out, &bad);
            if (rc == E_DAMAGED)
                rc = log_report_read(log, &view, cuts, &bad);
            rc = log_report_files(log, &view, cuts, rc);
        }
        if (rc == 0)
            out->position += view.segment->position;
        log_view_release(&view);
        if (!log_must_retry(log, &rc))
            return rc;
    }
}

struct walk {
    int64_t next; /* offset from which on batches are wanted */
    bool skipped; /* something could not be read */
    int (*fn)(void *arg, const struct batch *batch);
    void *arg;
};

/* Entry i can't be read. */
static int skip_bad(struct log *log, const struct segment_view *view, uint64_t cuts,
                    struct index_reader *reader, int64_t i)
{
    struct index_spot spot = {.low = i - 1, .high = i + 1};
    struct segment_bad bad;
    /* Its neighbours are no better: nobody knows how far that goes. */
    if (segment_bad_range(view, reader, &spot, &bad) != 0)
        bad = (struct segment_bad){.first_offset = view->segment->base_offset,
                                   .end_offset = view->end_offset};
    int rc = log_report_read(log, view, cuts, &bad);
    return rc == E_DAMAGED ? 0 : rc;
}

/* Gives what the segment holds at or behind walk->next. 0, or what ended the walk. */
static int walk_view(struct log *log, const struct segment_view *view, uint64_t cuts,
                     struct walk *walk)
{
    if (view->flags & (SEGMENT_DAMAGED | SEGMENT_GAP)) {
        walk->skipped = true;
        return 0;
    }
    struct file_cache_file *index = NULL;
    int rc = segment_pin_index(view->segment, &index);
    if (rc != 0)
        return log_report_files(log, view, cuts, rc);
    struct index_reader reader;
    struct index_spot spot;
    index_reader_init(&reader, view->segment->home->disk, index->fd,
                      view->segment->base_offset, view->entry_count);
    rc = index_search(&reader, INDEX_BY_OFFSET, walk->next, &spot);
    for (int64_t i = spot.low < 0 ? 0 : spot.low; rc == 0 && i < reader.count; i++) {
        struct batch batch;
        rc = index_reader_get(&reader, (uint32_t)i, &batch);
        if (rc == E_DAMAGED) {
            walk->skipped = true;
            rc = skip_bad(log, view, cuts, &reader, i);
            continue;
        }
        if (rc != 0 || batch.base_offset + batch.message_count <= walk->next)
            continue;
        walk->next = batch.base_offset + batch.message_count;
        batch.position += view->segment->position;
        rc = walk->fn(walk->arg, &batch);
    }
    segment_unpin(view->segment, index);
    return rc;
}

int log_each_batch(struct log *log, int64_t offset,
                   int (*fn)(void *arg, const struct batch *batch), void *arg)
{
    struct walk walk = {.next = offset, .fn = fn, .arg = arg};
    struct segment_view view;
    int rc = log_view_by_offset(log, offset, &view);
    if (rc == -ENOENT)
        rc = log_view_after(log, offset, &view);
    while (rc == 0) {
        int64_t base = view.segment->base_offset;
        uint64_t cuts = log_cuts(log);
        rc = walk_view(log, &view, cuts, &walk);
        log_view_release(&view);
        if (rc == 0)
            rc = log_view_after(log, base, &view);
        else if (log_must_retry(log, &rc)) /* dropped or rewritten: go on from here */
            rc = log_view_by_offset(log, walk.next, &view);
    }
    if (rc == -ENOENT)
        rc = 0;
    return rc == 0 && walk.skipped ? E_DAMAGED : rc;
}
