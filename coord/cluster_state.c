#include "coord/cluster_state.h"

#include "coord/err.h"
#include "coord/json.h"
#include "coord/number.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int id_list_copy(struct id_list *out, const int32_t *ids, uint32_t count)
{
    *out = (struct id_list){0};
    if (count == 0)
        return 0;
    out->ids = malloc(count * sizeof(*ids));
    if (!out->ids)
        return -ENOMEM;
    memcpy(out->ids, ids, count * sizeof(*ids));
    out->count = count;
    return 0;
}

void id_list_free(struct id_list *list)
{
    free(list->ids);
    *list = (struct id_list){0};
}

bool id_list_contains(const struct id_list *list, int32_t id)
{
    return replica_ids_list(list->ids, list->count, id);
}

int assignment_copy(struct assignment *out, const struct assignment *from,
                    int32_t partition_count)
{
    int rc = 0;

    *out = (struct assignment){.id = from->id};
    out->partitions = calloc((size_t)partition_count, sizeof(*out->partitions));
    if (!out->partitions)
        return -ENOMEM;
    out->partition_count = partition_count;
    for (int32_t p = 0; p < from->partition_count && rc == 0; p++)
        rc = id_list_copy(&out->partitions[p], from->partitions[p].ids,
                          from->partitions[p].count);
    if (rc != 0)
        assignment_free(out);
    return rc;
}

void assignment_free(struct assignment *assignment)
{
    for (int32_t p = 0; p < assignment->partition_count; p++)
        id_list_free(&assignment->partitions[p]);
    free(assignment->partitions);
    *assignment = (struct assignment){0};
}

void partition_state_init(struct partition_state *state)
{
    *state = (struct partition_state){
        .leader = -1,
        .leader_epoch = -1,
        .lossy_epoch = -1,
        .loss = PARTITION_LOSS_NONE,
    };
}

static int copy_suspects(struct partition_state *out, const struct suspect *suspects,
                         uint32_t count)
{
    out->suspects = NULL;
    out->suspect_count = 0;
    if (count == 0)
        return 0;
    out->suspects = calloc(count, sizeof(*suspects));
    if (!out->suspects)
        return -ENOMEM;
    memcpy(out->suspects, suspects, count * sizeof(*suspects));
    out->suspect_count = count;
    return 0;
}

int partition_state_copy(struct partition_state *out,
                         const struct partition_state *state)
{
    int rc;

    *out = *state;
    out->elr = (struct id_list){0};
    out->suspects = NULL;
    rc = id_list_copy(&out->isr, state->isr.ids, state->isr.count);
    if (rc == 0)
        rc = id_list_copy(&out->elr, state->elr.ids, state->elr.count);
    if (rc == 0)
        rc = copy_suspects(out, state->suspects, state->suspect_count);
    if (rc != 0)
        partition_state_free(out);
    return rc;
}

void partition_state_free(struct partition_state *state)
{
    id_list_free(&state->isr);
    id_list_free(&state->elr);
    free(state->suspects);
    state->suspects = NULL;
    state->suspect_count = 0;
}

int partition_state_from_leadership(const struct leadership *leadership,
                                    const struct partition_state *old,
                                    struct partition_state *out)
{
    int rc;

    partition_state_init(out);
    out->controller_epoch = leadership->controller_epoch;
    out->leader = leadership->leader;
    out->leader_epoch = leadership->leader_epoch;
    out->lossy_epoch = leadership->lossy_epoch;
    if (old)
        out->loss = old->loss;
    rc = id_list_copy(&out->isr, leadership->isr.ids, leadership->isr.count);
    if (rc == 0)
        rc = id_list_copy(&out->elr, leadership->elr.ids, leadership->elr.count);
    if (rc == 0)
        rc = copy_suspects(out, leadership->suspects, leadership->suspect_count);
    if (rc != 0)
        partition_state_free(out);
    return rc;
}

void topic_settings_free(struct topic_settings *settings)
{
    cJSON_Delete(settings->overrides);
    *settings = (struct topic_settings){0};
}

/* An object with "version":1. */
static int parse_object(const char *text, cJSON **out)
{
    int64_t version;
    int rc = json_parse(text, strlen(text), out);

    if (rc != 0) {
        *out = NULL;
        return rc == -ENOMEM ? rc : E_INVALID_JSON;
    }
    if (!cJSON_IsObject(*out) || json_get_i64(*out, "version", &version) != 0 ||
        version != 1) {
        cJSON_Delete(*out);
        *out = NULL;
        return E_INVALID_JSON;
    }
    return 0;
}

