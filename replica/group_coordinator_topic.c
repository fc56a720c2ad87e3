/* The topic that keeps the groups. */
#include "replica/group_coordinator.h"
#include "replica/group_record.h"

#include <stdio.h>

/*
 * All that matters is said, because the mount's defaults are for users' topics. A line
 * may hold a group with very many members; segments are small, so that compaction
 * begins early and a new coordinator has little to read.
 */
static const char settings[] =
    "{\"partitions\":%d,\"replication_factor\":0,\"acks\":\"all\","
    "\"min_insync_replicas\":0,\"on_below_min\":\"wait\",\"flush\":\"os\","
    "\"max_message_bytes\":%d,\"segment_bytes\":%d,\"retention_ms\":-1,"
    "\"retention_bytes\":-1,\"cleanup_policy\":\"compact\",\"key_delimiter\":\"\\t\","
    "\"unclean_leader_election\":false}";
enum { SEGMENT_BYTES = 16 << 20, TEXT_BYTES = 512 };

int group_coordinator_ensure_topic(struct cluster *cluster, char *why, size_t why_size)
{
    char text[TEXT_BYTES];
    cJSON *object = NULL;
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(cluster);
    bool there = cluster_snapshot_topic(snapshot, GROUPS_TOPIC) != NULL;
    cluster_snapshot_put(snapshot);
    if (there) {
        return 0;
    }
    int length = snprintf(text, sizeof text, settings, GROUP_SHARDS,
                          GROUP_RECORD_BYTES_MAX, SEGMENT_BYTES);
    int rc = json_parse(text, (size_t)length, &object);
    rc =
        rc ? rc : cluster_create_internal(cluster, GROUPS_TOPIC, object, why, why_size);
    cJSON_Delete(object);
    return rc == E_TOPIC_EXISTS ? 0 : rc;
}
