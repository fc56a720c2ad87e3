/*
 * POST /topics/<t>/<p> and POST /topics/<t>: the body's lines are one batch, or one for
 * each partition that their keys lead to. The answer comes when all are acknowledged.
 */
#include "replica/http_topics.h"
#include "replica/lines.h"
#include "replica/partitioner.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_BYTES_MAX = 1024 * 1024 };

struct part {
    struct produce_waiter waiter;
    struct produce *produce;
    struct partition *partition;
    int32_t index;
    uint32_t count;
    struct produce_result result;
};

struct produce {
    struct http_request *request;
    bool by_key;
    uint32_t message_count;
    atomic_size_t open; /* parts without a result, and one while they are handed over */
    size_t part_count;
    struct part parts[];
};

static void produce_free(void *context)
{
    struct produce *produce = context;

    for (size_t i = 0; i < produce->part_count; i++)
        partition_unref(produce->parts[i].partition);
    free(produce);
}

/* ---- answering ----------------------------------------------------------------------
 */

static cJSON *describe(const struct part *part)
{
    cJSON *object = cJSON_CreateObject();

    (void)json_add_i64(object, "base_offset", part->result.base_offset);
    (void)json_add_i64(object, "next_offset", part->result.end.offset);
    (void)json_add_i64(object, "count", part->count);
    return object;
}

static void reply_failure(struct http_request *request, const struct produce *produce,
                          int error)
{
    char why[256];
    size_t appended = 0;

    for (size_t i = 0; i < produce->part_count; i++)
        appended += produce->parts[i].result.end.offset > 0;
    if (appended == 0 || error == E_COMMIT_TIMEOUT)
        (void)snprintf(why, sizeof why, "%s", err_text(error));
    else if (produce->part_count == 1)
        (void)snprintf(why, sizeof why, "%s; what was appended may commit later",
                       err_text(error));
    else
        (void)snprintf(why, sizeof why,
                       "%s; %zu of %zu partitions have their lines, or may commit them "
                       "later",
                       err_text(error), appended, produce->part_count);
    http_reply_error(request, error, why);
}

static void reply(struct http_request *request)
{
    struct produce *produce = http_request_context(request);
    cJSON *object, *partitions;
    int error = 0;

    for (size_t i = 0; error == 0 && i < produce->part_count; i++)
        error = produce->parts[i].result.error;
    if (error != 0) {
        reply_failure(request, produce, error);
        return;
    }
    if (!produce->by_key) {
        http_reply_json(request, 200, describe(&produce->parts[0]));
        return;
    }
    object = cJSON_CreateObject();
    (void)json_add_i64(object, "count", produce->message_count);
    partitions = cJSON_AddArrayToObject(object, "partitions");
    for (size_t i = 0; i < produce->part_count; i++) {
        cJSON *part = describe(&produce->parts[i]);

        (void)json_add_i64(part, "partition", produce->parts[i].index);
        (void)cJSON_AddItemToArray(partitions, part);
    }
    http_reply_json(request, 200, object);
}

static void finish_one(struct produce *produce)
{
    if (atomic_fetch_sub(&produce->open, 1) == 1)
        http_request_continue(produce->request, reply);
}

static void on_done(struct produce_waiter *waiter, const struct produce_result *result)
{
    struct part *part = (struct part *)waiter;

    part->result = *result;
    finish_one(part->produce);
}

static void on_expired(struct http_request *request)
{
    struct produce *produce = http_request_context(request);
    size_t count = produce->part_count;

    for (size_t i = 0; i < count; i++) {
        struct part *part = &produce->parts[i];
        struct produce_result result;

        if (part->partition != NULL &&
            partition_produce_expire(part->partition, &part->waiter, &result)) {
            part->result = result;
            finish_one(produce);
        }
    }
}

/* ---- appending ----------------------------------------------------------------------
 */

struct order {
    bool by_key;
    int32_t index;
    bool acks_given;
    int64_t acks;
    uint32_t count;
    const struct cluster_snapshot *snapshot;
    const struct topic *topic;
};

/* The part's error, if it is known at once that nothing was appended. */
static int append_part(const struct http_topics *topics, const struct order *order,
                       const struct partitioner_batch *batch, struct part *part)
{
    struct produce_result result = {0};
    const char *why;

    part->partition = http_topics_partition(topics, order->snapshot, order->topic,
                                            part->index, &result.error, &why);
    part->waiter.acks_given = order->acks_given;
    part->waiter.acks = order->acks;
    if (part->partition != NULL &&
        partition_produce(part->partition, batch->bytes, batch->length, batch->count,
                          &part->waiter, &result) == PRODUCE_PENDING)
        return 0; /* on_done() has the part */
    part->result = result;
    finish_one(part->produce);
    return result.error;
}

/* After a refusal the rest is not sent: the whole request fails anyway. */
static void append_all(const struct http_topics *topics, const struct order *order,
                       const struct partitioner_split *split, struct produce *produce)
{
    int refused = 0;

    for (size_t i = 0; i < split->count; i++) {
        if (refused == 0) {
            refused =
                append_part(topics, order, &split->batches[i], &produce->parts[i]);
        } else {
            produce->parts[i].result.error = refused;
            finish_one(produce);
        }
    }
}

