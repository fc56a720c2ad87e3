/*
 * A leader's changes of its in-sync replicas: who leaves, who joins, who stays
 * eligible. A change is a proposal, stored by compare-and-swap; one is on its way at a
 * time.
 *
 *     if (isr_propose(&core, now_ms, &proposal)) {
 *         rc = commit: state mod revision == proposal.state_revision
 *                      own registration's create revision == proposal.own_broker_epoch
 *                      each proposal.joined[i]'s == its broker_epoch
 *                      put proposal.state
 *         isr_outcome(&core, &proposal, outcome, revision, now_ms);
 *     }
 *     if (core.isr_reread) read the state, core_lead(), isr_reread(&core);
 *
 * Until a proposal's fate is known the high watermark counts both the ISR as stored and
 * the one proposed. A proposal whose outcome is unknown may be stored at any later
 * time, as long as the revision that it compares stands: so it counts until the
 * revision moves.
 *
 * Pure; the owner of the core calls.
 */
#ifndef TOPICFS_ISR_H
#define TOPICFS_ISR_H

#include "replica/partition_core.h"

struct isr_joined {
    int32_t id;
    int64_t broker_epoch;
};

struct isr_proposal {
    struct leadership state;
    int64_t state_revision;
    int64_t own_broker_epoch;
    uint32_t joined_count;
    struct isr_joined joined[CORE_REPLICAS_MAX];
};

enum isr_result {
    ISR_STORED,
    ISR_CONFLICT, /* a comparison failed: not stored, and never will be */
    ISR_UNKNOWN,  /* no answer: it may be stored, now or later */
};

/* true: *out is to be committed, and is on its way from now on. */
bool isr_propose(struct partition_core *core, int64_t now_ms, struct isr_proposal *out);

/* `revision`: with ISR_STORED, the one it was stored at. */
void isr_outcome(struct partition_core *core, const struct isr_proposal *proposal,
                 enum isr_result result, int64_t revision);

/* The state was read after the last outcome, and given to core_lead(). */
void isr_reread(struct partition_core *core);

#endif
