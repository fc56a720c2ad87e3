#include "coord/settings_why.h"

#include "coord/err.h"
#include "coord/json.h"
#include "coord/settings_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    WHY_TEXT_BYTES = 1024,
    WHY_NAME_MAX = 64,
};

/* Makes it one line of valid UTF-8, whatever was printed into it and wherever it was
 * cut. */
static void why_clean(char *text)
{
    size_t length = strlen(text);
    size_t cut = length;

    while (cut > 0 && length - cut < 3 && ((unsigned char)text[cut - 1] & 0xC0) == 0x80)
        cut--;
    if (cut > 0 && !json_utf8_valid(text, length) &&
        (unsigned char)text[cut - 1] >= 0xC0 && json_utf8_valid(text, cut - 1))
        text[cut - 1] = '\0';
    bool valid = json_utf8_valid(text, strlen(text));
    for (char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;

        if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !valid))
            *c = '?';
    }
}

int why_set(const struct why *why, int code, const char *format, ...)
{
    va_list args;

    if (!why->text || why->size == 0)
        return code;
    va_start(args, format);
    int n = vsnprintf(why->text, why->size, format, args);
    va_end(args);
    if (n < 0)
        why->text[0] = '\0';
    why_clean(why->text);
    return code;
}

static size_t why_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The edit distance (Levenshtein) of two names of at most WHY_NAME_MAX bytes. */
static size_t why_distance(const char *a, const char *b)
{
    size_t row[WHY_NAME_MAX + 1];
    size_t length = strlen(b);

    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            size_t replaced = diagonal + (a[i] != b[j]);

            diagonal = row[j + 1];
            row[j + 1] = why_least(replaced, why_least(row[j], diagonal) + 1);
        }
    }
    return row[length];
}

/* The name of the scope that is closest to `name`, or NULL where none is near. */
static const char *why_closest(enum setting_scope scope, const char *name)
{
    size_t count;
    const struct setting *table = settings_table(scope, &count);
    size_t length = strnlen(name, WHY_NAME_MAX + 1);
    size_t best = length / 3 + 1;
    const char *closest = NULL;

    if (length < 3 || length > WHY_NAME_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t distance = why_distance(name, table[i].name);

        /* "retention" for "retention_ms" */
        if (strncmp(name, table[i].name, length) == 0)
            distance = 1;
        if (distance < best || (distance == best && !closest)) {
            best = distance;
            closest = table[i].name;
        }
    }
    return closest;
}

int why_unknown(const struct why *why, enum setting_scope scope, const char *name)
{
    const char *closest = why_closest(scope, name);

    if (!closest && scope == SETTING_MOUNT)
        closest = why_closest(SETTING_TOPIC, name);
    if (!closest && scope == SETTING_MOUNT)
        closest = why_closest(SETTING_GROUP, name);
    if (closest)
        return why_set(why, E_INVALID_CONFIG,
                       "%.64s: unknown setting; did you mean %s?", name, closest);
    return why_set(why, E_INVALID_CONFIG, "%.64s: unknown setting", name);
}

static const char *why_wrong(const struct setting *setting)
{
    switch (setting->type) {
    case SETTING_INTEGER:
        return "is not an integer";
    case SETTING_SIZE:
        return "is not a size";
    case SETTING_TIME:
        return "is not a time";
    case SETTING_DELIMITER:
        return "is not one byte of ASCII";
    case SETTING_CHOICE:
    case SETTING_CLEANUP:
        return "is unknown";
    case SETTING_STRING:
        break;
    }
    return "is malformed";
}

static int why_forms(struct buf *out, const struct setting *setting)
{
    switch (setting->type) {
    case SETTING_INTEGER:
        return buf_adds(out, "an integer");
    case SETTING_SIZE:
        return buf_adds(out, "bytes, or a number with k, m or g");
    case SETTING_TIME:
        return buf_adds(out, "milliseconds, or a number with ms, s, m, h or d");
    case SETTING_CHOICE:
        return 0;
    case SETTING_CLEANUP:
        return buf_adds(out, ", or both as delete,compact");
    case SETTING_DELIMITER:
        return buf_adds(out, "or one byte of ASCII but newline");
    case SETTING_STRING:
        return buf_adds(out, setting->allowed);
    }
    return 0;
}

static void why_example(struct buf *out, const struct setting *setting)
{
    bool number = setting->type == SETTING_SIZE || setting->type == SETTING_TIME;

    if (!number)
        return;
    /* A default such as -1 or false shows nothing of the form. */
    if (setting->initial > 0) {
        buf_adds(out, ", for example ");
        setting_add_value(out, setting, setting->initial);
    } else {
        buf_adds(out, setting->type == SETTING_SIZE ? ", for example 10g"
                                                    : ", for example 30s");
    }
}

static int why_finish(const struct why *why, const struct setting *setting,
                      const char *value, const char *wrong, struct buf *allowed)
{
    int rc = buf_error(allowed) == -ENOMEM ? -ENOMEM : E_INVALID_CONFIG;

    if (rc == E_INVALID_CONFIG)
        why_set(why, rc, "%s: %.64s%s %s; allowed: %s", setting->name,
                *value ? value : "an empty value", strlen(value) > 64 ? "..." : "",
                wrong, allowed->data ? allowed->data : "");
    buf_free(allowed);
    return rc;
}

int why_malformed(const struct why *why, const struct setting *setting,
                  const char *value)
{
    struct buf allowed;

    buf_init(&allowed, WHY_TEXT_BYTES);
    setting_add_names(&allowed, setting, "");
    why_forms(&allowed, setting);
    why_example(&allowed, setting);
    return why_finish(why, setting, value, why_wrong(setting), &allowed);
}

int why_range(const struct why *why, const struct setting *setting, const char *value,
              bool too_small)
{
    struct buf allowed;

    buf_init(&allowed, WHY_TEXT_BYTES);
    setting_add_names(&allowed, setting, "");
    setting_add_number(&allowed, setting,
                       too_small ? setting->minimum : setting->maximum);
    buf_adds(&allowed, too_small ? " or more" : " or less");
    why_example(&allowed, setting);
    return why_finish(why, setting, value, "is out of range", &allowed);
}