static int get_i32(const cJSON *object, const char *key, int32_t least, int32_t *out)
{
    int64_t value;

    if (json_get_i64(object, key, &value) != 0 || value < least || value > INT32_MAX)
        return E_INVALID_JSON;
    *out = (int32_t)value;
    return 0;
}

/* Copies a string; absent is "" where `optional`. */
static int get_string(const cJSON *object, const char *key, bool optional, char *out,
                      size_t size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    out[0] = '\0';
    if (!item && optional)
        return 0;
    if (!item || !cJSON_IsString(item) || strlen(item->valuestring) >= size)
        return E_INVALID_JSON;
    memcpy(out, item->valuestring, strlen(item->valuestring) + 1);
    return 0;
}

/* An array of broker ids without repetition. */
static int decode_ids(const cJSON *array, struct id_list *out)
{
    int count = cJSON_GetArraySize(array);
    const cJSON *item;

    *out = (struct id_list){0};
    if (!cJSON_IsArray(array) || count > LEADERSHIP_REPLICAS_MAX)
        return E_INVALID_JSON;
    if (count == 0)
        return 0;
    out->ids = calloc((size_t)count, sizeof(*out->ids));
    if (!out->ids)
        return -ENOMEM;
    cJSON_ArrayForEach(item, array)
    {
        int64_t id;

        if (json_i64(item, &id) != 0 || id < 0 || id > INT32_MAX ||
            id_list_contains(out, (int32_t)id)) {
            id_list_free(out);
            return E_INVALID_JSON;
        }
        out->ids[out->count++] = (int32_t)id;
    }
    return 0;
}

static int encode_ids(struct buf *out, const struct id_list *list)
{
    buf_adds(out, "[");
    for (uint32_t i = 0; i < list->count; i++)
        buf_printf(out, "%s%" PRId32, i ? "," : "", list->ids[i]);
    return buf_adds(out, "]");
}

int controller_encode(struct buf *out, int32_t broker)
{
    return buf_printf(out, "{\"version\":1,\"brokerid\":%" PRId32 "}", broker);
}

int controller_decode(const char *text, int32_t *broker)
{
    cJSON *object;
    int rc = parse_object(text, &object);

    if (rc == 0)
        rc = get_i32(object, "brokerid", 0, broker);
    cJSON_Delete(object);
    return rc;
}

int controller_epoch_encode(struct buf *out, int32_t epoch)
{
    return buf_printf(out, "%" PRId32, epoch);
}

int controller_epoch_decode(const char *text, int32_t *epoch)
{
    cJSON *item = NULL;
    int64_t value;
    int rc = json_parse(text, strlen(text), &item);

    if (rc != 0)
        return rc == -ENOMEM ? rc : E_INVALID_JSON;
    if (!cJSON_IsNumber(item) || json_i64(item, &value) != 0 || value < 0 ||
        value > INT32_MAX)
        rc = E_INVALID_JSON;
    else
        *epoch = (int32_t)value;
    cJSON_Delete(item);
    return rc;
}

static const char *const started_names[NODE_STARTED_COUNT] = {
    [NODE_STARTED_CLEAN] = "clean",
    [NODE_STARTED_PROCESS_CRASH] = "process_crash",
    [NODE_STARTED_MACHINE_CRASH] = "machine_crash",
};

int registration_encode(struct buf *out, const struct registration *registration,
                        int64_t epoch)
{
    buf_adds(out, "{\"jmx_port\":-1,\"host\":");
    json_quote(out, registration->host, strlen(registration->host));
    buf_printf(out, ",\"version\":1,\"port\":%" PRId32, registration->port);
    if (epoch > 0)
        buf_printf(out, ",\"epoch\":%" PRId64, epoch);
    if (registration->rack[0]) {
        buf_adds(out, ",\"rack\":");
        json_quote(out, registration->rack, strlen(registration->rack));
    }
    buf_adds(out, ",\"instance\":");
    json_quote(out, registration->instance, strlen(registration->instance));
    if (registration->client)
        buf_adds(out, ",\"role\":\"client\"");
    if (registration->started != NODE_STARTED_CLEAN)
        buf_printf(out, ",\"started\":\"%s\"", started_names[registration->started]);
    return buf_adds(out, "}");
}

