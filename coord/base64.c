#include "coord/base64.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_encode(struct buf *out, const void *bytes, size_t length)
{
    const unsigned char *in = bytes;

    for (size_t i = 0; i < length; i += 3) {
        size_t n = length - i < 3 ? length - i : 3;
        unsigned group = (unsigned)in[i] << 16;
        char text[4];
        if (n > 1)
            group |= (unsigned)in[i + 1] << 8;
        if (n > 2)
            group |= in[i + 2];
        for (int digit = 0; digit < 4; digit++)
            text[digit] = base64_digits[group >> (18 - 6 * digit) & 63];
        memset(text + n + 1, '=', 3 - n);
        if (buf_add(out, text, sizeof(text)) != 0)
            break;
    }
    return buf_error(out);
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

int base64_decode(const char *text, char **out, size_t *length)
{
    size_t n = strlen(text), padding = 0, at = 0;

    *out = NULL;
    if (n % 4 != 0)
        return -EBADMSG;
    while (padding < 2 && padding < n && text[n - 1 - padding] == '=')
        padding++;
    char *bytes = malloc(n / 4 * 3 + 1);
    if (!bytes)
        return -ENOMEM;
    for (size_t i = 0; i < n; i += 4) {
        size_t digits = i + 4 == n ? 4 - padding : 4;
        unsigned group = 0;
        for (size_t j = 0; j < 4; j++) {
            int value = j < digits ? base64_value(text[i + j]) : 0;
            if (value < 0) {
                free(bytes);
                return -EBADMSG;
            }
            group = group << 6 | (unsigned)value;
        }
        for (size_t j = 0; j + 1 < digits; j++)
            bytes[at++] = (char)(group >> (16 - 8 * j) & 0xFF);
    }
    bytes[at] = '\0';
    *out = bytes;
    *length = at;
    return 0;
}
