#include "coord/cluster.h"

#include <errno.h>
#include <string.h>

void topic_id_format(const struct topic_id *id, char text[TOPIC_ID_TEXT])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < TOPIC_ID_BYTES; i++) {
        text[2 * i] = digits[id->bytes[i] >> 4];
        text[2 * i + 1] = digits[id->bytes[i] & 15];
    }
    text[TOPIC_ID_TEXT - 1] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

int topic_id_parse(const char *text, struct topic_id *id)
{
    if (strlen(text) != TOPIC_ID_TEXT - 1)
        return -EINVAL;
    for (size_t i = 0; i < TOPIC_ID_BYTES; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return -EINVAL;
        id->bytes[i] = (uint8_t)(high * 16 + low);
    }
    return 0;
}

bool topic_id_equal(const struct topic_id *a, const struct topic_id *b)
{
    return memcmp(a->bytes, b->bytes, TOPIC_ID_BYTES) == 0;
}
