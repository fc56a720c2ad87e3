#include "replica/compact_write.h"

#include "replica/segment.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { TEXT_BUFFER = 256 * 1024, INDEX_BUFFER = 64 * 1024 };

/* Of an entry's relative offset and position. */
static const int64_t relative_max = INT32_MAX;

int compact_writer_open(struct compact_writer *writer, const struct disk *disk,
                        const char *dir, const struct topic_id *topic_id,
                        int64_t segment_bytes, int64_t now_ms)
{
    *writer = (struct compact_writer){.disk = disk,
                                      .dir = dir,
                                      .topic_id = *topic_id,
                                      .segment_bytes = segment_bytes,
                                      .now_ms = now_ms,
                                      .text = -1,
                                      .index = -1};
    writer->buffer = malloc(TEXT_BUFFER + INDEX_BUFFER);
    return writer->buffer == NULL ? -ENOMEM : 0;
}

static int flush_text(struct compact_writer *writer)
{
    int rc = disk_write_all(writer->disk, writer->text, writer->buffer,
                            writer->text_used, writer->text_at);
    writer->text_at += (int64_t)writer->text_used;
    writer->text_used = 0;
    return rc;
}

static int flush_index(struct compact_writer *writer)
{
    int rc = disk_write_all(writer->disk, writer->index, writer->buffer + TEXT_BUFFER,
                            writer->index_used, writer->index_at);
    writer->index_at += (int64_t)writer->index_used;
    writer->index_used = 0;
    return rc;
}

static int write_header(const struct compact_writer *writer)
{
    struct index_header header = {.flags = writer->flags | INDEX_COMPACTED,
                                  .topic_id = writer->topic_id,
                                  .base_offset = writer->bases[writer->count - 1],
                                  .created_ms = writer->now_ms};
    uint8_t bytes[INDEX_HEADER_BYTES];
    index_header_encode(&header, bytes);
    return disk_write_all(writer->disk, writer->index, bytes, sizeof bytes, 0);
}

int compact_writer_end(struct compact_writer *writer)
{
    const struct disk *disk = writer->disk;
    if (writer->text < 0)
        return 0;
    int rc = flush_text(writer);
    if (rc == 0)
        rc = flush_index(writer);
    if (rc == 0)
        rc = write_header(writer);
    if (rc == 0)
        rc = disk->ops->flush(disk, writer->text);
    if (rc == 0)
        rc = disk->ops->flush(disk, writer->index);
    disk->ops->close(disk, writer->text);
    disk->ops->close(disk, writer->index);
    writer->text = writer->index = -1;
    return rc;
}

static int make_file(const struct compact_writer *writer, int64_t base_offset,
                     const char *suffix)
{
    char path[strlen(writer->dir) + SEGMENT_PATH_EXTRA];
    segment_path(writer->dir, base_offset, suffix, path);
    int file = writer->disk->ops->open(writer->disk, path, DISK_WRITE | DISK_CREATE);
    int rc = file < 0 ? file : writer->disk->ops->truncate(writer->disk, file, 0);
    if (rc != 0 && file >= 0)
        writer->disk->ops->close(writer->disk, file);
    return rc != 0 ? rc : file;
}

static int add_base(struct compact_writer *writer, int64_t base_offset)
{
    if (writer->count == writer->allocated) {
        size_t allocated = writer->allocated ? writer->allocated * 2 : 16;
        int64_t *bases = realloc(writer->bases, allocated * sizeof *bases);
        if (bases == NULL)
            return -ENOMEM;
        writer->bases = bases;
        writer->allocated = allocated;
    }
    writer->bases[writer->count++] = base_offset;
    return 0;
}

int compact_writer_begin(struct compact_writer *writer, int64_t base_offset,
                         uint32_t index_flags)
{
    int rc = compact_writer_end(writer);
    if (rc == 0)
        rc = add_base(writer, base_offset);
    if (rc != 0)
        return rc;
    int text = make_file(writer, base_offset, ".log.new");
    if (text < 0)
        return text;
    int index = make_file(writer, base_offset, ".index.new");
    if (index < 0) {
        writer->disk->ops->close(writer->disk, text);
        return index;
    }
    writer->text = text;
    writer->index = index;
    writer->flags = index_flags;
    writer->text_at = 0;
    writer->index_at = INDEX_HEADER_BYTES;
    writer->text_used = writer->index_used = 0;
    return 0;
}

static int add_text(struct compact_writer *writer, const void *bytes, size_t length)
{
    int rc = 0;
    if (writer->text_used + length > TEXT_BUFFER)
        rc = flush_text(writer);
    if (rc == 0 && length > TEXT_BUFFER) {
        rc = disk_write_all(writer->disk, writer->text, bytes, length, writer->text_at);
        writer->text_at += (int64_t)length;
    } else if (rc == 0) {
        memcpy(writer->buffer + writer->text_used, bytes, length);
        writer->text_used += length;
    }
    return rc;
}

static bool is_full(const struct compact_writer *writer, const struct batch *run)
{
    int64_t size = writer->text_at + (int64_t)writer->text_used;
    int64_t base = writer->bases[writer->count - 1];
    if (run->base_offset + run->message_count - base > relative_max)
        return true;
    return size > 0 && (size + run->length > writer->segment_bytes ||
                        size + run->length > relative_max);
}

int compact_writer_add(struct compact_writer *writer, const struct batch *run,
                       const void *bytes)
{
    struct batch batch = *run;
    int rc = 0;
    if (is_full(writer, run))
        rc = compact_writer_begin(writer, run->base_offset,
                                  writer->flags & (uint32_t)INDEX_UNCLEAN);
    if (rc != 0)
        return rc;
    if (run->flags & BATCH_TOMBSTONES)
        writer->flags |= INDEX_TOMBSTONES;
    batch.position = writer->text_at + (int64_t)writer->text_used;
    batch.payload_hash = XXH3_64bits(bytes, run->length);
    index_entry_encode(&batch, writer->bases[writer->count - 1],
                       writer->buffer + TEXT_BUFFER + writer->index_used);
    writer->index_used += INDEX_ENTRY_BYTES;
    if (writer->index_used == INDEX_BUFFER)
        rc = flush_index(writer);
    return rc != 0 ? rc : add_text(writer, bytes, run->length);
}

void compact_writer_close(struct compact_writer *writer, bool remove)
{
    const struct disk *disk = writer->disk;
    if (writer->text >= 0) {
        disk->ops->close(disk, writer->text);
        disk->ops->close(disk, writer->index);
    }
    for (size_t i = 0; remove && i < writer->count; i++) {
        char path[strlen(writer->dir) + SEGMENT_PATH_EXTRA];
        segment_path(writer->dir, writer->bases[i], ".log.new", path);
        (void)disk->ops->unlink(disk, path);
        segment_path(writer->dir, writer->bases[i], ".index.new", path);
        (void)disk->ops->unlink(disk, path);
    }
    free(writer->bases);
    free(writer->buffer);
    *writer = (struct compact_writer){.disk = disk, .text = -1, .index = -1};
}
