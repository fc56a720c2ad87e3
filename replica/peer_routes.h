/*
 * What a node answers to other nodes, as routes of its HTTP server:
 *
 *     POST /replica/fetch      a follower's fetch; waits for news
 *     POST /replica/produce    a batch from a node that does not lead the partition
 *     POST /replica/sync       what is below an offset is to be on every in-sync disk
 *
 * They are binary (peer_wire.h), and for nodes of this cluster alone (peer_access.h):
 * 403 for others, also for another cluster's name; 400 for what can't be understood.
 * Everything else, down to a partition that this node does not have, is told in the
 * answer.
 */
#ifndef TOPICFS_PEER_ROUTES_H
#define TOPICFS_PEER_ROUTES_H

#include "replica/broker.h"
#include "replica/http_server.h"

struct peer_routes;

struct peer_routes_params {
    const struct mount_config *config; /* borrowed, as all of these */
    struct cluster *cluster;
    struct broker *broker;
};

/* 0, or a negative errno, with `why`: the key's file can't be used, or nodes of other
 * machines are expected and nothing would tell them from strangers (-EACCES). */
int peer_routes_new(const struct peer_routes_params *params, struct peer_routes **out,
                    char *why, size_t why_size);
int peer_routes_add(struct peer_routes *routes, struct http_server *server);
/* After the server stopped. NULL is fine. */
void peer_routes_free(struct peer_routes *routes);

#endif
