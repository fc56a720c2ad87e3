/*
 * Preloaded into the daemon: while the file $FAILING_FLUSH_WHEN exists, fdatasync and
 * fsync of files whose path contains $FAILING_FLUSH_PATH fail with EIO, as on a dying
 * disk.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fdatasync(int fd);
int fsync(int fd);

static int flush_or_fail(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *part = getenv("FAILING_FLUSH_PATH");
    const char *when = getenv("FAILING_FLUSH_WHEN");
    char link[64], path[4096];
    ssize_t length;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length > 0 && part && when && access(when, F_OK) == 0) {
        path[length] = '\0';
        if (strstr(path, part)) {
            errno = EIO;
            return -1;
        }
    }
    return real(fd);
}

int fdatasync(int fd)
{
    return flush_or_fail("fdatasync", fd);
}

int fsync(int fd)
{
    return flush_or_fail("fsync", fd);
}
