/*
 * The coordination store in an etcd cluster, version 3.4 or later, through its JSON
 * gateway.
 *
 *     rc = store_etcd_open(&params, &store, why, sizeof(why));
 *     ... store->ops, as coord/store.h has them ...
 *     store->ops->close(store);
 *
 * A transaction has at most STORE_TXN_MAX operations and as many comparisons, and
 * may not touch a key twice, also not through a prefix: -E2BIG and -EINVAL.
 *
 * commit() does not wait for the watch. The watch delivers the commit's revision if it
 * changed a key below the prefix; of a commit that changed nothing, *revision is one
 * that was delivered already. So a caller may always wait until *revision came.
 *
 * Every call ends: within 3 s and a second per endpoint. Close takes less than 2 s,
 * whatever etcd does, and leaves the session to expire; session_close ends it.
 *
 * Threads: one for the session and the status, one for the watch. No lock is held
 * during I/O or callbacks. Close must be the last call, from no callback.
 */
#ifndef TOPICFS_STORE_ETCD_H
#define TOPICFS_STORE_ETCD_H

#include "coord/clock.h"
#include "coord/problems.h"
#include "coord/store.h"

struct store_etcd_params {
    /* "etcd://[user[:password]@]host[:port],host[:port]...", or etcds:// for TLS */
    const char *endpoints;
    const char *user; /* NULL: the endpoints' */
    const char
        *password_file;    /* its first line is the password; NULL: the endpoints' */
    const char *ca_file;   /* PEM; NULL: the system's authorities */
    const char *cert_file; /* PEM, of the client; NULL: none */
    const char *key_file;  /* PEM; with cert_file */
    const char *prefix;    /* what is watched: "/topicfs/<cluster>/" */
    struct problems *problems; /* borrowed; gets kind "store" */
    const struct clock *clock; /* borrowed */
};

/*
 * Opens the store and asks etcd once. 0; E_STORE_UNREACHABLE; -EACCES (password,
 * certificate, permission); -EINVAL; another negative errno; `why` has the reason.
 */
int store_etcd_open(const struct store_etcd_params *params, struct store **out,
                    char *why, size_t why_size);

#endif
