/* Compaction of a replica's log: as replica/compact.c does it with files. */
#include "replica/compact_core.h"
#include "tests/sim/check.h"
#include "tests/sim/node.h"

#include <stdlib.h>
#include <string.h>

enum { PRODUCERS_MAX = 512 };

struct last_message {
    int64_t producer_id;
    int64_t offset;
    int64_t timestamp_ms;
};

struct compaction {
    struct node *node;
    const struct simlog *log;
    int64_t end;         /* of the segments that are compacted */
    int64_t stop_offset; /* from here on keys are not in the map */
    int64_t last_of_key[SIM_KEYS];
    bool key_stays[SIM_KEYS]; /* a superseded message of it, among what was passed */
    int32_t last_epoch;
    struct last_message producers[PRODUCERS_MAX];
    uint32_t producer_count;
    struct simbatch *out;
    uint32_t out_count;
    uint32_t out_allocated;
};

static int64_t segment_end(const struct simlog *log, uint32_t i)
{
    return i + 1 < log->segment_count ? log->segments[i + 1].base_offset : log->end;
}

/* Where the segments end that may be compacted, all from the first one on. */
static int64_t end_of_sources(const struct simlog *log, int64_t high_watermark)
{
    int64_t end = -1;
    for (uint32_t i = 0; i < log->segment_count; i++) {
        bool closed = i + 1 < log->segment_count;
        if (!compact_takes(closed, segment_end(log, i), high_watermark)) {
            break;
        }
        end = segment_end(log, i);
    }
    return end;
}

/* ---- first pass ---------------------------------------------------------------------
 */

static void note_producer(struct compaction *compaction, const struct simbatch *batch)
{
    uint32_t i = 0;
    while (i < compaction->producer_count &&
           compaction->producers[i].producer_id != batch->producer_id) {
        i++;
    }
    if (i == PRODUCERS_MAX) {
        abort();
    }
    compaction->producer_count += i == compaction->producer_count;
    compaction->producers[i] = (struct last_message){
        .producer_id = batch->producer_id,
        .offset = batch->base_offset + batch->message_count - 1,
        .timestamp_ms = batch->timestamp_ms,
    };
}

/* Up to the first message for whose key there is no room. */
static void note_keys(struct compaction *compaction, const struct simbatch *batch)
{
    for (uint32_t n = 0; n < batch->message_count; n++) {
        struct simmessage message = simbatch_message(batch, n);
        if (batch->base_offset + n >= compaction->stop_offset) {
            return;
        }
        if (message.key >= 0 && !(batch->flags & BATCH_SUPERSEDED)) {
            compaction->last_of_key[message.key] = batch->base_offset + n;
        }
    }
}

static void first_pass(struct compaction *compaction)
{
    const struct simlog *log = compaction->log;
    for (uint32_t i = 0; i < log->segment_count; i++) {
        int64_t end = segment_end(log, i);
        if (end > compaction->end) {
            return;
        }
        bool clean = compact_is_clean(log->segments[i].index_flags);
        for (uint32_t b = simlog_find(log, log->segments[i].base_offset);
             b < log->count && log->batches[b].base_offset < end; b++) {
            note_producer(compaction, &log->batches[b]);
            if (!clean) {
                note_keys(compaction, &log->batches[b]);
            }
        }
    }
}

/* A map that is full ends it inside of a segment, whose rest is copied. */
static void draw_stop(struct compaction *compaction)
{
    struct world *world = compaction->node->world;
    const struct simlog *log = compaction->log;
    compaction->stop_offset = INT64_MAX;
    if (!prng_permille(&world->prng, world->profile.map_full)) {
        return;
    }
    int64_t stop =
        prng_between(&world->prng, log->segments[0].base_offset, compaction->end - 1);
    uint32_t i = 0;
    while (segment_end(log, i) <= stop) {
        i++;
    }
    /* Only keys of segments that are not clean need room. */
    if (!compact_is_clean(log->segments[i].index_flags) &&
        stop > log->segments[i].base_offset) {
        compaction->stop_offset = stop;
        compaction->end = segment_end(log, i);
    }
}

/* ---- second pass --------------------------------------------------------------------
 */

static bool is_last_of_producer(const struct compaction *compaction,
                                const struct simbatch *batch, int64_t offset)
{
    const struct node *node = compaction->node;
    for (uint32_t i = 0; i < compaction->producer_count; i++) {
        const struct last_message *last = &compaction->producers[i];
        if (last->producer_id == batch->producer_id) {
            return last->offset == offset && node_now(node) - last->timestamp_ms <=
                                                 node->world->profile.producer_ms;
        }
    }
    return false;
}

