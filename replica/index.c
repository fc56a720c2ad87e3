#include "replica/index.h"

#include <endian.h>
#include <string.h>
#include <xxhash.h>

static const char magic[8] = {'T', 'F', 'S', 'I', 'N', 'D', 'X', '1'};

static void put32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

static void put64(uint8_t *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

static uint32_t get32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return le32toh(value);
}

static uint64_t get64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return le64toh(value);
}

void index_header_encode(const struct index_header *header,
                         uint8_t bytes[INDEX_HEADER_BYTES])
{
    memcpy(bytes, magic, sizeof magic);
    put32(bytes + 8, INDEX_VERSION);
    put32(bytes + 12, header->flags);
    memcpy(bytes + 16, header->topic_id.bytes, TOPIC_ID_BYTES);
    put64(bytes + 32, (uint64_t)header->base_offset);
    put64(bytes + 40, (uint64_t)header->base_position);
    put64(bytes + 48, (uint64_t)header->created_ms);
    put64(bytes + 56, XXH3_64bits(bytes, 56));
}

int index_header_decode(const uint8_t bytes[INDEX_HEADER_BYTES],
                        struct index_header *header)
{
    if (memcmp(bytes, magic, sizeof magic) != 0 ||
        get64(bytes + 56) != XXH3_64bits(bytes, 56))
        return E_CORRUPT;
    if (get32(bytes + 8) > INDEX_VERSION)
        return E_NEWER_FORMAT;
    if (get32(bytes + 8) != INDEX_VERSION)
        return E_CORRUPT;
    header->flags = get32(bytes + 12);
    memcpy(header->topic_id.bytes, bytes + 16, TOPIC_ID_BYTES);
    header->base_offset = (int64_t)get64(bytes + 32);
    header->base_position = (int64_t)get64(bytes + 40);
    header->created_ms = (int64_t)get64(bytes + 48);
    return header->base_offset < 0 ? E_CORRUPT : 0;
}

static uint32_t entry_checksum(const uint8_t *bytes, int64_t base_offset)
{
    return (uint32_t)XXH3_64bits_withSeed(bytes, 60, (uint64_t)base_offset);
}

void index_entry_encode(const struct batch *batch, int64_t base_offset,
                        uint8_t bytes[INDEX_ENTRY_BYTES])
{
    put32(bytes, (uint32_t)(batch->base_offset - base_offset));
    put32(bytes + 4, (uint32_t)batch->position);
    put32(bytes + 8, batch->message_count);
    put32(bytes + 12, batch->length);
    put64(bytes + 16, (uint64_t)batch->timestamp_ms);
    put32(bytes + 24, (uint32_t)batch->leader_epoch);
    put32(bytes + 28, (uint32_t)batch->base_sequence);
    put64(bytes + 32, (uint64_t)batch->producer_id);
    put64(bytes + 40, batch->payload_hash);
    put32(bytes + 48, batch->flags);
    put64(bytes + 52, (uint64_t)batch->delete_at_ms);
    put32(bytes + 60, entry_checksum(bytes, base_offset));
}

int index_entry_decode(const uint8_t bytes[INDEX_ENTRY_BYTES], int64_t base_offset,
                       struct batch *batch)
{
    if (get32(bytes + 60) != entry_checksum(bytes, base_offset))
        return E_DAMAGED;
    batch->base_offset = base_offset + get32(bytes);
    batch->position = get32(bytes + 4);
    batch->message_count = get32(bytes + 8);
    batch->length = get32(bytes + 12);
    batch->timestamp_ms = (int64_t)get64(bytes + 16);
    batch->leader_epoch = (int32_t)get32(bytes + 24);
    batch->base_sequence = (int32_t)get32(bytes + 28);
    batch->producer_id = (int64_t)get64(bytes + 32);
    batch->payload_hash = get64(bytes + 40);
    batch->flags = get32(bytes + 48);
    batch->delete_at_ms = (int64_t)get64(bytes + 52);
    /* A message has at least its newline. */
    if (batch->message_count == 0 || batch->length < batch->message_count)
        return E_DAMAGED;
    return 0;
}

