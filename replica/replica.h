/*
 * Public header of the replica layer: the partitions of this node, their logs and what
 * keeps them. The fs layer includes this file and nothing else of replica/.
 */
#ifndef TOPICFS_REPLICA_H
#define TOPICFS_REPLICA_H

#include "replica/broker.h"
#include "replica/check.h"
#include "replica/extent.h"
#include "replica/group_routes.h"
#include "replica/groups.h"
#include "replica/http_groups.h"
#include "replica/http_server.h"
#include "replica/http_status.h"
#include "replica/http_topics.h"
#include "replica/lines.h"
#include "replica/message_json.h"
#include "replica/partition.h"
#include "replica/partitioner.h"
#include "replica/peer_routes.h"

#endif
