#include "tests/sim/check.h"

#include "tests/sim/check_private.h"
#include "tests/sim/client.h"
#include "tests/sim/fault.h"

#include <stdlib.h>
#include <string.h>

struct check *check_new(void)
{
    struct check *check = calloc(1, sizeof *check);
    if (!check) {
        abort();
    }
    return check;
}

void check_free(struct check *check)
{
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        simlog_free(&check->slots[slot].committed);
        free(check->slots[slot].expired);
    }
    free(check->committed_at);
    free(check);
}

static void begin_topic(struct registry *registry, uint32_t topic_id)
{
    memset(registry->owners, 0, registry->owner_count * sizeof registry->owners[0]);
    registry->owner_count = 0;
    registry->topic_id = topic_id;
    registry->lossy_epoch = -1;
    simlog_create(&registry->committed, topic_id, 0);
    registry->excused_to = 0;
    if (registry->expired) {
        memset(registry->expired, 0, (size_t)registry->expired_allocated);
    }
    check_renew_latest(registry);
}

void check_reset(struct check *check)
{
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        begin_topic(&check->slots[slot], 0);
    }
    for (int32_t i = 0; i < NODES_MAX; i++) {
        check->deposed_ms[i] = -1;
    }
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        check->moved[slot].at_ms = -1;
    }
    if (check->payloads) {
        memset(check->committed_at, 0, check->payloads * sizeof check->committed_at[0]);
    }
}

static int64_t *committed_at(struct check *check, uint32_t payload)
{
    if (payload >= check->payloads) {
        uint32_t count = check->payloads ? check->payloads : 1024;
        while (count <= payload) {
            count *= 2;
        }
        check->committed_at =
            realloc(check->committed_at, count * sizeof check->committed_at[0]);
        if (!check->committed_at) {
            abort();
        }
        memset(check->committed_at + check->payloads, 0,
               (count - check->payloads) * sizeof check->committed_at[0]);
        check->payloads = count;
    }
    return &check->committed_at[payload];
}

static bool same(const struct simbatch *a, const struct simbatch *b)
{
    return a->base_offset == b->base_offset && a->payload == b->payload &&
           a->message_count == b->message_count && a->leader_epoch == b->leader_epoch &&
           a->first == b->first && a->timestamp_ms == b->timestamp_ms;
}

/* Does the log have the committed batch, as far as it lies in [from, to)? -1: yes; else
 * an offset that is not as it must be. */
static int64_t differs(const struct world *world, const struct registry *registry,
                       const struct simbatch *committed, const struct simlog *log,
                       bool on_disk, int64_t from, int64_t to)
{
    uint32_t limit = on_disk ? log->flushed : log->count;
    int64_t end = on_disk ? simlog_flushed_end(log) : simlog_end(log);
    for (uint32_t n = 0; n < committed->message_count; n++) {
        int64_t offset = committed->base_offset + n;
        enum held held = check_held(log, limit, committed, n);
        bool good = held == HELD || (held == HELD_NOT && world->compacts &&
                                     check_may_lack(registry, end, committed, n));
        if (offset >= from && offset < to && !good) {
            return offset;
        }
    }
    return -1;
}

/* ---- committed messages are where they must be --------------------------------------
 */

/* Does the log have all that is committed in [from, to), as far as it was not dropped
 * by retention? On disk, where that counts, or where it was asked for. */
static void complete(struct world *world, int32_t slot, int32_t id, int64_t from,
                     int64_t to, bool on_disk)
{
    const struct registry *registry = &world->check->slots[slot];
    const struct simlog *committed = &registry->committed;
    const struct simlog *log = &world->nodes[id - 1]->logs[slot];
    bool flush_ack =
        on_disk || world->store.entries[KEY_PARTITION + slot].value.partition.flush_ack;
    if (log->lost_tail || from >= to) {
        return;
    }
    if (log->topic_id != registry->topic_id) {
        world_violation(world, "p%d: n%d is in sync or eligible and has no log", slot,
                        id);
        return;
    }
    if (from < log->log_start) {
        from = log->log_start;
    }
    from = from < committed->log_start ? committed->log_start : from;
    uint32_t i = simlog_find(committed, from);
    uint32_t j = simlog_find(log, from);
    uint32_t limit = flush_ack ? log->flushed : log->count;
    for (; i < committed->count && committed->batches[i].base_offset < to; i++, j++) {
        const struct simbatch *batch = &committed->batches[i];
        if (j < limit && same(batch, &log->batches[j])) {
            continue;
        }
        int64_t bad = differs(world, registry, batch, log, flush_ack, from, to);
        if (bad >= 0) {
            world_violation(
                world,
                "p%d: n%d is in sync or eligible and lacks the committed offset %lld%s",
                slot, id, (long long)bad,
                j >= limit && j < log->count ? " on its disk" : "");
            return;
        }
        j = simlog_find(log, simlog_batch_end(committed, i)) - 1;
    }
}

