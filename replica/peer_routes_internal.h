/* Inside of the routes for other nodes, for peer_routes*.c only. */
#ifndef TOPICFS_PEER_ROUTES_INTERNAL_H
#define TOPICFS_PEER_ROUTES_INTERNAL_H

#include "replica/peer_access.h"
#include "replica/peer_routes.h"
#include "replica/peer_wire.h"

#define PEER_TYPE "application/octet-stream"

struct peer_routes {
    struct peer_routes_params params; /* [const] */
    char key[PEER_KEY_MAX + 1];       /* [const] */
};

http_request_fn peer_fetch_handle;   /* peer_routes_fetch.c */
http_request_fn peer_produce_handle; /* peer_routes_produce.c */
http_request_fn peer_sync_handle;    /* peer_routes_produce.c */

/* Both: false once the request was refused. */
bool peer_routes_admit(struct http_request *request, const struct peer_routes *routes);
/* `rc`: what the decoder said. */
bool peer_routes_understood(struct http_request *request,
                            const struct peer_routes *routes, int rc,
                            const struct peer_sender *from);
void peer_routes_sender(const struct peer_routes *routes, struct peer_sender *out);

#endif
