#include "tests/sim/simdisk.h"

#include "replica/compact_core.h"
#include "replica/index.h"

#include <stdlib.h>
#include <string.h>

void simlog_create(struct simlog *log, uint32_t topic_id, uint32_t roll_at)
{
    struct simlog fresh = {.topic_id = topic_id,
                           .roll_at = roll_at,
                           .begin_epoch = -1,
                           .batches = log->batches,
                           .allocated = log->allocated,
                           .segments = log->segments,
                           .segments_allocated = log->segments_allocated};
    *log = fresh;
}

void simlog_remove(struct simlog *log)
{
    simlog_create(log, 0, 0);
}

void simlog_free(struct simlog *log)
{
    free(log->batches);
    free(log->segments);
}

/* ---- segments -----------------------------------------------------------------------
 */

static void add_segment(struct simlog *log, int64_t base_offset, uint32_t index_flags)
{
    if (log->segment_count == log->segments_allocated) {
        log->segments_allocated =
            log->segments_allocated ? 2 * log->segments_allocated : 16;
        log->segments =
            realloc(log->segments, log->segments_allocated * sizeof log->segments[0]);
        if (!log->segments) {
            abort();
        }
    }
    log->segments[log->segment_count++] =
        (struct simsegment){.base_offset = base_offset, .index_flags = index_flags};
}

/* A batch that begins here is about to be appended. */
static void roll(struct simlog *log, int64_t base_offset)
{
    bool hole = base_offset > log->end;
    uint32_t flags = compact_flags_behind(hole);
    if (!log->segment_count) {
        add_segment(log, log->end, flags);
        return;
    }
    const struct simsegment *active = &log->segments[log->segment_count - 1];
    uint32_t used = log->count - simlog_find(log, active->base_offset);
    bool due = used >= log->roll_at ||
               (hole && !(active->index_flags & INDEX_COMPACTED)) ||
               compact_is_clean(active->index_flags);
    if (due && active->base_offset < log->end) {
        add_segment(log, log->end, flags);
    } else if (due) {
        log->segments[log->segment_count - 1].index_flags = flags;
    }
}

/* What begins behind `offset` goes. */
static void cut_segments(struct simlog *log, int64_t offset)
{
    while (log->segment_count &&
           log->segments[log->segment_count - 1].base_offset > offset) {
        log->segment_count--;
    }
}

static void replace_segments(struct simlog *log, const struct simbatch *batches,
                             uint32_t count, int64_t end, int64_t clean_to)
{
    struct simsegment kept[log->segment_count];
    uint32_t kept_count = 0;
    int64_t base = log->segments[0].base_offset;
    for (uint32_t i = 0; i < log->segment_count; i++) {
        if (log->segments[i].base_offset >= end) {
            kept[kept_count++] = log->segments[i];
        }
    }
    log->segment_count = 0;
    add_segment(log, base, INDEX_COMPACTED);
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool unclean = batches[i].base_offset >= clean_to;
        uint32_t flags = INDEX_COMPACTED | (unclean ? INDEX_UNCLEAN : 0);
        const struct simsegment *last = &log->segments[log->segment_count - 1];
        if (last->index_flags != flags || used >= log->roll_at) {
            add_segment(log, batches[i].base_offset, flags);
            used = 0;
        }
        used++;
    }
    for (uint32_t i = 0; i < kept_count; i++) {
        add_segment(log, kept[i].base_offset, kept[i].index_flags);
    }
}

/* ---- batches ------------------------------------------------------------------------
 */

static void reserve(struct simlog *log, uint32_t count)
{
    while (log->allocated < count) {
        log->allocated = log->allocated ? 2 * log->allocated : 128;
        log->batches = realloc(log->batches, log->allocated * sizeof log->batches[0]);
        if (!log->batches) {
            abort();
        }
    }
}

static int64_t batch_end(const struct simbatch *batch)
{
    return batch->base_offset + batch->message_count;
}

void simlog_append(struct simlog *log, const struct simbatch *batch)
{
    if (log->roll_at) {
        roll(log, batch->base_offset);
    }
    reserve(log, log->count + 1);
    log->batches[log->count++] = *batch;
    log->end = batch_end(batch);
}

