#include "replica/compact_core.h"
#include "replica/log_internal.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/*
 * The file "replace": it exists from when the new segments are complete until they
 * stand in the place of the old ones. Whoever finds it finishes the work. All u64,
 * little-endian: magic, number of new ones, number of old ones, their base offsets,
 * XXH3-64 of the rest.
 */
static const char manifest_magic[8] = {'T', 'F', 'S', 'R', 'E', 'P', 'L', '1'};
enum { MANIFEST_HEAD = 24, MANIFEST_MAX = 16 * 1024 * 1024 };

struct manifest {
    const int64_t *fresh; /* base offsets, rising */
    size_t fresh_count;
    const int64_t *old;
    size_t old_count;
};

static void join(const char *dir, const char *name, char *path)
{
    stpcpy(stpcpy(stpcpy(path, dir), "/"), name);
}

/* ---- the switch on disk ---------------------------------------------------- */

/* What stood there is freed later, see file_cache_hold(). */
static int rename_into_place(const struct disk *disk, struct file_cache *files,
                             const char *dir, int64_t base, const char *from,
                             const char *to)
{
    size_t size = strlen(dir) + SEGMENT_PATH_EXTRA;
    char old_path[size], new_path[size];
    segment_path(dir, base, from, old_path);
    segment_path(dir, base, to, new_path);
    int held = file_cache_hold(files, new_path);
    int rc = disk->ops->rename(disk, old_path, new_path);
    file_cache_let_go(files, held);
    return rc == -ENOENT ? 0 : rc; /* done before a crash */
}

static bool contains(const int64_t *bases, size_t n, int64_t base)
{
    for (size_t i = 0; i < n; i++) {
        if (bases[i] == base)
            return true;
    }
    return false;
}

/* Can be done again from any point where it was interrupted. */
static int apply(const struct disk *disk, struct file_cache *files, const char *dir,
                 const struct manifest *manifest)
{
    char path[strlen(dir) + SEGMENT_PATH_EXTRA];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < manifest->fresh_count; i++) {
        rc =
            rename_into_place(disk, files, dir, manifest->fresh[i], ".log.new", ".log");
        if (rc == 0)
            rc = rename_into_place(disk, files, dir, manifest->fresh[i], ".index.new",
                                   ".index");
    }
    for (size_t i = 0; rc == 0 && i < manifest->old_count; i++) {
        if (!contains(manifest->fresh, manifest->fresh_count, manifest->old[i]))
            rc = segment_remove_files(disk, files, dir, manifest->old[i]);
    }
    if (rc == 0)
        rc = disk->ops->flush_dir(disk, dir);
    if (rc != 0)
        return rc;
    join(dir, "replace", path);
    return disk->ops->unlink(disk, path);
}

static void put_u64(uint8_t *bytes, size_t i, uint64_t value)
{
    value = htole64(value);
    memcpy(bytes + i * 8, &value, 8);
}

static uint64_t get_u64(const uint8_t *bytes, size_t i)
{
    uint64_t value;
    memcpy(&value, bytes + i * 8, 8);
    return le64toh(value);
}

static int write_manifest(const struct disk *disk, const char *dir,
                          const struct manifest *manifest)
{
    char path[strlen(dir) + SEGMENT_PATH_EXTRA];
    size_t count = manifest->fresh_count + manifest->old_count;
    size_t size = MANIFEST_HEAD + count * 8 + 8;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL)
        return -ENOMEM;
    memcpy(bytes, manifest_magic, sizeof manifest_magic);
    put_u64(bytes, 1, manifest->fresh_count);
    put_u64(bytes, 2, manifest->old_count);
    for (size_t i = 0; i < manifest->fresh_count; i++)
        put_u64(bytes, 3 + i, (uint64_t)manifest->fresh[i]);
    for (size_t i = 0; i < manifest->old_count; i++)
        put_u64(bytes, 3 + manifest->fresh_count + i, (uint64_t)manifest->old[i]);
    put_u64(bytes, 3 + count, XXH3_64bits(bytes, size - 8));
    join(dir, "replace", path);
    int rc = disk_replace(disk, path, bytes, size);
    free(bytes);
    return rc;
}

