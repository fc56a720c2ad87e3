/*
 * What a node tells about itself over HTTP:
 *
 *     GET /healthz           200 "ok", or 503 with the faults
 *     GET /metrics           Prometheus' text format
 *     GET /cluster/<path>    what the mount has there; a directory as a JSON list
 *
 * /healthz answers anyone, and tells the faults to known users alone.
 *
 *     struct http_status status = {.cluster = ..., ...};
 *     http_status_add(server, &status);     // borrowed until the server has stopped
 */
#ifndef TOPICFS_HTTP_STATUS_H
#define TOPICFS_HTTP_STATUS_H

#include "coord/coord.h"
#include "replica/broker.h"
#include "replica/groups.h"
#include "replica/http_server.h"

struct http_status {
    struct cluster *cluster; /* borrowed, as all of these */
    struct broker *broker;
    struct problems *problems;
    struct groups *groups; /* NULL: none */
};

/* 0 or -ENOSPC. */
int http_status_add(struct http_server *server, struct http_status *status);

#endif
