/* Who belongs to the group, and who has which partition. */
#include "replica/group_core_internal.h"

#include <stdlib.h>
#include <string.h>

void core_new_generation(struct group_core *core)
{
    core->generation++;
    core->changes++;
}

void core_member_heard(struct core_member *member, int64_t at_ms)
{
    if (member->heard_ms < at_ms)
        member->heard_ms = at_ms;
}

/* The partitions that the member should have are [*first, *end). */
static void member_range(const struct core_member *member, int32_t *first, int32_t *end)
{
    const struct core_topic *topic = member->topic;

    *first = group_assign_first(topic->members, topic->count, member->index);
    *end = *first + group_assign_count(topic->members, topic->count, member->index);
}

bool core_gives_up(const struct core_member *member, int32_t partition)
{
    int32_t first, end;

    member_range(member, &first, &end);
    return partition < first || partition >= end;
}

void core_settle(struct group_core *core)
{
    for (size_t i = 0; i < core->member_count; i++) {
        struct core_member *member = core->members[i];
        int32_t first, end;

        member_range(member, &first, &end);
        for (int32_t p = first; p < end; p++) {
            struct core_partition *partition = &member->topic->partitions[p];

            if (partition->owner &&
                (!MUTATION(MUTATE_GRANT_UNRELEASED) || partition->owner == member))
                continue;
            partition->owner = member;
            partition->generation = core->generation;
            core->changes++;
        }
    }
}

int core_topic_follow(struct group_core *core, struct core_topic *topic, int32_t count)
{
    if (count <= topic->count)
        return 0;
    if (core_topic_grow(topic, count))
        return -ENOMEM;
    if (topic->members == 0)
        return 0;
    core_new_generation(core);
    return 1;
}

bool core_node_gone(const struct cluster_snapshot *snapshot,
                    const struct broker_incarnation *node)
{
    const struct broker_info *broker = cluster_snapshot_broker(snapshot, node->id);

    return broker ? broker->epoch > node->epoch : snapshot->revision > node->epoch;
}

static int join_check(const struct group_core *core, const struct group_env *env,
                      const struct group_join *join, const struct topic **topic)
{
    *topic = cluster_snapshot_topic_by_id(env->snapshot, &join->topic_id);
    if (!group_record_member_valid(join->member))
        return -EINVAL;
    if (!*topic)
        return E_TOPIC_DELETED;
    if (core_node_gone(env->snapshot, &join->node))
        return E_STALE_BROKER_EPOCH;
    return core->member_count < GROUP_MEMBERS_MAX ? 0 : -EUSERS;
}

int group_core_join(struct group_core *core, const struct group_env *env,
                    const struct group_join *join, struct buf *records)
{
    struct core_member *member = core_member_find(core, join->member);
    const struct topic *known;
    struct core_topic *topic;
    int rc;

    if (member) {
        core_member_heard(member, env->now_ms);
        return topic_id_equal(&member->topic->id, &join->topic_id) ? 0 : -EINVAL;
    }
    rc = join_check(core, env, join, &known);
    if (rc)
        return rc;
    topic = core_topic_add(core, known->name, &known->id);
    if (!topic || core_topic_follow(core, topic, known->partition_count) < 0)
        return -ENOMEM;
    member = core_member_add(core, join->member, topic);
    if (!member)
        return -ENOMEM;
    member->node = join->node;
    member->joined_ms = env->wall_ms;
    member->heard_ms = env->now_ms;
    core_new_generation(core);
    core_settle(core);
    return core_record_group(core, records);
}

void core_member_drop(struct group_core *core, const struct group_env *env,
                      struct core_member *member)
{
    struct core_topic *topic = member->topic;

    core_member_remove(core, member);
    if (topic->members == 0)
        topic->left_ms = env->wall_ms;
}

int group_core_leave(struct group_core *core, const struct group_env *env,
                     const char *id, struct buf *records)
{
    struct core_member *member = core_member_find(core, id);

    if (!member)
        return 0;
    core_member_drop(core, env, member);
    core_topics_sweep(core);
    core_new_generation(core);
    core_settle(core);
    return core_record_group(core, records);
}

/*
 * No two grants of a partition are of one generation, even where it goes back to who
 * released it: what was sent under the first must not count for the second.
 */
static bool beat_release(struct group_core *core, struct core_member *member,
                         const struct group_released *released, size_t count)
{
    bool freed = false;
    bool present = false;

    for (size_t i = 0; i < count; i++) {
        struct core_partition *partition;

        if (released[i].partition < 0 || released[i].partition >= member->topic->count)
            continue;
        partition = &member->topic->partitions[released[i].partition];
        if (partition->owner != member ||
            partition->generation != released[i].generation)
            continue;
        partition->owner = NULL;
        freed = true;
        present = present || partition->generation == core->generation;
    }
    if (present)
        core->generation++;
    return freed;
}

static int beat_answer(const struct core_member *member, struct group_grant **grants,
                       size_t *count)
{
    const struct core_topic *topic = member->topic;
    size_t has = 0;

    for (int32_t p = 0; p < topic->count; p++)
        has += topic->partitions[p].owner == member;
    *grants = calloc(has + 1, sizeof **grants);
    if (!*grants)
        return -ENOMEM;
    for (int32_t p = 0; p < topic->count; p++) {
        const struct core_partition *partition = &topic->partitions[p];

        if (partition->owner == member)
            (*grants)[(*count)++] = (struct group_grant){
                .partition = p,
                .generation = partition->generation,
                .give_up = core_gives_up(member, p),
                .committed = partition->offset,
                .leader_epoch = partition->leader_epoch,
            };
    }
    return 0;
}

int group_core_beat(struct group_core *core, const struct group_env *env,
                    const char *id, const struct group_released *released,
                    size_t released_count, struct buf *records,
                    struct group_grant **grants, size_t *count)
{
    struct core_member *member = core_member_find(core, id);
    int rc = 0;

    *grants = NULL;
    *count = 0;
    if (!member)
        return E_GROUP_MEMBER_UNKNOWN;
    core_member_heard(member, env->now_ms);
    if (beat_release(core, member, released, released_count)) {
        core->changes++;
        core_settle(core);
        rc = core_record_group(core, records);
    }
    return rc ? rc : beat_answer(member, grants, count);
}
