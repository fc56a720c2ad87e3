/* What a node stores: proposals of the ISR, replicas taken out, and, while it is the
 * controller, what the plan says. */
#include "tests/sim/fault.h"
#include "tests/sim/node.h"

#include <string.h>

/* ---- the leader's proposals ---------------------------------------------------------
 */

void control_isr(struct node *node, int32_t slot)
{
    struct replica *replica = &node->replicas[slot];
    struct isr_proposal proposal;
    struct transaction transaction = {0};
    if (replica->core.isr_reread) {
        if (!node_asks(node, OP_REREAD, slot)) {
            struct op *op = node_ask(node, OP_REREAD, STORE_READ, NULL);
            if (op) {
                op->slot = slot;
                op->topic_id = replica->topic_id;
            }
        }
        return;
    }
    if (node_asks(node, OP_ISR, slot) ||
        !isr_propose(&replica->core, node_now(node), &proposal)) {
        return;
    }
    transaction_compare(&transaction, KEY_STATE + slot, false, proposal.state_revision);
    transaction_compare(&transaction, KEY_REGISTRATION + node->index, true,
                        proposal.own_broker_epoch);
    for (uint32_t i = 0; i < proposal.joined_count; i++) {
        transaction_compare(&transaction, KEY_REGISTRATION + proposal.joined[i].id - 1,
                            true, proposal.joined[i].broker_epoch);
    }
    transaction_put(&transaction, KEY_STATE + slot, 0)->state = proposal.state;
    const struct replica_ids *isr = &proposal.state.isr;
    if (isr->count > replica->core.state.isr.count) {
        fault_expansion(node->world, isr->ids[isr->count - 1]);
    }
    struct op *op = node_ask(node, OP_ISR, STORE_TXN, &transaction);
    if (!op) {
        /* Not sent, so it never happens. */
        isr_outcome(&replica->core, &proposal, ISR_CONFLICT, 0);
        return;
    }
    op->slot = slot;
    op->topic_id = replica->topic_id;
    op->proposal = proposal;
}

void control_isr_done(struct node *node, const struct op *op, enum isr_result result,
                      int64_t revision)
{
    struct replica *replica = &node->replicas[op->slot];
    if (replica->topic_id != op->topic_id) {
        return;
    }
    isr_outcome(&replica->core, &op->proposal, result, revision);
    replica_settle(node, op->slot);
}

void control_reread_done(struct node *node, const struct op *op)
{
    struct replica *replica = &node->replicas[op->slot];
    if (replica->topic_id == op->topic_id) {
        isr_reread(&replica->core);
    }
}

/* ---- replicas taken out -------------------------------------------------------------
 */

bool control_take_out(struct node *node, int32_t slot, enum suspect_kind kind,
                      bool *asked)
{
    const struct simlog *log = &node->logs[slot];
    const struct entry *partition = &node->view[KEY_PARTITION + slot];
    const struct entry *entry = &node->view[KEY_STATE + slot];
    struct leadership state;
    *asked = false;
    if (!entry->present || !partition->present ||
        partition->value.partition.topic_id != log->topic_id) {
        return false;
    }
    const struct suspect suspect = {
        .id = node_id(node),
        .kind = kind,
        .last_epoch = log->count ? log->batches[log->count - 1].leader_epoch : -1,
        .end_offset = simlog_end(log),
    };
    if (leadership_take_out(&entry->value.state, &suspect, node->phase == PHASE_UP,
                            &state) <= 0) {
        return false;
    }
    struct transaction transaction = {0};
    transaction_compare(&transaction, KEY_STATE + slot, false, entry->mod_revision);
    transaction_put(&transaction, KEY_STATE + slot, 0)->state = state;
    struct op *op = node_ask(node, OP_TAKE_OUT, STORE_TXN, &transaction);
    if (op) {
        op->slot = slot;
        op->topic_id = log->topic_id;
        *asked = true;
    }
    return true;
}

/* ---- the controller -----------------------------------------------------------------
 */

static void campaign(struct node *node)
{
    struct transaction transaction = {0};
    const struct entry *epoch = &node->view[KEY_CONTROLLER_EPOCH];
    const struct entry *controller = &node->view[KEY_CONTROLLER];
    if (node_asks(node, OP_CONTROLLER, 0)) {
        return;
    }
    if (controller->present && controller->lease == node->lease) {
        /* Elected by a request whose answer was lost. */
        node->controller_epoch = epoch->value.controller_epoch;
        control_elected(node, controller->create_revision);
    }
    if (controller->present) {
        return;
    }
    node->controller_epoch = (epoch->present ? epoch->value.controller_epoch : 0) + 1;
    transaction_compare(&transaction, KEY_CONTROLLER, true, 0);
    transaction_compare(&transaction, KEY_CONTROLLER_EPOCH, false,
                        epoch->present ? epoch->mod_revision : 0);
    transaction_compare(&transaction, KEY_REGISTRATION + node->index, true,
                        node->broker_epoch);
    transaction_put(&transaction, KEY_CONTROLLER, node->lease)->controller =
        node_id(node);
    transaction_put(&transaction, KEY_CONTROLLER_EPOCH, 0)->controller_epoch =
        node->controller_epoch;
    (void)node_ask(node, OP_CONTROLLER, STORE_TXN, &transaction);
}

