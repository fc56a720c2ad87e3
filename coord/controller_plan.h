/*
 * What a controller does about one partition, given what the store holds and who is
 * alive: which state to store next. The controller looks at every partition that a
 * change may concern, and commits what this module plans; where a comparison fails it
 * looks again at what the store has by then.
 *
 *     if (plan_partition(&view, &partition, &change) > 0)
 *         commit: controller's create revision == own
 *                 state's mod revision == partition.state_revision
 *                 assignment's mod revision == partition.assignment_revision
 *                 put change.state, and where change.replicas_changed the assignment
 *
 * Every state that it makes begins a new leader epoch, so that no two incarnations of a
 * leader ever share one. docs/replication.md has the rules and their reasons.
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_CONTROLLER_PLAN_H
#define TOPICFS_CONTROLLER_PLAN_H

#include "coord/leadership.h"

struct plan_node {
    int32_t id;
    int64_t broker_epoch; /* create revision of its registration */
    bool leaving;         /* it is about to stop: leads only where nobody else can */
};

struct plan_view {
    int32_t controller_epoch;
    const struct plan_node *nodes; /* the live ones */
    uint32_t node_count;
    int64_t now_ms; /* monotonic, of the controller */
};

struct plan_partition {
    struct replica_ids replicas; /* the assignment, preferred leader first */
    int64_t assignment_revision;
    /* A reassignment that runs: where the partition is to be, and where it was when it
     * was asked for. target.count == 0: none. */
    struct replica_ids target;
    struct replica_ids original;
    bool has_state;
    struct leadership state;
    int64_t state_revision; /* 0 without a state */
    int64_t min_insync;
    int64_t unclean_wait_ms;     /* -1: never elect an unclean leader */
    int64_t leaderless_since_ms; /* by the controller's clock; -1: it has a leader */
    bool prefer;                 /* leadership is to return to the preferred replica */
};

enum plan_reason {
    PLAN_CREATE,
    PLAN_ELECT,      /* a new leader, or a new epoch of a restarted one */
    PLAN_LEADERLESS, /* nobody can lead: the leader is -1 from now on */
    PLAN_UNCLEAN,    /* elected a leader that may lack committed messages */
    PLAN_PREFER,
    PLAN_GROW,
    PLAN_SHRINK,
};

struct plan_change {
    enum plan_reason reason;
    struct leadership state;
    bool replicas_changed;
    struct replica_ids replicas;
    bool reassignment_done; /* the request is to be removed */
    bool prefer_done;
};

/* 1: *out is to be committed; 0: nothing to do now; -EOVERFLOW at the end of the
 * epochs. */
int plan_partition(const struct plan_view *view, const struct plan_partition *partition,
                   struct plan_change *out);

/*
 * May a reassignment be taken back now, or this target be asked for? A target without a
 * live replica that has all committed messages would leave the partition without a
 * leader.
 */
bool plan_may_return(const struct plan_view *view,
                     const struct plan_partition *partition);

#endif
