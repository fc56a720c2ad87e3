#include "replica/partition_tickets.h"

#include "replica/partition_internal.h"

#include <stdlib.h>
#include <utlist.h>

struct outbox_ticket {
    uint64_t id;
    struct outbox_write *write; /* NULL: it ended */
    int64_t acks;               /* the rest: of what ended */
    struct produce_result result;
    int64_t until_ms;
    struct outbox_ticket *prev, *next;
};

void partition_ticket_free(struct partition *partition, struct outbox_ticket *ticket)
{
    DL_DELETE(partition->tickets, ticket);
    partition->ticket_count--;
    free(ticket);
}

/* Those under way are not counted out: the bytes of the outbox limit them. */
static void forget_old(struct partition *partition)
{
    int64_t now_ms = clock_mono_ms(partition->clock);
    struct outbox_ticket *ticket;
    struct outbox_ticket *next;
    DL_FOREACH_SAFE(partition->tickets, ticket, next)
    {
        if (!ticket->write &&
            (ticket->until_ms <= now_ms || partition->ticket_count >= TICKETS_MAX)) {
            partition_ticket_free(partition, ticket);
        }
    }
}

struct outbox_ticket *partition_ticket_new(struct partition *partition,
                                           struct outbox_write *write)
{
    struct outbox_ticket *ticket = calloc(1, sizeof *ticket);
    if (!ticket) {
        return NULL;
    }
    forget_old(partition);
    ticket->id = ++partition->last_ticket;
    ticket->write = write;
    DL_APPEND(partition->tickets, ticket);
    partition->ticket_count++;
    return ticket;
}

uint64_t partition_ticket_id(const struct outbox_ticket *ticket)
{
    return ticket->id;
}

void partition_ticket_end(struct partition *partition, struct outbox_ticket *ticket,
                          int64_t acks, const struct produce_result *result)
{
    ticket->write = NULL;
    ticket->acks = acks;
    ticket->result = *result;
    ticket->until_ms =
        clock_mono_ms(partition->clock) + partition->config.delivery_timeout_ms;
}

struct outbox_ticket *partition_ticket_find(struct partition *partition, uint64_t id)
{
    struct outbox_ticket *ticket;
    DL_SEARCH_SCALAR(partition->tickets, ticket, id, id);
    if (ticket && !ticket->write &&
        ticket->until_ms <= clock_mono_ms(partition->clock)) {
        partition_ticket_free(partition, ticket);
        return NULL;
    }
    return ticket;
}

struct outbox_write *partition_ticket_outcome(const struct outbox_ticket *ticket,
                                              int64_t *acks,
                                              struct produce_result *result)
{
    if (!ticket->write) {
        *acks = ticket->acks;
        *result = ticket->result;
    }
    return ticket->write;
}

void partition_tickets_free(struct partition *partition)
{
    while (partition->tickets) {
        partition_ticket_free(partition, partition->tickets);
    }
}
