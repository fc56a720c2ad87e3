/*
 * The flusher: threads that run flushes, so that no appender waits inside fdatasync and
 * flushes of different partitions do not wait for each other.
 *
 * Threads are started on demand up to a maximum and stay. A job is queued at most once
 * at a time: its owner sees to that. Jobs run without any lock of the flusher held.
 */
#ifndef TOPICFS_FLUSHER_H
#define TOPICFS_FLUSHER_H

struct flusher;

struct flusher_job {
    void (*run)(struct flusher_job *job);
    struct flusher_job *prev, *next; /* [flusher->lock] */
};

struct flusher *flusher_start(unsigned max_threads); /* NULL: no memory */
/* Runs what is queued, then ends the threads. Nothing may be queued any more. */
void flusher_stop(struct flusher *flusher);

/* Any thread. The job must stay put until it has run. */
void flusher_queue(struct flusher *flusher, struct flusher_job *job);

#endif
