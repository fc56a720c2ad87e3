#include "tests/sim/node.h"

#include "tests/sim/check.h"

#include <stdlib.h>
#include <string.h>

struct node *node_new(struct world *world, int32_t index)
{
    struct node *node = calloc(1, sizeof *node);
    if (!node) {
        abort();
    }
    node->world = world;
    node->index = index;
    return node;
}

void node_reset(struct node *node)
{
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        replica_close(node, slot);
        simlog_remove(&node->logs[slot]);
    }
    node->phase = PHASE_DOWN;
    node->incarnation = 0;
    node->paused_until_ms = 0;
    node->disk_full_until_ms = 0;
    node->refuses_until_ms = 0;
    node->clock_offset_ms = 0;
}

void node_free(struct node *node)
{
    node_reset(node);
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        simlog_free(&node->logs[slot]);
        producer_state_free(node->replicas[slot].producers);
    }
    free(node);
}

/* ---- requests to the store ----------------------------------------------------------
 */

struct op *node_ask(struct node *node, enum op_kind kind, enum store_request request,
                    const struct transaction *transaction)
{
    for (uint32_t i = 0; i < OPS_MAX; i++) {
        struct op *op = &node->ops[i];
        if (op->kind != OP_NONE) {
            continue;
        }
        op->kind = kind;
        op->number = ++node->next_op;
        op->sent_ms = node_now(node);
        op->slot = 0;
        struct message *message =
            world_message(node->world, MESSAGE_STORE, node->index, ADDRESS_STORE);
        message->incarnation = node->incarnation;
        message->u.store.request = request;
        message->u.store.op = op->number;
        message->u.store.lease = node->lease;
        if (transaction) {
            message->u.store.transaction = *transaction;
            message->u.store.transaction.writer = node->index;
        }
        world_send(node->world, message);
        return op;
    }
    return NULL;
}

bool node_asks(const struct node *node, enum op_kind kind, int32_t slot)
{
    for (uint32_t i = 0; i < OPS_MAX; i++) {
        if (node->ops[i].kind == kind && node->ops[i].slot == slot) {
            return true;
        }
    }
    return false;
}

/* ---- life ---------------------------------------------------------------------------
 */

static void forget_process(struct node *node)
{
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        replica_close(node, slot);
    }
    memset(node->view, 0, sizeof node->view);
    memset(node->ops, 0, sizeof node->ops);
    memset(&node->detector, 0, sizeof node->detector);
    memset(node->deposed, 0, sizeof node->deposed);
    node->view_revision = 0;
    node->view_events = 0;
    node->watch_pending = false;
    node->broker_epoch = 0;
    node->lease = 0;
    node->session_until_ms = 0;
    node->session_lost = false;
    node->leaving = false;
    node->controller = false;
    node->paused_until_ms = 0;
}

void node_start(struct node *node)
{
    forget_process(node);
    node->incarnation++;
    node->phase = PHASE_READ;
    WORLD_TRACE(node->world, "n%d starts", node_id(node));
    struct event *tick =
        world_at(node->world, node->world->now_us, EVENT_TICK, node->index);
    tick->incarnation = node->incarnation;
}

void node_kill(struct node *node)
{
    WORLD_TRACE(node->world, "n%d is killed", node_id(node));
    forget_process(node);
    node->phase = PHASE_DOWN;
    /* The page cache stays, and recovery flushes it before it counts. */
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        node->logs[slot].flushed = node->logs[slot].count;
    }
}

void node_power_cut(struct node *node)
{
    WORLD_TRACE(node->world, "n%d loses power", node_id(node));
    forget_process(node);
    node->phase = PHASE_DOWN;
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        struct simlog *log = &node->logs[slot];
        const struct entry *entry = &node->world->store.entries[KEY_PARTITION + slot];
        simlog_power_cut(log, &node->world->prng);
        bool flush_ack = entry->present &&
                         entry->value.partition.topic_id == log->topic_id &&
                         entry->value.partition.flush_ack;
        if (log->topic_id && !flush_ack) {
            /* Nobody knows whether something is missing; so it counts as if. */
            log->lost_tail = true;
        }
        check_log_shrunk(node, slot);
    }
}

/* ---- registration -------------------------------------------------------------------
 *
 * A start reads the store, ends the registration of the incarnation before, takes the
 * replicas out that may lack what they acknowledged, and only then registers: while no
 * registration is there, nobody can elect it or let it join an ISR.
 */

static int32_t own_key(const struct node *node)
{
    return KEY_REGISTRATION + node->index;
}

static void again(struct node *node)
{
    node->phase = PHASE_READ;
}

static void unseat(struct node *node)
{
    struct transaction transaction = {0};
    transaction_compare(&transaction, own_key(node), true,
                        node->view[own_key(node)].create_revision);
    transaction_remove(&transaction, own_key(node));
    const struct entry *controller = &node->view[KEY_CONTROLLER];
    if (controller->present && controller->value.controller == node_id(node)) {
        transaction_compare(&transaction, KEY_CONTROLLER, true,
                            controller->create_revision);
        transaction_remove(&transaction, KEY_CONTROLLER);
    }
    if (node_ask(node, OP_UNSEAT, STORE_TXN, &transaction)) {
        node->phase = PHASE_UNSEAT;
    }
}

