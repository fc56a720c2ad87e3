#include "tests/unit/support/group_user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { PATIENCE_MS = 10000, LOOK_MS = 20, TAKE_BYTES = 64 * 1024 };

static int64_t real_ms(void)
{
    return clock_mono_ms(&clock_real);
}

static void on_changed(void *arg)
{
    struct group_user *user = arg;
    pthread_mutex_lock(&user->lock);
    user->changes++;
    pthread_cond_broadcast(&user->changed);
    pthread_mutex_unlock(&user->lock);
}

static void wait_on(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_cond_timedwait(cond, lock, &until);
}

/* Until changed() was called since `seen`, or for a moment. */
static unsigned wait_change(struct group_user *user, unsigned seen)
{
    pthread_mutex_lock(&user->lock);
    if (user->changes == seen) {
        wait_on(&user->changed, &user->lock, LOOK_MS);
    }
    seen = user->changes;
    pthread_mutex_unlock(&user->lock);
    return seen;
}

struct group_user *group_user_join(struct groups *groups, const char *group,
                                   const char *topic, const struct topic_id *topic_id)
{
    struct group_user *user = calloc(1, sizeof *user);
    assert_non_null(user);
    user->groups = groups;
    user->take_bytes = TAKE_BYTES;
    pthread_mutex_init(&user->lock, NULL);
    pthread_cond_init(&user->changed, NULL);
    const struct group_member_params params = {.group = group,
                                               .topic = topic,
                                               .topic_id = *topic_id,
                                               .changed = on_changed,
                                               .arg = user};
    assert_int_equal(group_member_join(groups, &params, &user->member), 0);
    return user;
}

void group_user_leave(struct group_user *user)
{
    group_member_leave(user->member);
    pthread_cond_destroy(&user->changed);
    pthread_mutex_destroy(&user->lock);
    free(user);
}

void group_user_until_partitions(struct group_user *user, uint32_t count)
{
    int64_t until_ms = real_ms() + PATIENCE_MS;
    struct group_member_status status;
    unsigned seen = 0;
    do {
        group_member_status(user->member, &status);
        if (status.state == GROUP_JOINED && status.partitions == count) {
            return;
        }
        seen = wait_change(user, seen);
    } while (real_ms() < until_ms);
    fail_msg("%s has %u partitions, not %u", status.id, status.partitions, count);
}

void group_user_until_state(struct group_user *user, enum group_member_state state)
{
    int64_t until_ms = real_ms() + PATIENCE_MS;
    struct group_member_status status;
    unsigned seen = 0;
    do {
        group_member_status(user->member, &status);
        if (status.state == state) {
            return;
        }
        seen = wait_change(user, seen);
    } while (real_ms() < until_ms);
    fail_msg("state %d, not %d", status.state, state);
}

int group_user_try(struct group_user *user, int64_t ms, char **text,
                   struct group_chunk *chunk)
{
    int64_t until_ms = real_ms() + ms;
    struct buf out;
    unsigned seen = 0;
    int rc = 0;
    *text = NULL;
    buf_init(&out, 1 << 24);
    for (;;) {
        group_member_touch(user->member, true);
        rc = group_member_take(user->member, user->take_bytes, false, &out, chunk);
        if (rc != 0 || real_ms() >= until_ms) {
            break;
        }
        seen = wait_change(user, seen);
    }
    if (rc == 1) {
        *text = buf_take(&out, NULL);
    }
    buf_free(&out);
    return rc;
}

void group_user_take(struct group_user *user, char **text, struct group_chunk *chunk)
{
    int rc = group_user_try(user, PATIENCE_MS, text, chunk);
    if (rc != 1) {
        struct group_member_status status;
        group_member_status(user->member, &status);
        fail_msg("nothing taken by %s with %u partitions: %s", status.id,
                 status.partitions, err_text(rc));
    }
}

