/*
 * Inside of a group's stream, for group_stream*.c only: the stream's life, its opening
 * and poll (group_stream.c), its reads (group_stream_read.c), and what waits
 * (group_stream_op.c):
 *
 * What waits is an `op`: the opener, until the member has joined, or a read. One thread
 * at a time works on an op; it works until the op is answered or has to wait for
 * something, and then whoever brings that hands the op to the worker:
 *
 *     RUNNING      somebody works on it
 *     WAIT_CHANGE  for changed(): joined, or data
 *     ASKING       is about to wait for a commit; its end may come before the wait
 *     ASKED        the end came before
 *     WAIT_SYNC    waits for the commit
 *
 * Locks: `history_lock` guards what was handed out, disk reads and the answer from its
 * memory included, so that chunks keep their order; `lock` guards ops and their states,
 * and may be taken under it. Neither is held when the member or the parking waits for a
 * callback that takes it: callbacks take `lock` alone.
 */
#ifndef TOPICFS_GROUP_STREAM_INTERNAL_H
#define TOPICFS_GROUP_STREAM_INTERNAL_H

#include "fs/group_stream.h"

#include "fs/group_history.h"

#include <pthread.h>

enum stream_op_state { RUNNING, WAIT_CHANGE, ASKING, ASKED, WAIT_SYNC };

/* What waits: the opener, until the member has joined, or a read. */
struct stream_op {
    struct work work;
    void (*go_on)(struct stream_op *op); /* [const] works on it */
    struct parking_waiter parked;
    struct group_sync sync;
    struct group_stream *stream;
    bool is_parked;                /* of who works on it */
    bool consumed;                 /* likewise: what lies below `at` was finished */
    enum stream_op_state state;    /* [lock] */
    int given_up;                  /* [lock] 0, or the answer */
    struct stream_op *prev, *next; /* [lock] */
    /* of a read; reply NULL: the opener */
    struct reply *reply;
    int64_t at;
    size_t size;
    bool nonblock;
};

struct group_stream {
    struct parking *parking; /* [const], as the next three */
    struct worker *worker;
    enum stream_format format;
    int key_delimiter;
    struct group_member *member; /* [const] */
    pthread_mutex_t history_lock;
    struct group_history *history; /* [history_lock] */
    struct buf lines;              /* [history_lock] of STREAM_JSON */
    pthread_mutex_t lock;
    pthread_cond_t idle;                /* an op is through */
    uint64_t changes;                   /* [lock] calls of changed() */
    struct stream_op *ops;              /* [lock] */
    bool closing;                       /* [lock] */
    int64_t next_at;                    /* [lock] where the last read ended */
    struct stream_notify *notify;       /* [lock] */
    struct group_stream_waiter *waiter; /* the opener's */
};

/* ---- ops: of who works on one, no lock held; group_stream_op.c ---- */

/* NULL: no memory. */
struct stream_op *stream_op_new(struct group_stream *stream,
                                void (*go_on)(struct stream_op *op));
void stream_op_begin(struct stream_op *op);
/* true: it waits for a change and is not ours any more; false: something changed since
 * `seen`, or it was given up. */
bool stream_op_wait_change(struct stream_op *op, uint64_t seen);
/* true: everything finished so far is committed, or the op was given up. false: it
 * waits for that and is not ours any more. */
bool stream_op_synchronise(struct stream_op *op);
/* 0, or what it is to be answered. */
int stream_op_given_up(struct stream_op *op);
/* Before it is answered, and after that: the stream may go once it is finished. */
void stream_op_unpark(struct stream_op *op);
void stream_op_finish(struct stream_op *op);
/* Both, and the answer in between. */
void stream_op_fail(struct stream_op *op, int error);

/* How often it changed. */
uint64_t group_stream_changes(struct group_stream *stream);
/* The member's changed(). */
void group_stream_changed(void *stream);

#endif
