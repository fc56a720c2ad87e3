/*
 * Where the replicas of a new topic's partitions go: round robin over the live nodes.
 * The preferred leader of partition i is node (start + i) mod n of the sorted nodes,
 * and its further replicas follow it at a shift that rises with every n partitions, so
 * that the load of a dead node spreads over all survivors. Kafka does the same.
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_PLACEMENT_H
#define TOPICFS_PLACEMENT_H

#include <stdint.h>

/*
 * Writes the `factor` replicas of `partition` to `out`, preferred leader first.
 * `nodes`: live broker ids, sorted. `start` spreads topics over nodes (any number). 0,
 * or E_INVALID_REPLICATION_FACTOR unless 1 <= factor <= node_count.
 */
int placement_replicas(const int32_t *nodes, uint32_t node_count, uint32_t factor,
                       uint32_t start, uint32_t partition, int32_t *out);

/* A start from a topic's id, so that topics with one partition spread over the nodes.
 */
uint32_t placement_start(const uint8_t *topic_id, uint32_t length);

#endif
