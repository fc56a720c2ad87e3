#include "tests/sim/simdisk.h"

#include <stdlib.h>

void simlog_create(struct simlog *log, uint32_t topic_id)
{
    struct simbatch *batches = log->batches;
    uint32_t allocated = log->allocated;
    *log = (struct simlog){.topic_id = topic_id,
                           .begin_epoch = -1,
                           .batches = batches,
                           .allocated = allocated};
}

void simlog_remove(struct simlog *log)
{
    simlog_create(log, 0);
}

void simlog_append(struct simlog *log, const struct simbatch *batch)
{
    if (log->count == log->allocated) {
        log->allocated = log->allocated ? 2 * log->allocated : 128;
        log->batches = realloc(log->batches, log->allocated * sizeof log->batches[0]);
        if (!log->batches) {
            abort();
        }
    }
    log->batches[log->count++] = *batch;
}

static int64_t end_of(const struct simlog *log, uint32_t count)
{
    if (count == 0) {
        return log->log_start;
    }
    const struct simbatch *last = &log->batches[count - 1];
    return last->base_offset + last->message_count;
}

int64_t simlog_end(const struct simlog *log)
{
    return end_of(log, log->count);
}

int64_t simlog_flushed_end(const struct simlog *log)
{
    return end_of(log, log->flushed);
}

int64_t simlog_batch_end(const struct simlog *log, uint32_t index)
{
    return end_of(log, index + 1);
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
    if (log->checkpoint_hw > offset) {
        log->checkpoint_hw = offset;
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
    log->checkpoint_hw = offset;
}

void simlog_power_cut(struct simlog *log, struct prng *prng)
{
    uint32_t unflushed = log->count - log->flushed;
    if (unflushed > 0) {
        uint32_t kept = prng_below(prng, 2) ? 0 : prng_below(prng, unflushed + 1);
        log->count = log->flushed + kept;
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
        .leader_epoch = batch->leader_epoch,
        .base_sequence = batch->base_sequence,
        .producer_id = batch->producer_id,
    };
}