static void members_complete(struct world *world, int32_t slot, int64_t from,
                             int64_t to)
{
    const struct entry *entry = &world->store.entries[KEY_STATE + slot];
    const struct leadership *state = &entry->value.state;
    if (!entry->present) {
        return;
    }
    for (uint32_t i = 0; i < state->isr.count; i++) {
        complete(world, slot, state->isr.ids[i], from, to, false);
    }
    for (uint32_t i = 0; i < state->elr.count; i++) {
        complete(world, slot, state->elr.ids[i], from, to, false);
    }
}

void check_log_shrunk(struct node *node, int32_t slot)
{
    struct world *world = node->world;
    const struct registry *registry = &world->check->slots[slot];
    const struct entry *entry = &world->store.entries[KEY_STATE + slot];
    const struct leadership *state = &entry->value.state;
    if (!entry->present || !registry->topic_id ||
        node->logs[slot].topic_id != registry->topic_id) {
        return;
    }
    if (replica_ids_contain(&state->isr, node_id(node)) ||
        replica_ids_contain(&state->elr, node_id(node))) {
        complete(world, slot, node_id(node), 0, simlog_end(&registry->committed),
                 false);
    }
}

/* ---- the high watermark -------------------------------------------------------------
 */

static void compare(struct world *world, const struct node *node, int32_t slot,
                    int64_t from, int64_t to)
{
    const struct registry *registry = &world->check->slots[slot];
    const struct simlog *committed = &registry->committed;
    const struct simlog *log = &node->logs[slot];
    from = from < log->log_start ? log->log_start : from;
    from = from < committed->log_start ? committed->log_start : from;
    uint32_t i = simlog_find(committed, from);
    uint32_t j = simlog_find(log, from);
    for (; i < committed->count && committed->batches[i].base_offset < to; i++, j++) {
        const struct simbatch *batch = &committed->batches[i];
        if (j < log->count && same(batch, &log->batches[j])) {
            continue;
        }
        int64_t bad = differs(world, registry, batch, log, false, from, to);
        if (bad >= 0) {
            world_violation(world,
                            "p%d: n%d shows another message at offset %lld than was "
                            "committed",
                            slot, node_id(node), (long long)bad);
            return;
        }
        j = simlog_find(log, simlog_batch_end(committed, i)) - 1;
    }
}

/* What the log has at `end`, which is where a batch that was appended begins; but in a
 * log that an election gave up a part of, compaction may have worked. */
static bool next_committed(struct world *world, const struct registry *registry,
                           const struct simlog *log, int64_t end, int64_t to,
                           struct simbatch *out)
{
    uint32_t i = simlog_find(log, end);
    if (i < log->count && log->batches[i].base_offset == end) {
        *out = log->batches[i];
        return true;
    }
    if (!world->compacts || registry->lossy_epoch < 0) {
        return false;
    }
    const struct simbatch *within = simlog_at(log, end);
    int64_t next = i < log->count && log->batches[i].base_offset < to
                       ? log->batches[i].base_offset
                       : to;
    *out =
        (struct simbatch){.base_offset = end, .message_count = (uint32_t)(next - end)};
    if (within) {
        struct batch rest;
        *out = *within;
        simbatch_decode(within, &rest);
        producer_batch_rest(&rest, (uint32_t)(end - within->base_offset));
        simbatch_encode(&rest, out);
    }
    return true;
}

