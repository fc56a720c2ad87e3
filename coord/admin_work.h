/*
 * The admin operations that run for a while, as the store has them: which partitions
 * they name, and what of them is done. The value in the store is the request, and of a
 * reassignment for each partition also "original": the replicas when it was asked for.
 *
 *     admin_work_read(&work, ADMIN_REASSIGN, snapshot);
 *     const struct admin_task *task = admin_work_find(&work, topic, partition);
 *     ...
 *     admin_work_free(&work);
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_ADMIN_WORK_H
#define TOPICFS_ADMIN_WORK_H

#include "coord/buf.h"
#include "coord/snapshot.h"

enum admin_task_state {
    ADMIN_TASK_RUNS,
    ADMIN_TASK_DONE,
    ADMIN_TASK_FAILED, /* preferred election: its replica is not live and in sync */
};

struct admin_task {
    const struct snapshot_topic *topic; /* borrowed from the snapshot */
    int32_t partition;
    struct replica_ids target;   /* reassignment only */
    struct replica_ids original; /* reassignment only */
    enum admin_task_state state;
};

struct admin_work { /* sorted by topic name and partition, each once */
    struct admin_task *tasks;
    size_t count;
};

/* What runs by the snapshot; partitions that are gone are left out, and a value that is
 * malformed names none. 0 or -ENOMEM. */
int admin_work_read(struct admin_work *work, enum admin_operation operation,
                    const struct snapshot *snapshot);
void admin_work_free(struct admin_work *work);

const struct admin_task *admin_work_find(const struct admin_work *work,
                                         const struct snapshot_topic *topic,
                                         int32_t partition);

/* Adds a task, or replaces the one of that partition, keeping its `original` while it
 * runs. 0 or -ENOMEM. */
int admin_work_put(struct admin_work *work, const struct admin_task *task);

/* The value for the store, of those that run; the buffer's error. */
int admin_work_encode(const struct admin_work *work, enum admin_operation operation,
                      struct buf *out);

#endif
