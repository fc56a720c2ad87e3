#include "coord/json.h"

#include "coord/err.h"
#include "coord/hex.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * cJSON alone is too lenient (it takes NUL bytes, duplicate keys, raw control
 * characters, malformed UTF-8 and numbers such as 01) and can't tell "malformed" from
 * "not complete yet". So the text is scanned first by a strict RFC 8259 reader that
 * answers 0, -EAGAIN or E_INVALID_JSON; cJSON then builds the tree of what is known to
 * be good.
 */
enum {
    JSON_MAX_BYTES = 1024 * 1024,
    JSON_MAX_DEPTH = 32,
    JSON_MAX_NUMBER = 63,
};

#define JSON_EXACT_MAX 9007199254740992.0 /* 2^53 */

struct json_scan {
    const char *at;
    const char *end;
};

static bool json_more(const struct json_scan *scan)
{
    return scan->at < scan->end;
}

static void json_skip_space(struct json_scan *scan)
{
    while (json_more(scan) && (*scan->at == ' ' || *scan->at == '\t' ||
                               *scan->at == '\n' || *scan->at == '\r'))
        scan->at++;
}

static int json_scan_literal(struct json_scan *scan, const char *literal)
{
    for (; *literal; literal++) {
        if (!json_more(scan))
            return -EAGAIN;
        if (*scan->at++ != *literal)
            return E_INVALID_JSON;
    }
    return 0;
}

/*
 * The four digits after \u. Where `low` a low surrogate (DC00 to DFFF) must be there,
 * else none may be; the first two digits tell, so that no hopeless prefix is "not
 * complete".
 */
static int json_scan_hex(struct json_scan *scan, bool low, unsigned *out)
{
    unsigned value = 0;

    for (int i = 0; i < 4; i++) {
        if (!json_more(scan))
            return -EAGAIN;
        int digit = hex_digit(*scan->at++);
        if (digit < 0 || (low && i == 0 && digit != 0xD))
            return E_INVALID_JSON;
        value = value * 16 + (unsigned)digit;
        if (i == 1 && (value >= 0xDC && value <= 0xDF) != low)
            return E_INVALID_JSON;
    }
    *out = value;
    return 0;
}

/* What follows a backslash. */
static int json_scan_escape(struct json_scan *scan)
{
    unsigned unit;

    if (!json_more(scan))
        return -EAGAIN;
    char c = *scan->at++;
    if (c != 'u')
        return c != '\0' && strchr("\"\\/bfnrt", c) ? 0 : E_INVALID_JSON;
    int rc = json_scan_hex(scan, false, &unit);
    if (rc)
        return rc;
    /* The tree's strings end at a NUL. */
    if (unit == 0)
        return E_INVALID_JSON;
    if (unit < 0xD800 || unit > 0xDBFF)
        return 0;
    rc = json_scan_literal(scan, "\\u");
    return rc ? rc : json_scan_hex(scan, true, &unit);
}

/*
 * One UTF-8 sequence (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).
 * -EAGAIN if it is cut short but good so far.
 */
static int json_scan_utf8(struct json_scan *scan)
{
    unsigned char first = (unsigned char)*scan->at++;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    int follow;

    if (first < 0x80)
        return 0;
    if (first >= 0xC2 && first <= 0xDF)
        follow = 1;
    else if (first >= 0xE0 && first <= 0xEF)
        follow = 2;
    else if (first >= 0xF0 && first <= 0xF4)
        follow = 3;
    else
        return E_INVALID_JSON;
    if (first == 0xE0)
        low = 0xA0;
    else if (first == 0xED)
        high = 0x9F;
    else if (first == 0xF0)
        low = 0x90;
    else if (first == 0xF4)
        high = 0x8F;

    while (follow-- > 0) {
        if (!json_more(scan))
            return -EAGAIN;
        unsigned char c = (unsigned char)*scan->at++;
        if (c < low || c > high)
            return E_INVALID_JSON;
        low = 0x80;
        high = 0xBF;
    }
    return 0;
}

/* From the opening quote to behind the closing one. */
static int json_scan_string(struct json_scan *scan)
{
    scan->at++;
    while (json_more(scan)) {
        unsigned char c = (unsigned char)*scan->at;
        int rc;

        if (c == '"') {
            scan->at++;
            return 0;
        }
        if (c < 0x20)
            return E_INVALID_JSON;
        if (c == '\\') {
            scan->at++;
            rc = json_scan_escape(scan);
        } else {
            rc = json_scan_utf8(scan);
        }
        if (rc)
            return rc;
    }
    return -EAGAIN;
}

