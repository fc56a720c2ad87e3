/*
 * What a node has to tell the coordination store about its partitions, on a thread that
 * may wait for it: changes of the in-sync replicas of those that it leads, and nodes
 * that seem to be dead. It also watches the session: once its deadline has passed,
 * partitions learn that what only the session allowed has ended.
 *
 *     isr_keeper_start(&params, &keeper);
 *     isr_keeper_wake(keeper);           // a replica may have caught up, or left
 *     isr_keeper_dead(keeper, broker, broker_epoch);
 *     isr_keeper_stop(keeper);
 *
 * wake and dead: any thread, any lock.
 */
#ifndef TOPICFS_ISR_KEEPER_H
#define TOPICFS_ISR_KEEPER_H

#include "coord/coord.h"

struct isr_keeper;
struct broker;

struct isr_keeper_params {
    struct broker *broker; /* borrowed, as all of these */
    struct cluster *cluster;
    const struct clock *clock;
};

int isr_keeper_start(const struct isr_keeper_params *params, struct isr_keeper **out);
void isr_keeper_stop(struct isr_keeper *keeper); /* NULL is fine */

void isr_keeper_wake(struct isr_keeper *keeper);
void isr_keeper_dead(struct isr_keeper *keeper, int32_t broker, int64_t broker_epoch);

#endif
