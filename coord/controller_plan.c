#include "coord/controller_plan.h"

#include <errno.h>
#include <string.h>

static const struct plan_node *node_of(const struct plan_view *view, int32_t id)
{
    for (uint32_t i = 0; i < view->node_count; i++) {
        if (view->nodes[i].id == id) {
            return &view->nodes[i];
        }
    }
    return NULL;
}

static bool live(const struct plan_view *view, int32_t id)
{
    return node_of(view, id) != NULL;
}

static bool unusable(const struct leadership *state, int32_t id)
{
    const struct suspect *suspect = leadership_suspect(state, id);
    return suspect && suspect->kind == SUSPECT_UNUSABLE;
}

/* The first live member of `eligible` in the order of the assignment; one that is about
 * to leave only if there is no other. -1: none. */
static int32_t first_live(const struct plan_view *view,
                          const struct replica_ids *replicas,
                          const struct replica_ids *eligible)
{
    int32_t leaving = -1;
    for (uint32_t i = 0; i < replicas->count; i++) {
        const struct plan_node *node = node_of(view, replicas->ids[i]);
        if (!node || !replica_ids_contain(eligible, node->id)) {
            continue;
        }
        if (!node->leaving) {
            return node->id;
        }
        leaving = leaving < 0 ? node->id : leaving;
    }
    return leaving;
}

/* ---- a new partition ----------------------------------------------------------------
 */

static int create(const struct plan_view *view, const struct plan_partition *partition,
                  struct plan_change *out)
{
    out->reason = PLAN_CREATE;
    out->state = (struct leadership){
        .controller_epoch = view->controller_epoch, .leader = -1, .lossy_epoch = -1};
    for (uint32_t i = 0; i < partition->replicas.count; i++) {
        if (live(view, partition->replicas.ids[i])) {
            replica_ids_add(&out->state.isr, partition->replicas.ids[i]);
        }
    }
    if (out->state.isr.count == 0) {
        /* Nothing was ever written: whoever comes first has all of it. */
        out->state.isr = partition->replicas;
        return 1;
    }
    out->state.leader = first_live(view, &partition->replicas, &out->state.isr);
    return 1;
}

/* ---- elections ----------------------------------------------------------------------
 */

static int begin_epoch(const struct plan_view *view, const struct leadership *old,
                       struct leadership *out)
{
    if (old->leader_epoch == INT32_MAX) {
        return -EOVERFLOW;
    }
    *out = *old;
    out->controller_epoch = view->controller_epoch;
    out->leader_epoch++;
    return 0;
}

/* ISR and ELR of a new leader: the live part of the ISR; whoever falls out while that
 * is below the minimum stays eligible. */
static void set_isr(const struct plan_view *view, const struct leadership *old,
                    int64_t min_insync, struct leadership *out)
{
    out->isr.count = 0;
    for (uint32_t i = 0; i < old->isr.count; i++) {
        const struct plan_node *node = node_of(view, old->isr.ids[i]);
        if (node && (!node->leaving || node->id == out->leader)) {
            replica_ids_add(&out->isr, node->id);
        }
    }
    replica_ids_add(&out->isr, out->leader);
    out->elr.count = 0;
    if (out->isr.count >= min_insync) {
        return;
    }
    for (uint32_t i = 0; i < old->isr.count; i++) {
        replica_ids_add(&out->elr, old->isr.ids[i]);
    }
    for (uint32_t i = 0; i < old->elr.count; i++) {
        replica_ids_add(&out->elr, old->elr.ids[i]);
    }
    for (uint32_t i = 0; i < out->isr.count; i++) {
        replica_ids_remove(&out->elr, out->isr.ids[i]);
    }
}

/*
 * When every replica that had all committed messages took itself out after a crash, the
 * one with the longest log has the most. -1: it is not alive, or there is none.
 */
