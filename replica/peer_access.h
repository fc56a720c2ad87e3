/*
 * Which requests come from nodes of this cluster: those that bring the cluster's key, a
 * secret in a file that all nodes share. Without a key: those that act as the user of
 * this process, or as root, by a certificate, a token, or a process on this machine; so
 * several nodes on one machine need no key.
 *
 * Any thread.
 */
#ifndef TOPICFS_PEER_ACCESS_H
#define TOPICFS_PEER_ACCESS_H

#include "coord/coord.h"
#include "replica/http_request.h"

#include <stdbool.h>

enum { PEER_KEY_MIN = 16, PEER_KEY_MAX = 512 };

#define PEER_KEY_HEADER "X-Topicfs-Key"

/* Reads the file of the cluster_key setting. 1: `key` has it, as a header can carry it;
 * 0: none is set, `key` is empty; -EINVAL: too short, too long, or not printable; a
 * negative errno. */
int peer_access_key(const struct mount_config *config, char key[PEER_KEY_MAX + 1]);

/* Can nodes elsewhere prove who they are? Without a key and tls_ca only those on this
 * machine can, so the address that others are told must be a loopback one. */
bool peer_access_suffices(const struct mount_config *config);

/* Whether both hold, as the peer part of this node needs it: 0, or a negative errno and
 * `why` has the reason. */
int peer_access_check(const struct mount_config *config, char *why, size_t why_size);

/* `key`: as peer_access_key() gave it. */
bool peer_access_allowed(const struct http_request *request, const char *key);

#endif
