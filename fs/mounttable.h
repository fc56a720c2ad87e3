/*
 * The kernel's table of mounts, as far as mounting and unmounting need it.
 *
 *     struct mounttable_entry entry;
 *     if (mounttable_find("/srv/topics", &entry) == 0) {
 *         if (mounttable_is_topicfs(&entry)) ...
 *         mounttable_entry_free(&entry);
 *     }
 *
 * Reads /proc/self/mounts anew at each call; touches no mount. Any thread.
 */
#ifndef TOPICFS_MOUNTTABLE_H
#define TOPICFS_MOUNTTABLE_H

#include <stdbool.h>

struct mounttable_entry {
    char *source;
    char *path;
    char *type; /* "fuse.topicfs" */
};

/* The topmost mount exactly at `path` (absolute, without symbolic links).
 * 0, -ENOENT, or a negative errno. */
int mounttable_find(const char *path, struct mounttable_entry *out);

/* A topicfs whose source is `source`. 0, -ENOENT, or a negative errno. */
int mounttable_find_source(const char *source, struct mounttable_entry *out);

bool mounttable_is_topicfs(const struct mounttable_entry *entry);
bool mounttable_is_fuse(const struct mounttable_entry *entry);

void mounttable_entry_free(struct mounttable_entry *entry);

#endif