void control_elected(struct node *node, int64_t revision)
{
    if (node->phase != PHASE_UP) {
        return;
    }
    node->controller = true;
    node->controller_create = revision;
    WORLD_TRACE(node->world, "n%d is controller, epoch %d", node_id(node),
                node->controller_epoch);
}

static void fence(const struct node *node, struct transaction *transaction)
{
    transaction->by_controller = true;
    transaction->controller_create = node->controller_create;
    if (!MUTATION(MUTATE_NO_CONTROLLER_FENCE)) {
        transaction_compare(transaction, KEY_CONTROLLER, true, node->controller_create);
    }
}

static uint32_t live_nodes(const struct node *node, struct plan_node *nodes)
{
    uint32_t count = 0;
    for (int32_t i = 0; i < node->world->profile.node_count; i++) {
        const struct entry *entry = &node->view[KEY_REGISTRATION + i];
        if (entry->present) {
            nodes[count++] = (struct plan_node){
                .id = i + 1,
                .broker_epoch = entry->create_revision,
                .leaving = entry->value.registration.leaving,
            };
        }
    }
    return count;
}

static void describe(struct node *node, int32_t slot, struct plan_partition *out)
{
    const struct entry *partition = &node->view[KEY_PARTITION + slot];
    const struct entry *state = &node->view[KEY_STATE + slot];
    const struct partition_value *value = &partition->value.partition;
    struct replica *replica = &node->replicas[slot];
    int64_t now_ms = node_now(node);
    if (!state->present || state->value.state.leader >= 0) {
        replica->leaderless_since_ms = -1;
    } else if (replica->leaderless_since_ms < 0) {
        replica->leaderless_since_ms = now_ms;
    }
    *out = (struct plan_partition){
        .replicas = value->replicas,
        .assignment_revision = partition->mod_revision,
        .target = value->target,
        .original = value->original,
        .has_state = state->present,
        .state_revision = state->present ? state->mod_revision : 0,
        .min_insync = value->min_insync,
        .unclean_wait_ms = value->unclean_wait_ms,
        .leaderless_since_ms = replica->leaderless_since_ms,
        .prefer = value->prefer,
    };
    if (state->present) {
        out->state = state->value.state;
    }
}

static void commit_plan(struct node *node, int32_t slot,
                        const struct plan_partition *partition,
                        const struct plan_change *change)
{
    static const char *const reasons[] = {"create", "elect", "leaderless", "unclean",
                                          "prefer", "grow",  "shrink"};
    struct transaction transaction = {0};
    struct partition_value value = node->view[KEY_PARTITION + slot].value.partition;
    fence(node, &transaction);
    transaction_compare(&transaction, KEY_STATE + slot, false,
                        partition->state_revision);
    transaction_compare(&transaction, KEY_PARTITION + slot, false,
                        partition->assignment_revision);
    transaction_put(&transaction, KEY_STATE + slot, 0)->state = change->state;
    if (change->replicas_changed || change->prefer_done) {
        if (change->replicas_changed) {
            value.replicas = change->replicas;
        }
        if (change->reassignment_done) {
            value.target.count = 0;
            value.original.count = 0;
        }
        value.prefer = value.prefer && !change->prefer_done;
        transaction_put(&transaction, KEY_PARTITION + slot, 0)->partition = value;
    }
    struct op *op = node_ask(node, OP_PLAN, STORE_TXN, &transaction);
    if (op) {
        op->slot = slot;
        op->topic_id = value.topic_id;
        op->change = *change;
        op->replicas = value.replicas;
        WORLD_TRACE(node->world, "n%d plans p%d: %s, leader %d epoch %d", node_id(node),
                    slot, reasons[change->reason], change->state.leader,
                    change->state.leader_epoch);
    }
}

/* LeaderAndIsr: what was stored, straight to whom it concerns. The watch says the same
 * later. */
void control_planned(struct node *node, const struct op *op, int64_t revision)
{
    for (uint32_t i = 0; i < op->replicas.count; i++) {
        int32_t to = op->replicas.ids[i] - 1;
        struct message *message =
            world_message(node->world, MESSAGE_STATE, node->index, to);
        message->slot = op->slot;
        message->topic_id = op->topic_id;
        message->u.state.state = op->change.state;
        message->u.state.revision = revision;
        message->u.state.replicas = op->replicas;
        world_send(node->world, message);
    }
}

static void plan_all(struct node *node)
{
    struct plan_node nodes[NODES_MAX];
    const struct plan_view view = {
        .controller_epoch = node->controller_epoch,
        .nodes = nodes,
        .node_count = live_nodes(node, nodes),
        .now_ms = node_now(node),
    };
    for (int32_t slot = 0; slot < node->world->profile.slot_count; slot++) {
        struct plan_partition partition;
        struct plan_change change;
        if (!node->view[KEY_PARTITION + slot].present ||
            node_asks(node, OP_PLAN, slot)) {
            continue;
        }
        describe(node, slot, &partition);
        if (plan_partition(&view, &partition, &change) > 0) {
            commit_plan(node, slot, &partition, &change);
        }
    }
}

void control_tick(struct node *node)
{
    if (node->phase != PHASE_UP || node_session(node) != SESSION_GOOD) {
        return;
    }
    detect_tick(node);
    if (node->controller) {
        plan_all(node);
    } else {
        campaign(node);
    }
}
