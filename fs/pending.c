#include "fs/pending.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int pending_reserve(struct pending *pending, size_t more)
{
    size_t need = pending->length + more + 1;
    size_t capacity = pending->capacity < 256 ? 256 : pending->capacity;
    char *data;
    if (need <= pending->capacity)
        return 0;
    while (capacity < need)
        capacity *= 2;
    data = realloc(pending->data, capacity);
    if (data == NULL)
        return -ENOMEM;
    pending->data = data;
    pending->capacity = capacity;
    return 0;
}

const char *pending_join(struct pending *pending, const char *bytes, size_t length)
{
    memcpy(pending->data + pending->length, bytes, length);
    return pending->data;
}

int pending_set(struct pending *pending, const char *bytes, size_t length,
                uint64_t owner)
{
    if (length > 0) {
        if (length + 1 > pending->capacity &&
            pending_reserve(pending, length - pending->length) < 0)
            return -ENOMEM;
        memmove(pending->data, bytes, length);
    }
    pending->length = length;
    pending->owner = owner;
    return 0;
}

int pending_copy(const struct pending *pending, struct pending *out)
{
    *out = (struct pending){0};
    return pending_set(out, pending->data, pending->length, pending->owner);
}

void pending_clear(struct pending *pending)
{
    pending->length = 0;
}

void pending_free(struct pending *pending)
{
    free(pending->data);
    *pending = (struct pending){0};
}
