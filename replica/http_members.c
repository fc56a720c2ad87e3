/*
 * Members of groups that speak HTTP. A member lives in the table until it leaves, or is
 * removed after a long silence; its partitions go to others long before, after
 * max_poll_interval_ms (groups.h). One request at a time uses it.
 */
#define HASH_NONFATAL_OOM 1
/* Without memory for the hash table the member does not come about. */
#define uthash_nonfatal_oom(member) ((member)->listed = false)

#include "replica/http_members_internal.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    MEMBERS_MAX = 10000,
    MEMBER_ID_BYTES = 16,
    IDLE_MAX_MS = 3600 * 1000,
    JOIN_WAIT_MS = 30000,
};

_Static_assert((int)HTTP_MEMBER_ID_TEXT == 2 * (int)MEMBER_ID_BYTES + 1, "hex");

/* ---- the table ----------------------------------------------------------------------
 */

static void member_free(struct http_member *member)
{
    group_member_leave(member->member);
    (void)pthread_mutex_destroy(&member->lock);
    free(member->out.chunks);
    free(member);
}

/* [groups->lock] The member that the path names, if it is the user's; or NULL. */
static struct http_member *member_find(struct http_groups *groups,
                                       struct http_request *request)
{
    const struct http_target *target = http_request_target(request);
    struct http_member *member;

    HASH_FIND_STR(groups->members, target->parts[3], member);
    return member != NULL && member->uid == http_user_uid(http_request_user(request)) &&
                   strcmp(member->group, target->parts[1]) == 0
               ? member
               : NULL;
}

/* [member->lock] Whoever waits for a change, or NULL, does not any more; *next is what
 * goes on then. */
static struct http_request *member_take_waiting(struct http_member *member,
                                                http_request_fn **next)
{
    struct http_request *waiting = member->waiting;

    *next = member->next;
    member->waiting = NULL;
    return waiting;
}

/* [groups->lock] Takes it out; true: nobody uses it, and the caller frees it. */
static bool member_take_out(struct http_groups *groups, struct http_member *member)
{
    struct http_request *waiting;
    http_request_fn *next;
    bool unused;

    HASH_DEL(groups->members, member);
    (void)pthread_mutex_lock(&member->lock);
    member->left = true;
    unused = !member->busy;
    waiting = member_take_waiting(member, &next);
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
    struct http_use *use = context;
    struct http_groups *groups = use->groups;
    struct http_member *member = use->member;
    bool last = false;

    if (use->gives && !http_request_was_delivered(use->request))
        http_use_take_back(use);
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

static struct http_use *use_new(struct http_request *request)
{
    struct http_use *use = http_groups_enter_with(request, sizeof *use);

    if (use == NULL)
        return NULL;
    use->groups = http_request_argument(request);
    use->request = request;
    buf_init(&use->raw, SIZE_MAX / 2);
    buf_init(&use->text, SIZE_MAX / 2);
    http_request_set_context(request, use, use_free);
    return use;
}

/* Begins to use the member that the path names: 0; -ENOENT; -EBUSY. */
static int use_take(struct http_use *use)
{
    struct http_member *member;
    int rc = -ENOENT;

    (void)pthread_mutex_lock(&use->groups->lock);
    member = member_find(use->groups, use->request);
    if (member != NULL) {
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

struct http_use *http_use_begin(struct http_request *request)
{
    struct http_use *use = use_new(request);
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

bool http_use_look(struct http_use *use, uint64_t *changes)
{
    struct http_member *member = use->member;
    bool there;

    (void)pthread_mutex_lock(&member->lock);
    *changes = member->changes;
    there = !member->left;
    (void)pthread_mutex_unlock(&member->lock);
    return there;
}

static void on_changed(void *arg)
{
    struct http_member *member = arg;
    struct http_request *waiting;
    http_request_fn *next;

    (void)pthread_mutex_lock(&member->lock);
    member->changes++;
    waiting = member_take_waiting(member, &next);
    (void)pthread_mutex_unlock(&member->lock);
    if (waiting != NULL)
        http_request_continue(waiting, next);
}

/* The time of a wait for a change is over. */
static void on_expired(struct http_request *request)
{
    struct http_use *use = http_request_context(request);
    struct http_member *member = use->member;
    http_request_fn *next = NULL;

    (void)pthread_mutex_lock(&member->lock);
    use->expired = true;
    if (member->waiting == request)
        (void)member_take_waiting(member, &next);
    (void)pthread_mutex_unlock(&member->lock);
    if (next != NULL)
        http_request_continue(request, next);
}

bool http_use_wait(struct http_use *use, uint64_t seen, http_request_fn *next)
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

/* ---- join ---------------------------------------------------------------------------
 */

static int member_id(char id[HTTP_MEMBER_ID_TEXT])
{
    unsigned char bytes[MEMBER_ID_BYTES];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return -EIO;
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static int member_new(struct http_use *use, const char *topic)
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
static void member_drop(struct http_use *use)
{
    (void)pthread_mutex_lock(&use->member->lock);
    use->member->left = true;
    (void)pthread_mutex_unlock(&use->member->lock);
}

static int member_list(struct http_use *use)
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
    struct http_use *use = http_request_context(request);
    struct group_member_status status;
    int rc = E_NO_COORDINATOR;
    uint64_t seen;
    cJSON *object;

    (void)http_use_look(use, &seen); /* nobody knows it yet who could make it leave */
    group_member_status(use->member->member, &status);
    if (status.state == GROUP_JOINING && http_use_wait(use, seen, join_go_on))
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
    struct http_use *use;
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

/* ---- leave --------------------------------------------------------------------------
 */

void http_members_leave(struct http_request *request)
{
    struct http_groups *groups = http_request_argument(request);
    struct http_member *member;
    bool unused = false, found;

    if (!http_groups_enter(groups, request))
        return;
    (void)pthread_mutex_lock(&groups->lock);
    member = member_find(groups, request);
    found = member != NULL;
    if (found)
        unused = member_take_out(groups, member);
    (void)pthread_mutex_unlock(&groups->lock);
    if (unused)
        member_free(member);
    http_groups_leave(groups);
    if (found)
        http_reply_json(request, 200, cJSON_CreateObject());
    else
        http_reply_error(request, -ENOENT, "the group has no such member of yours");
}
