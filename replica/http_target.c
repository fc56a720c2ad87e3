#include "replica/http_target.h"

#include "coord/coord.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* In place; decoded text is never longer. */
static int decode(char *text, bool plus_is_space)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        if (*from == '%') {
            int high = hex_digit(from[1]);
            int low = high < 0 ? -1 : hex_digit(from[2]);

            if (low < 0 || high * 16 + low == 0)
                return -EINVAL;
            *to++ = (char)(high * 16 + low);
            from += 2;
        } else {
            *to++ = plus_is_space && *from == '+' ? ' ' : *from;
        }
    }
    *to = '\0';
    return 0;
}

static int parse_path(char *path, struct http_target *out)
{
    char *rest = path;
    char *part;

    while ((part = strsep(&rest, "/")) != NULL) {
        if (*part == '\0')
            continue;
        if (out->part_count == HTTP_PARTS_MAX || decode(part, false) < 0)
            return -EINVAL;
        out->parts[out->part_count++] = part;
    }
    return 0;
}

static int parse_query(char *query, struct http_target *out)
{
    char *rest = query;
    char *name;

    while ((name = strsep(&rest, "&")) != NULL) {
        char *value = strchrnul(name, '=');

        if (*name == '\0')
            continue;
        if (*value == '=')
            *value++ = '\0';
        if (out->argument_count == HTTP_ARGUMENTS_MAX || decode(name, true) < 0 ||
            decode(value, true) < 0 || http_target_argument(out, name) != NULL)
            return -EINVAL;
        out->arguments[out->argument_count++] =
            (struct http_argument){.name = name, .value = value};
    }
    return 0;
}

/* Where the path begins: behind "http://host" if the target is absolute. */
static const char *skip_authority(const char *text)
{
    if (strncasecmp(text, "http://", 7) == 0)
        return strchrnul(text + 7, '/');
    if (strncasecmp(text, "https://", 8) == 0)
        return strchrnul(text + 8, '/');
    return text;
}

int http_target_parse(const char *text, struct http_target *out)
{
    char *query;
    int rc;

    *out = (struct http_target){0};
    if (strlen(text) > HTTP_TARGET_BYTES_MAX)
        return -ENAMETOOLONG;
    text = skip_authority(text);
    if (*text != '/')
        return -EINVAL;
    out->text = strdup(text);
    if (out->text == NULL)
        return -ENOMEM;
    query = strchr(out->text, '?');
    if (query != NULL)
        *query++ = '\0';
    rc = parse_path(out->text, out);
    if (rc == 0 && query != NULL)
        rc = parse_query(query, out);
    if (rc < 0)
        http_target_free(out);
    return rc;
}

void http_target_free(struct http_target *target)
{
    free(target->text);
    *target = (struct http_target){0};
}

bool http_target_match(const struct http_target *target, const char *pattern)
{
    size_t part = 0;

    while (*pattern == '/') {
        size_t length = strcspn(++pattern, "/");

        if (length == 0)
            break;
        if (length == 2 && strncmp(pattern, "**", 2) == 0)
            return true;
        if (part == target->part_count)
            return false;
        if (!(length == 1 && *pattern == '*') &&
            (strncmp(target->parts[part], pattern, length) != 0 ||
             target->parts[part][length] != '\0'))
            return false;
        part++;
        pattern += length;
    }
    return part == target->part_count;
}

const char *http_target_argument(const struct http_target *target, const char *name)
{
    for (size_t i = 0; i < target->argument_count; i++)
        if (strcmp(target->arguments[i].name, name) == 0)
            return target->arguments[i].value;
    return NULL;
}

int http_number(const char *text, int64_t minimum, int64_t maximum, int64_t *out)
{
    int64_t value = 0;

    if (*text == '\0')
        return -EINVAL;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' ||
            __builtin_mul_overflow(value, INT64_C(10), &value) ||
            __builtin_add_overflow(value, (int64_t)(*text - '0'), &value))
            return -EINVAL;
    }
    if (value < minimum || value > maximum)
        return -EINVAL;
    *out = value;
    return 0;
}

int http_target_i64(const struct http_target *target, const char *name, int64_t minimum,
                    int64_t maximum, int64_t *out)
{
    const char *text = http_target_argument(target, name);

    return text == NULL ? 0 : http_number(text, minimum, maximum, out);
}

const char *http_target_unknown(const struct http_target *target,
                                const char *const *names)
{
    for (size_t i = 0; i < target->argument_count; i++) {
        const char *const *name = names;

        while (*name != NULL && strcmp(*name, target->arguments[i].name) != 0)
            name++;
        if (*name == NULL)
            return target->arguments[i].name;
    }
    return NULL;
}
