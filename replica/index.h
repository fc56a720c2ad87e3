/*
 * The index file of a segment: a header, then one entry of 64 bytes per batch
 * (docs/format.md has the layout). Encoding and decoding are pure; the reader fetches
 * blocks of 4 KiB, so that a look-up costs a few small reads at any size.
 *
 *     struct index_reader reader;
 *     index_reader_init(&reader, disk, file, base_offset, entry_count);
 *     rc = index_search(&reader, INDEX_BY_OFFSET, offset, &spot);
 *     rc = index_reader_get(&reader, (uint32_t)spot.low, &batch);
 *
 * In this module a batch's position counts from the beginning of its segment.
 *
 * A reader belongs to one thread; several may read one file while it is appended to.
 */
#ifndef TOPICFS_INDEX_H
#define TOPICFS_INDEX_H

#include "replica/log.h"

enum {
    INDEX_HEADER_BYTES = 64,
    INDEX_ENTRY_BYTES = 64,
    INDEX_BLOCK_BYTES = 4096,
    INDEX_VERSION = 1,
};

enum index_flag {
    INDEX_COMPACTED = 1,
    INDEX_UNCLEAN = 2,    /* made by a compaction that had no room for its keys */
    INDEX_TOMBSTONES = 4, /* holds some; created_ms is when they were compacted last */
};

struct index_header {
    uint32_t flags; /* enum index_flag */
    struct topic_id topic_id;
    int64_t base_offset;
    int64_t base_position;
    int64_t created_ms;
};

void index_header_encode(const struct index_header *header,
                         uint8_t bytes[INDEX_HEADER_BYTES]);
/* 0; E_NEWER_FORMAT (the header is whole, but of a later version); E_CORRUPT. */
int index_header_decode(const uint8_t bytes[INDEX_HEADER_BYTES],
                        struct index_header *header);

/* batch->base_offset must be at or above base_offset, by at most 2^31. */
void index_entry_encode(const struct batch *batch, int64_t base_offset,
                        uint8_t bytes[INDEX_ENTRY_BYTES]);
/* 0, or E_DAMAGED: the checksum is wrong, or a field that no writer makes. */
int index_entry_decode(const uint8_t bytes[INDEX_ENTRY_BYTES], int64_t base_offset,
                       struct batch *batch);

/* Where entry i begins in the file. */
static inline int64_t index_entry_at(uint32_t i)
{
    return INDEX_HEADER_BYTES + (int64_t)i * INDEX_ENTRY_BYTES;
}

struct index_reader {
    const struct disk *disk;
    int file;
    int64_t base_offset;
    uint32_t count;
    int64_t block_at; /* in the file; -1: none read yet */
    size_t block_length;
    uint8_t block[INDEX_BLOCK_BYTES];
};

/* `count`: entries that may be read. Reads nothing yet. */
void index_reader_init(struct index_reader *reader, const struct disk *disk, int file,
                       int64_t base_offset, uint32_t count);
/* 0; E_DAMAGED (bad, or behind the end of the file); a negative errno. */
int index_reader_get(struct index_reader *reader, uint32_t i, struct batch *out);

enum index_key { INDEX_BY_OFFSET, INDEX_BY_POSITION, INDEX_BY_TIME };

/*
 * low: the last readable entry whose key is at or below the wanted one, or -1.
 * high: the first readable entry whose key is above, or count.
 * Where they are not neighbours, the entries between them are unreadable.
 */
struct index_spot {
    int64_t low;
    int64_t high;
};
/* 0 or a negative errno; unreadable entries are not an error. */
int index_search(struct index_reader *reader, enum index_key key, int64_t wanted,
                 struct index_spot *out);

#endif
