#include "coord/etcd_json.h"

#include "coord/base64.h"
#include "coord/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void add_base64(struct buf *body, const char *name, const void *bytes,
                       size_t length)
{
    buf_printf(body, "\"%s\":\"", name);
    (void)base64_encode(body, bytes, length);
    buf_adds(body, "\"");
}

static void add_text(struct buf *body, const char *name, const char *text)
{
    add_base64(body, name, text, strlen(text));
}

/* The first key behind all that begin with `prefix`. */
static void add_range_end(struct buf *body, const char *prefix)
{
    struct buf end;
    size_t length = strlen(prefix);

    buf_init(&end, length + 1);
    while (length > 0 && (unsigned char)prefix[length - 1] == 0xFF)
        length--;
    buf_add(&end, length > 0 ? prefix : "", length > 0 ? length : 1);
    if (buf_error(&end) == 0) {
        if (length > 0)
            end.data[length - 1]++;
        buf_adds(body, ",");
        add_base64(body, "range_end", end.data, end.length);
    } else {
        buf_add(body, NULL, SIZE_MAX / 4); /* fails the body, too */
    }
    buf_free(&end);
}

static void add_prefix(struct buf *body, const char *prefix)
{
    size_t length = strlen(prefix);

    add_base64(body, "key", length > 0 ? prefix : "", length > 0 ? length : 1);
    add_range_end(body, prefix);
}

void etcd_json_range(struct buf *body, const char *key, const struct etcd_range *range)
{
    buf_adds(body, "{");
    if (range->prefix)
        add_prefix(body, key);
    else
        add_text(body, "key", key);
    if (range->keys_only)
        buf_adds(body, ",\"keys_only\":true");
    if (range->limit > 0)
        buf_printf(body, ",\"limit\":\"%" PRId64 "\"", range->limit);
    if (range->revision > 0)
        buf_printf(body, ",\"revision\":\"%" PRId64 "\"", range->revision);
    if (range->min_mod_revision > 0)
        buf_printf(body, ",\"min_mod_revision\":\"%" PRId64 "\"",
                   range->min_mod_revision);
    buf_adds(body, "}");
}

static void add_compare(struct buf *body, const struct store_compare *compare)
{
    bool create = compare->target == STORE_CREATE_REVISION;

    buf_adds(body, "{");
    add_text(body, "key", compare->key);
    buf_printf(body, ",\"result\":\"EQUAL\",\"target\":\"%s\",\"%s\":\"%" PRId64 "\"}",
               create ? "CREATE" : "MOD", create ? "create_revision" : "mod_revision",
               compare->revision);
}

static void add_op(struct buf *body, const struct store_op *op, int64_t lease)
{
    if (op->verb == STORE_PUT) {
        buf_adds(body, "{\"request_put\":{");
        add_text(body, "key", op->key);
        buf_adds(body, ",");
        add_text(body, "value", op->value);
        if (op->leased)
            buf_printf(body, ",\"lease\":\"%" PRId64 "\"", lease);
    } else {
        buf_adds(body, "{\"request_delete_range\":{");
        if (op->verb == STORE_DELETE_PREFIX)
            add_prefix(body, op->key);
        else
            add_text(body, "key", op->key);
    }
    buf_adds(body, "}}");
}

void etcd_json_txn(struct buf *body, const struct store_txn *txn, int64_t lease)
{
    buf_adds(body, "{\"compare\":[");
    for (size_t i = 0; i < txn->compare_count; i++) {
        buf_adds(body, i > 0 ? "," : "");
        add_compare(body, &txn->compares[i]);
    }
    buf_adds(body, "],\"success\":[");
    for (size_t i = 0; i < txn->op_count; i++) {
        buf_adds(body, i > 0 ? "," : "");
        add_op(body, &txn->ops[i], lease);
    }
    buf_adds(body, "]}");
}

void etcd_json_grant(struct buf *body, int64_t lease, int64_t ttl_s)
{
    buf_printf(body, "{\"TTL\":\"%" PRId64 "\",\"ID\":\"%" PRId64 "\"}", ttl_s, lease);
}

