#include "tests/sim/client.h"

#include "coord/placement.h"
#include "replica/producer_state.h"

#include <string.h>

enum { STEP_MS = 100, RESEND_MS = 300 };

static void new_producer(struct client *client)
{
    client->producer_id = client->world->next_producer_id++;
    client->next_sequence = 0;
    client->out_count = 0;
}

void client_init(struct client *client, struct world *world, int32_t index)
{
    static const int32_t acks[] = {-1, -1, -1, 1, 0};
    *client = (struct client){.world = world, .index = index};
    client->slot = index % world->profile.slot_count;
    client->acks = index < 2 ? -1 : acks[prng_below(&world->prng, 5)];
    client->target =
        (int32_t)prng_below(&world->prng, (uint32_t)world->profile.node_count);
    client->give_up_ms = prng_between(&world->prng, 1000, world->profile.give_up_ms);
    new_producer(client);
}

static void send(struct client *client, struct outgoing *outgoing)
{
    struct world *world = client->world;
    struct message *message =
        world_message(world, MESSAGE_PRODUCE, ADDRESS_CLIENT, client->target);
    message->slot = client->slot;
    message->topic_id = client->topic_id;
    message->u.produce.client = client->index;
    message->u.produce.acks = client->acks;
    message->u.produce.batch = outgoing->batch;
    outgoing->sent_ms = world_ms(world);
    world_send(world, message);
}

static void make(struct client *client)
{
    struct world *world = client->world;
    struct outgoing *outgoing = &client->out[client->out_count++];
    *outgoing = (struct outgoing){
        .batch = {.message_count = 1 + prng_below(&world->prng, 3),
                  .base_sequence = client->next_sequence,
                  .payload = world->next_payload++,
                  .producer_id = client->producer_id},
        .first_sent_ms = world_ms(world),
    };
    client->next_sequence =
        producer_sequence_after(client->next_sequence, outgoing->batch.message_count);
    send(client, outgoing);
}

/* A topic that was made again is another topic; what is given up is never sent again.
 */
static void renew(struct client *client)
{
    const struct entry *entry =
        &client->world->store.entries[KEY_PARTITION + client->slot];
    uint32_t topic_id = entry->present ? entry->value.partition.topic_id : 0;
    if (topic_id != client->topic_id) {
        client->topic_id = topic_id;
        new_producer(client);
    }
    if (client->out_count &&
        world_ms(client->world) - client->out[0].first_sent_ms > client->give_up_ms) {
        new_producer(client);
    }
}

static void resend(struct client *client)
{
    struct world *world = client->world;
    bool late = false;
    for (uint32_t i = 0; i < client->out_count; i++) {
        late = late || (!client->out[i].acknowledged &&
                        world_ms(world) - client->out[i].sent_ms >= RESEND_MS);
    }
    if (!late) {
        return;
    }
    const struct entry *state = &world->store.entries[KEY_STATE + client->slot];
    if (prng_below(&world->prng, 3) == 0) {
        client->target =
            (int32_t)prng_below(&world->prng, (uint32_t)world->profile.node_count);
    } else if (state->present && state->value.state.leader > 0 &&
               prng_below(&world->prng, 2)) {
        client->target = state->value.state.leader - 1;
    }
    for (uint32_t i = 0; i < client->out_count; i++) {
        if (!client->out[i].acknowledged) {
            send(client, &client->out[i]);
        }
    }
}

void client_step(struct client *client)
{
    struct world *world = client->world;
    renew(client);
    if (client->topic_id) {
        resend(client);
        uint32_t most = 1 + prng_below(&world->prng, IN_FLIGHT_MAX);
        if (client->out_count < most) {
            make(client);
        }
    }
    int64_t after_us = prng_between(&world->prng, STEP_MS * 200, STEP_MS * 1800);
    world_at(world, world->now_us + after_us, EVENT_CLIENT, client->index);
}

static void resolved(struct client *client)
{
    uint32_t done = 0;
    while (done < client->out_count && client->out[done].acknowledged) {
        done++;
    }
    client->out_count -= done;
    memmove(client->out, client->out + done, client->out_count * sizeof client->out[0]);
}

void client_receive(struct client *client, const struct message *message)
{
    struct world *world = client->world;
    if (message->topic_id != client->topic_id) {
        return;
    }
    for (uint32_t i = 0; i < client->out_count; i++) {
        struct outgoing *outgoing = &client->out[i];
        if (outgoing->batch.payload != message->u.produced.payload) {
            continue;
        }
        if (message->u.produced.error == 0) {
            outgoing->acknowledged = true;
            client->last_ack_ms = world_ms(world);
            client->acknowledged++;
            world->messages_acknowledged += outgoing->batch.message_count;
            resolved(client);
        } else if (message->u.produced.leader_hint >= 0) {
            client->target = message->u.produced.leader_hint;
            outgoing->sent_ms = world_ms(world) - RESEND_MS + STEP_MS;
        }
        return;
    }
}

/* ---- the operator -------------------------------------------------------------------
 */

