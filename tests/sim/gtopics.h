/*
 * The topics of the simulated world of a group. A topic is known by a number, which is
 * never used again: one that is deleted and made again by its name has another.
 *
 *     gtopics_reset(world);
 *     gtopics_create_missing(world);        // every name has a topic
 *     gtopics_come_and_go(world, name);     // deleted, or made again
 *     gtopics_set_offset(world);            // a user sets an offset, if he may
 *
 * One thread.
 */
#ifndef TOPICFS_SIM_GTOPICS_H
#define TOPICFS_SIM_GTOPICS_H

#include "tests/sim/gworld.h"

void gtopics_reset(struct gworld *world); /* there are none */
void gtopics_create_missing(struct gworld *world);
void gtopics_come_and_go(struct gworld *world, int32_t name);
/* One more partition, if the topic is there and has not grown much yet. */
void gtopics_grow(struct gworld *world, int32_t name);
/* One that is there, or -1. A soak has but one. */
int32_t gtopics_any(struct gworld *world);
/* Sends a request that sets an offset anywhere up to the partition's end, or forgets
 * it. */
void gtopics_set_offset(struct gworld *world);

#endif
