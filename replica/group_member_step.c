/* Members, one step at a time. The groups' thread. */
#include "replica/groups_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    RETRY_MS = 200,
    SILENT_MS = 100, /* between looks at a silence; then a part of it, up to */
    SILENT_PARTS = 4,
    SILENT_MAX_MS = 1000,
};

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- what it holds ------------------------------------------------------------------
 */

static void drop_held(struct group_member *member)
{
    for (size_t i = 0; i < member->held_count; i++) {
        held_drop(member->held[i]);
    }
    member->held_count = 0;
}

void group_member_drop_all(struct group_member *member)
{
    drop_held(member);
    member_core_reset(member->core);
}

static bool is_of(const struct held *held, const struct member_part *part)
{
    return held->partition == part->partition && held->generation == part->generation;
}

static bool is_as_granted(const struct group_member *member)
{
    size_t n = 0;
    for (size_t i = 0; i < member_core_count(member->core); i++) {
        const struct member_part *part = member_core_part(member->core, i);
        if (part->stage == MEMBER_RELEASED) {
            continue;
        }
        if (n >= member->held_count || !is_of(member->held[n], part)) {
            return false;
        }
        n++;
    }
    return n == member->held_count;
}

/* The one that is held for this part, taken out of the list; or a new one. */
static struct held *take_held(struct group_member *member,
                              const struct member_part *part)
{
    struct held *held = NULL;
    for (size_t i = 0; i < member->held_count && !held; i++) {
        if (member->held[i] && is_of(member->held[i], part)) {
            held = member->held[i];
            member->held[i] = NULL;
        }
    }
    if (!held && held_new(member, part, &held)) {
        held = NULL;
    }
    return held;
}

/* Holds what the core has, and nothing else. */
static int hold_granted(struct group_member *member)
{
    if (is_as_granted(member)) {
        return 0;
    }
    size_t count = member_core_count(member->core);
    struct held **all = calloc(count ? count : 1, sizeof(struct held *));
    size_t n = 0;
    int rc = all ? 0 : -ENOMEM;
    if (!all) {
        return rc;
    }
    for (size_t i = 0; i < count; i++) {
        const struct member_part *part = member_core_part(member->core, i);
        if (part->stage != MEMBER_RELEASED) {
            all[n] = take_held(member, part);
            rc = all[n] ? rc : -ENOMEM;
            n += all[n] != NULL;
        }
    }
    for (size_t i = 0; i < member->held_count; i++) {
        if (member->held[i]) {
            held_drop(member->held[i]);
        }
    }
    free(member->held);
    member->held = all;
    member->held_count = n;
    member->tell = true;
    return rc;
}

/* ---- one member ---------------------------------------------------------------------
 */

static void look_at_cluster(struct group_member *member)
{
    const struct cluster_snapshot *snapshot =
        group_client_cluster(member->groups->client);
    if (groups_is_interrupted(member->groups)) {
        group_member_fail(member, E_OFFLINE);
    } else if (!cluster_snapshot_topic_by_id(snapshot, &member->params.topic_id)) {
        group_member_fail(member, E_TOPIC_DELETED);
    }
    /* The coordinator takes what a node had in an earlier registration for gone. */
    if (member->phase != MEMBER_OUT && snapshot->self_epoch != member->epoch) {
        group_member_goodbye(member);
        member->rejoin = true;
    }
}

static int64_t step_out(struct group_member *member, int64_t now_ms)
{
    const struct cluster_snapshot *snapshot =
        group_client_cluster(member->groups->client);
    if (!member->rejoin || member->state == GROUP_FAILED || snapshot->self_epoch < 0) {
        return INT64_MAX;
    }
    if (now_ms >= member->retry_ms) {
        group_member_join_now(member);
    }
    return member->retry_ms > now_ms ? member->retry_ms : INT64_MAX;
}

/* Whether a commit can't wait for more to come along. */
static bool is_urgent(const struct group_member *member)
{
    bool urgent = member->syncs != NULL;
    for (size_t i = 0; i < member_core_count(member->core) && !urgent; i++) {
        const struct member_part *part = member_core_part(member->core, i);
        urgent = part->give_up || part->stage == MEMBER_STARTING;
    }
    return urgent;
}

static int64_t step_talk(struct group_member *member, int64_t now_ms)
{
    int64_t due_ms = INT64_MAX;
    if (!member->committing && member_core_is_dirty(member->core)) {
        if (now_ms >= member->commit_ms || is_urgent(member)) {
            group_member_commit_now(member);
        }
        if (!member->committing) {
            due_ms = member->commit_ms;
        }
    }
    if (member_core_has_releases(member->core)) {
        group_client_beat(member->groups->client, &member->beater);
    }
    return due_ms;
}

/* Who got nothing because the node was silent is told when that is over. */
static int64_t step_hushed(struct group_member *member, int64_t now_ms)
{
    if (!member->hushed) {
        return INT64_MAX;
    }
    if (groups_is_silent(member->groups)) {
        int64_t pause_ms = (now_ms - member->hushed_ms) / SILENT_PARTS;
        pause_ms = pause_ms < SILENT_MS ? SILENT_MS : pause_ms;
        return now_ms + earlier(pause_ms, SILENT_MAX_MS);
    }
    member->hushed = false;
    member->tell = true;
    return INT64_MAX;
}

