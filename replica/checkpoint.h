/*
 * The checkpoint: for every partition of this node the offsets that recovery starts
 * from, in one small text file that is replaced as a whole, with a checksum. It is a
 * hint that may be old; lost or damaged, recovery checks more and knows less about lost
 * files.
 *
 *     topicfs-checkpoint 1
 *     <topic id> <partition> <log start> <flushed> <high watermark> <log end> <name>
 *         [<leader epoch of what lies before the log start>]
 *     sum <XXH3 of all lines before, 16 hex digits>
 *
 * One owner. Kafka keeps the same in recovery-point-offset-checkpoint,
 * replication-offset-checkpoint and log-start-offset-checkpoint.
 */
#ifndef TOPICFS_CHECKPOINT_H
#define TOPICFS_CHECKPOINT_H

#include "coord/coord.h"
#include "replica/disk.h"

enum { CHECKPOINT_MAX_BYTES = 256 << 20 };

struct checkpoint_entry {
    struct topic_id topic_id;
    int32_t partition;
    int64_t log_start_offset;
    int64_t flushed_offset;
    int64_t high_watermark;
    int64_t log_end_offset;
    int32_t start_epoch; /* of what lies before log_start_offset; -1: unknown */
    char topic[TOPIC_NAME_MAX + 1];
};

struct checkpoint {
    struct checkpoint_entry *entries;
    size_t count;
    size_t allocated;
    bool sorted;
};

void checkpoint_free(struct checkpoint *checkpoint);
int checkpoint_add(struct checkpoint *checkpoint, const struct checkpoint_entry *entry);
/* NULL if there is none; borrowed. Sorts what was added since; after decode or read it
 * changes nothing and may run on any thread. */
const struct checkpoint_entry *checkpoint_find(struct checkpoint *checkpoint,
                                               const struct topic_id *topic_id,
                                               int32_t partition);

/* Pure. decode: 0, E_CORRUPT, E_NEWER_FORMAT, -ENOMEM. */
int checkpoint_encode(const struct checkpoint *checkpoint, struct buf *out);
int checkpoint_decode(struct checkpoint *checkpoint, const char *bytes, size_t length);

/* read: as decode, or -ENOENT and other negative errnos. */
int checkpoint_read(struct checkpoint *checkpoint, const struct disk *disk,
                    const char *path);

#endif
