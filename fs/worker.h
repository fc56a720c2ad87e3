/*
 * A thread that runs what other threads hand to it, one after the other: for what must
 * not be done where it was noticed, such as reading the disk from within a callback.
 *
 *     work->run = run;
 *     worker_add(worker, work);        // any thread; run(work) comes once
 *     worker_stop(worker);             // runs what was added, then ends
 */
#ifndef TOPICFS_WORKER_H
#define TOPICFS_WORKER_H

struct worker;

/* Embedded in what it belongs to; not added again before run() began. */
struct work {
    void (*run)(struct work *work);
    struct work *next; /* private */
};

struct worker *worker_start(void); /* NULL: no memory, no thread */
void worker_add(struct worker *worker, struct work *work);
/* Frees it; nothing may be added any more. NULL is fine. */
void worker_stop(struct worker *worker);

#endif
