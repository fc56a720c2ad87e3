#include "replica/log_internal.h"

#include "replica/compact_core.h"
#include "replica/payload_hash.h"
#include "replica/recover.h"
#include "replica/stamp.h"

#include <stdlib.h>
#include <string.h>

enum { SEGMENT_TEXT_MAX = INT32_MAX, ROLL_LEAST_MS = 1000, ROLL_LEAST_BYTES = 65536 };
static const int64_t segment_offsets_max = INT64_C(1) << 31;

/* ---- open and close -------------------------------------------------------- */

static int make_dir(const struct log_params *params, bool *made)
{
    struct disk_stat st;
    int rc = params->disk->ops->stat_path(params->disk, params->dir, &st);
    if (rc == 0)
        return st.is_dir ? 0 : -ENOTDIR;
    if (rc != -ENOENT || !params->may_create)
        return rc;
    rc = params->disk->ops->mkdir(params->disk, params->dir);
    *made = rc == 0;
    return rc;
}

/*
 * What recovery found counts as flushed from here on, so it has to be: also what an
 * earlier process left in the page cache, and the names of its files. (After a crash of
 * the machine, too: another process may have written since, and crashed before it was
 * done.)
 */
static int flush_recovered(struct log *log, const struct log_params *params)
{
    if (log->count == 0)
        return 0;
    if (params->recovery != LOG_CLEAN) {
        log->dir_dirty = log->parent_dirty = true;
        for (size_t i = 0; i < log->count; i++) {
            struct segment *segment = log->segments[i];
            if ((segment->flags & SEGMENT_DAMAGED) ||
                (segment->end_offset <= params->flushed_offset && i + 1 < log->count))
                continue;
            segment->dirty = true;
            if (segment->base_offset < log->dirty_from)
                log->dirty_from = segment->base_offset;
        }
    }
    int64_t flushed;
    return log_flush(log, &flushed);
}

int log_open(const struct log_params *params, struct log **out)
{
    *out = NULL;
    bool made = false;
    int rc = make_dir(params, &made);
    if (rc != 0)
        return rc;
    struct log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return -ENOMEM;
    pthread_mutex_init(&log->lock, NULL);
    log->clock = params->clock;
    log->on_damage = params->on_damage;
    log->arg = params->arg;
    log->config = *params->config;
    log->last_timestamp_ms = INT64_MIN;
    log->rewritten_end = INT64_MIN;
    log->dirty_from = INT64_MAX;
    log->dir_dirty = log->parent_dirty = made;
    log->home =
        segment_home_new(params->disk, params->files, &params->topic_id, params->dir);
    rc = log->home == NULL ? -ENOMEM : 0;
    if (rc == 0) {
        const char *slash = strrchr(log->home->dir, '/');
        log->name = strdup(slash != NULL ? slash + 1 : log->home->dir);
        rc = log->name == NULL ? -ENOMEM : recover_log(log, params);
        rc = rc != 0 ? rc : flush_recovered(log, params);
    }
    if (rc != 0) {
        log_close(log);
        return rc;
    }
    *out = log;
    return 0;
}

