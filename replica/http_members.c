/*
 * Members of groups that speak HTTP. A member lives in the table until it leaves, or is
 * removed after a long silence; its partitions go to others long before, after
 * max_poll_interval_ms (groups.h). One request at a time uses it.
 *
 * Locks: groups->lock guards the table, member->lock what is marked with it. Neither is
 * held when the member's group is called.
 */
#define HASH_NONFATAL_OOM 1
/* Without memory for the hash table the member does not come about. */
#define uthash_nonfatal_oom(member) ((member)->listed = false)

#include "replica/http_groups_internal.h"

#include "replica/message_json.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uthash.h>

enum {
    MEMBERS_MAX = 10000,
    MEMBER_ID_BYTES = 16,
    MEMBER_ID_TEXT = 2 * MEMBER_ID_BYTES + 1,
    IDLE_MAX_MS = 3600 * 1000,
    JOIN_WAIT_MS = 30000,
    POLL_BYTES = 1024 * 1024,
    POLL_BYTES_MAX = 64 * 1024 * 1024,
    POLL_WAIT_MAX_MS = 60000,
    SYNC_WAIT_MS = 30000,
    CHUNK_BYTES = 64 * 1024,
};

/* Of the lines that were handed out and not finished. */
struct handed_out {
    struct group_chunk *chunks;
    size_t count;
    size_t allocated;
};

struct http_member {
    char id[MEMBER_ID_TEXT]; /* [const], as all up to the lock */
    uid_t uid;
    char group[TOPIC_NAME_MAX + 1];
    char topic[TOPIC_NAME_MAX + 1];
    int key_delimiter;
    const struct clock *clock;
    struct group_member *member;
    pthread_mutex_t lock;
    bool busy;                    /* [lock] a request uses it */
    bool left;                    /* [lock] not in the table any more */
    bool listed;                  /* [groups->lock] in the table */
    uint64_t changes;             /* [lock] calls of changed() */
    struct http_request *waiting; /* [lock] for the next change */
    http_request_fn *next;        /* [lock] and what goes on then */
    int64_t used_ms;              /* [lock] monotonic */
    struct handed_out out;        /* of the request that uses it */
    UT_hash_handle hh;            /* [groups->lock] */
};

/* A request that uses a member: its context. */
struct use {
    struct http_member *member;
    struct http_groups *groups;
    struct http_request *request;
    struct group_sync sync;
    int error;             /* of the sync */
    http_request_fn *next; /* after the sync */
    bool expired;          /* [member->lock] the time of a wait is over */
    int64_t deadline_ms;
    size_t max_bytes;
    struct buf raw;
    struct buf text;
};

/* ---- the table ----------------------------------------------------------------------
 */

static void member_free(struct http_member *member)
{
    group_member_leave(member->member);
    (void)pthread_mutex_destroy(&member->lock);
    free(member->out.chunks);
    free(member);
}

/* [groups->lock] Takes it out; true: nobody uses it, and the caller frees it. */
static bool member_take_out(struct http_groups *groups, struct http_member *member)
{
    struct http_request *waiting = NULL;
    http_request_fn *next = NULL;
    bool unused;

    HASH_DEL(groups->members, member);
    (void)pthread_mutex_lock(&member->lock);
    member->left = true;
    unused = !member->busy;
    waiting = member->waiting;
    next = member->next;
    member->waiting = NULL;
    (void)pthread_mutex_unlock(&member->lock);
    if (waiting != NULL)
        http_request_continue(waiting, next);
    return unused;
}

static bool member_is_idle(struct http_member *member, int64_t now_ms)
{
    bool idle;

    (void)pthread_mutex_lock(&member->lock);
    idle = !member->busy && now_ms - member->used_ms > IDLE_MAX_MS;
    (void)pthread_mutex_unlock(&member->lock);
    return idle;
}

