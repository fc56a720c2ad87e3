#include "coord/cluster.h"
#include "coord/hex.h"

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

/* What topic_id_format() writes, and nothing else: an id has one name. */
int topic_id_parse(const char *text, struct topic_id *id)
{
    char canonical[TOPIC_ID_TEXT];
    struct topic_id parsed;

    if (strlen(text) != TOPIC_ID_TEXT - 1)
        return -EINVAL;
    for (size_t i = 0; i < TOPIC_ID_BYTES; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return -EINVAL;
        parsed.bytes[i] = (uint8_t)(high * 16 + low);
    }
    topic_id_format(&parsed, canonical);
    if (strcmp(canonical, text) != 0)
        return -EINVAL;
    *id = parsed;
    return 0;
}

bool topic_id_equal(const struct topic_id *a, const struct topic_id *b)
{
    return memcmp(a->bytes, b->bytes, TOPIC_ID_BYTES) == 0;
}
