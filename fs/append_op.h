/*
 * One request of an appender that reaches the log: the batches of a write, the
 * completed line of a FLUSH, or the waits of an fsync. Private to appender.c and
 * append_op.c.
 *
 *     op = append_op_new(appender, kind, reply, parts);      // [appender->order]
 *     for each part: append_op_produce() or append_op_await()
 *     append_op_launch(op)   // unlocks [order]; answers now or parks
 *
 * Two locks, because a completion may run inside another appender's
 * partition_produce(): order   held while one request is put together and handed to its
 * partitions, so that the writes of one open file keep their order. Never taken by a
 * completion. lock    a leaf, for what completions touch. A failed write is left on
 * `failures`; the next request applies it to the state under [order], before it looks
 * at that.
 */
#ifndef TOPICFS_APPEND_OP_H
#define TOPICFS_APPEND_OP_H

#include "fs/appender.h"
#include "fs/pending.h"
#include "replica/replica.h"

#include <pthread.h>
#include <stdatomic.h>

enum append_kind {
    APPEND_WRITE,   /* answers with `consumed`; a failure restores the pending part */
    APPEND_FLUSH,   /* answers 0; a failure has lost the part, and says so */
    APPEND_RELEASE, /* nobody hears of an error: it is logged */
    APPEND_FSYNC,
};

struct append_part {
    struct produce_waiter waiter;
    struct append_op *op;
    struct partition *handle; /* borrowed from the appender; NULL: not handed over */
    int32_t slot;             /* in appender->ends */
    bool cancelled;
    uint64_t last_queued;         /* APPEND_FSYNC: what it covers */
    struct produce_result result; /* see append_part_stands() */
};

/* How keys went to partitions: a resumed write must split as it did before. */
struct append_routing {
    int delimiter;
    int32_t partitions;
    int32_t keyless;
};

struct append_op {
    struct parking_waiter parked;
    atomic_int remaining; /* parts not yet ended, and one for the submitter */
    struct appender *appender;
    struct reply *reply; /* NULL: nobody waits for an answer */
    enum append_kind kind;
    bool is_parked;
    bool unsettled; /* appended, but given up before it was acknowledged */
    enum parking_reason
        reason; /* of having been given up, where parts are `cancelled` */
    int64_t timeout_ms;

    struct append_part *parts;
    size_t part_count;
    struct append_part one; /* `parts` of the usual case */

    /* APPEND_WRITE: for undoing and for resuming */
    size_t consumed;
    uint64_t state_before; /* ids of the line state around this write */
    uint64_t state_after;
    struct pending before; /* what was pending, and the state of lines */
    struct lines_state lines_before;
    size_t write_length;
    uint64_t write_hash[2];
    struct lines_cut cut;
    struct append_routing routing;
    bool owns_tail; /* resuming brings `tail` and `cut.after` back */
    struct pending tail;

    struct append_op *next; /* in failures */
};

struct appender {
    struct appender_params params; /* [const] */
    struct partition *only;        /* [const] NULL: by key */

    pthread_mutex_t order;
    const struct cluster_snapshot *snapshot; /* [order] */
    const struct topic *topic;               /* [order] in the snapshot */
    struct partition **partitions; /* [order] by key: handles, made when used */
    int32_t partition_count;       /* [order] */
    struct pending pending;        /* [order] */
    struct lines_state lines;      /* [order] */
    uint64_t state;                /* [order] names the content of pending and lines */
    uint64_t last_state;           /* [order] */
    struct append_op *resume;      /* [order] interrupted, waiting for the same bytes */

    atomic_size_t references; /* the open file, and each op until its answer */
    atomic_bool spare_used;
    struct append_op spare;    /* so that the usual write needs no memory */
    _Atomic uint32_t rotation; /* where the mount gave none */

    pthread_mutex_t lock;
    struct sync_range *ends;    /* [lock] per partition: what fsync is to cover */
    struct sync_range one_end;  /* [lock] `ends` of one partition */
    int32_t end_count;          /* [lock] 1, or by key as many as were used */
    struct append_op *failures; /* [lock] newest first */
};

/* NULL: no memory. Armed. */
struct append_op *append_op_new(struct appender *appender, enum append_kind kind,
                                struct reply *reply, size_t parts);
/* Forgets one that is armed and will not be launched; nothing of it may be pending. */
void append_op_abandon(struct append_op *op);
/* Forgets one that is not armed: a failure, or one to resume. NULL is fine. */
void append_op_forget(struct append_op *op);

/* Makes the op ready to be launched (again). Takes a reference on the appender. */
void append_op_arm(struct append_op *op, struct reply *reply);

/* Each part is given to one of these. Its result comes now or later; returned is the
 * error that came now, else 0. */
int append_op_produce(struct append_part *part, struct partition *partition,
                      const char *bytes, size_t length, uint32_t count);
int append_op_sync(struct append_part *part, struct partition *partition,
                   const struct sync_range *range);
/* Goes on with what was given up; produces the bytes anew if nothing of it is left. */
int append_op_resume(struct append_part *part, struct partition *partition,
                     const char *bytes, size_t length, uint32_t count);
/* The part ends with its present result. */
void append_op_skip(struct append_part *part);

/* The part was appended, or is accepted or on its way to be. */
bool append_part_stands(const struct append_part *part);
/* Some part stands. */
bool append_op_appended(const struct append_op *op);
/* Some part has not ended yet. */
bool append_op_pending(const struct append_op *op);

/* Unlocks [order]; then the answer goes out, now or when the parts have ended. The op
 * is not the caller's any more. */
void append_op_launch(struct append_op *op);

/* The last one frees the appender. */
void appender_unref(struct appender *appender);

#endif
