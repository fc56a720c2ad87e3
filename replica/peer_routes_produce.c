/*
 * POST /replica/produce: appends a batch for another node, and answers once its acks
 * are met. POST /replica/sync: answers once everything below an offset is durable. Both
 * wait by a produce_waiter.
 */
#include "replica/partition_replica.h"
#include "replica/peer_routes_internal.h"

#include <stdlib.h>

enum { TIMEOUT_MAX_MS = 600000 };

struct produce_task {
    struct produce_waiter waiter; /* first */
    struct http_request *request;
    const struct peer_routes *routes;
    struct partition *partition; /* one reference */
    uint16_t version;            /* of whom is answered */
    http_request_fn *reply;
    struct produce_result result;
};

static void task_free(void *context)
{
    struct produce_task *task = context;
    partition_unref(task->partition);
    free(task);
}

static void on_done(struct produce_waiter *waiter, const struct produce_result *result)
{
    struct produce_task *task = (struct produce_task *)waiter;
    task->result = *result;
    http_request_continue(task->request, task->reply);
}

static void on_expired(struct http_request *request)
{
    struct produce_task *task = http_request_context(request);
    if (partition_produce_cancel(task->partition, &task->waiter, &task->result)) {
        if (!http_request_is_due(request)) {
            /* This node ends, but the wait does not: it is for the next leader. */
            task->result.error = E_OFFLINE;
        }
        http_request_continue(request, task->reply);
    }
}

/* NULL: *error says why. */
static struct produce_task *task_new(struct http_request *request,
                                     const struct peer_partition *where,
                                     uint16_t version, http_request_fn *reply,
                                     int *error)
{
    const struct peer_routes *routes = http_request_argument(request);
    struct partition *partition =
        broker_partition(routes->params.broker, &where->topic_id, where->index);
    struct produce_task *task = partition ? calloc(1, sizeof *task) : NULL;
    if (!task) {
        *error = partition ? -ENOMEM : E_NOT_LEADER;
        partition_unref(partition);
        return NULL;
    }
    *task = (struct produce_task){.waiter = {.done = on_done},
                                  .request = request,
                                  .routes = routes,
                                  .partition = partition,
                                  .version = version,
                                  .reply = reply};
    http_request_set_context(request, task, task_free);
    return task;
}

static void begin_wait(struct http_request *request, uint32_t timeout_ms)
{
    http_request_wait(
        request, timeout_ms < TIMEOUT_MAX_MS ? timeout_ms : TIMEOUT_MAX_MS, on_expired);
}

/* ---- producing ----------------------------------------------------------------------
 */

static void answer_produce(struct http_request *request, uint16_t version,
                           const struct produce_result *result, int32_t leader_epoch)
{
    struct peer_produced produced = {.error = result->error,
                                     .appended = result->end.offset > 0,
                                     .leader_epoch = leader_epoch,
                                     .base_offset = result->base_offset};
    struct buf out;
    peer_routes_sender(http_request_argument(request), &produced.from);
    produced.from.version = version;
    buf_init(&out, PEER_REQUEST_MAX);
    (void)peer_produced_encode(&produced, &out);
    http_reply_text(request, 200, PEER_TYPE, &out);
}

static void produce_reply(struct http_request *request)
{
    const struct produce_task *task = http_request_context(request);
    answer_produce(request, task->version, &task->result, task->waiter.leader_epoch);
}

void peer_produce_handle(struct http_request *request)
{
    const struct peer_routes *routes = http_request_argument(request);
    const struct buf *body = http_request_body(request);
    struct produce_result result = {0};
    struct peer_produce asked;
    if (!peer_routes_admit(request, routes)) {
        return;
    }
    int rc = peer_produce_decode(body->data, body->length, &asked);
    if (!peer_routes_understood(request, routes, rc, &asked.from)) {
        return;
    }
    struct produce_task *task = task_new(request, &asked.partition, asked.from.version,
                                         produce_reply, &result.error);
    if (!task) {
        answer_produce(request, asked.from.version, &result, -1);
        return;
    }
    begin_wait(request, asked.timeout_ms);
    if (partition_produce_remote(task->partition, &asked, &task->waiter, &result) !=
        PRODUCE_PENDING) {
        task->result = result;
        http_request_continue(request, produce_reply);
    }
}

/* ---- making durable -----------------------------------------------------------------
 */

static void answer_sync(struct http_request *request, struct peer_synced *synced)
{
    struct buf out;
    peer_routes_sender(http_request_argument(request), &synced->from);
    buf_init(&out, PEER_REQUEST_MAX);
    (void)peer_synced_encode(synced, &out);
    http_reply_text(request, 200, PEER_TYPE, &out);
}

static void sync_reply(struct http_request *request)
{
    const struct produce_task *task = http_request_context(request);
    struct peer_synced synced = {.error = task->result.error,
                                 .leader_epoch = task->waiter.leader_epoch,
                                 .durable_end = partition_durable_end(task->partition)};
    answer_sync(request, &synced);
}

void peer_sync_handle(struct http_request *request)
{
    const struct peer_routes *routes = http_request_argument(request);
    const struct buf *body = http_request_body(request);
    struct peer_synced refused = {.leader_epoch = -1, .durable_end = -1};
    struct produce_result result = {0};
    struct peer_sync asked;
    if (!peer_routes_admit(request, routes)) {
        return;
    }
    int rc = peer_sync_decode(body->data, body->length, &asked);
    if (!peer_routes_understood(request, routes, rc, &asked.from)) {
        return;
    }
    struct produce_task *task = task_new(request, &asked.partition, asked.from.version,
                                         sync_reply, &refused.error);
    if (!task) {
        answer_sync(request, &refused);
        return;
    }
    begin_wait(request, asked.timeout_ms);
    if (partition_sync_remote(task->partition, &asked, &task->waiter, &result) !=
        PRODUCE_PENDING) {
        task->result = result;
        http_request_continue(request, sync_reply);
    }
}
