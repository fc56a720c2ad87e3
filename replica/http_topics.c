#include "replica/http_topics.h"

#include "replica/http_reading.h"

#include <stdlib.h>
#include <string.h>

/* As on the way through the mount's directories. */
static int check_modes(const struct http_user *user,
                       const struct cluster_snapshot *snapshot,
                       const struct topic *topic, unsigned want)
{
    if (!http_user_allows(user, snapshot->topics_uid, snapshot->topics_gid,
                          snapshot->topics_mode, HTTP_EXECUTE))
        return -EACCES;
    if (topic == NULL)
        return E_UNKNOWN_TOPIC;
    if ((want & HTTP_WRITE) != 0 && topic_name_is_internal(topic->name))
        return -EPERM;
    return http_user_allows(user, topic->uid, topic->gid, topic->mode,
                            want | HTTP_EXECUTE)
               ? 0
               : -EACCES;
}

bool http_topics_find(struct http_request *request, unsigned want,
                      const struct cluster_snapshot **snapshot,
                      const struct topic **topic)
{
    const struct http_topics *topics = http_request_argument(request);
    const struct http_user *user = http_request_user(request);
    const char *name = http_request_target(request)->parts[1];
    int rc = topic_name_check(name);

    *snapshot = cluster_snapshot_get(topics->cluster);
    *topic = rc == 0 ? cluster_snapshot_topic(*snapshot, name) : NULL;
    if (rc == 0)
        rc = check_modes(user, *snapshot, *topic, want);
    if (rc == 0)
        return true;
    cluster_snapshot_put(*snapshot);
    http_reply_error(request, rc, NULL);
    return false;
}

int http_topics_index(struct http_request *request, const struct topic *topic,
                      int32_t *index)
{
    const char *text = http_request_target(request)->parts[2];
    int64_t number;

    if (http_number(text, 0, INT32_MAX, &number) < 0) {
        http_reply_error(request, -EINVAL, "the partition is no number");
        return -EINVAL;
    }
    if (number >= topic->partition_count) {
        http_reply_error(request, -ENOENT, "the topic has no such partition");
        return -ENOENT;
    }
    *index = (int32_t)number;
    return 0;
}

struct partition *http_topics_partition(const struct http_topics *topics,
                                        const struct cluster_snapshot *snapshot,
                                        const struct topic *topic, int32_t index,
                                        int *error, const char **why)
{
    struct partition *partition = broker_partition(topics->broker, &topic->id, index);
    int32_t leader = topic->partitions[index].leader;

    *why = NULL;
    if (partition != NULL)
        return partition;
    *error = leader >= 0 && leader != snapshot->self ? E_NOT_LEADER : E_NO_LEADER;
    if (broker_partition_is_opening(topics->broker, &topic->id, index)) {
        *error = E_NO_LEADER;
        *why = "the partition is being recovered after a crash";
    }
    return NULL;
}

/* ---- GET /topics --------------------------------------------------------------------
 */

/* Whether topics that topicfs keeps for itself are asked for, too; *why: what is wrong
 * with the question. */
static bool wants_internal(const struct http_target *target, const char **why)
{
    static const char *const names[] = {"internal", NULL};
    const char *internal = http_target_argument(target, "internal");

    *why = NULL;
    if (http_target_unknown(target, names) != NULL)
        *why = "the argument may be: internal";
    else if (internal != NULL && strcmp(internal, "true") != 0 &&
             strcmp(internal, "false") != 0)
        *why = "internal is true or false";
    return internal != NULL && strcmp(internal, "true") == 0;
}

static void list_names(const struct cluster_snapshot *snapshot, bool internal,
                       struct buf *text)
{
    const char *separator = "";

    buf_adds(text, "[");
    for (uint32_t i = 0; i < snapshot->topic_count; i++) {
        const char *name = snapshot->topics[i]->name;

        if (!internal && topic_name_is_internal(name))
            continue;
        buf_adds(text, separator);
        json_quote(text, name, strlen(name));
        separator = ",";
    }
    buf_adds(text, "]\n");
}

