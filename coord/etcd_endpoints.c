#include "coord/etcd_endpoints.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ETCD_DEFAULT_PORT = 2379 };

/* Replaces %XX. NULL and errno EINVAL: malformed, or a NUL byte. */
static char *decode_percent(const char *text, size_t length)
{
    char *out = malloc(length + 1);
    size_t at = 0;

    for (size_t i = 0; out && i < length; i++) {
        char c = text[i];
        if (c == '%') {
            char hex[3] = {i + 2 < length ? text[i + 1] : 'x',
                           i + 2 < length ? text[i + 2] : 'x', '\0'};
            if (!isxdigit((unsigned char)hex[0]) || !isxdigit((unsigned char)hex[1]) ||
                strcmp(hex, "00") == 0) {
                free(out);
                errno = EINVAL;
                return NULL;
            }
            c = (char)strtoul(hex, NULL, 16);
            i += 2;
        }
        out[at++] = c;
    }
    if (out)
        out[at] = '\0';
    else
        errno = ENOMEM;
    return out;
}

static int parse_user(const char *text, size_t length, struct etcd_endpoints *out)
{
    const char *colon = memchr(text, ':', length);
    size_t user_length = colon ? (size_t)(colon - text) : length;

    if (user_length == 0)
        return -EINVAL;
    out->user = decode_percent(text, user_length);
    if (!out->user)
        return -errno;
    if (!colon)
        return 0;
    out->password = decode_percent(colon + 1, length - user_length - 1);
    return out->password ? 0 : -errno;
}

/* Whether these are a host's characters. */
static bool host_is_good(const char *host, size_t length)
{
    bool bracketed = length > 2 && host[0] == '[' && host[length - 1] == ']';

    if (bracketed) {
        host++;
        length -= 2;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)host[i];
        if (!isalnum(c) && !strchr(bracketed ? ":.%" : ".-_", c))
            return false;
    }
    return length > 0;
}

/* "host", "host:port", "[::1]", "[::1]:port". */
static int parse_endpoint(const char *text, size_t length, struct etcd_endpoints *out)
{
    const char *bracket = memchr(text, ']', length);
    const char *from = bracket ? bracket : text;
    const char *colon = memchr(from, ':', length - (size_t)(from - text));
    size_t host_length = colon ? (size_t)(colon - text) : length;
    long port = ETCD_DEFAULT_PORT;

    if (colon) {
        char digits[6] = "", *end;
        size_t n = length - host_length - 1;
        if (n == 0 || n >= sizeof(digits) || !isdigit((unsigned char)colon[1]))
            return -EINVAL;
        memcpy(digits, colon + 1, n);
        port = strtol(digits, &end, 10);
        if (*end != '\0' || port < 1 || port > 65535)
            return -EINVAL;
    }
    if (!host_is_good(text, host_length))
        return -EINVAL;
    if (asprintf(&out->urls[out->count], "http%s://%.*s:%ld", out->tls ? "s" : "",
                 (int)host_length, text, port) < 0) {
        out->urls[out->count] = NULL;
        return -ENOMEM;
    }
    out->count++;
    return 0;
}

static int parse_list(const char *text, struct etcd_endpoints *out, char *why,
                      size_t why_size)
{
    for (;;) {
        size_t length = strcspn(text, ",");
        int rc = out->count < ETCD_ENDPOINTS_MAX ? parse_endpoint(text, length, out)
                                                 : -E2BIG;
        if (rc == -E2BIG)
            snprintf(why, why_size, "more than %d etcd endpoints", ETCD_ENDPOINTS_MAX);
        else if (rc != 0)
            snprintf(why, why_size, "\"%.*s\" is no host[:port] of an etcd endpoint",
                     (int)length, text);
        if (rc != 0)
            return rc == -E2BIG ? -EINVAL : rc;
        if (text[length] == '\0')
            return 0;
        text += length + 1;
    }
}

int etcd_endpoints_parse(const char *text, struct etcd_endpoints *out, char *why,
                         size_t why_size)
{
    int rc = 0;

    *out = (struct etcd_endpoints){0};
    if (strncmp(text, "etcds://", 8) == 0) {
        out->tls = true;
        text += 8;
    } else if (strncmp(text, "etcd://", 7) == 0) {
        text += 7;
    } else {
        snprintf(why, why_size, "etcd's endpoints begin with etcd:// or etcds://");
        return -EINVAL;
    }
    const char *at = strrchr(text, '@');
    if (at) {
        rc = parse_user(text, (size_t)(at - text), out);
        if (rc != 0)
            snprintf(why, why_size, "malformed user or password before the \"@\"");
        text = at + 1;
    }
    if (rc == 0)
        rc = parse_list(text, out, why, why_size);
    if (rc != 0)
        etcd_endpoints_free(out);
    return rc;
}

void etcd_endpoints_free(struct etcd_endpoints *endpoints)
{
    for (unsigned i = 0; i < endpoints->count; i++)
        free(endpoints->urls[i]);
    free(endpoints->user);
    if (endpoints->password)
        explicit_bzero(endpoints->password, strlen(endpoints->password));
    free(endpoints->password);
    *endpoints = (struct etcd_endpoints){0};
}
