#include "replica/group_wire.h"

#include "replica/group_wire_internal.h"
#include "replica/partitioner.h"

#include <stdlib.h>
#include <string.h>

int32_t group_wire_shard(const char *group, int32_t shards)
{
    return partitioner_of_key(group, strlen(group), shards);
}

int group_wire_parse(const char *bytes, size_t length, cJSON **out)
{
    int64_t version = 0;
    int rc = json_parse_long(bytes, length, GROUP_WIRE_MAX, out);
    if (rc) {
        return rc == -ENOMEM ? rc : -EBADMSG;
    }
    rc = json_get_i64(*out, "version", &version);
    if (rc || version < 1) {
        rc = -EBADMSG;
    } else if (version > GROUP_WIRE_VERSION) {
        rc = E_NEWER_FORMAT;
    }
    if (rc) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return rc;
}

int group_wire_print(const cJSON *object, struct buf *out)
{
    char *text = cJSON_PrintUnformatted(object);
    int rc = text ? buf_adds(out, text) : -ENOMEM;
    cJSON_free(text);
    return rc;
}

/* ---- shared by the wire's files -----------------------------------------------------
 */

int group_wire_get_i32(const cJSON *object, const char *key, int32_t *out)
{
    int64_t value = 0;
    if (json_get_i64(object, key, &value) || value < INT32_MIN || value > INT32_MAX) {
        return -EBADMSG;
    }
    *out = (int32_t)value;
    return 0;
}

int group_wire_get_u64(const cJSON *object, const char *key, uint64_t *out)
{
    int64_t value = 0;
    if (json_get_i64(object, key, &value) || value < 0) {
        return -EBADMSG;
    }
    *out = (uint64_t)value;
    return 0;
}

int group_wire_get_i64(const cJSON *object, const char *key, int64_t *out)
{
    return json_get_i64(object, key, out) ? -EBADMSG : 0;
}

const char *group_wire_get_text(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

int group_wire_get_bool(const cJSON *object, const char *key, bool *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsBool(item)) {
        return -EBADMSG;
    }
    *out = cJSON_IsTrue(item);
    return 0;
}

int group_wire_get_array(const cJSON *object, const char *key, const cJSON **out,
                         size_t *count)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, key);
    const cJSON *item = NULL;
    size_t n = 0;
    if (!cJSON_IsArray(array)) {
        return -EBADMSG;
    }
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsObject(item)) {
            return -EBADMSG;
        }
        n++;
    }
    *out = array;
    *count = n;
    return 0;
}

int group_wire_get_topic_id(const cJSON *object, struct topic_id *out)
{
    const char *text = group_wire_get_text(object, "topic_id");
    return text && !topic_id_parse(text, out) ? 0 : -EBADMSG;
}

int group_wire_add_topic_id(cJSON *object, const struct topic_id *id)
{
    char text[TOPIC_ID_TEXT];
    topic_id_format(id, text);
    return cJSON_AddStringToObject(object, "topic_id", text) ? 0 : -ENOMEM;
}

cJSON *group_wire_append(cJSON *object, const char *array)
{
    cJSON *item = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(object, array), item)) {
        cJSON_Delete(item);
        item = NULL;
    }
    return item;
}

int group_wire_add_number(int rc, cJSON *object, const char *key, int64_t value)
{
    return rc ? rc : json_add_i64(object, key, value);
}

/* ---- who asks -----------------------------------------------------------------------
 */

cJSON *group_wire_question(const struct peer_sender *from, const char *array)
{
    cJSON *object = cJSON_CreateObject();
    int rc = json_add_i64(object, "version", GROUP_WIRE_VERSION);
    if (!rc && !cJSON_AddStringToObject(object, "cluster", from->cluster)) {
        rc = -ENOMEM;
    }
    rc = group_wire_add_number(rc, object, "node", from->id);
    rc = group_wire_add_number(rc, object, "epoch", from->broker_epoch);
    if (rc || !cJSON_AddArrayToObject(object, array)) {
        cJSON_Delete(object);
        object = NULL;
    }
    return object;
}

int group_wire_get_sender(const cJSON *object, struct peer_sender *out)
{
    const char *cluster = group_wire_get_text(object, "cluster");
    struct peer_sender from = {.id = -1};
    if (!cluster || strlen(cluster) > PEER_CLUSTER_MAX ||
        group_wire_get_i32(object, "node", &from.id) ||
        group_wire_get_i64(object, "epoch", &from.broker_epoch)) {
        return -EBADMSG;
    }
    memcpy(from.cluster, cluster, strlen(cluster) + 1);
    *out = from;
    return 0;
}

