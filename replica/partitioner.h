/*
 * Which partition a line belongs to, as Kafka's default partitioner decides: a keyed
 * one by murmur2 of its key, those without a key together, to a partition that the
 * caller names (a different one for each write). Pure; any thread.
 *
 *     rc = partitioner_split(bytes, length, lines, delimiter, partitions, keyless,
 * &split); for each of split.batches: append batch.bytes to batch.partition
 *     partitioner_free(&split);
 */
#ifndef TOPICFS_PARTITIONER_H
#define TOPICFS_PARTITIONER_H

#include <stddef.h>
#include <stdint.h>

/* Kafka's Utils.murmur2. */
uint32_t partitioner_murmur2(const void *bytes, size_t length);

/* Kafka's toPositive(murmur2(key)) % partitions. */
int32_t partitioner_of_key(const void *key, size_t length, int32_t partitions);

/* The key's length: the bytes before the first delimiter; -1 if the line has none, or
 * delimiter is KEY_DELIMITER_NONE. An empty key is a key. */
int64_t partitioner_key(const char *line, size_t length, int delimiter);

struct partitioner_batch {
    int32_t partition;
    uint32_t count;
    size_t length;
    const char *bytes;
};

struct partitioner_split {
    struct partitioner_batch *batches; /* by partition, each once */
    size_t count;
    char *copy; /* private: the bytes in the batches' order; NULL: one batch, not copied
                 */
};

/* `bytes` are `lines` whole lines, borrowed while the split is in use. 0 or -ENOMEM. */
int partitioner_split(const char *bytes, size_t length, uint32_t lines, int delimiter,
                      int32_t partitions, int32_t keyless,
                      struct partitioner_split *out);
void partitioner_free(struct partitioner_split *split);

#endif