void log_close(struct log *log)
{
    if (log == NULL)
        return;
    for (size_t i = 0; i < log->count; i++)
        segment_unref(log->segments[i]);
    free(log->segments);
    segment_home_unref(log->home);
    free(log->name);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

void log_detach(struct log *log)
{
    atomic_store(&log->offline, true);
    pthread_mutex_lock(&log->lock);
    for (size_t i = 0; i < log->count; i++)
        atomic_store(&log->segments[i]->retired, true);
    pthread_mutex_unlock(&log->lock);
}

void log_reconfigure(struct log *log, const struct topic_config *config)
{
    log->config = *config;
}

void log_bounds_get(struct log *log, struct log_bounds *out)
{
    pthread_mutex_lock(&log->lock);
    *out = (struct log_bounds){.start = log->start,
                               .end = log->end,
                               .last_timestamp_ms = log->last_timestamp_ms,
                               .rewrites = log->rewrites,
                               .size_bytes = log->size_bytes};
    pthread_mutex_unlock(&log->lock);
    if (out->last_timestamp_ms == INT64_MIN)
        out->last_timestamp_ms = 0;
}

bool log_has_lost(const struct log *log)
{
    return log->has_lost;
}

/* ---- append ---------------------------------------------------------------- */

/* [append lock] The segment that is appended to; NULL where the next append begins one.
 */
static struct segment *active_segment(const struct log *log)
{
    if (log->count == 0)
        return NULL;
    struct segment *last = log->segments[log->count - 1];
    return (last->flags & SEGMENT_CLOSED) ? NULL : last;
}

/* `intact`: what is known of the checksums of the old one stays true. */
static int roll(struct log *log, bool intact, uint32_t index_flags)
{
    struct segment *old = active_segment(log);
    pthread_mutex_lock(&log->lock);
    int rc = log_table_reserve(log, log->count + 1);
    pthread_mutex_unlock(&log->lock);
    struct segment *segment = NULL;
    if (rc == 0)
        rc = segment_create(log->home, log->end.offset, log->end.position,
                            log->clock->wall_ms(log->clock), index_flags, &segment);
    if (rc != 0)
        return rc;
    segment->last_timestamp_ms = log->last_timestamp_ms;
    if (old != NULL && intact)
        segment_restamp(old, true);

    pthread_mutex_lock(&log->lock);
    if (old != NULL) {
        old->flags |= SEGMENT_CLOSED;
        old->end_offset = log->end.offset;
    }
    log->segments[log->count++] = segment;
    log->size_bytes += log_segment_bytes(segment);
    log->dir_dirty = true;
    if (segment->base_offset < log->dirty_from)
        log->dirty_from = segment->base_offset;
    pthread_mutex_unlock(&log->lock);
    return 0;
}

int log_roll(struct log *log)
{
    return roll(log, true, 0);
}

/*
 * Only closed segments can expire. So that messages go soon after they may, segments
 * are no older and no larger than what is retained: a message outlives its time by at
 * most as much again.
 */
int64_t log_roll_after_ms(const struct topic_config *config)
{
    int64_t ms = config->retention_ms;
    if (!(config->cleanup_policy & CLEANUP_DELETE) || ms < 0)
        return config->segment_ms;
    ms = ms > ROLL_LEAST_MS ? ms : ROLL_LEAST_MS;
    return ms < config->segment_ms ? ms : config->segment_ms;
}

static int64_t roll_after_bytes(const struct topic_config *config)
{
    int64_t bytes = config->retention_bytes;
    if (!(config->cleanup_policy & CLEANUP_DELETE) || bytes < 0)
        return config->segment_bytes;
    bytes = bytes > ROLL_LEAST_BYTES ? bytes : ROLL_LEAST_BYTES;
    return bytes < config->segment_bytes ? bytes : config->segment_bytes;
}

static bool must_roll(const struct log *log, const struct segment *active,
                      const struct batch *batch)
{
    if (active == NULL)
        return true;
    if (log->end.offset - active->base_offset > segment_offsets_max - 1)
        return true;
    /* An election gave up its end, and now it is the last one. */
    if ((active->flags & SEGMENT_CLEAN) && active->base_offset < log->end.offset)
        return true;
    if (active->text_size == 0)
        return false;
    int64_t size = active->text_size + batch->length;
    return size > roll_after_bytes(&log->config) || size > SEGMENT_TEXT_MAX ||
           batch->timestamp_ms - log->active_first_ms >=
               log_roll_after_ms(&log->config);
}

static void publish(struct log *log, struct segment *segment, const struct batch *batch)
{
    if (segment->entry_count == 0)
        log->active_first_ms = batch->timestamp_ms;
    pthread_mutex_lock(&log->lock);
    segment->text_size += batch->length;
    segment->entry_count++;
    segment->last_timestamp_ms = batch->timestamp_ms;
    log->end.offset = batch->base_offset + batch->message_count;
    log->end.position += batch->length;
    segment->end_offset = log->end.offset;
    log->last_timestamp_ms = batch->timestamp_ms;
    log->size_bytes += batch->length + INDEX_ENTRY_BYTES;
    segment->dirty = true;
    if (segment->base_offset < log->dirty_from)
        log->dirty_from = segment->base_offset;
    pthread_mutex_unlock(&log->lock);
}

static int append_to_active(struct log *log, struct batch *batch, const void *bytes)
{
    struct segment *segment = active_segment(log);
    batch->position = segment->text_size;
    return segment_append(segment, batch, bytes);
}

/* Somebody cut or removed files that are appended to. What is left can be read. */
static void report_touched(struct log *log)
{
    const struct segment *segment = active_segment(log);
    log_report(log, segment->base_offset, log->end.offset, segment->base_offset, ".log",
               "somebody removed or cut the text or its index");
}

static int check_append(const struct log *log, const struct batch *batch)
{
    if (atomic_load(&log->offline))
        return E_OFFLINE;
    if (batch->message_count == 0 || batch->length < batch->message_count)
        return -EINVAL;
    return batch->length > SEGMENT_TEXT_MAX ? -EMSGSIZE : 0;
}

/* `index_flags`: of a segment that has to begin here. */
static int append(struct log *log, struct batch *batch, const void *bytes,
                  uint32_t index_flags)
{
    int rc = append_to_active(log, batch, bytes);
    if (rc == E_DAMAGED) {
        report_touched(log);
        rc = roll(log, false, index_flags);
        rc = rc != 0 ? rc : append_to_active(log, batch, bytes);
    }
    if (rc == E_OFFLINE)
        atomic_store(&log->offline, true);
    batch->position = log->end.position;
    if (rc == 0)
        publish(log, active_segment(log), batch);
    return rc;
}

int log_append(struct log *log, struct batch *batch, const void *bytes)
{
    int rc = check_append(log, batch);
    if (rc != 0)
        return rc;
    batch->timestamp_ms = stamp_next(log->last_timestamp_ms, batch->timestamp_ms);
    batch->payload_hash = XXH3_64bits(bytes, batch->length);
    if (must_roll(log, active_segment(log), batch))
        rc = log_roll(log);
    if (rc != 0)
        return rc;
    batch->base_offset = log->end.offset;
    return append(log, batch, bytes, 0);
}

/* An empty segment at the log's end has the name that the new one is to have. */
static int roll_before_hole(struct log *log, uint32_t index_flags)
{
    const struct segment *active = active_segment(log);
    int rc = 0;
    if (active != NULL && active->base_offset == log->end.offset)
        rc = log_drop_segments(log, log->count - 1, log->count, true);
    return rc != 0 ? rc : roll(log, true, index_flags);
}

int log_append_verbatim(struct log *log, struct batch *batch, const void *bytes)
{
    int rc = check_append(log, batch);
    if (rc == 0 && batch->base_offset < log->end.offset)
        rc = -EINVAL;
    int64_t last = batch->base_offset + batch->message_count;
    if (rc == 0 && last - log->end.offset > segment_offsets_max - 1)
        rc = -EOVERFLOW;
    if (rc != 0)
        return rc;
    const struct segment *active = active_segment(log);
    bool hole = batch->base_offset > log->end.offset;
    uint32_t index_flags = compact_flags_behind(hole);
    /* Only a segment that is marked as compacted may have holes. */
    if (must_roll(log, active, batch) ||
        last - active->base_offset > segment_offsets_max - 1 ||
        (hole && !(active->flags & SEGMENT_COMPACTED)))
        rc = roll_before_hole(log, index_flags);
    return rc != 0 ? rc : append(log, batch, bytes, index_flags);
}

/* ---- flush ----------------------------------------------------------------- */

/* The first dirty segment at or above base offset `from`, marked clean; NULL: none. */
static struct segment *take_dirty(struct log *log, int64_t from)
{
    struct segment *found = NULL;
    pthread_mutex_lock(&log->lock);
    size_t i = (size_t)(log_table_by_offset(log, from - 1) + 1);
    for (; found == NULL && i < log->count; i++) {
        if (log->segments[i]->dirty)
            found = segment_ref(log->segments[i]);
    }
    if (found != NULL)
        found->dirty = false;
    pthread_mutex_unlock(&log->lock);
    return found;
}

static int flush_segments(struct log *log, int64_t first, int64_t end_offset)
{
    int rc = 0;
    /* What begins at or behind end_offset was appended after the call. */
    for (int64_t from = first; rc == 0 && from <= end_offset;) {
        struct segment *segment = take_dirty(log, from);
        if (segment == NULL)
            break;
        from = segment->base_offset + 1;
        rc = segment_flush(segment);
        if (rc == -ESTALE) /* dropped meanwhile */
            rc = 0;
        if (rc != 0) {
            pthread_mutex_lock(&log->lock);
            segment->dirty = true;
            pthread_mutex_unlock(&log->lock);
        }
        segment_unref(segment);
    }
    return rc;
}

static int flush_parent(const struct disk *disk, const char *dir)
{
    char parent[strlen(dir) + 2];
    memcpy(parent, dir, strlen(dir) + 1);
    char *slash = strrchr(parent, '/');
    if (slash == NULL)
        return disk->ops->flush_dir(disk, ".");
    slash[slash == parent ? 1 : 0] = '\0';
    return disk->ops->flush_dir(disk, parent);
}

/* A file could not be opened just now; nothing was lost. */
static bool is_passing(int rc)
{
    return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM;
}

/* The files whose flush failed may be those of an earlier life: that says nothing of
 * the present one's. */
static int turn_offline(struct log *log, uint64_t lives)
{
    pthread_mutex_lock(&log->lock);
    bool same = log->lives == lives;
    if (same)
        atomic_store(&log->offline, true);
    pthread_mutex_unlock(&log->lock);
    return same ? E_OFFLINE : -EAGAIN;
}

int log_flush(struct log *log, int64_t *flushed)
{
    if (atomic_load(&log->offline))
        return E_OFFLINE;
    pthread_mutex_lock(&log->lock);
    const uint64_t lives = log->lives;
    int64_t end = log->end.offset;
    int64_t first = log->dirty_from;
    bool dir = log->dir_dirty;
    bool parent = log->parent_dirty;
    struct segment_home *home = segment_home_ref(log->home);
    log->dirty_from = INT64_MAX;
    log->dir_dirty = log->parent_dirty = false;
    pthread_mutex_unlock(&log->lock);

    int rc = first == INT64_MAX ? 0 : flush_segments(log, first, end);
    if (rc == 0 && dir)
        rc = home->disk->ops->flush_dir(home->disk, home->dir);
    if (rc == 0 && parent)
        rc = flush_parent(home->disk, home->dir);
    segment_home_unref(home);
    if (rc != 0 && !is_passing(rc))
        return turn_offline(log, lives);
    if (rc != 0) {
        pthread_mutex_lock(&log->lock);
        log->dir_dirty |= dir;
        log->parent_dirty |= parent;
        if (first < log->dirty_from)
            log->dirty_from = first;
        pthread_mutex_unlock(&log->lock);
        return rc;
    }
    *flushed = end;
    return 0;
}
