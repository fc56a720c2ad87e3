/*
 * Threads that were just sent to look up again (-ESTALE from OPEN): so that the look-up
 * that follows can give them a node of their own, and a second refusal in a row is
 * never made, for the kernel looks up again only once.
 *
 * A record holds for two seconds. Should more threads be refused within that time than
 * there is room for, the oldest record goes. Not thread-safe: the owner locks.
 */
#ifndef TOPICFS_REFUSALS_H
#define TOPICFS_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

enum { REFUSALS_SLOTS = 1024, REFUSALS_PROBE = 16, REFUSALS_HOLD_MS = 2000 };

struct refusals {
    struct refusal {
        int64_t thread; /* 0: free */
        int64_t time_ms;
        uint64_t inode;
    } slots[REFUSALS_SLOTS];
};

/* The thread is refused this inode. */
void refusals_note(struct refusals *refusals, int64_t thread, uint64_t inode,
                   int64_t now_ms);
/* Was it refused this inode a moment ago? */
bool refusals_has(const struct refusals *refusals, int64_t thread, uint64_t inode,
                  int64_t now_ms);
/* It got a file: its next refusal is a first one again. */
void refusals_end(struct refusals *refusals, int64_t thread);

#endif
