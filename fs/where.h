/*
 * `<where>`: the name of a place in a log, as in at/last5m. Parsing is pure; resolving
 * needs the partition and the time of the look-up.
 *
 *     42  42-99  last10  -10  last5m  last2h  last1d  last30s  earliest  latest
 *     2026-11-29T12:00:00Z  @1764417600
 */
#ifndef TOPICFS_WHERE_H
#define TOPICFS_WHERE_H

#include <stddef.h>
#include <stdint.h>

enum where_kind {
    WHERE_OFFSET, /* offset */
    WHERE_RANGE,  /* offset to last_offset, inclusive */
    WHERE_LAST,   /* count messages */
    WHERE_AGE,    /* age_ms before now */
    WHERE_TIME,   /* time_ms since 1970 */
    WHERE_EARLIEST,
    WHERE_LATEST,
};

struct where {
    enum where_kind kind;
    int64_t offset;
    int64_t last_offset;
    int64_t count;
    int64_t age_ms;
    int64_t time_ms;
};

/* 0, or -EINVAL. No sign, no leading zeros but "0", nothing beyond int64, first <= last
 * in a range; times are RFC 3339 in UTC with optional fraction, or with a numeric zone.
 */
int where_parse(const char *name, struct where *out);

#endif
