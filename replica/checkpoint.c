#include "replica/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { SUM_LINE = 4 + 16 + 1 };

#define CHECKPOINT_MAGIC  "topicfs-checkpoint "
#define CHECKPOINT_HEADER CHECKPOINT_MAGIC "1\n"

void checkpoint_free(struct checkpoint *checkpoint)
{
    free(checkpoint->entries);
    *checkpoint = (struct checkpoint){0};
}

int checkpoint_add(struct checkpoint *checkpoint, const struct checkpoint_entry *entry)
{
    if (checkpoint->count == checkpoint->allocated) {
        size_t allocated = checkpoint->allocated ? checkpoint->allocated * 2 : 16;
        struct checkpoint_entry *entries =
            realloc(checkpoint->entries, allocated * sizeof entries[0]);
        if (!entries) {
            return -ENOMEM;
        }
        checkpoint->entries = entries;
        checkpoint->allocated = allocated;
    }
    checkpoint->entries[checkpoint->count++] = *entry;
    checkpoint->sorted = false;
    return 0;
}

static int compare_entries(const void *a, const void *b)
{
    const struct checkpoint_entry *left = a;
    const struct checkpoint_entry *right = b;
    int order = memcmp(&left->topic_id, &right->topic_id, sizeof left->topic_id);
    return order ? order
                 : (left->partition > right->partition) -
                       (left->partition < right->partition);
}

static void sort_entries(struct checkpoint *checkpoint)
{
    if (checkpoint->sorted) {
        return; /* found in by several threads: nothing may be written then */
    }
    if (checkpoint->count) {
        qsort(checkpoint->entries, checkpoint->count, sizeof checkpoint->entries[0],
              compare_entries);
    }
    checkpoint->sorted = true;
}

const struct checkpoint_entry *checkpoint_find(struct checkpoint *checkpoint,
                                               const struct topic_id *topic_id,
                                               int32_t partition)
{
    if (checkpoint->count == 0) {
        return NULL;
    }
    sort_entries(checkpoint);
    const struct checkpoint_entry key = {.topic_id = *topic_id, .partition = partition};
    return bsearch(&key, checkpoint->entries, checkpoint->count,
                   sizeof checkpoint->entries[0], compare_entries);
}

int checkpoint_encode(const struct checkpoint *checkpoint, struct buf *out)
{
    buf_adds(out, CHECKPOINT_HEADER);
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct checkpoint_entry *entry = &checkpoint->entries[i];
        char id[TOPIC_ID_TEXT];
        topic_id_format(&entry->topic_id, id);
        buf_printf(out, "%s %d %lld %lld %lld %lld %s", id, entry->partition,
                   (long long)entry->log_start_offset, (long long)entry->flushed_offset,
                   (long long)entry->high_watermark, (long long)entry->log_end_offset,
                   entry->topic);
        if (entry->start_epoch >= 0) {
            buf_printf(out, " %d", entry->start_epoch);
        }
        buf_adds(out, "\n");
    }
    if (buf_error(out)) {
        return buf_error(out);
    }
    return buf_printf(out, "sum %016" PRIx64 "\n", XXH3_64bits(out->data, out->length));
}

static int decode_line(const char *line, size_t length, struct checkpoint_entry *entry)
{
    char text[TOPIC_NAME_MAX + 256];
    char id[TOPIC_ID_TEXT];
    if (length >= sizeof text) {
        return E_CORRUPT;
    }
    memcpy(text, line, length);
    text[length] = '\0';
    entry->start_epoch = -1;
    int fields = sscanf(text, /* NOLINT(cert-err34-c): the checksum was verified */
                        "%32s %" SCNd32 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
                        " %249s %" SCNd32,
                        id, &entry->partition, &entry->log_start_offset,
                        &entry->flushed_offset, &entry->high_watermark,
                        &entry->log_end_offset, entry->topic, &entry->start_epoch);
    return (fields == 7 || fields == 8) && topic_id_parse(id, &entry->topic_id) == 0
               ? 0
               : E_CORRUPT;
}

static int check_frame(const char *bytes, size_t length)
{
    if (length < sizeof CHECKPOINT_MAGIC - 1 ||
        memcmp(bytes, CHECKPOINT_MAGIC, sizeof CHECKPOINT_MAGIC - 1) != 0) {
        return E_CORRUPT;
    }
    if (length < sizeof CHECKPOINT_HEADER - 1 + SUM_LINE || bytes[length - 1] != '\n') {
        return E_CORRUPT;
    }
    char expected[SUM_LINE + 1];
    size_t body = length - SUM_LINE;
    (void)snprintf(expected, sizeof expected, "sum %016" PRIx64 "\n",
                   XXH3_64bits(bytes, body));
    if (memcmp(expected, bytes + body, SUM_LINE) != 0) {
        return E_CORRUPT;
    }
    bool known = memcmp(bytes, CHECKPOINT_HEADER, sizeof CHECKPOINT_HEADER - 1) == 0;
    return known ? 0 : E_NEWER_FORMAT;
}

int checkpoint_decode(struct checkpoint *checkpoint, const char *bytes, size_t length)
{
    checkpoint_free(checkpoint);
    int rc = check_frame(bytes, length);
    if (rc) {
        return rc;
    }
    const char *line = bytes + sizeof CHECKPOINT_HEADER - 1;
    const char *end = bytes + length - SUM_LINE;
    while (!rc && line < end) {
        struct checkpoint_entry entry = {0};
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        rc = newline ? decode_line(line, (size_t)(newline - line), &entry) : E_CORRUPT;
        rc = rc ? rc : checkpoint_add(checkpoint, &entry);
        line = newline ? newline + 1 : end;
    }
    if (rc) {
        checkpoint_free(checkpoint);
    }
    sort_entries(checkpoint);
    return rc;
}

int checkpoint_read(struct checkpoint *checkpoint, const struct disk *disk,
                    const char *path)
{
    char *bytes = NULL;
    size_t length = 0;
    int rc = disk_slurp(disk, path, CHECKPOINT_MAX_BYTES, &bytes, &length);
    rc = rc ? rc : checkpoint_decode(checkpoint, bytes, length);
    free(bytes);
    return rc;
}
