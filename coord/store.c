#include "coord/store.h"

#include <stdlib.h>

void store_list_free(struct store_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].key);
        free(list->items[i].value);
    }
    free(list->items);
    *list = (struct store_list){0};
}
