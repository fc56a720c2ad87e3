#include "fs/mountpoint.h"

#include "coord/coord.h"
#include "fs/mounttable.h"
#include "fs/unmount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { STACKED_MOUNTS_MAX = 16, MODE_OPEN = 0755, MODE_PROTECTED = 0555 };

/* A resolved parent and what is left of the path; NULL: no memory. */
static char *join(const char *parent, const char *rest)
{
    const char *slash = strcmp(parent, "/") == 0 ? "" : "/";
    char *path = NULL;

    return asprintf(&path, "%s%s%s", parent, slash, rest) < 0 ? NULL : path;
}

static bool has_dots(const char *rest)
{
    for (const char *at = rest; *at != '\0'; at += strcspn(at, "/"), at += *at == '/')
        if (strcmp(at, "..") == 0 || strncmp(at, "../", 3) == 0 ||
            strcmp(at, ".") == 0 || strncmp(at, "./", 2) == 0)
            return true;
    return false;
}

static void strip_slashes(char *path)
{
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--)
        path[length - 1] = '\0';
}

/* Cuts the last component off: "a/b" to "a/", "a" to "", "/a" to "/". */
static void cut_component(char *path)
{
    char *slash;

    strip_slashes(path);
    slash = strrchr(path, '/');
    slash = slash == NULL ? path : slash + 1;
    *slash = '\0';
}

/* Resolves the longest prefix that can be, and keeps the rest as it is. */
int mountpoint_resolve(const char *path, char **out)
{
    char *prefix = strdup(path), *resolved = NULL;
    const char *rest;
    int rc = 0;

    *out = NULL;
    if (prefix == NULL)
        return -ENOMEM;
    for (;;) {
        resolved = realpath(prefix[0] != '\0' ? prefix : ".", NULL);
        if (resolved != NULL)
            break;
        if (prefix[0] == '\0' || (errno != ENOENT && errno != ENOTCONN)) {
            rc = -errno;
            goto out;
        }
        cut_component(prefix);
    }
    rest = path + strlen(prefix);
    rest += strspn(rest, "/");
    if (has_dots(rest)) {
        rc = -ENOENT; /* below something that is not there */
        goto out;
    }
    *out = join(resolved, rest);
    if (*out == NULL)
        rc = -ENOMEM;
    else
        strip_slashes(*out);
out:
    free(resolved);
    free(prefix);
    return rc;
}

static bool is_within(const char *inner, const char *outer)
{
    size_t length = strlen(outer);

    if (strcmp(outer, "/") == 0)
        return true;
    return strncmp(inner, outer, length) == 0 &&
           (inner[length] == '\0' || inner[length] == '/');
}

static int refuse_overlap(const char *path, const char *data, char *why,
                          size_t why_size)
{
    if (is_within(path, data)) {
        (void)snprintf(why, why_size,
                       "the mount point %s lies in the data directory %s", path, data);
        return -EINVAL;
    }
    if (is_within(data, path)) {
        (void)snprintf(why, why_size,
                       "the data directory %s lies below the mount point %s", data,
                       path);
        return -EINVAL;
    }
    return 0;
}

