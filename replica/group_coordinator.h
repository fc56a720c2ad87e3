/*
 * The coordinator: for each shard (partition of __consumer_offsets) that this node
 * leads, the groups in it. One thread owns them all: it loads a shard's groups from its
 * log when the node begins to lead it, runs group_core for each request, appends the
 * records of everything that came meanwhile as one batch with acks=all, and answers
 * when that is committed. What can't be committed is not answered with success: the
 * shard is thrown away and loaded again in the leader epoch that then is.
 *
 *     group_coordinator_start(&params, &coordinator);
 *     group_coordinator_submit(coordinator, request, &call);
 *     group_coordinator_stop(coordinator);
 *
 * __consumer_offsets is made at the first join, set_offset or configure of the cluster:
 * GROUP_SHARDS partitions, replication factor min(3, live nodes), compacted, flush=os.
 * Until then there are no groups, and describe and list say so.
 */
#ifndef TOPICFS_GROUP_COORDINATOR_H
#define TOPICFS_GROUP_COORDINATOR_H

#include "replica/group_wire.h"
#include "replica/groups.h"

/* Kafka has 50; each costs every node some memory. */
enum { GROUP_SHARDS = 16 };

struct group_coordinator;

int group_coordinator_start(const struct groups_params *params,
                            struct group_coordinator **out);
/* Answers what is parked with E_NOT_COORDINATOR. NULL is fine. */
void group_coordinator_stop(struct group_coordinator *coordinator);

struct coordinator_call {
    /* Exactly once, on the coordinator's thread; takes the answer (cJSON_Delete). */
    void (*done)(struct coordinator_call *call, cJSON *answer);
    /* private: [coordinator->lock] */
    struct coordinator_call *prev, *next;
};

/* Takes the request: an object as group_wire.h says, "cluster" and who speaks checked
 * before. Any thread. */
void group_coordinator_submit(struct group_coordinator *coordinator, cJSON *request,
                              struct coordinator_call *call);

/* Makes __consumer_offsets if it isn't there. Blocks on the store. 0 or as
 * cluster_create_topic(). */
int group_coordinator_ensure_topic(struct cluster *cluster, char *why, size_t why_size);

/* {"groups":[<group_core_describe()>, ...]} of the shards led here, for figures; the
 * call as above. */
void group_coordinator_survey(struct group_coordinator *coordinator,
                              struct coordinator_call *call);

#endif
