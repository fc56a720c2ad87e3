/*
 * POST /replica/fetch: all partitions of the request are judged; if none has anything
 * new, it waits until one has; a fetch of no partitions waits its time, and so tells
 * its sender that this node lives. The answer is one buffer: a head with all entries,
 * then the payloads.
 */
#include "replica/partition_replica.h"
#include "replica/peer_routes_internal.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { WAIT_MAX_MS = 30000, FETCH_BYTES_MAX = 32 << 20 };

struct fetch_part {
    struct fetch_waiter waiter; /* first */
    struct fetch_task *task;
    struct partition *partition; /* one reference; NULL: this node has none */
    struct fetch_answer answer;
    struct fetch_batches batches;
    bool hold;
};

/* Counted: the request holds a reference, and each parked waiter another. */
struct fetch_task {
    atomic_uint references;
    atomic_bool ended; /* the wait; whoever sets it continues the request */
    struct http_request *request;
    const struct peer_routes *routes;
    struct peer_fetch fetch;
    struct fetch_part *parts; /* as fetch.items */
    bool waited;
};

static void task_unref(struct fetch_task *task)
{
    if (atomic_fetch_sub(&task->references, 1) != 1) {
        return;
    }
    for (uint32_t i = 0; i < task->fetch.count; i++) {
        partition_unref(task->parts[i].partition);
        buf_free(&task->parts[i].batches.entries);
    }
    free(task->parts);
    peer_fetch_free(&task->fetch);
    free(task);
}

static void task_free(void *context)
{
    task_unref(context);
}

/* ---- the answer ---------------------------------------------------------------------
 */

static void choose_part(struct fetch_task *task, uint32_t i, size_t *left)
{
    struct fetch_part *part = &task->parts[i];
    const struct peer_fetch_item *item = &task->fetch.items[i];
    size_t bytes = item->max_bytes < *left ? item->max_bytes : *left;
    if (!part->partition) {
        return;
    }
    if (task->waited) {
        partition_fetch_again(part->partition, &item->request, &part->answer);
    }
    int rc = partition_fetch_choose(part->partition, &part->answer,
                                    item->request.fetch_offset, bytes, &part->batches);
    if (rc) {
        /* What can't be read here is in problems; the follower asks again. */
        buf_free(&part->batches.entries);
        part->batches.count = 0;
        part->batches.length = 0;
        part->answer.kind = FETCH_ERROR;
        part->answer.error = rc;
    }
    *left -= part->batches.length < *left ? part->batches.length : *left;
}

static int compose(struct fetch_task *task, struct buf *out)
{
    struct peer_fetched fetched = {.count = task->fetch.count};
    peer_routes_sender(task->routes, &fetched.from);
    fetched.from.version = task->fetch.from.version;
    fetched.items = calloc(fetched.count ? fetched.count : 1, sizeof *fetched.items);
    if (!fetched.items) {
        return -ENOMEM;
    }
    size_t total = 0;
    for (uint32_t i = 0; i < fetched.count; i++) {
        const struct fetch_part *part = &task->parts[i];
        fetched.items[i] = (struct peer_fetched_item){
            .partition = task->fetch.items[i].partition,
            .answer = part->answer,
            .base_offset = part->batches.base_offset,
            .batch_count = part->batches.count,
            .entries = (const uint8_t *)part->batches.entries.data,
            .length = part->batches.length};
        total += part->batches.length;
    }
    int rc = peer_fetched_encode(&fetched, out);
    free(fetched.items);
    uint8_t *at = rc ? NULL : buf_extend(out, total);
    for (uint32_t i = 0; at && i < task->fetch.count; i++) {
        struct fetch_part *part = &task->parts[i];
        if (part->batches.length &&
            partition_fetch_read(part->partition, &part->batches, at)) {
            part->batches.count = 0;
            part->batches.length = 0;
            return -EAGAIN; /* compaction or damage: the answer goes without it */
        }
        at += part->batches.length;
    }
    return buf_error(out);
}

/* Waiters that still stand give their references back; the request keeps its own. */
static void cancel_waits(struct fetch_task *task)
{
    unsigned cancelled = 0;
    for (uint32_t i = 0; i < task->fetch.count; i++) {
        struct fetch_part *part = &task->parts[i];
        cancelled +=
            part->partition && partition_fetch_cancel(part->partition, &part->waiter);
    }
    atomic_fetch_sub(&task->references, cancelled);
}

