#include "coord/cluster_admin.h"

#include "coord/cluster_private.h"
#include "coord/err.h"
#include "coord/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    enum admin_operation operation;
    const struct snapshot *snapshot;
    char *why;
    size_t why_size;
};

#define refuse(reader, ...)                                                            \
    cluster_explain((reader)->why, (reader)->why_size, __VA_ARGS__)

static int check_keys(const struct reader *reader, const cJSON *object,
                      const char *const *allowed, const char *where)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, object)
    {
        size_t i = 0;

        while (allowed[i] && strcmp(allowed[i], item->string) != 0)
            i++;
        if (!allowed[i]) {
            refuse(reader, "%s: unknown key \"%.60s\"", where, item->string);
            return -EINVAL;
        }
    }
    return 0;
}

static int find_topic(const struct reader *reader, const cJSON *name,
                      const struct snapshot_topic **out)
{
    if (!cJSON_IsString(name)) {
        refuse(reader, "a topic's name must be a string");
        return -EINVAL;
    }
    *out = snapshot_topic_get(reader->snapshot, name->valuestring);
    if (*out)
        return 0;
    refuse(reader, "topic %.249s: no such topic", name->valuestring);
    return E_UNKNOWN_TOPIC;
}

/* May `id` become a replica? A live node that keeps replicas, or one of those that the
 * partition has, so that a reassignment can be taken back while a node is dead. */
static bool may_be_replica(const struct snapshot *snapshot,
                           const struct admin_item *item, int64_t id)
{
    const struct broker_info *broker =
        cluster_snapshot_broker(&snapshot->shown, (int32_t)id);

    return (broker && !broker->client) ||
           id_list_contains(&item->topic->assignment.partitions[item->partition],
                            (int32_t)id);
}

static int read_replicas(const struct reader *reader, const cJSON *array,
                         struct admin_item *item)
{
    const char *name = item->topic->topic.name;
    int count = cJSON_GetArraySize(array);
    const cJSON *element;

    if (!cJSON_IsArray(array) || count < 1 || count > LEADERSHIP_REPLICAS_MAX) {
        refuse(reader,
               "%s-%" PRId32 ": \"replicas\" must be a list of 1 to %d node ids", name,
               item->partition, LEADERSHIP_REPLICAS_MAX);
        return -EINVAL;
    }
    item->replicas.ids = calloc((size_t)count, sizeof(int32_t));
    if (!item->replicas.ids)
        return -ENOMEM;
    cJSON_ArrayForEach(element, array)
    {
        int64_t id;

        if (json_i64(element, &id) != 0 || id < 0 || id > INT32_MAX ||
            id_list_contains(&item->replicas, (int32_t)id)) {
            refuse(reader, "%s-%" PRId32 ": \"replicas\" must be node ids, each once",
                   name, item->partition);
            return -EINVAL;
        }
        if (!may_be_replica(reader->snapshot, item, id)) {
            refuse(reader, "%s-%" PRId32 ": node %" PRId64 " is not live", name,
                   item->partition, id);
            return E_INVALID_REPLICATION_FACTOR;
        }
        item->replicas.ids[item->replicas.count++] = (int32_t)id;
    }
    return 0;
}

static int read_partition(const struct reader *reader, const cJSON *json,
                          struct admin_item *item)
{
    static const char *const prefer_keys[] = {"topic", "partition", NULL};
    static const char *const reassign_keys[] = {"topic", "partition", "replicas", NULL};
    bool reassign = reader->operation == ADMIN_REASSIGN;
    int64_t partition;
    int rc;

    if (!cJSON_IsObject(json)) {
        refuse(reader, "\"partitions\" must be a list of objects");
        return -EINVAL;
    }
    rc = check_keys(reader, json, reassign ? reassign_keys : prefer_keys, "partitions");
    if (rc == 0)
        rc = find_topic(reader, cJSON_GetObjectItemCaseSensitive(json, "topic"),
                        &item->topic);
    if (rc != 0)
        return rc;
    if (json_get_i64(json, "partition", &partition) != 0) {
        refuse(reader, "topic %s: \"partition\" must be a number",
               item->topic->topic.name);
        return -EINVAL;
    }
    if (partition < 0 || partition >= item->topic->topic.partition_count) {
        refuse(reader, "topic %s: no partition %" PRId64, item->topic->topic.name,
               partition);
        return E_INVALID_PARTITION;
    }
    item->partition = (int32_t)partition;
    if (!reassign)
        return 0;
    return read_replicas(reader, cJSON_GetObjectItemCaseSensitive(json, "replicas"),
                         item);
}