/* Takes members out: all, or the silent ones. Each is freed by who uses it last. */
static void members_remove(struct http_groups *groups, bool all)
{
    int64_t now_ms = clock_mono_ms(groups->clock);
    struct http_member *member, *next, *gone = NULL;

    (void)pthread_mutex_lock(&groups->lock);
    HASH_ITER(hh, groups->members, member, next)
    {
        if ((all || member_is_idle(member, now_ms)) &&
            member_take_out(groups, member)) {
            member->hh.next = gone; /* it is in no hash any more */
            gone = member;
        }
    }
    (void)pthread_mutex_unlock(&groups->lock);
    while (gone != NULL) {
        member = gone;
        gone = member->hh.next;
        member_free(member);
    }
}

void http_members_clear(struct http_groups *groups)
{
    members_remove(groups, true);
}

/* ---- using a member -----------------------------------------------------------------
 */

/* The request is through with it. */
static void use_free(void *context)
{
    struct use *use = context;
    struct http_groups *groups = use->groups;
    struct http_member *member = use->member;
    bool last = false;

    if (member != NULL) {
        (void)pthread_mutex_lock(&member->lock);
        member->busy = false;
        member->used_ms = clock_mono_ms(member->clock);
        last = member->left;
        (void)pthread_mutex_unlock(&member->lock);
    }
    if (last)
        member_free(member);
    buf_free(&use->raw);
    buf_free(&use->text);
    free(use);
    http_groups_leave(groups);
}

static struct use *use_new(struct http_request *request)
{
    struct http_groups *groups = http_request_argument(request);
    struct use *use = calloc(1, sizeof *use);

    if (use == NULL) {
        http_reply_error(request, -ENOMEM, NULL);
        return NULL;
    }
    if (!http_groups_enter(groups, request)) {
        free(use);
        return NULL;
    }
    use->groups = groups;
    use->request = request;
    buf_init(&use->raw, SIZE_MAX / 2);
    buf_init(&use->text, SIZE_MAX / 2);
    http_request_set_context(request, use, use_free);
    return use;
}

/* Begins to use the member that the path names: 0; -ENOENT; -EBUSY. */
static int use_take(struct use *use)
{
    const struct http_target *target = http_request_target(use->request);
    const struct http_user *user = http_request_user(use->request);
    struct http_member *member;
    int rc = -ENOENT;

    (void)pthread_mutex_lock(&use->groups->lock);
    HASH_FIND_STR(use->groups->members, target->parts[3], member);
    if (member != NULL && member->uid == http_user_uid(user) &&
        strcmp(member->group, target->parts[1]) == 0) {
        (void)pthread_mutex_lock(&member->lock);
        rc = member->busy ? -EBUSY : 0;
        member->busy = true;
        (void)pthread_mutex_unlock(&member->lock);
    }
    (void)pthread_mutex_unlock(&use->groups->lock);
    if (rc == 0)
        use->member = member;
    return rc;
}

/* The same for a request, with the right to read checked anew. NULL: it is replied to.
 */
static struct use *use_begin(struct http_request *request)
{
    struct use *use = use_new(request);
    int rc;

    if (use == NULL)
        return NULL;
    rc = use_take(use);
    if (rc == 0)
        rc = http_groups_topic(use->groups, http_request_user(request),
                               use->member->topic, NULL, NULL);
    if (rc == 0)
        return use;
    http_reply_error(request, rc,
                     rc == -ENOENT  ? "the group has no such member of yours"
                     : rc == -EBUSY ? "another request uses this member"
                                    : NULL);
    return NULL;
}

static uint64_t member_changes(struct http_member *member)
{
    uint64_t changes;

    (void)pthread_mutex_lock(&member->lock);
    changes = member->changes;
    (void)pthread_mutex_unlock(&member->lock);
    return changes;
}

static void on_changed(void *arg)
{
    struct http_member *member = arg;
    struct http_request *waiting;
    http_request_fn *next;

    (void)pthread_mutex_lock(&member->lock);
    member->changes++;
    waiting = member->waiting;
    next = member->next;
    member->waiting = NULL;
    (void)pthread_mutex_unlock(&member->lock);
    if (waiting != NULL)
        http_request_continue(waiting, next);
}

/* The time of a wait for a change is over. */
static void on_expired(struct http_request *request)
{
    struct use *use = http_request_context(request);
    struct http_member *member = use->member;
    http_request_fn *next = NULL;

    (void)pthread_mutex_lock(&member->lock);
    use->expired = true;
    if (member->waiting == request) {
        member->waiting = NULL;
        next = member->next;
    }
    (void)pthread_mutex_unlock(&member->lock);
    if (next != NULL)
        http_request_continue(request, next);
}

