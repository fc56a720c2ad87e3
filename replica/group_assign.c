#include "replica/group_assign.h"

int32_t group_assign_first(int32_t members, int32_t partitions, int32_t member)
{
    int32_t more = partitions % members;

    return member * (partitions / members) + (member < more ? member : more);
}

int32_t group_assign_count(int32_t members, int32_t partitions, int32_t member)
{
    return partitions / members + (member < partitions % members);
}

int32_t group_assign_member(int32_t members, int32_t partitions, int32_t partition)
{
    int32_t each, longer;

    if (members <= 0)
        return -1;
    each = partitions / members;
    longer = partitions % members * (each + 1); /* partitions of who has one more */
    if (partition < longer)
        return partition / (each + 1);
    return partitions % members + (partition - longer) / each;
}