/* One digit or more. */
static int json_scan_digits(struct json_scan *scan)
{
    if (!json_more(scan))
        return -EAGAIN;
    if (*scan->at < '0' || *scan->at > '9')
        return E_INVALID_JSON;
    while (json_more(scan) && *scan->at >= '0' && *scan->at <= '9')
        scan->at++;
    return 0;
}

static int json_scan_number_parts(struct json_scan *scan)
{
    int rc;

    if (*scan->at == '-')
        scan->at++;
    if (json_more(scan) && *scan->at == '0') {
        scan->at++;
    } else {
        rc = json_scan_digits(scan);
        if (rc)
            return rc;
    }
    if (json_more(scan) && *scan->at == '.') {
        scan->at++;
        rc = json_scan_digits(scan);
        if (rc)
            return rc;
    }
    if (json_more(scan) && (*scan->at == 'e' || *scan->at == 'E')) {
        scan->at++;
        if (json_more(scan) && (*scan->at == '+' || *scan->at == '-'))
            scan->at++;
        return json_scan_digits(scan);
    }
    return 0;
}

static int json_scan_number(struct json_scan *scan)
{
    const char *start = scan->at;
    int rc = json_scan_number_parts(scan);

    /* cJSON reads no more than this of a number. */
    return scan->at - start > JSON_MAX_NUMBER ? E_INVALID_JSON : rc;
}

static int json_scan_scalar(struct json_scan *scan)
{
    switch (*scan->at) {
    case '"':
        return json_scan_string(scan);
    case 't':
        return json_scan_literal(scan, "true");
    case 'f':
        return json_scan_literal(scan, "false");
    case 'n':
        return json_scan_literal(scan, "null");
    default:
        return json_scan_number(scan);
    }
}

/* White space, a key, and its colon. */
static int json_scan_key(struct json_scan *scan)
{
    json_skip_space(scan);
    if (!json_more(scan))
        return -EAGAIN;
    if (*scan->at != '"')
        return E_INVALID_JSON;
    int rc = json_scan_string(scan);
    if (rc)
        return rc;
    json_skip_space(scan);
    if (!json_more(scan))
        return -EAGAIN;
    return *scan->at++ == ':' ? 0 : E_INVALID_JSON;
}

/*
 * After a value: closes what ends here, up to the next place where a value begins (0
 * and *depth > 0) or the end of the outermost value (0 and *depth == 0).
 */
static int json_scan_after(struct json_scan *scan, const char *closers, int *depth)
{
    while (*depth > 0) {
        char closer = closers[*depth - 1];

        json_skip_space(scan);
        if (!json_more(scan))
            return -EAGAIN;
        char c = *scan->at++;
        if (c == ',')
            return closer == '}' ? json_scan_key(scan) : 0;
        if (c != closer)
            return E_INVALID_JSON;
        (*depth)--;
    }
    return 0;
}

/*
 * A bracket was read: *empty tells whether its closer follows at once; otherwise the
 * scan stands where the first value begins.
 */
static int json_scan_open(struct json_scan *scan, char closer, bool *empty)
{
    json_skip_space(scan);
    if (!json_more(scan))
        return -EAGAIN;
    *empty = *scan->at == closer;
    if (*empty) {
        scan->at++;
        return 0;
    }
    return closer == '}' ? json_scan_key(scan) : 0;
}

static int json_scan_value(struct json_scan *scan)
{
    char closers[JSON_MAX_DEPTH];
    int depth = 0;

    do {
        int rc;

        json_skip_space(scan);
        if (!json_more(scan))
            return -EAGAIN;
        if (*scan->at == '{' || *scan->at == '[') {
            bool empty;

            if (depth == JSON_MAX_DEPTH)
                return E_INVALID_JSON;
            closers[depth++] = *scan->at++ == '{' ? '}' : ']';
            rc = json_scan_open(scan, closers[depth - 1], &empty);
            if (rc)
                return rc;
            if (!empty)
                continue;
            depth--;
        } else {
            rc = json_scan_scalar(scan);
            if (rc)
                return rc;
        }
        rc = json_scan_after(scan, closers, &depth);
        if (rc)
            return rc;
    } while (depth > 0);
    return 0;
}

static int json_scan(const char *bytes, size_t length)
{
    struct json_scan scan = {.at = bytes, .end = bytes + length};
    int rc = json_scan_value(&scan);

    if (rc)
        return rc;
    json_skip_space(&scan);
    return json_more(&scan) ? E_INVALID_JSON : 0;
}

