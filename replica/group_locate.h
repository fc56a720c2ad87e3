/*
 * Places in the logs of partitions that this node leads: where a group begins to read,
 * and how far it is behind.
 */
#ifndef TOPICFS_GROUP_LOCATE_H
#define TOPICFS_GROUP_LOCATE_H

#include "replica/group_wire.h"

/*
 * found->error: 0; E_NOT_LEADER: this node does not lead the partition, or is not
 * certain of it; for an offset beyond the log E_OFFSET_BELOW_START or -ERANGE; an error
 * of reading the log. With those the bounds of the log are set too. Reads the disk; any
 * thread.
 */
void group_locate(struct broker *broker, const struct group_place *place,
                  struct group_found *found);

/* All places of a request, which is borrowed: the whole answer, or NULL: no memory. */
cJSON *group_locate_answer(struct broker *broker, const cJSON *request);

#endif
