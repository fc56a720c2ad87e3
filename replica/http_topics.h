/*
 * Topics over HTTP, for clients that have no mount:
 *
 *     GET  /topics?internal=            ["orders", ...]
 *     GET  /topics/<t>                  name, id, config, partitions
 *     GET  /topics/<t>/<p>/state        as the file of that name
 *     GET  /topics/<t>/<p>?from=&max_bytes=&wait_ms=    messages, whole lines
 *     POST /topics/<t>/<p>?acks=        appends the body's lines as one batch
 *     POST /topics/<t>?acks=            likewise, each line to its key's partition
 *
 * docs/http.md has the arguments, the answers and the headers.
 *
 *     struct http_topics topics = {.cluster = ..., .broker = ..., .clock = ...};
 *     http_topics_add(server, &topics);     // borrowed until the server has stopped
 */
#ifndef TOPICFS_HTTP_TOPICS_H
#define TOPICFS_HTTP_TOPICS_H

#include "coord/coord.h"
#include "replica/broker.h"
#include "replica/http_server.h"

#include <stdatomic.h>

struct http_topics {
    struct cluster *cluster; /* borrowed, as all of these */
    struct broker *broker;
    const struct clock *clock;
    _Atomic uint32_t rotation; /* of lines without a key */
};

/* 0 or -ENOSPC. */
int http_topics_add(struct http_server *server, struct http_topics *topics);

/* ---- for http_reading.c, http_fetch.c and http_produce.c ----------------------------
 */

/*
 * The topic that the path's second part names, if the user may `want` (enum http_want):
 * true, and *snapshot is the caller's, *topic borrowed from it. Else false, and the
 * request is replied to.
 */
bool http_topics_find(struct http_request *request, unsigned want,
                      const struct cluster_snapshot **snapshot,
                      const struct topic **topic);
/* Partition `index` of it: a reference, or NULL, and *error, *why say why. */
struct partition *http_topics_partition(const struct http_topics *topics,
                                        const struct cluster_snapshot *snapshot,
                                        const struct topic *topic, int32_t index,
                                        int *error, const char **why);
/* The number in the path's third part: 0, or replied with -EINVAL or -ENOENT. */
int http_topics_index(struct http_request *request, const struct topic *topic,
                      int32_t *index);

/* Handlers. */
void http_fetch_handle(struct http_request *request);
void http_produce_handle(struct http_request *request);
void http_produce_by_key_handle(struct http_request *request);
/* The largest body that may be one batch of the topic. */
size_t http_produce_limit(struct http_request *request);

#endif
