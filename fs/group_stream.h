/*
 * A stream of a group, groups/<g>/read/<topic> or json/<topic>, as one open file
 * description has it: a member that joins at the open and leaves at the close, what was
 * handed out, and the reads that wait.
 *
 *     rc = group_stream_open(&params, &stream);       // begins to join
 *     group_stream_await(stream, &waiter);            // waiter->done(): it has joined
 *     group_stream_read(stream, reply, at, size, nonblock);
 *     group_stream_close(stream);
 *
 * A read at `at` finishes every line below it (group_history.h). It is answered when
 * that is committed: if this node dies, what is worked on twice is what was in hand,
 * and nothing before it. With commit=manual it does not wait.
 *
 * Any thread. What has to wait goes on on the mount's worker.
 */
#ifndef TOPICFS_GROUP_STREAM_H
#define TOPICFS_GROUP_STREAM_H

#include "fs/parking.h"
#include "fs/reply.h"
#include "fs/stream.h"
#include "fs/worker.h"

struct group_stream;

struct group_stream_params {
    struct groups *groups; /* borrowed, as the next two */
    struct parking *parking;
    struct worker *worker;
    const char *group;
    const char *topic;
    struct topic_id topic_id;
    enum stream_format format;
    int key_delimiter; /* of STREAM_JSON */
};

int group_stream_open(const struct group_stream_params *params,
                      struct group_stream **out);
/* Parked reads are answered, the member leaves; no callback runs when it returns. Not
 * on the worker. */
void group_stream_close(struct group_stream *stream);

/* Whoever opens waits until the member has joined. */
struct group_stream_waiter {
    /* Once, on any thread: 0; -EINTR; E_NO_COORDINATOR after half a minute; what the
     * join failed with. */
    void (*done)(struct group_stream_waiter *waiter, int error);
    /* As reply_on_interrupt(). */
    void (*on_interrupt)(struct group_stream_waiter *waiter, void (*fn)(void *arg),
                         void *arg);
};
void group_stream_await(struct group_stream *stream,
                        struct group_stream_waiter *waiter);

/* As stream_read(), stream_poll(); a read of what was finished: -ESTALE, beyond what
 * was handed out: -EINVAL. */
void group_stream_read(struct group_stream *stream, struct reply *reply, int64_t at,
                       size_t size, bool nonblock);
bool group_stream_poll(struct group_stream *stream, struct stream_notify *notify);

#endif
