#include "replica/recover_segment.h"

#include "replica/compact_core.h"
#include "replica/verify.h"

#include <stdlib.h>
#include <string.h>

/* ---- loading --------------------------------------------------------------- */

static int load_text(struct recover_segment *found)
{
    struct segment *segment = found->segment;
    struct file_cache_file *text = NULL;
    int rc = segment_pin_text(segment, &text);
    if (rc == -ENOENT)
        return 0;
    struct disk_stat st = {0};
    if (rc == 0)
        rc = segment->home->disk->ops->stat(segment->home->disk, text->fd, &st);
    found->has_text = rc == 0;
    found->text_size = st.size;
    segment_unpin(segment, text);
    return rc;
}

static int load_header(struct recover_segment *found, int file)
{
    const struct segment_home *home = found->segment->home;
    uint8_t bytes[INDEX_HEADER_BYTES];
    struct index_header header;
    int rc = disk_read_all(home->disk, file, bytes, sizeof bytes, 0);
    if (rc == -ENODATA)
        return 0;
    if (rc == 0)
        rc = index_header_decode(bytes, &header);
    if (rc == E_CORRUPT)
        return 0;
    if (rc != 0)
        return rc;
    found->header_good = header.base_offset == found->segment->base_offset &&
                         topic_id_equal(&header.topic_id, &home->topic_id);
    if (!found->header_good)
        return 0;
    found->base_position = header.base_position;
    if (header.flags & INDEX_COMPACTED)
        found->segment->flags |= SEGMENT_COMPACTED;
    if (compact_is_clean(header.flags))
        found->segment->flags |= SEGMENT_CLEAN;
    return 0;
}

/* Where the last good entry ends. A broken index is searched backwards, block by block.
 */
static int load_last_entry(struct recover_segment *found, int file)
{
    struct index_reader reader;
    struct batch batch;
    index_reader_init(&reader, found->segment->home->disk, file,
                      found->segment->base_offset, found->entries);
    if (found->entries > 0) {
        int rc = index_reader_get(&reader, 0, &batch);
        if (rc != 0 && rc != E_DAMAGED)
            return rc;
        if (rc == 0)
            found->first_timestamp_ms = batch.timestamp_ms;
    }
    for (int64_t i = (int64_t)found->entries - 1; i >= 0; i--) {
        int rc = index_reader_get(&reader, (uint32_t)i, &batch);
        if (rc == 0) {
            found->end_offset = batch.base_offset + batch.message_count;
            found->end_position = batch.position + batch.length;
            found->last_timestamp_ms = batch.timestamp_ms;
            return 0;
        }
        if (rc != E_DAMAGED)
            return rc;
        found->last_bad = true;
    }
    return 0;
}

static int load_index(struct recover_segment *found)
{
    struct segment *segment = found->segment;
    struct file_cache_file *index = NULL;
    int rc = segment_pin_index(segment, &index);
    if (rc == -ENOENT)
        return 0;
    struct disk_stat st = {0};
    if (rc == 0)
        rc = segment->home->disk->ops->stat(segment->home->disk, index->fd, &st);
    found->has_index = rc == 0;
    found->index_size = st.size;
    if (rc == 0)
        rc = load_header(found, index->fd);
    int64_t entries = (found->index_size - INDEX_HEADER_BYTES) / INDEX_ENTRY_BYTES;
    if (rc == 0 && found->header_good && entries > 0) {
        found->entries = entries > UINT32_MAX ? UINT32_MAX : (uint32_t)entries;
        rc = load_last_entry(found, index->fd);
    }
    segment_unpin(segment, index);
    return rc;
}

int recover_segment_load(struct segment_home *home, int64_t base_offset,
                         struct recover_segment *out)
{
    *out = (struct recover_segment){.end_offset = base_offset,
                                    .last_timestamp_ms = INT64_MIN};
    out->segment = segment_new(home, base_offset);
    if (out->segment == NULL)
        return -ENOMEM;
    int rc = load_text(out);
    if (rc == 0)
        rc = load_index(out);
    if (rc != 0)
        recover_segment_release(out);
    return rc;
}

void recover_segment_release(struct recover_segment *found)
{
    segment_unref(found->segment);
    found->segment = NULL;
}

bool recover_segment_sizes_agree(const struct recover_segment *found)
{
    return found->has_text && found->header_good && !found->last_bad &&
           found->text_size == found->end_position &&
           found->index_size == index_entry_at(found->entries);
}

/* ---- walking --------------------------------------------------------------- */

struct walk {
    struct recover_segment *found;
    struct index_reader *reader;
    struct verify *verify; /* NULL: entries only */
    int64_t limit;
    void (*report)(void *arg, int64_t first_offset, int64_t end_offset);
    void *arg;
    bool bad_open; /* unreadable entries since bad_first */
    int64_t bad_first;
    bool compacted;
};

static bool continues(const struct walk *walk, const struct batch *batch)
{
    const struct recover_segment *found = walk->found;
    if (batch->position != found->end_position ||
        batch->timestamp_ms < found->last_timestamp_ms)
        return false;
    return walk->compacted ? batch->base_offset >= found->end_offset
                           : batch->base_offset == found->end_offset;
}

