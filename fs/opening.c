#include "fs/opening.h"

#include "fs/front_change.h"

#include <stdlib.h>

/*
 * Two ends meet: opened() by the broker and give_up() by the timer. `remaining` counts
 * those that may still come, the worker that parks included; the one that takes it to
 * zero answers.
 */
struct opening {
    struct parking_waiter parked;
    struct open_waiter waiter;
    atomic_int remaining;
    int error; /* written before its end's count is given back */
    fuse_req_t req;
    struct mounted *mounted;
    struct tree_place place;
};

static bool opening_any(struct mounted *mounted, const struct tree_place *place,
                        int32_t *partition)
{
    bool found = false;
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(mounted->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, place->topic);
    for (int32_t i = 0; topic != NULL && !found && i < topic->partition_count; i++) {
        found = broker_partition_is_opening(mounted->broker, &place->topic_id, i);
        *partition = i;
    }
    cluster_snapshot_put(snapshot);
    return found;
}

bool opening_find(struct mounted *mounted, const struct tree_place *place,
                  int32_t *partition)
{
    switch (place->kind) {
    case TREE_APPEND:
        /* Of a topic that is news to this node the first one is missing, too. */
        return (broker_is_opening(mounted->broker) ||
                broker_partition_is_opening(mounted->broker, &place->topic_id, 0)) &&
               opening_any(mounted, place, partition);
    case TREE_STATE:
        *partition = place->partition;
        return broker_must_copy(mounted->broker, &place->topic_id, place->partition);
    case TREE_LOG:
    case TREE_AT:
    case TREE_FOLLOW:
    case TREE_JSON:
    case TREE_SEGMENTS_DIR: /* lists what the partition has */
    case TREE_SEGMENT:
        *partition = place->partition;
        return broker_must_catch_up(mounted->broker, &place->topic_id,
                                    place->partition);
    default:
        return false;
    }
}

static void opening_complete(struct opening *opening)
{
    fuse_req_interrupt_func(opening->req, NULL, NULL);
    parking_remove(&opening->parked);
    int32_t next;
    if (opening->error)
        (void)fuse_reply_err(opening->req, err_errno(opening->error));
    else if (opening_find(opening->mounted, &opening->place, &next))
        opening_park(opening->req, opening->mounted, &opening->place, next);
    else
        front_reply_entry(opening->req, opening->mounted, &opening->place);
    atomic_fetch_sub(&opening->mounted->answers.soon, 1);
    atomic_fetch_sub(&opening->mounted->answers.all, 1);
    free(opening);
}

static void opening_end(struct opening *opening)
{
    if (atomic_fetch_sub(&opening->remaining, 1) == 1)
        opening_complete(opening);
}

static void opening_opened(struct open_waiter *waiter)
{
    opening_end((struct opening *)((char *)waiter - offsetof(struct opening, waiter)));
}

static void opening_give_up(struct parking_waiter *waiter, enum parking_reason reason)
{
    static const int errors[] = {[PARKING_INTERRUPTED] = -EINTR,
                                 [PARKING_DEADLINE] = E_NO_LEADER,
                                 [PARKING_STOPPED] = -ENOTCONN};
    struct opening *opening = (struct opening *)waiter;
    if (broker_await_cancel(opening->mounted->broker, &opening->waiter)) {
        opening->error = errors[reason];
        opening_end(opening);
    }
}

static void opening_interrupt(fuse_req_t req, void *arg)
{
    (void)req;
    parking_interrupt(arg);
}

static int64_t opening_timeout_ms(struct mounted *mounted,
                                  const struct tree_place *place)
{
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(mounted->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, place->topic);
    int64_t timeout_ms = topic != NULL ? topic->config.delivery_timeout_ms : 0;
    cluster_snapshot_put(snapshot);
    return timeout_ms;
}

void opening_park(fuse_req_t req, struct mounted *mounted,
                  const struct tree_place *place, int32_t partition)
{
    struct opening *opening = calloc(1, sizeof *opening);
    if (opening == NULL) {
        (void)fuse_reply_err(req, ENOMEM);
        return;
    }
    opening->req = req;
    opening->mounted = mounted;
    opening->place = *place;
    opening->waiter.opened = opening_opened;
    atomic_init(&opening->remaining, 2);
    atomic_fetch_add(&mounted->answers.soon, 1);
    atomic_fetch_add(&mounted->answers.all, 1);
    parking_waiter_init(&opening->parked, mounted->parking, opening_give_up);
    bool parked = broker_await_partition(mounted->broker, &place->topic_id, partition,
                                         &opening->waiter) == 0;
    fuse_req_interrupt_func(req, opening_interrupt, &opening->parked);
    parking_add(&opening->parked, opening_timeout_ms(mounted, place), 0);
    int mine = parked ? 1 : 2;
    if (atomic_fetch_sub(&opening->remaining, mine) == mine)
        opening_complete(opening);
}
