/*
 * Requests of the admin files, read and checked without I/O: their form, and whether
 * what they name is there. What they do is in cluster_admin.c.
 *
 *     preferred_replica_election
 * {"version":1,"partitions":[{"topic":"t","partition":8}]} reassign_partitions
 * {"version":1,"partitions":[{"topic":"t","partition":1, "replicas":[1,2,3]}]}
 *     delete_topics               {"version":1,"topics":["t4","t5"]}
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_CLUSTER_ADMIN_H
#define TOPICFS_CLUSTER_ADMIN_H

#include "coord/snapshot.h"

struct admin_item {
    const struct snapshot_topic *topic; /* borrowed from the snapshot */
    int32_t partition;                  /* -1 for delete_topics */
    struct id_list replicas;            /* reassign_partitions only */
};

struct admin_request {
    struct admin_item *items; /* each topic, or partition, once */
    size_t count;
};

/*
 * `skip_absent`: topics that are not there are left out (delete_topics, tried again).
 * 0 and *out (freed with admin_request_free); -EINVAL (form), E_UNKNOWN_TOPIC,
 * E_INVALID_PARTITION, E_INVALID_REPLICATION_FACTOR (a replica that is not a live
 * node), -ENOMEM; `why` has the reason of a refusal.
 */
int admin_request_read(enum admin_operation operation, const cJSON *json,
                       bool skip_absent, const struct snapshot *snapshot,
                       struct admin_request *out, char *why, size_t why_size);
void admin_request_free(struct admin_request *request);

#endif