/* 0: applied. E_CORRUPT: what is in it can't be trusted. */
static int finish(const struct disk *disk, const char *dir, const uint8_t *bytes,
                  size_t size)
{
    if (size < MANIFEST_HEAD + 8 || size % 8 != 0 ||
        memcmp(bytes, manifest_magic, sizeof manifest_magic) != 0 ||
        get_u64(bytes, size / 8 - 1) != XXH3_64bits(bytes, size - 8))
        return E_CORRUPT;
    uint64_t fresh = get_u64(bytes, 1);
    uint64_t old = get_u64(bytes, 2);
    size_t count = (size - MANIFEST_HEAD - 8) / 8;
    if (fresh > count || old != count - fresh)
        return E_CORRUPT;
    int64_t *bases = malloc((count + 1) * sizeof *bases);
    if (bases == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        bases[i] = (int64_t)get_u64(bytes, 3 + i);
    struct manifest manifest = {.fresh = bases,
                                .fresh_count = (size_t)fresh,
                                .old = bases + fresh,
                                .old_count = (size_t)old};
    int rc = apply(disk, NULL, dir, &manifest);
    free(bases);
    return rc;
}

/* ---- leftovers ------------------------------------------------------------- */

struct leftover {
    char name[64];
    bool found;
};

static int find_leftover(void *arg, const char *name)
{
    struct leftover *leftover = arg;
    size_t length = strlen(name);
    bool segment =
        strspn(name, "0123456789") == 20 &&
        (strcmp(name + 20, ".log.new") == 0 || strcmp(name + 20, ".index.new") == 0);
    if (!segment && strcmp(name, "replace.tmp") != 0)
        return 0;
    memcpy(leftover->name, name, length + 1);
    leftover->found = true;
    return 1;
}

/* Unfinished output of a compaction: the segments that it was made from are all there.
 */
static int remove_leftovers(const struct disk *disk, const char *dir)
{
    for (;;) {
        struct leftover leftover = {.found = false};
        int rc = disk->ops->list(disk, dir, find_leftover, &leftover);
        if (rc < 0 || !leftover.found)
            return rc < 0 ? rc : 0;
        char path[strlen(dir) + sizeof leftover.name + 2];
        join(dir, leftover.name, path);
        rc = disk->ops->unlink(disk, path);
        if (rc != 0)
            return rc;
    }
}

int log_replace_recover(const struct disk *disk, const char *dir)
{
    char path[strlen(dir) + SEGMENT_PATH_EXTRA];
    char *bytes = NULL;
    size_t size = 0;
    join(dir, "replace", path);
    int rc = disk_slurp(disk, path, MANIFEST_MAX, &bytes, &size);
    if (rc == -ENOENT)
        return remove_leftovers(disk, dir);
    if (rc == 0)
        rc = finish(disk, dir, (const uint8_t *)bytes, size);
    free(bytes);
    if (rc == E_CORRUPT) {
        diag(DIAG_WARNING,
             "%s is damaged: it and the segments named .new are left alone", path);
        rc = 0;
    }
    return rc;
}

/* ---- the switch in memory -------------------------------------------------- */

/* Reads sizes and last entry of a segment that still has its ".new" names. */
static int load_fresh(struct log *log, int64_t base, struct segment *segment)
{
    const struct disk *disk = log->home->disk;
    char path[strlen(log->home->dir) + SEGMENT_PATH_EXTRA];
    struct disk_stat text, index;
    uint8_t bytes[INDEX_HEADER_BYTES];
    struct index_header header;
    struct index_reader reader;
    struct batch batch = {0};
    segment_path(log->home->dir, base, ".log.new", path);
    int rc = disk->ops->stat_path(disk, path, &text);
    if (rc != 0)
        return rc;
    segment_path(log->home->dir, base, ".index.new", path);
    int file = disk->ops->open(disk, path, DISK_READ);
    if (file < 0)
        return file;
    rc = disk->ops->stat(disk, file, &index);
    if (rc == 0)
        rc = disk_read_all(disk, file, bytes, sizeof bytes, 0);
    if (rc == 0)
        rc = index_header_decode(bytes, &header);
    if (rc == 0) {
        segment->entry_count =
            (uint32_t)((index.size - INDEX_HEADER_BYTES) / INDEX_ENTRY_BYTES);
        index_reader_init(&reader, disk, file, base, segment->entry_count);
    }
    if (rc == 0 && segment->entry_count > 0) {
        rc = index_reader_get(&reader, segment->entry_count - 1, &batch);
        segment->last_timestamp_ms = batch.timestamp_ms;
    }
    if (rc == 0 && (!(header.flags & INDEX_COMPACTED) || header.base_offset != base ||
                    batch.position + batch.length != text.size))
        rc = E_CORRUPT;
    disk->ops->close(disk, file);
    segment->text_size = text.size;
    segment->flags = SEGMENT_CLOSED | SEGMENT_COMPACTED;
    if (rc == 0 && compact_is_clean(header.flags))
        segment->flags |= SEGMENT_CLEAN;
    return rc;
}

struct replacement {
    struct segment **fresh;
    int64_t *old_bases;
    size_t fresh_count;
    size_t old_count;
};

static void replacement_free(struct replacement *replacement)
{
    for (size_t i = 0; replacement->fresh != NULL && i < replacement->fresh_count; i++)
        segment_unref(replacement->fresh[i]);
    free(replacement->fresh);
    free(replacement->old_bases);
}

/* Makes the objects, laid so that the last one ends where the first kept one begins. */
static int prepare(struct log *log, const int64_t *bases, size_t n, size_t old_count,
                   struct replacement *out)
{
    *out = (struct replacement){.fresh_count = n, .old_count = old_count};
    out->fresh = calloc(n, sizeof(struct segment *));
    out->old_bases = calloc(old_count, sizeof *out->old_bases);
    if (out->fresh == NULL || out->old_bases == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < old_count; i++)
        out->old_bases[i] = log->segments[i]->base_offset;
    int64_t position = log->segments[old_count]->position;
    int64_t end_offset = log->segments[old_count]->base_offset;
    for (size_t i = n; i-- > 0;) {
        struct segment *segment = segment_new(log->home, bases[i]);
        if (segment == NULL)
            return -ENOMEM;
        out->fresh[i] = segment;
        int rc = load_fresh(log, bases[i], segment);
        if (rc != 0)
            return rc;
        position -= segment->text_size;
        segment->position = position;
        segment->end_offset = end_offset;
        segment->version = (uint32_t)log->rewrites + 1;
        end_offset = bases[i];
    }
    int64_t timestamp = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        if (out->fresh[i]->last_timestamp_ms < timestamp)
            out->fresh[i]->last_timestamp_ms = timestamp;
        timestamp = out->fresh[i]->last_timestamp_ms;
    }
    return 0;
}

