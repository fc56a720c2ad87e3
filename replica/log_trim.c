#include "replica/log_internal.h"

#include <stdlib.h>
#include <string.h>

int log_drop_segments(struct log *log, size_t first, size_t end, bool from_end)
{
    size_t n = end - first;
    if (n == 0)
        return 0;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are what it holds */
    struct segment **gone = malloc(n * sizeof *gone);
    if (gone == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&log->lock);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression) */
    memcpy(gone, log->segments + first, n * sizeof *gone);
    for (size_t i = 0; i < n; i++) {
        log->size_bytes -= log_segment_bytes(gone[i]);
        atomic_store(&gone[i]->retired, true);
    }
    memmove(log->segments + first, log->segments + end,
            /* NOLINTNEXTLINE(bugprone-sizeof-expression) */
            (log->count - end) * sizeof *log->segments);
    log->count -= n;
    log->dir_dirty = true;
    pthread_mutex_unlock(&log->lock);

    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        struct segment *segment = gone[from_end ? n - 1 - i : i];
        int removed = 0;
        if (!(segment->flags & SEGMENT_GAP))
            removed = segment_remove_files(log->home->disk, log->home->files,
                                           log->home->dir, segment->base_offset);
        if (rc == 0)
            rc = removed;
        segment_unref(segment);
    }
    free(gone);
    return rc;
}

/* ---- truncation ------------------------------------------------------------ */

struct cut {
    uint32_t entry_count;
    int64_t text_size;
    int64_t first_timestamp_ms; /* of what is kept; undefined when nothing is */
    int64_t last_timestamp_ms;
};

/* Where a segment's index and text end when `offset` is to be the end. */
static int find_cut(struct segment *segment, int64_t offset, int64_t timestamp_before,
                    struct cut *cut)
{
    struct file_cache_file *index = NULL;
    int rc = segment_pin_index(segment, &index);
    if (rc != 0)
        return rc;
    struct index_reader reader;
    struct index_spot spot;
    struct batch batch = {0};
    *cut = (struct cut){.last_timestamp_ms = timestamp_before};
    index_reader_init(&reader, segment->home->disk, index->fd, segment->base_offset,
                      segment->entry_count);
    rc = index_search(&reader, INDEX_BY_OFFSET, offset - 1, &spot);
    if (rc == 0 && spot.high - spot.low != 1)
        rc = E_DAMAGED;
    if (rc == 0 && spot.low >= 0)
        rc = index_reader_get(&reader, (uint32_t)spot.low, &batch);
    if (rc == 0 && spot.low >= 0) {
        if (batch.base_offset + batch.message_count > offset)
            rc = -EINVAL;
        cut->entry_count = (uint32_t)spot.low + 1;
        cut->text_size = batch.position + batch.length;
        cut->last_timestamp_ms = batch.timestamp_ms;
        if (rc == 0)
            rc = index_reader_get(&reader, 0, &batch);
        cut->first_timestamp_ms = batch.timestamp_ms;
    }
    segment_unpin(segment, index);
    return rc;
}

/* Makes `offset` the end, which lies in or at the beginning of segment i. */
static int cut_segment(struct log *log, size_t i, int64_t offset)
{
    struct segment *segment = log->segments[i];
    int64_t before = i > 0 ? log->segments[i - 1]->last_timestamp_ms : INT64_MIN;
    struct cut cut;
    int rc = find_cut(segment, offset, before, &cut);
    if (rc != 0)
        return rc;
    if (segment->flags & SEGMENT_CLOSED)
        segment_restamp(segment, false);

    pthread_mutex_lock(&log->lock);
    log->cuts++;
    log->size_bytes -= log_segment_bytes(segment);
    segment->entry_count = cut.entry_count;
    segment->text_size = cut.text_size;
    segment->end_offset = offset;
    segment->last_timestamp_ms = cut.last_timestamp_ms;
    segment->flags &= ~(uint32_t)SEGMENT_CLOSED;
    segment->dirty = true;
    log->size_bytes += log_segment_bytes(segment);
    if (segment->base_offset < log->dirty_from)
        log->dirty_from = segment->base_offset;
    log->end.offset = offset;
    log->end.position = segment->position + cut.text_size;
    log->last_timestamp_ms = cut.last_timestamp_ms;
    pthread_mutex_unlock(&log->lock);

    log->active_first_ms = cut.first_timestamp_ms;
    rc = log_drop_segments(log, i + 1, log->count, true);
    return rc != 0 ? rc : segment_cut(segment, cut.entry_count, cut.text_size);
}

