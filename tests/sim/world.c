#include "tests/sim/world.h"

#include "tests/sim/check.h"
#include "tests/sim/client.h"
#include "tests/sim/fault.h"
#include "tests/sim/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the queue ----------------------------------------------------------------------
 */

static bool before(const struct event *a, const struct event *b)
{
    return a->at_us < b->at_us || (a->at_us == b->at_us && a->order < b->order);
}

static void grow(struct world *world)
{
    if (world->heap_count == world->heap_allocated) {
        world->heap_allocated = world->heap_allocated ? 2 * world->heap_allocated : 512;
        world->heap =
            realloc(world->heap, world->heap_allocated * sizeof world->heap[0]);
        if (!world->heap) {
            abort();
        }
    }
}

static struct event *push(struct world *world, const struct event *event)
{
    grow(world);
    size_t i = world->heap_count++;
    while (i > 0 && before(event, &world->heap[(i - 1) / 2])) {
        world->heap[i] = world->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    world->heap[i] = *event;
    return &world->heap[i];
}

static struct event pop(struct world *world)
{
    struct event top = world->heap[0];
    const struct event last = world->heap[--world->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= world->heap_count) {
            break;
        }
        if (child + 1 < world->heap_count &&
            before(&world->heap[child + 1], &world->heap[child])) {
            child++;
        }
        if (before(&last, &world->heap[child])) {
            break;
        }
        world->heap[i] = world->heap[child];
        i = child;
    }
    world->heap[i] = last;
    return top;
}

struct event *world_at(struct world *world, int64_t at_us, enum event_kind kind,
                       int32_t who)
{
    const struct event event = {
        .at_us = at_us, .order = world->order++, .kind = kind, .who = who};
    return push(world, &event);
}

/* ---- the network --------------------------------------------------------------------
 */

struct message *world_message(struct world *world, enum message_kind kind, int32_t from,
                              int32_t to)
{
    struct message *message = world->free_messages;
    if (message) {
        world->free_messages = message->next_free;
    } else {
        message = malloc(sizeof *message);
        if (!message) {
            abort();
        }
    }
    message->kind = kind;
    message->from = from;
    message->to = to;
    message->incarnation = 0;
    message->slot = 0;
    message->topic_id = 0;
    return message;
}

static void drop(struct world *world, struct message *message)
{
    message->next_free = world->free_messages;
    world->free_messages = message;
}

static size_t size_of(const struct message *message)
{
    switch (message->kind) {
    case MESSAGE_STORE:
        if (message->u.store.request != STORE_TXN) {
            return offsetof(struct message, u.store.transaction);
        }
        return sizeof *message;
    case MESSAGE_STATE:
        return offsetof(struct message, u) + sizeof message->u.state;
    default:
        return offsetof(struct message, u) + sizeof message->u.fetched;
    }
}

static int64_t delay_us(struct world *world, const struct message *message)
{
    const struct profile *profile = &world->profile;
    if (world->calm) {
        return prng_between(&world->prng, 100, 2000);
    }
    if (world->hold_us) {
        int64_t held = world->hold_us;
        world->hold_us = 0;
        return held;
    }
    bool store = message->to == ADDRESS_STORE || message->from == ADDRESS_STORE;
    if (prng_permille(&world->prng, store ? profile->store_late : profile->late)) {
        return prng_between(&world->prng, 10000, 4000000);
    }
    return prng_between(&world->prng, 100, profile->delay_max_us);
}

static void deliver_later(struct world *world, struct message *message)
{
    world_at(world, world->now_us + delay_us(world, message), EVENT_MESSAGE,
             message->to)
        ->message = message;
}

void world_send(struct world *world, struct message *message)
{
    if (!world->calm) {
        if (prng_permille(&world->prng, world->profile.loss)) {
            drop(world, message);
            return;
        }
        if (prng_permille(&world->prng, world->profile.duplicate) &&
            message->kind != MESSAGE_STORE && message->kind != MESSAGE_STORE_ANSWER) {
            struct message *copy =
                world_message(world, message->kind, message->from, message->to);
            memcpy(copy, message, size_of(message));
            deliver_later(world, copy);
        }
    }
    deliver_later(world, message);
}

/* ---- the store ----------------------------------------------------------------------
 */

