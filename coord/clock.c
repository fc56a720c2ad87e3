#include "coord/clock.h"

#include <time.h>

static int64_t clock_real_mono_ns(const struct clock *clock)
{
    struct timespec now;

    (void)clock;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t clock_real_wall_ms(const struct clock *clock)
{
    struct timespec now;

    (void)clock;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const struct clock clock_real = {
    .mono_ns = clock_real_mono_ns,
    .wall_ms = clock_real_wall_ms,
};
