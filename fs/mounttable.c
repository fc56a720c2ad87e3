#include "fs/mounttable.h"

#include <errno.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 16384 }; /* source, path and options, with octal escapes */

static int copy_entry(const struct mntent *from, struct mounttable_entry *to)
{
    to->source = strdup(from->mnt_fsname);
    to->path = strdup(from->mnt_dir);
    to->type = strdup(from->mnt_type);
    if (to->source != NULL && to->path != NULL && to->type != NULL)
        return 0;
    mounttable_entry_free(to);
    return -ENOMEM;
}

static bool matches(const struct mntent *mount, const char *path, const char *source)
{
    if (path != NULL)
        return strcmp(mount->mnt_dir, path) == 0;
    return strcmp(mount->mnt_fsname, source) == 0 &&
           strcmp(mount->mnt_type, "fuse.topicfs") == 0;
}

/* The last match counts: later mounts lie on top of earlier ones. */
static int find(const char *path, const char *source, struct mounttable_entry *out)
{
    FILE *table = setmntent("/proc/self/mounts", "re");
    char *line = malloc(LINE_MAX_BYTES);
    struct mntent mount;
    int rc = -ENOENT;

    memset(out, 0, sizeof *out);
    if (table == NULL || line == NULL) {
        rc = table == NULL ? -errno : -ENOMEM;
        goto out;
    }
    while (rc != -ENOMEM && getmntent_r(table, &mount, line, LINE_MAX_BYTES) != NULL) {
        if (!matches(&mount, path, source))
            continue;
        mounttable_entry_free(out);
        rc = copy_entry(&mount, out);
    }
out:
    if (table != NULL)
        (void)endmntent(table);
    free(line);
    return rc;
}

int mounttable_find(const char *path, struct mounttable_entry *out)
{
    return find(path, NULL, out);
}

int mounttable_find_source(const char *source, struct mounttable_entry *out)
{
    return find(NULL, source, out);
}

bool mounttable_is_topicfs(const struct mounttable_entry *entry)
{
    return strcmp(entry->type, "fuse.topicfs") == 0;
}

bool mounttable_is_fuse(const struct mounttable_entry *entry)
{
    return strcmp(entry->type, "fuse") == 0 || strncmp(entry->type, "fuse.", 5) == 0;
}

void mounttable_entry_free(struct mounttable_entry *entry)
{
    free(entry->source);
    free(entry->path);
    free(entry->type);
    memset(entry, 0, sizeof *entry);
}
