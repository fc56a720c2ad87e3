/* What goes wrong, how often, in which of the worlds: decided by the seed. */
#ifndef TOPICFS_SIM_FAULT_H
#define TOPICFS_SIM_FAULT_H

#include "tests/sim/world.h"

enum fault {
    FAULT_KILL = 1 << 0,
    FAULT_POWER = 1 << 1,
    FAULT_POWER_ALL = 1 << 2,
    FAULT_PAUSE = 1 << 3,
    FAULT_CUT_LINK = 1 << 4, /* one or both ways */
    FAULT_CUT_NODE = 1 << 5, /* from all others, with or without the store */
    FAULT_CUT_STORE = 1 << 6,
    FAULT_STORE_DOWN = 1 << 7,
    FAULT_DISK_FULL = 1 << 8,
    FAULT_BIT_FLIP = 1 << 9,
    FAULT_LEAVE = 1 << 10,
    FAULT_CLOCK = 1 << 11,
    FAULT_REFUSE = 1 << 12, /* connections are refused though the process lives */
    FAULT_COUNT = 13
};

/* Draws the world of this seed. */
void fault_profile(struct world *world);
/* One fault, and the next event. */
void fault_step(struct world *world);
/* A leader is about to propose that this node joins an ISR. In some worlds the proposal
 * is late then, and the node's machine crashes and comes back meanwhile. */
void fault_expansion(struct world *world, int32_t id);
/* Ends all faults, starts every node. */
void fault_heal(struct world *world);

#endif
