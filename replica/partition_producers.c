/*
 * Producer snapshots: `<offset>.producers` beside the segments, the producer state for
 * everything below that offset. They save reading every index again at start; a lost or
 * damaged one only costs that reading.
 */
#include "replica/partition_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SNAPSHOT_MAX_BYTES = 64 << 20, NAME_DIGITS = 20 };

#define SNAPSHOT_SUFFIX ".producers"

struct found {
    int64_t newest; /* offsets; -1 = none */
    int64_t limit;  /* only below or at this one */
};

static bool parse_name(const char *name, int64_t *offset)
{
    if (strlen(name) != NAME_DIGITS + sizeof SNAPSHOT_SUFFIX - 1 ||
        strcmp(name + NAME_DIGITS, SNAPSHOT_SUFFIX) != 0 ||
        strspn(name, "0123456789") != NAME_DIGITS) {
        return false;
    }
    errno = 0;
    *offset = strtoll(name, NULL, 10);
    return errno == 0;
}

static int look_at(void *arg, const char *name)
{
    struct found *found = arg;
    int64_t offset = 0;
    if (parse_name(name, &offset) && offset <= found->limit && offset > found->newest) {
        found->newest = offset;
    }
    return 0;
}

static char *snapshot_path(const struct partition *partition, int64_t offset)
{
    char *path = NULL;
    return asprintf(&path, "%s/%020" PRId64 SNAPSHOT_SUFFIX, partition->dir, offset) < 0
               ? NULL
               : path;
}

struct prune {
    struct partition *partition;
    bool pruned;
    int64_t keep_from;
    int64_t keep_to;
};

static int prune_one(void *arg, const char *name)
{
    struct prune *prune = arg;
    int64_t offset = 0;
    if (parse_name(name, &offset) &&
        (offset < prune->keep_from || offset > prune->keep_to)) {
        char *path = snapshot_path(prune->partition, offset);
        prune->pruned = true;
        if (path) {
            (void)prune->partition->disk->ops->unlink(prune->partition->disk, path);
            free(path);
        }
    }
    return 0;
}

/* Removes snapshots below `keep_from`, which newer ones replace, and above `keep_to`,
 * whose batches a crash took. Whether there were any. */
static bool prune_snapshots(struct partition *partition, int64_t keep_from,
                            int64_t keep_to)
{
    struct prune prune = {
        .partition = partition, .keep_from = keep_from, .keep_to = keep_to};
    (void)partition->disk->ops->list(partition->disk, partition->dir, prune_one,
                                     &prune);
    return prune.pruned;
}

/* Loads the newest good snapshot at or below `limit`; *offset is 0 if there is none. */
static int load_newest(struct partition *partition, int64_t limit, int64_t *offset)
{
    *offset = 0;
    for (;;) {
        struct found found = {.newest = -1, .limit = limit};
        int rc = partition->disk->ops->list(partition->disk, partition->dir, look_at,
                                            &found);
        if (rc || found.newest < 0) {
            return rc;
        }
        char *path = snapshot_path(partition, found.newest);
        char *bytes = NULL;
        size_t length = 0;
        int64_t covered = 0;
        rc = path ? disk_slurp(partition->disk, path, SNAPSHOT_MAX_BYTES, &bytes,
                               &length)
                  : -ENOMEM;
        rc = rc ? rc
                : producer_state_decode(partition->producers, bytes, length, &covered);
        free(bytes);
        free(path);
        if (rc == 0 && covered == found.newest) {
            *offset = covered;
            return 0;
        }
        if (rc == -ENOMEM) {
            return rc;
        }
        diag(DIAG_WARNING,
             "%s: producer snapshot %lld is damaged; an older one is used",
             partition->name, (long long)found.newest);
        producer_state_clear(partition->producers);
        limit = found.newest - 1;
    }
}

static int replay(void *arg, const struct batch *batch)
{
    return producer_state_add(arg, batch);
}

int partition_producers_load(struct partition *partition)
{
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    int64_t from = 0;
    /* Back after another crash, it would speak of batches that took the place of its
     * own. */
    int rc = prune_snapshots(partition, 0, bounds.end.offset)
                 ? partition->disk->ops->flush_dir(partition->disk, partition->dir)
                 : 0;
    rc = rc ? rc : load_newest(partition, bounds.end.offset, &from);
    if (rc) {
        return rc;
    }
    if (from < bounds.start.offset) {
        from = bounds.start.offset;
    }
    rc = log_each_batch(partition->log, from, replay, partition->producers);
    partition->snapshot = bounds.end;
    producer_state_expire(partition->producers,
                          partition->clock->wall_ms(partition->clock));
    return rc == E_DAMAGED ? 0 : rc;
}

static void write_snapshot(struct partition *partition, int64_t offset,
                           const struct buf *bytes, int64_t previous)
{
    char *path = snapshot_path(partition, offset);
    int rc = path ? disk_replace(partition->disk, path, bytes->data, bytes->length)
                  : -ENOMEM;
    free(path);
    if (rc) {
        diag(DIAG_WARNING, "%s: producer snapshot not written: %s", partition->name,
             err_text(rc));
        return;
    }
    (void)prune_snapshots(partition, previous, INT64_MAX);
}

void partition_producers_save(struct partition *partition, bool always)
{
    struct buf bytes;
    buf_init(&bytes, SNAPSHOT_MAX_BYTES);
    pthread_mutex_lock(&partition->dir_lock);
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    const struct log_place end = partition->end;
    int64_t interval = partition->config.segment_bytes;
    bool deleted = partition->deleted;
    pthread_mutex_unlock(&partition->lock);
    const struct log_place previous = partition->snapshot;
    bool due = !deleted && end.offset > previous.offset &&
               (always || end.position - previous.position >= interval);
    int rc = 0;
    if (due) {
        producer_state_expire(partition->producers,
                              partition->clock->wall_ms(partition->clock));
        rc = producer_state_encode(partition->producers, end.offset, &bytes);
        partition->snapshot = end;
    }
    pthread_mutex_unlock(&partition->append_lock);
    if (due && !rc) {
        write_snapshot(partition, end.offset, &bytes, previous.offset);
    }
    pthread_mutex_unlock(&partition->dir_lock);
    buf_free(&bytes);
}
