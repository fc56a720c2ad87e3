/*
 * Time as an argument. The real clock, and what tests put in its place.
 *
 * mono_ns is CLOCK_BOOTTIME (goes on during suspend): for deadlines. wall_ms is
 * CLOCK_REALTIME since 1970: for timestamps of messages. Any thread.
 */
#ifndef TOPICFS_CLOCK_H
#define TOPICFS_CLOCK_H

#include <stdint.h>

struct clock {
    int64_t (*mono_ns)(const struct clock *clock);
    int64_t (*wall_ms)(const struct clock *clock);
};

extern const struct clock clock_real;

static inline int64_t clock_mono_ms(const struct clock *clock)
{
    return clock->mono_ns(clock) / 1000000;
}

#endif
