/* One partition on one node: what the threads around the decision code must do. */
#include "tests/sim/node.h"

#include "replica/stamp.h"
#include "tests/sim/check.h"

#include <stdlib.h>
#include <string.h>

static const struct partition_value *settings(const struct node *node, int32_t slot)
{
    return &node->view[KEY_PARTITION + slot].value.partition;
}

/* ---- opening and closing ------------------------------------------------------------
 */

static void rebuild_producers(struct replica *replica, const struct simlog *log)
{
    producer_state_clear(replica->producers);
    for (uint32_t i = 0; i < log->count; i++) {
        struct batch batch;
        simbatch_decode(&log->batches[i], &batch);
        (void)producer_state_add(replica->producers, &batch);
    }
}

static void rebuild(struct replica *replica, const struct simlog *log)
{
    epochs_begin(&replica->epochs, log->begin_epoch, log->begin_offset);
    for (uint32_t i = 0; i < log->count; i++) {
        (void)epochs_add(&replica->epochs, log->batches[i].leader_epoch,
                         log->batches[i].base_offset);
    }
    rebuild_producers(replica, log);
}

static void configure(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    const struct partition_value *value = settings(node, slot);
    struct topic_config config = {
        .min_insync_replicas = value->min_insync,
        .flush = value->flush_ack ? FLUSH_ACK : FLUSH_OS,
        .replica_lag_time_max_ms = value->lag_time_max_ms,
        .replica_lag_max_messages = value->lag_max_messages,
        .cleanup_policy =
            CLEANUP_DELETE | (node->world->compacts ? CLEANUP_COMPACT : 0),
    };
    core_configure(&replica->core, &config);
}

void replica_open(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    struct simlog *log = &node->logs[slot];
    if (!replica->producers) {
        replica->producers = producer_state_new();
    }
    int64_t end = simlog_end(log);
    int64_t committed = log->checkpoint_hw < end ? log->checkpoint_hw : end;
    if (committed < log->log_start) {
        committed = log->log_start;
    }
    /* On disk too, before anything is appended: the messages that will be there later
     * are not those that were committed there once. */
    log->checkpoint_hw = committed;
    replica->topic_id = log->topic_id;
    replica->leaderless_since_ms = -1;
    /* After a crash of the process recovery has flushed; after one of the machine what
     * is there came from the disk. */
    log->flushed = log->count;
    core_init(&replica->core, node_id(node), end, end, committed);
    configure(node, slot);
    rebuild(replica, log);
    if (log->damaged) {
        replica_offline(node, slot);
    }
}

void replica_close(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    struct producer_state *producers = replica->producers;
    if (!replica->topic_id) {
        return;
    }
    epochs_free(&replica->epochs);
    producer_state_clear(producers);
    memset(replica, 0, sizeof *replica);
    replica->producers = producers;
}

void replica_offline(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    WORLD_TRACE(node->world, "n%d p%d is offline: its log is damaged", node_id(node),
                slot);
    replica->take_out = true;
    replica->taken_out_revision = 0;
    core_set_offline(&replica->core);
    if (node->phase == PHASE_UP) {
        replica_settle(node, slot);
    }
}

/* ---- fetching, as follower ----------------------------------------------------------
 */

static void fetch(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    struct fetch_request request;
    if (!follower_request(&replica->core, &replica->epochs, node->logs[slot].log_start,
                          &request)) {
        return;
    }
    replica->fetch_out = true;
    replica->fetch_deadline_ms = node_now(node) + FETCH_TIMEOUT_MS;
    struct message *message = world_message(node->world, MESSAGE_FETCH, node->index,
                                            replica->core.leader - 1);
    message->incarnation = node->incarnation;
    message->slot = slot;
    message->topic_id = replica->topic_id;
    message->u.fetch = request;
    world_send(node->world, message);
}

