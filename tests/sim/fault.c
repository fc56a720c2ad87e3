#include "tests/sim/fault.h"

#include "tests/sim/node.h"

#include <string.h>

/* No message is on its way for longer than 4 s. */
enum { LATEST_MS = 4500 };

void fault_profile(struct world *world)
{
    struct prng *prng = &world->prng;
    struct profile *profile = &world->profile;
    *profile = (struct profile){
        .node_count = (int32_t)prng_between(prng, 3, NODES_MAX),
        .slot_count = (int32_t)prng_between(prng, 1, 2),
        .client_count = (int32_t)prng_between(prng, 2, CLIENTS_MAX),
        .chaos_ms = prng_between(prng, 8000, 20000),
        .session_ms = prng_between(prng, 1500, 3000),
        .loss = prng_below(prng, 2) ? 0 : prng_below(prng, 60),
        .duplicate = prng_below(prng, 2) ? 0 : prng_below(prng, 60),
        .late = prng_below(prng, 2) ? 0 : prng_below(prng, 40),
        .store_late = prng_below(prng, 2) ? 5 : prng_below(prng, 150),
        .delay_max_us = prng_between(prng, 500, 20000),
        .flush_max_us = prng_between(prng, 300, 20000),
        .slow_flush = prng_below(prng, 2) ? 0 : prng_below(prng, 50),
        .fault_every_ms = prng_between(prng, 200, 2000),
        .deletes = prng_below(prng, 3) ? 0 : 100,
        .early_fetch = prng_below(prng, 2),
        .aimed = prng_below(prng, 4) == 0,
        .give_up_ms = prng_between(prng, 2000, 15000),
    };
    if (prng_below(prng, 2)) {
        profile->give_up_ms = prng_between(prng, 1500, 3000);
        profile->retention_ms = profile->give_up_ms + LATEST_MS;
    }
    if (world->compacts) {
        profile->roll_at = 1 + prng_below(prng, 6);
        profile->compact = 20 + prng_below(prng, 200);
        profile->map_full = prng_below(prng, 2) ? 0 : prng_below(prng, 500);
        profile->tombstone_ms = prng_between(prng, 500, 6000);
        /* Longer than any retry is on its way, by any clock. */
        profile->producer_ms = profile->give_up_ms + LATEST_MS + 60000;
    }
    /* Some worlds have all faults, most have a few, so that each has room. */
    profile->faults = prng_below(prng, 4) == 0
                          ? (1u << FAULT_COUNT) - 1
                          : (uint32_t)prng_next(prng) & (uint32_t)prng_next(prng) &
                                ((1u << FAULT_COUNT) - 1);
    if (!profile->faults) {
        profile->faults = FAULT_KILL;
    }
}

static struct node *any_node(struct world *world)
{
    return world->nodes[prng_below(&world->prng, (uint32_t)world->profile.node_count)];
}

static void restart_later(struct world *world, struct node *node)
{
    int64_t after_ms = prng_below(&world->prng, 3)
                           ? prng_between(&world->prng, 50, 800)
                           : prng_between(&world->prng, 50, 6000);
    world_at(world, world->now_us + after_ms * 1000, EVENT_START, node->index);
}

static void stop(struct world *world, struct node *node, bool power)
{
    if (!node_runs(node)) {
        return;
    }
    if (power) {
        node_power_cut(node);
    } else {
        node_kill(node);
    }
    restart_later(world, node);
}

void fault_expansion(struct world *world, int32_t id)
{
    struct node *node = world->nodes[id - 1];
    if (world->calm || !world->profile.aimed || !node_runs(node) ||
        prng_below(&world->prng, 4)) {
        return;
    }
    world->hold_us = prng_between(&world->prng, 100000, 1500000);
    node_power_cut(node);
    world_at(world, world->now_us + prng_between(&world->prng, 1000, 200000),
             EVENT_START, node->index);
}

static void cut(struct world *world, int32_t from, int32_t to, bool both, int64_t ms)
{
    world->cut[from][to] = true;
    world->cut_until_ms[from][to] = world_ms(world) + ms;
    if (both) {
        cut(world, to, from, false, ms);
    }
}

static void cut_node(struct world *world, const struct node *node, int64_t ms)
{
    bool both = prng_below(&world->prng, 3) > 0;
    for (int32_t i = 0; i < world->profile.node_count; i++) {
        if (i != node->index) {
            cut(world, node->index, i, both, ms);
        }
    }
    if (prng_below(&world->prng, 2)) {
        cut(world, node->index, ADDRESS_STORE, both, ms);
    }
}

