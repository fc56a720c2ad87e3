/*
 * Preloaded into the daemon: while the file $SLOW_FLUSH exists, every fdatasync and
 * fsync takes as many ms longer as stand in it, as on a slow disk, so that tests can
 * meet a write while it waits.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int fdatasync(int fd);
int fsync(int fd);

static long wait_ms(void)
{
    const char *path = getenv("SLOW_FLUSH");
    char text[32] = "";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0)
        return 0;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = '\0';
    (void)close(fd);
    return strtol(text, NULL, 10);
}

static int flush_later(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    long wait = wait_ms();
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
