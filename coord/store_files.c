#include "coord/store_files.h"

#include "coord/err.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Room for the start of a node with a thousand partitions. */
enum { RESERVE_BYTES = 512 * 1024 };

static ssize_t real_pwrite(const struct store_io *io, int fd, const void *bytes,
                           size_t n, off_t at)
{
    ssize_t written = pwrite(fd, bytes, n, at);

    (void)io;
    return written < 0 ? -errno : written;
}

static int real_flush(const struct store_io *io, int fd)
{
    (void)io;
    return fdatasync(fd) < 0 ? -errno : 0;
}

static int real_truncate(const struct store_io *io, int fd, off_t size)
{
    (void)io;
    return ftruncate(fd, size) < 0 ? -errno : 0;
}

const struct store_io store_io_real = {
    .pwrite = real_pwrite,
    .flush = real_flush,
    .truncate = real_truncate,
};

static int write_all(const struct store_io *io, int fd, const char *bytes, size_t n,
                     off_t at)
{
    while (n > 0) {
        ssize_t written = io->pwrite(io, fd, bytes, n, at);

        if (written == -EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? (int)written : -EIO;
        bytes += written;
        n -= (size_t)written;
        at += written;
    }
    return 0;
}

int store_files_open(struct store_files *files, const char *dir, bool may_create,
                     const struct store_io *io)
{
    *files = (struct store_files){.io = io, .dir_fd = -1, .fds = {-1, -1}};
    if (may_create && mkdir(dir, 0700) < 0 && errno != EEXIST)
        return -errno;
    files->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return files->dir_fd < 0 ? -errno : 0;
}

void store_files_close(struct store_files *files)
{
    for (int c = 0; c < STORE_COPIES; c++)
        if (files->fds[c] >= 0)
            close(files->fds[c]);
    if (files->dir_fd >= 0)
        close(files->dir_fd);
    *files = (struct store_files){.dir_fd = -1, .fds = {-1, -1}};
}

/* The whole file; *bytes stays NULL if there is none. */
static int slurp(int dir_fd, const char *name, char **bytes, size_t *length)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    char *content = NULL;
    struct stat st;
    size_t done = 0;
    int rc = 0;

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(fd, &st) < 0)
        rc = -errno;
    else if (!S_ISREG(st.st_mode) || st.st_size > JOURNAL_BYTES_MAX)
        rc = -EINVAL;
    else if (!(content = malloc((size_t)st.st_size + 1)))
        rc = -ENOMEM;
    while (rc == 0 && done < (size_t)st.st_size) {
        ssize_t n = pread(fd, content + done, (size_t)st.st_size - done, (off_t)done);

        if (n < 0 && errno != EINTR)
            rc = -errno;
        if (n == 0)
            break;
        if (n > 0)
            done += (size_t)n;
    }
    close(fd);
    if (rc != 0 || !content) {
        free(content);
        return rc;
    }
    content[done] = '\0';
    *bytes = content;
    *length = done;
    return 0;
}

int store_files_scan(struct store_files *files,
                     struct journal_copy copies[STORE_COPIES])
{
    int rc = 0;

    for (int c = 0; c < STORE_COPIES; c++)
        copies[c] = (struct journal_copy){.last_revision = -1};
    for (int c = 0; c < STORE_COPIES && rc == 0; c++) {
        char *bytes = NULL;
        size_t length = 0;

        rc = slurp(files->dir_fd, store_copy_name(c), &bytes, &length);
        if (rc == 0)
            rc = journal_copy_scan(&copies[c], bytes, length);
    }
    for (int c = 0; c < STORE_COPIES && rc != 0; c++)
        journal_copy_free(&copies[c]);
    return rc;
}

int store_files_reserve(struct store_files *files, size_t length)
{
    int rc = 0;

    for (int c = 0; c < STORE_COPIES && rc == 0; c++) {
        off_t end = files->sizes[c] + (off_t)length;

        if (end + RESERVE_BYTES / 2 <= files->reserved[c])
            continue;
        if (fallocate(files->fds[c], FALLOC_FL_KEEP_SIZE, files->sizes[c],
                      (off_t)length + RESERVE_BYTES) == 0)
            files->reserved[c] = end + RESERVE_BYTES;
        else if (errno == ENOSPC || errno == EDQUOT)
            rc = -errno;
    }
    return rc;
}

