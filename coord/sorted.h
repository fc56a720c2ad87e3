/* Where something is in a sorted array, or belongs. Pure; any thread. */
#ifndef TOPICFS_SORTED_H
#define TOPICFS_SORTED_H

#include <stdbool.h>
#include <stddef.h>

/* < 0, 0, > 0: the item comes before what has the key, is it, comes behind it. */
typedef int sorted_compare_fn(const void *item, const void *key);

/* As bsearch(3), but tells the index, and where nothing is found the one at which it is
 * to be inserted. An item is what stands in the array, which may be a pointer. */
size_t sorted_place(const void *items, size_t count, size_t item_bytes, const void *key,
                    sorted_compare_fn *compare, bool *found);

#endif
