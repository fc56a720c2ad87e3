/*
 * What compaction writes: runs of messages into new segments, under temporary names
 * ("<base>.log.new", "<base>.index.new"; docs/format.md).
 *
 *     rc = compact_writer_open(&writer, ...);
 *     rc = compact_writer_begin(&writer, base_offset, flags);   // the first one, at
 * least rc = compact_writer_add(&writer, &run, bytes);            // begins more when
 * it is full rc = compact_writer_end(&writer);                         // complete and
 * flushed log_replace_prefix(log, writer.bases, writer.count, end_offset);
 *     compact_writer_close(&writer, rc != 0);
 *
 * One owner.
 */
#ifndef TOPICFS_COMPACT_WRITE_H
#define TOPICFS_COMPACT_WRITE_H

#include "replica/index.h"

struct compact_writer {
    const struct disk *disk; /* borrowed, as is dir */
    const char *dir;
    struct topic_id topic_id;
    int64_t segment_bytes;
    int64_t now_ms;
    int64_t *bases; /* of the segments begun */
    size_t count;
    size_t allocated;
    int text; /* of the current one, or -1 */
    int index;
    uint32_t flags; /* of its header */
    int64_t text_at;
    int64_t index_at;
    size_t text_used; /* not written yet */
    size_t index_used;
    uint8_t *buffer; /* for both */
};

int compact_writer_open(struct compact_writer *writer, const struct disk *disk,
                        const char *dir, const struct topic_id *topic_id,
                        int64_t segment_bytes, int64_t now_ms);
/* Ends the current segment, if any; index_flags: enum index_flag besides COMPACTED. */
int compact_writer_begin(struct compact_writer *writer, int64_t base_offset,
                         uint32_t index_flags);
/* All of run is set but position and hash. */
int compact_writer_add(struct compact_writer *writer, const struct batch *run,
                       const void *bytes);
int compact_writer_end(struct compact_writer *writer);
/* `remove`: the files were not switched in. */
void compact_writer_close(struct compact_writer *writer, bool remove);

#endif
