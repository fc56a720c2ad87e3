/*
 * Preloaded into the daemon: every fdatasync and fsync takes $SLOW_FLUSH_MS longer, as
 * on a slow disk, so that tests can meet a write while it waits.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int fdatasync(int fd);
int fsync(int fd);

static int flush_later(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *ms = getenv("SLOW_FLUSH_MS");
    long wait = ms ? strtol(ms, NULL, 10) : 0;
    struct timespec left = {.tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000};

    while (nanosleep(&left, &left) != 0)
        continue;
    return real(fd);
}

int fdatasync(int fd)
{
    return flush_later("fdatasync", fd);
}

int fsync(int fd)
{
    return flush_later("fsync", fd);
}
