/* What time and the cluster change. */
#include "replica/group_core_internal.h"

/* The wall clock may be set: nothing that hangs on it is waited for longer. */
enum { TICK_WALL_MAX_MS = 3600 * 1000 };

static bool tick_removes(const struct group_core *core, const struct group_env *env,
                         const struct core_member *member)
{
    return env->now_ms - member->heard_ms >= core->config.group_session_timeout_ms ||
           core_node_gone(env->snapshot, &member->node) ||
           !cluster_snapshot_topic_by_id(env->snapshot, &member->topic->id);
}

/* 1: some were removed. */
static bool tick_members(struct group_core *core, const struct group_env *env)
{
    bool removed = false;

    for (size_t i = core->member_count; i-- > 0;) {
        if (!tick_removes(core, env, core->members[i]))
            continue;
        core_member_drop(core, env, core->members[i]);
        removed = true;
    }
    if (removed)
        core_new_generation(core);
    return removed;
}

/* 1: a topic with members has more partitions; 0; -ENOMEM. */
static int tick_partitions(struct group_core *core, const struct group_env *env)
{
    int changed = 0;

    for (size_t i = 0; i < core->topic_count; i++) {
        struct core_topic *topic = core->topics[i];
        const struct topic *known =
            cluster_snapshot_topic_by_id(env->snapshot, &topic->id);
        int rc = known && topic->members > 0
                     ? core_topic_follow(core, topic, known->partition_count)
                     : 0;

        if (rc < 0)
            return rc;
        changed |= rc;
    }
    return changed;
}

/* When the partition's offset is to be forgotten (wall); INT64_MAX: never. */
static int64_t tick_expiry(const struct group_core *core,
                           const struct core_topic *topic, int32_t partition)
{
    int64_t since = topic->partitions[partition].timestamp_ms;
    int64_t at;

    if (core->config.offsets_retention_ms < 0 || topic->members > 0)
        return INT64_MAX;
    if (since < topic->left_ms)
        since = topic->left_ms;
    return __builtin_add_overflow(since, core->config.offsets_retention_ms, &at)
               ? INT64_MAX
               : at;
}

static int tick_forget(const struct group_core *core, struct core_topic *topic,
                       int32_t partition, struct buf *records)
{
    topic->partitions[partition].offset = -1;
    topic->partitions[partition].leader_epoch = -1;
    return core_record_offset(core, topic, partition, records);
}

/* 1: some offsets were forgotten; 0; -ENOMEM. *next_wall_ms: the next one is then. */
static int tick_offsets(struct group_core *core, const struct group_env *env,
                        struct buf *records, int64_t *next_wall_ms)
{
    int forgotten = 0;

    for (size_t i = 0; i < core->topic_count; i++) {
        struct core_topic *topic = core->topics[i];
        bool deleted = !MUTATION(MUTATE_KEEP_OFFSETS) &&
                       !cluster_snapshot_topic_by_id(env->snapshot, &topic->id);

        for (int32_t p = 0; p < topic->count; p++) {
            int64_t at = tick_expiry(core, topic, p);

            if (topic->partitions[p].offset < 0)
                continue;
            if (!deleted && env->wall_ms < at) {
                if (at < *next_wall_ms)
                    *next_wall_ms = at;
                continue;
            }
            if (tick_forget(core, topic, p, records))
                return -ENOMEM;
            forgotten = 1;
        }
    }
    core_topics_sweep(core);
    return forgotten;
}

static int64_t tick_next(const struct group_core *core, const struct group_env *env,
                         int64_t next_wall_ms)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < core->member_count; i++) {
        int64_t at = core->members[i]->heard_ms + core->config.group_session_timeout_ms;

        if (at < next)
            next = at;
    }
    if (next_wall_ms < INT64_MAX) {
        int64_t wait = next_wall_ms - env->wall_ms;
        int64_t at = env->now_ms + (wait < TICK_WALL_MAX_MS ? wait : TICK_WALL_MAX_MS);

        if (at < next)
            next = at;
    }
    return next;
}

int group_core_tick(struct group_core *core, const struct group_env *env,
                    struct buf *records, int64_t *next_ms)
{
    int64_t next_wall_ms = INT64_MAX;
    bool removed = tick_members(core, env);
    int forgotten = tick_offsets(core, env, records, &next_wall_ms);
    int more;

    if (forgotten < 0)
        return forgotten;
    more = tick_partitions(core, env);
    if (more < 0)
        return more;
    *next_ms = tick_next(core, env, next_wall_ms);
    if (!removed && !forgotten && !more)
        return 0;
    core_settle(core);
    return core_record_group(core, records);
}
