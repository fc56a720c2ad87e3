/* Of single messages: those that compaction takes, and those that are looked up by
 * time. */
#include "replica/stamp.h"
#include "tests/sim/check_private.h"
#include "tests/sim/fault.h"

#include <stdlib.h>
#include <string.h>

/* ---- what may be missing ------------------------------------------------------------
 */

enum held check_held(const struct simlog *log, uint32_t limit,
                     const struct simbatch *committed, uint32_t n)
{
    int64_t offset = committed->base_offset + n;
    const struct simbatch *batch = simlog_at(log, offset);
    if (!committed->payload) {
        return HELD; /* nobody knows what it was */
    }
    if (!batch) {
        return HELD_NOT;
    }
    int64_t index = batch->first + (offset - batch->base_offset);
    if (batch->payload != committed->payload || index != committed->first + n ||
        batch->leader_epoch != committed->leader_epoch ||
        batch->timestamp_ms != committed->timestamp_ms) {
        return HELD_OTHER;
    }
    return batch - log->batches < (ptrdiff_t)limit ? HELD : HELD_UNFLUSHED;
}

static bool is_expired(const struct registry *registry, int64_t offset)
{
    return offset < registry->expired_allocated && registry->expired[offset];
}

bool check_may_lack(const struct registry *registry, int64_t log_end,
                    const struct simbatch *committed, uint32_t n)
{
    int64_t offset = committed->base_offset + n;
    if (offset >= log_end) {
        return false;
    }
    if (offset < registry->excused_to) {
        return true;
    }
    struct simmessage message = simbatch_message(committed, n);
    return message.key >= 0 && (registry->latest[message.key] > offset ||
                                (message.tombstone && is_expired(registry, offset)));
}

void check_note_latest(struct registry *registry, const struct simbatch *committed)
{
    for (uint32_t n = 0; committed->payload && n < committed->message_count; n++) {
        int32_t key = simbatch_message(committed, n).key;
        if (key >= 0) {
            registry->latest[key] = committed->base_offset + n;
        }
    }
}

void check_renew_latest(struct registry *registry)
{
    for (int32_t key = 0; key < SIM_KEYS; key++) {
        registry->latest[key] = -1;
    }
    for (uint32_t i = 0; i < registry->committed.count; i++) {
        check_note_latest(registry, &registry->committed.batches[i]);
    }
}

/* ---- compaction ---------------------------------------------------------------------
 */

static void note_expired(struct registry *registry, int64_t offset)
{
    if (offset >= registry->expired_allocated) {
        int64_t old = registry->expired_allocated;
        int64_t size = offset + 1024;
        registry->expired = realloc(registry->expired, (size_t)size);
        if (!registry->expired) {
            abort();
        }
        memset(registry->expired + old, 0, (size_t)(size - old));
        registry->expired_allocated = size;
    }
    registry->expired[offset] = 1;
}

/* Is a message with the key left below the offset? */
static bool key_is_left(const struct simbatch *batches, uint32_t count, int32_t key,
                        int64_t below)
{
    for (uint32_t i = 0; i < count && batches[i].base_offset < below; i++) {
        for (uint32_t n = 0; n < batches[i].message_count; n++) {
            if (batches[i].base_offset + n < below &&
                simbatch_message(&batches[i], n).key == key) {
                return true;
            }
        }
    }
    return false;
}

static bool is_committed(const struct registry *registry, const struct simbatch *batch,
                         uint32_t n)
{
    const struct simbatch *committed =
        simlog_at(&registry->committed, batch->base_offset + n);
    return committed && committed->payload == batch->payload;
}

/* The message goes. */
static void check_dropped(struct world *world, struct registry *registry,
                          const struct node *node, int32_t slot,
                          const struct simbatch *batch, uint32_t n,
                          const struct simbatch *batches, uint32_t count)
{
    struct simmessage message = simbatch_message(batch, n);
    int64_t offset = batch->base_offset + n;
    bool clocks_jump = world->profile.faults & FAULT_CLOCK;
    world->messages_compacted++;
    if (!is_committed(registry, batch, n)) {
        return; /* the node has yet to hear that an election gave it up */
    }
    if (message.key >= 0 &&
        (registry->latest[message.key] > offset || offset < registry->excused_to)) {
        return;
    }
    if (message.key < 0 || !message.tombstone) {
        world_violation(world,
                        "p%d: n%d compacts offset %lld away, and nothing committed "
                        "supersedes it",
                        slot, node_id(node), (long long)offset);
    } else if (!clocks_jump &&
               world_ms(world) - batch->appended_ms < world->profile.tombstone_ms) {
        world_violation(world, "p%d: n%d drops the tombstone at %lld after %lld ms",
                        slot, node_id(node), (long long)offset,
                        (long long)(world_ms(world) - batch->appended_ms));
    } else if (key_is_left(batches, count, message.key, offset)) {
        world_violation(world,
                        "p%d: n%d drops the tombstone at %lld and keeps what it "
                        "deleted",
                        slot, node_id(node), (long long)offset);
    }
    note_expired(registry, offset);
}