/* Words of a later version are no reason to take a node for dead. */
static int decode_role(const cJSON *object, struct registration *out)
{
    char word[64];
    int rc = get_string(object, "role", true, word, sizeof(word));

    if (rc != 0)
        return rc;
    out->client = strcmp(word, "client") == 0;
    rc = get_string(object, "started", true, word, sizeof(word));
    for (int i = 0; rc == 0 && i < NODE_STARTED_COUNT; i++)
        if (strcmp(word, started_names[i]) == 0)
            out->started = (enum node_started)i;
    return rc;
}

int registration_decode(const char *text, struct registration *out)
{
    cJSON *object;
    int rc = parse_object(text, &object);

    *out = (struct registration){0};
    if (rc == 0)
        rc = get_string(object, "host", false, out->host, sizeof(out->host));
    if (rc == 0)
        rc = get_i32(object, "port", -1, &out->port);
    if (rc == 0)
        rc = get_string(object, "rack", true, out->rack, sizeof(out->rack));
    if (rc == 0)
        rc = get_string(object, "instance", true, out->instance, sizeof(out->instance));
    if (rc == 0)
        rc = decode_role(object, out);
    if (rc == 0 && out->port > 65535)
        rc = E_INVALID_JSON;
    cJSON_Delete(object);
    return rc;
}

int assignment_encode(struct buf *out, const struct assignment *assignment)
{
    char id[TOPIC_ID_TEXT];

    topic_id_format(&assignment->id, id);
    buf_adds(out, "{\"version\":1,\"partitions\":{");
    for (int32_t p = 0; p < assignment->partition_count; p++) {
        buf_printf(out, "%s\"%" PRId32 "\":", p ? "," : "", p);
        encode_ids(out, &assignment->partitions[p]);
    }
    return buf_printf(out, "},\"id\":\"%s\"}", id);
}

/* The partitions must be "0" to "n-1"; any order. */
static int decode_partitions(const cJSON *partitions, struct assignment *out)
{
    int count = cJSON_GetArraySize(partitions);
    const cJSON *item;

    if (!cJSON_IsObject(partitions) || count < 1 || count > PARTITIONS_MAX)
        return E_INVALID_JSON;
    out->partitions = calloc((size_t)count, sizeof(*out->partitions));
    if (!out->partitions)
        return -ENOMEM;
    out->partition_count = count;
    cJSON_ArrayForEach(item, partitions)
    {
        int64_t p;
        int rc;

        if (number_parse(item->string, count - 1, &p) != 0 ||
            out->partitions[p].count > 0)
            return E_INVALID_JSON;
        rc = decode_ids(item, &out->partitions[p]);
        if (rc == 0 && out->partitions[p].count == 0)
            rc = E_INVALID_JSON;
        if (rc != 0)
            return rc;
    }
    return 0;
}

int assignment_decode(const char *text, struct assignment *out)
{
    char id[TOPIC_ID_TEXT];
    cJSON *object;
    int rc = parse_object(text, &object);

    *out = (struct assignment){0};
    if (rc == 0)
        rc = get_string(object, "id", false, id, sizeof(id));
    if (rc == 0 && topic_id_parse(id, &out->id) != 0)
        rc = E_INVALID_JSON;
    if (rc == 0)
        rc = decode_partitions(cJSON_GetObjectItemCaseSensitive(object, "partitions"),
                               out);
    if (rc != 0)
        assignment_free(out);
    cJSON_Delete(object);
    return rc;
}

static const char *suspect_kind_name(enum suspect_kind kind)
{
    return kind == SUSPECT_CRASHED ? "crashed" : "unusable";
}

static void encode_suspects(struct buf *out, const struct partition_state *state)
{
    for (uint32_t i = 0; i < state->suspect_count; i++) {
        const struct suspect *suspect = &state->suspects[i];

        buf_printf(out,
                   "%s{\"id\":%" PRId32 ",\"kind\":\"%s\",\"last_epoch\":%" PRId32
                   ",\"end_offset\":%" PRId64 "}",
                   i ? "," : ",\"suspects\":[", suspect->id,
                   suspect_kind_name(suspect->kind), suspect->last_epoch,
                   suspect->end_offset);
    }
    if (state->suspect_count > 0)
        buf_adds(out, "]");
}

