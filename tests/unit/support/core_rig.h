/* Cores with a known state, for the tests of the replication decisions. Replicas are 1,
 * 2 and 3; this node is 1 and registered as broker epoch 50; the others as 20 and 30.
 */
#ifndef TOPICFS_TEST_CORE_RIG_H
#define TOPICFS_TEST_CORE_RIG_H

#include "replica/partition_core.h"

/* ISR: the first isr_count of 1, 2, 3. */
struct leadership core_rig_state(int32_t leader, int32_t epoch, uint32_t isr_count);
/* Gives the core this state, as stored at `revision`, at time `now_ms`. */
int core_rig_lead(struct partition_core *core, const struct leadership *state,
                  int64_t revision, int64_t now_ms);
/* Leads epoch 7 from offset 10, HW 5, ISR 1 2 3, minimum 2, page cache counts. */
void core_rig_leader(struct partition_core *core);
/* Follows node 2 in epoch 7, log end 10, HW 5. */
void core_rig_follower(struct partition_core *core);

#endif
