#include "replica/group_record.h"

#include <stdlib.h>
#include <string.h>

bool group_record_member_valid(const char *id)
{
    size_t length = strnlen(id, GROUP_MEMBER_ID_MAX + 1);

    return length >= 1 && length <= GROUP_MEMBER_ID_MAX &&
           strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789._-:") == length;
}

/* ---- keys ---------------------------------------------------------------------------
 */

static int record_parse_partition(const char *text, size_t length, int32_t *out)
{
    int32_t value = 0;

    if (length == 0 || length > 6 || (length > 1 && text[0] == '0'))
        return -EBADMSG;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EBADMSG;
        value = value * 10 + (text[i] - '0');
    }
    if (value >= GROUP_RECORD_PARTITIONS_MAX)
        return -EBADMSG;
    *out = value;
    return 0;
}

/* "<32 hex>/<p>" */
static int record_parse_place(const char *text, size_t length,
                              struct group_record_key *out)
{
    enum { HEX = TOPIC_ID_TEXT - 1 };
    char id[TOPIC_ID_TEXT];

    if (length < HEX + 2 || text[HEX] != '/' || memchr(text, '\0', HEX))
        return -EBADMSG;
    memcpy(id, text, HEX);
    id[HEX] = '\0';
    if (topic_id_parse(id, &out->topic_id))
        return -EBADMSG;
    return record_parse_partition(text + HEX + 1, length - HEX - 1, &out->partition);
}

int group_record_split(const char *line, size_t length, struct group_record_key *out)
{
    const char *tab = memchr(line, '\t', length);
    const char *slash;
    size_t name;

    *out = (struct group_record_key){0};
    if (!tab)
        return -EBADMSG;
    slash = memchr(line, '/', (size_t)(tab - line));
    name = (size_t)((slash ? slash : tab) - line);
    if (name > GROUP_NAME_MAX || memchr(line, '\0', name))
        return -EBADMSG;
    memcpy(out->group, line, name);
    if (topic_name_check(out->group))
        return -EBADMSG;
    out->value = tab + 1;
    out->value_length = length - (size_t)(tab + 1 - line);
    out->gone = out->value_length == 0;
    out->offset = slash != NULL;
    return slash ? record_parse_place(slash + 1, (size_t)(tab - slash - 1), out) : 0;
}

/* ---- decoding -----------------------------------------------------------------------
 */

static int record_parse(const struct group_record_key *key, cJSON **out)
{
    int rc =
        json_parse_long(key->value, key->value_length, GROUP_RECORD_BYTES_MAX, out);

    if (rc == -ENOMEM)
        return rc;
    if (rc)
        return -EBADMSG;
    return cJSON_IsObject(*out) ? 0 : -EBADMSG;
}

static int record_text(const cJSON *object, const char *name, char *out, size_t size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    size_t length;

    if (!cJSON_IsString(item))
        return -EBADMSG;
    length = strlen(item->valuestring);
    if (length >= size)
        return -EBADMSG;
    memcpy(out, item->valuestring, length + 1);
    return 0;
}

static int record_number(const cJSON *object, const char *name, int64_t low,
                         int64_t high, int64_t *out)
{
    int64_t value;

    if (json_get_i64(object, name, &value) || value < low || value > high)
        return -EBADMSG;
    *out = value;
    return 0;
}

/* The topic's name and id, which members and topics have alike. */
static int record_topic(const cJSON *object, char name[TOPIC_NAME_MAX + 1],
                        struct topic_id *id)
{
    char text[TOPIC_ID_TEXT];

    if (record_text(object, "topic", name, TOPIC_NAME_MAX + 1) ||
        topic_name_check(name) || record_text(object, "topic_id", text, sizeof text) ||
        topic_id_parse(text, id))
        return -EBADMSG;
    return 0;
}

static int record_run(const cJSON *item, struct group_record_run *out)
{
    int64_t values[3];

    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 3)
        return -EBADMSG;
    for (int i = 0; i < 3; i++)
        if (json_i64(cJSON_GetArrayItem(item, i), &values[i]))
            return -EBADMSG;
    if (values[0] < 0 || values[1] < 1 || values[0] > GROUP_RECORD_PARTITIONS_MAX ||
        values[1] > GROUP_RECORD_PARTITIONS_MAX - values[0] || values[2] < 0)
        return -EBADMSG;
    *out = (struct group_record_run){(int32_t)values[0], (int32_t)values[1], values[2]};
    return 0;
}

static int record_member(const cJSON *item, struct group_record_member *out)
{
    const cJSON *has = cJSON_GetObjectItemCaseSensitive(item, "has");
    int64_t node;

    if (record_text(item, "id", out->id, sizeof out->id) ||
        !group_record_member_valid(out->id) ||
        record_number(item, "node", 0, INT32_MAX, &node) ||
        record_number(item, "epoch", 0, INT64_MAX, &out->node.epoch) ||
        record_topic(item, out->topic, &out->topic_id) ||
        record_number(item, "joined", INT64_MIN, INT64_MAX, &out->joined_ms) ||
        !cJSON_IsArray(has))
        return -EBADMSG;
    out->node.id = (int32_t)node;
    out->runs = calloc((size_t)cJSON_GetArraySize(has) + 1, sizeof *out->runs);
    if (!out->runs)
        return -ENOMEM;
    cJSON_ArrayForEach(item, has)
    {
        if (record_run(item, &out->runs[out->run_count]))
            return -EBADMSG;
        out->run_count++;
    }
    return 0;
}

