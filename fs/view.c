#include "fs/view.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { UNKNOWN = -1 };

/* A look-up that raced with a compaction is made again this often. */
enum { ANCHOR_ATTEMPTS = 4 };

struct view {
    atomic_int refs;
    struct partition *partition; /* [const] */
    struct where where;          /* [const] */
    int64_t time_ms;             /* [const] of the look-up; WHERE_AGE: less the age */
    uint64_t unclean;            /* [const] */
    pthread_mutex_t lock;
    uint64_t rewrites; /* [lock] fixed once base is known */
    int64_t base;      /* [lock] position of the first byte, UNKNOWN above the end */
    int64_t limit;     /* [lock] a range's end position; UNKNOWN until it is visible */
    int64_t seen;      /* [lock] the largest size that anybody was told */
};

/* A time that lies ahead: what comes before it must not be shown. */
static bool waits_for_time(const struct view *view, const struct log_place *place,
                           const struct partition_status *status, int64_t now_ms)
{
    return view->where.kind == WHERE_TIME && view->time_ms > now_ms &&
           place->offset >= status->high_watermark.offset;
}

/* The place that `where` names now; -ERANGE if it lies above the end. */
static int find_place(const struct view *view, const struct partition_status *status,
                      struct log_place *out)
{
    switch (view->where.kind) {
    case WHERE_OFFSET:
    case WHERE_RANGE:
        return partition_find_offset(view->partition, view->where.offset, out);
    case WHERE_LAST:
        return partition_find_last(view->partition, view->where.count, out);
    case WHERE_AGE:
    case WHERE_TIME:
        return partition_find_time(view->partition, view->time_ms, out);
    case WHERE_LATEST:
        *out = status->high_watermark;
        return 0;
    case WHERE_EARLIEST:
        break;
    }
    *out = status->start;
    return 0;
}

static int check_status(const struct view *view, const struct partition_status *status)
{
    if (status->deleted)
        return E_TOPIC_DELETED;
    /* Offsets may name other messages now: nothing of the old view can be trusted. */
    if (status->unclean != view->unclean)
        return -ESTALE;
    return 0;
}

/* [lock] Finds the base, if it is there by now. `status` was read before. */
static int anchor(struct view *view, const struct partition_status *status,
                  int64_t now_ms)
{
    struct log_place place;
    int rc = find_place(view, status, &place);
    if (rc == -ERANGE)
        return 0;
    if (rc < 0)
        return rc;
    if (waits_for_time(view, &place, status, now_ms))
        return 0;
    view->base = place.position;
    return 0;
}

/*
 * The end of the message with this offset, in position. Where the next message is
 * damaged, this one can still be the last of its batch.
 */
static int find_end(struct view *view, int64_t offset, int64_t *position)
{
    struct log_place place;
    struct batch batch;
    int rc = partition_find_offset(view->partition, offset + 1, &place);
    if (rc != E_DAMAGED) {
        *position = place.position;
        return rc;
    }
    if (partition_find_offset(view->partition, offset, &place) < 0 ||
        partition_batch_at(view->partition, place.position, view->rewrites, &batch) <
            0 ||
        batch.base_offset + batch.message_count != offset + 1)
        return rc;
    *position = batch.position + batch.length;
    return 0;
}

/* [lock] Finds where a range ends, once its last message is visible. */
static int find_limit(struct view *view, const struct partition_status *status)
{
    int64_t end = 0;
    if (view->where.kind != WHERE_RANGE || view->limit != UNKNOWN ||
        view->base == UNKNOWN ||
        view->where.last_offset >= status->high_watermark.offset)
        return 0;
    int rc = find_end(view, view->where.last_offset, &end);
    if (rc == E_OFFSET_BELOW_START) {
        /* All of it was deleted meanwhile: reads say so, whatever the end. */
        view->limit = status->start.position;
        return 0;
    }
    if (rc < 0)
        return rc;
    view->limit = end > view->base ? end : view->base;
    return 0;
}

/* [lock] Brings base and limit up to date with `status`. */
static int settle(struct view *view, const struct partition_status *status)
{
    int rc = check_status(view, status);
    if (rc == 0 && view->base == UNKNOWN) {
        /* Nothing was shown yet, so compactions until now don't matter. */
        view->rewrites = status->rewrites;
        rc = anchor(view, status, status->last_append_ms);
    }
    if (rc == 0)
        rc = find_limit(view, status);
    return rc;
}

/* [lock] The end position of what may be read. */
static int64_t end_position(const struct view *view,
                            const struct partition_status *status)
{
    int64_t end = status->high_watermark.position;
    if (view->limit != UNKNOWN && view->limit < end)
        end = view->limit;
    return end;
}

static int open_anchored(struct view *view, int64_t now_ms)
{
    struct partition_status before;
    struct partition_status after;
    int rc = 0;
    for (int attempt = 0; attempt < ANCHOR_ATTEMPTS; attempt++) {
        partition_status_get(view->partition, &before);
        view->base = UNKNOWN;
        view->limit = UNKNOWN;
        view->unclean = before.unclean;
        view->rewrites = before.rewrites;
        rc = before.deleted ? E_TOPIC_DELETED : anchor(view, &before, now_ms);
        if (rc == 0)
            rc = find_limit(view, &before);
        if (rc < 0)
            return rc;
        partition_status_get(view->partition, &after);
        if (after.rewrites == before.rewrites && after.unclean == before.unclean)
            break;
    }
    return 0;
}

