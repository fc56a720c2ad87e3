/* A member as its user sees it. */
#include "replica/groups_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { TAKE_ATTEMPTS = 8 };

/* ---- life ---------------------------------------------------------------------------
 */

void group_member_ref(struct group_member *member)
{
    member->references++;
}

static void free_member(struct group_member *member)
{
    if (member) {
        member_core_free(member->core);
        free(member->held);
        free(member->commits);
        free((char *)member->params.group);
        free((char *)member->params.topic);
        pthread_cond_destroy(&member->quiet);
        pthread_mutex_destroy(&member->lock);
        pthread_mutex_destroy(&member->take_lock);
        free(member);
    }
}

void group_member_unref(struct group_member *member)
{
    pthread_mutex_lock(&member->lock);
    bool last = --member->references == 0;
    pthread_mutex_unlock(&member->lock);
    if (last) {
        free_member(member);
    }
}

void group_member_wake(struct group_member *member)
{
    struct groups *groups = member->groups;
    pthread_mutex_lock(&groups->lock);
    bool first = groups->woken == NULL;
    if (!member->queued && !member->ended) {
        member->queued = true;
        DL_APPEND2(groups->woken, member, prev_woken, next_woken);
    }
    pthread_mutex_unlock(&groups->lock);
    if (first) {
        group_client_wake(groups->client);
    }
}

int group_member_join(struct groups *groups, const struct group_member_params *params,
                      struct group_member **out)
{
    struct group_member *member = calloc(1, sizeof *member);
    *out = NULL;
    if (!member) {
        return -ENOMEM;
    }
    member->groups = groups;
    member->params = *params;
    member->params.group = strdup(params->group);
    member->params.topic = strdup(params->topic);
    pthread_mutex_init(&member->take_lock, NULL);
    pthread_mutex_init(&member->lock, NULL);
    pthread_cond_init(&member->quiet, NULL);
    member->core = member_core_new();
    member->references = 2;
    member->rejoin = true;
    member->epoch = -1;
    group_member_talk_init(member);
    if (!member->params.group || !member->params.topic || !member->core) {
        free_member(member);
        return -ENOMEM;
    }
    pthread_mutex_lock(&groups->lock);
    bool closed = groups->closed;
    if (!closed) {
        DL_APPEND(groups->new_members, member);
    }
    pthread_mutex_unlock(&groups->lock);
    if (closed) {
        free_member(member);
        return E_OFFLINE;
    }
    group_member_wake(member);
    *out = member;
    return 0;
}

void group_member_leave(struct group_member *member)
{
    pthread_mutex_lock(&member->lock);
    member->left = true;
    while (member->notifying > 0) {
        pthread_cond_wait(&member->quiet, &member->lock);
    }
    struct group_sync *syncs = group_member_take_syncs(member, true);
    pthread_mutex_unlock(&member->lock);
    group_member_end_syncs(syncs, E_OFFLINE);
    group_member_wake(member);
    group_member_unref(member);
}

void group_member_notify(struct group_member *member)
{
    pthread_mutex_lock(&member->lock);
    bool there = !member->left;
    member->notifying += there;
    pthread_mutex_unlock(&member->lock);
    if (!there) {
        return;
    }
    member->params.changed(member->params.arg);
    pthread_mutex_lock(&member->lock);
    if (--member->notifying == 0) {
        pthread_cond_broadcast(&member->quiet);
    }
    pthread_mutex_unlock(&member->lock);
}

void group_member_fail(struct group_member *member, int error)
{
    if (member->state != GROUP_FAILED) {
        member->state = GROUP_FAILED;
        member->error = error;
        member->tell = true;
        group_member_wake(member);
    }
}

void group_member_status(struct group_member *member, struct group_member_status *out)
{
    *out = (struct group_member_status){0};
    pthread_mutex_lock(&member->lock);
    out->state = member->state;
    out->error = member->error;
    memcpy(out->id, member->id, sizeof out->id);
    out->partitions = (uint32_t)member->held_count;
    out->manual = member_core_config(member->core)->commit == GROUP_COMMIT_MANUAL;
    pthread_mutex_unlock(&member->lock);
}

/* [lock] Nothing is handed out by a silent node; the thread looks when that is over. */
static bool is_hushed(struct group_member *member, bool silent)
{
    if (silent && !member->hushed) {
        member->hushed = true;
        member->hushed_ms = groups_now(member->groups);
        group_member_wake(member);
    }
    return silent;
}