static void start_flush(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    struct world *world = node->world;
    if (replica->flushing || node->logs[slot].flushed == node->logs[slot].count) {
        return;
    }
    replica->flushing = true;
    replica->flush = core_flush_begin(&replica->core);
    replica->flush_count = node->logs[slot].count;
    int64_t took = prng_between(&world->prng, 100, world->profile.flush_max_us);
    if (!world->calm && prng_permille(&world->prng, world->profile.slow_flush)) {
        took = prng_between(&world->prng, 1000, 1000000);
    }
    struct event *event =
        world_at(world, world->now_us + took, EVENT_FLUSHED, node->index);
    event->incarnation = node->incarnation;
    event->slot = slot;
}

void replica_flushed(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    struct simlog *log = &node->logs[slot];
    if (!replica->topic_id || !replica->flushing) {
        return;
    }
    replica->flushing = false;
    if (core_flush_end(&replica->core, &replica->flush)) {
        log->flushed =
            replica->flush_count > log->flushed ? replica->flush_count : log->flushed;
    }
    if (replica->core.flush_counts || core_must_flush(&replica->core)) {
        start_flush(node, slot);
    }
    replica_settle(node, slot);
    if (replica->core.role == ROLE_FOLLOWER) {
        fetch(node, slot); /* its acknowledgement */
    }
}

static void append(struct node *node, int32_t slot, const struct simbatch *simbatch)
{
    struct replica *replica = &node->replicas[slot];
    struct batch batch;
    check_times(node, slot, simbatch);
    simlog_append(&node->logs[slot], simbatch);
    simbatch_decode(simbatch, &batch);
    (void)epochs_add(&replica->epochs, batch.leader_epoch, batch.base_offset);
    (void)producer_state_add(replica->producers, &batch);
    core_appended(&replica->core, batch.base_offset + batch.message_count);
}

static void take_cut(struct node *node, int32_t slot, int64_t offset)
{
    struct replica *replica = &node->replicas[slot];
    WORLD_TRACE(node->world, "n%d p%d cuts its log from %lld to %lld, HW %lld",
                node_id(node), slot, (long long)replica->core.log_end_offset,
                (long long)offset, (long long)replica->core.high_watermark);
    simlog_cut(&node->logs[slot], offset);
    if (core_cut(&replica->core, &replica->epochs, offset)) {
        rebuild_producers(replica, &node->logs[slot]);
    }
    check_log_shrunk(node, slot);
    fetch(node, slot);
}

static void take_restart(struct node *node, int32_t slot, int64_t offset, int32_t epoch)
{
    struct replica *replica = &node->replicas[slot];
    WORLD_TRACE(node->world, "n%d p%d drops its log and begins at %lld", node_id(node),
                slot, (long long)offset);
    simlog_restart(&node->logs[slot], offset, epoch);
    epochs_begin(&replica->epochs, epoch, offset);
    producer_state_clear(replica->producers);
    core_reset(&replica->core, offset);
    check_log_shrunk(node, slot);
    fetch(node, slot);
}

static void take_data(struct node *node, int32_t slot, const struct message *message)
{
    struct replica *replica = &node->replicas[slot];
    struct simlog *log = &node->logs[slot];
    uint32_t appended = 0;
    bool full = node_disk_full(node) && message->u.fetched.batch_count > 0;
    for (uint32_t i = 0; !full && i < message->u.fetched.batch_count; i++) {
        struct batch batch;
        simbatch_decode(&message->u.fetched.batches[i], &batch);
        if (!follower_fits(&replica->core, &replica->epochs, &batch)) {
            check_refused(node, slot, &batch);
            break;
        }
        append(node, slot, &message->u.fetched.batches[i]);
        appended++;
    }
    int64_t before = replica->core.high_watermark;
    follower_heard(&replica->core, &message->u.fetched.answer);
    if (core_advance(&replica->core)) {
        check_high_watermark(node, slot, before);
    }
    int64_t start = message->u.fetched.answer.log_start;
    if (start > log->log_start && start <= replica->core.high_watermark) {
        log->log_start = start;
    }
    replica->fetch_out = false;
    if (core_must_flush(&replica->core)) {
        start_flush(node, slot); /* its end sends a fetch that tells */
    }
    if (full || (!appended && message->u.fetched.batch_count > 0)) {
        replica->next_fetch_ms = node_now(node) + 100;
        return;
    }
    if (appended && replica->core.flush_counts) {
        start_flush(node, slot);
        if (!node->world->profile.early_fetch) {
            return; /* the flush's end sends the next one */
        }
    }
    fetch(node, slot);
}

