/*
 * Tickets of a partition's writes that were given up on their way to the leader
 * (partition_outbox.h): while one is under way, a ticket leads to it; afterwards, to
 * its outcome, for the topic's delivery_timeout_ms and at most TICKETS_MAX of them.
 *
 *     write->ticket = partition_ticket_new(partition, write);
 *     ... partition_ticket_id() goes to whoever gave up ...
 *     partition_ticket_end(partition, write->ticket, acks, &result);    // it ended
 *
 *     ticket = partition_ticket_find(partition, id);                    // resumed
 *     write = partition_ticket_outcome(ticket, &acks, &result);
 *     partition_ticket_free(partition, ticket);
 *
 * All with partition->lock held.
 */
#ifndef TOPICFS_PARTITION_TICKETS_H
#define TOPICFS_PARTITION_TICKETS_H

#include "replica/partition.h"

struct outbox_ticket;
struct outbox_write;

enum { TICKETS_MAX = 256 };

/* Owned by the partition. NULL: no memory. Forgets outcomes that are too old. */
struct outbox_ticket *partition_ticket_new(struct partition *partition,
                                           struct outbox_write *write);
uint64_t partition_ticket_id(const struct outbox_ticket *ticket);

/* The write is about to be freed. */
void partition_ticket_end(struct partition *partition, struct outbox_ticket *ticket,
                          int64_t acks, const struct produce_result *result);

/* NULL: there is none, or not any more. */
struct outbox_ticket *partition_ticket_find(struct partition *partition, uint64_t id);

/* The write that is still under way; NULL: it ended, with *acks and *result. */
struct outbox_write *partition_ticket_outcome(const struct outbox_ticket *ticket,
                                              int64_t *acks,
                                              struct produce_result *result);

void partition_ticket_free(struct partition *partition, struct outbox_ticket *ticket);

#endif