static void cut_store(struct world *world, const struct node *node, int64_t ms)
{
    switch (prng_below(&world->prng, 3)) {
    case 0:
        cut(world, node->index, ADDRESS_STORE, false, ms);
        break;
    case 1:
        cut(world, ADDRESS_STORE, node->index, false, ms);
        break;
    default:
        cut(world, node->index, ADDRESS_STORE, true, ms);
        break;
    }
}

static void flip_bit(struct world *world, struct node *node)
{
    int32_t slot =
        (int32_t)prng_below(&world->prng, (uint32_t)world->profile.slot_count);
    struct simlog *log = &node->logs[slot];
    if (log->topic_id && log->count) {
        log->damaged = true;
        WORLD_TRACE(world, "n%d p%d has a bad batch now", node_id(node), slot);
    }
}

static void store_down(struct world *world, int64_t ms)
{
    world->store.up = false;
    world->store_down_until_ms = world_ms(world) + ms;
    WORLD_TRACE(world, "store is down for %lld ms", (long long)ms);
}

static void link_fault(struct world *world, struct node *node, enum fault fault,
                       int64_t ms)
{
    const struct node *other = any_node(world);
    WORLD_TRACE(world, "links of n%d are cut (%d) for %lld ms", node_id(node), fault,
                (long long)ms);
    if (fault == FAULT_CUT_NODE) {
        cut_node(world, node, ms);
    } else if (fault == FAULT_CUT_STORE) {
        cut_store(world, node, ms);
    } else if (other != node) {
        cut(world, node->index, other->index, prng_below(&world->prng, 2), ms);
    }
}

static void inject(struct world *world, enum fault fault)
{
    struct node *node = any_node(world);
    int64_t ms = prng_between(&world->prng, 100, 6000);
    switch (fault) {
    case FAULT_KILL:
        stop(world, node, false);
        break;
    case FAULT_POWER:
        stop(world, node, true);
        break;
    case FAULT_POWER_ALL:
        for (int32_t i = 0;
             prng_below(&world->prng, 4) == 0 && i < world->profile.node_count; i++) {
            stop(world, world->nodes[i], true);
        }
        break;
    case FAULT_PAUSE:
        if (node_runs(node)) {
            node->paused_until_ms = world_ms(world) + ms;
            WORLD_TRACE(world, "n%d is stopped for %lld ms", node_id(node),
                        (long long)ms);
        }
        break;
    case FAULT_CUT_LINK:
    case FAULT_CUT_NODE:
    case FAULT_CUT_STORE:
        link_fault(world, node, fault, ms);
        break;
    case FAULT_STORE_DOWN:
        store_down(world, ms);
        break;
    case FAULT_DISK_FULL:
        node->disk_full_until_ms = world_ms(world) + ms;
        break;
    case FAULT_BIT_FLIP:
        if (prng_below(&world->prng, 3) == 0) {
            flip_bit(world, node);
        }
        break;
    case FAULT_REFUSE:
        node->refuses_until_ms = world_ms(world) + ms;
        break;
    case FAULT_LEAVE:
        node_leave(node);
        break;
    default:
        node->clock_offset_ms += prng_between(&world->prng, -5000, 5000);
        break;
    }
}

static void heal_links(struct world *world, bool all)
{
    for (int32_t i = 0; i < ADDRESS_COUNT; i++) {
        for (int32_t j = 0; j < ADDRESS_COUNT; j++) {
            if (all || world->cut_until_ms[i][j] <= world_ms(world)) {
                world->cut[i][j] = false;
            }
        }
    }
}

void fault_step(struct world *world)
{
    if (world->calm) {
        return;
    }
    heal_links(world, false);
    uint32_t bit = prng_below(&world->prng, FAULT_COUNT);
    while (!(world->profile.faults & (1u << bit))) {
        bit = (bit + 1) % FAULT_COUNT;
    }
    inject(world, (enum fault)(1u << bit));
    int64_t after = prng_between(&world->prng, 50, 2 * world->profile.fault_every_ms);
    world_at(world, world->now_us + after * 1000, EVENT_FAULT, 0);
}

void fault_heal(struct world *world)
{
    heal_links(world, true);
    world->store_down_until_ms = 0;
    for (int32_t i = 0; i < world->profile.node_count; i++) {
        struct node *node = world->nodes[i];
        node->paused_until_ms = 0;
        node->disk_full_until_ms = 0;
        node->refuses_until_ms = 0;
        if (!node_runs(node)) {
            world_at(world, world->now_us + 1000 * (i + 1), EVENT_START, i);
        }
    }
}
