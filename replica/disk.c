#include "replica/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the real disk --------------------------------------------------------- */

static int real_open(const struct disk *disk, const char *path, int flags)
{
    (void)disk;
    int mode = (flags & DISK_WRITE) ? O_RDWR : O_RDONLY;
    if (flags & DISK_CREATE)
        mode |= O_CREAT;
    if (flags & DISK_EXCLUSIVE)
        mode |= O_EXCL;
    int file = open(path, mode | O_CLOEXEC | O_NOCTTY, 0640);
    return file < 0 ? -errno : file;
}

static int real_close(const struct disk *disk, int file)
{
    (void)disk;
    return close(file) == 0 ? 0 : -errno;
}

static ssize_t real_pread(const struct disk *disk, int file, void *bytes, size_t n,
                          int64_t at)
{
    (void)disk;
    ssize_t got;
    do
        got = pread(file, bytes, n, at);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static ssize_t real_pwrite(const struct disk *disk, int file, const void *bytes,
                           size_t n, int64_t at)
{
    (void)disk;
    ssize_t put;
    do
        put = pwrite(file, bytes, n, at);
    while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : put;
}

static int real_truncate(const struct disk *disk, int file, int64_t size)
{
    (void)disk;
    int rc;
    do
        rc = ftruncate(file, size);
    while (rc < 0 && errno == EINTR);
    return rc == 0 ? 0 : -errno;
}

static int real_flush(const struct disk *disk, int file)
{
    (void)disk;
    /* Not repeated on EINTR either: whatever a failed fdatasync reports, it reports
     * once. */
    return fdatasync(file) == 0 ? 0 : -errno;
}

static void real_flush_begin(const struct disk *disk, int file)
{
    (void)disk;
    (void)sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
}

static void fill_stat(const struct stat *from, struct disk_stat *out)
{
    out->size = from->st_size;
    out->mtime_ms =
        (int64_t)from->st_mtim.tv_sec * 1000 + from->st_mtim.tv_nsec / 1000000;
    out->ctime_ns = (int64_t)from->st_ctim.tv_sec * 1000000000 + from->st_ctim.tv_nsec;
    out->is_dir = S_ISDIR(from->st_mode);
    out->is_removed = from->st_nlink == 0;
}

static int real_stat(const struct disk *disk, int file, struct disk_stat *out)
{
    (void)disk;
    struct stat st;
    if (fstat(file, &st) < 0)
        return -errno;
    fill_stat(&st, out);
    return 0;
}

static int real_stat_path(const struct disk *disk, const char *path,
                          struct disk_stat *out)
{
    (void)disk;
    struct stat st;
    if (stat(path, &st) < 0)
        return -errno;
    fill_stat(&st, out);
    return 0;
}

static int real_mkdir(const struct disk *disk, const char *path)
{
    (void)disk;
    return mkdir(path, 0750) == 0 ? 0 : -errno;
}

static int real_rmdir(const struct disk *disk, const char *path)
{
    (void)disk;
    return rmdir(path) == 0 ? 0 : -errno;
}

static int real_rename(const struct disk *disk, const char *from, const char *to)
{
    (void)disk;
    return rename(from, to) == 0 ? 0 : -errno;
}

static int real_unlink(const struct disk *disk, const char *path)
{
    (void)disk;
    return unlink(path) == 0 ? 0 : -errno;
}

static int real_flush_dir(const struct disk *disk, const char *path)
{
    (void)disk;
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    int rc = fsync(dir) == 0 ? 0 : -errno;
    close(dir);
    /* Some filesystems can't flush a directory and keep it in order without. */
    return rc == -EINVAL ? 0 : rc;
}

static int real_list(const struct disk *disk, const char *path,
                     int (*fn)(void *arg, const char *name), void *arg)
{
    (void)disk;
    DIR *dir = opendir(path);
    if (dir == NULL)
        return -errno;
    int rc = 0;
    while (rc == 0) {
        errno = 0;
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the DIR is this call's own */
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            rc = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = fn(arg, entry->d_name);
    }
    closedir(dir);
    return rc;
}

static const struct disk_ops real_ops = {
    .open = real_open,
    .close = real_close,
    .pread = real_pread,
    .pwrite = real_pwrite,
    .truncate = real_truncate,
    .flush = real_flush,
    .flush_begin = real_flush_begin,
    .stat = real_stat,
    .stat_path = real_stat_path,
    .mkdir = real_mkdir,
    .rmdir = real_rmdir,
    .rename = real_rename,
    .unlink = real_unlink,
    .flush_dir = real_flush_dir,
    .list = real_list,
};

const struct disk disk_real = {.ops = &real_ops};

/* ---- over any disk --------------------------------------------------------- */

int disk_read_all(const struct disk *disk, int file, void *bytes, size_t n, int64_t at)
{
    char *to = bytes;
    while (n > 0) {
        ssize_t got = disk->ops->pread(disk, file, to, n, at);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return -ENODATA;
        to += got;
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

int disk_write_all(const struct disk *disk, int file, const void *bytes, size_t n,
                   int64_t at)
{
    const char *from = bytes;
    while (n > 0) {
        ssize_t put = disk->ops->pwrite(disk, file, from, n, at);
        if (put < 0)
            return (int)put;
        if (put == 0)
            return -EIO;
        from += put;
        at += put;
        n -= (size_t)put;
    }
    return 0;
}

static int write_beside(const struct disk *disk, const char *temporary,
                        const void *bytes, size_t n)
{
    int file = disk->ops->open(disk, temporary, DISK_WRITE | DISK_CREATE);
    if (file < 0)
        return file;
    /* A crash may have left an older, longer one. */
    int rc = disk->ops->truncate(disk, file, 0);
    if (rc == 0)
        rc = disk_write_all(disk, file, bytes, n, 0);
    if (rc == 0)
        rc = disk->ops->flush(disk, file);
    int closed = disk->ops->close(disk, file);
    return rc != 0 ? rc : closed;
}

int disk_replace(const struct disk *disk, const char *path, const void *bytes, size_t n)
{
    char *temporary = NULL;
    char *dir = NULL;
    int rc = -ENOMEM;
    if (asprintf(&temporary, "%s.tmp", path) < 0) {
        temporary = NULL;
        goto out;
    }
    dir = strdup(path);
    if (dir == NULL)
        goto out;
    rc = write_beside(disk, temporary, bytes, n);
    if (rc == 0)
        rc = disk->ops->rename(disk, temporary, path);
    if (rc != 0) {
        disk->ops->unlink(disk, temporary);
        goto out;
    }
    char *slash = strrchr(dir, '/');
    if (slash == NULL) {
        rc = disk->ops->flush_dir(disk, ".");
        goto out;
    }
    slash[slash == dir ? 1 : 0] = '\0';
    rc = disk->ops->flush_dir(disk, dir);
out:
    free(temporary);
    free(dir);
    return rc;
}

int disk_slurp(const struct disk *disk, const char *path, size_t max, char **out,
               size_t *length)
{
    *out = NULL;
    *length = 0;
    int file = disk->ops->open(disk, path, DISK_READ);
    if (file < 0)
        return file;
    char *bytes = NULL;
    struct disk_stat st;
    int rc = disk->ops->stat(disk, file, &st);
    if (rc != 0)
        goto out;
    rc = st.is_dir ? -EISDIR : st.size > (int64_t)max ? -EFBIG : 0;
    if (rc != 0)
        goto out;
    bytes = malloc((size_t)st.size + 1);
    rc = bytes == NULL ? -ENOMEM : 0;
    if (rc == 0)
        rc = disk_read_all(disk, file, bytes, (size_t)st.size, 0);
    if (rc != 0)
        goto out;
    bytes[st.size] = '\0';
    *length = (size_t)st.size;
    *out = bytes;
    bytes = NULL;
out:
    free(bytes);
    disk->ops->close(disk, file);
    return rc;
}
