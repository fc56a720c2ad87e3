/*
 * Range assignment: sorted partitions over sorted members; each of m members gets p / m
 * consecutive partitions, and the first p mod m one more. Members beyond the number of
 * partitions get none and wait. Kafka's RangeAssignor, for one topic.
 *
 *     first = group_assign_first(members, partitions, i);
 *     count = group_assign_count(members, partitions, i);
 *
 * Pure; the same on every node.
 */
#ifndef TOPICFS_GROUP_ASSIGN_H
#define TOPICFS_GROUP_ASSIGN_H

#include <stdint.h>

/* Of the member with index `member` among `members` sorted ones. */
int32_t group_assign_first(int32_t members, int32_t partitions, int32_t member);
int32_t group_assign_count(int32_t members, int32_t partitions, int32_t member);
/* The index of the member that `partition` goes to; -1 without members. */
int32_t group_assign_member(int32_t members, int32_t partitions, int32_t partition);

#endif
