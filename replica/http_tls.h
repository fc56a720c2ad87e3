/*
 * The HTTP server's TLS: the files of the settings, and what a client's certificate
 * says.
 *
 *     http_tls_load(config, &tls, why, sizeof why);
 *     ... the daemon borrows tls.certificate, tls.key, tls.ca ...
 *     name = http_tls_client_name(session);      // the caller frees
 *     http_tls_free(&tls);
 *
 * That the server knows a CA does not make clients show a certificate, nor have it
 * verified: http_tls_client_name() does the latter. Any thread.
 */
#ifndef TOPICFS_HTTP_TLS_H
#define TOPICFS_HTTP_TLS_H

#include "coord/coord.h"

#include <gnutls/gnutls.h>

struct http_tls {
    char *certificate; /* PEM; NULL: no TLS */
    char *key;
    char *ca; /* NULL: none */
};

/* 0 (also without any); -EINVAL for combinations that make no sense, or a file that has
 * no PEM in it; what reading fails with. */
int http_tls_load(const struct mount_config *config, struct http_tls *out, char *why,
                  size_t why_size);
void http_tls_free(struct http_tls *tls); /* also a zeroed one; wipes the key */

/* The common name of the peer's certificate, if one of the server's CAs vouches for it,
 * for use by clients, today; else NULL. */
char *http_tls_client_name(gnutls_session_t session);

#endif
