#include "coord/snapshot.h"
#include "coord/sorted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *admin_operation_name(enum admin_operation operation)
{
    static const char *const names[ADMIN_OPERATIONS] = {
        [ADMIN_PREFER] = "preferred_replica_election",
        [ADMIN_REASSIGN] = "reassign_partitions",
        [ADMIN_DELETE] = "delete_topics",
    };

    return names[operation];
}

int admin_operation_find(const char *name)
{
    for (int i = 0; i < ADMIN_OPERATIONS; i++)
        if (strcmp(admin_operation_name((enum admin_operation)i), name) == 0)
            return i;
    return -ENOENT;
}

struct snapshot_topic *snapshot_topic_new(void)
{
    struct snapshot_topic *topic = calloc(1, sizeof(*topic));

    if (topic)
        atomic_init(&topic->references, 1);
    return topic;
}

void snapshot_topic_unref(struct snapshot_topic *topic)
{
    if (!topic || atomic_fetch_sub(&topic->references, 1) != 1)
        return;
    for (int32_t p = 0; topic->states && p < topic->assignment.partition_count; p++)
        partition_state_free(&topic->states[p]);
    free(topic->states);
    free(topic->infos);
    assignment_free(&topic->assignment);
    cJSON_Delete(topic->overrides);
    free(topic);
}

static struct snapshot_topic *topic_ref(const struct topic *topic)
{
    struct snapshot_topic *owner = (struct snapshot_topic *)topic;

    atomic_fetch_add(&owner->references, 1);
    return owner;
}

struct snapshot *snapshot_new(void)
{
    struct snapshot *snapshot = calloc(1, sizeof(*snapshot));

    if (!snapshot)
        return NULL;
    atomic_init(&snapshot->references, 1);
    snapshot->shown.controller = -1;
    return snapshot;
}

static int reserve_topics(struct snapshot *snapshot, uint32_t wanted)
{
    uint32_t allocated = snapshot->topics_allocated ? snapshot->topics_allocated : 16;
    const struct topic **grown;

    if (wanted <= snapshot->topics_allocated)
        return 0;
    while (allocated < wanted)
        allocated *= 2;
    grown = reallocarray(snapshot->topics, allocated, sizeof(struct topic *));
    if (!grown)
        return -ENOMEM;
    snapshot->topics = grown;
    snapshot->shown.topics = grown;
    grown = reallocarray(snapshot->by_id, allocated, sizeof(struct topic *));
    if (!grown)
        return -ENOMEM;
    snapshot->by_id = grown;
    snapshot->topics_allocated = allocated;
    return 0;
}

static int copy_topics(struct snapshot *copy, const struct snapshot *base)
{
    uint32_t count = base->shown.topic_count;
    int rc = reserve_topics(copy, count);

    if (rc != 0 || count == 0)
        return rc;
    for (uint32_t i = 0; i < count; i++)
        copy->topics[i] = &topic_ref(base->topics[i])->topic;
    memcpy(copy->by_id, base->by_id, count * sizeof(struct topic *));
    copy->shown.topic_count = count;
    return 0;
}

struct snapshot *snapshot_copy(const struct snapshot *base)
{
    struct snapshot *copy = snapshot_new();
    int rc;

    if (!copy)
        return NULL;
    copy->shown = base->shown;
    copy->shown.topics = NULL;
    copy->shown.topic_count = 0;
    copy->shown.brokers = NULL;
    copy->shown.broker_count = 0;
    copy->controller_revision = base->controller_revision;
    copy->controller_epoch_revision = base->controller_epoch_revision;
    copy->topics_attributes_revision = base->topics_attributes_revision;
    copy->deposals = deposals_ref(base->deposals);
    copy->deposals_revision = base->deposals_revision;
    rc = copy_topics(copy, base);
    if (rc == 0)
        rc = snapshot_set_brokers(copy, base->brokers, base->registrations,
                                  base->shown.broker_count);
    if (rc == 0)
        rc = snapshot_set_tombstones(copy, base->tombstones, base->tombstone_count);
    for (int i = 0; i < ADMIN_OPERATIONS && rc == 0; i++) {
        copy->running_revisions[i] = base->running_revisions[i];
        rc = snapshot_set_text(&copy->running[i], base->running[i]);
        if (rc == 0)
            rc = snapshot_set_text(&copy->last[i], base->last[i]);
    }
    if (rc == 0)
        return copy;
    snapshot_unref(copy);
    return NULL;
}

