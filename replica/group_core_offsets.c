/* What is committed. */
#include "replica/group_core_internal.h"

/*
 * Whether the place (epoch, offset) lies before what is committed. A member's commits
 * go forward, so such a one is a late repetition, unless messages were lost in an
 * election: what is committed then lies in an epoch before.
 */
static bool goes_back(const struct core_partition *partition,
                      const struct group_commit *commit)
{
    if (commit->leader_epoch >= 0 && partition->leader_epoch >= 0 &&
        commit->leader_epoch != partition->leader_epoch)
        return commit->leader_epoch < partition->leader_epoch;
    return commit->offset < partition->offset;
}

static bool counts(const struct core_member *member, const struct group_commit *commit)
{
    const struct core_topic *topic = member->topic;
    const struct core_partition *partition;

    if (commit->partition < 0 || commit->partition >= topic->count ||
        commit->offset < 0)
        return false;
    if (MUTATION(MUTATE_COMMIT_UNFENCED))
        return true;
    partition = &topic->partitions[commit->partition];
    return partition->owner == member && partition->generation == commit->generation;
}

static int take(struct group_core *core, const struct group_env *env,
                struct core_topic *topic, const struct group_commit *commit,
                struct buf *records)
{
    struct core_partition *partition = &topic->partitions[commit->partition];

    if (partition->offset >= 0 && goes_back(partition, commit))
        return 0;
    if (partition->offset == commit->offset &&
        partition->leader_epoch == commit->leader_epoch)
        return 0;
    partition->offset = commit->offset;
    partition->leader_epoch = commit->leader_epoch < 0 ? -1 : commit->leader_epoch;
    partition->timestamp_ms = env->wall_ms;
    return core_record_offset(core, topic, commit->partition, records);
}

int group_core_commit(struct group_core *core, const struct group_env *env,
                      const char *id, const struct group_commit *commits, size_t count,
                      bool *refused, struct buf *records)
{
    struct core_member *member = core_member_find(core, id);
    int rc = 0;

    for (size_t i = 0; i < count; i++)
        refused[i] = true;
    if (!member)
        return E_GROUP_MEMBER_UNKNOWN;
    core_member_heard(member, env->now_ms);
    for (size_t i = 0; i < count; i++) {
        if (!counts(member, &commits[i])) {
            rc = E_GROUP_FENCED;
            continue;
        }
        refused[i] = false;
        if (take(core, env, member->topic, &commits[i], records))
            return -ENOMEM;
    }
    return rc;
}

static int set_check(const struct group_core *core, const struct group_offset_set *set,
                     const struct core_topic *topic)
{
    const struct core_member *owner = NULL;

    if (!topic || MUTATION(MUTATE_SET_WHILE_READ))
        return 0;
    if (core->config.commit == GROUP_COMMIT_AUTO)
        return topic->members > 0 ? E_GROUP_BUSY : 0;
    if (set->partition < topic->count)
        owner = topic->partitions[set->partition].owner;
    return owner && owner->node.id != set->node ? E_GROUP_BUSY : 0;
}

int group_core_set_offset(struct group_core *core, const struct group_env *env,
                          const struct group_offset_set *set, struct buf *records)
{
    const struct topic *known =
        cluster_snapshot_topic_by_id(env->snapshot, &set->topic_id);
    struct core_topic *topic = core_topic_find(core, &set->topic_id);
    struct core_partition *partition;
    int rc = set_check(core, set, topic);

    if (!known)
        return E_TOPIC_DELETED;
    if (set->partition < 0 || set->partition >= known->partition_count ||
        set->offset < -1)
        return -EINVAL;
    if (rc)
        return rc;
    topic = core_topic_add(core, known->name, &known->id);
    rc = topic ? core_topic_follow(core, topic, known->partition_count) : -ENOMEM;
    if (rc < 0)
        return rc;
    core_settle(core);
    partition = &topic->partitions[set->partition];
    partition->offset = set->offset;
    partition->leader_epoch = set->offset < 0 ? -1 : set->leader_epoch;
    partition->timestamp_ms = env->wall_ms;
    if (core_record_offset(core, topic, set->partition, records))
        return -ENOMEM;
    /* The last offset may have been all that there was of the group. */
    if (rc == 0 && set->offset >= 0)
        return 0;
    core_topics_sweep(core);
    return core_record_group(core, records);
}