static int record_members(const cJSON *array, struct group_record *out)
{
    const cJSON *item;
    int rc = 0;

    if (!cJSON_IsArray(array))
        return -EBADMSG;
    out->members = calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *out->members);
    if (!out->members)
        return -ENOMEM;
    cJSON_ArrayForEach(item, array)
    {
        struct group_record_member *member = &out->members[out->member_count++];

        rc = record_member(item, member);
        if (rc)
            return rc;
        if (out->member_count > 1 && strcmp(member[-1].id, member->id) >= 0)
            return -EBADMSG;
    }
    return 0;
}

static int record_topics(const cJSON *array, struct group_record *out)
{
    const cJSON *item;

    if (!cJSON_IsArray(array))
        return -EBADMSG;
    out->topics = calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *out->topics);
    if (!out->topics)
        return -ENOMEM;
    cJSON_ArrayForEach(item, array)
    {
        struct group_record_topic *topic = &out->topics[out->topic_count++];
        int64_t partitions;

        topic->left_ms = -1;
        if (record_topic(item, topic->name, &topic->id) ||
            record_number(item, "partitions", 0, GROUP_RECORD_PARTITIONS_MAX,
                          &partitions) ||
            (cJSON_HasObjectItem(item, "left") &&
             record_number(item, "left", 0, INT64_MAX, &topic->left_ms)))
            return -EBADMSG;
        topic->partitions = (int32_t)partitions;
    }
    return 0;
}

/* Every member's topic is there, and what it has is within. */
static int record_check_topics(const struct group_record *record)
{
    for (size_t i = 0; i < record->member_count; i++) {
        const struct group_record_member *member = &record->members[i];
        const struct group_record_topic *topic = NULL;

        for (size_t t = 0; t < record->topic_count && !topic; t++)
            if (topic_id_equal(&record->topics[t].id, &member->topic_id))
                topic = &record->topics[t];
        if (!topic)
            return -EBADMSG;
        for (size_t r = 0; r < member->run_count; r++)
            if (member->runs[r].first + member->runs[r].count > topic->partitions)
                return -EBADMSG;
    }
    return 0;
}

/* ---- no partition twice -------------------------------------------------------------
 */

struct record_claim {
    const struct topic_id *topic_id;
    const struct group_record_run *run;
};

static int record_compare_claims(const void *a, const void *b)
{
    const struct record_claim *x = a, *y = b;
    int order = memcmp(x->topic_id->bytes, y->topic_id->bytes, TOPIC_ID_BYTES);

    if (order)
        return order;
    return (x->run->first > y->run->first) - (x->run->first < y->run->first);
}

static int record_check_claims(const struct group_record *record)
{
    struct record_claim *claims;
    size_t count = 0, at = 0;
    int rc = 0;

    for (size_t i = 0; i < record->member_count; i++)
        count += record->members[i].run_count;
    claims = calloc(count + 1, sizeof *claims);
    if (!claims)
        return -ENOMEM;
    for (size_t i = 0; i < record->member_count; i++)
        for (size_t r = 0; r < record->members[i].run_count; r++)
            claims[at++] = (struct record_claim){&record->members[i].topic_id,
                                                 &record->members[i].runs[r]};
    qsort(claims, count, sizeof *claims, record_compare_claims);
    for (size_t i = 1; i < count; i++)
        if (topic_id_equal(claims[i - 1].topic_id, claims[i].topic_id) &&
            claims[i - 1].run->first + claims[i - 1].run->count > claims[i].run->first)
            rc = -EBADMSG;
    free(claims);
    return rc;
}

/* ---- whole records ------------------------------------------------------------------
 */

static int record_config(const cJSON *object, const struct group_config *defaults,
                         struct group_record *out)
{
    int rc;

    out->config = *defaults;
    rc = settings_apply_json(&out->config, SETTING_GROUP, defaults,
                             cJSON_GetObjectItemCaseSensitive(object, "config"), 0,
                             false, NULL, 0);
    return rc == 0 || rc == -ENOMEM ? rc : -EBADMSG;
}

int group_record_decode(const struct group_record_key *key,
                        const struct group_config *defaults, struct group_record *out)
{
    cJSON *object = NULL;
    int rc;

    *out = (struct group_record){0};
    rc = record_parse(key, &object);
    if (rc == 0)
        rc = record_number(object, "generation", 0, INT64_MAX, &out->generation);
    if (rc == 0)
        rc = record_number(object, "version", 0, INT64_MAX, &out->version);
    if (rc == 0)
        rc = record_config(object, defaults, out);
    if (rc == 0)
        rc = record_members(cJSON_GetObjectItemCaseSensitive(object, "members"), out);
    if (rc == 0)
        rc = record_topics(cJSON_GetObjectItemCaseSensitive(object, "topics"), out);
    if (rc == 0)
        rc = record_check_topics(out);
    if (rc == 0)
        rc = record_check_claims(out);
    if (rc)
        group_record_free(out);
    cJSON_Delete(object);
    return rc;
}