/* Where the log start lies among the new segments. */
static int new_start(struct log *log, const struct replacement *replacement,
                     struct log_place *start)
{
    const struct segment *kept = log->segments[replacement->old_count];
    struct log_place end = {.offset = kept->base_offset, .position = kept->position};
    *start = log->start;
    for (size_t i = 0; i < replacement->fresh_count; i++) {
        struct segment *segment = replacement->fresh[i];
        struct segment_view view = {.segment = segment,
                                    .end_offset = segment->end_offset,
                                    .text_size = segment->text_size,
                                    .entry_count = segment->entry_count,
                                    .flags = segment->flags};
        struct log_place place;
        if (segment->end_offset <= start->offset)
            continue;
        int rc = log_find_in_view(log, &view, start->offset, &end, &place);
        if (rc < 0)
            return rc;
        if (rc == 0) {
            start->position = place.position;
            return 0;
        }
    }
    if (start->offset < end.offset)
        start->position = end.position;
    return 0;
}

static void switch_table(struct log *log, struct replacement *replacement,
                         const struct log_place *start)
{
    size_t n = replacement->fresh_count;
    size_t old_count = replacement->old_count;
    struct segment *old[old_count];
    pthread_mutex_lock(&log->lock);
    memcpy(old, log->segments, sizeof old);
    for (size_t i = 0; i < old_count; i++)
        log->size_bytes -= log_segment_bytes(old[i]);
    memmove(log->segments + n, log->segments + old_count,
            (log->count - old_count) * sizeof(struct segment *));
    memcpy(log->segments, replacement->fresh, n * sizeof(struct segment *));
    for (size_t i = 0; i < n; i++)
        log->size_bytes += log_segment_bytes(log->segments[i]);
    log->count = log->count - old_count + n;
    log->rewrites++;
    if (log->segments[n]->position > log->rewritten_end)
        log->rewritten_end = log->segments[n]->position;
    log->start = *start;
    pthread_mutex_unlock(&log->lock);
    replacement->fresh_count = 0; /* the table has them now */
    for (size_t i = 0; i < old_count; i++)
        segment_unref(old[i]);
}

/* Number of segments below end_offset; all must be closed and whole. Or -EINVAL. */
static ssize_t count_replaced(const struct log *log, const int64_t *bases, size_t n,
                              int64_t end_offset)
{
    ssize_t kept = log_table_by_offset(log, end_offset);
    if (kept < 1 || n == 0 || log->segments[kept]->base_offset != end_offset ||
        bases[0] > log->segments[0]->base_offset || bases[n - 1] >= end_offset)
        return -EINVAL;
    for (ssize_t i = 0; i < kept; i++) {
        if (log->segments[i]->flags & SEGMENT_DAMAGED)
            return E_DAMAGED;
    }
    return kept;
}

int log_replace_prefix(struct log *log, const int64_t *bases, size_t n,
                       int64_t end_offset)
{
    if (atomic_load(&log->offline))
        return E_OFFLINE;
    ssize_t old_count = count_replaced(log, bases, n, end_offset);
    if (old_count < 0)
        return (int)old_count;
    struct replacement replacement;
    int rc = prepare(log, bases, n, (size_t)old_count, &replacement);
    if (rc == 0) {
        pthread_mutex_lock(&log->lock);
        rc = log_table_reserve(log, log->count + n);
        pthread_mutex_unlock(&log->lock);
    }
    struct manifest manifest = {.fresh = bases,
                                .fresh_count = n,
                                .old = replacement.old_bases,
                                .old_count = (size_t)old_count};
    if (rc == 0)
        rc = write_manifest(log->home->disk, log->home->dir, &manifest);
    if (rc != 0)
        goto out;

    /* From here on there is no way back: readers that need a file look again. */
    for (size_t i = 0; i < (size_t)old_count; i++)
        atomic_store(&log->segments[i]->retired, true);
    struct log_place start;
    rc = apply(log->home->disk, log->home->files, log->home->dir, &manifest);
    if (rc == 0)
        rc = new_start(log, &replacement, &start);
    if (rc == 0) {
        switch_table(log, &replacement, &start);
    } else {
        atomic_store(&log->offline, true);
        rc = E_OFFLINE;
    }
out:
    replacement_free(&replacement);
    return rc;
}
