/*
 * Parked requests: what waits for data, a commit or a flush, answered exactly once by
 * whoever comes first: the completion, an interrupt, a deadline, the unmount.
 *
 * One timer thread owns deadlines and the grace after an interrupt. Every parked request
 * has a deadline or can be interrupted, and parking_stop() ends all of them.
 *
 * Lock order: partition->lock is never held when these are called; parking's own lock is
 * a leaf.
 */
#ifndef TOPICFS_PARKING_H
#define TOPICFS_PARKING_H

#include "coord/coord.h"

struct parking;
struct parking *parking_start(const struct clock *clock); /* NULL: no memory, no thread */
/* Gives up everything that is parked (reason PARKING_STOPPED), then ends the thread. */
void parking_stop(struct parking *parking);

enum parking_reason { PARKING_INTERRUPTED, PARKING_DEADLINE, PARKING_STOPPED };

/* The module that implements it (parking.c) defines how a waiter is embedded; see there
 * for the states and who may move between them. */

#endif