void replica_fetched(struct node *node, const struct message *message)
{
    int32_t slot = message->slot;
    struct replica *replica = &node->replicas[slot];
    if (!replica->topic_id || replica->topic_id != message->topic_id) {
        return;
    }
    const struct follower_step step =
        follower_take(&replica->core, &replica->epochs, node->logs[slot].log_start,
                      &message->u.fetched.answer);
    switch (step.action) {
    case FOLLOW_IGNORE:
        break;
    case FOLLOW_RETRY:
        replica->fetch_out = false;
        replica->next_fetch_ms = node_now(node) + 100;
        break;
    case FOLLOW_APPEND:
        take_data(node, slot, message);
        break;
    case FOLLOW_CUT:
        take_cut(node, slot, step.offset);
        break;
    case FOLLOW_RESTART:
        take_restart(node, slot, step.offset, step.epoch);
        break;
    case FOLLOW_REFUSE:
        world_violation(node->world,
                        "n%d p%d would have to cut committed messages (HW %lld)",
                        node_id(node), slot, (long long)replica->core.high_watermark);
        break;
    }
}

/* ---- answering fetches, as leader ---------------------------------------------------
 */

/* Of the log, from the offset on. */
static uint32_t give(const struct simlog *log, int64_t offset, struct simbatch *out)
{
    uint32_t first = simlog_find(log, offset);
    const struct simbatch *within = simlog_at(log, offset);
    if (within && within->base_offset < offset) {
        first--;
    }
    uint32_t count = log->count - first;
    count = count > FETCH_BATCHES ? FETCH_BATCHES : count;
    memcpy(out, &log->batches[first], count * sizeof log->batches[0]);
    if (count) {
        struct batch rest;
        simbatch_decode(&out[0], &rest);
        if (fetch_rest(offset, &rest)) {
            simbatch_encode(&rest, &out[0]);
        }
    }
    return count;
}

static void answer_fetch(struct node *node, int32_t slot, int32_t to,
                         uint32_t incarnation, const struct fetch_request *request,
                         const struct fetch_answer *answer)
{
    const struct simlog *log = &node->logs[slot];
    struct message *message =
        world_message(node->world, MESSAGE_FETCH_ANSWER, node->index, to);
    message->incarnation = incarnation;
    message->slot = slot;
    message->topic_id = node->replicas[slot].topic_id;
    message->u.fetched.answer = *answer;
    message->u.fetched.batch_count = 0;
    if (answer->kind == FETCH_DATA && log->count) {
        message->u.fetched.batch_count =
            give(log, request->fetch_offset, message->u.fetched.batches);
    }
    world_send(node->world, message);
}

/* Answers parked fetches that have something to hear, or all. */
static void wake_parked(struct node *node, int32_t slot, bool all)
{
    struct replica *replica = &node->replicas[slot];
    for (int32_t i = 0; i < NODES_MAX; i++) {
        struct parked *parked = &replica->parked[i];
        struct fetch_answer answer;
        if (!parked->used) {
            continue;
        }
        fetch_again(&replica->core, &replica->epochs, node->logs[slot].log_start,
                    &parked->request, &answer);
        if (all || parked->until_ms <= node_now(node) ||
            !fetch_may_wait(&parked->request, &answer)) {
            parked->used = false;
            answer_fetch(node, slot, i, parked->incarnation, &parked->request, &answer);
        }
    }
}

/* A checksum that does not match shows when the batch is read. */
static bool finds_damage(struct node *node, int32_t slot)
{
    if (!node->logs[slot].damaged || node->replicas[slot].core.offline ||
        prng_below(&node->world->prng, 4) > 0) {
        return false;
    }
    replica_offline(node, slot);
    return true;
}

