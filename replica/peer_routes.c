#include "replica/peer_routes.h"

#include "replica/peer_access.h"
#include "replica/peer_routes_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct http_route routes_served[] = {
    {.method = "POST",
     .pattern = "/replica/fetch",
     .access = HTTP_ROUTE_DECIDES,
     .body_max = PEER_REQUEST_MAX,
     .handler = peer_fetch_handle},
    {.method = "POST",
     .pattern = "/replica/produce",
     .access = HTTP_ROUTE_DECIDES,
     .body_max = PEER_REQUEST_MAX,
     .handler = peer_produce_handle},
    {.method = "POST",
     .pattern = "/replica/sync",
     .access = HTTP_ROUTE_DECIDES,
     .body_max = PEER_SYNC_MAX,
     .handler = peer_sync_handle},
};

int peer_routes_new(const struct peer_routes_params *params, struct peer_routes **out,
                    char *why, size_t why_size)
{
    const struct mount_config *config = params->config;
    struct peer_routes *routes = calloc(1, sizeof *routes);
    *out = NULL;
    if (!routes) {
        (void)snprintf(why, why_size, "%s", err_text(-ENOMEM));
        return -ENOMEM;
    }
    routes->params = *params;
    int rc = peer_access_check(config, why, why_size);
    rc = rc < 0 ? rc : peer_access_key(config, routes->key);
    if (rc < 0) {
        free(routes);
        return rc;
    }
    *out = routes;
    return 0;
}

int peer_routes_add(struct peer_routes *routes, struct http_server *server)
{
    return http_server_add(server, routes_served,
                           sizeof routes_served / sizeof routes_served[0], routes);
}

void peer_routes_free(struct peer_routes *routes)
{
    free(routes);
}

bool peer_routes_admit(struct http_request *request, const struct peer_routes *routes)
{
    bool allowed = peer_access_allowed(request, routes->key);
    if (!allowed) {
        http_reply_error(request, -EACCES, "not a node of this cluster");
    }
    return allowed;
}

bool peer_routes_understood(struct http_request *request,
                            const struct peer_routes *routes, int rc,
                            const struct peer_sender *from)
{
    if (rc) {
        http_reply_error(request, rc == -EBADMSG ? -EINVAL : rc, NULL);
        return false;
    }
    bool ours = strcmp(from->cluster, routes->params.config->cluster) == 0;
    if (!ours) {
        http_reply_error(request, -EACCES, "a node of another cluster");
    }
    return ours;
}

void peer_routes_sender(const struct peer_routes *routes, struct peer_sender *out)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(routes->params.cluster);
    peer_sender_set(out, routes->params.config->cluster, snapshot);
    cluster_snapshot_put(snapshot);
}
