/* A small seeded generator (splitmix64): the same seed, the same run, on any machine.
 */
#ifndef TOPICFS_SIM_PRNG_H
#define TOPICFS_SIM_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct prng {
    uint64_t state;
};

static inline uint64_t prng_next(struct prng *prng)
{
    uint64_t z = (prng->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* 0 .. bound-1; bound > 0 */
static inline uint32_t prng_below(struct prng *prng, uint32_t bound)
{
    return (uint32_t)(((prng_next(prng) >> 32) * (uint64_t)bound) >> 32);
}

/* low .. high, both included */
static inline int64_t prng_between(struct prng *prng, int64_t low, int64_t high)
{
    return low + (int64_t)prng_below(prng, (uint32_t)(high - low + 1));
}

/* true with a probability of n in 1000 */
static inline bool prng_permille(struct prng *prng, uint32_t n)
{
    return prng_below(prng, 1000) < n;
}

#endif
