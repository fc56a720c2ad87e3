/*
 * The directory to mount on: found or made, checked, cleared of a dead mount, and left
 * unwritable underneath, so that nothing is written beside the mount while the daemon
 * is away.
 *
 *     struct mountpoint mountpoint;
 *     rc = mountpoint_prepare(&mountpoint, path, data, nonempty, why, sizeof why);
 *     ... mount at mountpoint.path; once it answers:
 *     mountpoint_protect(&mountpoint);
 *     ...
 *     mountpoint_close(&mountpoint);
 *
 * Protection: for root the immutable attribute (as chattr +i) where the filesystem
 * below has it, else mode 0555. It stays after unmounting; mountpoint_release() takes
 * it off. A directory that had something in it is left alone.
 *
 * One owner; any thread.
 */
#ifndef TOPICFS_MOUNTPOINT_H
#define TOPICFS_MOUNTPOINT_H

#include <stdbool.h>
#include <stddef.h>

struct mountpoint {
    char *path; /* absolute, without symbolic links */
    int fd;     /* the directory underneath, opened before the mount */
    bool created;
    bool nonempty;
    bool mounted; /* set by mountpoint_protect */
};

/*
 * An absolute path without symbolic links, also where the last components do not exist
 * or are a dead mount. The caller frees *out. 0, or a negative errno and *out NULL.
 */
int mountpoint_resolve(const char *path, char **out);

/*
 * Refuses: a live topicfs at `path`, something that is no directory, a directory that
 * is not empty (unless `nonempty`), one inside of `data` or around it. A dead FUSE
 * mount there is unmounted first. `data` is as mountpoint_resolve() gave it. 0, or a
 * negative errno with the reason in `why`; call mountpoint_close() in every case.
 */
int mountpoint_prepare(struct mountpoint *mountpoint, const char *path,
                       const char *data, bool nonempty, char *why, size_t why_size);

/* Call once the mount is there. Says in the log what could not be protected. */
void mountpoint_protect(struct mountpoint *mountpoint);

/* Removes the directory if mountpoint_prepare() made it and nothing was mounted. */
void mountpoint_close(struct mountpoint *mountpoint);

/* Takes the protection off the unmounted directory `path`. 0 or a negative errno. */
int mountpoint_release(const char *path);

#endif