static void extend(struct world *world, const struct node *node, int32_t slot,
                   int64_t to)
{
    struct registry *registry = &world->check->slots[slot];
    struct simlog *committed = &registry->committed;
    const struct simlog *log = &node->logs[slot];
    int64_t end = simlog_end(committed);
    while (end < to) {
        struct simbatch batch;
        if (!next_committed(world, registry, log, end, to, &batch)) {
            world_violation(world, "p%d: n%d has a gap at offset %lld", slot,
                            node_id(node), (long long)end);
            return;
        }
        int64_t *at = committed_at(world->check, batch.payload);
        if (*at && batch.first == 0 && batch.payload) {
            world_violation(world, "p%d: a batch is stored twice, at %lld and %lld",
                            slot, (long long)*at - 1, (long long)end);
            return;
        }
        *at = batch.first == 0 ? end + 1 : *at;
        simlog_append(committed, &batch);
        end = simlog_end(committed);
        if (!batch.payload && end > registry->excused_to) {
            registry->excused_to = end;
        }
        check_note_latest(registry, &batch);
    }
    bool excused = world->compacts && registry->lossy_epoch >= 0;
    if (end != to && !excused) {
        world_violation(world, "p%d: n%d's high watermark %lld is inside of a batch",
                        slot, node_id(node), (long long)to);
    }
}

/* Does the node still act on what was before the last possible loss? Then what it
 * commits is part of that loss. */
bool check_before_loss(const struct node *node, int32_t slot)
{
    const struct registry *registry = &node->world->check->slots[slot];
    return node->replicas[slot].topic_id != registry->topic_id ||
           node->replicas[slot].core.state.lossy_epoch < registry->lossy_epoch;
}

void check_high_watermark(struct node *node, int32_t slot, int64_t before)
{
    struct world *world = node->world;
    struct registry *registry = &world->check->slots[slot];
    int64_t after = node->replicas[slot].core.high_watermark;
    if (after < before) {
        world_violation(world, "p%d: n%d's high watermark fell from %lld to %lld", slot,
                        node_id(node), (long long)before, (long long)after);
    }
    if (check_before_loss(node, slot)) {
        return;
    }
    int64_t end = simlog_end(&registry->committed);
    compare(world, node, slot, before, after < end ? after : end);
    if (after > end && !world->failed) {
        extend(world, node, slot, after);
        if (!world->failed) {
            members_complete(world, slot, end, after);
        }
    }
}

void check_acknowledged(struct node *node, int32_t slot, const struct waiter *waiter)
{
    struct world *world = node->world;
    if (check_before_loss(node, slot)) {
        return;
    }
    if (*committed_at(world->check, waiter->payload) != waiter->base_offset + 1) {
        world_violation(world,
                        "p%d: n%d acknowledged a batch at offset %lld that is not "
                        "committed there",
                        slot, node_id(node), (long long)waiter->base_offset);
    }
}

/* Who joins under a later leader has what is committed, but it was not asked to flush
 * it: only as long as the epoch lasts can it be seen. */
void check_synced(struct node *node, int32_t slot, int64_t end)
{
    struct world *world = node->world;
    const struct leadership *state =
        &world->store.entries[KEY_STATE + slot].value.state;
    if (!world->store.entries[KEY_PARTITION + slot].present) {
        return; /* the topic is deleted; others may know already */
    }
    if (check_before_loss(node, slot) || state->leader != node_id(node) ||
        state->leader_epoch != node->replicas[slot].core.leader_epoch) {
        return;
    }
    if (simlog_end(&world->check->slots[slot].committed) < end) {
        world_violation(world,
                        "p%d: n%d says that offset %lld is durable, and it is "
                        "not committed",
                        slot, node_id(node), (long long)end - 1);
        return;
    }
    for (uint32_t i = 0; i < state->isr.count; i++) {
        complete(world, slot, state->isr.ids[i], 0, end, true);
    }
}

/* ---- leaders ------------------------------------------------------------------------
 */

