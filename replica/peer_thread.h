/*
 * A thread that calls other nodes for the partitions of this one: what the replicator
 * and the forwarder have in common. It owns a peer client, and is told by others of
 * partitions that have something for it.
 *
 *     rc = peer_thread_start(&thread, config, engine_main, engine);
 *     peer_thread_notice(&thread, partition);               // any thread
 *     ...
 *     engine_main:
 *         while (peer_thread_take(&thread, take_notice, engine)) {
 *             ... peer_client_send(thread.client, ...) ...
 *             peer_client_run(thread.client, until_something_is_due_ms);
 *         }
 *     ...
 *     peer_thread_stop(&thread);     // no notices may come any more
 *     ... free the calls ...
 *     peer_thread_free(&thread);
 */
#ifndef TOPICFS_PEER_THREAD_H
#define TOPICFS_PEER_THREAD_H

#include "replica/peer_client.h"

#include <pthread.h>
#include <stdbool.h>

struct partition;

struct peer_thread {
    struct peer_client *client; /* [thread; peer_client_wake() is for any] */
    pthread_t thread;           /* [start and stop] */
    pthread_mutex_t lock;
    struct peer_notice *notices; /* [lock] */
    bool stopping;               /* [lock] */
    bool awake; /* [lock] it takes notices before it sleeps, and need not be woken */
};

/* `config` is borrowed until peer_thread_free(). 0 or a negative errno; also then
 * peer_thread_free() is to be called. */
int peer_thread_start(struct peer_thread *thread, const struct mount_config *config,
                      void *(*run)(void *arg), void *arg);
/* Ends peer_thread_take() and joins; drops the notices that were not taken. */
void peer_thread_stop(struct peer_thread *thread);
/* No call may be running. */
void peer_thread_free(struct peer_thread *thread);

/* Any thread, lock of the partition or not. Keeps a reference until it is taken. */
void peer_thread_notice(struct peer_thread *thread, struct partition *partition);

/* [thread] Calls take() for each notice, which borrows the partition. false: the thread
 * is to end; then no notice was taken. */
bool peer_thread_take(struct peer_thread *thread,
                      void (*take)(void *arg, struct partition *partition), void *arg);

/* [thread] From within a call's done(), behind which peer_client_run() returns without
 * sleeping: notices that come until the next peer_thread_take() wake nobody. */
void peer_thread_stay_awake(struct peer_thread *thread);

/* Where node `id` is reached; false: it is not alive, or serves nobody. */
bool peer_address_find(const struct cluster_snapshot *snapshot, int32_t id,
                       struct peer_address *out);

#endif