void replica_fetch(struct node *node, const struct message *message)
{
    int32_t slot = message->slot;
    struct replica *replica = &node->replicas[slot];
    struct fetch_answer answer;
    if (!replica->topic_id || replica->topic_id != message->topic_id) {
        return;
    }
    if (replica->core.role == ROLE_LEADER) {
        (void)finds_damage(node, slot);
    }
    core_set_session(&replica->core, node_session(node));
    fetch_take(&replica->core, &replica->epochs, node->logs[slot].log_start,
               &message->u.fetch, node_now(node), &answer);
    replica_settle(node, slot);
    if (answer.kind == FETCH_DATA) {
        fetch_again(&replica->core, &replica->epochs, node->logs[slot].log_start,
                    &message->u.fetch, &answer);
        struct core_replica *follower =
            core_replica_find(&replica->core, message->u.fetch.follower);
        if (follower && !follower->in_isr) {
            control_isr(node, slot);
        }
    }
    if (fetch_may_wait(&message->u.fetch, &answer)) {
        replica->parked[message->from] = (struct parked){
            .used = true,
            .until_ms = node_now(node) + PARK_MS,
            .request = message->u.fetch,
            .incarnation = message->incarnation,
        };
        return;
    }
    answer_fetch(node, slot, message->from, message->incarnation, &message->u.fetch,
                 &answer);
}

/* ---- producing ----------------------------------------------------------------------
 */

static void answer_produce(struct node *node, int32_t slot, const struct waiter *waiter,
                           int32_t error)
{
    struct message *message =
        world_message(node->world, MESSAGE_PRODUCE_ANSWER, node->index, ADDRESS_CLIENT);
    message->slot = slot;
    message->topic_id = node->replicas[slot].topic_id;
    message->u.produced.client = waiter->client;
    message->u.produced.error = error;
    message->u.produced.acks = waiter->acks;
    message->u.produced.payload = waiter->payload;
    message->u.produced.base_offset = waiter->base_offset;
    message->u.produced.leader_hint = node->replicas[slot].core.leader - 1;
    world_send(node->world, message);
}

static void acknowledge(struct node *node, int32_t slot, const struct waiter *waiter)
{
    if (waiter->acks == ACKS_ALL) {
        check_acknowledged(node, slot, waiter);
    }
    answer_produce(node, slot, waiter, 0);
}

static void settle_sync(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    if (!replica->sync_end) {
        return;
    }
    core_sync(&replica->core, replica->sync_end);
    if (core_must_flush(&replica->core)) {
        start_flush(node, slot);
    }
    int outcome =
        core_sync_outcome(&replica->core, replica->sync_epoch, replica->sync_end);
    if (outcome == 0) {
        check_synced(node, slot, replica->sync_end);
    }
    if (outcome != CORE_WAIT) {
        replica->sync_end = 0;
    }
}

/* Now and then somebody asks for what the log has, committed or not. */
static void ask_sync(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    if (!replica->sync_end && prng_permille(&node->world->prng, 100)) {
        replica->sync_end = replica->core.log_end_offset;
        replica->sync_epoch = replica->core.leader_epoch;
        replica->sync_since_ms = world_ms(node->world);
        replica_settle(node, slot);
    }
}

void replica_settle(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    int64_t before = replica->core.high_watermark;
    if (core_advance(&replica->core)) {
        check_high_watermark(node, slot, before);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < replica->waiter_count; i++) {
        const struct waiter waiter = replica->waiters[i];
        int rc = core_outcome(&replica->core, waiter.acks, waiter.leader_epoch,
                              waiter.end_offset);
        if (rc == CORE_WAIT) {
            replica->waiters[kept++] = waiter;
        } else if (rc == 0) {
            acknowledge(node, slot, &waiter);
        } else {
            answer_produce(node, slot, &waiter, rc);
        }
    }
    replica->waiter_count = kept;
    settle_sync(node, slot);
    wake_parked(node, slot, replica->core.role != ROLE_LEADER);
}