void snapshot_unref(const struct snapshot *shared)
{
    struct snapshot *snapshot = (struct snapshot *)shared;

    if (!snapshot || atomic_fetch_sub(&snapshot->references, 1) != 1)
        return;
    for (uint32_t i = 0; i < snapshot->shown.topic_count; i++)
        snapshot_topic_unref((struct snapshot_topic *)snapshot->topics[i]);
    for (int i = 0; i < ADMIN_OPERATIONS; i++) {
        free(snapshot->running[i]);
        free(snapshot->last[i]);
    }
    free(snapshot->topics);
    free(snapshot->by_id);
    free(snapshot->brokers);
    free(snapshot->registrations);
    free(snapshot->tombstones);
    deposals_unref(snapshot->deposals);
    free(snapshot);
}

static int compare_name(const void *item, const void *name)
{
    return strcmp((*(const struct topic *const *)item)->name, name);
}

static uint32_t find_name(const struct snapshot *snapshot, const char *name,
                          bool *found)
{
    return (uint32_t)sorted_place((const void *)snapshot->topics,
                                  snapshot->shown.topic_count, sizeof(struct topic *),
                                  name, compare_name, found);
}

static int compare_id(const void *item, const void *id)
{
    return memcmp((*(const struct topic *const *)item)->id.bytes, id, TOPIC_ID_BYTES);
}

static uint32_t find_id(const struct snapshot *snapshot, const struct topic_id *id,
                        uint32_t count, bool *found)
{
    return (uint32_t)sorted_place((const void *)snapshot->by_id, count,
                                  sizeof(struct topic *), id->bytes, compare_id, found);
}

/* Ids are unique unless another program wrote to the store: find the object itself. */
static void remove_by_id(struct snapshot *snapshot, const struct topic *topic)
{
    uint32_t count = snapshot->shown.topic_count, at = 0;
    bool found;

    at = find_id(snapshot, &topic->id, count, &found);
    if (!found || snapshot->by_id[at] != topic)
        for (at = 0; at < count && snapshot->by_id[at] != topic;)
            at++;
    if (at < count)
        memmove(&snapshot->by_id[at], &snapshot->by_id[at + 1],
                (count - at - 1) * sizeof(struct topic *));
}

void snapshot_remove_topic(struct snapshot *snapshot, const char *name)
{
    bool found;
    uint32_t at = find_name(snapshot, name, &found);
    const struct topic *topic;

    if (!found)
        return;
    topic = snapshot->topics[at];
    remove_by_id(snapshot, topic);
    snapshot->shown.topic_count--;
    memmove(&snapshot->topics[at], &snapshot->topics[at + 1],
            (snapshot->shown.topic_count - at) * sizeof(struct topic *));
    snapshot_topic_unref((struct snapshot_topic *)topic);
}

int snapshot_put_topic(struct snapshot *snapshot, struct snapshot_topic *topic)
{
    uint32_t count, at;
    bool found;
    int rc;

    rc = reserve_topics(snapshot, snapshot->shown.topic_count + 1);
    if (rc != 0)
        return rc;
    snapshot_remove_topic(snapshot, topic->topic.name);
    count = snapshot->shown.topic_count;
    at = find_name(snapshot, topic->topic.name, &found);
    memmove(&snapshot->topics[at + 1], &snapshot->topics[at],
            (count - at) * sizeof(struct topic *));
    snapshot->topics[at] = &topic_ref(&topic->topic)->topic;
    at = find_id(snapshot, &topic->topic.id, count, &found);
    memmove(&snapshot->by_id[at + 1], &snapshot->by_id[at],
            (count - at) * sizeof(struct topic *));
    snapshot->by_id[at] = &topic->topic;
    snapshot->shown.topic_count = count + 1;
    return 0;
}

