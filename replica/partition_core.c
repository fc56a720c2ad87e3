#include "replica/partition_core.h"

void core_init(struct partition_core *core, int32_t self, int64_t log_end_offset,
               int64_t flushed_offset, int64_t high_watermark)
{
    *core = (struct partition_core){
        .self = self,
        .role = ROLE_NONE,
        .leader = -1,
        .leader_epoch = -1,
        .state = {.leader = -1, .leader_epoch = -1, .lossy_epoch = -1},
        .revision = -1,
        .min_insync_replicas = 1,
        .lag_time_max_ms = 10000,
        .log_end_offset = log_end_offset,
        .flushed_offset = flushed_offset,
        .high_watermark = high_watermark,
        .leader_high_watermark = -1,
    };
}

void core_configure(struct partition_core *core, const struct topic_config *config)
{
    core->min_insync_replicas = topic_config_min_insync(config);
    core->flush_counts = config->flush == FLUSH_ACK && !core->remote;
    core->compacted =
        (config->cleanup_policy & CLEANUP_COMPACT) || config->was_compacted;
    core->lag_time_max_ms = config->replica_lag_time_max_ms;
    core->lag_max_messages = config->replica_lag_max_messages;
}

struct core_replica *core_replica_find(struct partition_core *core, int32_t id)
{
    for (uint32_t i = 0; i < core->replica_count; i++) {
        if (core->replicas[i].id == id) {
            return &core->replicas[i];
        }
    }
    return NULL;
}

uint32_t core_isr_size(const struct partition_core *core)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < core->replica_count; i++) {
        size += core->replicas[i].in_isr;
    }
    return size;
}

/* ---- roles --------------------------------------------------------------------------
 */

static void decide_role(struct partition_core *core)
{
    bool own_epoch =
        core->revision > core->own_broker_epoch || MUTATION(MUTATE_RESUME_EPOCH);
    core->leader = core->state.leader;
    core->role = ROLE_NONE;
    if (core->leader == core->self) {
        if (own_epoch && !core->remote && !core->offline &&
            core->session != SESSION_LOST) {
            core->role = ROLE_LEADER;
        } else {
            core->leader = -1;
        }
    } else if (core->leader >= 0 && !core->offline &&
               (core->remote ? core->observes
                             : core_replica_find(core, core->self) != NULL)) {
        core->role = ROLE_FOLLOWER;
    }
}

/* Takes over the replicas; what was heard from them is kept within an epoch. */
static void set_replicas(struct partition_core *core,
                         const struct core_leadership *leadership, bool new_epoch)
{
    struct core_replica before[CORE_REPLICAS_MAX];
    uint32_t before_count = core->replica_count;
    for (uint32_t i = 0; i < before_count; i++) {
        before[i] = core->replicas[i];
    }
    core->replica_count = leadership->replica_count;
    for (uint32_t i = 0; i < leadership->replica_count; i++) {
        struct core_replica *replica = &core->replicas[i];
        *replica = (struct core_replica){
            .broker_epoch = -1,
            .log_end_offset = -1,
            .flushed_offset = -1,
            .fetch_ms = leadership->now_ms,
            .leader_end_at_fetch = INT64_MAX,
            .caught_up_ms = leadership->now_ms,
        };
        for (uint32_t j = 0; !new_epoch && j < before_count; j++) {
            if (before[j].id == leadership->replicas[i]) {
                *replica = before[j];
            }
        }
        replica->id = leadership->replicas[i];
        replica->in_isr = replica_ids_contain(&leadership->state->isr, replica->id);
    }
    core_registrations(core, leadership->registrations);
}

/* Nothing that was proposed against an older revision can be stored any more. */
static void settle_proposals(struct partition_core *core)
{
    core->isr_in_flight = false;
    core->isr_reread = false;
    core->isr_unknown = 0;
    for (uint32_t i = 0; i < core->replica_count; i++) {
        core->replicas[i].maybe_isr = false;
    }
}

