/*
 * A listening socket for a "host:port" of the settings. Any thread; asks the resolver.
 */
#ifndef TOPICFS_HTTP_LISTEN_H
#define TOPICFS_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

struct http_listener {
    int fd; /* the caller closes it */
    int port;
    bool ipv6;
    bool loopback; /* no other machine can reach it */
};

/* Of several addresses of a name an IPv4 one is taken first; "[::]" takes IPv4 too. 0,
 * or a negative errno with `why`. */
int http_listen(const char *address, struct http_listener *out, char *why,
                size_t why_size);

#endif