static void produce_start(struct http_request *request, const struct order *order,
                          const struct partitioner_split *split)
{
    struct http_topics *topics = http_request_argument(request);
    struct produce *produce =
        calloc(1, sizeof *produce + split->count * sizeof produce->parts[0]);

    if (produce == NULL) {
        http_reply_error(request, -ENOMEM, NULL);
        return;
    }
    produce->request = request;
    produce->by_key = order->by_key;
    produce->message_count = order->count;
    produce->part_count = split->count;
    atomic_init(&produce->open, split->count + 1);
    for (size_t i = 0; i < split->count; i++)
        produce->parts[i] = (struct part){.waiter = {.done = on_done},
                                          .produce = produce,
                                          .index = split->batches[i].partition,
                                          .count = split->batches[i].count};
    http_request_set_context(request, produce, produce_free);
    http_request_wait(request, order->topic->config.delivery_timeout_ms, on_expired);
    append_all(topics, order, split, produce);
    finish_one(produce);
}

/* ---- the request --------------------------------------------------------------------
 */

/* The body becomes whole lines; 0 or what refuses it. */
static int take_lines(struct buf *body, const struct topic *topic, uint32_t *count,
                      const char **why)
{
    static const struct lines_state fresh = {0};
    struct lines_cut cut;

    if (body->length == 0) {
        *why = "the body has no line";
        return -EINVAL;
    }
    if (body->data[body->length - 1] != '\n' && buf_add(body, "\n", 1) < 0)
        return -ENOMEM;
    lines_cut(&fresh, 0, (size_t)topic->config.max_message_bytes, body->data,
              body->length, &cut);
    if (cut.error != 0 || cut.consumed != body->length)
        return E_MESSAGE_TOO_LARGE;
    *count = cut.count;
    return 0;
}

static const char *parse_acks(struct http_request *request, struct order *order)
{
    static const char *const names[] = {"acks", NULL};
    const struct http_target *target = http_request_target(request);
    const char *acks = http_target_argument(target, "acks");

    if (http_target_unknown(target, names) != NULL)
        return "the only argument is acks";
    if (acks == NULL)
        return NULL;
    order->acks_given = true;
    if (strcmp(acks, "all") == 0 || strcmp(acks, "-1") == 0)
        order->acks = ACKS_ALL;
    else if (strcmp(acks, "1") == 0)
        order->acks = ACKS_LEADER;
    else if (strcmp(acks, "0") == 0)
        order->acks = ACKS_NONE;
    else
        return "acks is all, 1 or 0";
    return NULL;
}

static void produce_by_key(struct http_request *request, const struct order *order)
{
    struct http_topics *topics = http_request_argument(request);
    const struct buf *body = http_request_body(request);
    const struct topic *topic = order->topic;
    struct partitioner_split split;
    int32_t keyless;
    int rc;

    if (topic->partition_count < 1) {
        http_reply_error(request, E_NO_LEADER, NULL);
        return;
    }
    keyless = (int32_t)(atomic_fetch_add(&topics->rotation, 1) %
                        (uint32_t)topic->partition_count);
    rc = partitioner_split(body->data, body->length, order->count,
                           (int)topic->config.key_delimiter, topic->partition_count,
                           keyless, &split);
    if (rc < 0) {
        http_reply_error(request, rc, NULL);
        return;
    }
    produce_start(request, order, &split);
    partitioner_free(&split);
}

static void produce_to_one(struct http_request *request, const struct order *order)
{
    const struct buf *body = http_request_body(request);
    struct partitioner_batch batch = {.partition = order->index,
                                      .count = order->count,
                                      .length = body->length,
                                      .bytes = body->data};
    const struct partitioner_split split = {.batches = &batch, .count = 1};

    produce_start(request, order, &split);
}

static void handle(struct http_request *request, bool by_key)
{
    struct order order = {.by_key = by_key};
    const char *why;
    int rc;

    if (!http_topics_find(request, HTTP_WRITE, &order.snapshot, &order.topic))
        return;
    why = parse_acks(request, &order);
    if (why != NULL) {
        http_reply_error(request, -EINVAL, why);
    } else if (by_key || http_topics_index(request, order.topic, &order.index) == 0) {
        rc = take_lines(http_request_body(request), order.topic, &order.count, &why);
        if (rc < 0)
            http_reply_error(request, rc, why);
        else if (by_key)
            produce_by_key(request, &order);
        else
            produce_to_one(request, &order);
    }
    cluster_snapshot_put(order.snapshot);
}

void http_produce_handle(struct http_request *request)
{
    handle(request, false);
}

void http_produce_by_key_handle(struct http_request *request)
{
    handle(request, true);
}

size_t http_produce_limit(struct http_request *request)
{
    const struct http_topics *topics = http_request_argument(request);
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(topics->cluster);
    const struct topic *topic =
        cluster_snapshot_topic(snapshot, http_request_target(request)->parts[1]);
    size_t limit = BATCH_BYTES_MAX;

    if (topic != NULL && (size_t)topic->config.max_message_bytes + 1 > limit)
        limit = (size_t)topic->config.max_message_bytes + 1;
    cluster_snapshot_put(snapshot);
    return limit;
}
