#include "replica/http_listen.h"

#include "coord/coord.h"
#include "replica/http_peer.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 1024, HOST_BYTES = 256 };

static int bind_to(const struct addrinfo *address, struct http_listener *out)
{
    const int on = 1, off = 0;
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } bound = {.in6 = {0}};
    socklen_t length = sizeof bound;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address->ai_addr, address->ai_addrlen) < 0 ||
        listen(fd, BACKLOG) < 0 || getsockname(fd, &bound.any, &length) < 0) {
        rc = -errno;
        (void)close(fd);
        return rc;
    }
    out->fd = fd;
    out->ipv6 = address->ai_family == AF_INET6;
    out->loopback = http_peer_is_loopback(&bound.any);
    out->port = ntohs(out->ipv6 ? bound.in6.sin6_port : bound.in.sin_port);
    return 0;
}

/* "[::1]:9640" -> "::1", "9640" */
static int split(const char *address, char host[HOST_BYTES], const char **port)
{
    const char *colon = strrchr(address, ':');
    const char *end = colon;

    if (colon == NULL)
        return -EINVAL;
    if (*address == '[' && colon > address && colon[-1] == ']') {
        address++;
        end--;
    }
    if (end <= address || end - address >= HOST_BYTES)
        return -EINVAL;
    memcpy(host, address, (size_t)(end - address));
    host[end - address] = '\0';
    *port = colon + 1;
    return 0;
}

int http_listen(const char *address, struct http_listener *out, char *why,
                size_t why_size)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    static const int families[] = {AF_INET, AF_INET6};
    struct addrinfo *found = NULL;
    char host[HOST_BYTES];
    const char *port = NULL;
    int rc = split(address, host, &port);

    if (rc < 0) {
        (void)snprintf(why, why_size, "listen=%s: not host:port", address);
        return rc;
    }
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0) {
        (void)snprintf(why, why_size, "listen=%s: %s", address, gai_strerror(rc));
        return -EADDRNOTAVAIL;
    }
    rc = -EADDRNOTAVAIL;
    for (size_t i = 0; rc < 0 && i < sizeof families / sizeof families[0]; i++)
        for (struct addrinfo *at = found; rc < 0 && at != NULL; at = at->ai_next)
            if (at->ai_family == families[i])
                rc = bind_to(at, out);
    freeaddrinfo(found);
    if (rc < 0)
        (void)snprintf(why, why_size, "can't listen on %s: %s", address, err_text(rc));
    return rc;
}
