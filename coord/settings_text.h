/*
 * Values and names of the settings as text, the way settings_set_text() takes them.
 * Private to coord/settings*.c. Those that append return the buffer's error.
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_SETTINGS_TEXT_H
#define TOPICFS_SETTINGS_TEXT_H

#include "coord/settings_table.h"

/* The entry's shown name for `value`, or NULL. */
const char *setting_name_of(const struct setting *setting, int64_t value);

/* Appends the value as settings_set_text() takes it, in the largest unit that is exact.
 */
int setting_add_value(struct buf *out, const struct setting *setting, int64_t value);

/* The same for a number that isn't to be shown by its name. */
int setting_add_number(struct buf *out, const struct setting *setting, int64_t value);

/*
 * Appends the names, if any, with `quote` around each: "a, b or c" where a name is all
 * there can be, "a, b, " where something else may follow.
 */
int setting_add_names(struct buf *out, const struct setting *setting,
                      const char *quote);

#endif
