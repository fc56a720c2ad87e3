/*
 * What can be written to offsets/<topic>/<p>: a place in the log, a step from the
 * committed offset, or that nothing is committed.
 *
 *     rc = group_offset_parse(bytes, length, now_ms, &offset);
 *
 *     42  earliest  latest  last10  last5m  2026-11-29T12:00:00Z  @1764417600
 *     +3  -3   from the committed offset
 *     none     forgets it: the group's `start` counts again
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_GROUP_OFFSET_H
#define TOPICFS_GROUP_OFFSET_H

#include "replica/replica.h"

enum group_offset_kind { GROUP_OFFSET_PLACE, GROUP_OFFSET_STEP, GROUP_OFFSET_NONE };

struct group_offset {
    enum group_offset_kind kind;
    enum groups_place_kind place; /* GROUP_OFFSET_PLACE */
    int64_t value;                /* of the place, or the step */
};

/* White space around it is passed over. now_ms: the wall clock, for ages. 0 or -EINVAL.
 */
int group_offset_parse(const char *bytes, size_t length, int64_t now_ms,
                       struct group_offset *out);

/* The offset that a step leads to. -EINVAL: nothing is committed, or below 0. */
int group_offset_step(int64_t committed, int64_t step, int64_t *out);

#endif
