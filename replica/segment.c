#include "replica/segment.h"

#include "replica/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct segment_home *segment_home_new(const struct disk *disk, struct file_cache *files,
                                      const struct topic_id *topic_id, const char *dir)
{
    size_t size = strlen(dir) + 1;
    struct segment_home *home = malloc(sizeof *home + size);
    if (home == NULL)
        return NULL;
    atomic_init(&home->refs, 1);
    home->disk = disk;
    home->files = files;
    home->topic_id = *topic_id;
    memcpy(home->dir, dir, size);
    return home;
}

struct segment_home *segment_home_ref(struct segment_home *home)
{
    atomic_fetch_add(&home->refs, 1);
    return home;
}

void segment_home_unref(struct segment_home *home)
{
    if (home != NULL && atomic_fetch_sub(&home->refs, 1) == 1)
        free(home);
}

void segment_path(const char *dir, int64_t base_offset, const char *suffix, char *path)
{
    snprintf(path, strlen(dir) + SEGMENT_PATH_EXTRA, "%s/%020" PRId64 "%s", dir,
             base_offset, suffix);
}

struct segment *segment_new(struct segment_home *home, int64_t base_offset)
{
    struct segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL)
        return NULL;
    segment->home = segment_home_ref(home);
    segment->base_offset = base_offset;
    segment->end_offset = base_offset;
    segment->last_timestamp_ms = INT64_MIN;
    atomic_init(&segment->refs, 1);
    atomic_init(&segment->retired, false);
    return segment;
}

struct segment *segment_ref(struct segment *segment)
{
    atomic_fetch_add(&segment->refs, 1);
    return segment;
}

void segment_unref(struct segment *segment)
{
    if (segment == NULL || atomic_fetch_sub(&segment->refs, 1) != 1)
        return;
    void (*drop)(struct file_cache * cache, struct file_cache_file * *slot) =
        atomic_load(&segment->retired) ? file_cache_drop_removed : file_cache_drop;
    drop(segment->home->files, &segment->text);
    drop(segment->home->files, &segment->index);
    segment_home_unref(segment->home);
    free(segment);
}

/* ---- files ----------------------------------------------------------------- */

static int open_file(const struct segment *segment, const char *suffix, int flags)
{
    const struct segment_home *home = segment->home;
    char path[strlen(home->dir) + SEGMENT_PATH_EXTRA];
    segment_path(home->dir, segment->base_offset, suffix, path);
    return home->disk->ops->open(home->disk, path, flags);
}

static int open_text(void *arg)
{
    return open_file(arg, ".log", DISK_WRITE);
}

static int open_index(void *arg)
{
    return open_file(arg, ".index", DISK_WRITE);
}

static int pin(struct segment *segment, struct file_cache_file **slot,
               int (*open_fn)(void *arg), struct file_cache_file **out)
{
    int rc = file_cache_pin(segment->home->files, slot, open_fn, segment, out);
    /* After the open: only then is it sure that no rename came before it. */
    if (atomic_load(&segment->retired)) {
        if (rc == 0)
            segment_unpin(segment, *out);
        rc = -ESTALE;
    }
    if (rc != 0)
        *out = NULL;
    return rc;
}

int segment_pin_text(struct segment *segment, struct file_cache_file **out)
{
    return pin(segment, &segment->text, open_text, out);
}

int segment_pin_index(struct segment *segment, struct file_cache_file **out)
{
    return pin(segment, &segment->index, open_index, out);
}

void segment_unpin(struct segment *segment, struct file_cache_file *file)
{
    if (file != NULL)
        file_cache_unpin(segment->home->files, file);
}

static int make_files(struct segment *segment, const uint8_t *header)
{
    const struct disk *disk = segment->home->disk;
    const int flags = DISK_WRITE | DISK_CREATE | DISK_EXCLUSIVE;
    int text = -1;
    int index = open_file(segment, ".index", flags);
    if (index < 0)
        return index;
    int rc = disk_write_all(disk, index, header, INDEX_HEADER_BYTES, 0);
    if (rc == 0) {
        text = open_file(segment, ".log", flags);
        rc = text < 0 ? text : 0;
    }
    if (rc != 0) {
        char path[strlen(segment->home->dir) + SEGMENT_PATH_EXTRA];
        segment_path(segment->home->dir, segment->base_offset, ".index", path);
        disk->ops->unlink(disk, path);
    }
    disk->ops->close(disk, index);
    if (text >= 0)
        disk->ops->close(disk, text);
    return rc;
}

int segment_create(struct segment_home *home, int64_t base_offset, int64_t position,
                   int64_t now_ms, uint32_t index_flags, struct segment **out)
{
    struct segment *segment = segment_new(home, base_offset);
    if (segment == NULL)
        return -ENOMEM;
    segment->position = position;
    segment->dirty = true;
    if (index_flags & INDEX_COMPACTED)
        segment->flags |= SEGMENT_COMPACTED;
    struct index_header header = {.flags = index_flags,
                                  .topic_id = home->topic_id,
                                  .base_offset = base_offset,
                                  .base_position = position,
                                  .created_ms = now_ms};
    uint8_t bytes[INDEX_HEADER_BYTES];
    index_header_encode(&header, bytes);
    int rc = make_files(segment, bytes);
    if (rc != 0) {
        segment_unref(segment);
        segment = NULL;
    }
    *out = segment;
    return rc;
}

