/*
 * A leader's decision about a batch that a producer sends: new, a duplicate of one that
 * is in the log, or refused.
 *
 *     produce_decide(&core, producers, &batch, acks, &decision);
 *     if (decision.error) answer it;
 *     else if (!decision.duplicate) append, producer_state_add(), core_appended();
 *     wait for core_outcome(&core, acks, core.leader_epoch, end offset) in both cases.
 *
 * A duplicate is answered like its original: once that is committed, or not at all.
 *
 * Pure; the owner of the core and the producer state calls.
 */
#ifndef TOPICFS_PRODUCE_CORE_H
#define TOPICFS_PRODUCE_CORE_H

#include "replica/partition_core.h"
#include "replica/producer_state.h"

struct produce_decision {
    int error; /* as core_admit(), or E_OUT_OF_ORDER_SEQUENCE */
    bool duplicate;
    int64_t base_offset; /* of a duplicate's original */
    int64_t end_offset;
    bool acknowledged; /* set by a mutation only: answer without waiting */
};

void produce_decide(const struct partition_core *core,
                    const struct producer_state *producers, const struct batch *batch,
                    int64_t acks, struct produce_decision *out);

#endif
