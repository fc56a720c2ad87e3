#include "replica/http_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* An address as the kernel's diagnosis wants it; IPv4 in IPv6 is IPv4, as that is what
 * the client's socket is. */
struct end {
    int family;
    in_port_t port;
    uint32_t address[4];
};

static bool end_of(const struct sockaddr *address, struct end *out)
{
    *out = (struct end){.family = address->sa_family};
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;

        memcpy(&in, address, sizeof in);
        out->port = in.sin_port;
        out->address[0] = in.sin_addr.s_addr;
        return true;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;

        memcpy(&in6, address, sizeof in6);
        out->port = in6.sin6_port;
        memcpy(out->address, &in6.sin6_addr, sizeof out->address);
        if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
            out->family = AF_INET;
            out->address[0] = out->address[3];
            out->address[1] = out->address[2] = out->address[3] = 0;
        }
        return true;
    }
    return false;
}

bool http_peer_is_loopback(const struct sockaddr *address)
{
    struct end end;

    if (!end_of(address, &end))
        return false;
    if (end.family == AF_INET)
        return ntohl(end.address[0]) >> 24 == IN_LOOPBACKNET;
    return memcmp(end.address, &in6addr_loopback, sizeof end.address) == 0;
}

struct question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 request;
};

static int ask(const struct question *question, struct inet_diag_msg *answer)
{
    union {
        struct nlmsghdr header;
        char bytes[4096];
    } reply;
    const struct timeval patience = {.tv_sec = 1};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    int rc = 0;
    ssize_t n;

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (send(fd, question, sizeof *question, 0) != (ssize_t)sizeof *question ||
        (n = recv(fd, &reply, sizeof reply, 0)) < 0) {
        rc = -errno;
    } else if ((size_t)n >= NLMSG_LENGTH(sizeof(struct nlmsgerr)) &&
               reply.header.nlmsg_type == NLMSG_ERROR) {
        struct nlmsgerr error;

        memcpy(&error, NLMSG_DATA(&reply.header), sizeof error);
        rc = error.error < 0 ? error.error : -EPROTO;
    } else if ((size_t)n < NLMSG_LENGTH(sizeof *answer) ||
               reply.header.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
        rc = -EPROTO;
    } else {
        memcpy(answer, NLMSG_DATA(&reply.header), sizeof *answer);
    }
    (void)close(fd);
    return rc;
}

int http_peer_uid(const struct sockaddr *peer, const struct sockaddr *local, uid_t *uid)
{
    struct question question = {
        .header = {.nlmsg_len = sizeof question,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST},
        .request = {.sdiag_protocol = IPPROTO_TCP,
                    .idiag_states = UINT32_MAX,
                    .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}},
    };
    struct inet_diag_msg answer = {0};
    struct end from, to;
    int rc;

    if (!end_of(peer, &from) || !end_of(local, &to) || from.family != to.family)
        return -EAFNOSUPPORT;
    question.request.sdiag_family = (uint8_t)from.family;
    question.request.id.idiag_sport = from.port;
    question.request.id.idiag_dport = to.port;
    memcpy(question.request.id.idiag_src, from.address, sizeof from.address);
    memcpy(question.request.id.idiag_dst, to.address, sizeof to.address);
    rc = ask(&question, &answer);
    if (rc < 0)
        return rc;
    /* A socket that its process has closed shows uid 0. It has no inode either; the
     * kernel looks at the uid first, so with an inode the uid is the owner's. And where
     * no such pair is connected, the answer is of what listens there. */
    if (answer.idiag_inode == 0 || answer.id.idiag_sport != from.port ||
        answer.id.idiag_dport != to.port)
        return -ENOENT;
    *uid = answer.idiag_uid;
    return 0;
}

bool http_peer_host_is_loopback(const char *host)
{
    char name[64];
    size_t length;
    struct in_addr address;

    if (*host == '[')
        return strncmp(host, "[::1]", 5) == 0 && (host[5] == '\0' || host[5] == ':');
    length = strcspn(host, ":");
    if (length == 0 || length >= sizeof name)
        return false;
    memcpy(name, host, length);
    name[length] = '\0';
    if (strcasecmp(name, "localhost") == 0)
        return true;
    return inet_pton(AF_INET, name, &address) == 1 &&
           ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
}