/* ---- writing --------------------------------------------------------------- */

static int write_batch(struct segment *segment, int text, int index,
                       const struct batch *batch, const void *bytes)
{
    const struct disk *disk = segment->home->disk;
    uint8_t entry[INDEX_ENTRY_BYTES];
    index_entry_encode(batch, segment->base_offset, entry);
    int64_t entry_at = index_entry_at(segment->entry_count);

    int rc = disk_write_all(disk, text, bytes, batch->length, batch->position);
    if (rc == 0)
        rc = disk_write_all(disk, index, entry, sizeof entry, entry_at);
    if (rc == 0)
        return 0;
    /* Both, in any order of failure: a short write may have left a part of either. */
    int cut = disk->ops->truncate(disk, index, entry_at);
    if (cut == 0)
        cut = disk->ops->truncate(disk, text, batch->position);
    return cut == 0 ? rc : E_OFFLINE;
}

/* Writing behind the end of a text that was cut would make zeros of what is missing,
 * and what goes to a file without a name is lost with this process. */
static int check_untouched(const struct segment *segment, int text, int64_t size)
{
    struct disk_stat st;
    int rc = segment->home->disk->ops->stat(segment->home->disk, text, &st);
    if (rc == 0 && (st.is_removed || st.size < size))
        rc = E_DAMAGED;
    return rc;
}

int segment_append(struct segment *segment, const struct batch *batch,
                   const void *bytes)
{
    struct file_cache_file *text = NULL;
    struct file_cache_file *index = NULL;
    int rc = segment_pin_text(segment, &text);
    if (rc == 0)
        rc = segment_pin_index(segment, &index);
    if (rc == -ENOENT)
        rc = E_DAMAGED;
    if (rc == 0)
        rc = check_untouched(segment, text->fd, batch->position);
    struct verify_map *map = NULL;
    if (rc == 0) {
        map = verify_map_of(text);
        rc = map == NULL ? -ENOMEM : 0;
    }
    if (rc == 0)
        rc = write_batch(segment, text->fd, index->fd, batch, bytes);
    if (rc == 0)
        verify_map_appended(map, batch->position, batch->length);
    segment_unpin(segment, index);
    segment_unpin(segment, text);
    return rc;
}

int segment_cut(struct segment *segment, uint32_t entry_count, int64_t text_size)
{
    const struct disk *disk = segment->home->disk;
    struct file_cache_file *text = NULL;
    struct file_cache_file *index = NULL;
    int rc = segment_pin_text(segment, &text);
    if (rc == 0)
        rc = segment_pin_index(segment, &index);
    if (rc == 0)
        rc = disk->ops->truncate(disk, index->fd, index_entry_at(entry_count));
    if (rc == 0)
        rc = disk->ops->truncate(disk, text->fd, text_size);
    segment_unpin(segment, index);
    segment_unpin(segment, text);
    return rc;
}

int segment_flush(struct segment *segment)
{
    const struct disk *disk = segment->home->disk;
    struct file_cache_file *text = NULL;
    struct file_cache_file *index = NULL;
    int rc = segment_pin_text(segment, &text);
    if (rc == 0)
        rc = segment_pin_index(segment, &index);
    if (rc == 0) {
        /* Both are on their way before either is waited for. */
        disk->ops->flush_begin(disk, text->fd);
        disk->ops->flush_begin(disk, index->fd);
    }
    if (rc == 0 && (disk->ops->flush(disk, text->fd) != 0 ||
                    disk->ops->flush(disk, index->fd) != 0))
        rc = E_OFFLINE;
    segment_unpin(segment, index);
    segment_unpin(segment, text);
    return rc;
}

void segment_restamp(struct segment *segment, bool closed)
{
    struct file_cache_file *text = NULL;
    struct disk_stat st = {.ctime_ns = VERIFY_LIVE};
    if (segment_pin_text(segment, &text) != 0)
        return; /* an evicted file has no map to keep */
    struct verify_map *map = verify_map_of(text);
    const struct disk *disk = segment->home->disk;
    if (map != NULL && (!closed || disk->ops->stat(disk, text->fd, &st) == 0))
        verify_map_restamp(map, st.ctime_ns);
    segment_unpin(segment, text);
}

static int remove_name(const struct disk *disk, struct file_cache *files,
                       const char *path)
{
    int held = file_cache_hold(files, path);
    int rc = disk->ops->unlink(disk, path);
    file_cache_let_go(files, held);
    return rc == -ENOENT ? 0 : rc;
}

int segment_remove_files(const struct disk *disk, struct file_cache *files,
                         const char *dir, int64_t base_offset)
{
    size_t size = strlen(dir) + SEGMENT_PATH_EXTRA;
    char text[size], index[size], deleted[size];
    segment_path(dir, base_offset, ".log", text);
    segment_path(dir, base_offset, ".index", index);
    segment_path(dir, base_offset, ".deleted", deleted);
    /* The rename is the decision: an index that lost its text by accident looks
     * otherwise. */
    int rc = disk->ops->rename(disk, index, deleted);
    if (rc != 0 && rc != -ENOENT)
        return rc;
    rc = remove_name(disk, files, text);
    return rc != 0 ? rc : remove_name(disk, files, deleted);
}