void etcd_json_lease(struct buf *body, int64_t lease)
{
    buf_printf(body, "{\"ID\":\"%" PRId64 "\"}", lease);
}

void etcd_json_authenticate(struct buf *body, const char *user, const char *password)
{
    buf_adds(body, "{\"name\":");
    json_quote(body, user, strlen(user));
    buf_adds(body, ",\"password\":");
    json_quote(body, password, strlen(password));
    buf_adds(body, "}");
}

void etcd_json_watch(struct buf *body, const char *prefix, int64_t start_revision)
{
    buf_adds(body, "{\"create_request\":{");
    add_prefix(body, prefix);
    buf_printf(body, ",\"start_revision\":\"%" PRId64 "\",\"fragment\":true}}",
               start_revision);
}

/* An absent number is 0. 0 or -EBADMSG. */
static int get_number(const cJSON *object, const char *name, int64_t *out)
{
    int rc = json_get_i64(object, name, out);

    if (rc == -ENOENT)
        *out = 0;
    else if (rc != 0 || *out < 0)
        return -EBADMSG;
    return 0;
}

/* An absent flag is false. 0 or -EBADMSG. */
static int get_flag(const cJSON *object, const char *name, bool *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    *out = cJSON_IsTrue(item);
    return !item || cJSON_IsBool(item) ? 0 : -EBADMSG;
}

/* An absent list or object is NULL. 0 or -EBADMSG. */
static int get_array(const cJSON *object, const char *name, const cJSON **out)
{
    *out = cJSON_GetObjectItemCaseSensitive(object, name);
    return !*out || cJSON_IsArray(*out) ? 0 : -EBADMSG;
}

static int get_object(const cJSON *object, const char *name, const cJSON **out)
{
    *out = cJSON_GetObjectItemCaseSensitive(object, name);
    return !*out || cJSON_IsObject(*out) ? 0 : -EBADMSG;
}

/* Absent bytes are none. */
static int get_bytes(const cJSON *object, const char *name, char **out, size_t *length)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    if (item && !cJSON_IsString(item))
        return -EBADMSG;
    return base64_decode(item ? item->valuestring : "", out, length);
}

static int parse_object(const char *bytes, size_t length, cJSON **out)
{
    *out = cJSON_ParseWithLength(bytes, length);
    if (cJSON_IsObject(*out))
        return 0;
    cJSON_Delete(*out);
    *out = NULL;
    return -EBADMSG;
}

/* Every reply has a header, and the store's revision in it is never 0. */
static int get_header_revision(const cJSON *object, int64_t *out)
{
    const cJSON *header;

    if (get_object(object, "header", &header) != 0 ||
        get_number(header, "revision", out) != 0 || *out == 0)
        return -EBADMSG;
    return 0;
}

static void kv_free(struct store_kv *kv)
{
    free(kv->key);
    free(kv->value);
    *kv = (struct store_kv){0};
}

/* 1 and *out; 0: a key that is not ours; or an error. */
static int get_kv(const cJSON *item, bool deleted, struct store_kv *out)
{
    size_t key_length;

    *out = (struct store_kv){0};
    int rc = cJSON_IsObject(item) ? get_bytes(item, "key", &out->key, &key_length)
                                  : -EBADMSG;
    if (rc == 0 && key_length == 0)
        rc = -EBADMSG;
    if (rc == 0)
        rc = get_number(item, "create_revision", &out->create_revision);
    if (rc == 0)
        rc = get_number(item, "mod_revision", &out->mod_revision);
    if (rc == 0 && (out->mod_revision == 0 || (!deleted && out->create_revision == 0) ||
                    out->create_revision > out->mod_revision))
        rc = -EBADMSG;
    if (rc == 0 && !deleted)
        rc = get_bytes(item, "value", &out->value, &out->value_length);
    if (rc == 0)
        rc = memchr(out->key, '\0', key_length) ? 0 : 1;
    if (rc != 1)
        kv_free(out);
    return rc;
}

