/*
 * The text that names an etcd cluster: "etcd://[user[:password]@]host[:port],..." for
 * clear text, "etcds://..." for TLS. The port is 2379 if it is not given; an IPv6
 * address stands in brackets; user and password may hold %XX.
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_ETCD_ENDPOINTS_H
#define TOPICFS_ETCD_ENDPOINTS_H

#include "coord/etcd_http.h"

struct etcd_endpoints {
    bool tls;
    unsigned count;
    char *urls[ETCD_ENDPOINTS_MAX]; /* "https://host:port" */
    char *user, *password;          /* NULL: none */
};

/* 0, -EINVAL, -ENOMEM; `why` has the reason, without the password. */
int etcd_endpoints_parse(const char *text, struct etcd_endpoints *out, char *why,
                         size_t why_size);
void etcd_endpoints_free(struct etcd_endpoints *endpoints);

#endif