void group_record_free(struct group_record *record)
{
    for (size_t i = 0; i < record->member_count; i++)
        free(record->members[i].runs);
    free(record->members);
    free(record->topics);
    *record = (struct group_record){0};
}

int group_record_decode_offset(const struct group_record_key *key,
                               struct group_record_offset *out)
{
    cJSON *object = NULL;
    int64_t epoch = -1;
    int rc;

    *out = (struct group_record_offset){0};
    rc = record_parse(key, &object);
    if (rc == 0)
        rc = record_text(object, "topic", out->topic, sizeof out->topic);
    if (rc == 0 && topic_name_check(out->topic))
        rc = -EBADMSG;
    if (rc == 0)
        rc = record_number(object, "offset", 0, INT64_MAX, &out->offset);
    if (rc == 0)
        rc = record_number(object, "leader_epoch", -1, INT32_MAX, &epoch);
    if (rc == 0)
        rc = record_number(object, "timestamp", INT64_MIN, INT64_MAX,
                           &out->timestamp_ms);
    out->leader_epoch = (int32_t)epoch;
    cJSON_Delete(object);
    return rc;
}

/* ---- encoding: names, ids and settings need no escapes
 * -------------------------------
 */

static void record_add_topic(struct buf *out, const char *name,
                             const struct topic_id *id)
{
    char text[TOPIC_ID_TEXT];

    topic_id_format(id, text);
    buf_printf(out, "\"topic\":\"%s\",\"topic_id\":\"%s\"", name, text);
}

static void record_add_member(struct buf *out, const struct group_record_member *member)
{
    buf_printf(out, "{\"id\":\"%s\",\"node\":%d,\"epoch\":%lld,", member->id,
               member->node.id, (long long)member->node.epoch);
    record_add_topic(out, member->topic, &member->topic_id);
    buf_printf(out, ",\"joined\":%lld,\"has\":[", (long long)member->joined_ms);
    for (size_t i = 0; i < member->run_count; i++)
        buf_printf(out, "%s[%d,%d,%lld]", i ? "," : "", member->runs[i].first,
                   member->runs[i].count, (long long)member->runs[i].generation);
    buf_adds(out, "]}");
}

static int record_add_config(struct buf *out, const struct group_config *config)
{
    cJSON *object = settings_to_json(config, SETTING_GROUP, 0);
    char *text;

    cJSON_DeleteItemFromObjectCaseSensitive(object, "version");
    text = object ? cJSON_PrintUnformatted(object) : NULL;
    cJSON_Delete(object);
    if (!text)
        return -ENOMEM;
    buf_adds(out, text);
    cJSON_free(text);
    return 0;
}

int group_record_encode(const char *group, const struct group_record *record,
                        struct buf *out)
{
    buf_printf(out, "%s\t{\"generation\":%lld,\"version\":%lld,\"config\":", group,
               (long long)record->generation, (long long)record->version);
    if (record_add_config(out, &record->config))
        return -ENOMEM;
    buf_adds(out, ",\"members\":[");
    for (size_t i = 0; i < record->member_count; i++) {
        buf_adds(out, i ? "," : "");
        record_add_member(out, &record->members[i]);
    }
    buf_adds(out, "],\"topics\":[");
    for (size_t i = 0; i < record->topic_count; i++) {
        const struct group_record_topic *topic = &record->topics[i];

        buf_adds(out, i ? ",{" : "{");
        record_add_topic(out, topic->name, &topic->id);
        buf_printf(out, ",\"partitions\":%d", topic->partitions);
        if (topic->left_ms >= 0)
            buf_printf(out, ",\"left\":%lld", (long long)topic->left_ms);
        buf_adds(out, "}");
    }
    return buf_adds(out, "]}\n");
}

static void record_add_place(struct buf *out, const char *group,
                             const struct topic_id *topic_id, int32_t partition)
{
    char text[TOPIC_ID_TEXT];

    topic_id_format(topic_id, text);
    buf_printf(out, "%s/%s/%d\t", group, text, partition);
}

int group_record_encode_offset(const char *group, const struct topic_id *topic_id,
                               int32_t partition,
                               const struct group_record_offset *offset,
                               struct buf *out)
{
    record_add_place(out, group, topic_id, partition);
    return buf_printf(out,
                      "{\"topic\":\"%s\",\"offset\":%lld,\"leader_epoch\":%d,"
                      "\"timestamp\":%lld}\n",
                      offset->topic, (long long)offset->offset, offset->leader_epoch,
                      (long long)offset->timestamp_ms);
}

int group_record_encode_gone(const char *group, struct buf *out)
{
    return buf_printf(out, "%s\t\n", group);
}

int group_record_encode_offset_gone(const char *group, const struct topic_id *topic_id,
                                    int32_t partition, struct buf *out)
{
    record_add_place(out, group, topic_id, partition);
    return buf_adds(out, "\n");
}