static int fill_list(const cJSON *root, struct store_list *out)
{
    const cJSON *kvs, *item;
    int rc = get_header_revision(root, &out->revision);

    if (rc != 0 || (rc = get_array(root, "kvs", &kvs)) != 0 || !kvs)
        return rc;
    int count = cJSON_GetArraySize(kvs);
    out->items = calloc((size_t)count + 1, sizeof(*out->items));
    if (!out->items)
        return -ENOMEM;
    cJSON_ArrayForEach(item, kvs)
    {
        struct store_kv *kv = &out->items[out->count];
        rc = get_kv(item, false, kv);
        if (rc < 0)
            return rc;
        if (rc == 0)
            continue;
        out->count++;
        if (kv->mod_revision > out->revision ||
            (out->count > 1 && strcmp(kv[-1].key, kv->key) >= 0))
            return -EBADMSG;
    }
    return 0;
}

int etcd_json_list(const char *bytes, size_t length, struct store_list *out)
{
    cJSON *root;
    int rc = parse_object(bytes, length, &root);

    *out = (struct store_list){0};
    if (rc == 0)
        rc = fill_list(root, out);
    if (rc != 0)
        store_list_free(out);
    cJSON_Delete(root);
    return rc;
}

/* Whether one of the operations' answers tells of a change. */
static int find_change(const cJSON *responses, bool *changed)
{
    const cJSON *item, *deletion;

    *changed = false;
    cJSON_ArrayForEach(item, responses)
    {
        int64_t deleted = 0;
        if (get_object(item, "response_delete_range", &deletion) != 0 ||
            get_number(deletion, "deleted", &deleted) != 0)
            return -EBADMSG;
        if (deleted > 0 || cJSON_GetObjectItemCaseSensitive(item, "response_put"))
            *changed = true;
    }
    return 0;
}

int etcd_json_txn_reply(const char *bytes, size_t length, struct etcd_txn_reply *out)
{
    const cJSON *responses;
    cJSON *root;
    int rc = parse_object(bytes, length, &root);

    *out = (struct etcd_txn_reply){0};
    if (rc == 0)
        rc = get_header_revision(root, &out->revision);
    if (rc == 0)
        rc = get_flag(root, "succeeded", &out->succeeded);
    if (rc == 0)
        rc = get_array(root, "responses", &responses);
    if (rc == 0)
        rc = find_change(responses, &out->changed);
    cJSON_Delete(root);
    return rc;
}

int etcd_json_lease_reply(const char *bytes, size_t length,
                          struct etcd_lease_reply *out)
{
    const cJSON *result;
    cJSON *root;
    int rc = parse_object(bytes, length, &root);

    *out = (struct etcd_lease_reply){0};
    if (rc == 0)
        rc = get_object(root, "result", &result);
    if (rc == 0 && !result)
        result = root; /* a grant; a keepalive's comes as a stream of one */
    if (rc == 0)
        rc = get_header_revision(result, &out->revision);
    if (rc == 0)
        rc = get_number(result, "TTL", &out->ttl_s);
    if (rc == 0 && out->ttl_s > INT32_MAX)
        rc = -EBADMSG;
    cJSON_Delete(root);
    return rc;
}

int etcd_json_token(const char *bytes, size_t length, char **token)
{
    cJSON *root;
    int rc = parse_object(bytes, length, &root);

    *token = NULL;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "token");
    if (rc == 0 && (!cJSON_IsString(item) || item->valuestring[0] == '\0'))
        rc = -EBADMSG;
    /* It becomes a line of a request's head. */
    for (const char *at = rc == 0 ? item->valuestring : ""; *at; at++) {
        if (*at <= ' ' || *at > '~')
            rc = -EBADMSG;
    }
    if (rc == 0 && !(*token = strdup(item->valuestring)))
        rc = -ENOMEM;
    cJSON_Delete(root);
    return rc;
}