int store_files_attach(struct store_files *files)
{
    for (int c = 0; c < STORE_COPIES; c++) {
        struct stat st;

        if (files->fds[c] >= 0)
            continue;
        files->fds[c] =
            openat(files->dir_fd, store_copy_name(c), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (files->fds[c] < 0 || fstat(files->fds[c], &st) < 0)
            return -errno;
        files->sizes[c] = st.st_size;
        files->reserved[c] = 0;
    }
    /* Full already: what has no need of new space still works. */
    (void)store_files_reserve(files, 0);
    return 0;
}

/* Takes back what a failed append left. The cut is flushed too: a line that was
 * reported as failed must not come back after a crash. */
static int cut_back(struct store_files *files)
{
    int rc = 0;

    for (int c = 0; c < STORE_COPIES; c++) {
        int failed;

        if (!files->uncut[c])
            continue;
        failed = files->io->truncate(files->io, files->fds[c], files->sizes[c]);
        if (failed == 0)
            failed = files->io->flush(files->io, files->fds[c]);
        files->reserved[c] = 0; /* the cut gave it back */
        if (failed != 0)
            rc = failed;
        else
            files->uncut[c] = false;
    }
    return rc;
}

int store_files_append(struct store_files *files, const void *bytes, size_t length)
{
    int rc = cut_back(files);

    if (rc != 0)
        return rc;
    for (int c = 0; c < STORE_COPIES && rc == 0; c++) {
        files->uncut[c] = true;
        rc = write_all(files->io, files->fds[c], bytes, length, files->sizes[c]);
    }
    for (int c = 0; c < STORE_COPIES && rc == 0; c++)
        rc = files->io->flush(files->io, files->fds[c]);
    if (rc != 0) {
        (void)cut_back(files); /* tried again before the next append */
        return rc;
    }
    for (int c = 0; c < STORE_COPIES; c++) {
        files->uncut[c] = false;
        files->sizes[c] += (off_t)length;
    }
    (void)store_files_reserve(files, 0);
    return 0;
}

int store_files_rewrite(struct store_files *files, int copy, const void *bytes,
                        size_t length, bool keep_damaged)
{
    const char *name = store_copy_name(copy);
    char temporary[32], damaged[32];
    int rc, fd;

    snprintf(temporary, sizeof(temporary), "%s.new", name);
    snprintf(damaged, sizeof(damaged), "%s.damaged", name);
    fd = openat(files->dir_fd, temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    rc = write_all(files->io, fd, bytes, length, 0);
    if (rc == 0)
        rc = files->io->flush(files->io, fd);
    if (rc == 0 && keep_damaged &&
        renameat(files->dir_fd, name, files->dir_fd, damaged) < 0 && errno != ENOENT)
        rc = -errno;
    if (rc == 0 && renameat(files->dir_fd, temporary, files->dir_fd, name) < 0)
        rc = -errno;
    if (rc != 0) {
        close(fd);
        unlinkat(files->dir_fd, temporary, 0);
        return rc;
    }
    if (files->fds[copy] >= 0)
        close(files->fds[copy]);
    files->fds[copy] = fd;
    files->sizes[copy] = (off_t)length;
    files->reserved[copy] = 0;
    files->uncut[copy] = false;
    return fsync(files->dir_fd) < 0 ? -errno : 0;
}

int store_files_snapshot(struct store_files *files, int copy,
                         const struct store_map *map, int64_t revision,
                         bool keep_damaged)
{
    struct buf buf;
    int rc;

    buf_init(&buf, JOURNAL_BYTES_MAX);
    rc = journal_encode_header(&buf);
    if (rc == 0)
        rc = journal_encode_snapshot(&buf, map, revision);
    if (rc == 0)
        rc = store_files_rewrite(files, copy, buf.data, buf.length, keep_damaged);
    buf_free(&buf);
    return rc;
}

int store_files_repair(struct store_files *files, const struct journal_copy *copies,
                       const struct store_recovery *recovery)
{
    int rc = 0;

    for (int c = 0; c < STORE_COPIES && rc == 0; c++)
        if (recovery->absent || recovery->verdicts[c].rewrite)
            rc = store_files_snapshot(files, c, &recovery->map, recovery->revision,
                                      recovery->verdicts[c].fault);
    if (rc == 0)
        rc = store_files_attach(files);
    for (int c = 0; c < STORE_COPIES && rc == 0; c++)
        if (!recovery->absent && recovery->verdicts[c].cut) {
            files->sizes[c] = (off_t)copies[c].valid_length;
            files->uncut[c] = true;
        }
    return rc == 0 ? cut_back(files) : rc;
}
