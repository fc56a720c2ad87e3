#include "replica/segment.h"
#include "replica/verify.h"

static int batch_end_offset(struct index_reader *reader, int64_t i, int64_t *out)
{
    struct batch batch;
    int rc = index_reader_get(reader, (uint32_t)i, &batch);
    if (rc == 0)
        *out = batch.base_offset + batch.message_count;
    return rc;
}

int segment_bad_range(const struct segment_view *view, struct index_reader *reader,
                      const struct index_spot *spot, struct segment_bad *bad)
{
    struct batch batch;
    int rc = 0;
    bad->first_offset = view->segment->base_offset;
    bad->end_offset = view->end_offset;
    if (spot->low >= 0)
        rc = batch_end_offset(reader, spot->low, &bad->first_offset);
    if (rc == 0 && spot->high < reader->count) {
        rc = index_reader_get(reader, (uint32_t)spot->high, &batch);
        if (rc == 0)
            bad->end_offset = batch.base_offset;
    }
    return rc;
}

/*
 * Compares batch after batch from the one that holds `at` until `end` is covered.
 * *from and *until: what was found good, whole batches.
 */
static int check_batches(const struct segment_view *view, struct index_reader *reader,
                         struct verify *verify, int64_t at, int64_t end, int64_t *from,
                         int64_t *until, struct segment_bad *bad)
{
    struct index_spot spot;
    int rc = index_search(reader, INDEX_BY_POSITION, at, &spot);
    if (rc != 0)
        return rc;
    struct batch batch = {0};
    if (spot.low >= 0)
        rc = index_reader_get(reader, (uint32_t)spot.low, &batch);
    if (rc == 0 && batch.position + batch.length <= at)
        return segment_bad_range(view, reader, &spot, bad) == 0 ? E_DAMAGED : -EIO;

    *from = *until = batch.position;
    for (int64_t i = spot.low; rc == 0 && *until < end && i < reader->count; i++) {
        rc = index_reader_get(reader, (uint32_t)i, &batch);
        if (rc == 0 && batch.position != *until)
            rc = E_DAMAGED;
        if (rc == 0)
            rc = verify_batch(verify, &batch);
        if (rc == 0)
            *until = batch.position + batch.length;
        else
            *bad = (struct segment_bad){.first_offset = batch.base_offset,
                                        .end_offset =
                                            batch.base_offset + batch.message_count};
    }
    /* The good ones before a bad one are served. */
    return rc == E_DAMAGED && *until > at ? 0 : rc;
}

static int check_with(const struct segment_view *view, struct file_cache_file *text,
                      struct file_cache_file *index, struct verify_map *map,
                      int64_t stamp, int64_t at, size_t *length,
                      struct segment_bad *bad)
{
    const struct disk *disk = view->segment->home->disk;
    struct index_reader reader;
    struct verify verify;
    index_reader_init(&reader, disk, index->fd, view->segment->base_offset,
                      view->entry_count);
    int64_t from, until;
    int64_t end = at + (int64_t)*length;
    int rc = verify_open(&verify, disk, text->fd);
    if (rc == 0)
        rc = check_batches(view, &reader, &verify, at, end, &from, &until, bad);
    verify_close(&verify);
    if (rc != 0)
        return rc;
    verify_map_checked(map, stamp, from, until, until == view->text_size);
    if (until < end)
        *length = (size_t)(until - at);
    return 0;
}

int segment_check(const struct segment_view *view, struct file_cache_file *text,
                  int64_t at, size_t *length, struct segment_bad *bad)
{
    struct segment *segment = view->segment;
    const struct disk *disk = segment->home->disk;
    struct disk_stat st;
    int rc = disk->ops->stat(disk, text->fd, &st);
    if (rc != 0)
        return rc;
    struct verify_map *map = verify_map_of(text);
    if (map == NULL)
        return -ENOMEM;
    int64_t stamp = (view->flags & SEGMENT_CLOSED) ? st.ctime_ns : VERIFY_LIVE;
    bool whole = at + (int64_t)*length <= st.size;
    if (whole && verify_map_has(map, stamp, at, (int64_t)*length))
        return 0;

    struct file_cache_file *index = NULL;
    rc = segment_pin_index(segment, &index);
    if (rc == 0)
        rc = check_with(view, text, index, map, stamp, at, length, bad);
    segment_unpin(segment, index);
    return rc;
}
