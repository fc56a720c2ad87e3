#include "coord/deposals.h"

#include "coord/err.h"
#include "coord/json.h"
#include "coord/mutation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void free_items(struct deposals *deposals)
{
    for (uint32_t i = 0; i < deposals->count; i++)
        free(deposals->items[i].moved);
    free(deposals->items);
    free(deposals);
}

const struct deposals *deposals_ref(const struct deposals *deposals)
{
    if (deposals)
        atomic_fetch_add(&((struct deposals *)deposals)->references, 1);
    return deposals;
}

void deposals_unref(const struct deposals *deposals)
{
    struct deposals *mine = (struct deposals *)deposals;

    if (mine && atomic_fetch_sub(&mine->references, 1) == 1)
        free_items(mine);
}

/* ---- decoding ---- */

static uint32_t count_moved(const cJSON *topics)
{
    const cJSON *topic;
    uint32_t count = 0;

    cJSON_ArrayForEach(topic, topics)
    {
        int size = cJSON_GetArraySize(topic);

        count += size > 1 ? (uint32_t)size - 1 : 0;
    }
    return count;
}

/* ["<topic id>",0,3] */
static int decode_topic(const cJSON *list, struct deposal *out)
{
    const cJSON *head = cJSON_IsArray(list) ? list->child : NULL;
    struct topic_id id;
    const char *text = cJSON_GetStringValue(head);
    int64_t number;

    if (text == NULL || head == NULL || topic_id_parse(text, &id) != 0)
        return E_INVALID_JSON;
    for (const cJSON *item = head->next; item; item = item->next) {
        if (json_i64(item, &number) != 0 || number < 0 || number > INT32_MAX)
            return E_INVALID_JSON;
        out->moved[out->moved_count++] = (struct moved_partition){id, (int32_t)number};
    }
    return 0;
}

static int decode_deposal(const cJSON *object, struct deposal *out)
{
    const cJSON *topics = cJSON_GetObjectItemCaseSensitive(object, "moved");
    const cJSON *topic;
    int64_t broker;
    int rc = 0;

    if (json_get_i64(object, "brokerid", &broker) != 0 || broker < 0 ||
        broker > INT32_MAX || json_get_i64(object, "epoch", &out->broker_epoch) != 0 ||
        !cJSON_IsArray(topics))
        return E_INVALID_JSON;
    out->broker = (int32_t)broker;
    out->moved = calloc((size_t)count_moved(topics) + 1, sizeof(*out->moved));
    if (!out->moved)
        return -ENOMEM;
    cJSON_ArrayForEach(topic, topics)
    {
        if (rc == 0)
            rc = decode_topic(topic, out);
    }
    return rc;
}

static int64_t seen_ms(const struct deposals *before, const struct deposal *deposal,
                       int64_t now_ms)
{
    for (uint32_t i = 0; before && i < before->count; i++)
        if (before->items[i].broker == deposal->broker &&
            before->items[i].broker_epoch == deposal->broker_epoch)
            return before->items[i].seen_ms;
    return now_ms;
}

static int decode_all(const cJSON *list, const struct deposals *before, int64_t now_ms,
                      struct deposals *out)
{
    const cJSON *object;
    int rc = 0;

    if (!cJSON_IsArray(list))
        return E_INVALID_JSON;
    out->items = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*out->items));
    if (!out->items)
        return -ENOMEM;
    cJSON_ArrayForEach(object, list)
    {
        struct deposal *deposal = &out->items[out->count];

        if (rc != 0)
            break;
        out->count++;
        rc = decode_deposal(object, deposal);
        deposal->seen_ms = seen_ms(before, deposal, now_ms);
    }
    return rc;
}

int deposals_decode(const char *text, const struct deposals *before, int64_t now_ms,
                    struct deposals **out)
{
    struct deposals *deposals = calloc(1, sizeof(*deposals));
    cJSON *object = NULL;
    int64_t version;
    int rc = deposals ? json_parse(text, strlen(text), &object) : -ENOMEM;

    *out = NULL;
    if (rc != 0) {
        free(deposals);
        return rc == -ENOMEM ? rc : E_INVALID_JSON;
    }
    atomic_init(&deposals->references, 1);
    if (json_get_i64(object, "version", &version) != 0 || version != 1)
        rc = E_INVALID_JSON;
    if (rc == 0)
        rc = decode_all(cJSON_GetObjectItemCaseSensitive(object, "deposed"), before,
                        now_ms, deposals);
    cJSON_Delete(object);
    if (rc != 0)
        free_items(deposals);
    else
        *out = deposals;
    return rc;
}

/* ---- encoding ---- */

static bool counts(const struct deposal *deposal, int64_t now_ms)
{
    return now_ms - deposal->seen_ms < DEPOSAL_REST_MS && !MUTATION(MUTATE_NO_REST);
}

/* Partitions of one topic stand together, as whoever lists them goes by topics. */
static void encode_deposal(struct buf *out, const struct deposal *deposal)
{
    const struct topic_id *topic = NULL;
    char id[TOPIC_ID_TEXT];

    buf_printf(out, "{\"brokerid\":%" PRId32 ",\"epoch\":%" PRId64 ",\"moved\":[",
               deposal->broker, deposal->broker_epoch);
    for (uint32_t i = 0; i < deposal->moved_count; i++) {
        const struct moved_partition *moved = &deposal->moved[i];

        if (!topic || !topic_id_equal(topic, &moved->topic)) {
            topic_id_format(&moved->topic, id);
            buf_printf(out, "%s[\"%s\"", topic ? "]," : "", id);
            topic = &moved->topic;
        }
        buf_printf(out, ",%" PRId32, moved->partition);
    }
    buf_adds(out, topic ? "]]}" : "]}");
}

int deposals_encode(struct buf *out, const struct deposals *deposals, int64_t now_ms,
                    const struct deposal *next)
{
    buf_adds(out, "{\"version\":1,\"deposed\":[");
    for (uint32_t i = 0; deposals && i < deposals->count; i++) {
        if (!counts(&deposals->items[i], now_ms))
            continue;
        encode_deposal(out, &deposals->items[i]);
        buf_adds(out, ",");
    }
    encode_deposal(out, next);
    return buf_adds(out, "]}");
}

/* ---- decisions ---- */

bool deposals_rests(const struct deposals *deposals, int32_t broker, int64_t now_ms)
{
    for (uint32_t i = 0; deposals && i < deposals->count; i++)
        if (deposals->items[i].broker == broker && counts(&deposals->items[i], now_ms))
            return true;
    return false;
}

static bool lists(const struct deposal *deposal, const struct topic_id *topic,
                  int32_t partition)
{
    for (uint32_t i = 0; i < deposal->moved_count; i++)
        if (deposal->moved[i].partition == partition &&
            topic_id_equal(&deposal->moved[i].topic, topic))
            return true;
    return false;
}

bool deposals_moved(const struct deposals *deposals, const struct topic_id *topic,
                    int32_t partition, int64_t now_ms)
{
    for (uint32_t i = 0; deposals && i < deposals->count; i++)
        if (counts(&deposals->items[i], now_ms) &&
            lists(&deposals->items[i], topic, partition))
            return true;
    return false;
}

bool deposal_moves(int32_t broker, int32_t leader, bool leader_alive,
                   const int32_t *replicas, uint32_t replica_count)
{
    return leader == broker ||
           (!leader_alive && replica_ids_list(replicas, replica_count, broker));
}
