#include "fs/group_text.h"

#include <stdio.h>
#include <string.h>

bool group_text_needs_ends(enum tree_kind kind)
{
    return kind == TREE_GROUP_LAG;
}

static int text_print(const cJSON *object, struct buf *out)
{
    char *text = object != NULL ? cJSON_Print(object) : NULL;
    if (text == NULL)
        return -ENOMEM;
    (void)buf_adds(out, text);
    cJSON_free(text);
    return buf_adds(out, "\n");
}

static int text_copy(cJSON *to, const cJSON *from, const char *key)
{
    cJSON *copy = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(from, key), true);
    if (copy == NULL)
        return -EIO;
    if (!cJSON_AddItemToObject(to, key, copy)) {
        cJSON_Delete(copy);
        return -ENOMEM;
    }
    return 0;
}

static bool text_is_of(const cJSON *entry, const char *topic_id)
{
    const char *text =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "topic_id"));
    return text != NULL && strcmp(text, topic_id) == 0;
}

static int64_t text_number(const cJSON *entry, const char *key)
{
    int64_t value;
    return json_get_i64(entry, key, &value) == 0 ? value : -1;
}

int64_t group_text_committed(const cJSON *group, const struct topic_id *topic_id,
                             int32_t partition)
{
    char id[TOPIC_ID_TEXT];
    const cJSON *entry;
    topic_id_format(topic_id, id);
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(group, "offsets"))
    {
        if (text_is_of(entry, id) && text_number(entry, "partition") == partition)
            return text_number(entry, "offset");
    }
    return -1;
}

/* ---- lag --------------------------------------------------------------------------
 */

static bool text_has_partition(const cJSON *member, int64_t partition)
{
    const cJSON *number;
    cJSON_ArrayForEach(number, cJSON_GetObjectItemCaseSensitive(member, "partitions"))
    {
        int64_t value;
        if (json_i64(number, &value) == 0 && value == partition)
            return true;
    }
    return false;
}

/* The id of the member that has the partition, or NULL. */
static const char *text_owner(const cJSON *group, const char *topic_id,
                              int64_t partition)
{
    const cJSON *member;
    cJSON_ArrayForEach(member, cJSON_GetObjectItemCaseSensitive(group, "members"))
    {
        if (text_is_of(member, topic_id) && text_has_partition(member, partition))
            return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(member, "id"));
    }
    return NULL;
}

static int text_add_number(cJSON *object, const char *key, int64_t value)
{
    if (value >= 0)
        return json_add_i64(object, key, value);
    return cJSON_AddNullToObject(object, key) != NULL ? 0 : -ENOMEM;
}

static cJSON *text_sub_object(cJSON *object, const char *key)
{
    cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
    return found != NULL ? found : cJSON_AddObjectToObject(object, key);
}

/* Adds one partition, and what it lags to *total. */
static int text_add_lag(cJSON *topics, const cJSON *group, const cJSON *entry,
                        int64_t *total)
{
    char number[24];
    const char *topic =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "topic"));
    const char *id =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "topic_id"));
    int64_t partition = text_number(entry, "partition");
    int64_t committed = text_number(entry, "offset");
    int64_t log_start = text_number(entry, "log_start");
    int64_t end = text_number(entry, "end");
    if (topic == NULL || id == NULL || partition < 0)
        return -EIO;
    int64_t lag = text_number(entry, "lag");
    cJSON *of_topic = text_sub_object(topics, topic);
    cJSON *partitions = text_sub_object(of_topic, "partitions");
    (void)snprintf(number, sizeof number, "%lld", (long long)partition);
    cJSON *object = cJSON_AddObjectToObject(partitions, number);
    const char *owner = text_owner(group, id, partition);
    if (object == NULL || text_add_number(object, "committed", committed) < 0 ||
        text_add_number(object, "log_start", log_start) < 0 ||
        text_add_number(object, "end", end) < 0 ||
        text_add_number(object, "lag", lag) < 0)
        return -ENOMEM;
    cJSON *member = owner != NULL ? cJSON_AddStringToObject(object, "member", owner)
                                  : cJSON_AddNullToObject(object, "member");
    if (lag > 0)
        *total += lag;
    return member != NULL ? 0 : -ENOMEM;
}

static int text_sum_topic(cJSON *topic)
{
    int64_t sum = 0;
    const cJSON *partition;
    cJSON_ArrayForEach(partition, cJSON_GetObjectItemCaseSensitive(topic, "partitions"))
    {
        int64_t lag = text_number(partition, "lag");
        sum += lag > 0 ? lag : 0;
    }
    return json_add_i64(topic, "lag", sum);
}

static int text_lag_render(const cJSON *group, struct buf *out)
{
    cJSON *object = cJSON_CreateObject();
    int64_t total = 0;
    cJSON *topic;
    const cJSON *entry;
    int rc = object != NULL ? text_copy(object, group, "group") : -ENOMEM;
    cJSON *topics = cJSON_CreateObject();
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(group, "offsets"))
    {
        if (rc == 0)
            rc = text_add_lag(topics, group, entry, &total);
    }
    cJSON_ArrayForEach(topic, topics)
    {
        if (rc == 0)
            rc = text_sum_topic(topic);
    }
    if (rc == 0)
        rc = json_add_i64(object, "lag", total);
    if (rc == 0 && cJSON_AddItemToObject(object, "topics", topics))
        topics = NULL;
    if (rc == 0)
        rc = text_print(object, out);
    cJSON_Delete(topics);
    cJSON_Delete(object);
    return rc;
}

/* ---- the others -------------------------------------------------------------------
 */

static int text_members_render(const cJSON *group, struct buf *out)
{
    cJSON *object = cJSON_CreateObject();
    int rc = object != NULL ? text_copy(object, group, "group") : -ENOMEM;
    if (rc == 0)
        rc = text_copy(object, group, "generation");
    if (rc == 0)
        rc = text_copy(object, group, "members");
    if (rc == 0)
        rc = text_print(object, out);
    cJSON_Delete(object);
    return rc;
}

static int text_offset_render(const struct tree_place *place, const cJSON *group,
                              struct buf *out)
{
    int64_t offset = group_text_committed(group, &place->topic_id, place->partition);
    if (offset < 0)
        return buf_adds(out, "none\n");
    return buf_printf(out, "%lld\n", (long long)offset);
}

int group_text_render(const struct tree_place *place, const cJSON *group,
                      struct buf *out)
{
    switch (place->kind) {
    case TREE_GROUP_MEMBERS:
        return text_members_render(group, out);
    case TREE_GROUP_LAG:
        return text_lag_render(group, out);
    case TREE_GROUP_CONFIG: {
        const cJSON *config = cJSON_GetObjectItemCaseSensitive(group, "config");
        return config != NULL ? text_print(config, out) : -EIO;
    }
    case TREE_GROUP_OFFSET:
        return text_offset_render(place, group, out);
    default:
        return -EINVAL;
    }
}
