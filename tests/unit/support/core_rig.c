#include "tests/unit/support/core_rig.h"

static const int32_t replicas[] = {1, 2, 3};
static const int64_t registrations[] = {50, 20, 30};

struct leadership core_rig_state(int32_t leader, int32_t epoch, uint32_t isr_count)
{
    struct leadership state = {
        .leader = leader, .leader_epoch = epoch, .lossy_epoch = -1};
    for (uint32_t i = 0; i < isr_count; i++) {
        replica_ids_add(&state.isr, replicas[i]);
    }
    return state;
}

int core_rig_lead(struct partition_core *core, const struct leadership *state,
                  int64_t revision, int64_t now_ms)
{
    const struct core_leadership leadership = {
        .state = state,
        .revision = revision,
        .replicas = replicas,
        .registrations = registrations,
        .replica_count = 3,
        .own_broker_epoch = 50,
        .now_ms = now_ms,
    };
    return core_lead(core, &leadership);
}

void core_rig_leader(struct partition_core *core)
{
    const struct leadership state = core_rig_state(1, 7, 3);
    core_init(core, 1, 10, 10, 5);
    core->min_insync_replicas = 2;
    core->lag_time_max_ms = 1000;
    (void)core_rig_lead(core, &state, 100, 0);
}

void core_rig_follower(struct partition_core *core)
{
    const struct leadership state = core_rig_state(2, 7, 3);
    core_init(core, 1, 10, 10, 5);
    core->min_insync_replicas = 2;
    core->lag_time_max_ms = 1000;
    (void)core_rig_lead(core, &state, 100, 0);
}