static int32_t longest_suspect(const struct plan_view *view,
                               const struct plan_partition *partition)
{
    const struct leadership *state = &partition->state;
    const struct suspect *best = NULL;
    for (uint32_t i = 0; i < state->suspect_count; i++) {
        const struct suspect *suspect = &state->suspects[i];
        if (suspect->kind != SUSPECT_CRASHED ||
            !replica_ids_contain(&partition->replicas, suspect->id)) {
            continue;
        }
        bool longer = !best || suspect->last_epoch > best->last_epoch ||
                      (suspect->last_epoch == best->last_epoch &&
                       suspect->end_offset > best->end_offset);
        bool equal = best && suspect->last_epoch == best->last_epoch &&
                     suspect->end_offset == best->end_offset;
        if (longer || (equal && !live(view, best->id))) {
            best = suspect;
        }
    }
    return best && live(view, best->id) ? best->id : -1;
}

static int32_t unclean_choice(const struct plan_view *view,
                              const struct plan_partition *partition)
{
    const struct leadership *state = &partition->state;
    if (state->isr.count == 0 && state->elr.count == 0) {
        int32_t id = longest_suspect(view, partition);
        if (id >= 0) {
            return id;
        }
    }
    bool waited =
        partition->unclean_wait_ms == 0 ||
        (partition->unclean_wait_ms > 0 && partition->leaderless_since_ms >= 0 &&
         view->now_ms - partition->leaderless_since_ms >= partition->unclean_wait_ms);
    for (uint32_t i = 0; waited && i < partition->replicas.count; i++) {
        int32_t id = partition->replicas.ids[i];
        if (live(view, id) && !unusable(state, id)) {
            return id;
        }
    }
    return -1;
}

static int elect_unclean(const struct plan_view *view,
                         const struct plan_partition *partition, int32_t leader,
                         struct plan_change *out)
{
    int rc = begin_epoch(view, &partition->state, &out->state);
    if (rc) {
        return rc;
    }
    out->reason = PLAN_UNCLEAN;
    out->state.leader = leader;
    out->state.isr = (struct replica_ids){.count = 1, .ids = {leader}};
    out->state.elr.count = 0;
    out->state.lossy_epoch = out->state.leader_epoch;
    leadership_forget_suspect(&out->state, leader);
    return 1;
}

static int elect(const struct plan_view *view, const struct plan_partition *partition,
                 struct plan_change *out)
{
    const struct leadership *old = &partition->state;
    int32_t leader = first_live(view, &partition->replicas, &old->isr);
    if (leader < 0) {
        leader = first_live(view, &partition->replicas, &old->elr);
    }
    if (leader < 0) {
        leader = unclean_choice(view, partition);
        if (leader >= 0) {
            return elect_unclean(view, partition, leader, out);
        }
    }
    if (leader < 0 && old->leader < 0) {
        return 0;
    }
    int rc = begin_epoch(view, old, &out->state);
    if (rc) {
        return rc;
    }
    out->reason = leader < 0 ? PLAN_LEADERLESS : PLAN_ELECT;
    out->state.leader = leader;
    if (leader >= 0) {
        set_isr(view, old, partition->min_insync, &out->state);
    }
    return 1;
}

/* Is there a leader, alive, in the incarnation that the state was made for? */
static bool well_led(const struct plan_view *view,
                     const struct plan_partition *partition)
{
    const struct plan_node *leader = node_of(view, partition->state.leader);
    return leader && leader->broker_epoch < partition->state_revision &&
           replica_ids_contain(&partition->replicas, leader->id);
}

/* A leader that is about to stop hands over, if another in-sync replica can lead. */
static bool may_hand_over(const struct plan_view *view,
                          const struct plan_partition *partition)
{
    int32_t other = first_live(view, &partition->replicas, &partition->state.isr);
    return node_of(view, partition->state.leader)->leaving && other >= 0 &&
           !node_of(view, other)->leaving;
}

/* ---- preferred leaders --------------------------------------------------------------
 */

