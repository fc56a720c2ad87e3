/*
 * Preloaded into the daemon: notes in the file $POWER_LOG what of each file whose path
 * contains $POWER_PATH is on the disk for certain, a line "<bytes> <path>" after each
 * fdatasync and fsync. tests/fault/power.py takes the rest away, as a power cut may.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int fdatasync(int fd);
int fsync(int fd);

static void note(int fd, long long bytes)
{
    const char *part = getenv("POWER_PATH");
    const char *log = getenv("POWER_LOG");
    char link[64], path[4096], line[4200];
    ssize_t length;
    int out;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length <= 0 || !part || !log)
        return;
    path[length] = '\0';
    if (!strstr(path, part))
        return;
    length = snprintf(line, sizeof line, "%lld %s\n", bytes, path);
    out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0 || write(out, line, (size_t)length) != length)
        abort();
    (void)close(out);
}

static int flush_and_note(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat before;
    /* What is appended while it runs may be on the disk, or not. */
    int known = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
    int rc = real(fd);

    if (rc == 0 && known)
        note(fd, (long long)before.st_size);
    return rc;
}

int fdatasync(int fd)
{
    return flush_and_note("fdatasync", fd);
}

int fsync(int fd)
{
    return flush_and_note("fsync", fd);
}
