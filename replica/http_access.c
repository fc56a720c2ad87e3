/*
 * Who may ask at all. In this order: a bearer token (a wrong one is refused, whatever
 * else there is), a client certificate, the owner of a loopback client's socket.
 */
#include "replica/http_internal.h"
#include "replica/http_peer.h"

#include <unistd.h>

struct refusal {
    unsigned status;
    const char *name;
    const char *why;
};

static const struct refusal allowed = {0};

static struct refusal refuse(unsigned status, const char *name, const char *why)
{
    return (struct refusal){.status = status, .name = name, .why = why};
}

static struct refusal by_token(struct http_request *request, const char *authorization)
{
    struct http_tokens *tokens = request->server->tokens;

    if (tokens != NULL)
        request->user = http_tokens_find(tokens, authorization);
    if (request->user != NULL)
        return allowed;
    return refuse(MHD_HTTP_UNAUTHORIZED, "UNKNOWN_TOKEN",
                  tokens != NULL ? "the token is not in the token file"
                                 : "this server has no token file");
}

static struct refusal by_certificate(struct http_request *request, const char *name)
{
    int rc = http_user_by_name(name, &request->user);

    if (rc == 0)
        return allowed;
    return refuse(MHD_HTTP_FORBIDDEN, "UNKNOWN_USER",
                  "the common name of the client's certificate is no user here");
}

/*
 * A local client is let in for what it is, without a secret. A web page that this
 * user's browser shows must not get in with it: its requests name their origin, or the
 * page was led here under a name of its own.
 */
static struct refusal by_socket(struct http_request *request)
{
    const struct mount_config *config = request->server->config;
    const struct http_user *user = request->peer->user;
    const char *host = http_request_header(request, MHD_HTTP_HEADER_HOST);
    uid_t uid;

    if (user == NULL)
        return refuse(
            MHD_HTTP_UNAUTHORIZED, "UNKNOWN_CLIENT",
            "the kernel does not tell whose socket this is: a token is needed");
    if (http_request_header(request, MHD_HTTP_HEADER_ORIGIN) != NULL ||
        (host != NULL && !http_peer_host_is_loopback(host)))
        return refuse(MHD_HTTP_FORBIDDEN, "BROWSER",
                      "requests of web pages, and such as name another host, are "
                      "refused without a token");
    uid = http_user_uid(user);
    if (!config->allow_other && uid != geteuid() && uid != 0)
        return refuse(MHD_HTTP_FORBIDDEN, "NOT_FOR_OTHERS",
                      "the mount is its owner's alone (see allow_other)");
    request->user = http_user_get(user);
    return allowed;
}

static struct refusal check(struct http_request *request)
{
    const char *authorization =
        http_request_header(request, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *certificate;

    if (authorization != NULL)
        return by_token(request, authorization);
    certificate = http_request_certificate(request);
    if (certificate != NULL)
        return by_certificate(request, certificate);
    if (request->peer->loopback)
        return by_socket(request);
    return refuse(MHD_HTTP_UNAUTHORIZED, "UNKNOWN_CLIENT",
                  "a token or a client certificate is needed");
}

unsigned http_access_check(struct http_request *request, const char **name,
                           const char **why)
{
    struct refusal refusal = check(request);

    if (request->route->access == HTTP_ROUTE_DECIDES)
        return 0;
    *name = refusal.name;
    *why = refusal.why;
    return refusal.status;
}