void check_leads(struct node *node, int32_t slot)
{
    struct world *world = node->world;
    struct registry *registry = &world->check->slots[slot];
    int32_t epoch = node->replicas[slot].core.leader_epoch;
    if (node->replicas[slot].topic_id != registry->topic_id || epoch < 0 ||
        epoch >= EPOCHS_MAX) {
        return;
    }
    if ((uint32_t)epoch >= registry->owner_count) {
        registry->owner_count = (uint32_t)epoch + 1;
    }
    /* Before it heard of its election it may have followed the leader before. */
    if (registry->lossy_epoch >= 0 && !check_before_loss(node, slot) &&
        node->logs[slot].log_start > simlog_end(&registry->committed)) {
        simlog_restart(&registry->committed, node->logs[slot].log_start, -1);
    }
    /* What it brings along below its high watermark is committed, also where an
     * election with a possible loss had given that up before. */
    check_high_watermark(node, slot, node->replicas[slot].core.high_watermark);
    struct owner *owner = &registry->owners[epoch];
    if (!owner->node) {
        *owner = (struct owner){node_id(node), node->broker_epoch};
    } else if (owner->node != node_id(node) ||
               owner->broker_epoch != node->broker_epoch) {
        world_violation(
            world,
            "p%d: epoch %d has two leaders, n%d (broker epoch %lld) and n%d "
            "(%lld)",
            slot, epoch, owner->node, (long long)owner->broker_epoch, node_id(node),
            (long long)node->broker_epoch);
    }
}

/* ---- the store ----------------------------------------------------------------------
 */

/* Has the log, of which `limit` batches count, all of the batch that was committed? */
static bool keeps(const struct world *world, const struct registry *registry,
                  const struct simbatch *committed, const struct simlog *log,
                  uint32_t at, uint32_t limit, int64_t log_end)
{
    if (!world->compacts) {
        return at < limit && same(committed, &log->batches[at]);
    }
    int64_t end = committed->base_offset + committed->message_count;
    return log->topic_id == registry->topic_id && end <= log_end &&
           differs(world, registry, committed, log, limit < log->count, 0, end) < 0;
}

/* A leader was elected that may lack committed messages: what it lacks is lost, and
 * recorded as such. That is allowed only where the settings accept it. */
static void possible_loss(struct world *world, int32_t slot,
                          const struct leadership *state)
{
    struct registry *registry = &world->check->slots[slot];
    const struct partition_value *settings =
        &world->store.entries[KEY_PARTITION + slot].value.partition;
    const struct simlog *log = &world->nodes[state->leader - 1]->logs[slot];
    struct simlog *committed = &registry->committed;
    if (settings->flush_ack && settings->unclean_wait_ms < 0) {
        world_violation(world, "p%d: an election that may lose messages, in epoch %d",
                        slot, state->leader_epoch);
        return;
    }
    /* What the new leader has, from its start on, as far as it is the same. */
    int64_t start = log->topic_id == registry->topic_id ? log->log_start : 0;
    uint32_t limit = log->topic_id != registry->topic_id ? 0
                     : settings->flush_ack               ? log->flushed
                                                         : log->count;
    int64_t from = start > committed->log_start ? start : committed->log_start;
    uint32_t first = simlog_find(committed, from);
    uint32_t at = simlog_find(log, from);
    uint32_t kept = 0;
    int64_t end = settings->flush_ack ? simlog_flushed_end(log) : simlog_end(log);
    if (world->compacts && simlog_end(log) > registry->excused_to) {
        /* What it has by now, flushed or not, may be missing elsewhere: superseded by
         * what is lost. */
        registry->excused_to = simlog_end(log);
    }
    while (first + kept < committed->count &&
           keeps(world, registry, &committed->batches[first + kept], log, at + kept,
                 limit, end)) {
        kept++;
    }
    for (uint32_t i = 0; i < committed->count; i++) {
        if (i < first || i >= first + kept) {
            *committed_at(world->check, committed->batches[i].payload) = 0;
        }
    }
    WORLD_TRACE(world, "p%d: epoch %d may lose messages, %u batches are lost", slot,
                state->leader_epoch, committed->count - first - kept);
    if (kept) {
        memmove(committed->batches, committed->batches + first,
                kept * sizeof committed->batches[0]);
    }
    committed->count = kept;
    committed->flushed = 0;
    committed->log_start = kept ? from : start;
    committed->end = kept ? simlog_batch_end(committed, kept - 1) : start;
    check_renew_latest(registry);
    registry->lossy_epoch = state->lossy_epoch;
}

