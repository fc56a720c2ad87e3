#include "replica/partitioner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint32_t partitioner_murmur2(const void *bytes, size_t length)
{
    static const uint32_t m = 0x5bd1e995;
    const uint8_t *data = bytes;
    uint32_t h = 0x9747b28c ^ (uint32_t)length;
    for (; length >= 4; data += 4, length -= 4) {
        uint32_t k = (uint32_t)data[0] | (uint32_t)data[1] << 8 |
                     (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        k *= m;
        k ^= k >> 24;
        k *= m;
        h *= m;
        h ^= k;
    }
    if (length >= 3)
        h ^= (uint32_t)data[2] << 16;
    if (length >= 2)
        h ^= (uint32_t)data[1] << 8;
    if (length >= 1) {
        h ^= data[0];
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    h ^= h >> 15;
    return h;
}

int32_t partitioner_of_key(const void *key, size_t length, int32_t partitions)
{
    return (int32_t)(partitioner_murmur2(key, length) & 0x7fffffff) % partitions;
}

int64_t partitioner_key(const char *line, size_t length, int delimiter)
{
    const char *found = delimiter < 0 ? NULL : memchr(line, delimiter, length);
    return found != NULL ? found - line : -1;
}

static int32_t partition_of_line(const char *line, size_t length, int delimiter,
                                 int32_t partitions, int32_t keyless)
{
    int64_t key = partitioner_key(line, length, delimiter);
    return key < 0 ? keyless : partitioner_of_key(line, (size_t)key, partitions);
}

static const char *line_end(const char *line, const char *end)
{
    return (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
}

/* Each line's partition into `of_line`, and the sizes into slots[partition]. */
static void assign(const char *bytes, size_t length, int delimiter, int32_t partitions,
                   int32_t keyless, int32_t *of_line, struct partitioner_batch *slots)
{
    const char *end = bytes + length;
    for (const char *line = bytes; line < end;) {
        const char *next = line_end(line, end);
        int32_t p = partition_of_line(line, (size_t)(next - line) - 1, delimiter,
                                      partitions, keyless);
        slots[p].length += (size_t)(next - line);
        slots[p].count++;
        *of_line++ = p;
        line = next;
    }
}

/* Copies the lines to where `cursors` say for their partitions. */
static void scatter(const char *bytes, size_t length, const int32_t *of_line,
                    char **cursors)
{
    const char *end = bytes + length;
    for (const char *line = bytes; line < end;) {
        const char *next = line_end(line, end);
        size_t n = (size_t)(next - line);
        /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.ArraySubscript) */
        char **cursor = &cursors[*of_line++];
        memcpy(*cursor, line, n);
        *cursor += n;
        line = next;
    }
}

/* Drops the empty slots; gives the others their places in `copy`. */
static size_t lay_out(struct partitioner_batch *slots, int32_t partitions, char *copy,
                      char **cursors)
{
    size_t used = 0;
    for (int32_t p = 0; p < partitions; p++) {
        if (slots[p].count == 0)
            continue;
        cursors[p] = copy;
        slots[used] = slots[p];
        slots[used].partition = p;
        slots[used].bytes = copy;
        copy += slots[used].length;
        used++;
    }
    return used;
}

int partitioner_split(const char *bytes, size_t length, uint32_t lines, int delimiter,
                      int32_t partitions, int32_t keyless,
                      struct partitioner_split *out)
{
    int rc = -ENOMEM;
    int32_t *of_line = malloc((lines + 1ULL) * sizeof *of_line);
    char **cursors = calloc((size_t)partitions, sizeof *cursors);
    struct partitioner_batch *slots = calloc((size_t)partitions, sizeof *slots);
    char *copy = malloc(length + 1);
    *out = (struct partitioner_split){0};
    if (of_line == NULL || cursors == NULL || slots == NULL || copy == NULL)
        goto out;
    assign(bytes, length, delimiter, partitions, keyless, of_line, slots);
    out->count = lay_out(slots, partitions, copy, cursors);
    if (out->count == 1) {
        slots[0].bytes = bytes;
    } else {
        scatter(bytes, length, of_line, cursors);
        out->copy = copy;
        copy = NULL;
    }
    out->batches = slots;
    slots = NULL;
    rc = 0;
out:
    free(copy);
    free(slots);
    free(cursors);
    free(of_line);
    return rc;
}

void partitioner_free(struct partitioner_split *split)
{
    free(split->batches);
    free(split->copy);
    *split = (struct partitioner_split){0};
}