/* One line without control characters. */
static void copy_text(char *to, size_t size, const char *text, size_t length)
{
    size_t at = 0;

    for (size_t i = 0; i < length && at + 1 < size; i++)
        to[at++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : ' ';
    while (at > 0 && to[at - 1] == ' ')
        at--;
    to[at] = '\0';
}

/* `code` in a unary call's failure, `grpc_code` in a stream's. */
static void fill_failure(const cJSON *error, struct etcd_failure *out)
{
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(error, "message");
    int64_t code;

    if (!cJSON_IsString(text))
        text = cJSON_GetObjectItemCaseSensitive(error, "error");
    if (cJSON_IsString(text))
        copy_text(out->text, sizeof(out->text), text->valuestring,
                  strlen(text->valuestring));
    if ((json_get_i64(error, "code", &code) == 0 ||
         json_get_i64(error, "grpc_code", &code) == 0) &&
        code >= 0 && code < 1000)
        out->code = (int)code;
}

void etcd_json_failure(const char *bytes, size_t length, struct etcd_failure *out)
{
    cJSON *root;

    *out = (struct etcd_failure){.code = -1};
    if (parse_object(bytes, length, &root) != 0) {
        copy_text(out->text, sizeof(out->text), bytes, length);
        return;
    }
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(root, "error");
    fill_failure(cJSON_IsObject(error) ? error : root, out);
    cJSON_Delete(root);
}

static int fill_event(const cJSON *event, struct store_kv *out)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(event, "type");
    bool deleted = cJSON_IsString(type) && strcmp(type->valuestring, "DELETE") == 0;

    *out = (struct store_kv){0};
    if (!cJSON_IsObject(event) || (type && !cJSON_IsString(type)) ||
        (type && !deleted && strcmp(type->valuestring, "PUT") != 0))
        return -EBADMSG;
    return get_kv(cJSON_GetObjectItemCaseSensitive(event, "kv"), deleted, out);
}

static int fill_events(const cJSON *result, struct etcd_watch_reply *out)
{
    const cJSON *events, *event;
    int rc = get_array(result, "events", &events);

    if (rc != 0 || !events)
        return rc;
    out->events = calloc((size_t)cJSON_GetArraySize(events) + 1, sizeof(*out->events));
    if (!out->events)
        return -ENOMEM;
    cJSON_ArrayForEach(event, events)
    {
        rc = fill_event(event, &out->events[out->event_count]);
        if (rc < 0)
            return rc;
        out->event_count += (size_t)rc;
    }
    return 0;
}

static int fill_watch(const cJSON *root, struct etcd_watch_reply *out)
{
    const cJSON *result, *error, *header, *reason;

    if (get_object(root, "error", &error) != 0 ||
        get_object(root, "result", &result) != 0 || (!result && !error))
        return -EBADMSG;
    if (error) {
        out->failed = true;
        fill_failure(error, &out->failure);
        return 0;
    }
    /* That of a cancellation holds no revision. */
    if (get_object(result, "header", &header) != 0 || !header ||
        get_number(header, "revision", &out->revision) != 0 ||
        get_flag(result, "created", &out->created) != 0 ||
        get_flag(result, "canceled", &out->canceled) != 0 ||
        get_flag(result, "fragment", &out->fragment) != 0 ||
        get_number(result, "compact_revision", &out->compact_revision) != 0)
        return -EBADMSG;
    reason = cJSON_GetObjectItemCaseSensitive(result, "cancel_reason");
    if (cJSON_IsString(reason))
        copy_text(out->failure.text, sizeof(out->failure.text), reason->valuestring,
                  strlen(reason->valuestring));
    return fill_events(result, out);
}

int etcd_json_watch_reply(const char *bytes, size_t length,
                          struct etcd_watch_reply *out)
{
    cJSON *root;
    int rc = parse_object(bytes, length, &root);

    *out = (struct etcd_watch_reply){.failure.code = -1};
    if (rc == 0)
        rc = fill_watch(root, out);
    if (rc != 0)
        etcd_json_watch_free(out);
    cJSON_Delete(root);
    return rc;
}

void etcd_json_watch_free(struct etcd_watch_reply *reply)
{
    for (size_t i = 0; i < reply->event_count; i++)
        kv_free(&reply->events[i]);
    free(reply->events);
    *reply = (struct etcd_watch_reply){0};
}
