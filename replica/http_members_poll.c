/* Polls and commits of members that speak HTTP. */
#include "replica/http_members_internal.h"

#include "replica/message_json.h"

#include <stdlib.h>
#include <string.h>

enum {
    POLL_BYTES = 1024 * 1024,
    POLL_BYTES_MAX = 64 * 1024 * 1024,
    POLL_WAIT_MAX_MS = 60000,
    SYNC_WAIT_MS = 30000,
    CHUNK_BYTES = 64 * 1024,
};

/* ---- what was handed out ------------------------------------------------------------
 */

static int out_add(struct handed_out *out, const struct group_chunk *chunk)
{
    if (out->count == out->allocated) {
        size_t size = out->allocated > 0 ? out->allocated * 2 : 8;
        struct group_chunk *chunks = realloc(out->chunks, size * sizeof *chunks);

        if (chunks == NULL)
            return -ENOMEM;
        out->chunks = chunks;
        out->allocated = size;
    }
    out->chunks[out->count++] = *chunk;
    return 0;
}

/* Everything. What was lost to another member is no matter: it is that one's. */
static void out_finish(struct http_member *member)
{
    for (size_t i = 0; i < member->out.count; i++)
        (void)group_member_finish(member->member, &member->out.chunks[i],
                                  member->out.chunks[i].next_offset);
    member->out.count = 0;
}

void http_use_take_back(struct http_use *use)
{
    struct http_member *member = use->member;

    for (size_t i = 0; i < member->out.count; i++)
        group_member_take_back(member->member, &member->out.chunks[i]);
    member->out.count = 0;
}

/* Up to `offset` of one partition. 0; -EINVAL: that was not handed out, or is finished;
 * E_GROUP_FENCED. */
static int out_finish_to(struct http_member *member, int32_t partition, int64_t offset)
{
    for (size_t i = 0; i < member->out.count; i++) {
        const struct group_chunk *chunk = &member->out.chunks[i];

        if (chunk->partition == partition && offset > chunk->first_offset &&
            offset <= chunk->next_offset)
            return group_member_finish(member->member, chunk, offset);
    }
    return -EINVAL;
}

/* ---- waiting until it is committed --------------------------------------------------
 */

static void on_synced(struct group_sync *sync, int error)
{
    struct http_use *use =
        (struct http_use *)((char *)sync - offsetof(struct http_use, sync));

    use->error = error;
    http_request_continue(use->request, use->next);
}

static void sync_expired(struct http_request *request)
{
    struct http_use *use = http_request_context(request);

    if (group_member_sync_cancel(use->member->member, &use->sync)) {
        use->error = E_NO_COORDINATOR;
        http_request_continue(request, use->next);
    }
}

/* `next` goes on when it is, with use->error. */
static void use_sync(struct http_use *use, http_request_fn *next)
{
    int rc;

    use->next = next;
    use->sync = (struct group_sync){.done = on_synced};
    http_request_wait(use->request, SYNC_WAIT_MS, sync_expired);
    rc = group_member_sync(use->member->member, &use->sync);
    if (rc != 1) {
        use->error = rc;
        http_request_continue(use->request, next);
    }
}

/* ---- poll ---------------------------------------------------------------------------
 */

/* Renders the chunk in `raw`. */
static int poll_render(struct http_use *use, const struct group_chunk *chunk)
{
    const char *at = use->raw.data;
    const char *end = at + use->raw.length;
    int64_t offset = chunk->first_offset;
    int rc = 0;

    while (rc == 0 && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));

        if (newline == NULL)
            return -EIO;
        rc = message_json_add(&use->text, chunk->partition, offset++,
                              chunk->timestamp_ms, at, (size_t)(newline - at),
                              use->member->key_delimiter);
        at = newline + 1;
    }
    return rc;
}

/* 0, also with nothing; or an error, with nothing. */
static int poll_take(struct http_use *use)
{
    size_t taken = 0;
    int rc = 1;

    while (rc == 1 && taken < use->max_bytes) {
        struct group_chunk chunk;
        size_t left = use->max_bytes - taken;

        buf_clear(&use->raw);
        rc = group_member_take(use->member->member,
                               left < CHUNK_BYTES ? left : CHUNK_BYTES, true, &use->raw,
                               &chunk);
        if (rc != 1)
            break;
        taken += use->raw.length;
        rc = poll_render(use, &chunk);
        if (rc == 0)
            rc = out_add(&use->member->out, &chunk);
        if (rc < 0) {
            group_member_take_back(use->member->member, &chunk);
            http_use_take_back(use);
            return rc;
        }
        rc = 1;
    }
    return taken > 0 ? 0 : rc;
}

