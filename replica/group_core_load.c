/* From records to the state, and back. */
#include "replica/group_core_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- from records -------------------------------------------------------------------
 */

/* What the group's own key says; the offsets have keys of their own. */
static void load_clear(struct group_core *core)
{
    core_members_clear(core);
    for (size_t i = 0; i < core->topic_count; i++)
        core->topics[i]->left_ms = -1;
    core->config = core->defaults;
    core->version = 0;
    core->generation = 0;
}

static int load_member(struct group_core *core, const struct group_record_member *from)
{
    struct core_topic *topic = core_topic_find(core, &from->topic_id);
    struct core_member *member = core_member_add(core, from->id, topic);

    if (!member)
        return -ENOMEM;
    member->node = from->node;
    member->joined_ms = from->joined_ms;
    for (size_t r = 0; r < from->run_count; r++) {
        const struct group_record_run *run = &from->runs[r];

        for (int32_t p = run->first; p < run->first + run->count; p++) {
            topic->partitions[p].owner = member;
            topic->partitions[p].generation = run->generation;
        }
    }
    return 0;
}

static int load_group(struct group_core *core, const struct group_record *record)
{
    load_clear(core);
    core->config = record->config;
    core->version = record->version;
    core->generation = MUTATION(MUTATE_FORGET_GENERATION) ? 0 : record->generation;
    for (size_t i = 0; i < record->topic_count; i++) {
        const struct group_record_topic *from = &record->topics[i];
        struct core_topic *topic = core_topic_add(core, from->name, &from->id);

        if (!topic || core_topic_grow(topic, from->partitions))
            return -ENOMEM;
        topic->left_ms = from->left_ms;
    }
    for (size_t i = 0; i < record->member_count; i++)
        if (load_member(core, &record->members[i]))
            return -ENOMEM;
    return 0;
}

static int load_offset(struct group_core *core, const struct group_record_key *key)
{
    struct group_record_offset record = {.offset = -1, .leader_epoch = -1};
    struct core_topic *topic = core_topic_find(core, &key->topic_id);
    struct core_partition *partition;
    int rc = key->gone ? 0 : group_record_decode_offset(key, &record);

    if (rc || (key->gone && (!topic || key->partition >= topic->count)))
        return rc;
    if (!topic)
        topic = core_topic_add(core, record.topic, &key->topic_id);
    if (!topic || core_topic_grow(topic, key->partition + 1))
        return -ENOMEM;
    partition = &topic->partitions[key->partition];
    partition->offset = record.offset;
    partition->leader_epoch = record.leader_epoch;
    partition->timestamp_ms = record.timestamp_ms;
    return 0;
}

int group_core_replay(struct group_core *core, const char *line, size_t length)
{
    struct group_record_key key;
    struct group_record record;
    int rc = group_record_split(line, length, &key);

    if (rc || strcmp(key.group, core->name) != 0)
        return rc;
    if (key.offset)
        return load_offset(core, &key);
    if (key.gone) {
        load_clear(core);
        return 0;
    }
    rc = group_record_decode(&key, &core->defaults, &record);
    if (rc)
        return rc;
    rc = load_group(core, &record);
    group_record_free(&record);
    return rc;
}

void group_core_loaded(struct group_core *core, int64_t now_ms)
{
    core_topics_sweep(core);
    for (size_t i = 0; i < core->member_count; i++)
        core->members[i]->heard_ms = now_ms;
    core->changes++;
}

/* ---- to records ---------------------------------------------------------------------
 */

static int save_runs(const struct core_member *member, struct group_record_member *out)
{
    const struct core_topic *topic = member->topic;
    struct group_record_run *run = NULL;

    out->runs = calloc((size_t)topic->count + 1, sizeof *out->runs);
    if (!out->runs)
        return -ENOMEM;
    for (int32_t p = 0; p < topic->count; p++) {
        const struct core_partition *partition = &topic->partitions[p];

        if (partition->owner != member)
            continue;
        if (run && run->first + run->count == p &&
            run->generation == partition->generation) {
            run->count++;
            continue;
        }
        run = &out->runs[out->run_count++];
        *run = (struct group_record_run){p, 1, partition->generation};
    }
    return 0;
}

static int save_members(const struct group_core *core, struct group_record *out)
{
    out->members = calloc(core->member_count + 1, sizeof *out->members);
    if (!out->members)
        return -ENOMEM;
    for (size_t i = 0; i < core->member_count; i++) {
        const struct core_member *from = core->members[i];
        struct group_record_member *member = &out->members[out->member_count++];

        memcpy(member->id, from->id, sizeof member->id);
        member->node = from->node;
        memcpy(member->topic, from->topic->name, sizeof member->topic);
        member->topic_id = from->topic->id;
        member->joined_ms = from->joined_ms;
        if (save_runs(from, member))
            return -ENOMEM;
    }
    return 0;
}

static int save_topics(const struct group_core *core, struct group_record *out)
{
    out->topics = calloc(core->topic_count + 1, sizeof *out->topics);
    if (!out->topics)
        return -ENOMEM;
    for (size_t i = 0; i < core->topic_count; i++) {
        const struct core_topic *from = core->topics[i];
        struct group_record_topic *topic = &out->topics[out->topic_count];

        if (from->members == 0 && from->left_ms < 0)
            continue;
        memcpy(topic->name, from->name, sizeof topic->name);
        topic->id = from->id;
        topic->partitions = from->count;
        topic->left_ms = from->left_ms;
        out->topic_count++;
    }
    return 0;
}

int core_record_group(struct group_core *core, struct buf *records)
{
    struct group_record record = {.generation = core->generation,
                                  .version = core->version,
                                  .config = core->config};
    int rc;

    if (!group_core_is_used(core)) {
        load_clear(core);
        return group_record_encode_gone(core->name, records) ? -ENOMEM : 0;
    }
    rc = save_members(core, &record);
    if (rc == 0)
        rc = save_topics(core, &record);
    if (rc == 0 && group_record_encode(core->name, &record, records))
        rc = -ENOMEM;
    group_record_free(&record);
    return rc;
}

int core_record_offset(const struct group_core *core, const struct core_topic *topic,
                       int32_t partition, struct buf *records)
{
    const struct core_partition *from = &topic->partitions[partition];
    struct group_record_offset record = {.offset = from->offset,
                                         .timestamp_ms = from->timestamp_ms,
                                         .leader_epoch = from->leader_epoch};
    int rc;

    memcpy(record.topic, topic->name, sizeof record.topic);
    if (from->offset < 0)
        rc =
            group_record_encode_offset_gone(core->name, &topic->id, partition, records);
    else
        rc = group_record_encode_offset(core->name, &topic->id, partition, &record,
                                        records);
    return rc ? -ENOMEM : 0;
}
