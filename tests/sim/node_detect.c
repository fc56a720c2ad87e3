/*
 * Fast detection: any node that finds another one's port closed may end its
 * registration. In the product only those look that have to do with it; here everybody
 * does, which is harder on the rules.
 */
#include "tests/sim/node.h"

#include <string.h>

/* ---- what was seen ------------------------------------------------------------------
 */

static int64_t seen_ms(const struct node *node, const struct deposed_node *deposed)
{
    for (int32_t i = 0; i < NODES_MAX; i++) {
        if (node->deposed[i].node == deposed->node &&
            node->deposed[i].broker_epoch == deposed->broker_epoch) {
            return node->deposed[i].seen_ms;
        }
    }
    return node_now(node);
}

void detect_view(struct node *node, uint32_t changed_keys)
{
    const struct deposed_value *value = &node->view[KEY_DEPOSED].value.deposed;
    for (int32_t i = 0; i < node->world->profile.node_count; i++) {
        const struct entry *entry = &node->view[KEY_REGISTRATION + i];
        detector_registered(&node->detector, i + 1,
                            entry->present ? entry->create_revision : 0);
    }
    if (!(changed_keys & 1u << KEY_DEPOSED)) {
        return;
    }
    int64_t seen[NODES_MAX];
    for (uint32_t i = 0; i < value->count; i++) {
        seen[i] = seen_ms(node, &value->nodes[i]);
    }
    memset(node->deposed, 0, sizeof node->deposed);
    for (uint32_t i = 0; i < value->count; i++) {
        node->deposed[i].node = value->nodes[i].node;
        node->deposed[i].broker_epoch = value->nodes[i].broker_epoch;
        node->deposed[i].seen_ms = seen[i];
    }
}

/* The view's record in the form that decisions take. */
struct record {
    struct deposals deposals;
    struct deposal items[NODES_MAX];
    struct moved_partition moved[NODES_MAX][SLOTS_MAX];
};

static struct topic_id topic_id_of(uint32_t topic_id)
{
    struct topic_id id = {{0}};
    memcpy(id.bytes, &topic_id, sizeof topic_id);
    return id;
}

static void read_record(const struct node *node, struct record *out)
{
    const struct deposed_value *value = &node->view[KEY_DEPOSED].value.deposed;
    out->deposals.items = out->items;
    out->deposals.count = node->view[KEY_DEPOSED].present ? value->count : 0;
    for (uint32_t i = 0; i < out->deposals.count; i++) {
        const struct deposed_node *deposed = &value->nodes[i];
        out->items[i] = (struct deposal){
            .broker = deposed->node,
            .broker_epoch = deposed->broker_epoch,
            .seen_ms = node->deposed[i].seen_ms,
            .moved = out->moved[i],
            .moved_count = deposed->moved_count,
        };
        for (uint32_t m = 0; m < deposed->moved_count; m++) {
            out->moved[i][m] = (struct moved_partition){
                topic_id_of(deposed->moved[m].topic_id), deposed->moved[m].slot};
        }
    }
}

/* ---- deposing -----------------------------------------------------------------------
 */

static bool refuses(const struct node *node, int32_t other)
{
    struct world *world = node->world;
    return !world->cut[node->index][other] && !world->cut[other][node->index] &&
           (!node_runs(world->nodes[other]) ||
            world->nodes[other]->refuses_until_ms > world_ms(world));
}

static bool moves(const struct node *node, int32_t slot, int32_t id)
{
    const struct entry *partition = &node->view[KEY_PARTITION + slot];
    const struct entry *state = &node->view[KEY_STATE + slot];
    if (!partition->present) {
        return false;
    }
    const struct replica_ids *replicas = &partition->value.partition.replicas;
    int32_t leader = state->present ? state->value.state.leader : -1;
    bool alive = leader > 0 && node->view[KEY_REGISTRATION + leader - 1].present;
    return deposal_moves(id, leader, alive, replicas->ids, replicas->count);
}

/* false: what would move for it was moved a moment ago. */
static bool list_moved(const struct node *node, const struct deposals *deposals,
                       struct deposed_node *out)
{
    for (int32_t slot = 0; slot < node->world->profile.slot_count; slot++) {
        uint32_t topic_id = node->view[KEY_PARTITION + slot].value.partition.topic_id;
        struct topic_id id = topic_id_of(topic_id);
        if (!moves(node, slot, out->node)) {
            continue;
        }
        if (deposals_moved(deposals, &id, slot, node_now(node))) {
            return false;
        }
        out->moved[out->moved_count].topic_id = topic_id;
        out->moved[out->moved_count++].slot = slot;
    }
    return true;
}

/* Of what the record has, only what still counts; a node is in it once. */
static void write_record(const struct node *node, const struct deposals *deposals,
                         const struct deposed_node *next, struct deposed_value *out)
{
    const struct deposed_value *old = &node->view[KEY_DEPOSED].value.deposed;
    *out = (struct deposed_value){.seen = node->view_revision};
    for (uint32_t i = 0; i < deposals->count; i++) {
        if (deposals_rests(deposals, old->nodes[i].node, node_now(node))) {
            out->nodes[out->count++] = old->nodes[i];
        }
    }
    out->nodes[out->count++] = *next;
}

static void depose(struct node *node, int32_t other, int64_t broker_epoch)
{
    const struct entry *controller = &node->view[KEY_CONTROLLER];
    const struct entry *deposed = &node->view[KEY_DEPOSED];
    struct deposed_node next = {.node = other + 1, .broker_epoch = broker_epoch};
    struct transaction transaction = {0};
    struct record record;
    read_record(node, &record);
    if (deposals_rests(&record.deposals, other + 1, node_now(node)) ||
        !list_moved(node, &record.deposals, &next)) {
        return;
    }
    transaction_compare(&transaction, KEY_REGISTRATION + node->index, true,
                        node->broker_epoch);
    transaction_compare(&transaction, KEY_REGISTRATION + other, true, broker_epoch);
    transaction_compare(&transaction, KEY_DEPOSED, false,
                        deposed->present ? deposed->mod_revision : 0);
    transaction_remove(&transaction, KEY_REGISTRATION + other);
    write_record(node, &record.deposals, &next,
                 &transaction_put(&transaction, KEY_DEPOSED, 0)->deposed);
    if (controller->present && controller->value.controller == other + 1) {
        transaction_compare(&transaction, KEY_CONTROLLER, true,
                            controller->create_revision);
        transaction_remove(&transaction, KEY_CONTROLLER);
    }
    if (node_ask(node, OP_DEPOSE, STORE_TXN, &transaction)) {
        WORLD_TRACE(node->world, "n%d ends the registration of n%d", node_id(node),
                    other + 1);
    }
}

void detect_tick(struct node *node)
{
    for (int32_t i = 0; i < node->world->profile.node_count; i++) {
        int64_t broker_epoch = 0;
        if (i == node->index || node_asks(node, OP_DEPOSE, 0) || !refuses(node, i)) {
            continue;
        }
        if (detector_refused(&node->detector, i + 1, node_now(node), &broker_epoch)) {
            depose(node, i, broker_epoch);
        }
    }
}