static void poll_go_on(struct http_request *request)
{
    struct http_use *use = http_request_context(request);
    uint64_t seen;
    int rc;

    if (!http_use_look(use, &seen)) {
        http_reply_error(request, E_GROUP_MEMBER_UNKNOWN, NULL);
        return;
    }
    /* Nobody would see what it takes, but the next poll would say that it is done. */
    rc = http_request_is_gone(request) ? E_OFFLINE : poll_take(use);
    if (rc == 0 && use->text.length == 0 && http_use_wait(use, seen, poll_go_on))
        return;
    group_member_touch(use->member->member, false);
    if (rc < 0)
        http_reply_error(request, rc, NULL);
    else
        http_reply_text(request, 200, "application/x-ndjson", &use->text);
    use->gives = rc == 0;
}

static void poll_synced(struct http_request *request)
{
    struct http_use *use = http_request_context(request);

    if (use->error < 0) {
        group_member_touch(use->member->member, false);
        http_reply_error(request, use->error, NULL);
        return;
    }
    poll_go_on(request);
}

void http_members_poll(struct http_request *request)
{
    static const char *const names[] = {"max_bytes", "wait_ms", NULL};
    const struct http_target *target = http_request_target(request);
    int64_t max_bytes = POLL_BYTES, wait_ms = 0;
    const char *why = NULL;
    struct http_use *use;

    if (http_target_unknown(target, names) != NULL)
        why = "the arguments are max_bytes and wait_ms";
    else if (http_target_i64(target, "max_bytes", 1, POLL_BYTES_MAX, &max_bytes) < 0)
        why = "max_bytes is a number from 1 to 67108864";
    else if (http_target_i64(target, "wait_ms", 0, POLL_WAIT_MAX_MS, &wait_ms) < 0)
        why = "wait_ms is a number from 0 to 60000";
    if (why != NULL) {
        http_reply_error(request, -EINVAL, why);
        return;
    }
    use = http_use_begin(request);
    if (use == NULL)
        return;
    use->max_bytes = (size_t)max_bytes;
    use->deadline_ms = clock_mono_ms(use->groups->clock) + wait_ms;
    group_member_touch(use->member->member, true);
    out_finish(use->member);
    use_sync(use, poll_synced);
}

/* ---- commit -------------------------------------------------------------------------
 */

static void commit_synced(struct http_request *request)
{
    const struct http_use *use = http_request_context(request);

    if (use->error < 0)
        http_reply_error(request, use->error, NULL);
    else
        http_reply_json(request, 200, cJSON_CreateObject());
}

static int commit_one(struct http_member *member, const cJSON *item)
{
    int64_t partition, offset;

    if (http_number(item->string, 0, INT32_MAX, &partition) < 0 ||
        json_i64(item, &offset) < 0)
        return -EINVAL;
    return out_finish_to(member, (int32_t)partition, offset);
}

void http_members_commit(struct http_request *request)
{
    const struct buf *body = http_request_body(request);
    struct http_use *use = http_use_begin(request);
    struct group_member_status status;
    cJSON *object = NULL;
    const cJSON *item;
    int rc;

    if (use == NULL)
        return;
    rc = json_parse(body->data != NULL ? body->data : "", body->length, &object);
    if (rc < 0 || !cJSON_IsObject(object)) {
        cJSON_Delete(object);
        http_reply_error(request, E_INVALID_JSON,
                         "the body is {\"<partition>\":<next offset>, ...}");
        return;
    }
    group_member_touch(use->member->member, false);
    group_member_status(use->member->member, &status);
    if (status.manual)
        rc = -EPERM;
    for (item = object->child; rc == 0 && item != NULL; item = item->next)
        rc = commit_one(use->member, item);
    cJSON_Delete(object);
    if (rc < 0)
        http_reply_error(
            request, rc,
            rc == -EINVAL  ? "of that partition this was not handed out, or "
                             "is committed already"
            : rc == -EPERM ? "the group's commit is manual: POST to its offsets/"
                           : NULL);
    else
        use_sync(use, commit_synced);
}