/* Makes the beginning of segment i the end; its file goes. */
static int cut_before(struct log *log, size_t i)
{
    pthread_mutex_lock(&log->lock);
    log->cuts++;
    log->end.offset = log->segments[i]->base_offset;
    log->end.position = log->segments[i]->position;
    log->last_timestamp_ms =
        i > 0 ? log->segments[i - 1]->last_timestamp_ms : INT64_MIN;
    pthread_mutex_unlock(&log->lock);
    return log_drop_segments(log, i, log->count, true);
}

int log_truncate(struct log *log, int64_t offset)
{
    if (atomic_load(&log->offline))
        return E_OFFLINE;
    if (offset == log->end.offset)
        return 0;
    ssize_t i = log_table_by_offset(log, offset);
    if (offset > log->end.offset || offset < log->start.offset || i < 0)
        return -EINVAL;
    const struct segment *segment = log->segments[i];
    bool damaged = segment->flags & (SEGMENT_DAMAGED | SEGMENT_GAP);
    if (damaged && segment->base_offset != offset)
        return E_DAMAGED;
    uint64_t cuts = log->cuts;
    /* One that compaction wrote is not appended to, even if nothing is left in it. */
    bool anew = (segment->flags & SEGMENT_CLEAN) && segment->base_offset == offset;
    int rc = damaged || anew ? cut_before(log, (size_t)i)
                             : cut_segment(log, (size_t)i, offset);
    if (rc == 0 && anew && !damaged) {
        rc = log_roll(log);
        if (rc == -ENOSPC || rc == -EDQUOT)
            rc = 0; /* the first append makes it */
    }
    /* The table is ahead of the files: nothing may be appended until they are read
     * again. */
    if (rc != 0 && log->cuts != cuts) {
        atomic_store(&log->offline, true);
        rc = E_OFFLINE;
    }
    return rc;
}

/* ---- retention ------------------------------------------------------------- */

/* The first n segments go; the start moves behind them first. */
static int drop_first(struct log *log, size_t n)
{
    pthread_mutex_lock(&log->lock);
    struct log_place start = log->end;
    if (n < log->count)
        start = (struct log_place){.offset = log->segments[n]->base_offset,
                                   .position = log->segments[n]->position};
    if (start.offset > log->start.offset)
        log->start = start;
    pthread_mutex_unlock(&log->lock);
    return log_drop_segments(log, 0, n, false);
}

static bool is_expired(const struct log *log, const struct segment *segment,
                       int64_t bytes, int64_t now_ms)
{
    const struct topic_config *config = &log->config;
    if (config->retention_bytes >= 0 &&
        bytes - segment->text_size >= config->retention_bytes)
        return true;
    return config->retention_ms >= 0 && segment->last_timestamp_ms != INT64_MIN &&
           now_ms - segment->last_timestamp_ms > config->retention_ms;
}

/* Is it committed, and of no use to who might still send some of it again? */
static bool is_settled(const struct segment *segment, int64_t high_watermark,
                       int64_t now_ms, int64_t keep_ms)
{
    return segment->end_offset <= high_watermark &&
           (keep_ms < 0 || segment->last_timestamp_ms == INT64_MIN ||
            now_ms - segment->last_timestamp_ms > keep_ms);
}