/* Goes on with `next` after a change since `seen`, or when the time is over. false: it
 * is over already. */
static bool use_wait(struct use *use, uint64_t seen, http_request_fn *next)
{
    struct http_member *member = use->member;
    int64_t left_ms = use->deadline_ms - clock_mono_ms(use->groups->clock);
    bool waits;

    if (use->expired || left_ms <= 0)
        return false;
    http_request_wait(use->request, left_ms, on_expired);
    (void)pthread_mutex_lock(&member->lock);
    waits = member->changes == seen && !member->left && !use->expired;
    if (waits) {
        member->next = next;
        member->waiting = use->request;
    }
    (void)pthread_mutex_unlock(&member->lock);
    if (!waits)
        http_request_continue(use->request, next);
    return true;
}

static bool member_has_left(struct http_member *member)
{
    bool left;

    (void)pthread_mutex_lock(&member->lock);
    left = member->left;
    (void)pthread_mutex_unlock(&member->lock);
    return left;
}

/* ---- join ---------------------------------------------------------------------------
 */

static int member_id(char id[MEMBER_ID_TEXT])
{
    unsigned char bytes[MEMBER_ID_BYTES];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return -EIO;
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static int member_new(struct use *use, const char *topic)
{
    const struct http_target *target = http_request_target(use->request);
    const struct http_user *user = http_request_user(use->request);
    struct group_member_params params = {
        .group = target->parts[1], .topic = topic, .changed = on_changed};
    struct http_member *member = calloc(1, sizeof *member);
    int rc = member != NULL ? member_id(member->id) : -ENOMEM;

    if (rc == 0)
        rc = http_groups_topic(use->groups, user, topic, &params.topic_id,
                               &member->key_delimiter);
    if (rc < 0) {
        free(member);
        return rc;
    }
    member->uid = http_user_uid(user);
    member->clock = use->groups->clock;
    member->busy = true;
    (void)snprintf(member->group, sizeof member->group, "%s", target->parts[1]);
    (void)snprintf(member->topic, sizeof member->topic, "%s", topic);
    (void)pthread_mutex_init(&member->lock, NULL);
    params.arg = member;
    rc = group_member_join(use->groups->groups, &params, &member->member);
    if (rc < 0) {
        (void)pthread_mutex_destroy(&member->lock);
        free(member);
        return rc;
    }
    use->member = member;
    return 0;
}

/* A member that is not in the table ends with its request. */
static void member_drop(struct use *use)
{
    (void)pthread_mutex_lock(&use->member->lock);
    use->member->left = true;
    (void)pthread_mutex_unlock(&use->member->lock);
}

static int member_list(struct use *use)
{
    struct http_member *member = use->member;
    int rc = 0;

    (void)pthread_mutex_lock(&use->groups->lock);
    if (use->groups->ended) {
        rc = E_OFFLINE;
    } else if (HASH_COUNT(use->groups->members) >= MEMBERS_MAX) {
        rc = -EBUSY;
    } else {
        member->listed = true;
        HASH_ADD_STR(use->groups->members, id, member);
        rc = member->listed ? 0 : -ENOMEM;
    }
    (void)pthread_mutex_unlock(&use->groups->lock);
    return rc;
}

static void join_go_on(struct http_request *request)
{
    struct use *use = http_request_context(request);
    struct group_member_status status;
    uint64_t seen = member_changes(use->member);
    int rc = E_NO_COORDINATOR;
    cJSON *object;

    group_member_status(use->member->member, &status);
    if (status.state == GROUP_JOINING && use_wait(use, seen, join_go_on))
        return;
    if (status.state == GROUP_FAILED)
        rc = status.error;
    else if (status.state == GROUP_JOINED)
        rc = member_list(use);
    if (rc < 0) {
        member_drop(use);
        http_reply_error(request, rc,
                         rc == -EBUSY ? "too many members use HTTP" : NULL);
        return;
    }
    object = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(object, "member", use->member->id);
    (void)cJSON_AddStringToObject(object, "group", use->member->group);
    (void)cJSON_AddStringToObject(object, "topic", use->member->topic);
    (void)cJSON_AddStringToObject(object, "id", status.id);
    http_reply_json(request, 201, object);
}

void http_members_join(struct http_request *request)
{
    static const char *const names[] = {"topic", NULL};
    const struct http_target *target = http_request_target(request);
    const char *topic = http_target_argument(target, "topic");
    struct use *use;
    int rc;

    if (topic == NULL || http_target_unknown(target, names) != NULL) {
        http_reply_error(request, -EINVAL, "the one argument is topic=<name>");
        return;
    }
    if (topic_name_check(target->parts[1]) < 0) {
        http_reply_error(request, E_INVALID_NAME, "no valid name of a group");
        return;
    }
    use = use_new(request);
    if (use == NULL)
        return;
    members_remove(use->groups, false);
    rc = member_new(use, topic);
    if (rc < 0) {
        http_reply_error(request, rc, NULL);
        return;
    }
    use->deadline_ms = clock_mono_ms(use->groups->clock) + JOIN_WAIT_MS;
    join_go_on(request);
}

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
    struct use *use = (struct use *)((char *)sync - offsetof(struct use, sync));

    use->error = error;
    http_request_continue(use->request, use->next);
}

