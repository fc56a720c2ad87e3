#include "replica/message_json.h"

#include <string.h>

static void add_base64(struct buf *out, const char *bytes, size_t length)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *b = (const uint8_t *)bytes;
    for (; length > 0; b += 3) {
        uint32_t n = (uint32_t)b[0] << 16;
        char four[4];
        if (length > 1)
            n |= (uint32_t)b[1] << 8;
        if (length > 2)
            n |= b[2];
        four[0] = digits[n >> 18];
        four[1] = digits[n >> 12 & 63];
        four[2] = '=';
        four[3] = '=';
        if (length > 1)
            four[2] = digits[n >> 6 & 63];
        if (length > 2)
            four[3] = digits[n & 63];
        (void)buf_add(out, four, sizeof four);
        length -= length > 3 ? 3 : length;
    }
}

/* ,"name":"text" or ,"name":null,"name_base64":"..." */
static void add_member(struct buf *out, const char *name, const char *bytes,
                       size_t length)
{
    (void)buf_printf(out, ",\"%s\":", name);
    if (json_utf8_valid(bytes, length)) {
        (void)json_quote(out, bytes, length);
        return;
    }
    (void)buf_printf(out, "null,\"%s_base64\":\"", name);
    add_base64(out, bytes, length);
    (void)buf_adds(out, "\"");
}

int message_json_add(struct buf *out, int32_t partition, int64_t offset,
                     int64_t timestamp_ms, const char *line, size_t length,
                     int key_delimiter)
{
    const char *delimiter = NULL;
    if (key_delimiter != KEY_DELIMITER_NONE)
        delimiter = memchr(line, key_delimiter, length);
    (void)buf_adds(out, "{");
    if (partition >= 0)
        (void)buf_printf(out, "\"partition\":%d,", (int)partition);
    (void)buf_printf(out, "\"offset\":%lld,\"timestamp\":%lld", (long long)offset,
                     (long long)timestamp_ms);
    if (delimiter == NULL) {
        (void)buf_adds(out, ",\"key\":null");
    } else {
        size_t key = (size_t)(delimiter - line);
        add_member(out, "key", line, key);
        line += key + 1;
        length -= key + 1;
    }
    add_member(out, "value", line, length);
    return buf_adds(out, "}\n");
}
