#include "replica/http_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PEM_BYTES_MAX = 4 * 1024 * 1024, NAME_BYTES_MAX = 256 };

static int read_pem(const char *setting, const char *path, char **out, char *why,
                    size_t why_size)
{
    struct buf text;
    char block[4096];
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = fd < 0 ? -errno : 0;

    buf_init(&text, PEM_BYTES_MAX);
    while (rc == 0 && (n = read(fd, block, sizeof block)) > 0)
        rc = buf_add(&text, block, (size_t)n);
    if (rc == 0 && n < 0)
        rc = -errno;
    if (fd >= 0)
        (void)close(fd);
    explicit_bzero(block, sizeof block);
    if (rc < 0) {
        (void)snprintf(why, why_size, "%s: can't read %s: %s", setting, path,
                       err_text(rc));
    } else if (text.length == 0 || strlen(text.data) != text.length ||
               strstr(text.data, "-----BEGIN ") == NULL) {
        rc = -EINVAL;
        (void)snprintf(why, why_size, "%s: %s is no PEM file", setting, path);
    } else {
        *out = buf_take(&text, NULL);
    }
    buf_free(&text);
    return rc;
}

int http_tls_load(const struct mount_config *config, struct http_tls *out, char *why,
                  size_t why_size)
{
    bool has_certificate = *config->tls_cert != '\0',
         has_key = *config->tls_key != '\0';
    int rc = 0;

    *out = (struct http_tls){0};
    if (has_certificate != has_key || (*config->tls_ca != '\0' && !has_certificate)) {
        (void)snprintf(why, why_size,
                       has_certificate != has_key
                           ? "tls_cert and tls_key belong together: give both"
                           : "tls_ca asks clients for certificates, which needs HTTPS: "
                             "give tls_cert and tls_key too");
        return -EINVAL;
    }
    if (has_certificate)
        rc = read_pem("tls_cert", config->tls_cert, &out->certificate, why, why_size);
    if (rc == 0 && has_key)
        rc = read_pem("tls_key", config->tls_key, &out->key, why, why_size);
    if (rc == 0 && *config->tls_ca != '\0')
        rc = read_pem("tls_ca", config->tls_ca, &out->ca, why, why_size);
    if (rc < 0)
        http_tls_free(out);
    return rc;
}

void http_tls_free(struct http_tls *tls)
{
    if (tls->key != NULL)
        explicit_bzero(tls->key, strlen(tls->key));
    free(tls->certificate);
    free(tls->key);
    free(tls->ca);
    *tls = (struct http_tls){0};
}

static bool is_vouched_for(gnutls_session_t session)
{
    gnutls_typed_vdata_st purpose = {
        .type = GNUTLS_DT_KEY_PURPOSE_OID,
        .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT,
    };
    unsigned status = 0;

    return gnutls_certificate_type_get(session) == GNUTLS_CRT_X509 &&
           gnutls_certificate_verify_peers(session, &purpose, 1, &status) == 0 &&
           status == 0;
}

static char *common_name(const gnutls_datum_t *der)
{
    char name[NAME_BYTES_MAX];
    size_t size = sizeof name;
    gnutls_x509_crt_t certificate;
    char *copy = NULL;

    if (gnutls_x509_crt_init(&certificate) < 0)
        return NULL;
    /* A NUL inside would make one name of another. */
    if (gnutls_x509_crt_import(certificate, der, GNUTLS_X509_FMT_DER) == 0 &&
        gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0,
                                      name, &size) == 0 &&
        size > 0 && strnlen(name, sizeof name) == size)
        copy = strdup(name);
    gnutls_x509_crt_deinit(certificate);
    return copy;
}

char *http_tls_client_name(gnutls_session_t session)
{
    const gnutls_datum_t *chain;
    unsigned count = 0;

    chain = gnutls_certificate_get_peers(session, &count);
    if (chain == NULL || count == 0 || !is_vouched_for(session))
        return NULL;
    return common_name(&chain[0]);
}