static void sync_expired(struct http_request *request)
{
    struct use *use = http_request_context(request);

    if (group_member_sync_cancel(use->member->member, &use->sync)) {
        use->error = E_NO_COORDINATOR;
        http_request_continue(request, use->next);
    }
}

/* `next` goes on when it is, with use->error. */
static void use_sync(struct use *use, http_request_fn *next)
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
static int poll_render(struct use *use, const struct group_chunk *chunk)
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
static int poll_take(struct use *use)
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
        if (rc < 0)
            return rc;
        rc = 1;
    }
    return taken > 0 ? 0 : rc;
}

static void poll_go_on(struct http_request *request)
{
    struct use *use = http_request_context(request);
    uint64_t seen = member_changes(use->member);
    int rc;

    if (member_has_left(use->member)) {
        http_reply_error(request, E_GROUP_MEMBER_UNKNOWN, NULL);
        return;
    }
    rc = poll_take(use);
    if (rc == 0 && use->text.length == 0 && use_wait(use, seen, poll_go_on))
        return;
    group_member_touch(use->member->member, false);
    if (rc < 0)
        http_reply_error(request, rc, NULL);
    else
        http_reply_text(request, 200, "application/x-ndjson", &use->text);
}

static void poll_synced(struct http_request *request)
{
    struct use *use = http_request_context(request);

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
    struct use *use;

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
    use = use_begin(request);
    if (use == NULL)
        return;
    use->max_bytes = (size_t)max_bytes;
    use->deadline_ms = clock_mono_ms(use->groups->clock) + wait_ms;
    group_member_touch(use->member->member, true);
    out_finish(use->member);
    use_sync(use, poll_synced);
}

/* ---- commit, leave ------------------------------------------------------------------
 */

static void commit_synced(struct http_request *request)
{
    const struct use *use = http_request_context(request);

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
    struct use *use = use_begin(request);
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

void http_members_leave(struct http_request *request)
{
    const struct http_target *target = http_request_target(request);
    const struct http_user *user = http_request_user(request);
    struct http_groups *groups = http_request_argument(request);
    struct http_member *member;
    bool unused = false, found = false;

    if (!http_groups_enter(groups, request))
        return;
    (void)pthread_mutex_lock(&groups->lock);
    HASH_FIND_STR(groups->members, target->parts[3], member);
    if (member != NULL && member->uid == http_user_uid(user) &&
        strcmp(member->group, target->parts[1]) == 0) {
        found = true;
        unused = member_take_out(groups, member);
    }
    (void)pthread_mutex_unlock(&groups->lock);
    if (unused)
        member_free(member);
    http_groups_leave(groups);
    if (found)
        http_reply_json(request, 200, cJSON_CreateObject());
    else
        http_reply_error(request, -ENOENT, "the group has no such member of yours");
}
