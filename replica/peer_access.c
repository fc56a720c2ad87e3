#include "replica/peer_access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    size_t length = 0;
    ssize_t n = 1;
    while (n > 0 && length < size) {
        n = read(fd, out + length, size - length);
        length += n > 0 ? (size_t)n : 0;
    }
    int rc = n < 0 ? -errno : (int)length;
    (void)close(fd);
    return rc;
}

int peer_access_key(const struct mount_config *config, char key[PEER_KEY_MAX + 1])
{
    char text[PEER_KEY_MAX + 2] = "";
    key[0] = '\0';
    if (!*config->cluster_key) {
        return 0;
    }
    int length = read_file(config->cluster_key, text, sizeof text);
    if (length < 0) {
        return length;
    }
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r')) {
        length--;
    }
    if (length < PEER_KEY_MIN || length > PEER_KEY_MAX) {
        return -EINVAL;
    }
    for (int i = 0; i < length; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return -EINVAL;
        }
    }
    memcpy(key, text, (size_t)length);
    key[length] = '\0';
    return 1;
}

bool peer_access_suffices(const struct mount_config *config)
{
    static const char *const loopback[] = {"127.", "localhost:", "[::1]:"};
    const char *address = *config->advertise ? config->advertise : config->listen;
    bool near = false;
    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++) {
        near = near || strncmp(address, loopback[i], strlen(loopback[i])) == 0;
    }
    return near || *config->cluster_key || *config->tls_ca;
}

int peer_access_check(const struct mount_config *config, char *why, size_t why_size)
{
    char key[PEER_KEY_MAX + 1];
    int rc = peer_access_key(config, key);
    if (rc < 0) {
        (void)snprintf(why, why_size, "cluster_key=%s: %s", config->cluster_key,
                       rc == -EINVAL ? "not one line of 16 to 512 printable characters"
                                     : err_text(rc));
    } else if (!peer_access_suffices(config)) {
        (void)snprintf(
            why, why_size,
            "nodes of other machines are to reach this one, and nothing would "
            "tell them from strangers: give all nodes the same cluster_key");
        rc = -EACCES;
    }
    explicit_bzero(key, sizeof key);
    return rc < 0 ? rc : 0;
}

/* Takes a time that says nothing of where they differ. */
static bool equal(const char *a, const char *b)
{
    size_t length = strlen(a);
    unsigned differ = 0;
    if (length != strlen(b)) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        differ |= (unsigned)(unsigned char)(a[i] ^ b[i]);
    }
    return differ == 0;
}

bool peer_access_allowed(const struct http_request *request, const char *key)
{
    if (*key) {
        const char *given = http_request_header(request, PEER_KEY_HEADER);
        return given && equal(key, given);
    }
    const struct http_user *user = http_request_user(request);
    return user && (http_user_uid(user) == geteuid() || http_user_uid(user) == 0);
}
