/*
 * The times of messages. A batch gets its time from the leader's clock, but along a log
 * they never fall, whatever the clocks of its leaders do: so they can be searched, and
 * what is found is the first message at or after a time.
 *
 *     batch.timestamp_ms = stamp_next(last_ms, clock->wall_ms(clock));
 *     i = stamp_search(time_of, list, count, time_ms);
 *
 * Pure.
 */
#ifndef TOPICFS_STAMP_H
#define TOPICFS_STAMP_H

#include <stddef.h>
#include <stdint.h>

/* For what is appended behind a batch of last_ms (INT64_MIN: nothing is there). */
int64_t stamp_next(int64_t last_ms, int64_t now_ms);

/* How many of `count` items, whose times never fall, are older than time_ms. */
size_t stamp_search(int64_t (*time_of)(const void *arg, size_t i), const void *arg,
                    size_t count, int64_t time_ms);

#endif
