#include "replica/log_internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ssize_t log_table_by_offset(const struct log *log, int64_t offset)
{
    size_t low = 0;
    size_t high = log->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->segments[middle]->base_offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return (ssize_t)low - 1;
}

ssize_t log_table_by_position(const struct log *log, int64_t position)
{
    size_t low = 0;
    size_t high = log->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->segments[middle]->position <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return (ssize_t)low - 1;
}

int log_table_reserve(struct log *log, size_t count)
{
    if (count <= log->capacity)
        return 0;
    size_t capacity = log->capacity == 0 ? 4 : log->capacity * 2;
    if (capacity < count)
        capacity = count;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are what it holds */
    struct segment **segments = realloc(log->segments, capacity * sizeof *segments);
    if (segments == NULL)
        return -ENOMEM;
    log->segments = segments;
    log->capacity = capacity;
    return 0;
}

void log_view(const struct log *log, size_t i, struct segment_view *view)
{
    struct segment *segment = log->segments[i];
    *view = (struct segment_view){.segment = segment_ref(segment),
                                  .end_offset = segment->end_offset,
                                  .text_size = segment->text_size,
                                  .entry_count = segment->entry_count,
                                  .flags = segment->flags};
}

void log_view_release(struct segment_view *view)
{
    segment_unref(view->segment);
    view->segment = NULL;
}

int log_view_by_offset(struct log *log, int64_t offset, struct segment_view *view)
{
    pthread_mutex_lock(&log->lock);
    ssize_t i = log_table_by_offset(log, offset);
    if (i >= 0)
        log_view(log, (size_t)i, view);
    pthread_mutex_unlock(&log->lock);
    return i >= 0 ? 0 : -ENOENT;
}

int log_view_after(struct log *log, int64_t base_offset, struct segment_view *view)
{
    pthread_mutex_lock(&log->lock);
    size_t i = (size_t)(log_table_by_offset(log, base_offset) + 1);
    bool found = i < log->count;
    if (found)
        log_view(log, i, view);
    pthread_mutex_unlock(&log->lock);
    return found ? 0 : -ENOENT;
}

uint64_t log_cuts(struct log *log)
{
    pthread_mutex_lock(&log->lock);
    uint64_t cuts = log->cuts;
    pthread_mutex_unlock(&log->lock);
    return cuts;
}

bool log_must_retry(struct log *log, int *rc)
{
    if (*rc != -ESTALE && *rc != -EAGAIN)
        return false;
    if (atomic_load(&log->offline)) {
        *rc = E_OFFLINE;
        return false;
    }
    sched_yield(); /* compaction is between its renames and the switch of the table */
    return true;
}

int64_t log_segment_bytes(const struct segment *segment)
{
    if (segment->flags & SEGMENT_GAP)
        return 0;
    return segment->text_size + index_entry_at(segment->entry_count);
}

/* ---- segments/ ------------------------------------------------------------- */

static void fill_info(const struct segment *segment, struct log_segment_info *info)
{
    bool has_time = segment->last_timestamp_ms != INT64_MIN;
    *info = (struct log_segment_info){
        .base_offset = segment->base_offset,
        .end_offset = segment->end_offset,
        .position = segment->position,
        .size = segment->text_size,
        .mtime_ms = has_time ? segment->last_timestamp_ms : 0,
        .version = segment->version,
        .closed = (segment->flags & SEGMENT_CLOSED) != 0,
        .damaged = (segment->flags & SEGMENT_DAMAGED) != 0,
    };
}

int log_each_segment(struct log *log,
                     int (*fn)(void *arg, const struct log_segment_info *info),
                     void *arg)
{
    int64_t after = -1;
    for (;;) {
        struct log_segment_info info;
        bool gap = false;
        pthread_mutex_lock(&log->lock);
        size_t i = (size_t)(log_table_by_offset(log, after) + 1);
        bool found = i < log->count;
        if (found) {
            fill_info(log->segments[i], &info);
            gap = log->segments[i]->flags & SEGMENT_GAP;
        }
        pthread_mutex_unlock(&log->lock);
        if (!found)
            return 0;
        after = info.base_offset;
        int rc = gap || !info.closed ? 0 : fn(arg, &info);
        if (rc != 0)
            return rc;
    }
}

int log_segment_find(struct log *log, int64_t base_offset, struct log_segment_info *out)
{
    pthread_mutex_lock(&log->lock);
    ssize_t i = log_table_by_offset(log, base_offset);
    bool found = i >= 0 && log->segments[i]->base_offset == base_offset &&
                 !(log->segments[i]->flags & SEGMENT_GAP);
    if (found)
        fill_info(log->segments[i], out);
    pthread_mutex_unlock(&log->lock);
    return found ? 0 : -ENOENT;
}

/* ---- damage ---------------------------------------------------------------- */

static bool remember_damage(struct log *log, int64_t first, int64_t end)
{
    for (size_t i = 0; i < log->damage_count; i++) {
        if (log->damage[i].first_offset <= first && end <= log->damage[i].end_offset)
            return false;
    }
    /* When the list is full, the oldest may be told again: better than not at all. */
    size_t i = log->damage_count;
    if (i == LOG_DAMAGE_MAX)
        memmove(log->damage, log->damage + 1, --i * sizeof log->damage[0]);
    log->damage[i] = (struct segment_bad){.first_offset = first, .end_offset = end};
    log->damage_count = i + 1;
    return true;
}

void log_report(struct log *log, int64_t first_offset, int64_t end_offset,
                int64_t base_offset, const char *suffix, const char *what)
{
    pthread_mutex_lock(&log->lock);
    bool fresh = remember_damage(log, first_offset, end_offset);
    pthread_mutex_unlock(&log->lock);
    if (!fresh || log->on_damage == NULL)
        return;
    size_t size = strlen(log->name) + SEGMENT_PATH_EXTRA;
    char file[size];
    segment_path(log->name, base_offset, suffix, file);
    struct log_damage damage = {.first_offset = first_offset,
                                .end_offset = end_offset,
                                .file = file,
                                .what = what};
    log->on_damage(log->arg, &damage);
}

int log_report_read(struct log *log, const struct segment_view *view, uint64_t cuts,
                    const struct segment_bad *bad)
{
    if (log_cuts(log) != cuts)
        return -EAGAIN;
    log_report(log, bad->first_offset, bad->end_offset, view->segment->base_offset,
               ".log", "text and index do not match by their checksums");
    return E_DAMAGED;
}

int log_report_files(struct log *log, const struct segment_view *view, uint64_t cuts,
                     int rc)
{
    if (rc != -ENOENT && rc != -EIO)
        return rc;
    if (log_cuts(log) != cuts)
        return -EAGAIN;
    log_report(log, view->segment->base_offset, view->end_offset,
               view->segment->base_offset, ".log",
               rc == -EIO ? "the disk can't read it" : "somebody removed its files");
    return E_DAMAGED;
}
