/*
 * The target of a request line, taken apart: "/topics/orders/0?from=42&wait_ms=1000".
 *
 *     struct http_target target;
 *     rc = http_target_parse(text, &target);
 *     if (http_target_match(&target, pattern)) ... target.parts[1] ...
 *     rc = http_target_i64(&target, "max_bytes", 1, INT64_MAX, &max_bytes);
 *     http_target_free(&target);
 *
 * The path is split before it is decoded, so that an encoded slash stays inside its
 * part. Pure; any thread; one owner.
 */
#ifndef TOPICFS_HTTP_TARGET_H
#define TOPICFS_HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_TARGET_BYTES_MAX = 8192, HTTP_PARTS_MAX = 16, HTTP_ARGUMENTS_MAX = 32 };

struct http_argument {
    const char *name;
    const char *value; /* "" without "=" */
};

struct http_target {
    char *text;                        /* owned: what the pointers below point into */
    const char *parts[HTTP_PARTS_MAX]; /* of the path, decoded; "/" has none */
    size_t part_count;
    struct http_argument arguments[HTTP_ARGUMENTS_MAX];
    size_t argument_count;
};

/*
 * Takes "/path?query", or "http://host/path?query" as a proxy sends it. 0; -EINVAL (no
 * path, a bad or NUL escape, too many parts or arguments, an argument twice);
 * -ENAMETOOLONG; -ENOMEM. A slash at the end, or two in a row, are as one.
 */
int http_target_parse(const char *text, struct http_target *out);
void http_target_free(struct http_target *target); /* a zeroed one is fine */

/* `pattern` is "/literal/" parts, "*" for any one part, "**" at the end for any rest.
 */
bool http_target_match(const struct http_target *target, const char *pattern);

/* The argument's value, or NULL. Borrowed. */
const char *http_target_argument(const struct http_target *target, const char *name);

/* A decimal number in [minimum, maximum]; *out is left as it is if the argument is
 * absent. 0 or -EINVAL. */
int http_target_i64(const struct http_target *target, const char *name, int64_t minimum,
                    int64_t maximum, int64_t *out);

/* Is every argument one of these? `names` ends with NULL. The first that isn't, or
 * NULL. */
const char *http_target_unknown(const struct http_target *target,
                                const char *const *names);

/* Digits only, at least one, within the range. 0 or -EINVAL. */
int http_number(const char *text, int64_t minimum, int64_t maximum, int64_t *out);

#endif