const struct snapshot_topic *snapshot_topic_get(const struct snapshot *snapshot,
                                                const char *name)
{
    bool found;
    uint32_t at = find_name(snapshot, name, &found);

    return found ? snapshot_topic_at(snapshot, at) : NULL;
}

/* A copy of an array; an empty one is allocated too. */
static void *copy_array(const void *items, uint32_t count, size_t item_bytes)
{
    void *copy = calloc((size_t)count + 1, item_bytes);

    if (copy && count > 0)
        memcpy(copy, items, count * item_bytes);
    return copy;
}

int snapshot_set_brokers(struct snapshot *snapshot, const struct broker_info *brokers,
                         const struct registration *registrations, uint32_t count)
{
    void *infos = copy_array(brokers, count, sizeof(*brokers));
    void *details = copy_array(registrations, count, sizeof(*registrations));

    if (!infos || !details) {
        free(infos);
        free(details);
        return -ENOMEM;
    }
    free(snapshot->brokers);
    free(snapshot->registrations);
    snapshot->brokers = infos;
    snapshot->registrations = details;
    snapshot->shown.brokers = infos;
    snapshot->shown.broker_count = count;
    return 0;
}

int snapshot_set_tombstones(struct snapshot *snapshot,
                            const struct tombstone *tombstones, uint32_t count)
{
    struct tombstone *copy = copy_array(tombstones, count, sizeof(*tombstones));

    if (!copy)
        return -ENOMEM;
    free(snapshot->tombstones);
    snapshot->tombstones = copy;
    snapshot->tombstone_count = count;
    return 0;
}

int snapshot_set_text(char **slot, const char *text)
{
    char *copy = text ? strdup(text) : NULL;

    if (text && !copy)
        return -ENOMEM;
    free(*slot);
    *slot = copy;
    return 0;
}

const struct cluster_snapshot *
cluster_snapshot_ref(const struct cluster_snapshot *snapshot)
{
    atomic_fetch_add(&((struct snapshot *)snapshot)->references, 1);
    return snapshot;
}

void cluster_snapshot_put(const struct cluster_snapshot *snapshot)
{
    snapshot_unref((const struct snapshot *)snapshot);
}

const struct topic *cluster_snapshot_topic(const struct cluster_snapshot *snapshot,
                                           const char *name)
{
    const struct snapshot_topic *topic =
        snapshot_topic_get((const struct snapshot *)snapshot, name);

    return topic ? &topic->topic : NULL;
}

const struct topic *cluster_snapshot_topic_by_id(const struct cluster_snapshot *shown,
                                                 const struct topic_id *id)
{
    const struct snapshot *snapshot = (const struct snapshot *)shown;
    bool found;
    uint32_t at = find_id(snapshot, id, shown->topic_count, &found);

    return found ? snapshot->by_id[at] : NULL;
}

const struct broker_info *
cluster_snapshot_broker(const struct cluster_snapshot *snapshot, int32_t id)
{
    for (uint32_t i = 0; i < snapshot->broker_count; i++)
        if (snapshot->brokers[i].id == id)
            return &snapshot->brokers[i];
    return NULL;
}

void partition_info_leadership(const struct partition_info *info,
                               struct leadership *out)
{
    *out = (struct leadership){
        .controller_epoch = info->controller_epoch,
        .leader = info->leader,
        .leader_epoch = info->leader_epoch,
        .lossy_epoch = info->lossy_epoch,
        .suspect_count = info->suspect_count,
    };
    replica_ids_set(&out->isr, info->isr, info->isr_count);
    replica_ids_set(&out->elr, info->elr, info->elr_count);
    if (info->suspect_count > 0)
        memcpy(out->suspects, info->suspects,
               info->suspect_count * sizeof(*info->suspects));
}

bool cluster_snapshot_deleted(const struct cluster_snapshot *shown,
                              const struct topic_id *id)
{
    const struct snapshot *snapshot = (const struct snapshot *)shown;

    for (uint32_t i = 0; i < snapshot->tombstone_count; i++)
        if (topic_id_equal(&snapshot->tombstones[i].id, id))
            return true;
    return false;
}