int partition_state_encode(struct buf *out, const struct partition_state *state)
{
    buf_printf(out,
               "{\"controller_epoch\":%" PRId32 ",\"leader\":%" PRId32
               ",\"version\":1,\"leader_epoch\":%" PRId32 ",\"isr\":",
               state->controller_epoch, state->leader, state->leader_epoch);
    encode_ids(out, &state->isr);
    if (state->elr.count > 0) {
        buf_adds(out, ",\"elr\":");
        encode_ids(out, &state->elr);
    }
    encode_suspects(out, state);
    if (state->lossy_epoch >= 0)
        buf_printf(out, ",\"lossy_epoch\":%" PRId32, state->lossy_epoch);
    if (state->loss.epoch >= 0)
        buf_printf(out,
                   ",\"loss\":{\"epoch\":%" PRId32 ",\"at_ms\":%" PRId64
                   ",\"from\":%" PRId64 ",\"to\":%" PRId64 "}",
                   state->loss.epoch, state->loss.at_ms, state->loss.from,
                   state->loss.to);
    return buf_adds(out, "}");
}

static int decode_suspect(const cJSON *object, struct suspect *out)
{
    char kind[16];
    int rc = cJSON_IsObject(object) ? 0 : E_INVALID_JSON;

    if (rc == 0)
        rc = get_i32(object, "id", 0, &out->id);
    if (rc == 0)
        rc = get_string(object, "kind", false, kind, sizeof(kind));
    if (rc == 0)
        rc = get_i32(object, "last_epoch", -1, &out->last_epoch);
    if (rc == 0 && (json_get_i64(object, "end_offset", &out->end_offset) != 0 ||
                    out->end_offset < 0))
        rc = E_INVALID_JSON;
    if (rc != 0)
        return rc;
    if (strcmp(kind, suspect_kind_name(SUSPECT_CRASHED)) == 0)
        out->kind = SUSPECT_CRASHED;
    else if (strcmp(kind, suspect_kind_name(SUSPECT_UNUSABLE)) == 0)
        out->kind = SUSPECT_UNUSABLE;
    else
        rc = E_INVALID_JSON;
    return rc;
}

static int decode_suspects(const cJSON *array, struct partition_state *out)
{
    int count = cJSON_GetArraySize(array);
    const cJSON *item;
    int rc = 0;

    if (!array)
        return 0;
    if (!cJSON_IsArray(array) || count > LEADERSHIP_REPLICAS_MAX)
        return E_INVALID_JSON;
    out->suspects = calloc((size_t)count + 1, sizeof(*out->suspects));
    if (!out->suspects)
        return -ENOMEM;
    cJSON_ArrayForEach(item, array)
    {
        struct suspect *suspect = &out->suspects[out->suspect_count];

        rc = decode_suspect(item, suspect);
        for (uint32_t i = 0; rc == 0 && i < out->suspect_count; i++)
            if (out->suspects[i].id == suspect->id)
                rc = E_INVALID_JSON;
        if (rc != 0)
            return rc;
        out->suspect_count++;
    }
    return 0;
}

static int decode_loss(const cJSON *object, struct partition_loss *out)
{
    int rc;

    if (!object)
        return 0;
    if (!cJSON_IsObject(object))
        return E_INVALID_JSON;
    rc = get_i32(object, "epoch", 0, &out->epoch);
    if (rc == 0 &&
        (json_get_i64(object, "at_ms", &out->at_ms) != 0 ||
         json_get_i64(object, "from", &out->from) != 0 ||
         json_get_i64(object, "to", &out->to) != 0 || out->from < -1 || out->to < -1))
        rc = E_INVALID_JSON;
    return rc;
}

static int decode_loss_fields(const cJSON *object, struct partition_state *out)
{
    int rc = decode_suspects(cJSON_GetObjectItemCaseSensitive(object, "suspects"), out);

    if (rc == 0 && cJSON_HasObjectItem(object, "lossy_epoch"))
        rc = get_i32(object, "lossy_epoch", 0, &out->lossy_epoch);
    if (rc == 0)
        rc = decode_loss(cJSON_GetObjectItemCaseSensitive(object, "loss"), &out->loss);
    return rc;
}

