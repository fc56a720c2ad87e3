/*
 * Parked requests: what waits for data, a commit or a flush, answered exactly once by
 * whoever comes first: the completion, an interrupt, a deadline, the unmount.
 *
 * One timer thread owns deadlines and the grace after an interrupt. Every parked
 * request has a deadline or can be interrupted, and parking_stop() ends all of them.
 *
 * A request embeds a struct parking_waiter and counts what it still waits for, the one
 * that submits it included; the one that takes the count to zero completes it:
 *
 *     op->remaining = 1 + parts;                   // the submitter holds one
 *     ... partition_produce(..., &op->part) == PRODUCE_PENDING ...
 *     reply_on_interrupt(op->reply, parking_interrupt, &op->waiter);
 *     parking_add(parking, &op->waiter, timeout_ms, grace_ms);
 *     if (--op->remaining == 0) complete(op);      // done() may have run meanwhile
 *
 *     done():     if (--op->remaining == 0) complete(op);
 *     give_up():  note the reason; cancel each part; --remaining for each that agreed;
 *                 complete(op) if that took it to zero, else done() is on its way
 *     complete(): reply_on_interrupt(op->reply, NULL, NULL);
 * parking_remove(&op->waiter); answer, free
 *
 * The states and who moves between them are described in parking.c.
 *
 * Lock order: partition->lock is never held when these are called; parking's own lock
 * is a leaf.
 */
#ifndef TOPICFS_PARKING_H
#define TOPICFS_PARKING_H

#include "coord/coord.h"

#include <stdbool.h>
#include <stdint.h>

struct parking;
struct parking *
parking_start(const struct clock *clock); /* NULL: no memory, no thread */

/* From now on everything that is parked, or will be, is given up at once (reason
 * PARKING_STOPPED). Returns when nothing is parked. Any thread but the timer's. */
void parking_drain(struct parking *parking);

/* parking_drain(), then ends the thread and frees. Nobody may use it after; NULL is
 * fine. */
void parking_stop(struct parking *parking);

enum parking_reason { PARKING_INTERRUPTED, PARKING_DEADLINE, PARKING_STOPPED };

enum parking_state { PARKING_OUT, PARKING_WAITING, PARKING_GIVEN_UP };

enum { PARKING_FOREVER = -1 };

struct parking_waiter {
    /* On the timer thread, at most once, no lock held. It may complete the request (and
     * so free the waiter), or leave that to a completion that is on its way. */
    void (*give_up)(struct parking_waiter *waiter, enum parking_reason reason);
    /* private: [parking->lock] */
    struct parking *parking;
    struct parking_waiter *prev, *next;
    struct parking_list *list;
    int64_t due_ns;
    int64_t grace_ms;
    enum parking_state state;
    enum parking_reason reason;
    bool hurried; /* interrupted before it was added */
};

/* Before anything else can know of the waiter. */
void parking_waiter_init(struct parking_waiter *waiter, struct parking *parking,
                         void (*give_up)(struct parking_waiter *waiter,
                                         enum parking_reason reason));

/* Parks: give_up() comes after timeout_ms (PARKING_FOREVER: never), or grace_ms after
 * an interrupt, or when draining. Ended by parking_remove(). */
void parking_add(struct parking_waiter *waiter, int64_t timeout_ms, int64_t grace_ms);

/* A function for reply_on_interrupt(), `waiter` being its argument: begins the grace.
 * Also right before parking_add(). */
void parking_interrupt(void *waiter);

/* Has give_up(PARKING_STOPPED) called at once; for closing what it belongs to. */
void parking_expire(struct parking_waiter *waiter);

/* Ends the parking of a waiter that was added, exactly once. Returns after a give_up()
 * of it that runs on the timer thread has returned, unless called from within that. The
 * waiter may be freed then, provided that no interrupt function is set any more. */
void parking_remove(struct parking_waiter *waiter);

#endif
