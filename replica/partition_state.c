/* What a partition tells about itself: the status, and the JSON of its `state` file. */
#include "replica/partition_internal.h"

#include <stdlib.h>

/* [partition->lock] but for the log's bounds */
static void fill_status(const struct partition *partition, struct partition_status *out)
{
    out->high_watermark = partition->high_watermark;
    out->log_end_offset = partition->end.offset;
    out->flushed_offset = partition->flushed.offset;
    out->last_append_ms = partition->last_append_ms;
    out->unclean = partition->unclean;
    out->start_epoch = epochs_before(&partition->epochs, out->start.offset);
    out->leader = partition->core.leader;
    out->leader_epoch = partition->core.leader_epoch;
    out->deleted = partition->deleted;
    out->offline = partition->offline;
}

void partition_status_get(struct partition *partition, struct partition_status *out)
{
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    *out = (struct partition_status){
        .start = bounds.start,
        .size_bytes = bounds.size_bytes,
        .rewrites = bounds.rewrites,
    };
    pthread_mutex_lock(&partition->lock);
    fill_status(partition, out);
    pthread_mutex_unlock(&partition->lock);
}

void partition_status_checkpoint(struct partition *partition,
                                 struct partition_status *out)
{
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    *out = (struct partition_status){.start = bounds.start};
    pthread_mutex_lock(&partition->lock);
    fill_status(partition, out);
    int64_t limit = out->flushed_offset > out->high_watermark.offset
                        ? out->flushed_offset
                        : out->high_watermark.offset;
    if (limit > atomic_load(&partition->on_disk)) {
        atomic_store(&partition->on_disk, limit);
    }
    pthread_mutex_unlock(&partition->lock);
}

static const char *role_name(enum core_role role)
{
    static const char *const names[] = {
        [ROLE_NONE] = "none", [ROLE_LEADER] = "leader", [ROLE_FOLLOWER] = "follower"};
    return names[role];
}

static void render_replicas(const struct partition_core *core, struct buf *out)
{
    const char *separator = "";
    buf_adds(out, ",\"isr\":[");
    for (uint32_t i = 0; i < core->replica_count; i++) {
        if (core->replicas[i].in_isr) {
            buf_printf(out, "%s%d", separator, core->replicas[i].id);
            separator = ",";
        }
    }
    buf_adds(out, "],\"replicas\":[");
    for (uint32_t i = 0; i < core->replica_count; i++) {
        buf_printf(out, "%s%d", i ? "," : "", core->replicas[i].id);
    }
    buf_adds(out, "]");
}

static void render_epochs(const struct epoch_list *epochs, struct buf *out)
{
    buf_adds(out, ",\"epochs\":[");
    for (size_t i = 0; i < epochs->count; i++) {
        buf_printf(out, "%s{\"epoch\":%d,\"start_offset\":%lld}", i ? "," : "",
                   epochs->items[i].epoch, (long long)epochs->items[i].offset);
    }
    buf_adds(out, "]");
}

void partition_counters_get(struct partition *partition, struct partition_counters *out)
{
    struct partition_statistics *from = &partition->statistics;
    *out = (struct partition_counters){
        .messages_in = atomic_load_explicit(&from->messages_in, memory_order_relaxed),
        .bytes_in = atomic_load_explicit(&from->bytes_in, memory_order_relaxed),
        .bytes_out = atomic_load_explicit(&from->bytes_out, memory_order_relaxed),
        .produce_errors =
            atomic_load_explicit(&from->produce_errors, memory_order_relaxed),
        .flushes = atomic_load_explicit(&from->flushes, memory_order_relaxed),
    };
}

int partition_state_render(struct partition *partition, struct buf *out)
{
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    pthread_mutex_lock(&partition->lock);
    const struct partition_core *core = &partition->core;
    buf_printf(out, "{\"leader\":%d,\"leader_epoch\":%d", core->leader,
               core->leader_epoch);
    render_replicas(core, out);
    buf_printf(out,
               ",\"high_watermark\":%lld,\"log_end_offset\":%lld"
               ",\"log_start_offset\":%lld,\"flushed_offset\":%lld,\"size\":%lld",
               (long long)partition->high_watermark.offset,
               (long long)partition->end.offset, (long long)bounds.start.offset,
               (long long)partition->flushed.offset, (long long)bounds.size_bytes);
    buf_printf(out, ",\"node\":%d,\"role\":\"%s\",\"lag\":%lld,\"online\":%s",
               core->self, core->remote ? "observer" : role_name(core->role),
               (long long)(partition->end.offset - partition->high_watermark.offset),
               partition->offline ? "false" : "true");
    render_epochs(&partition->epochs, out);
    buf_adds(out, "}\n");
    pthread_mutex_unlock(&partition->lock);
    return buf_error(out);
}
