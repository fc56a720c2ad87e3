#include "replica/http_reading.h"

#include "replica/http_topics.h"

#include <stddef.h>

static void try_again(struct http_request *request);

static struct http_reading *reading_of(struct http_request *request)
{
    return http_request_context(request);
}

static void on_opened(struct open_waiter *waiter)
{
    struct http_reading *reading =
        (struct http_reading *)((char *)waiter - offsetof(struct http_reading, waiter));

    http_request_continue(reading->request, try_again);
}

/* The time is over, or the server stops. */
static void on_expired(struct http_request *request)
{
    struct http_reading *reading = reading_of(request);

    if (broker_await_cancel(reading->broker, &reading->waiter)) {
        reading->deadline_ms = INT64_MIN;
        http_request_continue(request, try_again);
    }
}

static void try_again(struct http_request *request)
{
    struct http_reading *reading = reading_of(request);
    int64_t left_ms = reading->deadline_ms - clock_mono_ms(reading->clock);

    if (partition_observe(reading->partition)) {
        reading->next(request);
        return;
    }
    if (reading->deadline_ms == INT64_MIN || left_ms <= 0) {
        http_reply_error(request, E_NO_LEADER,
                         "other nodes keep the partition, and a copy of it was not "
                         "complete in time; it goes on");
        return;
    }
    reading->waiter = (struct open_waiter){.opened = on_opened};
    http_request_wait(request, left_ms, on_expired);
    if (broker_await_partition(reading->broker, &reading->topic_id, reading->index,
                               &reading->waiter) != 0)
        http_request_continue(request, try_again);
}

void http_reading_begin(struct http_request *request, struct http_reading *reading,
                        http_request_fn *next)
{
    const struct http_topics *topics = http_request_argument(request);
    const struct cluster_snapshot *snapshot;
    const struct topic *topic;
    const char *why;
    int error;

    if (!http_topics_find(request, HTTP_READ, &snapshot, &topic))
        return;
    *reading = (struct http_reading){.request = request,
                                     .broker = topics->broker,
                                     .clock = topics->clock,
                                     .topic_id = topic->id,
                                     .next = next};
    if (http_topics_index(request, topic, &reading->index) == 0) {
        reading->deadline_ms =
            clock_mono_ms(topics->clock) + topic->config.delivery_timeout_ms;
        reading->partition = http_topics_partition(topics, snapshot, topic,
                                                   reading->index, &error, &why);
        if (reading->partition == NULL)
            http_reply_error(request, error, why);
    }
    cluster_snapshot_put(snapshot);
    if (reading->partition != NULL) {
        partition_hold(reading->partition);
        try_again(request);
    }
}

void http_reading_end(struct http_reading *reading)
{
    partition_let_go(reading->partition);
    partition_unref(reading->partition);
}
