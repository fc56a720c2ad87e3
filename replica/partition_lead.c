#include "replica/partition_lead.h"

#include "replica/partition_internal.h"

bool partition_lead_get(struct partition *partition, struct partition_lead *out)
{
    const struct partition_core *core = &partition->core;
    pthread_mutex_lock(&partition->lock);
    bool leads = !partition_refusal(partition) && !core->offline &&
                 core->role == ROLE_LEADER && core->session != SESSION_LOST;
    out->leader_epoch = core->leader_epoch;
    out->certain = core->session == SESSION_GOOD;
    out->writable = leads && core_admit(core, ACKS_ALL) == 0;
    pthread_mutex_unlock(&partition->lock);
    return leads;
}

int partition_lead_produce(struct partition *partition, int32_t leader_epoch,
                           const void *bytes, size_t length, uint32_t message_count,
                           struct produce_waiter *waiter, struct produce_result *result)
{
    /* Without a producer: nobody retries it. */
    struct batch batch = {
        .message_count = message_count,
        .length = (uint32_t)length,
        .timestamp_ms = partition->clock->wall_ms(partition->clock),
        .producer_id = -1,
        .base_sequence = -1,
        .leader_epoch = leader_epoch,
    };
    waiter->acks = ACKS_ALL;
    waiter->acks_given = true;
    waiter->remote = true; /* ends with this epoch, and goes to nobody else */
    waiter->write = NULL;
    waiter->leader_epoch = leader_epoch;
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    int rc = partition_refusal(partition);
    rc = rc ? rc : core_admit(&partition->core, ACKS_ALL);
    if (!rc && partition->core.leader_epoch != leader_epoch) {
        rc = E_NOT_LEADER;
    }
    pthread_mutex_unlock(&partition->lock);
    return partition_append(partition, rc, &batch, bytes, waiter, result);
}

int32_t partition_lead_epoch_before(struct partition *partition, int64_t offset)
{
    pthread_mutex_lock(&partition->lock);
    int32_t epoch = epochs_before(&partition->epochs, offset);
    pthread_mutex_unlock(&partition->lock);
    return epoch;
}
