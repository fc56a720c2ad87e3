/*
 * Preloaded into a node: while the file $REFUSED_DIR/<its process id> exists, what it
 * sends to the ports that stand there is answered by a reset, as by a firewall; new
 * connections to them are refused.
 */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int connect(int fd, const struct sockaddr *address, socklen_t length);
ssize_t send(int fd, const void *bytes, size_t length, int flags);

static int is_refused(const struct sockaddr *address)
{
    const char *dir = getenv("REFUSED_DIR");
    const struct sockaddr_in *to = (const struct sockaddr_in *)(const void *)address;
    char path[4096];
    int port = 0, found = 0;
    FILE *ports;

    if (!dir || address->sa_family != AF_INET)
        return 0;
    (void)snprintf(path, sizeof path, "%s/%d", dir, (int)getpid());
    ports = fopen(path, "re");
    while (ports && !found && fscanf(ports, "%d", &port) == 1)
        found = port == ntohs(to->sin_port);
    if (ports)
        (void)fclose(ports);
    return found;
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    int (*real)(int, const struct sockaddr *, socklen_t) =
        (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");

    if (is_refused(address)) {
        errno = ECONNREFUSED;
        return -1;
    }
    return real(fd, address, length);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) =
        (ssize_t(*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof peer;

    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
        is_refused((struct sockaddr *)&peer)) {
        (void)shutdown(fd, SHUT_RDWR);
        errno = ECONNRESET;
        return -1;
    }
    return real(fd, bytes, length, flags);
}
