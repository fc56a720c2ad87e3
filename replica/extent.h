/*
 * An extent: a run of log bytes that lies in one file, pinned so that the file stays
 * open until extent_release(). The bytes were checked against their checksums, and stay
 * as they are while the extent is held: a segment is never cut below the high
 * watermark.
 *
 * Owner: whoever asked for it. Any thread.
 */
#ifndef TOPICFS_EXTENT_H
#define TOPICFS_EXTENT_H

#include <stddef.h>
#include <stdint.h>

struct segment;

struct extent {
    int fd;           /* for pread, splice or sendfile */
    int64_t at;       /* offset in that file */
    size_t length;    /* may be less than asked: an extent ends with its segment */
    int64_t position; /* log position of the first byte */
    struct segment *segment; /* pin; private */
};

/* Copies all of it. 0; -errno; E_DAMAGED: the file is shorter than that. */
int extent_read(const struct extent *extent, void *out);
void extent_release(struct extent *extent); /* also accepts a released or empty one */

#endif
