#include "coord/settings_parse.h"

#include "coord/err.h"

#include <stdlib.h>
#include <string.h>

/* What the text forms of numbers multiply by; 0: no such unit. */
static int64_t settings_unit(enum setting_type type, const char *unit)
{
    static const struct {
        enum setting_type type;
        const char *unit;
        int64_t factor;
    } units[] = {
        {SETTING_SIZE, "k", 1024},
        {SETTING_SIZE, "K", 1024},
        {SETTING_SIZE, "m", 1024 * 1024},
        {SETTING_SIZE, "M", 1024 * 1024},
        {SETTING_SIZE, "g", 1024 * 1024 * 1024},
        {SETTING_SIZE, "G", 1024 * 1024 * 1024},
        {SETTING_TIME, "ms", 1},
        {SETTING_TIME, "s", 1000},
        {SETTING_TIME, "m", 60 * 1000},
        {SETTING_TIME, "h", 60 * 60 * 1000},
        {SETTING_TIME, "d", 24 * 60 * 60 * 1000},
    };

    if (!*unit)
        return 1;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (units[i].type == type && strcmp(units[i].unit, unit) == 0)
            return units[i].factor;
    return 0;
}

static int settings_parse_number(const struct setting *setting, const char *value,
                                 int64_t *out, const struct why *why)
{
    const char *digits = value + (*value == '-');
    size_t length = strspn(digits, "0123456789");
    int64_t factor = settings_unit(setting->type, digits + length);
    int64_t number;

    if (length == 0 || factor == 0)
        return why_malformed(why, setting, value);
    errno = 0;
    number = strtoll(value, NULL, 10);
    if (errno || __builtin_mul_overflow(number, factor, &number))
        return why_range(why, setting, value, *value == '-');
    if (number < setting->minimum || number > setting->maximum)
        return why_range(why, setting, value, number < setting->minimum);
    *out = number;
    return 0;
}

static bool settings_parse_name(const struct setting *setting, const char *value,
                                size_t length, int64_t *out)
{
    if (!setting->names)
        return false;
    for (const struct setting_name *name = setting->names; name->name; name++) {
        if (strlen(name->name) == length && memcmp(name->name, value, length) == 0) {
            *out = name->value;
            return true;
        }
    }
    return false;
}

/* One or more of the names, with , or + between (a comma ends a mount option). */
static int settings_parse_set(const struct setting *setting, const char *value,
                              int64_t *out, const struct why *why)
{
    int64_t set = 0;

    for (const char *at = value;;) {
        size_t length = strcspn(at, ",+");
        int64_t bit;

        if (!settings_parse_name(setting, at, length, &bit))
            return why_malformed(why, setting, value);
        set |= bit;
        if (!at[length])
            break;
        at += length + 1;
    }
    *out = set;
    return 0;
}

int settings_parse(const struct setting *setting, const char *value, int64_t *out,
                   const struct why *why)
{
    if (strlen(value) > SETTINGS_VALUE_BYTES)
        return why_malformed(why, setting, value);
    if (setting->type == SETTING_CLEANUP)
        return settings_parse_set(setting, value, out, why);
    if (settings_parse_name(setting, value, strlen(value), out))
        return 0;
    if (setting->type == SETTING_CHOICE)
        return why_malformed(why, setting, value);
    if (setting->type != SETTING_DELIMITER)
        return settings_parse_number(setting, value, out, why);

    unsigned char byte = (unsigned char)value[0];
    if (value[1] || byte > setting->maximum || byte == '\n')
        return why_malformed(why, setting, value);
    *out = byte;
    return 0;
}
