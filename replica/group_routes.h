/*
 * What a node answers to other nodes about consumer groups, as routes of its HTTP
 * server, for nodes of this cluster alone (peer_access.h):
 *
 *     POST /replica/groups    requests to the coordinator; beats may wait
 *     POST /replica/locate    places in the logs of partitions led here
 *
 * Both take and give JSON (group_wire.h). 403 for others; everything else is told in
 * the answer.
 *
 *     group_routes_new(&params, &routes, why, sizeof why);
 *     group_routes_add(routes, server);         // before the server starts
 *     group_routes_end(routes);                 // before the coordinator stops
 *     group_routes_free(routes);                // after the server stopped
 */
#ifndef TOPICFS_GROUP_ROUTES_H
#define TOPICFS_GROUP_ROUTES_H

#include "replica/group_coordinator.h"
#include "replica/http_server.h"

struct group_routes;

struct group_routes_params {
    const struct mount_config *config; /* borrowed, as all of these */
    struct broker *broker;
    struct group_coordinator *coordinator;
};

/* 0, or a negative errno, with `why`: the key's file can't be used. */
int group_routes_new(const struct group_routes_params *params,
                     struct group_routes **out, char *why, size_t why_size);
int group_routes_add(struct group_routes *routes, struct http_server *server);
/* The coordinator is not called any more when it returns: requests are answered
 * E_NOT_COORDINATOR. NULL is fine. */
void group_routes_end(struct group_routes *routes);
/* NULL is fine. */
void group_routes_free(struct group_routes *routes);

#endif