/* [lock] Its user is there: whoever was removed joins again. */
static void come_back(struct group_member *member)
{
    if (member->state == GROUP_JOINING && member->id[0] == '\0') {
        member->rejoin = true;
        group_member_wake(member);
    }
}

void group_member_touch(struct group_member *member, bool waiting)
{
    int64_t now_ms = groups_now(member->groups);
    pthread_mutex_lock(&member->lock);
    member_core_touch(member->core, waiting, now_ms);
    come_back(member);
    pthread_mutex_unlock(&member->lock);
}

bool group_member_poll(struct group_member *member)
{
    int64_t now_ms = groups_now(member->groups);
    bool silent = groups_is_silent(member->groups);
    pthread_mutex_lock(&member->lock);
    come_back(member);
    bool due = member_core_poll(member->core, now_ms) && !is_hushed(member, silent);
    due = due || member->state == GROUP_FAILED;
    pthread_mutex_unlock(&member->lock);
    return due;
}

/* ---- taking -------------------------------------------------------------------------
 */

static struct held *held_of(const struct group_member *member,
                            const struct member_part *part)
{
    for (size_t i = 0; i < member->held_count; i++) {
        struct held *held = member->held[i];
        if (held->partition == part->partition &&
            held->generation == part->generation) {
            return held;
        }
    }
    return NULL;
}

/* [lock] The partition whose turn it is, with a reference; NULL: none. */
static struct held *choose(struct group_member *member, int64_t now_ms)
{
    for (size_t tries = member->held_count + 1; tries > 0; tries--) {
        int i = member_core_pick(member->core, now_ms);
        if (i < 0) {
            return NULL;
        }
        struct held *held = held_of(member, member_core_part(member->core, (size_t)i));
        struct partition_status status = {0};
        if (held && held->state == HELD_READY) {
            partition_status_get(held->handle, &status);
            if (status.unclean == held->unclean) {
                held->references++;
                return held;
            }
            held->state = HELD_PLACING;
            group_member_wake(member);
        }
        const struct member_part *part = member_core_part(member->core, (size_t)i);
        member_core_data(member->core, part->partition, part->generation, false,
                         now_ms);
    }
    return NULL;
}

static void cut_back(struct buf *out, size_t before)
{
    if (out->data && out->length > before) {
        out->length = before;
        out->data[before] = '\0';
    }
}

/* [lock] What was read is the user's, if the partition still is. 1, 0, or an error. */
static int hand_out(struct held *held, const struct chunk_place *behind,
                    struct group_chunk *chunk)
{
    struct group_member *member = held->member;
    int64_t now_ms = groups_now(member->groups);
    if (held->gone || chunk->first_offset < held->place.offset ||
        member_core_hand(member->core, held->partition, held->generation,
                         chunk->first_offset, chunk->next_offset, now_ms)) {
        return 0;
    }
    chunk->partition = held->partition;
    chunk->generation = held->generation;
    held->place = *behind;
    /* What it finds wrong, the next take tells. */
    (void)held_await(held, now_ms);
    return 1;
}

/* [lock] After a read that gave nothing. 0: try again; or an error for the user. */
static int look_why(struct held *held, int rc)
{
    int64_t now_ms = groups_now(held->member->groups);
    if (held->gone) {
        return 0;
    }
    if (rc == 0) {
        return held_await(held, now_ms);
    }
    if (rc == E_RANGE_REWRITTEN || rc == E_OFFSET_BELOW_START) {
        return held_place(held, now_ms);
    }
    return rc;
}

/* Takes from one partition. 1; 0 with *again: nothing came of it, try another; 0; or an
 * error. [take_lock] */
static int take_one(struct group_member *member, size_t max_bytes, bool one_batch,
                    struct buf *out, struct group_chunk *chunk, bool *again)
{
    size_t before = out->length;
    bool silent = groups_is_silent(member->groups);
    *again = false;
    pthread_mutex_lock(&member->lock);
    struct held *held = NULL;
    int rc = member->state == GROUP_FAILED ? member->error : 0;
    if (!rc && !is_hushed(member, silent)) {
        held = choose(member, groups_now(member->groups));
    }
    if (!held) {
        pthread_mutex_unlock(&member->lock);
        return rc;
    }
    struct chunk_place place = held->place;
    pthread_mutex_unlock(&member->lock);
    *chunk = (struct group_chunk){0};
    rc = group_chunk_read(held->handle, &place, max_bytes, one_batch, out, chunk);
    silent = groups_is_silent(member->groups);
    pthread_mutex_lock(&member->lock);
    if (!rc && is_hushed(member, silent)) {
        rc = 0;
    } else if (!rc && chunk->count > 0) {
        rc = hand_out(held, &place, chunk);
    } else {
        rc = look_why(held, rc);
    }
    if (rc == E_TOPIC_DELETED) {
        group_member_fail(member, rc);
    }
    *again = rc == 0 && !silent;
    held_put_unlock(held);
    if (rc != 1) {
        cut_back(out, before);
    }
    return rc;
}

