/* What is shown of a group, and the settings that its users change. */
#include "replica/group_core_internal.h"

#include <stdlib.h>
#include <string.h>

static int describe_text(cJSON *object, const char *name, const char *text)
{
    return cJSON_AddStringToObject(object, name, text) ? 0 : -ENOMEM;
}

static int describe_topic(cJSON *object, const struct core_topic *topic)
{
    char id[TOPIC_ID_TEXT];

    topic_id_format(&topic->id, id);
    return describe_text(object, "topic", topic->name) ||
                   describe_text(object, "topic_id", id)
               ? -ENOMEM
               : 0;
}

/* A new object at the end of the array. */
static cJSON *describe_entry(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();

    if (object && cJSON_AddItemToArray(array, object))
        return object;
    cJSON_Delete(object);
    return NULL;
}

static int describe_member(cJSON *array, const struct core_member *member)
{
    cJSON *object = describe_entry(array), *has;

    if (!object || describe_text(object, "id", member->id) ||
        json_add_i64(object, "node", member->node.id) ||
        describe_topic(object, member->topic))
        return -ENOMEM;
    has = cJSON_AddArrayToObject(object, "partitions");
    if (!has)
        return -ENOMEM;
    for (int32_t p = 0; p < member->topic->count; p++) {
        cJSON *number;

        if (member->topic->partitions[p].owner != member)
            continue;
        number = cJSON_CreateNumber(p);
        if (!number || !cJSON_AddItemToArray(has, number)) {
            cJSON_Delete(number);
            return -ENOMEM;
        }
    }
    return json_add_i64(object, "joined", member->joined_ms);
}

static int describe_offsets(cJSON *array, const struct core_topic *topic)
{
    for (int32_t p = 0; p < topic->count; p++) {
        const struct core_partition *partition = &topic->partitions[p];
        cJSON *object;

        if (partition->offset < 0)
            continue;
        object = describe_entry(array);
        if (!object || describe_topic(object, topic) ||
            json_add_i64(object, "partition", p) ||
            json_add_i64(object, "offset", partition->offset) ||
            json_add_i64(object, "leader_epoch", partition->leader_epoch) ||
            json_add_i64(object, "timestamp", partition->timestamp_ms))
            return -ENOMEM;
    }
    return 0;
}

/* By name, as they are shown; those of one name by id. */
static int describe_compare(const void *a, const void *b)
{
    const struct core_topic *const *x = a, *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);

    return order ? order : memcmp((*x)->id.bytes, (*y)->id.bytes, TOPIC_ID_BYTES);
}

static int describe_topics(cJSON *array, const struct group_core *core)
{
    const size_t item = sizeof(struct core_topic *);
    struct core_topic **sorted =
        (struct core_topic **)calloc(core->topic_count + 1, item);
    int rc = sorted ? 0 : -ENOMEM;

    if (sorted && core->topic_count > 0) {
        memcpy((void *)sorted, (const void *)core->topics, core->topic_count * item);
        qsort((void *)sorted, core->topic_count, item, describe_compare);
    }
    for (size_t i = 0; i < core->topic_count && rc == 0; i++)
        rc = describe_offsets(array, sorted[i]);
    free((void *)sorted);
    return rc;
}

cJSON *group_core_describe(const struct group_core *core)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *config = settings_to_json(&core->config, SETTING_GROUP, core->version);
    cJSON *array;

    if (!object || !config || describe_text(object, "group", core->name) ||
        json_add_i64(object, "generation", core->generation) ||
        json_add_i64(object, "version", core->version) ||
        !cJSON_AddItemToObject(object, "config", config))
        goto fail;
    config = NULL;
    array = cJSON_AddArrayToObject(object, "members");
    for (size_t i = 0; i < core->member_count; i++)
        if (!array || describe_member(array, core->members[i]))
            goto fail;
    array = array ? cJSON_AddArrayToObject(object, "offsets") : NULL;
    if (!array || describe_topics(array, core))
        goto fail;
    return object;
fail:
    cJSON_Delete(config);
    cJSON_Delete(object);
    return NULL;
}

int group_core_configure(struct group_core *core, const struct group_env *env,
                         const cJSON *object, struct buf *records, char *why,
                         size_t why_size)
{
    int rc = settings_apply_json(&core->config, SETTING_GROUP, &core->defaults, object,
                                 core->version, false, why, why_size);

    (void)env;
    if (rc)
        return rc;
    core->version++;
    core->changes++;
    return core_record_group(core, records);
}

int group_core_remove(struct group_core *core, const struct group_env *env,
                      struct buf *records)
{
    (void)env;
    if (core->member_count > 0)
        return E_GROUP_BUSY;
    for (size_t i = 0; i < core->topic_count; i++) {
        struct core_topic *topic = core->topics[i];

        for (int32_t p = 0; p < topic->count; p++) {
            if (topic->partitions[p].offset < 0)
                continue;
            topic->partitions[p].offset = -1;
            if (core_record_offset(core, topic, p, records))
                return -ENOMEM;
        }
    }
    core_topics_sweep(core);
    core->version = 0;
    return core_record_group(core, records);
}
