#include "replica/stamp.h"

#include "coord/coord.h"

int64_t stamp_next(int64_t last_ms, int64_t now_ms)
{
    return now_ms < last_ms && !MUTATION(MUTATE_TIME_FALLS) ? last_ms : now_ms;
}

size_t stamp_search(int64_t (*time_of)(const void *arg, size_t i), const void *arg,
                    size_t count, int64_t time_ms)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (time_of(arg, middle) < time_ms) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
