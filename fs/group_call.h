/*
 * A question to a group's coordinator that a request of the kernel waits for: parked,
 * so that it can be interrupted, has a bound, and ends with the mount.
 *
 *     group_call_init(call, mounted, take, interruptible, done);
 *     groups_describe(mounted->groups, group, false, &call->call);
 *     group_call_park(call);                  // done() comes once, perhaps before this
 *                                             // returns
 */
#ifndef TOPICFS_GROUP_CALL_H
#define TOPICFS_GROUP_CALL_H

#include "fs/mounted.h"

struct group_call {
    struct groups_call call;
    const char *group; /* named where a refusal is logged; NULL, or lives till done() */
    /* private */
    struct parking_waiter parked;
    struct groups *groups;
    atomic_int remaining; /* the answer, and who parks */
    int error;            /* written before its end's count is given back */
    int (*take)(struct group_call *call, const cJSON *answer);
    void (*interruptible)(struct group_call *call, bool on);
    void (*done)(struct group_call *call, int error);
};

/*
 * take(): keeps what is needed of the answer, 0 or what the call is to fail with; on a
 * thread of the groups; NULL: nothing is needed. interruptible(): makes
 * group_call_interrupt() come when the request is interrupted, or ends that. done():
 * the call may be freed or begun again in it.
 */
void group_call_init(struct group_call *call, struct mounted *mounted,
                     int (*take)(struct group_call *call, const cJSON *answer),
                     void (*interruptible)(struct group_call *call, bool on),
                     void (*done)(struct group_call *call, int error));
void group_call_park(struct group_call *call);
/* A function for reply_on_interrupt(), with the call. */
void group_call_interrupt(void *call);

#endif
