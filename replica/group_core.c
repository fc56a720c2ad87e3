#include "replica/group_core_internal.h"

#include <stdlib.h>
#include <string.h>

struct group_core *group_core_new(const char *name, const struct group_config *defaults)
{
    struct group_core *core;

    if (strlen(name) > GROUP_NAME_MAX)
        return NULL;
    core = calloc(1, sizeof *core);
    if (!core)
        return NULL;
    memcpy(core->name, name, strlen(name) + 1);
    core->defaults = *defaults;
    core->config = *defaults;
    return core;
}

static void core_topic_free(struct core_topic *topic)
{
    if (topic)
        free(topic->partitions);
    free(topic);
}

void group_core_free(struct group_core *core)
{
    if (!core)
        return;
    for (size_t i = 0; i < core->member_count; i++)
        free(core->members[i]);
    for (size_t i = 0; i < core->topic_count; i++)
        core_topic_free(core->topics[i]);
    free((void *)core->members);
    free((void *)core->topics);
    free(core);
}

const char *group_core_name(const struct group_core *core)
{
    return core->name;
}

const struct group_config *group_core_config(const struct group_core *core)
{
    return &core->config;
}

uint64_t group_core_changes(const struct group_core *core)
{
    return core->changes;
}

size_t group_core_members(const struct group_core *core)
{
    return core->member_count;
}

bool group_core_is_used(const struct group_core *core)
{
    if (core->member_count > 0 || core->version > 0)
        return true;
    for (size_t i = 0; i < core->topic_count; i++)
        if (core_topic_has_offsets(core->topics[i]))
            return true;
    return false;
}

/* ---- topics -------------------------------------------------------------------------
 */

static int compare_topic(const void *item, const void *id)
{
    return memcmp((*(const struct core_topic *const *)item)->id.bytes, id,
                  TOPIC_ID_BYTES);
}

/* Where it is, or where it belongs. */
static size_t topic_place(const struct group_core *core, const struct topic_id *id,
                          bool *found)
{
    return sorted_place((const void *)core->topics, core->topic_count,
                        sizeof(struct core_topic *), id->bytes, compare_topic, found);
}

struct core_topic *core_topic_find(const struct group_core *core,
                                   const struct topic_id *id)
{
    bool found;
    size_t at = topic_place(core, id, &found);

    return found ? core->topics[at] : NULL;
}

/* A longer array of pointers, with a gap at `at`; `count` pointers are in it. */
static void **pointers_insert(void **array, size_t count, size_t at, void *pointer)
{
    void **longer = (void **)realloc((void *)array, (count + 1) * sizeof *longer);

    if (!longer)
        return NULL;
    memmove((void *)(longer + at + 1), (const void *)(longer + at),
            (count - at) * sizeof *longer);
    longer[at] = pointer;
    return longer;
}

struct core_topic *core_topic_add(struct group_core *core, const char *name,
                                  const struct topic_id *id)
{
    bool found;
    size_t at = topic_place(core, id, &found);
    struct core_topic *topic;
    void **longer;

    if (found)
        return core->topics[at];
    topic = calloc(1, sizeof *topic);
    if (!topic)
        return NULL;
    memcpy(topic->name, name, strnlen(name, TOPIC_NAME_MAX));
    topic->id = *id;
    topic->left_ms = -1;
    longer = pointers_insert((void **)core->topics, core->topic_count, at, topic);
    if (!longer) {
        free(topic);
        return NULL;
    }
    core->topics = (struct core_topic **)longer;
    core->topic_count++;
    return topic;
}

int core_topic_grow(struct core_topic *topic, int32_t count)
{
    struct core_partition *longer;

    if (count <= topic->count)
        return 0;
    longer = realloc(topic->partitions, (size_t)count * sizeof *longer);
    if (!longer)
        return -ENOMEM;
    for (int32_t p = topic->count; p < count; p++)
        longer[p] = (struct core_partition){.offset = -1, .leader_epoch = -1};
    topic->partitions = longer;
    topic->count = count;
    return 0;
}

bool core_topic_has_offsets(const struct core_topic *topic)
{
    for (int32_t p = 0; p < topic->count; p++)
        if (topic->partitions[p].offset >= 0)
            return true;
    return false;
}

void core_topics_sweep(struct group_core *core)
{
    size_t kept = 0;

    for (size_t i = 0; i < core->topic_count; i++) {
        struct core_topic *topic = core->topics[i];

        if (topic->members > 0 || core_topic_has_offsets(topic))
            core->topics[kept++] = topic;
        else
            core_topic_free(topic);
    }
    core->topic_count = kept;
}

/* ---- members ------------------------------------------------------------------------
 */

static int compare_member(const void *item, const void *id)
{
    return strcmp((*(const struct core_member *const *)item)->id, id);
}

static size_t member_place(const struct group_core *core, const char *id, bool *found)
{
    return sorted_place((const void *)core->members, core->member_count,
                        sizeof(struct core_member *), id, compare_member, found);
}

struct core_member *core_member_find(const struct group_core *core, const char *id)
{
    bool found;
    size_t at = member_place(core, id, &found);

    return found ? core->members[at] : NULL;
}

/* The index among the members of the topic, of each of them. */
static void members_number(const struct group_core *core, struct core_topic *topic)
{
    topic->members = 0;
    for (size_t i = 0; i < core->member_count; i++)
        if (core->members[i]->topic == topic)
            core->members[i]->index = topic->members++;
}

struct core_member *core_member_add(struct group_core *core, const char *id,
                                    struct core_topic *topic)
{
    bool found;
    size_t at = member_place(core, id, &found);
    struct core_member *member = calloc(1, sizeof *member);
    void **longer;

    if (!member)
        return NULL;
    memcpy(member->id, id, strnlen(id, GROUP_MEMBER_ID_MAX));
    member->topic = topic;
    longer = pointers_insert((void **)core->members, core->member_count, at, member);
    if (!longer) {
        free(member);
        return NULL;
    }
    core->members = (struct core_member **)longer;
    core->member_count++;
    topic->left_ms = -1;
    members_number(core, topic);
    return member;
}

static void member_free_partitions(struct core_member *member)
{
    struct core_topic *topic = member->topic;

    for (int32_t p = 0; p < topic->count; p++)
        if (topic->partitions[p].owner == member)
            topic->partitions[p].owner = NULL;
}

void core_member_remove(struct group_core *core, struct core_member *member)
{
    bool found;
    size_t at = member_place(core, member->id, &found);
    struct core_topic *topic = member->topic;

    member_free_partitions(member);
    core->member_count--;
    memmove((void *)(core->members + at), (const void *)(core->members + at + 1),
            (core->member_count - at) * sizeof(struct core_member *));
    free(member);
    members_number(core, topic);
}

void core_members_clear(struct group_core *core)
{
    for (size_t i = 0; i < core->member_count; i++) {
        member_free_partitions(core->members[i]);
        core->members[i]->topic->members = 0;
        free(core->members[i]);
    }
    core->member_count = 0;
}
