#include "coord/placement.h"

#include "coord/err.h"

int placement_replicas(const int32_t *nodes, uint32_t node_count, uint32_t factor,
                       uint32_t start, uint32_t partition, int32_t *out)
{
    uint32_t first, shift;

    if (factor < 1 || factor > node_count)
        return E_INVALID_REPLICATION_FACTOR;
    first = (uint32_t)(((uint64_t)start + partition) % node_count);
    out[0] = nodes[first];
    if (factor == 1)
        return 0;
    /* 0 .. n-2: the followers are n-1 nodes on a ring that leaves out the leader. */
    shift = (partition / node_count) % (node_count - 1);
    for (uint32_t j = 1; j < factor; j++) {
        uint32_t step = 1 + (shift + j - 1) % (node_count - 1);

        out[j] = nodes[(first + step) % node_count];
    }
    return 0;
}

uint32_t placement_start(const uint8_t *topic_id, uint32_t length)
{
    uint32_t start = 0;

    for (uint32_t i = 0; i < length && i < sizeof(start); i++)
        start = start << 8 | topic_id[i];
    return start;
}
