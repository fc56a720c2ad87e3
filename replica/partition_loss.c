#include "replica/partition_internal.h"
#include "replica/partition_replica.h"

/* [lock] */
static void note(struct partition *partition, const struct partition_loss *found)
{
    struct partition_loss *loss = &partition->loss;
    if (loss->epoch != found->epoch) {
        *loss = *found;
    } else {
        loss->from = found->from < loss->from ? found->from : loss->from;
        loss->to = found->to > loss->to ? found->to : loss->to;
    }
    partition->loss_due = true;
}

void partition_loss_cut(struct partition *partition, int64_t from, int64_t to)
{
    const struct partition_core *core = &partition->core;
    /* A copy that is not a replica shows what the leader does. */
    if (core->remote || core->state.lossy_epoch < 0 || from >= to) {
        return;
    }
    note(partition, &(struct partition_loss){
                        .epoch = core->state.lossy_epoch, .from = from, .to = to});
}

/* [lock] A leader that began so knows where its log ended, though not who had more. */
static void look_at_start(struct partition *partition)
{
    const struct partition_core *core = &partition->core;
    if (core->role == ROLE_LEADER && core->state.lossy_epoch == core->leader_epoch &&
        partition->loss.epoch != core->leader_epoch) {
        note(partition, &(struct partition_loss){.epoch = core->leader_epoch,
                                                 .from = core->epoch_start,
                                                 .to = -1});
    }
}

bool partition_loss_get(struct partition *partition, struct partition_loss *out)
{
    pthread_mutex_lock(&partition->lock);
    look_at_start(partition);
    *out = partition->loss;
    bool due = partition->loss_due;
    pthread_mutex_unlock(&partition->lock);
    return due;
}

void partition_loss_recorded(struct partition *partition,
                             const struct partition_loss *recorded)
{
    pthread_mutex_lock(&partition->lock);
    const struct partition_loss *loss = &partition->loss;
    bool more = loss->epoch != recorded->epoch || loss->from != recorded->from ||
                loss->to != recorded->to;
    partition->loss_due = partition->loss_due && more;
    pthread_mutex_unlock(&partition->lock);
}