static int64_t look_up_time(const struct where *where, int64_t now_ms)
{
    if (where->kind == WHERE_AGE)
        return where->age_ms > now_ms ? 0 : now_ms - where->age_ms;
    return where->time_ms;
}

int view_open(struct partition *partition, const struct where *where, int64_t now_ms,
              struct view **out)
{
    static const struct where whole = {.kind = WHERE_EARLIEST};
    struct view *view = calloc(1, sizeof *view);
    int rc;
    *out = NULL;
    if (view == NULL)
        return -ENOMEM;
    atomic_init(&view->refs, 1);
    pthread_mutex_init(&view->lock, NULL);
    view->where = where != NULL ? *where : whole;
    view->time_ms = look_up_time(&view->where, now_ms);
    view->partition = partition_ref(partition);
    rc = open_anchored(view, now_ms);
    if (rc < 0) {
        view_unref(view);
        return rc;
    }
    *out = view;
    return 0;
}

struct view *view_ref(struct view *view)
{
    atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
    return view;
}

void view_unref(struct view *view)
{
    if (view == NULL ||
        atomic_fetch_sub_explicit(&view->refs, 1, memory_order_acq_rel) != 1)
        return;
    partition_unref(view->partition);
    pthread_mutex_destroy(&view->lock);
    free(view);
}

struct partition *view_partition(const struct view *view)
{
    return view->partition;
}

int64_t view_base(struct view *view)
{
    int64_t base;
    pthread_mutex_lock(&view->lock);
    base = view->base;
    pthread_mutex_unlock(&view->lock);
    return base;
}

int view_size(struct view *view, int64_t *size)
{
    struct partition_status status;
    int rc;
    partition_status_get(view->partition, &status);
    pthread_mutex_lock(&view->lock);
    rc = settle(view, &status);
    if (rc == 0) {
        if (view->base != UNKNOWN) {
            int64_t now = end_position(view, &status) - view->base;
            if (now > view->seen)
                view->seen = now;
        }
        *size = view->seen;
    }
    pthread_mutex_unlock(&view->lock);
    return rc;
}

bool view_ended(struct view *view)
{
    bool ended;
    pthread_mutex_lock(&view->lock);
    ended = view->limit != UNKNOWN;
    pthread_mutex_unlock(&view->lock);
    return ended;
}

int view_next(struct view *view, int64_t at, int64_t *position)
{
    struct partition_status status;
    int rc;
    partition_status_get(view->partition, &status);
    pthread_mutex_lock(&view->lock);
    rc = settle(view, &status);
    if (rc == 0 && view->base == UNKNOWN)
        *position = status.high_watermark.position;
    else if (rc == 0)
        *position = at > INT64_MAX - view->base ? INT64_MAX : view->base + at;
    pthread_mutex_unlock(&view->lock);
    return rc;
}

/* What a read needs, taken under the lock so that the reading itself goes without. */
struct window {
    int64_t position;
    int64_t limit;
    uint64_t rewrites;
};

static int open_window(struct view *view, int64_t at, size_t size, struct window *out)
{
    struct partition_status status;
    int rc;
    partition_status_get(view->partition, &status);
    *out = (struct window){0};
    pthread_mutex_lock(&view->lock);
    rc = settle(view, &status);
    if (rc == 0 && view->base != UNKNOWN && at <= INT64_MAX - view->base) {
        int64_t end = end_position(view, &status);
        out->position = view->base + at;
        out->rewrites = view->rewrites;
        out->limit = end;
        if (out->position < end && size < (uint64_t)(end - out->position))
            out->limit = out->position + (int64_t)size;
        if (out->limit - view->base > view->seen)
            view->seen = out->limit - view->base;
    }
    pthread_mutex_unlock(&view->lock);
    return rc;
}

int view_extents(struct view *view, int64_t at, size_t size, struct extent *extents,
                 size_t *count)
{
    struct window window;
    int rc = at < 0 ? -EINVAL : open_window(view, at, size, &window);
    *count = 0;
    if (rc < 0)
        return rc;
    while (*count < REPLY_EXTENTS_MAX && window.position < window.limit) {
        struct extent *extent = &extents[*count];
        *extent = (struct extent){.fd = -1};
        rc = partition_read(view->partition, window.position,
                            (size_t)(window.limit - window.position), window.rewrites,
                            extent);
        if (rc < 0 || extent->length == 0) {
            extent_release(extent);
            break;
        }
        window.position += (int64_t)extent->length;
        (*count)++;
    }
    /* What was found before the error is good; the next read meets the error. */
    return *count > 0 || rc >= 0 ? 0 : rc;
}

int view_batch(struct view *view, int64_t at, struct batch *out)
{
    struct window window;
    int rc = open_window(view, at, 1, &window);
    if (rc < 0)
        return rc;
    if (window.position >= window.limit)
        return -ENOENT;
    return partition_batch_at(view->partition, window.position, window.rewrites, out);
}

void view_read(struct view *view, struct reply *reply, int64_t at, size_t size)
{
    struct extent extents[REPLY_EXTENTS_MAX];
    size_t count = 0;
    int rc = view_extents(view, at, size, extents, &count);
    if (rc < 0)
        reply_error(reply, rc);
    else if (count == 0)
        reply_bytes(reply, NULL, 0);
    else
        reply_extents(reply, extents, count);
}
