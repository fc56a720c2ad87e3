/*
 * Reads a chunk for a member of a group: whole lines of one partition, with offsets
 * that follow each other without a gap.
 *
 *     struct chunk_place place = {.position = p, .offset = o, .rewrites = r};
 *     rc = group_chunk_read(partition, &place, max_bytes, false, &out, &chunk);
 *     if (!rc && chunk.count > 0) ... place is behind the chunk now ...
 *
 * Reads the disk; any thread, no lock.
 */
#ifndef TOPICFS_GROUP_CHUNK_H
#define TOPICFS_GROUP_CHUNK_H

#include "replica/groups.h"

struct chunk_place {
    int64_t position; /* where a line begins, or the end */
    int64_t offset;   /* of that line; or of one before, if it begins a batch */
    uint64_t rewrites;
};

/*
 * Appends to `out` about max_bytes, but at least one line; `one_batch`: of one batch
 * alone. Sets all of the chunk but partition and generation; count 0: nothing is there
 * now. An error of partition_read(): nothing was appended, and the place is as it was.
 */
int group_chunk_read(struct partition *partition, struct chunk_place *place,
                     size_t max_bytes, bool one_batch, struct buf *out,
                     struct group_chunk *chunk);

#endif