void replica_produce(struct node *node, const struct message *message)
{
    int32_t slot = message->slot;
    struct replica *replica = &node->replicas[slot];
    struct simbatch simbatch = message->u.produce.batch;
    struct waiter waiter = {
        .client = message->u.produce.client,
        .acks = message->u.produce.acks,
        .payload = simbatch.payload,
    };
    if (!replica->topic_id || replica->topic_id != message->topic_id) {
        return;
    }
    core_set_session(&replica->core, node_session(node));
    struct batch batch;
    struct produce_decision decision;
    simbatch_decode(&simbatch, &batch);
    produce_decide(&replica->core, replica->producers, &batch, waiter.acks, &decision);
    if (!decision.error && !decision.duplicate && node_disk_full(node)) {
        decision.error = -ENOSPC;
    }
    if (decision.error || replica->waiter_count == WAITERS_MAX) {
        answer_produce(node, slot, &waiter,
                       decision.error ? decision.error : E_COMMIT_TIMEOUT);
        return;
    }
    waiter.leader_epoch = replica->core.leader_epoch;
    waiter.base_offset = decision.base_offset;
    waiter.end_offset = decision.end_offset;
    if (!decision.duplicate) {
        simbatch.base_offset = replica->core.log_end_offset;
        simbatch.leader_epoch = replica->core.leader_epoch;
        simbatch.appended_ms = world_ms(node->world);
        simbatch.timestamp_ms =
            stamp_next(simlog_last_time(&node->logs[slot]), node_now(node));
        waiter.base_offset = simbatch.base_offset;
        waiter.end_offset = simbatch.base_offset + simbatch.message_count;
        append(node, slot, &simbatch);
        if (replica->core.flush_counts) {
            start_flush(node, slot);
        }
    }
    if (decision.acknowledged) {
        acknowledge(node, slot, &waiter);
        return;
    }
    replica->waiters[replica->waiter_count++] = waiter;
    replica_settle(node, slot);
}

/* ---- leadership ---------------------------------------------------------------------
 */

/*
 * The replica was damaged, and is out by a write that came after its last
 * acknowledgement, so that nobody can let it join on the ground of that. Once somebody
 * leads it begins anew.
 */
static void refill(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    const struct partition_core *core = &replica->core;
    if (!replica->taken_out_revision || core->revision < replica->taken_out_revision ||
        core->state.leader < 0 || core->state.leader == node_id(node) ||
        replica_ids_contain(&core->state.isr, node_id(node)) ||
        replica_ids_contain(&core->state.elr, node_id(node))) {
        return;
    }
    replica->take_out = false;
    node->logs[slot].damaged = false;
    take_restart(node, slot, 0, -1);
}

void replica_taken_out(struct node *node, int32_t slot, int64_t revision)
{
    struct replica *replica = &node->replicas[slot];
    if (replica->take_out) {
        replica->taken_out_revision = revision;
        refill(node, slot);
    }
}

void replica_state(struct node *node, int32_t slot, const struct leadership *state,
                   int64_t revision, const struct replica_ids *replicas)
{
    struct replica *replica = &node->replicas[slot];
    struct partition_core *core = &replica->core;
    int64_t registrations[LEADERSHIP_REPLICAS_MAX];
    int32_t epoch = core->leader_epoch;
    enum core_role role = core->role;
    for (uint32_t i = 0; i < replicas->count; i++) {
        const struct entry *entry =
            &node->view[KEY_REGISTRATION + replicas->ids[i] - 1];
        registrations[i] = entry->present ? entry->create_revision : 0;
    }
    const struct core_leadership leadership = {
        .state = state,
        .revision = revision,
        .replicas = replicas->ids,
        .registrations = registrations,
        .replica_count = replicas->count,
        .own_broker_epoch = node->broker_epoch,
        .now_ms = node_now(node),
    };
    core_set_session(core, node_session(node));
    if (core_lead(core, &leadership)) {
        return;
    }
    bool changed = core->leader_epoch != epoch || core->role != role;
    if (changed && core->role == ROLE_LEADER) {
        WORLD_TRACE(node->world, "n%d p%d leads epoch %d from %lld, HW %lld",
                    node_id(node), slot, core->leader_epoch,
                    (long long)core->log_end_offset, (long long)core->high_watermark);
        check_leads(node, slot);
    }
    replica_settle(node, slot);
    if (replica->take_out) {
        refill(node, slot);
    } else if (changed && core->role == ROLE_FOLLOWER) {
        fetch(node, slot);
    }
}