cJSON *group_wire_reply(int error, const char *why, const char *array)
{
    cJSON *object = cJSON_CreateObject();
    int rc = json_add_i64(object, "version", GROUP_WIRE_VERSION);
    rc = group_wire_add_number(rc, object, "error", error);
    if (rc || !cJSON_AddStringToObject(object, "why", why ? why : "") ||
        !cJSON_AddArrayToObject(object, array)) {
        cJSON_Delete(object);
        object = NULL;
    }
    return object;
}

int group_wire_get_error(const cJSON *object, int *error, const char **why)
{
    int32_t code = 0;
    const char *text = group_wire_get_text(object, "why");
    if (group_wire_get_i32(object, "error", &code) || code > 0) {
        return -EBADMSG;
    }
    *error = code;
    *why = text ? text : "";
    return 0;
}

static const cJSON *get_counted(const cJSON *object, const char *key, size_t count)
{
    const cJSON *array = NULL;
    size_t n = 0;
    return !group_wire_get_array(object, key, &array, &n) && n == count ? array : NULL;
}

const cJSON *group_wire_get_answers(const cJSON *object, size_t count)
{
    return get_counted(object, "answers", count);
}

const cJSON *group_wire_get_places(const cJSON *object, size_t count)
{
    return get_counted(object, "places", count);
}

/* ---- places -------------------------------------------------------------------------
 */

static const char *const place_kinds[] = {
    [GROUPS_PLACE_OFFSET] = "offset", [GROUPS_PLACE_EARLIEST] = "earliest",
    [GROUPS_PLACE_LATEST] = "latest", [GROUPS_PLACE_TIME] = "time",
    [GROUPS_PLACE_LAST] = "last",
};
enum { PLACE_KINDS = sizeof place_kinds / sizeof place_kinds[0] };

cJSON *group_wire_locate(const struct peer_sender *from)
{
    return group_wire_question(from, "places");
}

int group_wire_add_place(cJSON *request, const struct group_place *place)
{
    cJSON *item = group_wire_append(request, "places");
    int rc = item ? group_wire_add_topic_id(item, &place->topic_id) : -ENOMEM;
    rc = group_wire_add_number(rc, item, "partition", place->partition);
    if (!rc && !cJSON_AddStringToObject(item, "kind", place_kinds[place->kind])) {
        rc = -ENOMEM;
    }
    return group_wire_add_number(rc, item, "value", place->value);
}

int group_wire_get_locate(const cJSON *object, struct peer_sender *from,
                          const cJSON **places, size_t *count)
{
    int rc = group_wire_get_sender(object, from);
    return rc ? rc : group_wire_get_array(object, "places", places, count);
}

int group_wire_get_place(const cJSON *object, struct group_place *out)
{
    const char *kind = group_wire_get_text(object, "kind");
    struct group_place place = {.partition = -1};
    int found = PLACE_KINDS;
    for (int i = 0; kind && i < PLACE_KINDS; i++) {
        found = strcmp(kind, place_kinds[i]) == 0 ? i : found;
    }
    if (found == PLACE_KINDS || group_wire_get_topic_id(object, &place.topic_id) ||
        group_wire_get_i32(object, "partition", &place.partition) ||
        group_wire_get_i64(object, "value", &place.value)) {
        return -EBADMSG;
    }
    place.kind = (enum groups_place_kind)found;
    *out = place;
    return 0;
}

cJSON *group_wire_located(int error, const char *why)
{
    return group_wire_reply(error, why, "places");
}

int group_wire_add_found(cJSON *answer, const struct group_found *found)
{
    cJSON *item = group_wire_append(answer, "places");
    int rc = item ? json_add_i64(item, "error", found->error) : -ENOMEM;
    rc = group_wire_add_number(rc, item, "offset", found->offset);
    rc = group_wire_add_number(rc, item, "leader_epoch", found->leader_epoch);
    rc = group_wire_add_number(rc, item, "log_start", found->log_start);
    return group_wire_add_number(rc, item, "high_watermark", found->high_watermark);
}

int group_wire_get_found(const cJSON *object, struct group_found *out)
{
    struct group_found found = {0};
    int32_t error = 0;
    if (group_wire_get_i32(object, "error", &error) || error > 0 ||
        group_wire_get_i64(object, "offset", &found.offset) ||
        group_wire_get_i32(object, "leader_epoch", &found.leader_epoch) ||
        group_wire_get_i64(object, "log_start", &found.log_start) ||
        group_wire_get_i64(object, "high_watermark", &found.high_watermark)) {
        return -EBADMSG;
    }
    found.error = error;
    *out = found;
    return 0;
}