static int prefer(const struct plan_view *view, const struct plan_partition *partition,
                  struct plan_change *out)
{
    int32_t preferred = partition->replicas.ids[0];
    const struct plan_node *node = node_of(view, preferred);
    if (partition->state.leader == preferred || !node || node->leaving ||
        !replica_ids_contain(&partition->state.isr, preferred)) {
        return 0;
    }
    int rc = begin_epoch(view, &partition->state, &out->state);
    if (rc) {
        return rc;
    }
    out->reason = PLAN_PREFER;
    out->state.leader = preferred;
    out->prefer_done = true;
    return 1;
}

/* ---- reassignment -------------------------------------------------------------------
 */

bool plan_may_return(const struct plan_view *view,
                     const struct plan_partition *partition)
{
    return first_live(view, &partition->target, &partition->state.isr) >= 0 ||
           first_live(view, &partition->target, &partition->state.elr) >= 0;
}

static bool all_in_sync(const struct plan_partition *partition)
{
    for (uint32_t i = 0; i < partition->target.count; i++) {
        if (!replica_ids_contain(&partition->state.isr, partition->target.ids[i])) {
            return false;
        }
    }
    return true;
}

static void drop_suspects(struct leadership *state, const struct replica_ids *replicas)
{
    for (uint32_t i = state->suspect_count; i > 0; i--) {
        if (!replica_ids_contain(replicas, state->suspects[i - 1].id)) {
            leadership_forget_suspect(state, state->suspects[i - 1].id);
        }
    }
}

/* The assignment becomes the target; everybody else is out. */
static int shrink(const struct plan_view *view, const struct plan_partition *partition,
                  struct plan_change *out)
{
    struct plan_partition after = *partition;
    after.replicas = partition->target;
    replica_ids_keep(&after.state.isr, &partition->target);
    replica_ids_keep(&after.state.elr, &partition->target);
    int rc = begin_epoch(view, &after.state, &out->state);
    if (rc) {
        return rc;
    }
    const struct plan_node *leader = node_of(view, after.state.leader);
    if (!leader || !replica_ids_contain(&after.state.isr, leader->id)) {
        out->state.leader = first_live(view, &after.replicas, &after.state.isr);
        if (out->state.leader < 0) {
            out->state.leader = first_live(view, &after.replicas, &after.state.elr);
        }
        set_isr(view, &after.state, partition->min_insync, &out->state);
    }
    drop_suspects(&out->state, &after.replicas);
    out->reason = PLAN_SHRINK;
    out->replicas_changed = true;
    out->replicas = partition->target;
    out->reassignment_done = true;
    return 1;
}

static int grow(const struct plan_view *view, const struct plan_partition *partition,
                struct plan_change *out)
{
    struct replica_ids all = partition->target;
    for (uint32_t i = 0; i < partition->replicas.count; i++) {
        if (!replica_ids_contain(&all, partition->replicas.ids[i])) {
            if (all.count == LEADERSHIP_REPLICAS_MAX) {
                return -E2BIG;
            }
            replica_ids_add(&all, partition->replicas.ids[i]);
        }
    }
    if (replica_ids_same_members(&all, &partition->replicas)) {
        return 0;
    }
    int rc = begin_epoch(view, &partition->state, &out->state);
    if (rc) {
        return rc;
    }
    out->reason = PLAN_GROW;
    out->replicas_changed = true;
    out->replicas = all;
    return 1;
}

static int reassign(const struct plan_view *view,
                    const struct plan_partition *partition, struct plan_change *out)
{
    bool cancel = replica_ids_same_members(&partition->target, &partition->original);
    if (plan_may_return(view, partition) && (cancel || all_in_sync(partition))) {
        return shrink(view, partition, out);
    }
    return grow(view, partition, out);
}

int plan_partition(const struct plan_view *view, const struct plan_partition *partition,
                   struct plan_change *out)
{
    memset(out, 0, sizeof *out);
    if (!partition->has_state) {
        return create(view, partition, out);
    }
    if (!well_led(view, partition) || may_hand_over(view, partition)) {
        return elect(view, partition, out);
    }
    int rc = 0;
    if (partition->target.count > 0) {
        rc = reassign(view, partition, out);
    }
    if (rc == 0 && partition->prefer && partition->replicas.count > 0) {
        rc = prefer(view, partition, out);
    }
    return rc;
}
