/*
 * Who is at the other end of a TCP connection, as far as this machine can tell.
 *
 * On the loopback interface the client's socket is one of this machine, and the kernel
 * knows its owner: the same answer that identd gives. So a local client needs no token:
 * it acts as the user that it runs as. Pure but for the kernel's answer; any thread.
 */
#ifndef TOPICFS_HTTP_PEER_H
#define TOPICFS_HTTP_PEER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* 127.0.0.0/8, ::1, and the former as an IPv6 address. */
bool http_peer_is_loopback(const struct sockaddr *address);

/*
 * The owner of the socket that is bound to `peer` and connected to `local` (an accepted
 * socket's getpeername() and getsockname()). 0; -ENOENT where no process of this
 * network namespace holds such a socket any more; another errno where the kernel can't
 * be asked.
 */
int http_peer_uid(const struct sockaddr *peer, const struct sockaddr *local,
                  uid_t *uid);

/* Is the Host header's value, with or without port, a name of the loopback interface?
 * A browser that was led to another name of 127.0.0.1 sends that name. */
bool http_peer_host_is_loopback(const char *host);

#endif
