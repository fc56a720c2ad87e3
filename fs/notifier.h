/*
 * What the kernel is told without having asked: attributes that changed, which it else
 * keeps for a second, and polls that became ready. Never that a name is gone: see
 * notifier.c.
 *
 * Two threads of its own, because a notification must never be sent while a request is
 * being answered. Polls have the second one, so that they don't wait behind a change of
 * a thousand topics.
 *
 *     notifier_start(session, nodes, cluster, &notifier);
 *     stream_poll(stream, notifier_poll_new(notifier, ph));
 *     notifier_stop(notifier);
 */
#ifndef TOPICFS_NOTIFIER_H
#define TOPICFS_NOTIFIER_H

#include "fs/fuse_api.h"
#include "fs/node.h"
#include "fs/stream.h"

struct notifier;

/* Subscribes to the cluster. All are borrowed. 0 or a negative code. */
int notifier_start(struct fuse_session *session, struct node_table *nodes,
                   struct cluster *cluster, struct notifier **out);

/*
 * Unsubscribes and ends the threads. Nothing is sent afterwards, but streams may still
 * fire and free what notifier_poll_new() gave them, until notifier_free(). All requests
 * must have been answered: an invalidation under way could wait for one.
 */
void notifier_stop(struct notifier *notifier);
void notifier_free(struct notifier *notifier); /* accepts NULL; stopped before */

/* Takes the poll handle. NULL: no memory (the handle is destroyed). */
struct stream_notify *notifier_poll_new(struct notifier *notifier,
                                        struct fuse_pollhandle *handle);

#endif
