#include "replica/partition_core.h"

void core_init(struct partition_core *core, int32_t self, int64_t log_end_offset,
               int64_t flushed_offset, int64_t high_watermark)
{
    *core = (struct partition_core){
        .self = self,
        .role = ROLE_NONE,
        .leader = -1,
        .leader_epoch = -1,
        .min_insync_replicas = 1,
        .log_end_offset = log_end_offset,
        .flushed_offset = flushed_offset,
        .high_watermark = high_watermark,
    };
}

static int64_t effective_min_insync(const struct topic_config *config)
{
    if (config->min_insync_replicas > 0) {
        return config->min_insync_replicas;
    }
    return config->replication_factor >= 3 ? 2 : 1;
}

void core_configure(struct partition_core *core, const struct topic_config *config)
{
    core->min_insync_replicas = effective_min_insync(config);
    core->flush_counts = config->flush == FLUSH_ACK;
}

static bool contains(const int32_t *ids, uint32_t count, int32_t id)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

int core_lead(struct partition_core *core, const struct core_leadership *leadership)
{
    if (leadership->leader_epoch < core->leader_epoch) {
        return E_FENCED_EPOCH;
    }
    if (leadership->replica_count > CORE_REPLICAS_MAX) {
        return -E2BIG;
    }
    bool new_epoch = leadership->leader_epoch > core->leader_epoch;
    struct core_replica before[CORE_REPLICAS_MAX];
    uint32_t before_count = core->replica_count;
    for (uint32_t i = 0; i < before_count; i++) {
        before[i] = core->replicas[i];
    }
    for (uint32_t i = 0; i < leadership->replica_count; i++) {
        struct core_replica *replica = &core->replicas[i];
        replica->id = leadership->replicas[i];
        replica->in_isr = contains(leadership->isr, leadership->isr_count, replica->id);
        replica->log_end_offset = -1;
        for (uint32_t j = 0; !new_epoch && j < before_count; j++) {
            if (before[j].id == replica->id) {
                replica->log_end_offset = before[j].log_end_offset;
            }
        }
    }
    core->replica_count = leadership->replica_count;
    core->leader = leadership->leader;
    core->leader_epoch = leadership->leader_epoch;
    if (core->leader == core->self) {
        core->role = ROLE_LEADER;
    } else if (contains(leadership->replicas, leadership->replica_count, core->self)) {
        core->role = ROLE_FOLLOWER;
    } else {
        core->role = ROLE_NONE;
    }
    return 0;
}

static uint32_t isr_size(const struct partition_core *core)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < core->replica_count; i++) {
        size += core->replicas[i].in_isr;
    }
    return size;
}

int core_admit(const struct partition_core *core, int64_t acks)
{
    if (core->leader < 0) {
        return E_NO_LEADER;
    }
    if (core->role != ROLE_LEADER) {
        return E_NOT_LEADER;
    }
    if (acks == ACKS_ALL && isr_size(core) < core->min_insync_replicas) {
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

int64_t core_own_end(const struct partition_core *core)
{
    return core->flush_counts ? core->flushed_offset : core->log_end_offset;
}

bool core_advance(struct partition_core *core)
{
    if (core->role != ROLE_LEADER || isr_size(core) < core->min_insync_replicas) {
        return false;
    }
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < core->replica_count; i++) {
        const struct core_replica *replica = &core->replicas[i];
        if (!replica->in_isr) {
            continue;
        }
        int64_t end =
            replica->id == core->self ? core_own_end(core) : replica->log_end_offset;
        if (end < least) {
            least = end;
        }
    }
    if (least == INT64_MAX || least <= core->high_watermark) {
        return false;
    }
    core->high_watermark = least;
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