static void describe(struct world *world, int32_t slot, int32_t writer)
{
    const struct entry *entry = &world->store.entries[KEY_STATE + slot];
    const struct leadership *state = &entry->value.state;
    char text[160];
    size_t at = 0;
    for (uint32_t i = 0; i < state->isr.count; i++) {
        text[at++] = (char)('0' + state->isr.ids[i]);
    }
    text[at++] = '/';
    for (uint32_t i = 0; i < state->elr.count; i++) {
        text[at++] = (char)('0' + state->elr.ids[i]);
    }
    text[at++] = '/';
    for (uint32_t i = 0; i < state->suspect_count; i++) {
        text[at++] = (char)('0' + state->suspects[i].id);
    }
    text[at] = '\0';
    WORLD_TRACE(world,
                "stored by n%d: p%d leader %d epoch %d isr/elr/out %s revision %lld",
                writer + 1, slot, state->leader, state->leader_epoch, text,
                (long long)entry->mod_revision);
}

static void state_stored(struct world *world, int32_t slot, int32_t writer,
                         const struct leadership *before)
{
    const struct entry *entry = &world->store.entries[KEY_STATE + slot];
    const struct leadership *state = &entry->value.state;
    struct registry *registry = &world->check->slots[slot];
    if (world->trace) {
        describe(world, slot, writer);
    }
    bool created = entry->create_revision == entry->mod_revision;
    if (!created && state->leader_epoch <= before->leader_epoch &&
        !(state->leader_epoch == before->leader_epoch &&
          state->leader == before->leader && writer + 1 == state->leader)) {
        world_violation(world, "p%d: n%d wrote a state without a new epoch", slot,
                        writer + 1);
    }
    if (state->lossy_epoch > registry->lossy_epoch) {
        possible_loss(world, slot, state);
    }
    if (!world->failed) {
        members_complete(world, slot, 0, simlog_end(&registry->committed));
    }
}

static bool rests(const struct world *world, int64_t last_ms)
{
    bool clocks_jump = world->profile.faults & FAULT_CLOCK;
    return last_ms >= 0 && world_ms(world) - last_ms < DEPOSAL_REST_MS && !clocks_jump;
}

/* Fast detection moves a partition at most once in its time of rest. Where the leader
 * has changed since its writer looked, it could not know. */
static void moved(struct world *world, int32_t node, int64_t seen)
{
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        const struct entry *state = &world->store.entries[KEY_STATE + slot];
        uint32_t topic_id =
            world->store.entries[KEY_PARTITION + slot].value.partition.topic_id;
        if (!state->present || state->value.state.leader != node + 1 ||
            state->mod_revision > seen) {
            continue;
        }
        if (world->check->moved[slot].topic_id == topic_id &&
            rests(world, world->check->moved[slot].at_ms)) {
            world_violation(world, "p%d was moved twice by fast detection", slot);
        }
        world->check->moved[slot].topic_id = topic_id;
        world->check->moved[slot].at_ms = world_ms(world);
    }
}

static void deposed(struct world *world, int32_t node)
{
    int64_t *last = &world->check->deposed_ms[node];
    if (rests(world, *last)) {
        world_violation(world, "n%d was deposed twice in %lld ms", node + 1,
                        (long long)(world_ms(world) - *last));
    }
    *last = world_ms(world);
    moved(world, node, world->store.entries[KEY_DEPOSED].value.deposed.seen);
}

void check_commit(struct world *world, const struct transaction *transaction,
                  const struct leadership before[SLOTS_MAX])
{
    const struct entry *controller = &world->store.entries[KEY_CONTROLLER];
    if (transaction->by_controller &&
        (!controller->present ||
         controller->create_revision != transaction->controller_create)) {
        world_violation(world, "n%d wrote as controller after another had taken over",
                        transaction->writer + 1);
    }
    for (uint32_t i = 0; i < transaction->change_count; i++) {
        const struct change *change = &transaction->changes[i];
        int32_t slot = change->key - KEY_PARTITION;
        if (slot >= 0 && slot < SLOTS_MAX && !change->remove &&
            change->value.partition.topic_id != world->check->slots[slot].topic_id) {
            begin_topic(&world->check->slots[slot], change->value.partition.topic_id);
        }
    }
    for (uint32_t i = 0; i < transaction->change_count; i++) {
        const struct change *change = &transaction->changes[i];
        int32_t slot = change->key - KEY_STATE;
        int32_t node = change->key - KEY_REGISTRATION;
        if (node >= 0 && node < NODES_MAX && change->remove &&
            node != transaction->writer) {
            deposed(world, node);
        }
        if (slot >= 0 && slot < SLOTS_MAX && !change->remove) {
            state_stored(world, slot, transaction->writer, &before[slot]);
        }
    }
}