/* statvfs goes to the daemon each time, while stat may be answered from the cache. */
static bool is_dead(const char *path)
{
    struct statvfs unused;

    return statvfs(path, &unused) < 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

static int clear_dead_mounts(const char *path, char *why, size_t why_size)
{
    struct mounttable_entry entry;
    int rc = 0;

    for (int i = 0; rc == 0 && i < STACKED_MOUNTS_MAX; i++) {
        if (mounttable_find(path, &entry) < 0)
            return 0;
        if (!mounttable_is_fuse(&entry)) {
            mounttable_entry_free(&entry);
            return 0;
        }
        if (is_dead(path)) {
            rc = unmount_path(path, true);
            if (rc < 0)
                (void)snprintf(why, why_size, "can't unmount the dead mount at %s: %s",
                               path, err_text(rc));
        } else if (mounttable_is_topicfs(&entry)) {
            rc = -EBUSY;
            (void)snprintf(why, why_size,
                           "a topicfs (source %s) is already mounted at %s",
                           entry.source, path);
        } else {
            i = STACKED_MOUNTS_MAX;
        }
        mounttable_entry_free(&entry);
    }
    return rc;
}

static int is_empty(int fd)
{
    const struct dirent *entry;
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    bool empty = true;

    if (dir == NULL) {
        int rc = -errno;

        if (copy >= 0)
            (void)close(copy);
        return rc;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this DIR */
    while (empty && (entry = readdir(dir)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    (void)closedir(dir);
    return empty;
}

static int open_directory(struct mountpoint *mountpoint, char *why, size_t why_size)
{
    const char *path = mountpoint->path;
    int rc;

    if (mkdir(path, MODE_OPEN) == 0)
        mountpoint->created = true;
    else if (errno != EEXIST) {
        rc = -errno;
        (void)snprintf(why, why_size, "can't make the mount point %s: %s", path,
                       err_text(rc));
        return rc;
    }
    mountpoint->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mountpoint->fd < 0) {
        rc = -errno;
        (void)snprintf(why, why_size, "can't use %s as a mount point: %s", path,
                       err_text(rc));
        return rc;
    }
    return 0;
}

static int check_empty(struct mountpoint *mountpoint, bool allowed, char *why,
                       size_t why_size)
{
    int rc = is_empty(mountpoint->fd);

    if (rc < 0) {
        (void)snprintf(why, why_size, "can't read %s: %s", mountpoint->path,
                       err_text(rc));
        return rc;
    }
    mountpoint->nonempty = rc == 0;
    if (mountpoint->nonempty && !allowed) {
        (void)snprintf(why, why_size,
                       "the mount point %s is not empty: what is in it would be hidden "
                       "(-o nonempty mounts all the same)",
                       mountpoint->path);
        return -ENOTEMPTY;
    }
    return 0;
}

/* fusermount3 wants a mount point that the user can write to. */
static void make_mountable(int fd)
{
    struct stat st;

    if (geteuid() != 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
        (st.st_mode & 0200) == 0)
        (void)fchmod(fd, (st.st_mode & 07777) | 0200);
}

int mountpoint_prepare(struct mountpoint *mountpoint, const char *path,
                       const char *data, bool nonempty, char *why, size_t why_size)
{
    int rc;

    memset(mountpoint, 0, sizeof *mountpoint);
    mountpoint->fd = -1;
    rc = mountpoint_resolve(path, &mountpoint->path);
    if (mountpoint->path == NULL) {
        (void)snprintf(why, why_size, "can't use %s as a mount point: %s", path,
                       err_text(rc));
        return rc;
    }
    rc = refuse_overlap(mountpoint->path, data, why, why_size);
    if (rc == 0)
        rc = clear_dead_mounts(mountpoint->path, why, why_size);
    if (rc == 0)
        rc = open_directory(mountpoint, why, why_size);
    if (rc == 0)
        rc = check_empty(mountpoint, nonempty, why, why_size);
    if (rc == 0)
        make_mountable(mountpoint->fd);
    return rc;
}

/* Sets or clears the immutable attribute. 0, 1 if it was that way, a negative errno. */
static int set_immutable(int fd, bool on)
{
    int flags = 0, wanted;

    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
        return -errno;
    wanted = on ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
    if (wanted == flags)
        return 1;
    return ioctl(fd, FS_IOC_SETFLAGS, &wanted) < 0 ? -errno : 0;
}

void mountpoint_protect(struct mountpoint *mountpoint)
{
    int rc;

    mountpoint->mounted = true;
    if (mountpoint->nonempty || mountpoint->fd < 0)
        return;
    if (geteuid() == 0) {
        rc = set_immutable(mountpoint->fd, true);
        if (rc >= 0)
            goto out;
        diag(DIAG_INFO,
             "the directory under the mount point %s can't be made immutable (%s): "
             "while "
             "nothing is mounted there, root can write to it",
             mountpoint->path, err_text(rc));
    }
    if (fchmod(mountpoint->fd, MODE_PROTECTED) < 0)
        diag(DIAG_INFO, "the directory under the mount point %s stays writable: %s",
             mountpoint->path, err_text(-errno));
out:
    (void)close(mountpoint->fd);
    mountpoint->fd = -1;
}

void mountpoint_close(struct mountpoint *mountpoint)
{
    if (mountpoint->fd >= 0)
        (void)close(mountpoint->fd);
    if (mountpoint->created && !mountpoint->mounted)
        (void)rmdir(mountpoint->path);
    free(mountpoint->path);
    memset(mountpoint, 0, sizeof *mountpoint);
    mountpoint->fd = -1;
}

int mountpoint_release(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0)
        return -errno;
    if (geteuid() == 0)
        rc = set_immutable(fd, false);
    if (rc > 0 || rc == -ENOTTY || rc == -EOPNOTSUPP)
        rc = 0; /* a filesystem without the attribute has nothing to take off */
    if (rc == 0 && (fstat(fd, &st) < 0 || ((st.st_mode & 07777) == MODE_PROTECTED &&
                                           fchmod(fd, MODE_OPEN) < 0)))
        rc = -errno;
    (void)close(fd);
    return rc;
}
