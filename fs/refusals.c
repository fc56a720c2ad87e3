#include "fs/refusals.h"

#include <stddef.h>

static size_t refusals_slot(int64_t thread, size_t probe)
{
    return ((size_t)thread + probe) % REFUSALS_SLOTS;
}

/* The thread's record, or NULL. */
static const struct refusal *refusals_find(const struct refusals *refusals,
                                           int64_t thread)
{
    for (size_t i = 0; i < REFUSALS_PROBE; i++) {
        const struct refusal *slot = &refusals->slots[refusals_slot(thread, i)];
        if (slot->thread == thread)
            return slot;
    }
    return NULL;
}

void refusals_note(struct refusals *refusals, int64_t thread, uint64_t inode,
                   int64_t now_ms)
{
    struct refusal *oldest = NULL;
    for (size_t i = 0; i < REFUSALS_PROBE; i++) {
        struct refusal *slot = &refusals->slots[refusals_slot(thread, i)];
        if (slot->thread == thread) {
            oldest = slot;
            break;
        }
        if (oldest == NULL || (oldest->thread != 0 && slot->thread == 0) ||
            (oldest->thread != 0 && slot->time_ms < oldest->time_ms))
            oldest = slot;
    }
    *oldest = (struct refusal){.thread = thread, .time_ms = now_ms, .inode = inode};
}

bool refusals_has(const struct refusals *refusals, int64_t thread, uint64_t inode,
                  int64_t now_ms)
{
    const struct refusal *slot = refusals_find(refusals, thread);
    return slot != NULL && slot->inode == inode &&
           now_ms - slot->time_ms < REFUSALS_HOLD_MS;
}

void refusals_end(struct refusals *refusals, int64_t thread)
{
    struct refusal *slot = (struct refusal *)refusals_find(refusals, thread);
    if (slot != NULL)
        *slot = (struct refusal){0};
}