static int json_compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* 0, E_INVALID_JSON if two keys of `object` are equal once unescaped, -ENOMEM. */
static int json_check_keys(const cJSON *object)
{
    int count = cJSON_GetArraySize(object);
    int used = 0;
    int rc = 0;
    const cJSON *item;

    if (count < 2)
        return 0;
    const char **keys = calloc((size_t)count, sizeof *keys);
    if (!keys)
        return -ENOMEM;
    cJSON_ArrayForEach(item, object) keys[used++] = item->string;
    qsort(keys, (size_t)used, sizeof *keys, json_compare_keys);
    for (int i = 1; i < used && rc == 0; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            rc = E_INVALID_JSON;
    free(keys);
    return rc;
}

/* The depth is bounded by the scan. */
static int json_check_tree(const cJSON *item)
{
    const cJSON *child;
    int rc = cJSON_IsObject(item) ? json_check_keys(item) : 0;

    if (rc)
        return rc;
    cJSON_ArrayForEach(child, item)
    {
        rc = json_check_tree(child);
        if (rc)
            return rc;
    }
    return 0;
}

int json_parse(const char *bytes, size_t length, cJSON **out)
{
    return json_parse_long(bytes, length, JSON_MAX_BYTES, out);
}

int json_parse_long(const char *bytes, size_t length, size_t max_bytes, cJSON **out)
{
    const char *end;

    *out = NULL;
    if (length > max_bytes)
        return E_INVALID_JSON;
    int rc = json_scan(bytes, length);
    /* More bytes would be too many. */
    if (rc == -EAGAIN && length == max_bytes)
        rc = E_INVALID_JSON;
    if (rc)
        return rc;
    cJSON *tree = cJSON_ParseWithLengthOpts(bytes, length, &end, 0);
    if (!tree)
        return -ENOMEM;
    rc = json_check_tree(tree);
    if (rc) {
        cJSON_Delete(tree);
        return rc;
    }
    *out = tree;
    return 0;
}

static int json_i64_text(const char *text, int64_t *out)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    char *end;

    /* strtoll() would take white space and a plus sign, too. */
    if (digits[0] < '0' || digits[0] > '9')
        return E_INVALID_JSON;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end)
        return E_INVALID_JSON;
    *out = value;
    return 0;
}

int json_i64(const cJSON *item, int64_t *out)
{
    /* Raw is what json_add_i64() makes. */
    if (cJSON_IsString(item) || cJSON_IsRaw(item))
        return json_i64_text(item->valuestring, out);
    if (!cJSON_IsNumber(item))
        return E_INVALID_JSON;
    double value = item->valuedouble;
    /* 2^53 itself is refused: 2^53 + 1 has become the same double. */
    if (!(value > -JSON_EXACT_MAX && value < JSON_EXACT_MAX) ||
        (double)(int64_t)value != value)
        return E_INVALID_JSON;
    *out = (int64_t)value;
    return 0;
}

int json_get_i64(const cJSON *object, const char *key, int64_t *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    return item ? json_i64(item, out) : -ENOENT;
}

int json_add_i64(cJSON *object, const char *key, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    return cJSON_AddRawToObject(object, key, text) ? 0 : -ENOMEM;
}

static int json_quote_byte(struct buf *buf, char c)
{
    switch (c) {
    case '"':
        return buf_adds(buf, "\\\"");
    case '\\':
        return buf_adds(buf, "\\\\");
    case '\b':
        return buf_adds(buf, "\\b");
    case '\f':
        return buf_adds(buf, "\\f");
    case '\n':
        return buf_adds(buf, "\\n");
    case '\r':
        return buf_adds(buf, "\\r");
    case '\t':
        return buf_adds(buf, "\\t");
    default:
        return buf_printf(buf, "\\u%04x", (unsigned char)c);
    }
}

int json_quote(struct buf *buf, const char *bytes, size_t length)
{
    size_t start = 0;

    buf_adds(buf, "\"");
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];

        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F)
            continue;
        buf_add(buf, bytes + start, i - start);
        json_quote_byte(buf, bytes[i]);
        start = i + 1;
    }
    buf_add(buf, bytes + start, length - start);
    return buf_adds(buf, "\"");
}

int json_utf8_valid(const char *bytes, size_t length)
{
    struct json_scan scan = {.at = bytes, .end = bytes + length};

    while (json_more(&scan))
        if (json_scan_utf8(&scan))
            return 0;
    return 1;
}