static void advance(struct walk *walk, const struct batch *batch)
{
    walk->found->end_offset = batch->base_offset + batch->message_count;
    walk->found->end_position = batch->position + batch->length;
    walk->found->last_timestamp_ms = batch->timestamp_ms;
}

/* One entry. 0: go on; 1: cut here; a negative errno. */
static int walk_entry(struct walk *walk, uint32_t i)
{
    struct recover_segment *found = walk->found;
    struct batch batch;
    int rc = index_reader_get(walk->reader, i, &batch);
    if (rc == 0 && !walk->bad_open && !continues(walk, &batch))
        rc = E_DAMAGED;
    bool entry_good = rc == 0;
    if (rc == 0 && walk->verify != NULL)
        rc = verify_batch(walk->verify, &batch);
    if (rc != 0 && rc != E_DAMAGED)
        return rc;
    if (rc == E_DAMAGED && found->end_offset >= walk->limit)
        return 1;
    if (entry_good && walk->bad_open) {
        walk->report(walk->arg, walk->bad_first, batch.base_offset);
        walk->bad_open = false;
    }
    if (entry_good) {
        if (rc == E_DAMAGED)
            walk->report(walk->arg, batch.base_offset,
                         batch.base_offset + batch.message_count);
        advance(walk, &batch);
    } else if (!walk->bad_open) {
        walk->bad_open = true;
        walk->bad_first = found->end_offset;
    }
    return 0;
}

/* Sets the end to what stands before entry i. */
static int rewind_to(struct walk *walk, int64_t from_offset, uint32_t *first)
{
    struct recover_segment *found = walk->found;
    struct index_spot spot = {.low = -1, .high = 0};
    struct batch batch;
    int rc = 0;
    if (from_offset > found->segment->base_offset)
        rc = index_search(walk->reader, INDEX_BY_OFFSET, from_offset - 1, &spot);
    if (rc != 0)
        return rc;
    *first = (uint32_t)(spot.low + 1);
    found->end_offset = found->segment->base_offset;
    found->end_position = 0;
    found->last_timestamp_ms = INT64_MIN;
    if (spot.low < 0)
        return 0;
    rc = index_reader_get(walk->reader, (uint32_t)spot.low, &batch);
    if (rc == 0)
        advance(walk, &batch);
    if (rc == 0 && found->end_offset > from_offset) {
        /* The batch that holds from_offset itself is to be checked as well. */
        *first = (uint32_t)spot.low;
        found->end_offset = batch.base_offset;
        found->end_position = batch.position;
    }
    return rc;
}

static int walk_all(struct walk *walk, int64_t from_offset)
{
    struct recover_segment *found = walk->found;
    uint32_t i = 0;
    int rc = rewind_to(walk, from_offset, &i);
    for (; rc == 0 && i < found->entries; i++)
        rc = walk_entry(walk, i);
    if (rc == 1) {
        found->cut = true;
        found->cut_entries = i - 1;
        rc = 0;
    }
    found->last_bad = walk->bad_open;
    if (rc == 0 && walk->bad_open) {
        walk->report(walk->arg, walk->bad_first, INT64_MAX);
        /* Unreadable entries that reach up to the cut stay: their range is damaged. */
        found->cut = false;
    }
    return rc;
}

int recover_segment_walk(
    struct recover_segment *found, int64_t from_offset, int64_t limit, bool text,
    void (*report)(void *arg, int64_t first_offset, int64_t end_offset), void *arg)
{
    struct segment *segment = found->segment;
    struct file_cache_file *text_file = NULL;
    struct file_cache_file *index = NULL;
    struct verify verify = {0};
    struct index_reader reader;
    int rc = segment_pin_text(segment, &text_file);
    if (rc == 0)
        rc = segment_pin_index(segment, &index);
    if (rc == 0 && text)
        rc = verify_open(&verify, segment->home->disk, text_file->fd);
    if (rc == 0) {
        index_reader_init(&reader, segment->home->disk, index->fd, segment->base_offset,
                          found->entries);
        struct walk walk = {.found = found,
                            .reader = &reader,
                            .verify = text ? &verify : NULL,
                            .limit = limit,
                            .report = report,
                            .arg = arg,
                            .compacted = (segment->flags & SEGMENT_COMPACTED) != 0};
        rc = walk_all(&walk, from_offset);
    }
    verify_close(&verify);
    segment_unpin(segment, index);
    segment_unpin(segment, text_file);
    return rc;
}

int recover_segment_count_lines(const struct recover_segment *found, int64_t at,
                                int64_t *lines)
{
    struct segment *segment = found->segment;
    const struct disk *disk = segment->home->disk;
    struct file_cache_file *text = NULL;
    *lines = 0;
    int rc = segment_pin_text(segment, &text);
    if (rc != 0)
        return rc;
    char bytes[16 * 1024];
    ssize_t got;
    while ((got = disk->ops->pread(disk, text->fd, bytes, sizeof bytes, at)) > 0) {
        for (ssize_t i = 0; i < got; i++)
            *lines += bytes[i] == '\n';
        at += got;
    }
    segment_unpin(segment, text);
    return got < 0 ? (int)got : 0;
}
