/*
 * What must always hold. The checks know everything that the nodes don't: the logs on
 * all disks, and which messages were ever committed. Each is made where something
 * changed, so that a violation is found in the step that caused it.
 */
#ifndef TOPICFS_SIM_CHECK_H
#define TOPICFS_SIM_CHECK_H

#include "tests/sim/node.h"

struct check *check_new(void);
void check_free(struct check *check);
void check_reset(struct check *check);

/* A replica's high watermark rose from `before`. */
void check_high_watermark(struct node *node, int32_t slot, int64_t before);
/* A node leads from now on. */
void check_leads(struct node *node, int32_t slot);
/* Batches left a replica's log: cut, or not there after a restart. */
void check_log_shrunk(struct node *node, int32_t slot);
/* A producer was told that its batch is committed. */
void check_acknowledged(struct node *node, int32_t slot, const struct waiter *waiter);
/* A user of the leader was told that everything below `end` is durable. */
void check_synced(struct node *node, int32_t slot, int64_t end);
/* The batch is about to be appended to the node's log. */
void check_times(const struct node *node, int32_t slot, const struct simbatch *batch);
/* A batch that the leader gave can't be appended. */
void check_refused(const struct node *node, int32_t slot, const struct batch *batch);
/* Now and then: what is found by its time in a replica's log? */
void check_look_up(const struct node *node, int32_t slot);
/* Compaction puts `batches` in the place of what a replica's log has below `end`. */
void check_compaction(const struct node *node, int32_t slot,
                      const struct simbatch *batches, uint32_t count, int64_t end);
/* The store took a transaction. */
void check_commit(struct world *world, const struct transaction *transaction,
                  const struct leadership before[SLOTS_MAX]);
/* Is everything led, in sync, and do producers get on? */
bool check_is_healed(struct world *world);
/* After the healing phase. */
void check_healed(struct world *world);

#endif
