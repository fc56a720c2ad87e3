/*
 * Reading a partition over HTTP, on any node: where other nodes keep it, its copy is
 * begun, and the request waits until that holds all that was committed.
 *
 *     struct fetch { struct http_reading reading; ... };     // first: the context
 *     http_request_set_context(request, fetch, fetch_free);
 *     http_reading_begin(request, &fetch->reading, fetch_go_on);
 *     ...
 *     static void fetch_go_on(struct http_request *request)
 *     {
 *         struct fetch *fetch = http_request_context(request);
 *         ... fetch->reading.partition ...
 *     }
 *     fetch_free: http_reading_end(&fetch->reading);
 *
 * Threads of the server alone.
 */
#ifndef TOPICFS_HTTP_READING_H
#define TOPICFS_HTTP_READING_H

#include "replica/broker.h"
#include "replica/http_request.h"

struct http_reading {
    /* A reference, from the call of `next` on. While it is held the copy stays. */
    struct partition *partition;
    /* private */
    struct open_waiter waiter;
    struct http_request *request;
    struct broker *broker; /* borrowed */
    const struct clock *clock;
    struct topic_id topic_id;
    int32_t index;
    int64_t deadline_ms;
    http_request_fn *next;
};

/*
 * The partition that the path's second and third part name, for a user who may read it:
 * next() is called, now or later. Else the request is replied to, at the latest after
 * the topic's delivery_timeout_ms. `reading` is zeroed before, lies in the request's
 * context, and the route's argument is a struct http_topics.
 */
void http_reading_begin(struct http_request *request, struct http_reading *reading,
                        http_request_fn *next);
/* When the context is freed. */
void http_reading_end(struct http_reading *reading);

#endif
