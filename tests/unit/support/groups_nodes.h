/*
 * Consumer groups on several nodes of a replica_rig, for tests.
 *
 *     struct replica_rig *rig = groups_nodes_open(3);
 *     struct group_user *user = group_user_join(groups_nodes_of(rig, 1), "g", "t",
 * &id);
 *     ...
 *     replica_rig_close(rig);
 *
 * Failures are failed assertions of the running test.
 */
#ifndef TOPICFS_TEST_GROUPS_NODES_H
#define TOPICFS_TEST_GROUPS_NODES_H

#include "replica/groups.h"
#include "tests/unit/support/replica_rig.h"

struct replica_rig *groups_nodes_open(int count);
struct groups *groups_nodes_of(struct replica_rig *rig, int id);
/* Of "t", as node `id` sees it. */
struct topic_id groups_nodes_topic(struct replica_rig *rig, int id);

#endif