static uint32_t registered(const struct world *world, int32_t *ids)
{
    uint32_t count = 0;
    for (int32_t i = 0; i < world->profile.node_count; i++) {
        if (world->store.entries[KEY_REGISTRATION + i].present) {
            ids[count++] = i + 1;
        }
    }
    return count;
}

static void draw_settings(struct world *world, struct partition_value *value)
{
    static const int64_t unclean[] = {-1, -1, -1, -1, 0, 2000};
    struct prng *prng = &world->prng;
    value->min_insync = value->replicas.count >= 3 ? 2 : 1;
    if (prng_below(prng, 3) == 0) {
        value->min_insync = (int32_t)prng_between(prng, 1, value->replicas.count);
    }
    value->flush_ack = prng_below(prng, 5) < 3;
    value->unclean_wait_ms = unclean[prng_below(prng, 6)];
    value->lag_time_max_ms = prng_between(prng, 800, 3000);
    value->lag_max_messages = prng_below(prng, 4) ? 0 : prng_between(prng, 5, 40);
}

void operator_create(struct world *world, int32_t slot)
{
    int32_t ids[NODES_MAX];
    uint32_t count = registered(world, ids);
    struct transaction transaction = {.writer = -1};
    if (count < 2) {
        return;
    }
    uint32_t factor = prng_below(&world->prng, 5) ? (count < 3 ? count : 3)
                                                  : 1 + prng_below(&world->prng, count);
    transaction_compare(&transaction, KEY_PARTITION + slot, true, 0);
    struct partition_value *value =
        &transaction_put(&transaction, KEY_PARTITION + slot, 0)->partition;
    value->topic_id = world->next_topic_id++;
    (void)placement_replicas(ids, count, factor, prng_below(&world->prng, 100),
                             (uint32_t)slot, value->replicas.ids);
    value->replicas.count = factor;
    draw_settings(world, value);
    WORLD_TRACE(world,
                "topic %u is made as p%d: %u replicas, min_insync %d, flush %s, "
                "unclean %lld",
                value->topic_id, slot, factor, value->min_insync,
                value->flush_ack ? "ack" : "os", (long long)value->unclean_wait_ms);
    (void)simstore_commit(&world->store, &transaction);
}

static void delete_topic(struct world *world, int32_t slot)
{
    struct transaction transaction = {.writer = -1};
    transaction_remove(&transaction, KEY_PARTITION + slot);
    transaction_remove(&transaction, KEY_STATE + slot);
    WORLD_TRACE(world, "the topic of p%d is deleted", slot);
    (void)simstore_commit(&world->store, &transaction);
}

static void reassign(struct world *world, struct partition_value *value)
{
    int32_t ids[NODES_MAX];
    uint32_t count = registered(world, ids);
    if (value->target.count > 0) {
        value->target = value->original; /* writing the old assignment cancels */
        return;
    }
    uint32_t factor = value->replicas.count;
    if (factor > count) {
        return;
    }
    value->original = value->replicas;
    value->target.count = factor;
    (void)placement_replicas(ids, count, factor, prng_below(&world->prng, 100),
                             prng_below(&world->prng, 8), value->target.ids);
}

static void change(struct world *world, int32_t slot)
{
    struct transaction transaction = {.writer = -1};
    struct partition_value *value =
        &transaction_put(&transaction, KEY_PARTITION + slot, 0)->partition;
    *value = world->store.entries[KEY_PARTITION + slot].value.partition;
    switch (prng_below(&world->prng, 8)) {
    case 0:
        reassign(world, value);
        WORLD_TRACE(world, "p%d is to be moved", slot);
        break;
    case 1:
        value->prefer = true;
        break;
    case 2:
        value->min_insync =
            (int32_t)prng_between(&world->prng, 1, value->replicas.count);
        WORLD_TRACE(world, "p%d: min_insync %d", slot, value->min_insync);
        break;
    default:
        return;
    }
    (void)simstore_commit(&world->store, &transaction);
}

/* A partition that was moved to fewer replicas than its minimum takes no messages until
 * somebody sets that right. */
static void repair(struct world *world, int32_t slot)
{
    struct transaction transaction = {.writer = -1};
    struct partition_value *value =
        &transaction_put(&transaction, KEY_PARTITION + slot, 0)->partition;
    *value = world->store.entries[KEY_PARTITION + slot].value.partition;
    if (value->target.count == 0 &&
        value->min_insync > (int32_t)value->replicas.count) {
        value->min_insync = (int32_t)value->replicas.count;
        (void)simstore_commit(&world->store, &transaction);
    }
}

void operator_step(struct world *world)
{
    for (int32_t slot = 0; world->store.up && slot < world->profile.slot_count;
         slot++) {
        if (!world->store.entries[KEY_PARTITION + slot].present) {
            operator_create(world, slot);
        } else if (!world->calm &&
                   prng_permille(&world->prng, world->profile.deletes)) {
            delete_topic(world, slot);
        } else if (!world->calm) {
            change(world, slot);
        } else {
            repair(world, slot);
        }
    }
    world_at(world, world->now_us + prng_between(&world->prng, 200000, 1500000),
             EVENT_OPERATOR, 0);
}