/* What stays is what it was, where it was. */
static bool stays(const struct simbatch *batch, uint32_t n,
                  const struct simbatch *batches, uint32_t count, uint32_t *at)
{
    int64_t offset = batch->base_offset + n;
    while (*at < count &&
           batches[*at].base_offset + batches[*at].message_count <= offset) {
        (*at)++;
    }
    const struct simbatch *part = &batches[*at];
    return *at < count && part->base_offset <= offset &&
           part->payload == batch->payload &&
           part->timestamp_ms == batch->timestamp_ms &&
           part->leader_epoch == batch->leader_epoch &&
           part->first + (offset - part->base_offset) == batch->first + n;
}

void check_compaction(const struct node *node, int32_t slot,
                      const struct simbatch *batches, uint32_t count, int64_t end)
{
    struct world *world = node->world;
    struct registry *registry = &world->check->slots[slot];
    const struct simlog *log = &node->logs[slot];
    uint32_t at = 0;
    if (check_before_loss(node, slot)) {
        return;
    }
    for (uint32_t i = 0; i < log->count && log->batches[i].base_offset < end; i++) {
        const struct simbatch *batch = &log->batches[i];
        for (uint32_t n = 0; n < batch->message_count; n++) {
            int64_t offset = batch->base_offset + n;
            if (offset >= log->log_start && !stays(batch, n, batches, count, &at)) {
                check_dropped(world, registry, node, slot, batch, n, batches, count);
            }
        }
    }
}

/* All of it may be there already: the answer came twice. But not a part. */
void check_refused(const struct node *node, int32_t slot, const struct batch *batch)
{
    int64_t end = simlog_end(&node->logs[slot]);
    if (batch->base_offset < end && batch->base_offset + batch->message_count > end) {
        world_violation(node->world,
                        "p%d: n%d ends at %lld and is given a batch from %lld on", slot,
                        node_id(node), (long long)end, (long long)batch->base_offset);
    }
}

/* ---- time ---------------------------------------------------------------------------
 */

/* A leader whose latest messages were superseded by what it then lost does not know
 * their times, which others may still have. */
void check_times(const struct node *node, int32_t slot, const struct simbatch *batch)
{
    const struct simlog *log = &node->logs[slot];
    bool excused =
        node->world->compacts && node->world->check->slots[slot].lossy_epoch >= 0;
    if (batch->timestamp_ms < simlog_last_time(log) && !excused) {
        world_violation(node->world,
                        "p%d: n%d appends %lld, which is %lld ms older than what is "
                        "before it",
                        slot, node_id(node), (long long)batch->base_offset,
                        (long long)(simlog_last_time(log) - batch->timestamp_ms));
    }
}

static int64_t time_of_batch(const void *arg, size_t i)
{
    return ((const struct simbatch *)arg)[i].timestamp_ms;
}

/* The first message at or after the time, below the high watermark; as log_find_time.
 */
static int64_t look_up(const struct simlog *log, int64_t time_ms, int64_t end)
{
    size_t i = stamp_search(time_of_batch, log->batches, log->count, time_ms);
    int64_t offset = i < log->count ? log->batches[i].base_offset : end;
    if (offset < log->log_start) {
        /* The start is a place of its own, before whatever comes next. */
        uint32_t next = simlog_find(log, log->log_start);
        offset = simlog_at(log, log->log_start) ? log->log_start
                 : next < log->count            ? log->batches[next].base_offset
                                                : end;
    }
    return offset < end ? offset : end;
}

/* By looking at every committed message that the log still holds. */
static int64_t first_since(const struct registry *registry, const struct simlog *log,
                           int64_t time_ms, int64_t end)
{
    const struct simlog *committed = &registry->committed;
    for (uint32_t i = 0; i < committed->count; i++) {
        const struct simbatch *batch = &committed->batches[i];
        for (uint32_t n = 0; batch->timestamp_ms >= time_ms && n < batch->message_count;
             n++) {
            int64_t offset = batch->base_offset + n;
            if (offset >= log->log_start && offset < end &&
                check_held(log, log->count, batch, n) == HELD) {
                return offset;
            }
        }
    }
    return end;
}

void check_look_up(const struct node *node, int32_t slot)
{
    const struct world *world = node->world;
    const struct registry *registry = &world->check->slots[slot];
    const struct simlog *log = &node->logs[slot];
    int64_t end = node->replicas[slot].core.high_watermark;
    if (!registry->committed.count || check_before_loss(node, slot) ||
        registry->lossy_epoch >= 0) {
        return;
    }
    uint32_t i = (uint32_t)(world->steps * 2654435761u % registry->committed.count);
    int64_t time_ms =
        registry->committed.batches[i].timestamp_ms + (int64_t)(world->steps % 3) - 1;
    int64_t found = look_up(log, time_ms, end);
    int64_t wanted = first_since(registry, log, time_ms, end);
    if (found != wanted) {
        world_violation(
            node->world,
            "p%d: n%d finds offset %lld at time %lld, and %lld is the first", slot,
            node_id(node), (long long)found, (long long)time_ms, (long long)wanted);
    }
}
