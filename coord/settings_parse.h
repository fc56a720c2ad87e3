/*
 * From the text of a setting's value to its number. Private to coord/settings*.c.
 *
 *     rc = settings_parse(setting, "7d", &value, &why);
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_SETTINGS_PARSE_H
#define TOPICFS_SETTINGS_PARSE_H

#include "coord/settings_table.h"
#include "coord/settings_why.h"

/* Longest text of a value that isn't a string setting; longer ones are malformed. */
enum { SETTINGS_VALUE_BYTES = 256 };

/* Of a setting that is no SETTING_STRING. 0; E_INVALID_CONFIG or -ENOMEM as `why`
 * tells. */
int settings_parse(const struct setting *setting, const char *value, int64_t *out,
                   const struct why *why);

#endif