static void list(struct http_request *request)
{
    const struct http_topics *topics = http_request_argument(request);
    const char *why;
    bool internal = wants_internal(http_request_target(request), &why);
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(topics->cluster);
    struct buf text;

    if (!http_user_allows(http_request_user(request), snapshot->topics_uid,
                          snapshot->topics_gid, snapshot->topics_mode, HTTP_READ)) {
        http_reply_error(request, -EACCES, NULL);
    } else if (why != NULL) {
        http_reply_error(request, -EINVAL, why);
    } else {
        buf_init(&text, SIZE_MAX / 2);
        list_names(snapshot, internal, &text);
        http_reply_text(request, 200, "application/json", &text);
    }
    cluster_snapshot_put(snapshot);
}

/* ---- GET /topics/<t> ----------------------------------------------------------------
 */

static cJSON *ids(const int32_t *values, uint32_t count)
{
    return cJSON_CreateIntArray(values, (int)count);
}

static void add_places(cJSON *object, const struct http_topics *topics,
                       const struct topic *topic, int32_t index)
{
    struct partition *partition = broker_partition(topics->broker, &topic->id, index);
    struct partition_status status;

    if (partition == NULL || partition_is_remote(partition)) {
        partition_unref(partition);
        return;
    }
    partition_status_get(partition, &status);
    partition_unref(partition);
    (void)json_add_i64(object, "log_start_offset", status.start.offset);
    (void)json_add_i64(object, "high_watermark", status.high_watermark.offset);
    (void)json_add_i64(object, "log_end_offset", status.log_end_offset);
}

static cJSON *describe_partition(const struct http_topics *topics,
                                 const struct topic *topic, int32_t index)
{
    const struct partition_info *info = &topic->partitions[index];
    cJSON *object = cJSON_CreateObject();

    (void)json_add_i64(object, "partition", index);
    (void)json_add_i64(object, "leader", info->leader);
    (void)json_add_i64(object, "leader_epoch", info->leader_epoch);
    (void)cJSON_AddItemToObject(object, "replicas",
                                ids(info->replicas, info->replica_count));
    (void)cJSON_AddItemToObject(object, "isr", ids(info->isr, info->isr_count));
    add_places(object, topics, topic, index);
    return object;
}

static void describe(struct http_request *request)
{
    const struct http_topics *topics = http_request_argument(request);
    const struct cluster_snapshot *snapshot;
    const struct topic *topic;
    char id[TOPIC_ID_TEXT];
    cJSON *object, *partitions;

    if (!http_topics_find(request, HTTP_READ, &snapshot, &topic))
        return;
    topic_id_format(&topic->id, id);
    object = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(object, "name", topic->name);
    (void)cJSON_AddStringToObject(object, "id", id);
    (void)cJSON_AddItemToObject(
        object, "config",
        settings_to_json(&topic->config, SETTING_TOPIC, topic->config_version));
    partitions = cJSON_AddArrayToObject(object, "partitions");
    for (int32_t i = 0; i < topic->partition_count; i++)
        (void)cJSON_AddItemToArray(partitions, describe_partition(topics, topic, i));
    http_reply_json(request, 200, object);
    cluster_snapshot_put(snapshot);
}

/* ---- GET /topics/<t>/<p>/state ------------------------------------------------------
 */

static void state_free(void *context)
{
    http_reading_end(context);
    free(context);
}

static void state_render(struct http_request *request)
{
    const struct http_reading *reading = http_request_context(request);
    struct buf text;

    buf_init(&text, SIZE_MAX / 2);
    (void)partition_state_render(reading->partition, &text);
    http_reply_text(request, 200, "application/json", &text);
}

static void state(struct http_request *request)
{
    struct http_reading *reading = calloc(1, sizeof *reading);

    if (reading == NULL) {
        http_reply_error(request, -ENOMEM, NULL);
        return;
    }
    http_request_set_context(request, reading, state_free);
    http_reading_begin(request, reading, state_render);
}

int http_topics_add(struct http_server *server, struct http_topics *topics)
{
    static const struct http_route routes[] = {
        {.method = "GET", .pattern = "/topics", .handler = list},
        {.method = "GET", .pattern = "/topics/*", .handler = describe},
        {.method = "POST",
         .pattern = "/topics/*",
         .body_limit = http_produce_limit,
         .handler = http_produce_by_key_handle},
        {.method = "GET", .pattern = "/topics/*/*", .handler = http_fetch_handle},
        {.method = "POST",
         .pattern = "/topics/*/*",
         .body_limit = http_produce_limit,
         .handler = http_produce_handle},
        {.method = "GET", .pattern = "/topics/*/*/state", .handler = state},
    };

    return http_server_add(server, routes, sizeof routes / sizeof routes[0], topics);
}
