#include "coord/cluster.h"
#include "coord/err.h"

#include <string.h>

bool topic_name_is_internal(const char *name)
{
    return strncmp(name, "__", 2) == 0;
}

int topic_name_check(const char *name)
{
    size_t length = strlen(name);

    if (length == 0 || length > TOPIC_NAME_MAX || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0)
        return E_INVALID_NAME;
    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                     "0123456789._-") != length)
        return E_INVALID_NAME;
    return 0;
}
