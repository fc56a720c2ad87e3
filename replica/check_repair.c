/*
 * Putting a mended segment in the place of a damaged one. The originals are saved
 * first. The index goes first: until the text follows, only what was damaged before
 * differs, so a crash in between leaves something that the next repair mends in the
 * same way.
 */
#include "replica/check_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COPY_BYTES = 256 * 1024, ENTRIES_AT_ONCE = 512 };

static int path_of(const struct check *check, const char *name, const char *suffix,
                   char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/%s%s", check->path, name, suffix);
    return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int64_t now_ms(void)
{
    return clock_real.wall_ms(&clock_real);
}

/* ---- copies -------------------------------------------------------------------------
 */

static int copy_bytes(const struct disk *disk, int from, int to, int64_t size)
{
    char *bytes = malloc(COPY_BYTES);
    int rc = bytes == NULL ? -ENOMEM : 0;
    for (int64_t at = 0; rc == 0 && at < size;) {
        size_t part = size - at < COPY_BYTES ? (size_t)(size - at) : COPY_BYTES;
        rc = disk_read_all(disk, from, bytes, part, at);
        if (rc == 0)
            rc = disk_write_all(disk, to, bytes, part, at);
        at += (int64_t)part;
    }
    free(bytes);
    return rc;
}

/* A new file with the first `size` bytes of another, flushed, open for more. */
static int make_copy(const struct disk *disk, int from, int64_t size, const char *path,
                     int *out)
{
    int file = disk->ops->open(disk, path, DISK_WRITE | DISK_CREATE);
    if (file < 0)
        return file;
    int rc = disk->ops->truncate(disk, file, 0);
    if (rc == 0 && size > 0)
        rc = copy_bytes(disk, from, file, size);
    if (rc == 0)
        rc = disk->ops->flush(disk, file);
    if (rc != 0) {
        (void)disk->ops->close(disk, file);
        (void)disk->ops->unlink(disk, path);
        return rc;
    }
    *out = file;
    return 0;
}

/* mkdir of <data>/damaged and of the directory of `file` below it. */
static int make_damaged_dirs(const struct check *check, const char *file)
{
    char path[PATH_MAX];
    const struct disk *disk = check->disk;
    const char *slash = strchr(file, '/');
    int rc = path_of(check, "damaged", "", path);
    if (rc == 0)
        rc = disk->ops->mkdir(disk, path);
    if (rc == 0)
        rc = disk->ops->flush_dir(disk, check->path);
    if ((rc != 0 && rc != -EEXIST) || slash == NULL)
        return rc == -EEXIST ? 0 : rc;
    size_t length = strlen(path);
    int n = snprintf(path + length, sizeof path - length, "/%.*s", (int)(slash - file),
                     file);
    if (n < 0 || (size_t)n >= sizeof path - length)
        return -ENAMETOOLONG;
    rc = disk->ops->mkdir(disk, path);
    return rc == -EEXIST ? 0 : rc;
}

static int free_name(const struct check *check, const char *file, char path[PATH_MAX])
{
    for (unsigned i = 0;; i++) {
        char suffix[16] = "";
        char name[TOPIC_NAME_MAX + 128];
        struct disk_stat st;
        if (i > 0)
            (void)snprintf(suffix, sizeof suffix, ".%u", i);
        (void)snprintf(name, sizeof name, "damaged/%s", file);
        int rc = path_of(check, name, suffix, path);
        if (rc == 0)
            rc = check->disk->ops->stat_path(check->disk, path, &st);
        if (rc != 0)
            return rc == -ENOENT ? 0 : rc;
    }
}

static int flush_parent(const struct disk *disk, char *path)
{
    *strrchr(path, '/') = '\0';
    return disk->ops->flush_dir(disk, path);
}

int check_save(struct check *check, const char *file)
{
    const struct disk *disk = check->disk;
    char from_path[PATH_MAX];
    char to_path[PATH_MAX];
    struct disk_stat st;
    int rc = path_of(check, file, "", from_path);
    int from = rc == 0 ? disk->ops->open(disk, from_path, DISK_READ) : rc;
    if (from < 0)
        return from == -ENOENT ? 0 : from;
    int to = -1;
    rc = disk->ops->stat(disk, from, &st);
    if (rc == 0)
        rc = make_damaged_dirs(check, file);
    if (rc == 0)
        rc = free_name(check, file, to_path);
    if (rc == 0)
        rc = make_copy(disk, from, st.size, to_path, &to);
    if (rc == 0)
        rc = disk->ops->close(disk, to);
    if (rc == 0)
        rc = flush_parent(disk, to_path);
    (void)disk->ops->close(disk, from);
    return rc;
}

/* ---- the new files ------------------------------------------------------------------
 */

struct writer {
    const struct disk *disk;
    struct check_segment *segment;
    int index;
    int text; /* a copy that may be edited, or -1 */
    int64_t at;
    size_t used;
    uint8_t *entries; /* ENTRIES_AT_ONCE */
};

static int write_out(struct writer *writer)
{
    int rc = disk_write_all(writer->disk, writer->index, writer->entries, writer->used,
                            writer->at);
    writer->at += (int64_t)writer->used;
    writer->used = 0;
    return rc;
}

static int write_batch(void *arg, const struct batch *batch)
{
    struct writer *writer = arg;
    index_entry_encode(batch, writer->segment->base_offset,
                       writer->entries + writer->used);
    writer->used += INDEX_ENTRY_BYTES;
    return writer->used == (size_t)ENTRIES_AT_ONCE * INDEX_ENTRY_BYTES
               ? write_out(writer)
               : 0;
}

static int write_edit(void *arg, int64_t at, uint8_t byte)
{
    struct writer *writer = arg;
    return disk_write_all(writer->disk, writer->text, &byte, 1, at);
}

static int write_header(struct writer *writer, bool compacted)
{
    const struct check_segment *segment = writer->segment;
    struct index_header header = segment->header;
    uint8_t bytes[INDEX_HEADER_BYTES];
    if (!segment->header_good)
        header = (struct index_header){.base_position = segment->base_position,
                                       .created_ms = now_ms()};
    header.topic_id = segment->topic_id;
    header.base_offset = segment->base_offset;
    /* Its keys are still to be looked at. */
    if (compacted && segment->header_good && !(header.flags & INDEX_COMPACTED))
        header.flags |= INDEX_UNCLEAN;
    if (compacted)
        header.flags |= INDEX_COMPACTED;
    index_header_encode(&header, bytes);
    writer->at = INDEX_HEADER_BYTES;
    return disk_write_all(writer->disk, writer->index, bytes, sizeof bytes, 0);
}

static int write_index(struct writer *writer, const struct check_plan *plan,
                       const char *path)
{
    const struct disk *disk = writer->disk;
    const struct check_sink sink = {write_batch, write_edit, writer};
    writer->entries = malloc((size_t)ENTRIES_AT_ONCE * INDEX_ENTRY_BYTES);
    if (writer->entries == NULL)
        return -ENOMEM;
    int rc = make_copy(disk, -1, 0, path, &writer->index);
    if (rc == 0)
        rc = write_header(writer, plan->holes);
    if (rc == 0)
        rc = check_segment_mend(
            writer->segment, writer->text >= 0 ? writer->text : writer->segment->text,
            &sink);
    if (rc == 0)
        rc = write_out(writer);
    if (rc == 0)
        rc = disk->ops->flush(disk, writer->index);
    return rc;
}

static int cut_text(const struct disk *disk, const char *path, int64_t size)
{
    int file = disk->ops->open(disk, path, DISK_WRITE);
    if (file < 0)
        return file;
    int rc = disk->ops->truncate(disk, file, size);
    if (rc == 0)
        rc = disk->ops->flush(disk, file);
    int closed = disk->ops->close(disk, file);
    return rc != 0 ? rc : closed;
}

struct paths {
    char text[PATH_MAX];
    char new_text[PATH_MAX];
    char index[PATH_MAX];
    char new_index[PATH_MAX];
};

static int name_files(const struct check_segment *segment, struct paths *paths)
{
    const struct check *check = segment->check;
    int rc = path_of(check, segment->text_name, "", paths->text);
    if (rc == 0)
        rc = path_of(check, segment->text_name, ".new", paths->new_text);
    if (rc == 0)
        rc = path_of(check, segment->index_name, "", paths->index);
    return rc != 0 ? rc : path_of(check, segment->index_name, ".new", paths->new_index);
}

static int write_files(struct writer *writer, const struct check_plan *plan,
                       const struct paths *paths)
{
    const struct disk *disk = writer->disk;
    struct check_segment *segment = writer->segment;
    int rc = 0;
    if (plan->edits || !segment->has_text)
        rc = make_copy(disk, segment->text, plan->edits ? plan->text_size : 0,
                       paths->new_text, &writer->text);
    if (rc == 0)
        rc = write_index(writer, plan, paths->new_index);
    if (rc == 0 && writer->text >= 0)
        rc = disk->ops->flush(disk, writer->text);
    if (rc == 0)
        rc = disk->ops->rename(disk, paths->new_index, paths->index);
    if (rc == 0 && writer->text >= 0)
        rc = disk->ops->rename(disk, paths->new_text, paths->text);
    else if (rc == 0 && plan->text_size < segment->text_size)
        rc = cut_text(disk, paths->text, plan->text_size);
    return rc;
}

int check_repair_segment(struct check_segment *segment, const struct check_plan *plan)
{
    struct check *check = segment->check;
    const struct disk *disk = check->disk;
    struct writer writer = {.disk = disk, .segment = segment, .index = -1, .text = -1};
    struct paths *paths = malloc(sizeof *paths);
    int rc = paths == NULL ? -ENOMEM : name_files(segment, paths);
    if (rc == 0)
        rc = check_save(check, segment->text_name);
    if (rc == 0)
        rc = check_save(check, segment->index_name);
    if (rc == 0)
        rc = write_files(&writer, plan, paths);
    if (writer.index >= 0)
        (void)disk->ops->close(disk, writer.index);
    if (writer.text >= 0)
        (void)disk->ops->close(disk, writer.text);
    if (rc == 0)
        rc = flush_parent(disk, paths->index);
    free(writer.entries);
    free(paths);
    if (rc == 0 && plan->successor >= 0)
        rc = check_repair_empty(check, segment->partition, &segment->topic_id,
                                plan->successor, false);
    return rc;
}

int check_repair_empty(struct check *check, const char *partition,
                       const struct topic_id *topic_id, int64_t base_offset,
                       bool compacted)
{
    struct check_segment segment = {.check = check,
                                    .partition = partition,
                                    .topic_id = *topic_id,
                                    .base_offset = base_offset,
                                    .next_base = -1,
                                    .cut_floor = INT64_MAX,
                                    .known_end = -1,
                                    .text = -1,
                                    .index = -1};
    const struct check_plan plan = {.holes = compacted, .successor = -1};
    (void)snprintf(segment.text_name, sizeof segment.text_name, "%s/%020" PRId64 ".log",
                   partition, base_offset);
    (void)snprintf(segment.index_name, sizeof segment.index_name,
                   "%s/%020" PRId64 ".index", partition, base_offset);
    return check_repair_segment(&segment, &plan);
}
