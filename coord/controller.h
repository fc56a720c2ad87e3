/*
 * What a controller decides: who leads a partition, with which in-sync replicas and
 * which epoch. Functions of the state as stored and of who is alive; nothing is read or
 * written.
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_CONTROLLER_H
#define TOPICFS_CONTROLLER_H

#include "coord/cluster_state.h"

struct controller_view {
    int32_t epoch;              /* the controller epoch that goes into states */
    const struct id_list *live; /* broker ids */
};

/*
 * The epoch of a new controller, after `stored` (-1: none is stored). -EOVERFLOW at the
 * end of int32.
 */
int controller_next_epoch(int32_t stored, int32_t *out);

/* The state of a partition that was never led: the first live replica leads, the live
 * ones are in sync. `first_epoch` is its leader epoch (0 for a new topic). */
int controller_new_partition(const struct controller_view *view,
                             const struct id_list *replicas, int32_t first_epoch,
                             struct partition_state *out);

/*
 * The state after a change of who is alive or after a new incarnation of the leader:
 * leads the first live replica of the assignment that is in the ISR, else in the ELR.
 * The new ISR is its live part (or just the leader, if it came from the ELR); replicas
 * that fall out while the ISR is below `min_insync` are kept in the ELR. Without an
 * eligible replica: leader -1, ISR and ELR as they were, so that an eligible one can
 * still lead when it comes back. The leader epoch rises by one. 0, -ENOMEM or
 * -EOVERFLOW.
 */
int controller_elect(const struct controller_view *view, const struct id_list *replicas,
                     const struct partition_state *old, int64_t min_insync,
                     struct partition_state *out);

/*
 * Leadership to the first replica of the assignment: 1 and *out if that changes
 * anything; 0 if it leads already; E_NO_LEADER if it is not alive or not in sync.
 */
int controller_prefer(const struct controller_view *view,
                      const struct id_list *replicas, const struct partition_state *old,
                      struct partition_state *out);

/*
 * A leader epoch for a partition whose state was lost. It must lie above every epoch
 * that its log may hold; epochs count leader changes, so the seconds since 2025 do.
 */
int32_t controller_recovered_epoch(int64_t wall_ms);

#endif