void world_store_changed(struct world *world)
{
    for (int32_t i = 0; i < world->profile.node_count; i++) {
        struct node *node = world->nodes[i];
        if (node_runs(node) && !node->watch_pending) {
            node->watch_pending = true;
            int64_t delay = world->calm ? 1000
                                        : prng_between(&world->prng, 200,
                                                       world->profile.delay_max_us);
            struct event *event =
                world_at(world, world->now_us + delay, EVENT_WATCH, node->index);
            event->incarnation = node->incarnation;
        }
    }
}

static void store_receive(struct world *world, const struct message *message)
{
    struct simstore *store = &world->store;
    if (!store->up) {
        return;
    }
    int64_t deadline = world_ms(world) + world->profile.session_ms;
    bool done = true;
    uint32_t lease = message->u.store.lease;
    switch (message->u.store.request) {
    case STORE_READ:
        break;
    case STORE_TXN:
        done = simstore_commit(store, &message->u.store.transaction);
        break;
    case STORE_GRANT:
        lease = simstore_lease_grant(store, deadline);
        done = lease != 0;
        break;
    case STORE_KEEPALIVE:
        done = simstore_lease_renew(store, lease, deadline);
        break;
    }
    struct message *answer =
        world_message(world, MESSAGE_STORE_ANSWER, ADDRESS_STORE, message->from);
    answer->incarnation = message->incarnation;
    answer->u.stored.op = message->u.store.op;
    answer->u.stored.done = done;
    answer->u.stored.revision = store->revision;
    answer->u.stored.lease = lease;
    world_send(world, answer);
}

static void store_tick(struct world *world)
{
    int64_t now_ms = world_ms(world);
    struct simstore *store = &world->store;
    if (!store->up && now_ms >= world->store_down_until_ms) {
        store->up = true;
        simstore_renew_all(store, now_ms + world->profile.session_ms);
        WORLD_TRACE(world, "store is back");
        world_store_changed(world);
    }
    if (store->up) {
        simstore_expire(store, now_ms);
    }
    world_at(world, world->now_us + 100000, EVENT_STORE_TICK, 0);
}

/* ---- steps --------------------------------------------------------------------------
 */

/* A stopped process gets what came meanwhile when it goes on. */
static bool put_off(struct world *world, struct node *node, const struct event *event)
{
    if (node->paused_until_ms <= world_ms(world)) {
        return false;
    }
    struct event later = *event;
    later.at_us = node->paused_until_ms * 1000;
    push(world, &later);
    return true;
}

static void deliver(struct world *world, struct message *message)
{
    if (world->cut[message->from][message->to]) {
        drop(world, message);
        return;
    }
    if (message->to == ADDRESS_STORE) {
        store_receive(world, message);
    } else if (message->to == ADDRESS_CLIENT) {
        client_receive(world->clients[message->u.produced.client], message);
    } else {
        node_receive(world->nodes[message->to], message);
    }
    drop(world, message);
}

static void watch(struct world *world, struct node *node, const struct event *event)
{
    bool silent = !world->store.up || world->cut[ADDRESS_STORE][node->index];
    if (event->incarnation != node->incarnation || !node_runs(node)) {
        return;
    }
    if (silent) {
        world_at(world, world->now_us + 200000, EVENT_WATCH, node->index)->incarnation =
            node->incarnation;
        return;
    }
    node->watch_pending = false;
    node_see(node, world->store.revision);
}

static bool for_node(enum event_kind kind)
{
    return kind == EVENT_TICK || kind == EVENT_FLUSHED || kind == EVENT_WATCH;
}

static void step(struct world *world, const struct event *event)
{
    bool node_message = event->kind == EVENT_MESSAGE && event->who < NODES_MAX;
    if ((node_message || for_node(event->kind)) &&
        put_off(world, world->nodes[event->who], event)) {
        return;
    }
    struct node *node =
        node_message || for_node(event->kind) || event->kind == EVENT_START
            ? world->nodes[event->who]
            : NULL;
    switch (event->kind) {
    case EVENT_MESSAGE:
        deliver(world, event->message);
        break;
    case EVENT_TICK:
        if (event->incarnation == node->incarnation && node_runs(node)) {
            node_tick(node);
        }
        break;
    case EVENT_FLUSHED:
        if (event->incarnation == node->incarnation && node_runs(node)) {
            replica_flushed(node, event->slot);
        }
        break;
    case EVENT_WATCH:
        watch(world, node, event);
        break;
    case EVENT_START:
        if (!node_runs(node)) {
            node_start(node);
        }
        break;
    case EVENT_CLIENT:
        client_step(world->clients[event->who]);
        break;
    case EVENT_FAULT:
        fault_step(world);
        break;
    case EVENT_STORE_TICK:
        store_tick(world);
        break;
    case EVENT_OPERATOR:
        operator_step(world);
        break;
    }
}

