/*
 * The texts that tell what is wrong with a setting and what is allowed. Private to
 * coord/settings*.c.
 *
 *     return why_range(&why, setting, "-5", true);
 *
 * Each function writes the one text and returns E_INVALID_CONFIG, or -ENOMEM without
 * memory for it. What came from outside is cut and cleaned: the text is one line of
 * valid UTF-8. Pure; any thread.
 */
#ifndef TOPICFS_SETTINGS_WHY_H
#define TOPICFS_SETTINGS_WHY_H

#include "coord/settings_table.h"

struct why {
    char *text; /* NULL: nobody wants to know */
    size_t size;
};

/* Any text; returns `code`. */
int why_set(const struct why *why, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "<name>: unknown setting; did you mean <closest>?" */
int why_unknown(const struct why *why, enum setting_scope scope, const char *name);

/* "<name>: <value> is not <a time>; allowed: ..., for example 7d" */
int why_malformed(const struct why *why, const struct setting *setting,
                  const char *value);

/* "<name>: <value> is out of range; allowed: -1 or more, for example 7d" */
int why_range(const struct why *why, const struct setting *setting, const char *value,
              bool too_small);

#endif