int partition_state_decode(const char *text, struct partition_state *out)
{
    const cJSON *elr;
    cJSON *object;
    int rc = parse_object(text, &object);

    partition_state_init(out);
    if (rc == 0)
        rc = get_i32(object, "controller_epoch", 0, &out->controller_epoch);
    if (rc == 0)
        rc = get_i32(object, "leader", -1, &out->leader);
    if (rc == 0)
        rc = get_i32(object, "leader_epoch", 0, &out->leader_epoch);
    if (rc == 0)
        rc = decode_ids(cJSON_GetObjectItemCaseSensitive(object, "isr"), &out->isr);
    elr = cJSON_GetObjectItemCaseSensitive(object, "elr");
    if (rc == 0 && elr)
        rc = decode_ids(elr, &out->elr);
    if (rc == 0)
        rc = decode_loss_fields(object, out);
    if (rc == 0 && out->leader >= 0 && !id_list_contains(&out->isr, out->leader))
        rc = E_INVALID_JSON;
    if (rc != 0)
        partition_state_free(out);
    cJSON_Delete(object);
    return rc;
}

int topic_settings_encode(struct buf *out, const struct topic_settings *settings)
{
    char *text =
        settings->overrides ? cJSON_PrintUnformatted(settings->overrides) : NULL;
    int rc;

    if (settings->overrides && !text)
        return -ENOMEM;
    rc = buf_printf(
        out, "{\"version\":1,\"config_version\":%" PRId64 "%s,\"config\":%s}",
        settings->config_version,
        settings->was_compacted ? ",\"was_compacted\":true" : "", text ? text : "{}");
    cJSON_free(text);
    return rc;
}

int topic_settings_decode(const char *text, struct topic_settings *out)
{
    cJSON *object;
    int rc = parse_object(text, &object);

    *out = (struct topic_settings){0};
    if (rc == 0 && (json_get_i64(object, "config_version", &out->config_version) != 0 ||
                    out->config_version < 1))
        rc = E_INVALID_JSON;
    if (rc == 0) {
        out->was_compacted =
            cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "was_compacted"));
        out->overrides = cJSON_DetachItemFromObjectCaseSensitive(object, "config");
        if (!cJSON_IsObject(out->overrides))
            rc = E_INVALID_JSON;
    }
    if (rc != 0)
        topic_settings_free(out);
    cJSON_Delete(object);
    return rc;
}

int attributes_encode(struct buf *out, const struct attributes *attributes)
{
    buf_printf(out, "{\"version\":1,\"uid\":%lu,\"gid\":%lu,\"mode\":\"%04o\"",
               (unsigned long)attributes->uid, (unsigned long)attributes->gid,
               (unsigned)attributes->mode);
    if (attributes->created_ms > 0)
        buf_printf(out, ",\"created_ms\":%" PRId64, attributes->created_ms);
    return buf_adds(out, "}");
}

int attributes_decode(const char *text, struct attributes *out)
{
    int64_t uid, gid;
    char mode[8], *end;
    cJSON *object;
    int rc = parse_object(text, &object);

    *out = (struct attributes){0};
    if (rc == 0 &&
        (json_get_i64(object, "uid", &uid) != 0 || uid < 0 || uid >= UINT32_MAX ||
         json_get_i64(object, "gid", &gid) != 0 || gid < 0 || gid >= UINT32_MAX))
        rc = E_INVALID_JSON;
    if (rc == 0)
        rc = get_string(object, "mode", false, mode, sizeof(mode));
    if (rc == 0) {
        out->uid = (uid_t)uid;
        out->gid = (gid_t)gid;
        out->mode = (mode_t)strtoul(mode, &end, 8);
        if (mode[0] < '0' || mode[0] > '7' || *end != '\0' || out->mode > 07777)
            rc = E_INVALID_JSON;
    }
    if (rc == 0) {
        rc = json_get_i64(object, "created_ms", &out->created_ms);
        rc = rc == -ENOENT ? 0 : rc == 0 && out->created_ms < 0 ? E_INVALID_JSON : rc;
    }
    cJSON_Delete(object);
    return rc;
}

int tombstone_encode(struct buf *out, const char *topic, int64_t deleted_ms)
{
    buf_adds(out, "{\"version\":1,\"topic\":");
    json_quote(out, topic, strlen(topic));
    return buf_printf(out, ",\"deleted_ms\":%" PRId64 "}", deleted_ms);
}

int tombstone_decode(const char *text, int64_t *deleted_ms)
{
    cJSON *object;
    int rc = parse_object(text, &object);

    if (rc == 0 && json_get_i64(object, "deleted_ms", deleted_ms) != 0)
        rc = E_INVALID_JSON;
    cJSON_Delete(object);
    return rc;
}
