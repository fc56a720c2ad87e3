#include "replica/message_json.h"

#include <string.h>

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
    (void)base64_encode(out, bytes, length);
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
