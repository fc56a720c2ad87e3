/*
 * A clock that a test can put forward: as another one, and a bit more.
 *
 *     struct later_clock clock;
 *     later_clock_init(&clock, &clock_real);
 *     ... .clock = &clock.clock ...
 *     later_clock_add(&clock, 5000);
 *
 * Any thread.
 */
#ifndef TOPICFS_TEST_LATER_CLOCK_H
#define TOPICFS_TEST_LATER_CLOCK_H

#include "coord/coord.h"

#include <stdatomic.h>

struct later_clock {
    struct clock clock;       /* first */
    const struct clock *base; /* [const] borrowed */
    _Atomic int64_t ahead_ns;
};

void later_clock_init(struct later_clock *clock, const struct clock *base);
void later_clock_add(struct later_clock *clock, int64_t ms);

#endif
