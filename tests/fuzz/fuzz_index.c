/* The index reader on arbitrary bytes: header, entries, searches by every key. */
#include "replica/index.h"
#include "tests/unit/support/fake_disk.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_spot(const struct index_spot *spot, uint32_t count)
{
    if (spot->low < -1 || spot->high > count || spot->low >= spot->high)
        abort();
}

/* What decodes must encode to the same bytes, but for the reserved ones. */
static void check_entry(const uint8_t *bytes)
{
    uint8_t again[INDEX_ENTRY_BYTES];
    struct batch batch;
    if (index_entry_decode(bytes, 0, &batch) != 0)
        return;
    index_entry_encode(&batch, 0, again);
    if (memcmp(bytes, again, 52) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct index_header header;
    if (size < INDEX_HEADER_BYTES + 8)
        return 0;
    int64_t wanted;
    memcpy(&wanted, data, sizeof wanted);
    data += 8;
    size -= 8;
    (void)index_header_decode(data, &header);

    struct fake_disk *fake = fake_disk_new(1);
    const struct disk *disk = &fake->disk;
    int file = disk->ops->open(disk, "index", DISK_WRITE | DISK_CREATE);
    if (disk_write_all(disk, file, data, size, 0) != 0)
        abort();
    struct index_reader reader;
    struct index_spot spot;
    /* One more than there are: the last one lies behind the end. */
    uint32_t count = (uint32_t)((size - INDEX_HEADER_BYTES) / INDEX_ENTRY_BYTES) + 1;
    index_reader_init(&reader, disk, file, 0, count);
    for (uint32_t i = 0; i + 1 < count; i++)
        check_entry(data + index_entry_at(i));
    for (int key = INDEX_BY_OFFSET; key <= INDEX_BY_TIME; key++) {
        if (index_search(&reader, (enum index_key)key, wanted, &spot) == 0)
            check_spot(&spot, count);
    }
    fake_disk_free(fake);
    return 0;
}
