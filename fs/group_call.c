#include "fs/group_call.h"

static void call_end(struct group_call *call)
{
    if (atomic_fetch_sub(&call->remaining, 1) != 1)
        return;
    call->interruptible(call, false);
    parking_remove(&call->parked);
    call->done(call, call->error);
}

static void call_answered(struct groups_call *answered, int error, const cJSON *answer,
                          const char *why)
{
    struct group_call *call = (struct group_call *)answered;
    /* The errno is all that the requester gets; the reason stands here. */
    if (why != NULL && why[0] != '\0')
        diag(DIAG_WARNING, "group %s: refused: %s",
             call->group != NULL ? call->group : "?", why);
    call->error = error;
    if (error == 0 && call->take != NULL)
        call->error = call->take(call, answer);
    call_end(call);
}

static void call_give_up(struct parking_waiter *waiter, enum parking_reason reason)
{
    struct group_call *call =
        (struct group_call *)((char *)waiter - offsetof(struct group_call, parked));
    if (!groups_call_cancel(call->groups, &call->call))
        return;
    call->error = reason == PARKING_INTERRUPTED ? -EINTR : -ENOTCONN;
    call_end(call);
}

void group_call_init(struct group_call *call, struct mounted *mounted,
                     int (*take)(struct group_call *call, const cJSON *answer),
                     void (*interruptible)(struct group_call *call, bool on),
                     void (*done)(struct group_call *call, int error))
{
    call->call = (struct groups_call){.done = call_answered};
    call->group = NULL;
    call->groups = mounted->groups;
    call->error = 0;
    call->take = take;
    call->interruptible = interruptible;
    call->done = done;
    atomic_init(&call->remaining, 2);
    parking_waiter_init(&call->parked, mounted->parking, call_give_up);
}

void group_call_park(struct group_call *call)
{
    call->interruptible(call, true);
    parking_add(&call->parked, PARKING_FOREVER, 0); /* the groups bound it */
    call_end(call);
}

void group_call_interrupt(void *call)
{
    parking_interrupt(&((struct group_call *)call)->parked);
}
