/* A granted partition, from the grant to where its messages can be read, and on. */
#include "replica/groups_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    RETRY_MS = 50,
    LOOK_MS = 1000,    /* at what no callback tells of */
    ASK_MS = 200,      /* between two questions about an offset beyond the log */
    BEYOND_MS = 10000, /* so long a new leader may not know all that is committed */
    PLACE_ATTEMPTS = 4,
};

static void on_opened(struct open_waiter *waiter);
static void on_data(struct read_waiter *waiter);
static void on_found(struct group_search *search, const struct group_found *found);

/* ---- life ---------------------------------------------------------------------------
 */

int held_new(struct group_member *member, const struct member_part *part,
             struct held **out)
{
    struct held *held = calloc(1, sizeof *held);
    if (!held) {
        return -ENOMEM;
    }
    held->member = member;
    group_member_ref(member);
    held->references = 1;
    held->partition = part->partition;
    held->generation = part->generation;
    held->opener.opened = on_opened;
    held->reader.ready = on_data;
    held->search.done = on_found;
    held->place.offset = part->committed;
    *out = held;
    return 0;
}

static void stop_waiting(struct held *held)
{
    if (held->opening &&
        broker_await_cancel(held->member->groups->params.broker, &held->opener)) {
        held->opening = false;
        held->references--;
    }
    if (held->reading && partition_wait_cancel(held->handle, &held->reader)) {
        held->reading = false;
        held->references--;
    }
}

void held_drop(struct held *held)
{
    held->gone = true;
    if (held->searching) {
        group_locator_cancel(held->member->groups->locator, &held->search);
        held->searching = false;
    }
    stop_waiting(held);
    held->references--;
    if (held->references == 0) {
        /* The caller has a reference of its own on the member. */
        partition_let_go(held->handle);
        partition_unref(held->handle);
        held->member->references--;
        free(held);
    }
}

void held_put_unlock(struct held *held)
{
    struct group_member *member = held->member;
    bool last = --held->references == 0;
    pthread_mutex_unlock(&member->lock);
    if (last) {
        partition_let_go(held->handle);
        partition_unref(held->handle);
        free(held);
        group_member_unref(member);
    }
}

/* ---- opening ------------------------------------------------------------------------
 */

static void on_opened(struct open_waiter *waiter)
{
    struct held *held = (struct held *)((char *)waiter - offsetof(struct held, opener));
    struct group_member *member = held->member;
    pthread_mutex_lock(&member->lock);
    held->opening = false;
    held->retry_ms = 0;
    if (!held->gone) {
        group_member_wake(member);
    }
    held_put_unlock(held);
}

static void await_opening(struct held *held, int64_t now_ms)
{
    struct group_member *member = held->member;
    held->opening = true;
    held->references++;
    if (broker_await_partition(member->groups->params.broker, &member->params.topic_id,
                               held->partition, &held->opener)) {
        held->opening = false;
        held->references--;
        held->retry_ms = now_ms + RETRY_MS;
    }
}

static void find_handle(struct held *held, int64_t now_ms)
{
    struct group_member *member = held->member;
    struct partition *handle = broker_partition(
        member->groups->params.broker, &member->params.topic_id, held->partition);
    if (!handle || !partition_observe(handle)) {
        partition_unref(handle);
        await_opening(held, now_ms);
        return;
    }
    partition_hold(handle);
    held->handle = handle;
    held->state = held->place.offset >= 0 ? HELD_PLACING : HELD_LOCATING;
}

/* ---- asking the leader --------------------------------------------------------------
 */

static void search(struct held *held, enum groups_place_kind kind, int64_t value)
{
    struct group_member *member = held->member;
    held->search.place = (struct group_place){.topic_id = member->params.topic_id,
                                              .partition = held->partition,
                                              .kind = kind,
                                              .value = value};
    held->search.deadline_ms = INT64_MAX;
    held->searching = true;
    group_locator_find(member->groups->locator, &held->search);
}

/* What it was to begin with, or to go on at, is to be found from `offset` on. */
static void go_on_at(struct held *held, int64_t offset, int32_t epoch, int64_t now_ms)
{
    struct member_core *core = held->member->core;
    held->place.offset = offset;
    held->state = HELD_PLACING;
    held->checked = false;
    held->beyond_ms = 0;
    held->retry_ms = 0;
    /* Whichever it is: the other does nothing then. */
    member_core_begin(core, held->partition, held->generation, offset, epoch, now_ms);
    member_core_move(core, held->partition, held->generation, offset, epoch, now_ms);
}

void held_go_back(struct held *held, int64_t offset, int64_t now_ms)
{
    held->place.offset = offset;
    held->state = HELD_PLACING;
    held->checked = false;
    held->beyond_ms = 0;
    held->retry_ms = 0;
    member_core_data(held->member->core, held->partition, held->generation, false,
                     now_ms);
    group_member_wake(held->member);
}