void index_reader_init(struct index_reader *reader, const struct disk *disk, int file,
                       int64_t base_offset, uint32_t count)
{
    reader->disk = disk;
    reader->file = file;
    reader->base_offset = base_offset;
    reader->count = count;
    reader->block_at = -1;
    reader->block_length = 0;
}

static int fetch_block(struct index_reader *reader, int64_t at)
{
    reader->block_at = -1;
    size_t have = 0;
    while (have < INDEX_BLOCK_BYTES) {
        ssize_t got =
            reader->disk->ops->pread(reader->disk, reader->file, reader->block + have,
                                     INDEX_BLOCK_BYTES - have, at + (int64_t)have);
        if (got < 0)
            return (int)got;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    reader->block_length = have;
    reader->block_at = at;
    return 0;
}

int index_reader_get(struct index_reader *reader, uint32_t i, struct batch *out)
{
    int64_t at = index_entry_at(i);
    int64_t block_at = at / INDEX_BLOCK_BYTES * INDEX_BLOCK_BYTES;
    if (reader->block_at != block_at) {
        int rc = fetch_block(reader, block_at);
        if (rc != 0)
            return rc;
    }
    size_t within = (size_t)(at - block_at);
    if (i >= reader->count || within + INDEX_ENTRY_BYTES > reader->block_length)
        return E_DAMAGED;
    return index_entry_decode(reader->block + within, reader->base_offset, out);
}

static int64_t key_of(const struct batch *batch, enum index_key key)
{
    switch (key) {
    case INDEX_BY_OFFSET:
        return batch->base_offset;
    case INDEX_BY_POSITION:
        return batch->position;
    default:
        return batch->timestamp_ms;
    }
}

/*
 * Reads the readable entry nearest to `middle` that lies strictly between low and high.
 * 1: *at and *batch are set; 0: there is none; a negative errno.
 */
static int probe(struct index_reader *reader, int64_t middle, int64_t low, int64_t high,
                 int64_t *at, struct batch *batch)
{
    for (int64_t i = middle; i < high; i++) {
        int rc = index_reader_get(reader, (uint32_t)i, batch);
        if (rc != E_DAMAGED) {
            *at = i;
            return rc == 0 ? 1 : rc;
        }
    }
    for (int64_t i = middle - 1; i > low; i--) {
        int rc = index_reader_get(reader, (uint32_t)i, batch);
        if (rc != E_DAMAGED) {
            *at = i;
            return rc == 0 ? 1 : rc;
        }
    }
    return 0;
}

/* The first entry of the last block, if what is wanted lies there: what was appended
 * last is asked for most, and is then found with one read; else -1. */
static int64_t in_last_block(struct index_reader *reader, enum index_key key,
                             int64_t wanted)
{
    struct batch batch;
    int64_t block =
        index_entry_at(reader->count) / INDEX_BLOCK_BYTES * INDEX_BLOCK_BYTES;
    int64_t first = (block - INDEX_HEADER_BYTES) / INDEX_ENTRY_BYTES;
    if (block == 0 || index_reader_get(reader, (uint32_t)first, &batch) != 0)
        return -1;
    return key_of(&batch, key) <= wanted ? first : -1;
}

int index_search(struct index_reader *reader, enum index_key key, int64_t wanted,
                 struct index_spot *out)
{
    int64_t low = in_last_block(reader, key, wanted);
    int64_t high = reader->count;
    while (high - low > 1) {
        struct batch batch = {0};
        int64_t at = low;
        int rc = probe(reader, low + (high - low) / 2, low, high, &at, &batch);
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
        if (key_of(&batch, key) <= wanted)
            low = at;
        else
            high = at;
    }
    *out = (struct index_spot){.low = low, .high = high};
    return 0;
}
