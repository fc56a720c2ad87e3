#include "tests/unit/support/later_clock.h"

static int64_t ahead_ns(const struct clock *clock)
{
    return atomic_load(&((struct later_clock *)(void *)(uintptr_t)clock)->ahead_ns);
}

static int64_t later_mono(const struct clock *clock)
{
    const struct clock *base = ((const struct later_clock *)clock)->base;
    return base->mono_ns(base) + ahead_ns(clock);
}

static int64_t later_wall(const struct clock *clock)
{
    const struct clock *base = ((const struct later_clock *)clock)->base;
    return base->wall_ms(base) + ahead_ns(clock) / 1000000;
}

void later_clock_init(struct later_clock *clock, const struct clock *base)
{
    clock->clock = (struct clock){later_mono, later_wall};
    clock->base = base;
    atomic_init(&clock->ahead_ns, 0);
}

void later_clock_add(struct later_clock *clock, int64_t ms)
{
    atomic_fetch_add(&clock->ahead_ns, ms * 1000000);
}