static void pass_over(struct held *held, int64_t start, int64_t now_ms)
{
    char what[256];
    (void)snprintf(what, sizeof what,
                   "offsets %" PRId64 " to %" PRId64
                   " were deleted before the group read them",
                   held->place.offset, start - 1);
    groups_note(held->member->groups, held->member, held->partition, what,
                "raise the topic's retention, or read faster");
    go_on_at(held, start, -1, now_ms);
}

/* NULL: it is not in this node's snapshot. */
static const struct partition_info *info_of(const struct held *held)
{
    const struct group_member *member = held->member;
    const struct topic *topic = cluster_snapshot_topic_by_id(
        group_client_cluster(member->groups->client), &member->params.topic_id);
    return topic && held->partition < topic->partition_count
               ? &topic->partitions[held->partition]
               : NULL;
}

/* The present epoch is later than that of anything lost: it tells the coordinator that
 * this commit goes back on purpose. */
static void fall_back(struct held *held, int64_t end, int64_t now_ms)
{
    const struct partition_info *info = info_of(held);
    char what[256];
    (void)snprintf(what, sizeof what,
                   "the log ends at offset %" PRId64 ", before the group's %" PRId64
                   "; it goes on there",
                   end, held->place.offset);
    groups_note(
        held->member->groups, held->member, held->partition, what,
        "an unclean election may have lost messages: see the partition's state");
    go_on_at(held, end, info ? info->leader_epoch : -1, now_ms);
}

/* Did an election lose messages since the group's last one was written? */
static bool lost_messages(const struct held *held)
{
    const struct member_part *part =
        member_core_find(held->member->core, held->partition, held->generation);
    const struct partition_info *info = info_of(held);
    return part && info && part->finished_epoch >= 0 &&
           info->loss.epoch > part->finished_epoch;
}

/* The leader's log ends before the offset: for good, or until it knows all that was
 * committed under the one before. */
static void found_beyond(struct held *held, int64_t end, int64_t now_ms)
{
    held->beyond_ms = held->beyond_ms ? held->beyond_ms : now_ms;
    if (lost_messages(held) || now_ms - held->beyond_ms >= BEYOND_MS) {
        fall_back(held, end, now_ms);
    } else {
        held->retry_ms = now_ms + ASK_MS;
    }
}

static void take_found(struct held *held, const struct group_found *found,
                       int64_t now_ms)
{
    int error = found->error;
    if (held->state == HELD_LOCATING && !error) {
        go_on_at(held, found->offset, found->leader_epoch, now_ms);
    } else if (held->state == HELD_PLACING && !error) {
        held->checked = true;
        held->beyond_ms = 0;
        held->retry_ms = 0;
    } else if (held->state == HELD_PLACING && error == -ERANGE) {
        found_beyond(held, found->high_watermark, now_ms);
    } else if (held->state == HELD_PLACING && error == E_OFFSET_BELOW_START) {
        pass_over(held, found->log_start, now_ms);
    } else if (error == E_TOPIC_DELETED) {
        group_member_fail(held->member, error);
    } else {
        held->retry_ms = now_ms + LOOK_MS;
    }
}

static void on_found(struct group_search *search, const struct group_found *found)
{
    struct held *held = (struct held *)((char *)search - offsetof(struct held, search));
    struct group_member *member = held->member;
    pthread_mutex_lock(&member->lock);
    held->searching = false;
    take_found(held, found, groups_now(member->groups));
    group_member_wake(member);
    pthread_mutex_unlock(&member->lock);
}

/* ---- in the log ---------------------------------------------------------------------
 */

static void on_data(struct read_waiter *waiter)
{
    struct held *held = (struct held *)((char *)waiter - offsetof(struct held, reader));
    struct group_member *member = held->member;
    bool notify = false;
    pthread_mutex_lock(&member->lock);
    held->reading = false;
    if (!held->gone && held->state == HELD_READY) {
        member_core_data(member->core, held->partition, held->generation, true,
                         groups_now(member->groups));
        notify = true;
    } else if (!held->gone) {
        held->retry_ms = 0;
        group_member_wake(member);
    }
    if (notify) {
        group_member_ref(member);
    }
    held_put_unlock(held);
    if (notify) {
        group_member_notify(member);
        group_member_unref(member);
    }
}

/* Parks until the high watermark's position exceeds this; whether it does already. */
static int await_position(struct held *held, int64_t position)
{
    if (held->reading) {
        if (!partition_wait_cancel(held->handle, &held->reader)) {
            return 0; /* its callback comes, and whoever waits looks again */
        }
        held->reading = false;
        held->references--;
    }
    held->reading = true;
    held->references++;
    int rc = partition_wait(held->handle, position, &held->reader);
    if (rc) {
        held->reading = false;
        held->references--;
    }
    return rc;
}