static void enroll(struct node *node)
{
    struct transaction transaction = {0};
    transaction_compare(&transaction, own_key(node), true, 0);
    union value *value = transaction_put(&transaction, own_key(node), node->lease);
    value->registration.node = node_id(node);
    value->registration.incarnation = node->incarnation;
    if (node_ask(node, OP_REGISTER, STORE_TXN, &transaction)) {
        node->phase = PHASE_REGISTER;
    }
}

/* true: a replica is being taken out, or can't be asked about yet */
static bool take_out_suspects(struct node *node)
{
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        struct simlog *log = &node->logs[slot];
        bool damaged = log->damaged;
        bool asked = false;
        if (!log->topic_id || (!log->lost_tail && !damaged)) {
            continue;
        }
        if (control_take_out(node, slot, damaged ? SUSPECT_UNUSABLE : SUSPECT_CRASHED,
                             &asked)) {
            if (asked) {
                node->phase = PHASE_TAKE_OUT;
            }
            return true;
        }
        log->lost_tail = false;
    }
    return false;
}

static void read_done(struct node *node)
{
    if (node->view[own_key(node)].present) {
        unseat(node);
    } else if (!take_out_suspects(node)) {
        node->lease = 0;
        if (node_ask(node, OP_GRANT, STORE_GRANT, NULL)) {
            node->phase = PHASE_GRANT;
        }
    }
}

static void come_up(struct node *node, int64_t revision, int64_t sent_ms)
{
    node->phase = PHASE_UP;
    node->broker_epoch = revision;
    node->session_lost = false;
    node->session_until_ms = sent_ms + node->world->profile.session_ms;
    node->next_keepalive_ms = sent_ms + node->world->profile.session_ms / 3;
    WORLD_TRACE(node->world, "n%d is registered, broker epoch %lld", node_id(node),
                (long long)revision);
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        replica_view(node, slot, 0);
    }
}

/* The session is over, or the registration is not this process's: it leads nothing from
 * now on, and registers anew. */
static void lose_session(struct node *node)
{
    WORLD_TRACE(node->world, "n%d has lost its session", node_id(node));
    node->session_lost = true;
    node->controller = false;
    node->phase = PHASE_READ;
    for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
        replica_session(node, slot);
    }
}

enum core_session node_session(const struct node *node)
{
    if (node->session_lost) {
        return SESSION_LOST;
    }
    return node_now(node) >= node->session_until_ms ? SESSION_SILENT : SESSION_GOOD;
}

void node_leave(struct node *node)
{
    struct transaction transaction = {0};
    if (node->phase != PHASE_UP) {
        return;
    }
    transaction_compare(&transaction, own_key(node), true, node->broker_epoch);
    union value *value = transaction_put(&transaction, own_key(node), node->lease);
    value->registration.node = node_id(node);
    value->registration.incarnation = node->incarnation;
    value->registration.leaving = true;
    (void)node_ask(node, OP_LEAVE, STORE_TXN, &transaction);
}

/* ---- the view -----------------------------------------------------------------------
 */

static void own_registration(struct node *node)
{
    const struct entry *own = &node->view[own_key(node)];
    if (node->phase == PHASE_UP && node->view_revision >= node->broker_epoch &&
        (!own->present || own->create_revision != node->broker_epoch)) {
        lose_session(node);
    }
    const struct entry *controller = &node->view[KEY_CONTROLLER];
    if (node->controller && node->view_revision >= node->controller_create &&
        (!controller->present ||
         controller->create_revision != node->controller_create)) {
        WORLD_TRACE(node->world, "n%d is controller no longer", node_id(node));
        node->controller = false;
    }
}

void node_see(struct node *node, int64_t to)
{
    const struct simstore *store = &node->world->store;
    uint32_t changed = 0;
    while (node->view_events < store->event_count &&
           store->events[node->view_events].revision <= to) {
        const struct log_event *event = &store->events[node->view_events++];
        node->view[event->key] = event->entry;
        changed |= 1u << event->key;
    }
    if (to > node->view_revision) {
        node->view_revision = to;
    }
    if (!changed) {
        return;
    }
    detect_view(node, changed);
    own_registration(node);
    bool was_up = node->phase == PHASE_UP || node->session_lost;
    for (int32_t slot = 0; was_up && slot < SLOTS_MAX; slot++) {
        replica_view(node, slot, changed);
    }
    if (node->phase == PHASE_UP) {
        control_tick(node);
    }
}

/* ---- outcomes -----------------------------------------------------------------------
 */