void simlog_replace(struct simlog *log, const struct simbatch *batches, uint32_t count,
                    int64_t end, int64_t clean_to)
{
    uint32_t old = simlog_find(log, end);
    uint32_t rest = log->count - old;
    replace_segments(log, batches, count, end, clean_to);
    reserve(log, count + rest);
    memmove(log->batches + count, log->batches + old, rest * sizeof log->batches[0]);
    if (count) {
        memcpy(log->batches, batches, count * sizeof log->batches[0]);
    }
    log->flushed = log->flushed > old ? log->flushed - old + count : count;
    log->count = count + rest;
    log->compacted_to = end > log->compacted_to ? end : log->compacted_to;
}

int64_t simlog_end(const struct simlog *log)
{
    return log->end;
}

int64_t simlog_flushed_end(const struct simlog *log)
{
    if (log->flushed == log->count) {
        return log->end;
    }
    int64_t end =
        log->flushed ? batch_end(&log->batches[log->flushed - 1]) : log->log_start;
    return end > log->compacted_to ? end : log->compacted_to;
}

int64_t simlog_last_time(const struct simlog *log)
{
    return log->count ? log->batches[log->count - 1].timestamp_ms : INT64_MIN;
}

int64_t simlog_batch_end(const struct simlog *log, uint32_t index)
{
    return batch_end(&log->batches[index]);
}

const struct simbatch *simlog_at(const struct simlog *log, int64_t offset)
{
    uint32_t next = simlog_find(log, offset + 1);
    if (next == 0 || batch_end(&log->batches[next - 1]) <= offset) {
        return NULL;
    }
    return &log->batches[next - 1];
}

uint32_t simlog_find(const struct simlog *log, int64_t offset)
{
    uint32_t low = 0;
    uint32_t high = log->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (log->batches[middle].base_offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void simlog_cut(struct simlog *log, int64_t offset)
{
    log->count = simlog_find(log, offset);
    log->end = offset;
    cut_segments(log, offset);
    if (log->checkpoint_hw > offset) {
        log->checkpoint_hw = offset;
    }
    if (log->compacted_to > offset) {
        log->compacted_to = offset;
    }
    if (log->flushed > log->count) {
        log->flushed = log->count;
    }
}

void simlog_restart(struct simlog *log, int64_t offset, int32_t epoch)
{
    log->begin_epoch = epoch;
    log->begin_offset = offset;
    log->count = 0;
    log->flushed = 0;
    log->log_start = offset;
    log->end = offset;
    log->compacted_to = 0;
    log->segment_count = 0;
    log->checkpoint_hw = offset;
}

void simlog_power_cut(struct simlog *log, struct prng *prng)
{
    uint32_t unflushed = log->count - log->flushed;
    int64_t on_disk = simlog_flushed_end(log);
    if (unflushed > 0) {
        uint32_t kept = prng_below(prng, 2) ? 0 : prng_below(prng, unflushed + 1);
        log->count = log->flushed + kept;
        log->end = kept ? batch_end(&log->batches[log->count - 1]) : on_disk;
        cut_segments(log, log->end);
    }
    log->flushed = log->count;
    if (simlog_end(log) < log->log_start) {
        /* Retention had got further than the flushes: recovery begins at the start. */
        simlog_restart(log, log->log_start, -1);
    }
}

void simbatch_decode(const struct simbatch *batch, struct batch *out)
{
    *out = (struct batch){
        .base_offset = batch->base_offset,
        .message_count = batch->message_count,
        .timestamp_ms = batch->timestamp_ms,
        .leader_epoch = batch->leader_epoch,
        .base_sequence = batch->base_sequence,
        .producer_id = batch->producer_id,
        .flags = batch->flags,
        .delete_at_ms = batch->delete_at_ms,
    };
}

void simbatch_encode(const struct batch *part, struct simbatch *batch)
{
    batch->first += (uint32_t)(part->base_offset - batch->base_offset);
    batch->base_offset = part->base_offset;
    batch->message_count = part->message_count;
    batch->base_sequence = part->base_sequence;
    batch->flags = part->flags;
    batch->delete_at_ms = part->delete_at_ms;
}

struct simmessage simbatch_message(const struct simbatch *batch, uint32_t n)
{
    uint64_t hash = (uint64_t)batch->payload * 8 + batch->first + n;
    hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
    hash ^= hash >> 31;
    if (hash % 10 == 0) {
        return (struct simmessage){.key = -1};
    }
    return (struct simmessage){.key = (int32_t)(hash / 16 % SIM_KEYS),
                               .tombstone = hash / 1024 % 4 == 0};
}