static int64_t step_in(struct group_member *member, int64_t now_ms)
{
    int64_t due_ms = INT64_MAX;
    if (member->state == GROUP_FAILED) {
        drop_held(member);
        return step_talk(member, now_ms);
    }
    if (member_core_poll_expired(member->core, now_ms)) {
        diag(DIAG_WARNING,
             "group %s: %s has not come back for max_poll_interval_ms, and is removed",
             member->params.group, member->id);
        group_member_goodbye(member);
        return INT64_MAX;
    }
    if (hold_granted(member)) {
        due_ms = now_ms + RETRY_MS;
    }
    for (size_t i = 0; i < member->held_count; i++) {
        due_ms = earlier(due_ms, held_step(member->held[i], now_ms));
    }
    due_ms = earlier(due_ms, step_talk(member, now_ms));
    due_ms = earlier(due_ms, step_hushed(member, now_ms));
    return earlier(due_ms, member_core_poll_ms(member->core));
}

/* The member's list is the thread's; it is not looked at any more. */
static void end_member(struct group_member *member)
{
    struct groups *groups = member->groups;
    DL_DELETE(groups->members, member);
    pthread_mutex_lock(&groups->lock);
    member->ended = true;
    if (member->queued) {
        member->queued = false;
        DL_DELETE2(groups->woken, member, prev_woken, next_woken);
    }
    pthread_mutex_unlock(&groups->lock);
    group_member_unref(member);
}

/* When it is due again; it may be gone by then. */
static int64_t step_member(struct group_member *member, int64_t now_ms)
{
    pthread_mutex_lock(&member->lock);
    look_at_cluster(member);
    if (member->left ||
        (member->state == GROUP_FAILED && member->error == E_TOPIC_DELETED &&
         member->phase != MEMBER_OUT)) {
        group_member_goodbye(member);
    }
    bool left = member->left;
    int64_t due_ms = INT64_MAX;
    if (!left && member->phase == MEMBER_OUT) {
        due_ms = step_out(member, now_ms);
    } else if (!left && member->phase == MEMBER_IN) {
        due_ms = step_in(member, now_ms);
    }
    member->due_ms = due_ms;
    bool failed = member->state == GROUP_FAILED;
    int error = failed ? member->error : 0;
    struct group_sync *syncs = group_member_take_syncs(member, failed);
    bool tell = member->tell && !left;
    member->tell = false;
    pthread_mutex_unlock(&member->lock);
    group_member_end_syncs(syncs, error);
    if (tell) {
        group_member_notify(member);
    }
    if (left) {
        end_member(member);
    }
    return due_ms;
}

/* ---- all of them --------------------------------------------------------------------
 */

static void take_new(struct groups *groups)
{
    pthread_mutex_lock(&groups->lock);
    struct group_member *news = groups->new_members;
    groups->new_members = NULL;
    pthread_mutex_unlock(&groups->lock);
    DL_CONCAT(groups->members, news);
}

static struct group_member *next_woken(struct groups *groups)
{
    pthread_mutex_lock(&groups->lock);
    struct group_member *member = groups->woken;
    if (member) {
        member->queued = false;
        DL_DELETE2(groups->woken, member, prev_woken, next_woken);
    }
    pthread_mutex_unlock(&groups->lock);
    return member;
}

/* Did what concerns all members change? */
static bool is_news(struct groups *groups)
{
    const struct cluster_snapshot *snapshot = group_client_cluster(groups->client);
    bool interrupted = groups_is_interrupted(groups);
    bool news = snapshot->revision != groups->seen_revision ||
                snapshot->self_epoch != groups->seen_epoch ||
                interrupted != groups->seen_interrupted;
    groups->seen_revision = snapshot->revision;
    groups->seen_epoch = snapshot->self_epoch;
    groups->seen_interrupted = interrupted;
    return news;
}

int64_t group_members_step(struct groups *groups)
{
    int64_t now_ms = groups_now(groups);
    struct group_member *member;
    struct group_member *next;
    take_new(groups);
    while ((member = next_woken(groups))) {
        /* Woken before it was taken over. */
        take_new(groups);
        groups->members_ms = earlier(groups->members_ms, step_member(member, now_ms));
    }
    bool all = is_news(groups);
    if (all || now_ms >= groups->members_ms) {
        int64_t first = INT64_MAX;
        DL_FOREACH_SAFE(groups->members, member, next)
        {
            if (all || member->due_ms <= now_ms) {
                (void)step_member(member, now_ms);
            }
        }
        DL_FOREACH(groups->members, member)
        {
            first = earlier(first, member->due_ms);
        }
        groups->members_ms = first;
    }
    return groups->members_ms;
}

void group_members_close(struct groups *groups)
{
    take_new(groups);
    while (groups->members) {
        struct group_member *member = groups->members;
        pthread_mutex_lock(&member->lock);
        group_member_fail(member, E_OFFLINE);
        group_member_goodbye(member);
        struct group_sync *syncs = group_member_take_syncs(member, true);
        pthread_mutex_unlock(&member->lock);
        group_member_end_syncs(syncs, E_OFFLINE);
        group_member_notify(member);
        end_member(member);
    }
}
