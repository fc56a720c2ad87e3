/*
 * Preloaded into the daemon: while the file $SLOW_DISK exists, what is written to files
 * whose path contains $SLOW_DISK_PATH takes its time, so that no more bytes a second
 * than stand in it get there.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at);
ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at);

static long long rate(int fd)
{
    const char *file = getenv("SLOW_DISK");
    const char *part = getenv("SLOW_DISK_PATH");
    char link[64], path[4096], text[32] = "";
    int in = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t length;

    if (in < 0)
        return 0;
    if (read(in, text, sizeof text - 1) < 0)
        text[0] = '\0';
    (void)close(in);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return part && strstr(path, part) ? strtoll(text, NULL, 10) : 0;
}

static void take_time(int fd, size_t n)
{
    long long per_second = rate(fd);
    long long ns = per_second > 0 ? (long long)n * 1000000000 / per_second : 0;
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    while (ns > 0 && nanosleep(&left, &left) != 0)
        continue;
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    ssize_t (*real)(int, const void *, size_t, off_t) =
        (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");

    take_time(fd, n);
    return real(fd, bytes, n, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    return pwrite(fd, bytes, n, at);
}
