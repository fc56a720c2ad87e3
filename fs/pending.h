/*
 * The part of a line that waits in an open file for its newline: bytes and who wrote
 * the last of them. Moves by struct assignment; one owner. Not thread-safe.
 */
#ifndef TOPICFS_PENDING_H
#define TOPICFS_PENDING_H

#include <stddef.h>
#include <stdint.h>

struct pending {
    char *data;
    size_t length;
    size_t capacity; /* one byte more than length at least, where there is data */
    uint64_t owner;  /* FUSE lock owner of the last writer */
};

/* Makes room for `more` bytes and a newline behind length. 0 or -ENOMEM. */
int pending_reserve(struct pending *pending, size_t more);
/* Writes behind length without changing it; the room must be there. Returns data. */
const char *pending_join(struct pending *pending, const char *bytes, size_t length);
/* Becomes these bytes (not its own). 0, or -ENOMEM and unchanged. */
int pending_set(struct pending *pending, const char *bytes, size_t length,
                uint64_t owner);
int pending_copy(const struct pending *pending, struct pending *out);
void pending_clear(struct pending *pending); /* keeps the memory */
void pending_free(struct pending *pending);

#endif
