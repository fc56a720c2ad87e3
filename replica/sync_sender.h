/*
 * Asks the leaders of partitions to make durable what users of this node wait for
 * (partition_sync): one call of a partition at a time, again and again until nobody
 * waits any more.
 *
 *     sync_sender_init(&sender, &params, client);
 *     // Somebody waits, or who leads changed:
 *     sync_sender_notice(&sender, partition);
 *     loop:
 *         due_ms = sync_sender_look(&sender);
 *         peer_client_run(client, ...);
 *     sync_sender_end(&sender);     // before the client
 *
 * All on the client's thread: the forwarder's.
 */
#ifndef TOPICFS_SYNC_SENDER_H
#define TOPICFS_SYNC_SENDER_H

#include "replica/forwarder.h"
#include "replica/peer_client.h"

struct sync_asking;

struct sync_sender {
    const struct forwarder_params *params; /* borrowed */
    struct peer_client *client;            /* borrowed */
    struct sync_asking *askings;           /* by partition */
};

void sync_sender_init(struct sync_sender *sender, const struct forwarder_params *params,
                      struct peer_client *client);
/* Gives up what is under way; who waits for it is not told. */
void sync_sender_end(struct sync_sender *sender);

/* Takes a reference of the partition for as long as somebody waits. */
void sync_sender_notice(struct sync_sender *sender, struct partition *partition);
/* Does what is due; returns when to look again, unless a notice or an answer comes
 * before. */
int64_t sync_sender_look(struct sync_sender *sender);

#endif