static void finish(struct node *node, const struct op *op, enum isr_result result,
                   const struct message *answer)
{
    int64_t revision = answer ? answer->u.stored.revision : 0;
    bool done = result == ISR_STORED;
    switch (op->kind) {
    case OP_READ:
        if (done) {
            node_see(node, revision);
            if (node->phase == PHASE_READ) {
                read_done(node);
            }
        }
        break;
    case OP_UNSEAT:
    case OP_TAKE_OUT:
        if (op->kind == OP_TAKE_OUT && done && node->phase == PHASE_UP &&
            node->replicas[op->slot].topic_id == op->topic_id) {
            replica_taken_out(node, op->slot, revision);
        }
        if (node->phase == PHASE_UNSEAT || node->phase == PHASE_TAKE_OUT) {
            again(node);
        }
        break;
    case OP_GRANT:
        if (node->phase == PHASE_GRANT) {
            if (done) {
                node->lease = answer->u.stored.lease;
                enroll(node);
            } else {
                again(node);
            }
        }
        break;
    case OP_REGISTER:
        if (node->phase == PHASE_REGISTER) {
            if (done) {
                come_up(node, revision, op->sent_ms);
            } else {
                again(node);
            }
        }
        break;
    case OP_KEEPALIVE:
        if (node->phase == PHASE_UP && done) {
            int64_t until = op->sent_ms + node->world->profile.session_ms;
            if (until > node->session_until_ms) {
                node->session_until_ms = until;
            }
        } else if (node->phase == PHASE_UP && result == ISR_CONFLICT) {
            lose_session(node);
        }
        break;
    case OP_ISR:
        control_isr_done(node, op, result, revision);
        break;
    case OP_REREAD:
        if (done) {
            node_see(node, revision);
            control_reread_done(node, op);
        }
        break;
    case OP_CONTROLLER:
        if (done) {
            control_elected(node, revision);
        }
        break;
    case OP_PLAN:
        if (done) {
            control_planned(node, op, revision);
        }
        break;
    default:
        break;
    }
}

static void store_answer(struct node *node, const struct message *message)
{
    for (uint32_t i = 0; i < OPS_MAX; i++) {
        struct op *op = &node->ops[i];
        if (op->kind != OP_NONE && op->number == message->u.stored.op) {
            const struct op copy = *op;
            op->kind = OP_NONE;
            finish(node, &copy, message->u.stored.done ? ISR_STORED : ISR_CONFLICT,
                   message);
            return;
        }
    }
}

static void time_out_ops(struct node *node)
{
    for (uint32_t i = 0; i < OPS_MAX; i++) {
        struct op *op = &node->ops[i];
        if (op->kind != OP_NONE && node_now(node) - op->sent_ms >= STORE_TIMEOUT_MS) {
            const struct op copy = *op;
            op->kind = OP_NONE;
            finish(node, &copy, ISR_UNKNOWN, NULL);
        }
    }
}

/* ---- events -------------------------------------------------------------------------
 */

void node_receive(struct node *node, const struct message *message)
{
    if (!node_runs(node)) {
        return;
    }
    bool answer =
        message->kind == MESSAGE_FETCH_ANSWER || message->kind == MESSAGE_STORE_ANSWER;
    if (answer && message->incarnation != node->incarnation) {
        return; /* the connection went down with the process that asked */
    }
    switch (message->kind) {
    case MESSAGE_STORE_ANSWER:
        store_answer(node, message);
        break;
    case MESSAGE_FETCH:
        replica_fetch(node, message);
        break;
    case MESSAGE_FETCH_ANSWER:
        replica_fetched(node, message);
        break;
    case MESSAGE_PRODUCE:
        replica_produce(node, message);
        break;
    case MESSAGE_STATE:
        if (node->phase == PHASE_UP &&
            node->replicas[message->slot].topic_id == message->topic_id) {
            replica_state(node, message->slot, &message->u.state.state,
                          message->u.state.revision, &message->u.state.replicas);
        }
        break;
    default:
        break;
    }
}

static void keep_session(struct node *node)
{
    int64_t now_ms = node_now(node);
    if (now_ms >= node->next_keepalive_ms) {
        node->next_keepalive_ms = now_ms + node->world->profile.session_ms / 3;
        (void)node_ask(node, OP_KEEPALIVE, STORE_KEEPALIVE, NULL);
    }
}

void node_tick(struct node *node)
{
    struct event *next = world_at(node->world, node->world->now_us + TICK_MS * 1000,
                                  EVENT_TICK, node->index);
    next->incarnation = node->incarnation;
    time_out_ops(node);
    if (node->phase == PHASE_READ && !node_asks(node, OP_READ, 0)) {
        (void)node_ask(node, OP_READ, STORE_READ, NULL);
    }
    /* Also where nothing changes: it may have been ended before this node knew of it.
     */
    own_registration(node);
    if (node->phase == PHASE_UP) {
        keep_session(node);
        control_tick(node);
    }
    if (node->phase == PHASE_UP || node->session_lost) {
        for (int32_t slot = 0; slot < SLOTS_MAX; slot++) {
            replica_tick(node, slot);
        }
    }
}
