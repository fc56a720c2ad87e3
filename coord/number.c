#include "coord/number.h"

#include <errno.h>

int number_parse(const char *text, int64_t maximum, int64_t *out)
{
    int64_t value = 0;

    if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
        return -EINVAL;
    for (const char *at = text; *at != '\0'; at++) {
        int digit = *at - '0';

        if (digit < 0 || digit > 9 || digit > maximum || value > (maximum - digit) / 10)
            return -EINVAL;
        value = value * 10 + digit;
    }
    *out = value;
    return 0;
}
