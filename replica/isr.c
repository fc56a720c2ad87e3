#include "replica/isr.h"

/* After Kafka's rule: in sync is who has all there is, or had it in the last
 * lag_time_max_ms; and, where that is set, who lags by few enough messages. */
static bool keeps_up(const struct partition_core *core,
                     const struct core_replica *replica, int64_t now_ms)
{
    int64_t behind = core->log_end_offset - replica->log_end_offset;
    if (replica->log_end_offset < 0) {
        behind = 0; /* not heard yet in this epoch: time decides alone */
    }
    if (core->lag_max_messages > 0 && behind > core->lag_max_messages) {
        return false;
    }
    return (replica->log_end_offset >= 0 && behind <= 0) ||
           now_ms - replica->caught_up_ms <= core->lag_time_max_ms;
}

static bool alive(const struct partition_core *core, const struct core_replica *replica)
{
    return !core->registrations_known || replica->registered_epoch > 0;
}

/* Has it reached the high watermark and the start of this epoch, in the incarnation
 * that is registered? Then it has all that was ever committed. The leader's own start
 * of the epoch must be on its disk, too: after an unclean election a replica may know
 * of a higher HW than it, and leads with that once it has joined. */
static bool caught_up(const struct partition_core *core,
                      const struct core_replica *replica)
{
    if (MUTATION(MUTATE_COUNT_OUT_OF_SYNC) && replica->log_end_offset >= 0) {
        return true;
    }
    return replica->log_end_offset >= core->high_watermark &&
           replica->log_end_offset >= core->epoch_start &&
           (!core->flush_counts || core->flushed_offset >= core->epoch_start);
}

static bool may_join(const struct partition_core *core,
                     const struct core_replica *replica, int64_t now_ms)
{
    bool known = !core->registrations_known ||
                 replica->registered_epoch == replica->broker_epoch ||
                 MUTATION(MUTATE_NO_BROKER_EPOCH);
    return known && replica->log_end_offset >= 0 && caught_up(core, replica) &&
           (alive(core, replica) || MUTATION(MUTATE_NO_BROKER_EPOCH)) &&
           (core->lag_max_messages == 0 || keeps_up(core, replica, now_ms)) &&
           now_ms - replica->fetch_ms <= core->lag_time_max_ms;
}

static bool belongs(const struct partition_core *core,
                    const struct core_replica *replica, int64_t now_ms)
{
    if (replica->id == core->self) {
        return true;
    }
    if (replica->in_isr) {
        return alive(core, replica) && keeps_up(core, replica, now_ms);
    }
    return may_join(core, replica, now_ms);
}

/* Replicas that leave while the ISR is below the minimum stay eligible, for the high
 * watermark stands still from then on. */
static void keep_eligible(const struct partition_core *core, struct leadership *state)
{
    state->elr.count = 0;
    if (state->isr.count >= core->min_insync_replicas) {
        return;
    }
    for (uint32_t i = 0; i < core->state.elr.count; i++) {
        replica_ids_add(&state->elr, core->state.elr.ids[i]);
    }
    for (uint32_t i = 0; i < core->state.isr.count; i++) {
        replica_ids_add(&state->elr, core->state.isr.ids[i]);
    }
    for (uint32_t i = 0; i < state->isr.count; i++) {
        replica_ids_remove(&state->elr, state->isr.ids[i]);
    }
}

/* Builds the ISR that ought to be. true: it differs from what is stored, or from what
 * may be stored by a lost proposal. */
static bool build(const struct partition_core *core, int64_t now_ms,
                  struct isr_proposal *out)
{
    bool differs = false;
    out->state = core->state;
    out->state_revision = core->revision;
    out->own_broker_epoch = core->own_broker_epoch;
    out->joined_count = 0;
    for (uint32_t i = 0; i < core->replica_count; i++) {
        const struct core_replica *replica = &core->replicas[i];
        bool in = belongs(core, replica, now_ms);
        if (in && !replica->in_isr) {
            replica_ids_add(&out->state.isr, replica->id);
            leadership_forget_suspect(&out->state, replica->id);
            out->joined[out->joined_count++] =
                (struct isr_joined){replica->id, replica->broker_epoch};
        } else if (!in && replica->in_isr) {
            replica_ids_remove(&out->state.isr, replica->id);
        }
        differs = differs || in != replica->in_isr || replica->maybe_isr;
    }
    keep_eligible(core, &out->state);
    return differs || !replica_ids_equal(&out->state.elr, &core->state.elr);
}

bool isr_propose(struct partition_core *core, int64_t now_ms, struct isr_proposal *out)
{
    if (core->role != ROLE_LEADER || core->session != SESSION_GOOD ||
        core->isr_in_flight || core->isr_reread || !build(core, now_ms, out)) {
        return false;
    }
    core->isr_in_flight = true;
    core->isr_proposed = out->state;
    for (uint32_t i = 0; i < out->joined_count; i++) {
        core_replica_find(core, out->joined[i].id)->maybe_isr = true;
    }
    if (MUTATION(MUTATE_NO_BROKER_EPOCH)) {
        out->joined_count = 0;
    }
    return true;
}

static void forget_proposed(struct partition_core *core)
{
    for (uint32_t i = 0; i < core->replica_count; i++) {
        core->replicas[i].maybe_isr = false;
    }
}

static void adopt(struct partition_core *core, int64_t revision)
{
    core->state = core->isr_proposed;
    core->revision = revision;
    core->isr_unknown = 0;
    forget_proposed(core);
    for (uint32_t i = 0; i < core->replica_count; i++) {
        core->replicas[i].in_isr =
            replica_ids_contain(&core->state.isr, core->replicas[i].id);
    }
}

void isr_outcome(struct partition_core *core, const struct isr_proposal *proposal,
                 enum isr_result result, int64_t revision)
{
    if (!core->isr_in_flight || core->revision != proposal->state_revision) {
        return; /* a newer state came meanwhile, and has settled it */
    }
    core->isr_in_flight = false;
    switch (result) {
    case ISR_STORED:
        adopt(core, revision);
        break;
    case ISR_CONFLICT:
        core->isr_reread = true;
        if (core->isr_unknown == 0) {
            forget_proposed(core);
        }
        break;
    case ISR_UNKNOWN:
        core->isr_reread = true;
        core->isr_unknown++;
        if (MUTATION(MUTATE_FORGET_UNKNOWN)) {
            forget_proposed(core);
        }
        break;
    }
}

void isr_reread(struct partition_core *core)
{
    core->isr_reread = false;
}
