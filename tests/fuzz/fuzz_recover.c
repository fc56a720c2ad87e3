/*
 * Opening a log whose files hold arbitrary bytes. Input: a byte of options, the flushed
 * offset, the length of the text in two bytes, the text, then the index. With an option
 * the checksums of the index are set right first, so that the fields behind them are
 * reached, too.
 */
#include "replica/file_cache.h"
#include "replica/index.h"
#include "tests/unit/support/fake_disk.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OPTION_FIX = 4, OPTION_SECOND = 8, OPTION_COMPACTED = 16 };

static void put(const struct disk *disk, const char *path, const void *bytes,
                size_t size)
{
    int file = disk->ops->open(disk, path, DISK_WRITE | DISK_CREATE);
    if (disk_write_all(disk, file, bytes, size, 0) != 0)
        abort();
    disk->ops->close(disk, file);
}

static void fix_checksums(uint8_t *index, size_t size, uint8_t options)
{
    struct index_header header = {
        .flags = (options & OPTION_COMPACTED) ? INDEX_COMPACTED : 0};
    if (size < INDEX_HEADER_BYTES)
        return;
    index_header_encode(&header, index);
    for (size_t at = INDEX_HEADER_BYTES; at + INDEX_ENTRY_BYTES <= size;
         at += INDEX_ENTRY_BYTES) {
        uint32_t sum = (uint32_t)XXH3_64bits(index + at, 60);
        memcpy(index + at + 60, &sum, 4);
    }
}

static int count_batch(void *arg, const struct batch *batch)
{
    (void)batch;
    ++*(int64_t *)arg;
    return 0;
}

/* Reads whatever can be read; the log must end. */
static void use(struct log *log, const struct disk *disk, bool fixed)
{
    struct log_bounds bounds;
    struct log_place place;
    struct extent extent;
    char bytes[64];
    log_bounds_get(log, &bounds);
    int64_t at = bounds.start.position;
    while (at < bounds.end.position) {
        if (log_read(log, at, sizeof bytes, bounds.end.position, 0, &extent) != 0)
            break;
        if (extent.length == 0 || extent.length > sizeof bytes ||
            disk_read_all(disk, extent.fd, bytes, extent.length, extent.at) != 0)
            abort();
        at += (int64_t)extent.length;
        extent_release(&extent);
    }
    (void)log_find_offset(log, bounds.end.offset / 2, &bounds.end, &place);
    (void)log_find_time(log, 1000, &bounds.end, &place);
    (void)log_find_last(log, 3, &bounds.end, &place);
    int64_t batches = 0;
    (void)log_each_batch(log, 0, count_batch, &batches);

    struct batch batch = {.message_count = 1, .length = 2, .timestamp_ms = 1};
    int64_t end = bounds.end.offset;
    if (log_append(log, &batch, "a\n") != 0)
        return;
    log_bounds_get(log, &bounds);
    if (batch.base_offset != end || bounds.end.offset != end + 1)
        abort();
    int rc = log_read(log, batch.position, 2, bounds.end.position, 0, &extent);
    /* Entries in no order that have good checksums lead a search astray, but not to
     * bytes. */
    if (fixed && rc == E_DAMAGED)
        return;
    if (rc != 0 || extent.length != 2)
        abort();
    extent_release(&extent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    uint8_t options = data[0];
    int64_t flushed = (int64_t)data[1] - 1;
    size_t text = (size_t)data[2] + ((size_t)data[3] << 8);
    data += 4;
    size -= 4;
    if (text > size)
        text = size;
    size_t index_size = size - text;
    uint8_t *index = malloc(index_size + 1);
    struct fake_disk *fake = fake_disk_new(1);
    const struct disk *disk = &fake->disk;
    struct file_cache *files = file_cache_new(disk, 4);
    if (index == NULL || files == NULL)
        abort();
    memcpy(index, data + text, index_size);
    if (options & OPTION_FIX)
        fix_checksums(index, index_size, options);

    disk->ops->mkdir(disk, "t-0");
    put(disk, "t-0/00000000000000000000.log", data, text);
    put(disk, "t-0/00000000000000000000.index", index, index_size);
    if (options & OPTION_SECOND) {
        put(disk, "t-0/00000000000000000100.log", data, text);
        put(disk, "t-0/00000000000000000100.index", index, index_size);
    }
    struct topic_config config;
    topic_config_defaults(&config);
    struct log_params params = {.disk = disk,
                                .files = files,
                                .clock = &clock_real,
                                .dir = "t-0",
                                .config = &config,
                                .recovery = (enum log_recovery)(options % 3),
                                .log_start_offset = -1,
                                .flushed_offset = flushed,
                                .high_watermark = flushed,
                                .log_end_offset = flushed};
    struct log *log = NULL;
    if (log_open(&params, &log) == 0)
        use(log, disk, options & OPTION_FIX);
    log_close(log);
    file_cache_free(files);
    fake_disk_free(fake);
    free(index);
    return 0;
}
