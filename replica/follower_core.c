#include "replica/follower_core.h"

bool follower_request(struct partition_core *core, const struct epoch_list *epochs,
                      int64_t log_start, struct fetch_request *out)
{
    if (core->role != ROLE_FOLLOWER) {
        return false;
    }
    core->fetch_sequence++;
    *out = (struct fetch_request){
        .follower = core->self,
        .broker_epoch = core->own_broker_epoch,
        .leader_epoch = core->leader_epoch,
        .sequence = core->fetch_sequence,
        .fetch_offset = core->log_end_offset,
        .acknowledged_offset = core_own_end(core),
        .last_epoch = epochs_last(epochs),
        .high_watermark = core->high_watermark,
        .log_start = log_start,
        .flush_to = core->flush_to,
    };
    if (core->leader_high_watermark < 0) {
        out->high_watermark = -1; /* what it is at all is news */
    }
    if (!core->flush_counts) {
        out->acknowledged_offset = core->flushed_offset;
    }
    if (core->remote) {
        out->acknowledged_offset = FETCH_OBSERVES;
    }
    return true;
}

/*
 * The whole log goes. Nothing committed is lost by that where retention has taken all
 * that was visible of it, or where it is of epochs that an election gave up.
 */
static struct follower_step restart(const struct partition_core *core,
                                    const struct epoch_list *epochs, int64_t log_start,
                                    const struct fetch_answer *answer)
{
    bool visible =
        core->high_watermark > log_start && core->high_watermark > answer->log_start;
    bool given_up = epochs_last(epochs) < core->state.lossy_epoch;
    if (visible && !given_up && !core->remote) {
        return (struct follower_step){.action = FOLLOW_REFUSE};
    }
    return (struct follower_step){.action = FOLLOW_RESTART,
                                  .offset = answer->log_start,
                                  .epoch = answer->start_epoch};
}

/*
 * Cuts where the logs part. Below the high watermark only that may be cut which an
 * election has given up: entries of an epoch before the last one that began with a
 * possible loss. Where they part below this log's start, all of it goes.
 */
static struct follower_step cut(const struct partition_core *core,
                                const struct epoch_list *epochs, int64_t log_start,
                                const struct fetch_answer *answer)
{
    struct epoch_end own;
    if (!epochs_end(epochs, answer->diverging.epoch, core->log_end_offset, &own)) {
        return restart(core, epochs, log_start, answer);
    }
    int64_t offset = own.end_offset < answer->diverging.end_offset
                         ? own.end_offset
                         : answer->diverging.end_offset;
    if (MUTATION(MUTATE_CUT_TO_HW) && core->high_watermark < core->log_end_offset) {
        offset = core->high_watermark;
    }
    if (offset < log_start) {
        return restart(core, epochs, log_start, answer);
    }
    if (offset >= core->log_end_offset) {
        return (struct follower_step){.action = FOLLOW_RETRY};
    }
    if (!core->remote && offset < core->high_watermark &&
        epochs_at(epochs, offset) >= core->state.lossy_epoch) {
        return (struct follower_step){.action = FOLLOW_REFUSE};
    }
    return (struct follower_step){.action = FOLLOW_CUT, .offset = offset};
}

struct follower_step follower_take(const struct partition_core *core,
                                   const struct epoch_list *epochs, int64_t log_start,
                                   const struct fetch_answer *answer)
{
    bool mine =
        core->role == ROLE_FOLLOWER && (MUTATION(MUTATE_NO_EPOCH_CHECK) ||
                                        (answer->leader_epoch == core->leader_epoch &&
                                         answer->sequence == core->fetch_sequence));
    if (answer->kind == FETCH_ERROR) {
        /* The epoch of a refusal is the leader's, which may be another. */
        mine = core->role == ROLE_FOLLOWER && answer->sequence == core->fetch_sequence;
        return (struct follower_step){.action = mine ? FOLLOW_RETRY : FOLLOW_IGNORE};
    }
    if (!mine) {
        return (struct follower_step){.action = FOLLOW_IGNORE};
    }
    switch (answer->kind) {
    case FETCH_DIVERGING:
        return cut(core, epochs, log_start, answer);
    case FETCH_RESTART:
        return restart(core, epochs, log_start, answer);
    default:
        return (struct follower_step){.action = FOLLOW_APPEND};
    }
}

bool follower_fits(const struct partition_core *core, const struct epoch_list *epochs,
                   const struct batch *batch)
{
    return batch->base_offset >= core->log_end_offset &&
           (core->compacted || batch->base_offset == core->log_end_offset) &&
           batch->leader_epoch >= epochs_last(epochs) &&
           (batch->leader_epoch <= core->leader_epoch ||
            MUTATION(MUTATE_NO_EPOCH_CHECK));
}

void follower_told(struct partition_core *core, int32_t leader_epoch,
                   int64_t end_offset)
{
    if (core->role == ROLE_FOLLOWER && core->leader_epoch == leader_epoch &&
        core->leader_high_watermark >= 0 && end_offset > core->leader_high_watermark) {
        core->leader_high_watermark = end_offset;
    }
}

void follower_heard(struct partition_core *core, const struct fetch_answer *answer)
{
    if (answer->high_watermark > core->leader_high_watermark) {
        core->leader_high_watermark = answer->high_watermark;
    }
    if (answer->flush_to > core->flush_to) {
        core->flush_to = answer->flush_to;
    }
}