static void run_until(struct world *world, int64_t end_ms)
{
    while (!world->failed && world->heap_count > 0 &&
           world->heap[0].at_us <= end_ms * 1000) {
        struct event event = pop(world);
        world->now_us = event.at_us;
        world->steps++;
        step(world, &event);
    }
    if (!world->failed) {
        world->now_us = end_ms * 1000;
    }
}

/* ---- a run --------------------------------------------------------------------------
 */

static void reset(struct world *world, uint64_t seed, bool trace)
{
    while (world->heap_count > 0) {
        struct event event = world->heap[--world->heap_count];
        if (event.message) {
            drop(world, event.message);
        }
    }
    world->seed = seed;
    world->prng.state = seed * 0x2545F4914F6CDD1Du + 88172645463325252u;
    world->now_us = 0;
    world->order = 0;
    world->trace = trace;
    world->calm = false;
    world->failed = false;
    world->violation[0] = '\0';
    memset(world->cut, 0, sizeof world->cut);
    memset(world->cut_until_ms, 0, sizeof world->cut_until_ms);
    world->store_down_until_ms = 0;
    world->hold_us = 0;
    world->next_topic_id = 1;
    world->next_payload = 1;
    world->next_producer_id = 1000;
    fault_profile(world);
    simstore_init(&world->store, world);
    check_reset(world->check);
    for (int32_t i = 0; i < NODES_MAX; i++) {
        node_reset(world->nodes[i]);
    }
}

static void begin(struct world *world)
{
    for (int32_t i = 0; i < world->profile.node_count; i++) {
        world_at(world, 1000 * i, EVENT_START, i);
    }
    for (int32_t i = 0; i < world->profile.client_count; i++) {
        client_init(world->clients[i], world, i);
        world_at(world, 500000 + i, EVENT_CLIENT, i);
    }
    world_at(world, 100000, EVENT_STORE_TICK, 0);
    world_at(world, 300000, EVENT_OPERATOR, 0);
    world_at(world, 1500000, EVENT_FAULT, 0);
}

bool world_run(struct world *world, uint64_t seed, bool trace)
{
    reset(world, seed, trace);
    begin(world);
    run_until(world, world->profile.chaos_ms);
    if (!world->failed) {
        WORLD_TRACE(world, "---- healing ----");
        world->calm = true;
        fault_heal(world);
        int64_t limit_ms = world->profile.chaos_ms + 40000;
        /* Late messages of the chaos arrive in its first seconds. */
        run_until(world, world->profile.chaos_ms + 8000);
        while (!world->failed && !check_is_healed(world) &&
               world_ms(world) < limit_ms) {
            run_until(world, world_ms(world) + 1000);
        }
    }
    if (!world->failed) {
        check_healed(world);
    }
    return !world->failed;
}

struct world *world_new(void)
{
    struct world *world = calloc(1, sizeof *world);
    if (!world) {
        abort();
    }
    world->check = check_new();
    for (int32_t i = 0; i < NODES_MAX; i++) {
        world->nodes[i] = node_new(world, i);
    }
    for (int32_t i = 0; i < CLIENTS_MAX; i++) {
        world->clients[i] = calloc(1, sizeof *world->clients[i]);
        if (!world->clients[i]) {
            abort();
        }
    }
    return world;
}

void world_free(struct world *world)
{
    for (size_t i = 0; i < world->heap_count; i++) {
        if (world->heap[i].message) {
            drop(world, world->heap[i].message);
        }
    }
    while (world->free_messages) {
        struct message *next = world->free_messages->next_free;
        free(world->free_messages);
        world->free_messages = next;
    }
    for (int32_t i = 0; i < NODES_MAX; i++) {
        node_free(world->nodes[i]);
    }
    for (int32_t i = 0; i < CLIENTS_MAX; i++) {
        free(world->clients[i]);
    }
    simstore_free(&world->store);
    check_free(world->check);
    free(world->heap);
    free(world);
}

/* ---- telling ------------------------------------------------------------------------
 */

void world_log(struct world *world, const char *format, ...)
{
    va_list args;
    (void)printf("%9.3f  ", (double)world->now_us / 1000.0);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
}

void world_violation(struct world *world, const char *format, ...)
{
    if (world->failed) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world->violation, sizeof world->violation, format, args);
    va_end(args);
    world->failed = true;
    WORLD_TRACE(world, "VIOLATION: %s", world->violation);
}
