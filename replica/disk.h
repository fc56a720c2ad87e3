/*
 * The disk below the log, as a small vtable: the real one, and a fake in memory that
 * keeps only what was flushed when its power is cut (tests/unit/support/fake_disk.h).
 *
 * Files are small integers: with the real disk, file descriptors (opened O_CLOEXEC).
 * All functions return 0 or a count, or a negative errno. Any thread.
 */
#ifndef TOPICFS_DISK_H
#define TOPICFS_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct disk;

struct disk_stat {
    int64_t size;
    int64_t mtime_ms;
    int64_t ctime_ns; /* changes with every write or truncation by anybody */
    bool is_dir;
    bool is_removed; /* an open file that has no name any more */
};

enum disk_open_flags {
    DISK_READ = 0,
    DISK_WRITE = 1,
    DISK_CREATE = 2,
    DISK_EXCLUSIVE = 4
};

struct disk_ops {
    int (*open)(const struct disk *disk, const char *path, int flags);
    int (*close)(const struct disk *disk, int file);
    ssize_t (*pread)(const struct disk *disk, int file, void *bytes, size_t n,
                     int64_t at);
    /* May write less than asked only together with an error on the next call. */
    ssize_t (*pwrite)(const struct disk *disk, int file, const void *bytes, size_t n,
                      int64_t at);
    int (*truncate)(const struct disk *disk, int file, int64_t size);
    int (*flush)(const struct disk *disk, int file); /* fdatasync */
    /* Sets the writing of a file going that flush() will be called for soon, so that
     * several files are written side by side. A hint: what fails shows in flush(). */
    void (*flush_begin)(const struct disk *disk, int file);
    int (*stat)(const struct disk *disk, int file, struct disk_stat *out);
    int (*stat_path)(const struct disk *disk, const char *path, struct disk_stat *out);
    int (*mkdir)(const struct disk *disk, const char *path); /* -EEXIST is an error */
    int (*rmdir)(const struct disk *disk, const char *path);
    int (*rename)(const struct disk *disk, const char *from, const char *to);
    int (*unlink)(const struct disk *disk, const char *path);
    int (*flush_dir)(const struct disk *disk, const char *path);
    /* Calls fn for each name but . and .., in no order; nonzero from fn ends it. */
    int (*list)(const struct disk *disk, const char *path,
                int (*fn)(void *arg, const char *name), void *arg);
};

struct disk {
    const struct disk_ops *ops;
};

extern const struct disk disk_real;

/* Reads or writes all of it: 0; -ENODATA if the file ends before; a negative errno. */
int disk_read_all(const struct disk *disk, int file, void *bytes, size_t n, int64_t at);
int disk_write_all(const struct disk *disk, int file, const void *bytes, size_t n,
                   int64_t at);

/* Replaces `path` with the bytes so that a crash leaves the old or the new file: write
 * a temporary beside it, flush, rename, flush the directory. */
int disk_replace(const struct disk *disk, const char *path, const void *bytes,
                 size_t n);
/* Reads a whole file of at most max bytes; the caller frees *out (NUL-terminated). */
int disk_slurp(const struct disk *disk, const char *path, size_t max, char **out,
               size_t *length);

#endif
