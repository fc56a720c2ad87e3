/* POST /replica/produce: appends a batch for another node, and answers once its acks
 * are met. */
#include "replica/partition_replica.h"
#include "replica/peer_routes_internal.h"

#include <stdlib.h>

enum { TIMEOUT_MAX_MS = 600000 };

struct produce_task {
    struct produce_waiter waiter; /* first */
    struct http_request *request;
    const struct peer_routes *routes;
    struct partition *partition; /* one reference */
    struct produce_result result;
};

static void task_free(void *context)
{
    struct produce_task *task = context;
    partition_unref(task->partition);
    free(task);
}

static void reply(struct http_request *request, const struct peer_routes *routes,
                  const struct produce_result *result, int32_t leader_epoch)
{
    struct peer_produced produced = {.error = result->error,
                                     .appended = result->end.offset > 0,
                                     .leader_epoch = leader_epoch,
                                     .base_offset = result->base_offset};
    struct buf out;
    peer_routes_sender(routes, &produced.from);
    buf_init(&out, PEER_REQUEST_MAX);
    (void)peer_produced_encode(&produced, &out);
    http_reply_text(request, 200, PEER_TYPE, &out);
}

static void produce_reply(struct http_request *request)
{
    const struct produce_task *task = http_request_context(request);
    reply(request, task->routes, &task->result, task->waiter.leader_epoch);
}

static void on_done(struct produce_waiter *waiter, const struct produce_result *result)
{
    struct produce_task *task = (struct produce_task *)waiter;
    task->result = *result;
    http_request_continue(task->request, produce_reply);
}

static void on_expired(struct http_request *request)
{
    struct produce_task *task = http_request_context(request);
    if (partition_produce_cancel(task->partition, &task->waiter, &task->result)) {
        http_request_continue(request, produce_reply);
    }
}

static void produce(struct http_request *request, const struct peer_produce *produce,
                    struct produce_task *task)
{
    struct produce_result result = {0};
    int64_t timeout_ms =
        produce->timeout_ms < TIMEOUT_MAX_MS ? produce->timeout_ms : TIMEOUT_MAX_MS;
    http_request_wait(request, timeout_ms, on_expired);
    if (partition_produce_remote(task->partition, produce, &task->waiter, &result) !=
        PRODUCE_PENDING) {
        task->result = result;
        http_request_continue(request, produce_reply);
    }
}

void peer_produce_handle(struct http_request *request)
{
    struct peer_routes *routes = http_request_argument(request);
    const struct buf *body = http_request_body(request);
    struct peer_produce asked;
    if (!peer_routes_admit(request, routes)) {
        return;
    }
    int rc = peer_produce_decode(body->data, body->length, &asked);
    if (!peer_routes_understood(request, routes, rc, &asked.from)) {
        return;
    }
    struct partition *partition = broker_partition(
        routes->params.broker, &asked.partition.topic_id, asked.partition.index);
    struct produce_task *task = partition ? calloc(1, sizeof *task) : NULL;
    if (!task) {
        const struct produce_result refused = {.error =
                                                   partition ? -ENOMEM : E_NOT_LEADER};
        partition_unref(partition);
        reply(request, routes, &refused, -1);
        return;
    }
    *task = (struct produce_task){.waiter = {.done = on_done},
                                  .request = request,
                                  .routes = routes,
                                  .partition = partition};
    http_request_set_context(request, task, task_free);
    produce(request, &asked, task);
}