static enum compact_verdict judge(struct compaction *compaction,
                                  const struct simbatch *simbatch, uint32_t n)
{
    struct batch batch;
    struct simmessage content = simbatch_message(simbatch, n);
    int64_t offset = simbatch->base_offset + n;
    simbatch_decode(simbatch, &batch);
    if (offset >= compaction->stop_offset) {
        return COMPACT_KEEP;
    }
    struct compact_message message = {
        .offset = offset,
        .keyed = content.key >= 0,
        .tombstone = content.key >= 0 && content.tombstone,
        .last_of_producer = is_last_of_producer(compaction, simbatch, offset),
        .first_of_epoch = n == 0 && simbatch->leader_epoch > compaction->last_epoch,
    };
    if (message.keyed) {
        message.last_of_key = compaction->last_of_key[content.key];
        message.earlier_key_stays = compaction->key_stays[content.key];
    }
    enum compact_verdict verdict =
        compact_judge(&batch, &message, node_now(compaction->node));
    if (verdict == COMPACT_KEEP_SUPERSEDED) {
        compaction->key_stays[content.key] = true;
    }
    return verdict;
}

static void write_run(struct compaction *compaction, const struct simbatch *simbatch,
                      uint32_t n, uint32_t count, enum compact_verdict verdict)
{
    struct batch batch;
    struct batch part;
    if (count == 0 || verdict == COMPACT_DROP) {
        return;
    }
    /* Time runs faster here than for the constant. */
    int64_t now_ms = node_now(compaction->node) - COMPACT_TOMBSTONE_MS +
                     compaction->node->world->profile.tombstone_ms;
    simbatch_decode(simbatch, &batch);
    compact_part(&batch, n, count, verdict, now_ms, &part);
    struct simbatch *out = &compaction->out[compaction->out_count++];
    *out = *simbatch;
    simbatch_encode(&part, out);
}

static void filter(struct compaction *compaction, const struct simbatch *batch)
{
    enum compact_verdict before = COMPACT_DROP;
    uint32_t run = 0;
    for (uint32_t n = 0; n < batch->message_count; n++) {
        bool copied = batch->base_offset + n == compaction->stop_offset;
        enum compact_verdict now = judge(compaction, batch, n);
        if (now != before || copied) {
            write_run(compaction, batch, run, n - run, before);
            before = now;
            run = n;
        }
    }
    compaction->last_epoch = batch->leader_epoch;
    write_run(compaction, batch, run, batch->message_count - run, before);
}

static void second_pass(struct compaction *compaction)
{
    const struct simlog *log = compaction->log;
    uint32_t count = simlog_find(log, compaction->end);
    uint32_t messages = 0;
    for (uint32_t i = 0; i < count; i++) {
        messages += log->batches[i].message_count;
    }
    compaction->out = calloc(messages ? messages : 1, sizeof *compaction->out);
    if (!compaction->out) {
        abort();
    }
    compaction->last_epoch = -1;
    for (uint32_t i = 0; i < count; i++) {
        filter(compaction, &log->batches[i]);
    }
}

/* ---- the switch ---------------------------------------------------------------------
 */

/* A flush that is under way covers batches by their number. */
static void renumber(struct replica *replica, uint32_t old, uint32_t new)
{
    if (replica->flushing) {
        replica->flush_count =
            replica->flush_count > old ? replica->flush_count - old + new : new;
    }
}

void replica_compact(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    struct simlog *log = &node->logs[slot];
    struct compaction compaction = {.node = node, .log = log};
    compaction.end = end_of_sources(log, replica->core.high_watermark);
    if (replica->core.offline || log->damaged || node_disk_full(node) ||
        compaction.end < 0) {
        return;
    }
    for (int32_t key = 0; key < SIM_KEYS; key++) {
        compaction.last_of_key[key] = -1;
    }
    draw_stop(&compaction);
    first_pass(&compaction);
    second_pass(&compaction);
    uint32_t old = simlog_find(log, compaction.end);
    check_compaction(node, slot, compaction.out, compaction.out_count, compaction.end);
    simlog_replace(log, compaction.out, compaction.out_count, compaction.end,
                   compaction.stop_offset);
    renumber(replica, old, compaction.out_count);
    free(compaction.out);
}