static int order_items(const void *a, const void *b)
{
    const struct admin_item *first = a, *second = b;
    int order = strcmp(first->topic->topic.name, second->topic->topic.name);

    if (order != 0)
        return order;
    return (first->partition > second->partition) -
           (first->partition < second->partition);
}

static int check_once(const struct reader *reader, struct admin_request *request)
{
    if (request->count > 1)
        qsort(request->items, request->count, sizeof(*request->items), order_items);
    for (size_t i = 1; i < request->count; i++) {
        const struct admin_item *item = &request->items[i];

        if (order_items(item - 1, item) != 0)
            continue;
        if (item->partition < 0)
            refuse(reader, "topic %s: named twice", item->topic->topic.name);
        else
            refuse(reader, "%s-%" PRId32 ": named twice", item->topic->topic.name,
                   item->partition);
        return -EINVAL;
    }
    return 0;
}

/* The list that the operation works on, from the object around it. */
static int find_list(const struct reader *reader, const cJSON *json, const cJSON **list)
{
    static const char *const topic_keys[] = {"version", "topics", NULL};
    static const char *const partition_keys[] = {"version", "partitions", NULL};
    bool topics = reader->operation == ADMIN_DELETE;
    const char *key = topics ? "topics" : "partitions";
    int64_t version = 1;
    int rc;

    if (!cJSON_IsObject(json)) {
        refuse(reader, "a JSON object is needed: {\"version\":1,\"%s\":[...]}", key);
        return -EINVAL;
    }
    rc = check_keys(reader, json, topics ? topic_keys : partition_keys,
                    admin_operation_name(reader->operation));
    if (rc != 0)
        return rc;
    rc = json_get_i64(json, "version", &version);
    if ((rc != 0 && rc != -ENOENT) || version != 1) {
        refuse(reader, "\"version\" must be 1");
        return -EINVAL;
    }
    *list = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!cJSON_IsArray(*list)) {
        refuse(reader, "\"%s\" must be a list", key);
        return -EINVAL;
    }
    return 0;
}

int admin_request_read(enum admin_operation operation, const cJSON *json,
                       bool skip_absent, const struct snapshot *snapshot,
                       struct admin_request *out, char *why, size_t why_size)
{
    const struct reader reader = {operation, snapshot, why, why_size};
    const cJSON *list = NULL, *element;
    int rc = find_list(&reader, json, &list);

    *out = (struct admin_request){0};
    if (rc != 0)
        return rc;
    out->items = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*out->items));
    if (!out->items)
        return -ENOMEM;
    cJSON_ArrayForEach(element, list)
    {
        struct admin_item *item = &out->items[out->count++];

        item->partition = -1;
        if (operation == ADMIN_DELETE)
            rc = find_topic(&reader, element, &item->topic);
        else
            rc = read_partition(&reader, element, item);
        if (rc == E_UNKNOWN_TOPIC && skip_absent) {
            out->count--;
            rc = 0;
        } else if (rc == 0 && operation == ADMIN_DELETE &&
                   topic_name_is_internal(item->topic->topic.name)) {
            refuse(&reader, "topic %s: can't be deleted: topicfs itself uses it",
                   item->topic->topic.name);
            rc = -EPERM;
        }
        if (rc != 0)
            break;
    }
    if (rc == 0)
        rc = check_once(&reader, out);
    if (rc != 0)
        admin_request_free(out);
    return rc;
}

void admin_request_free(struct admin_request *request)
{
    for (size_t i = 0; i < request->count; i++)
        id_list_free(&request->items[i].replicas);
    free(request->items);
    *request = (struct admin_request){0};
}
