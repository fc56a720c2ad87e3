/*
 * Producers, each on one partition, and the operator who makes and deletes topics,
 * moves partitions, and asks for preferred leaders.
 */
#ifndef TOPICFS_SIM_CLIENT_H
#define TOPICFS_SIM_CLIENT_H

#include "tests/sim/world.h"

enum { IN_FLIGHT_MAX = 5 };

struct outgoing {
    struct simbatch batch;
    int64_t first_sent_ms;
    int64_t sent_ms;
    bool acknowledged;
};

struct client {
    struct world *world;
    int32_t index;
    int32_t slot;
    int32_t acks;
    uint32_t topic_id;
    int64_t producer_id;
    int32_t next_sequence;
    int32_t target; /* node */
    int64_t give_up_ms;
    uint32_t out_count;
    struct outgoing out[IN_FLIGHT_MAX];
    int64_t last_ack_ms; /* of an acks=all batch */
    uint64_t acknowledged;
};

void client_init(struct client *client, struct world *world, int32_t index);
void client_step(struct client *client);
void client_receive(struct client *client, const struct message *message);
void operator_step(struct world *world);
void operator_create(struct world *world, int32_t slot);

#endif