void replica_session(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    if (replica->topic_id) {
        core_set_session(&replica->core, node_session(node));
        replica_settle(node, slot);
    }
}

void replica_view(struct node *node, int32_t slot, uint32_t changed_keys)
{
    struct replica *replica = &node->replicas[slot];
    struct simlog *log = &node->logs[slot];
    const struct entry *partition = &node->view[KEY_PARTITION + slot];
    const struct entry *state = &node->view[KEY_STATE + slot];
    const struct partition_value *value = &partition->value.partition;
    uint32_t registrations = ((1u << NODES_MAX) - 1) << KEY_REGISTRATION;
    uint32_t mine =
        1u << (KEY_PARTITION + slot) | 1u << (KEY_STATE + slot) | registrations;
    if (changed_keys && !(changed_keys & mine)) {
        return;
    }
    bool here =
        partition->present && replica_ids_contain(&value->replicas, node_id(node));
    if (log->topic_id && (!here || value->topic_id != log->topic_id)) {
        WORLD_TRACE(node->world, "n%d p%d removes its copy of topic %u", node_id(node),
                    slot, log->topic_id);
        replica_close(node, slot);
        simlog_remove(log);
    }
    if (here && !log->topic_id) {
        simlog_create(log, value->topic_id, node->world->profile.roll_at);
    }
    if (here && !replica->topic_id) {
        replica_open(node, slot);
    }
    if (here) {
        configure(node, slot);
    }
    if (here && state->present) {
        replica_state(node, slot, &state->value.state, state->mod_revision,
                      &value->replicas);
    }
}

/* Retention takes committed batches, but none that its producer may still retry: a
 * replica that begins behind it would take the retry for new. */
static void retain(struct node *node, int32_t slot)
{
    const struct world *world = node->world;
    const struct replica *replica = &node->replicas[slot];
    struct simlog *log = &node->logs[slot];
    if (!world->profile.retention_ms || !prng_permille(&node->world->prng, 20)) {
        return;
    }
    uint32_t index = simlog_find(log, log->log_start);
    while (index < log->count &&
           log->batches[index].appended_ms + world->profile.retention_ms <
               world_ms(world) &&
           simlog_batch_end(log, index) <= replica->core.high_watermark) {
        log->log_start = simlog_batch_end(log, index++);
    }
}

/* ---- time ---------------------------------------------------------------------------
 */

void replica_tick(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    struct simlog *log = &node->logs[slot];
    int64_t now_ms = node_now(node);
    if (!replica->topic_id) {
        return;
    }
    core_set_session(&replica->core, node_session(node));
    if (log->damaged) {
        (void)finds_damage(node, slot);
    }
    if (replica->take_out && node->phase == PHASE_UP) {
        bool asked = false;
        if (!replica->taken_out_revision && !node_asks(node, OP_TAKE_OUT, slot)) {
            (void)control_take_out(node, slot, SUSPECT_UNUSABLE, &asked);
        }
        refill(node, slot);
        return;
    }
    if (replica->core.role == ROLE_FOLLOWER && !replica->flushing) {
        bool due = replica->fetch_out ? now_ms >= replica->fetch_deadline_ms
                                      : now_ms >= replica->next_fetch_ms;
        if (due) {
            fetch(node, slot);
        }
    }
    if (replica->core.role == ROLE_LEADER) {
        wake_parked(node, slot, false);
        control_isr(node, slot);
        retain(node, slot);
        ask_sync(node, slot);
    }
    if (!replica->core.flush_counts && prng_permille(&node->world->prng, 50)) {
        start_flush(node, slot); /* the kernel's writeback */
    }
    if (prng_permille(&node->world->prng, 200)) {
        log->checkpoint_hw = replica->core.high_watermark;
    }
    if (node->world->steps % 8 == 0) {
        check_look_up(node, slot);
    }
    if (node->world->compacts &&
        prng_permille(&node->world->prng, node->world->profile.compact)) {
        replica_compact(node, slot);
    }
}