int core_lead(struct partition_core *core, const struct core_leadership *leadership)
{
    if (leadership->revision < core->revision ||
        leadership->state->leader_epoch < core->leader_epoch) {
        return E_FENCED_EPOCH;
    }
    if (leadership->replica_count > CORE_REPLICAS_MAX) {
        return -E2BIG;
    }
    bool led = core->role == ROLE_LEADER;
    bool new_epoch = leadership->state->leader_epoch > core->leader_epoch;
    bool newer = new_epoch || leadership->revision > core->revision;
    set_replicas(core, leadership, new_epoch);
    core->state = *leadership->state;
    core->revision = leadership->revision;
    core->own_broker_epoch = leadership->own_broker_epoch;
    core->leader_epoch = leadership->state->leader_epoch;
    if (newer) {
        settle_proposals(core);
    }
    decide_role(core);
    if (new_epoch) {
        core->leader_high_watermark = -1;
        core->flush_to = 0;
        core->fetch_sequence++;
    }
    if (core->role == ROLE_LEADER && (new_epoch || !led)) {
        core->epoch_start = core->log_end_offset;
    }
    return 0;
}

void core_registrations(struct partition_core *core, const int64_t *registrations)
{
    core->registrations_known = registrations != NULL;
    for (uint32_t i = 0; i < core->replica_count; i++) {
        core->replicas[i].registered_epoch = registrations ? registrations[i] : 0;
    }
}

void core_set_session(struct partition_core *core, enum core_session session)
{
    core->session = session;
    if (session == SESSION_LOST && core->role == ROLE_LEADER) {
        core->role = ROLE_NONE;
        core->leader = -1;
    }
}

void core_set_offline(struct partition_core *core)
{
    core->offline = true;
    decide_role(core);
}

void core_observe(struct partition_core *core, bool observes)
{
    core->observes = observes;
    core->leader_high_watermark = -1;
    core->fetch_sequence++;
    decide_role(core);
}

void core_reset(struct partition_core *core, int64_t offset)
{
    core->offline = false;
    core->log_end_offset = offset;
    core->flushed_offset = offset;
    core->high_watermark = offset;
    core->leader_high_watermark = -1;
    core->fetch_sequence++;
    core->cuts++;
    decide_role(core);
}

/* ---- appending ----------------------------------------------------------------------
 */

int core_admit(const struct partition_core *core, int64_t acks)
{
    if (core->offline) {
        return E_OFFLINE;
    }
    if (core->leader < 0) {
        return E_NO_LEADER;
    }
    if (core->role != ROLE_LEADER) {
        return E_NOT_LEADER;
    }
    uint32_t isr_size = core_isr_size(core);
    if (core->session == SESSION_SILENT && (acks != ACKS_ALL || isr_size < 2)) {
        return E_SESSION_LOST;
    }
    if (acks == ACKS_ALL && isr_size < core->min_insync_replicas) {
        return E_NOT_ENOUGH_REPLICAS;
    }
    return 0;
}

void core_appended(struct partition_core *core, int64_t log_end_offset)
{
    core->log_end_offset = log_end_offset;
}

void core_flushed(struct partition_core *core, int64_t flushed_offset)
{
    if (flushed_offset > core->flushed_offset) {
        core->flushed_offset = flushed_offset;
    }
}

struct core_flush core_flush_begin(const struct partition_core *core)
{
    return (struct core_flush){core->cuts, core->log_end_offset};
}