int held_await(struct held *held, int64_t now_ms)
{
    struct member_core *core = held->member->core;
    member_core_data(core, held->partition, held->generation, false, now_ms);
    int rc = await_position(held, held->place.position);
    if (rc > 0) {
        member_core_data(core, held->partition, held->generation, true, now_ms);
    }
    return rc < 0 ? rc : 0;
}

/* Finds the offset between two looks at the log that say the same. */
static int find_place(struct held *held, struct partition_status *status)
{
    int rc = 0;
    for (int i = 0; i < PLACE_ATTEMPTS; i++) {
        struct partition_status after;
        struct log_place found;
        partition_status_get(held->handle, status);
        if (status->deleted) {
            return E_TOPIC_DELETED;
        }
        if (held->place.offset < status->start.offset) {
            return E_OFFSET_BELOW_START;
        }
        if (held->place.offset > status->high_watermark.offset) {
            return -ERANGE;
        }
        rc = partition_find_offset(held->handle, held->place.offset, &found);
        partition_status_get(held->handle, &after);
        if (after.rewrites == status->rewrites && after.unclean == status->unclean) {
            if (!rc) {
                held->place = (struct chunk_place){found.position, found.offset,
                                                   status->rewrites};
                held->unclean = status->unclean;
            }
            return rc;
        }
    }
    return rc ? rc : E_RANGE_REWRITTEN;
}

int held_place(struct held *held, int64_t now_ms)
{
    struct member_core *core = held->member->core;
    struct partition_status status;
    int64_t offset = held->place.offset;
    held->state = HELD_PLACING;
    member_core_data(core, held->partition, held->generation, false, now_ms);
    int rc = find_place(held, &status);
    if (rc == E_OFFSET_BELOW_START) {
        pass_over(held, status.start.offset, now_ms);
        rc = find_place(held, &status);
        offset = held->place.offset;
    }
    if (rc == -ERANGE) {
        /* It comes, if the leader has it: the thread asks. Copies lag. */
        group_member_wake(held->member);
        return 0;
    }
    if (rc) {
        held->retry_ms = now_ms + LOOK_MS;
        return rc;
    }
    held->state = HELD_READY;
    held->checked = false;
    held->beyond_ms = 0;
    held->retry_ms = 0;
    const struct member_part *part =
        member_core_find(core, held->partition, held->generation);
    member_core_begin(core, held->partition, held->generation, offset,
                      part ? part->committed_epoch : -1, now_ms);
    return held_await(held, now_ms);
}

/* The offset lies beyond what this node has. */
static int64_t step_beyond(struct held *held, int64_t now_ms)
{
    struct partition_status status;
    partition_status_get(held->handle, &status);
    if (!held->checked) {
        search(held, GROUPS_PLACE_OFFSET, held->place.offset);
        return INT64_MAX;
    }
    if (!held->reading && await_position(held, status.high_watermark.position) != 0) {
        held->retry_ms = now_ms; /* it moved just now */
        return now_ms;
    }
    return now_ms + LOOK_MS;
}

static int64_t step_placing(struct held *held, int64_t now_ms)
{
    struct partition_status status;
    partition_status_get(held->handle, &status);
    if (held->place.offset > status.high_watermark.offset && !status.deleted) {
        return step_beyond(held, now_ms);
    }
    int rc = held_place(held, now_ms);
    if (rc == E_TOPIC_DELETED) {
        group_member_fail(held->member, rc);
        return INT64_MAX;
    }
    if (held->state != HELD_READY) {
        return held->retry_ms;
    }
    held->member->tell = true; /* who looked before found nothing */
    return now_ms + LOOK_MS;
}

/* Waiters are not told of everything: an unclean election, a deletion. */
static int64_t look_at_ready(struct held *held, int64_t now_ms)
{
    struct partition_status status;
    partition_status_get(held->handle, &status);
    if (status.deleted) {
        group_member_fail(held->member, E_TOPIC_DELETED);
        return INT64_MAX;
    }
    if (status.unclean != held->unclean) {
        held->state = HELD_PLACING;
        return now_ms;
    }
    return now_ms + LOOK_MS;
}

int64_t held_step(struct held *held, int64_t now_ms)
{
    int64_t due_ms = now_ms;
    for (int i = 0; i < 4 && due_ms <= now_ms; i++) {
        if (held->searching || held->opening) {
            return INT64_MAX;
        }
        if (held->retry_ms > now_ms) {
            return held->retry_ms;
        }
        switch (held->state) {
        case HELD_OPENING:
            find_handle(held, now_ms);
            break;
        case HELD_LOCATING:
            search(held,
                   member_core_config(held->member->core)->start == GROUP_START_LATEST
                       ? GROUPS_PLACE_LATEST
                       : GROUPS_PLACE_EARLIEST,
                   0);
            break;
        case HELD_PLACING:
            due_ms = step_placing(held, now_ms);
            break;
        case HELD_READY:
            return look_at_ready(held, now_ms);
        }
    }
    return due_ms > now_ms ? due_ms : now_ms + RETRY_MS;
}