int log_retain(struct log *log, int64_t high_watermark, int64_t now_ms, int64_t keep_ms)
{
    if (!(log->config.cleanup_policy & CLEANUP_DELETE) || log->count == 0)
        return 0;
    if (atomic_load(&log->offline))
        return E_OFFLINE;
    /* A log that nobody writes to any more must expire, too. */
    int rolled = 0;
    const struct segment *last = log->segments[log->count - 1];
    if (!(last->flags & SEGMENT_CLOSED) && last->text_size > 0 &&
        is_settled(last, high_watermark, now_ms, keep_ms) &&
        log->config.retention_ms >= 0 &&
        now_ms - log->active_first_ms >= log_roll_after_ms(&log->config) &&
        now_ms - last->last_timestamp_ms > log->config.retention_ms)
        rolled = log_roll(log); /* on a full disk the closed ones go nevertheless */
    int64_t bytes = log->end.position - log->segments[0]->position;
    size_t n = 0;
    for (; n < log->count && n < LOG_RETAIN_MAX; n++) {
        const struct segment *segment = log->segments[n];
        if (!(segment->flags & SEGMENT_CLOSED) ||
            !is_settled(segment, high_watermark, now_ms, keep_ms) ||
            !is_expired(log, segment, bytes, now_ms))
            break;
        bytes -= segment->text_size;
    }
    int rc = n > 0 ? drop_first(log, n) : rolled;
    return rc != 0 ? rc : (int)n;
}

int log_restart(struct log *log, int64_t offset)
{
    if (atomic_load(&log->offline))
        return E_OFFLINE;
    pthread_mutex_lock(&log->lock);
    /* One byte on, so that a view at the old end does not go on as if nothing were
     * missing. */
    log->end = (struct log_place){.offset = offset, .position = log->end.position + 1};
    log->start = log->end;
    log->cuts++;
    log->last_timestamp_ms = INT64_MIN;
    pthread_mutex_unlock(&log->lock);
    int rc = log_drop_segments(log, 0, log->count, false);
    rc = rc != 0 ? rc : log_roll(log);
    /* Where there is no space the first append makes the segment. */
    return rc == -ENOSPC || rc == -EDQUOT ? 0 : rc;
}

int log_raise_start(struct log *log, int64_t offset)
{
    if (atomic_load(&log->offline))
        return E_OFFLINE;
    if (offset <= log->start.offset)
        return 0;
    if (offset > log->end.offset)
        return log_restart(log, offset);

    struct log_place end = log->end;
    struct log_place place;
    int rc = log_find_offset(log, offset, &end, &place);
    if (rc == E_DAMAGED) {
        ssize_t i = log_table_by_offset(log, offset);
        place.position = log->segments[i < 0 ? 0 : i]->position;
        rc = 0;
    }
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&log->lock);
    log->start = (struct log_place){.offset = offset, .position = place.position};
    pthread_mutex_unlock(&log->lock);
    size_t n = 0;
    while (n < log->count && (log->segments[n]->flags & SEGMENT_CLOSED) &&
           log->segments[n]->end_offset <= offset)
        n++;
    return log_drop_segments(log, 0, n, false);
}

/* ---- removal --------------------------------------------------------------- */

enum { REMOVE_AT_ONCE = 64 };

struct names {
    char *names[REMOVE_AT_ONCE];
    size_t count;
};

static int collect(void *arg, const char *name)
{
    struct names *names = arg;
    char *copy = strdup(name);
    if (copy == NULL)
        return -ENOMEM;
    names->names[names->count++] = copy;
    return names->count == REMOVE_AT_ONCE;
}

static int remove_some(const struct disk *disk, const char *dir, size_t *removed)
{
    struct names names = {.count = 0};
    int rc = disk->ops->list(disk, dir, collect, &names);
    if (rc > 0)
        rc = 0;
    for (size_t i = 0; i < names.count; i++) {
        size_t size = strlen(dir) + strlen(names.names[i]) + 2;
        char path[size];
        stpcpy(stpcpy(stpcpy(path, dir), "/"), names.names[i]);
        if (rc == 0)
            rc = disk->ops->unlink(disk, path);
        free(names.names[i]);
    }
    *removed = names.count;
    return rc;
}

int log_remove(const struct disk *disk, const char *dir)
{
    size_t removed = 0;
    int rc;
    do
        rc = remove_some(disk, dir, &removed);
    while (rc == 0 && removed > 0);
    return rc == 0 ? disk->ops->rmdir(disk, dir) : rc;
}