int group_user_finish(struct group_user *user, const struct group_chunk *chunk)
{
    return group_member_finish(user->member, chunk, chunk->next_offset);
}

struct waiting_sync {
    struct group_sync sync; /* first */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
    int error;
};

static void on_synced(struct group_sync *sync, int error)
{
    struct waiting_sync *waiting = (struct waiting_sync *)sync;
    pthread_mutex_lock(&waiting->lock);
    waiting->done = true;
    waiting->error = error;
    pthread_cond_broadcast(&waiting->ended);
    pthread_mutex_unlock(&waiting->lock);
}

int group_user_sync(struct group_user *user)
{
    struct waiting_sync waiting = {.sync.done = on_synced};
    int64_t until_ms = real_ms() + PATIENCE_MS;
    pthread_mutex_init(&waiting.lock, NULL);
    pthread_cond_init(&waiting.ended, NULL);
    int rc = group_member_sync(user->member, &waiting.sync);
    if (rc == 1) {
        pthread_mutex_lock(&waiting.lock);
        while (!waiting.done && real_ms() < until_ms) {
            wait_on(&waiting.ended, &waiting.lock, LOOK_MS);
        }
        bool done = waiting.done;
        pthread_mutex_unlock(&waiting.lock);
        assert_true(done);
        rc = waiting.error;
    }
    pthread_cond_destroy(&waiting.ended);
    pthread_mutex_destroy(&waiting.lock);
    return rc;
}

/* ---- calls --------------------------------------------------------------------------
 */

static void on_done(struct groups_call *call, int error, const cJSON *answer,
                    const char *why)
{
    struct user_call *mine = (struct user_call *)call;
    pthread_mutex_lock(&mine->lock);
    mine->done = true;
    mine->error = error;
    mine->answer = answer ? cJSON_Duplicate(answer, true) : NULL;
    (void)snprintf(mine->why, sizeof mine->why, "%s", why);
    pthread_cond_broadcast(&mine->ended);
    pthread_mutex_unlock(&mine->lock);
}

void user_call_init(struct user_call *call)
{
    *call = (struct user_call){.call.done = on_done};
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->ended, NULL);
}

int user_call_await(struct user_call *call, cJSON **answer)
{
    int64_t until_ms = real_ms() + PATIENCE_MS + GROUPS_CALL_MS;
    pthread_mutex_lock(&call->lock);
    while (!call->done && real_ms() < until_ms) {
        wait_on(&call->ended, &call->lock, LOOK_MS);
    }
    bool done = call->done;
    pthread_mutex_unlock(&call->lock);
    assert_true(done);
    pthread_cond_destroy(&call->ended);
    pthread_mutex_destroy(&call->lock);
    if (answer) {
        *answer = call->answer;
    } else {
        cJSON_Delete(call->answer);
    }
    return call->error;
}

cJSON *group_user_describe(struct groups *groups, const char *group, bool ends)
{
    struct user_call call;
    cJSON *answer = NULL;
    user_call_init(&call);
    groups_describe(groups, group, ends, &call.call);
    assert_int_equal(user_call_await(&call, &answer), 0);
    assert_non_null(answer);
    return answer;
}

const cJSON *group_user_entry(const cJSON *group, int32_t partition)
{
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(group, "offsets");
    const cJSON *entry = NULL;
    cJSON_ArrayForEach(entry, offsets)
    {
        int64_t index = -1;
        (void)json_get_i64(entry, "partition", &index);
        if (index == partition) {
            return entry;
        }
    }
    return NULL;
}

int64_t group_user_offset(struct groups *groups, const char *group, int32_t partition)
{
    cJSON *answer = group_user_describe(groups, group, false);
    int64_t offset = -1;
    const cJSON *entry = group_user_entry(answer, partition);
    if (entry) {
        assert_int_equal(json_get_i64(entry, "offset", &offset), 0);
    }
    cJSON_Delete(answer);
    return offset;
}