static void fetch_reply(struct http_request *request)
{
    struct fetch_task *task = http_request_context(request);
    size_t left = task->fetch.max_bytes < FETCH_BYTES_MAX ? task->fetch.max_bytes
                                                          : FETCH_BYTES_MAX;
    struct buf out;
    cancel_waits(task);
    for (uint32_t i = 0; i < task->fetch.count; i++) {
        choose_part(task, i, &left);
    }
    int rc = 0;
    buf_init(&out, PEER_REPLY_MAX);
    do {
        buf_clear(&out);
        rc = compose(task, &out);
    } while (rc == -EAGAIN);
    if (rc) {
        buf_free(&out);
        http_reply_error(request, rc, NULL);
        return;
    }
    http_reply_text(request, 200, PEER_TYPE, &out);
}

/* ---- waiting ------------------------------------------------------------------------
 */

static void end_wait(struct fetch_task *task)
{
    if (!atomic_exchange(&task->ended, true)) {
        http_request_continue(task->request, fetch_reply);
    }
}

static void on_news(struct fetch_waiter *waiter)
{
    struct fetch_task *task = ((struct fetch_part *)waiter)->task;
    end_wait(task);
    task_unref(task);
}

static void on_expired(struct http_request *request)
{
    end_wait(http_request_context(request));
}

static void wait_for_news(struct fetch_task *task)
{
    int64_t wait_ms =
        task->fetch.wait_ms < WAIT_MAX_MS ? task->fetch.wait_ms : WAIT_MAX_MS;
    bool news = false;
    for (uint32_t i = 0; i < task->fetch.count; i++) {
        if (task->parts[i].hold && wait_ms > FETCH_HOLD_MS) {
            wait_ms = FETCH_HOLD_MS;
        }
    }
    task->waited = true;
    http_request_wait(task->request, wait_ms, on_expired);
    for (uint32_t i = 0; i < task->fetch.count && !news; i++) {
        struct fetch_part *part = &task->parts[i];
        part->waiter = (struct fetch_waiter){.news = on_news,
                                             .request = task->fetch.items[i].request,
                                             .hold = part->hold};
        atomic_fetch_add(&task->references, 1);
        news = !partition_fetch_park(part->partition, &part->waiter);
        if (news) {
            atomic_fetch_sub(&task->references, 1);
        }
    }
    if (news) {
        end_wait(task);
    }
}

/* ---- the request --------------------------------------------------------------------
 */

/* true: there is nothing to say to the follower yet. */
static bool judge(struct fetch_task *task, uint32_t i)
{
    const struct peer_fetch_item *item = &task->fetch.items[i];
    struct fetch_part *part = &task->parts[i];
    part->task = task;
    part->partition = broker_partition(
        task->routes->params.broker, &item->partition.topic_id, item->partition.index);
    if (!part->partition) {
        part->answer = (struct fetch_answer){.kind = FETCH_ERROR,
                                             .error = E_UNKNOWN_TOPIC,
                                             .sequence = item->request.sequence};
        return false;
    }
    partition_fetch(part->partition, &item->request, &part->answer, &part->hold);
    return part->hold || fetch_may_wait(&item->request, &part->answer);
}

static struct fetch_task *make_task(struct http_request *request)
{
    struct peer_routes *routes = http_request_argument(request);
    const struct buf *body = http_request_body(request);
    struct peer_fetch fetch;
    int rc = peer_fetch_decode(body->data, body->length, &fetch);
    if (!peer_routes_understood(request, routes, rc, &fetch.from)) {
        peer_fetch_free(&fetch);
        return NULL;
    }
    struct fetch_task *task = calloc(1, sizeof *task);
    struct fetch_part *parts =
        calloc(fetch.count ? fetch.count : 1, sizeof *task->parts);
    if (!task || !parts) {
        free(task);
        free(parts);
        peer_fetch_free(&fetch);
        http_reply_error(request, -ENOMEM, NULL);
        return NULL;
    }
    atomic_init(&task->references, 1);
    task->request = request;
    task->routes = routes;
    task->fetch = fetch;
    task->parts = parts;
    return task;
}

void peer_fetch_handle(struct http_request *request)
{
    if (!peer_routes_admit(request, http_request_argument(request))) {
        return;
    }
    struct fetch_task *task = make_task(request);
    if (!task) {
        return;
    }
    http_request_set_context(request, task, task_free);
    bool wait = task->fetch.wait_ms > 0;
    for (uint32_t i = 0; i < task->fetch.count; i++) {
        wait = judge(task, i) && wait;
    }
    if (wait) {
        wait_for_news(task);
    } else {
        fetch_reply(request);
    }
}
