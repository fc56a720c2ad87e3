/*
 * What changes the cluster, on one thread that may wait for the store: FUSE workers
 * hand an operation over and go on; done() answers the request.
 *
 *     operation_init(operation, OPERATION_CREATE_TOPIC, done);
 *     ... fill in what the kind needs ...
 *     fuse_req_interrupt_func(req, (calls operations_interrupt), operation);
 *     operations_submit(operations, operation);
 *
 * One after the other, in the order of submission. Bounded: beyond OPERATIONS_MAX that
 * wait, done() gets -EBUSY. One that was interrupted while it runs has a moment to end,
 * for any signal interrupts; then its requester is let go, and it goes on alone.
 */
#ifndef TOPICFS_OPERATIONS_H
#define TOPICFS_OPERATIONS_H

#include "fs/parking.h"
#include "fs/tree.h"

#include "replica/replica.h"

struct operations;

enum { OPERATIONS_MAX = 1024, OPERATIONS_GRACE_MS = 200 };

enum operation_kind {
    OPERATION_CREATE_TOPIC,  /* topic, uid, gid, mode */
    OPERATION_DELETE_TOPIC,  /* topic */
    OPERATION_ADD_PARTITION, /* topic, topic_id, partition */
    OPERATION_SET_CONFIG,    /* topic, topic_id, json */
    OPERATION_SET_OWNER, /* topic ("" = topics/), topic_id, uid, gid, mode; -1 leaves */
    OPERATION_ADMIN,     /* name, json */
};

enum operation_state {
    OPERATION_NEW,
    OPERATION_QUEUED,
    OPERATION_RUNNING,
    OPERATION_INTERRUPTED, /* done() is called from within operations_interrupt() */
};

/* Embedded in the caller's request; the caller's until submitted, and from done() on.
 */
struct operation {
    enum operation_kind kind;
    char topic[TOPIC_NAME_MAX + 1];
    struct topic_id
        topic_id; /* E_TOPIC_DELETED if the name is another topic's by now */
    char name[TREE_NAME_MAX]; /* of the admin operation */
    int32_t partition;
    uid_t uid;
    gid_t gid;
    mode_t mode;
    cJSON *json; /* borrowed */
    /* Exactly once: on the operations' thread, in operations_submit() if refused, in
     * operations_interrupt(), or on the timer thread of `parking`. 0 or a code. */
    void (*done)(struct operation *operation, int code);
    enum operation_state state; /* done() may read it */
    /* private: [operations->lock] */
    bool interrupted;
    bool is_parked; /* its grace has begun */
    struct parking_waiter parked;
    struct operations *operations;
    struct operation *prev, *next;
};

/* All are borrowed. NULL: no memory, no thread. */
struct operations *operations_start(struct cluster *cluster, struct broker *broker,
                                    struct parking *parking);
/* Finishes what runs, ends what waits with -EINTR, and later submissions too; the
 * thread is gone when it returns. */
void operations_stop(struct operations *operations);
void operations_free(struct operations *operations); /* accepts NULL; stopped before */

void operation_init(struct operation *operation, enum operation_kind kind,
                    void (*done)(struct operation *operation, int code));
void operations_submit(struct operations *operations, struct operation *operation);
/* An operation that still waits ends with -EINTR, in here; one not yet submitted as
 * soon as it is; one that runs with -EINTR after OPERATIONS_GRACE_MS, and may still
 * come to pass. Not after done(). */
void operations_interrupt(struct operations *operations, struct operation *operation);

#endif