bool core_flush_end(struct partition_core *core, const struct core_flush *flush)
{
    if (flush->cuts != core->cuts) {
        return false;
    }
    core_flushed(core, flush->end_offset);
    return true;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool core_cut(struct partition_core *core, struct epoch_list *epochs, int64_t offset)
{
    core->log_end_offset = lesser(core->log_end_offset, offset);
    core->flushed_offset = lesser(core->flushed_offset, offset);
    core->high_watermark = lesser(core->high_watermark, offset);
    core->cuts++;
    epochs_cut(epochs, offset);
    return !MUTATION(MUTATE_KEEP_PRODUCERS);
}

/* ---- the high watermark -------------------------------------------------------------
 */

int64_t core_own_end(const struct partition_core *core)
{
    return core->flush_counts && !MUTATION(MUTATE_ACK_BEFORE_FLUSH)
               ? core->flushed_offset
               : core->log_end_offset;
}

/*
 * Eligible replicas are those that the high watermark waited for: as long as there are
 * some it stands still, also where the minimum was lowered meanwhile.
 */
static bool may_advance(const struct partition_core *core)
{
    return MUTATION(MUTATE_HW_BELOW_MINIMUM) ||
           (core_isr_size(core) >= core->min_insync_replicas &&
            core->state.elr.count == 0);
}

/* May it be in sync, as far as this node can know? */
static bool counts(const struct partition_core *core,
                   const struct core_replica *replica)
{
    return replica->id != core->self && (replica->in_isr || replica->maybe_isr);
}

static int64_t leader_watermark(const struct partition_core *core)
{
    int64_t least = core_own_end(core);
    if (!may_advance(core)) {
        return -1;
    }
    for (uint32_t i = 0; i < core->replica_count; i++) {
        const struct core_replica *replica = &core->replicas[i];
        if (counts(core, replica)) {
            least = lesser(least, replica->log_end_offset);
        }
    }
    return least;
}

bool core_advance(struct partition_core *core)
{
    int64_t to = -1;
    if (core->role == ROLE_LEADER) {
        to = leader_watermark(core);
    } else if (core->role == ROLE_FOLLOWER) {
        to = lesser(core->leader_high_watermark, core_own_end(core));
    }
    if (to <= core->high_watermark) {
        return false;
    }
    core->high_watermark = to;
    return true;
}

bool core_acknowledged(const struct partition_core *core, int64_t acks,
                       int64_t end_offset)
{
    switch (acks) {
    case ACKS_NONE:
        return true;
    case ACKS_LEADER:
        return core_own_end(core) >= end_offset;
    default:
        return core->high_watermark >= end_offset;
    }
}

int core_outcome(const struct partition_core *core, int64_t acks, int32_t leader_epoch,
                 int64_t end_offset)
{
    if (core->role != ROLE_LEADER || core->leader_epoch != leader_epoch) {
        return E_NOT_LEADER;
    }
    return core_acknowledged(core, acks, end_offset) ? 0 : CORE_WAIT;
}

/* ---- durability ---------------------------------------------------------------------
 */

void core_sync(struct partition_core *core, int64_t offset)
{
    int64_t to = lesser(offset, core->log_end_offset);
    if (core->role == ROLE_LEADER && to > core->flush_to) {
        core->flush_to = to;
    }
}

/* A replica that is far behind would flush after each batch, and nobody waits for it
 * before it is in sync. */
bool core_must_flush(const struct partition_core *core)
{
    return core->flushed_offset < lesser(core->flush_to, core->log_end_offset) &&
           (core->log_end_offset >= core->flush_to ||
            replica_ids_contain(&core->state.isr, core->self));
}

int64_t core_synced_to(const struct partition_core *core)
{
    return core->remote ? -1 : lesser(core->flush_to, core->flushed_offset);
}

int64_t core_durable_end(const struct partition_core *core)
{
    int64_t least = lesser(core->high_watermark, core->flushed_offset);
    if (core->role != ROLE_LEADER) {
        return -1;
    }
    for (uint32_t i = 0; i < core->replica_count; i++) {
        const struct core_replica *replica = &core->replicas[i];
        if (counts(core, replica) &&
            (replica->in_isr || !MUTATION(MUTATE_SYNC_AS_STORED))) {
            least = lesser(least, replica->flushed_offset);
        }
    }
    return least;
}

int core_sync_outcome(const struct partition_core *core, int32_t leader_epoch,
                      int64_t end_offset)
{
    if (core->role != ROLE_LEADER || core->leader_epoch != leader_epoch) {
        return E_NOT_LEADER;
    }
    return core_durable_end(core) >= end_offset ? 0 : CORE_WAIT;
}