int group_member_take(struct group_member *member, size_t max_bytes, bool one_batch,
                      struct buf *out, struct group_chunk *chunk)
{
    bool again = true;
    int rc = 0;
    pthread_mutex_lock(&member->take_lock);
    for (int i = 0; again && i < TAKE_ATTEMPTS; i++) {
        rc = take_one(member, max_bytes, one_batch, out, chunk, &again);
    }
    pthread_mutex_unlock(&member->take_lock);
    if (again) { /* and nothing else may ever change */
        pthread_mutex_lock(&member->lock);
        member->tell = true;
        group_member_wake(member);
        pthread_mutex_unlock(&member->lock);
    }
    return rc;
}

void group_member_take_back(struct group_member *member,
                            const struct group_chunk *chunk)
{
    const struct member_part part = {.partition = chunk->partition,
                                     .generation = chunk->generation};
    int64_t now_ms = groups_now(member->groups);
    int64_t offset = chunk->first_offset;
    pthread_mutex_lock(&member->take_lock);
    pthread_mutex_lock(&member->lock);
    struct held *held = held_of(member, &part);
    if (held && member_core_take_back(member->core, part.partition, part.generation,
                                      &offset, now_ms)) {
        held_go_back(held, offset, now_ms);
    }
    pthread_mutex_unlock(&member->lock);
    pthread_mutex_unlock(&member->take_lock);
}

/* ---- finishing ----------------------------------------------------------------------
 */

int group_member_finish(struct group_member *member, const struct group_chunk *chunk,
                        int64_t next_offset)
{
    int64_t now_ms = groups_now(member->groups);
    pthread_mutex_lock(&member->lock);
    int rc = member_core_finish(member->core, chunk->partition, chunk->generation,
                                next_offset, chunk->leader_epoch, now_ms);
    bool work =
        member_core_is_dirty(member->core) || member_core_has_releases(member->core);
    pthread_mutex_unlock(&member->lock);
    if (work) {
        group_member_wake(member);
    }
    return rc;
}

bool group_member_has(struct group_member *member, const struct group_chunk *chunk)
{
    pthread_mutex_lock(&member->lock);
    const struct member_part *part =
        member_core_find(member->core, chunk->partition, chunk->generation);
    bool has = part && part->stage == MEMBER_OPEN;
    pthread_mutex_unlock(&member->lock);
    return has;
}

int group_member_sync(struct group_member *member, struct group_sync *sync)
{
    int rc = 0;
    pthread_mutex_lock(&member->lock);
    sync->parked = false;
    sync->await = member_core_mark(member->core);
    if (member->state == GROUP_FAILED) {
        rc = member->error;
    } else if (!member_core_synced(member->core, sync->await)) {
        sync->parked = true;
        DL_APPEND(member->syncs, sync);
        rc = 1;
    }
    pthread_mutex_unlock(&member->lock);
    if (rc == 1) {
        group_member_wake(member);
    }
    return rc;
}

bool group_member_sync_cancel(struct group_member *member, struct group_sync *sync)
{
    pthread_mutex_lock(&member->lock);
    bool parked = sync->parked;
    if (parked) {
        DL_DELETE(member->syncs, sync);
        sync->parked = false;
    }
    pthread_mutex_unlock(&member->lock);
    return parked;
}

struct group_sync *group_member_take_syncs(struct group_member *member, bool all)
{
    struct group_sync *taken = NULL;
    struct group_sync *sync;
    struct group_sync *next;
    DL_FOREACH_SAFE(member->syncs, sync, next)
    {
        if (all || member_core_synced(member->core, sync->await)) {
            DL_DELETE(member->syncs, sync);
            sync->parked = false;
            DL_APPEND(taken, sync);
        }
    }
    return taken;
}

void group_member_end_syncs(struct group_sync *syncs, int error)
{
    struct group_sync *sync;
    struct group_sync *next;
    DL_FOREACH_SAFE(syncs, sync, next)
    {
        sync->done(sync, error);
    }
}
