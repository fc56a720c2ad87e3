#include "coord/sorted.h"

size_t sorted_place(const void *items, size_t count, size_t item_bytes, const void *key,
                    sorted_compare_fn *compare, bool *found)
{
    size_t low = 0, high = count;

    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare((const char *)items + middle * item_bytes, key);

        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
