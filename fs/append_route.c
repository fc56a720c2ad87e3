#include "fs/append_route.h"

#include <stdlib.h>
#include <string.h>

bool append_route_by_key(const struct appender *appender)
{
    return appender->only == NULL;
}

/* [order] Room for `count` partitions by key. */
static int grow_partitions(struct appender *appender, int32_t count)
{
    struct partition **handles;
    struct sync_range *ends;
    size_t old = (size_t)appender->partition_count;
    if (count <= appender->partition_count)
        return 0;
    handles = realloc(appender->partitions, (size_t)count * sizeof(struct partition *));
    if (handles == NULL)
        return -ENOMEM;
    appender->partitions = handles;
    memset(handles + old, 0, ((size_t)count - old) * sizeof(struct partition *));
    ends = calloc((size_t)count, sizeof *ends);
    if (ends == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&appender->lock);
    memcpy(ends, appender->ends, (size_t)appender->end_count * sizeof *ends);
    if (appender->ends != &appender->one_end)
        free(appender->ends);
    appender->ends = ends;
    appender->end_count = count;
    pthread_mutex_unlock(&appender->lock);
    appender->partition_count = count;
    return 0;
}

/* [order] Borrowed from the appender; NULL if this node has none. */
struct partition *append_route_handle(struct appender *appender, int32_t slot)
{
    if (!append_route_by_key(appender))
        return appender->only;
    if (appender->partitions[slot] == NULL)
        appender->partitions[slot] =
            broker_partition(appender->params.broker, &appender->params.topic_id, slot);
    return appender->partitions[slot];
}

/* [order] One partition's batch, new or resumed. The error, if one came at once. */
static int submit_part(struct append_part *part, const struct partitioner_batch *batch)
{
    struct partition *partition = append_route_handle(part->op->appender, part->slot);
    bool appended = append_part_stands(part);
    if (appended && part->result.error == 0) {
        append_op_skip(part); /* acknowledged before the interrupt */
        return 0;
    }
    if (partition == NULL) {
        part->result.error = E_NO_LEADER;
        append_op_skip(part);
        return E_NO_LEADER;
    }
    if (appended)
        return append_op_resume(part, partition, batch->bytes, batch->length,
                                batch->count);
    return append_op_produce(part, partition, batch->bytes, batch->length,
                             batch->count);
}

/*
 * [order] All parts of a write. After a refusal the rest is not sent: the whole write
 * fails anyway.
 */
void append_route_submit(struct append_op *op, const struct partitioner_batch *batches)
{
    int refused = 0;
    for (size_t i = 0; i < op->part_count; i++) {
        struct append_part *part = &op->parts[i];
        part->slot = batches[i].partition;
        if (refused == 0) {
            refused = submit_part(part, &batches[i]);
            continue;
        }
        if (!append_part_stands(part))
            part->result.error = refused;
        append_op_skip(part);
    }
}

/* [order] Which batches `bytes` make: the usual single one without memory. */
int append_route_split(const struct appender *appender,
                       const struct append_routing *routing, const char *bytes,
                       size_t length, uint32_t count, struct partitioner_batch *one,
                       struct partitioner_split *split)
{
    int64_t key;
    *one = (struct partitioner_batch){.bytes = bytes, .length = length, .count = count};
    *split = (struct partitioner_split){.batches = one, .count = 1};
    if (!append_route_by_key(appender))
        return 0;
    if (count > 1)
        return partitioner_split(bytes, length, count, routing->delimiter,
                                 routing->partitions, routing->keyless, split);
    key = partitioner_key(bytes, length - 1, routing->delimiter);
    one->partition = key < 0
                         ? routing->keyless
                         : partitioner_of_key(bytes, (size_t)key, routing->partitions);
    return 0;
}

void append_route_end(struct partitioner_split *split,
                      const struct partitioner_batch *one)
{
    if (split->batches != one)
        partitioner_free(split);
}

/* [order] Sets how the keys of the next write go. */
int append_route_next(struct appender *appender, const struct topic *topic,
                      struct append_routing *out)
{
    _Atomic uint32_t *rotation = appender->params.rotation != NULL
                                     ? appender->params.rotation
                                     : &appender->rotation;
    *out = (struct append_routing){
        .delimiter = (int)topic->config.key_delimiter,
        .partitions = topic->partition_count,
    };
    if (!append_route_by_key(appender))
        return 0;
    if (topic->partition_count < 1)
        return E_NO_LEADER;
    out->keyless =
        (int32_t)(atomic_fetch_add(rotation, 1) % (uint32_t)topic->partition_count);
    return grow_partitions(appender, topic->partition_count);
}
