/*
 * The answer to one request, without FUSE in sight: domain code gets a `struct reply *`
 * and answers it exactly once, now or later, from any thread. The real one (front.c)
 * wraps a fuse_req_t; unit tests have one that records.
 *
 * Ownership: calling any answer function ends the reply; it must not be touched after.
 */
#ifndef TOPICFS_REPLY_H
#define TOPICFS_REPLY_H

#include "replica/replica.h"

#include <stddef.h>
#include <stdint.h>

struct reply;

struct reply_ops {
    void (*error)(struct reply *reply,
                  int code); /* a code of err.h or -errno; 0 = done */
    void (*written)(struct reply *reply, size_t bytes);
    void (*bytes)(struct reply *reply, const void *bytes, size_t length);
    /* The extents' bytes in order; releases them. At most REPLY_EXTENTS_MAX. */
    void (*extents)(struct reply *reply, struct extent *extents, size_t count);
    /*
     * From now on fn(arg) is called (any thread, at most once) if the requester is
     * interrupted; at once if it was already. on_interrupt(reply, NULL, NULL) ends that
     * and returns after a running fn has returned: call it before answering a reply
     * that had a function set, not from within fn and not with a lock held that fn
     * takes.
     */
    void (*on_interrupt)(struct reply *reply, void (*fn)(void *arg), void *arg);
};

enum { REPLY_EXTENTS_MAX = 8 };

struct reply {
    const struct reply_ops *ops;
};

static inline void reply_error(struct reply *reply, int code)
{
    reply->ops->error(reply, code);
}
static inline void reply_written(struct reply *reply, size_t bytes)
{
    reply->ops->written(reply, bytes);
}
static inline void reply_bytes(struct reply *reply, const void *bytes, size_t length)
{
    reply->ops->bytes(reply, bytes, length);
}
static inline void reply_extents(struct reply *reply, struct extent *extents,
                                 size_t count)
{
    reply->ops->extents(reply, extents, count);
}
static inline void reply_on_interrupt(struct reply *reply, void (*fn)(void *),
                                      void *arg)
{
    reply->ops->on_interrupt(reply, fn, arg);
}

#endif
