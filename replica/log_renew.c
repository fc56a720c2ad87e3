#include "replica/log_internal.h"

#include <stdlib.h>

/* Whether the files of the present segments may be opened by their names. */
static void set_retired(struct log *log, bool retired)
{
    pthread_mutex_lock(&log->lock);
    for (size_t i = 0; i < log->count; i++)
        atomic_store(&log->segments[i]->retired, retired);
    pthread_mutex_unlock(&log->lock);
}

/* An empty directory takes the name of the one that went. */
static int make_room(struct log *log, int (*move)(void *arg), void *arg)
{
    const struct disk *disk = log->home->disk;
    struct disk_stat st;
    int rc = disk->ops->stat_path(disk, log->home->dir, &st);
    if (rc == 0)
        rc = move(arg);
    else if (rc == -ENOENT) /* somebody took it, or an earlier attempt got so far */
        rc = 0;
    return rc != 0 ? rc : disk->ops->mkdir(disk, log->home->dir);
}

/* Takes all segments out of the table, which begins anew at `offset`. The caller frees
 * what is returned, after the references in it. */
static struct segment **empty_table(struct log *log, int64_t offset, size_t *count)
{
    pthread_mutex_lock(&log->lock);
    struct segment **gone = log->segments;
    *count = log->count;
    log->segments = NULL;
    log->count = log->capacity = 0;
    /* One byte on, so that a view at the old end does not go on as if nothing were
     * missing. */
    log->end = (struct log_place){.offset = offset, .position = log->end.position + 1};
    log->start = log->end;
    log->cuts++;
    log->lives++;
    log->last_timestamp_ms = INT64_MIN;
    log->size_bytes = 0;
    log->dirty_from = INT64_MAX;
    log->dir_dirty = log->parent_dirty = true;
    log->damage_count = 0;
    pthread_mutex_unlock(&log->lock);
    return gone;
}

static void drop_all(struct log *log, int64_t offset)
{
    size_t count = 0;
    struct segment **gone = empty_table(log, offset, &count);
    for (size_t i = 0; i < count; i++)
        segment_unref(gone[i]);
    free(gone);
    atomic_store(&log->offline, false);
}

int log_renew(struct log *log, int64_t offset, int (*move)(void *arg), void *arg)
{
    /* Nothing is opened by a name that is about to be another file's. */
    set_retired(log, true);
    int rc = make_room(log, move, arg);
    if (rc != 0) {
        set_retired(log, false);
        return rc;
    }
    drop_all(log, offset);
    /* Where there is no space the first append makes it. */
    rc = log_roll(log);
    return rc == -ENOSPC || rc == -EDQUOT ? 0 : rc;
}

int log_renew_in(struct log *log, const char *dir, int64_t offset)
{
    struct segment_home *former = log->home;
    struct segment_home *home =
        segment_home_new(former->disk, former->files, &former->topic_id, dir);
    if (home == NULL)
        return -ENOMEM;
    int rc = home->disk->ops->mkdir(home->disk, dir);
    if (rc != 0) {
        segment_home_unref(home);
        return rc;
    }
    set_retired(log, true);
    pthread_mutex_lock(&log->lock);
    log->home = home;
    pthread_mutex_unlock(&log->lock);
    segment_home_unref(former);
    drop_all(log, offset);
    (void)log_roll(log); /* else the first append does it */
    return 0;
}