/* ---- the end ------------------------------------------------------------------------
 */

/* Nobody may lead: all who had the committed messages are damaged. */
static bool hopeless(const struct world *world, int32_t slot)
{
    const struct leadership *state =
        &world->store.entries[KEY_STATE + slot].value.state;
    const struct partition_value *value =
        &world->store.entries[KEY_PARTITION + slot].value.partition;
    bool usable = state->leader >= 0 || state->isr.count > 0 || state->elr.count > 0;
    for (uint32_t i = 0; i < state->suspect_count; i++) {
        usable = usable || state->suspects[i].kind == SUSPECT_CRASHED;
    }
    return !usable && (value->unclean_wait_ms < 0 ||
                       state->suspect_count >= value->replicas.count);
}

static const char *ill(const struct world *world, int32_t slot)
{
    const struct entry *partition = &world->store.entries[KEY_PARTITION + slot];
    const struct entry *entry = &world->store.entries[KEY_STATE + slot];
    const struct leadership *state = &entry->value.state;
    if (!partition->present || !entry->present) {
        return "has no state";
    }
    if (hopeless(world, slot)) {
        return NULL;
    }
    if (state->leader < 0 ||
        world->nodes[state->leader - 1]->replicas[slot].core.role != ROLE_LEADER) {
        return "has no leader";
    }
    if (partition->value.partition.target.count) {
        return "is still being moved";
    }
    if (state->isr.count != partition->value.partition.replicas.count) {
        return "is not fully in sync";
    }
    const struct replica *leader = &world->nodes[state->leader - 1]->replicas[slot];
    if (leader->sync_end && leader->sync_since_ms < world_ms(world) - 4000) {
        return "does not get to all disks";
    }
    for (int32_t i = 0; i < world->profile.client_count; i++) {
        const struct client *client = world->clients[i];
        if (client->slot == slot && client->last_ack_ms < world_ms(world) - 4000) {
            return "does not take messages";
        }
    }
    return NULL;
}

bool check_is_healed(struct world *world)
{
    for (int32_t slot = 0; slot < world->profile.slot_count; slot++) {
        if (ill(world, slot)) {
            return false;
        }
    }
    return true;
}

static void dump(struct world *world, int32_t slot)
{
    for (int32_t i = 0; world->trace && i < world->profile.node_count; i++) {
        const struct node *node = world->nodes[i];
        const struct partition_core *core = &node->replicas[slot].core;
        if (node->replicas[slot].topic_id) {
            world_log(
                world,
                "n%d p%d role %d leader %d epoch %d log %lld-%lld (on disk %lld-%lld, "
                "flushed %lld) HW %lld min %lld session %d phase %d offline %d",
                i + 1, slot, core->role, core->leader, core->leader_epoch,
                (long long)node->logs[slot].log_start, (long long)core->log_end_offset,
                (long long)(node->logs[slot].count
                                ? node->logs[slot].batches[0].base_offset
                                : -1),
                (long long)simlog_end(&node->logs[slot]),
                (long long)core->flushed_offset, (long long)core->high_watermark,
                (long long)core->min_insync_replicas, node_session(node), node->phase,
                core->offline);
        }
    }
    for (int32_t i = 0; world->trace && i < world->profile.client_count; i++) {
        const struct client *client = world->clients[i];
        if (client->slot == slot) {
            world_log(world,
                      "client %d acks %d to n%d, %u in flight from sequence %d, last "
                      "acknowledged at %lld",
                      i, client->acks, client->target + 1, client->out_count,
                      client->out_count ? client->out[0].batch.base_sequence : -1,
                      (long long)client->last_ack_ms);
        }
    }
}

void check_healed(struct world *world)
{
    for (int32_t slot = 0; slot < world->profile.slot_count; slot++) {
        const char *why = ill(world, slot);
        if (why) {
            dump(world, slot);
            world_violation(world, "p%d %s long after all faults ended", slot, why);
        }
    }
}
