#include "coord/settings_text.h"

const char *setting_name_of(const struct setting *setting, int64_t value)
{
    if (setting->names)
        for (const struct setting_name *name = setting->names; name->name; name++)
            if (name->value == value && !name->alias)
                return name->name;
    return NULL;
}

static int setting_add_in_units(struct buf *out, int64_t value,
                                const struct setting_name *units)
{
    for (; units->name; units++)
        if (value > 0 && value % units->value == 0)
            return buf_printf(out, "%lld%s", (long long)(value / units->value),
                              units->name);
    return buf_printf(out, "%lld", (long long)value);
}

int setting_add_number(struct buf *out, const struct setting *setting, int64_t value)
{
    static const struct setting_name sizes[] = {
        {"g", GIB, false}, {"m", MIB, false}, {"k", KIB, false}, {NULL, 0, false}};
    static const struct setting_name times[] = {
        {"d", DAY_MS, false},    {"h", HOUR_MS, false}, {"m", 60 * SECOND_MS, false},
        {"s", SECOND_MS, false}, {"ms", 1, false},      {NULL, 0, false}};

    if (setting->type == SETTING_SIZE)
        return setting_add_in_units(out, value, sizes);
    if (setting->type == SETTING_TIME)
        return setting_add_in_units(out, value, times);
    return buf_printf(out, "%lld", (long long)value);
}

int setting_add_value(struct buf *out, const struct setting *setting, int64_t value)
{
    const char *name = setting_name_of(setting, value);

    if (name)
        return buf_adds(out, name);
    if (setting->type == SETTING_DELIMITER)
        return buf_printf(out, "%c", (char)value);
    if (setting->type != SETTING_CLEANUP)
        return setting_add_number(out, setting, value);
    for (const struct setting_name *bit = setting->names; bit->name; bit++)
        if (value & bit->value)
            buf_printf(out, "%s%s", bit == setting->names ? "" : ",", bit->name);
    return buf_error(out);
}

int setting_add_names(struct buf *out, const struct setting *setting, const char *quote)
{
    bool only = setting->type == SETTING_CHOICE || setting->type == SETTING_CLEANUP;
    size_t count = 0;
    size_t at = 0;

    if (!setting->names)
        return 0;
    for (const struct setting_name *name = setting->names; name->name; name++)
        count += !name->alias;
    for (const struct setting_name *name = setting->names; name->name; name++) {
        if (name->alias)
            continue;
        if (at > 0)
            buf_adds(out, only && at + 1 == count ? " or " : ", ");
        buf_printf(out, "%s%s%s", quote, name->name, quote);
        at++;
    }
    return only ? buf_error(out) : buf_adds(out, ", ");
}
