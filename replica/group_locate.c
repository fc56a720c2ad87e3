#include "replica/group_locate.h"

#include "replica/partition_lead.h"

static int find(struct partition *partition, const struct group_place *place,
                const struct partition_status *status, struct log_place *out)
{
    switch (place->kind) {
    case GROUPS_PLACE_OFFSET:
        return partition_find_offset(partition, place->value, out);
    case GROUPS_PLACE_EARLIEST:
        *out = status->start;
        return 0;
    case GROUPS_PLACE_LATEST:
        *out = status->high_watermark;
        return 0;
    case GROUPS_PLACE_TIME:
        return partition_find_time(partition, place->value, out);
    case GROUPS_PLACE_LAST:
        return place->value < 0 ? -EINVAL
                                : partition_find_last(partition, place->value, out);
    }
    return -EINVAL;
}

void group_locate(struct broker *broker, const struct group_place *place,
                  struct group_found *found)
{
    struct partition *partition =
        broker_partition(broker, &place->topic_id, place->partition);
    struct partition_lead lead;
    struct partition_status status;
    struct log_place at = {0};
    *found = (struct group_found){.error = E_NOT_LEADER, .leader_epoch = -1};
    if (!partition || !partition_lead_get(partition, &lead) || !lead.certain) {
        partition_unref(partition);
        return;
    }
    partition_status_get(partition, &status);
    found->log_start = status.start.offset;
    found->high_watermark = status.high_watermark.offset;
    found->error = find(partition, place, &status, &at);
    if (!found->error) {
        /* Compaction leaves holes: the offset that was asked for is as good. */
        found->offset = place->kind == GROUPS_PLACE_OFFSET ? place->value : at.offset;
        found->leader_epoch = partition_lead_epoch_before(partition, at.offset);
    }
    if (found->high_watermark < found->offset) { /* it rose meanwhile */
        found->high_watermark = found->offset;
    }
    partition_unref(partition);
}

cJSON *group_locate_answer(struct broker *broker, const cJSON *request)
{
    struct peer_sender from;
    const cJSON *places = NULL;
    const cJSON *item = NULL;
    size_t count = 0;
    int rc = group_wire_get_locate(request, &from, &places, &count);
    cJSON *answer = group_wire_located(rc, NULL);
    cJSON_ArrayForEach(item, places)
    {
        struct group_place place;
        struct group_found found = {.error = -EBADMSG, .leader_epoch = -1};
        if (group_wire_get_place(item, &place) == 0) {
            group_locate(broker, &place, &found);
        }
        if (group_wire_add_found(answer, &found)) {
            cJSON_Delete(answer);
            return NULL;
        }
    }
    return answer;
}
