#include "coord/controller_loop.h"

#include "coord/admin_work.h"
#include "coord/cluster_private.h"
#include "coord/controller.h"
#include "coord/controller_plan.h"
#include "coord/diag.h"
#include "coord/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without memory for its bucket a time of waiting is not noted; it is later. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum {
    /* Per transaction: a compare and a put for each state, the same for assignments. */
    BATCH_MAX = 100,
    REBALANCE_AFTER_MS = 5000, /* a preferred replica in sync for so long leads again */
    NEW_TOPIC_MS = 60000,      /* a topic so young never had the states that it lacks */
};

struct since_key {
    struct topic_id id;
    int32_t partition;
};

/* Since when a partition waits for something; kept only while it does. */
struct since {
    struct since_key key;
    int64_t leaderless_ms; /* -1: it has a leader */
    int64_t preferred_ms;  /* -1: nothing to give back */
    bool seen;             /* in the round that runs */
    UT_hash_handle hh;
};

struct controller_loop {
    struct cluster *cluster;
    struct since *waiting;
    int64_t looked_at;        /* revision; -1: look again also without a change */
    int64_t decided_revision; /* of the latest own commit */
    bool active;              /* this node was the controller */
};

struct controller_loop *controller_loop_new(struct cluster *cluster)
{
    struct controller_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return NULL;
    loop->cluster = cluster;
    loop->looked_at = -1;
    return loop;
}

static void forget_all(struct controller_loop *loop)
{
    struct since *since = loop->waiting;

    HASH_CLEAR(hh, loop->waiting); /* their links stay */
    while (since) {
        struct since *next = since->hh.next;

        free(since);
        since = next;
    }
}

void controller_loop_free(struct controller_loop *loop)
{
    if (!loop)
        return;
    forget_all(loop);
    free(loop);
}

/* ---- one round ---- */

struct round {
    struct controller_loop *loop;
    const struct snapshot *snapshot;
    struct plan_node *nodes;
    struct plan_view view;
    struct admin_work reassign, prefer;
    struct txn txn;
    int states;                   /* in txn */
    int topics;                   /* whose assignment txn compares */
    struct assignment assignment; /* of the topic at hand, once it changes */
    bool incomplete;              /* there is more to do, after this is shown */
};

static int64_t now_ms(const struct controller_loop *loop)
{
    return clock_mono_ms(loop->cluster->params.clock);
}

static void begin_txn(struct round *round)
{
    txn_init(&round->txn, round->loop->cluster->prefix);
    txn_compare(&round->txn, STORE_CREATE_REVISION,
                round->snapshot->controller_revision, "controller");
    round->states = round->topics = 0;
}

/* Somebody else was faster: the next snapshot tells. */
static int finish_txn(struct round *round)
{
    struct controller_loop *loop = round->loop;
    int64_t revision = 0;
    int rc;

    if (round->states == 0 && round->txn.op_count == 0) {
        txn_free(&round->txn);
        begin_txn(round);
        return 0;
    }
    rc = txn_commit_sure(&round->txn, loop->cluster->store,
                         round->snapshot->shown.revision, &revision);
    if (rc == 0 && revision > loop->decided_revision)
        loop->decided_revision = revision;
    if (rc == E_CONFLICT)
        round->incomplete = true;
    begin_txn(round);
    return rc == E_CONFLICT ? 0 : rc;
}

static const struct plan_node *node_of(const struct plan_view *view, int32_t id)
{
    for (uint32_t i = 0; i < view->node_count; i++)
        if (view->nodes[i].id == id)
            return &view->nodes[i];
    return NULL;
}

/* ---- times of waiting ---- */

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void note(struct round *round, const struct snapshot_topic *topic, int32_t p,
                 bool leaderless, bool returnable, struct plan_partition *out)
{
    struct controller_loop *loop = round->loop;
    struct since_key key;
    struct since *since;

    memset(&key, 0, sizeof(key));
    key.id = topic->topic.id;
    key.partition = p;
    HASH_FIND(hh, loop->waiting, &key, sizeof(key), since);
    if (!leaderless && !returnable) {
        if (since) {
            HASH_DEL(loop->waiting, since);
            free(since);
        }
        return;
    }
    if (!since) {
        since = calloc(1, sizeof(*since));
        if (!since)
            return;
        since->key = key;
        since->leaderless_ms = since->preferred_ms = -1;
        HASH_ADD(hh, loop->waiting, key, sizeof(key), since);
    }
    since->seen = true;
    if (!leaderless)
        since->leaderless_ms = -1;
    else if (since->leaderless_ms < 0)
        since->leaderless_ms = round->view.now_ms;
    if (!returnable)
        since->preferred_ms = -1;
    else if (since->preferred_ms < 0)
        since->preferred_ms = round->view.now_ms;
    out->leaderless_since_ms = since->leaderless_ms;
    out->prefer |=
        returnable && round->view.now_ms - since->preferred_ms >= REBALANCE_AFTER_MS;
}

/* After a round that came to every partition: what is left of topics that are gone, or
 * of states that can't be read any more, would keep the loop looking. */
// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void forget_unseen(struct controller_loop *loop)
{
    struct since *since, *following;

    HASH_ITER(hh, loop->waiting, since, following)
    {
        if (since->seen) {
            since->seen = false;
            continue;
        }
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): neighbours are unlinked first
        HASH_DEL(loop->waiting, since);
        free(since);
    }
}

static bool can_return(const struct round *round,
                       const struct plan_partition *partition)
{
    int32_t preferred = partition->replicas.count > 0 ? partition->replicas.ids[0] : -1;
    const struct plan_node *node = node_of(&round->view, preferred);

    return round->loop->cluster->params.config->auto_leader_rebalance &&
           partition->target.count == 0 && node && !node->leaving &&
           partition->state.leader != preferred &&
           replica_ids_contain(&partition->state.isr, preferred);
}

/* ---- one partition ---- */

/* E_INVALID_JSON: who may lead is not known, so nobody is to be chosen. */
static int describe(struct round *round, const struct snapshot_topic *topic, int32_t p,
                    struct plan_partition *out)
{
    const struct partition_info *info = &topic->infos[p];
    const struct topic_config *config = &topic->topic.config;
    const struct admin_task *task = admin_work_find(&round->reassign, topic, p);
    const struct admin_task *wish = admin_work_find(&round->prefer, topic, p);
    bool led;

    if (topic->states[p].leader_epoch < 0 && info->state_revision > 0)
        return E_INVALID_JSON;
    *out = (struct plan_partition){
        .assignment_revision = topic->assignment_revision,
        .has_state = topic->states[p].leader_epoch >= 0,
        .state_revision = info->state_revision,
        .min_insync = config->min_insync_replicas,
        .unclean_wait_ms = config->unclean_leader_election,
        .leaderless_since_ms = -1,
        .prefer = wish && wish->state == ADMIN_TASK_RUNS,
    };
    replica_ids_set(&out->replicas, info->replicas, info->replica_count);
    if (out->has_state)
        partition_info_leadership(info, &out->state);
    if (task && task->state == ADMIN_TASK_RUNS) {
        out->target = task->target;
        out->original = task->original;
    }
    led = out->has_state && node_of(&round->view, out->state.leader);
    note(round, topic, p, out->has_state && !led, led && can_return(round, out), out);
    return 0;
}

static void fill_loss(struct round *round, const struct plan_partition *partition,
                      const struct plan_change *change, struct partition_state *next)
{
    const struct clock *clock = round->loop->cluster->params.clock;
    const struct suspect *suspect =
        leadership_suspect(&partition->state, change->state.leader);

    next->loss = (struct partition_loss){
        .epoch = change->state.leader_epoch,
        .at_ms = clock->wall_ms(clock),
        .from = suspect ? suspect->end_offset : -1,
        .to = -1,
    };
}

/* A state that is not there although the topic is old was lost: its epochs go on above
 * what its logs may hold. */
static void raise_first_epoch(const struct round *round,
                              const struct snapshot_topic *topic,
                              struct plan_change *change)
{
    const struct clock *clock = round->loop->cluster->params.clock;
    int64_t wall_ms = clock->wall_ms(clock);

    if (wall_ms - topic->topic.created_ms > NEW_TOPIC_MS)
        change->state.leader_epoch = controller_recovered_epoch(wall_ms);
}

static int change_replicas(struct round *round, const struct snapshot_topic *topic,
                           int32_t p, const struct replica_ids *replicas)
{
    int rc = 0;

    if (round->assignment.partition_count == 0)
        rc = assignment_copy(&round->assignment, &topic->assignment,
                             topic->assignment.partition_count);
    if (rc != 0)
        return rc;
    id_list_free(&round->assignment.partitions[p]);
    return id_list_copy(&round->assignment.partitions[p], replicas->ids,
                        replicas->count);
}

static void tell(const struct snapshot_topic *topic, int32_t p,
                 const struct plan_change *change)
{
    if (change->reason == PLAN_UNCLEAN)
        diag(DIAG_WARNING,
             "controller: %s-%" PRId32 ": node %" PRId32 " leads in epoch %" PRId32
             " and may lack committed messages",
             topic->topic.name, p, change->state.leader, change->state.leader_epoch);
    else if (change->reason == PLAN_LEADERLESS)
        diag(DIAG_WARNING, "controller: %s-%" PRId32 " has no leader",
             topic->topic.name, p);
}

static int add_change(struct round *round, const struct snapshot_topic *topic,
                      int32_t p, const struct plan_partition *partition,
                      struct plan_change *change)
{
    struct partition_state next;
    int rc;

    if (change->reason == PLAN_CREATE)
        raise_first_epoch(round, topic, change);
    rc = partition_state_from_leadership(
        &change->state, partition->has_state ? &topic->states[p] : NULL, &next);
    if (rc != 0)
        return rc;
    if (change->reason == PLAN_UNCLEAN)
        fill_loss(round, partition, change, &next);
    tell(topic, p, change);
    cluster_put_state(&round->txn, topic->topic.name, p, partition->state_revision,
                      &next);
    partition_state_free(&next);
    round->states++;
    return change->replicas_changed
               ? change_replicas(round, topic, p, &change->replicas)
               : 0;
}

/* ---- all partitions ---- */

static void end_topic(struct round *round, const struct snapshot_topic *topic)
{
    cluster_compare_assignment(&round->txn, topic->topic.name,
                               topic->assignment_revision);
    round->topics++;
    if (round->assignment.partition_count == 0)
        return;
    cluster_put_assignment(&round->txn, topic->topic.name, &round->assignment);
    assignment_free(&round->assignment);
}

static int look_at_topic(struct round *round, const struct snapshot_topic *topic)
{
    bool touched = false;
    int rc = 0;

    for (int32_t p = 0; p < topic->topic.partition_count && rc == 0; p++) {
        struct plan_partition partition;
        struct plan_change change;

        if (describe(round, topic, p, &partition) != 0)
            continue; /* another program wrote it: a line in problems says so */
        if (plan_partition(&round->view, &partition, &change) != 1)
            continue;
        if (round->states + round->topics >= BATCH_MAX) {
            bool changed = round->assignment.partition_count > 0;

            if (touched)
                end_topic(round, topic);
            rc = finish_txn(round);
            if (changed) { /* its assignment's revision is another one now */
                round->incomplete = true;
                return rc;
            }
        }
        if (rc == 0)
            rc = add_change(round, topic, p, &partition, &change);
        touched = true;
    }
    if (touched)
        end_topic(round, topic);
    return rc;
}

/* ---- admin operations ---- */

static void add_last(struct round *round, enum admin_operation operation,
                     const char *result, const char *reason)
{
    cluster_add_outcome(round->loop->cluster, &round->txn, operation, result, reason);
}

/* Takes out of the store's value what is done; the outcome once that is all. */
static int end_tasks(struct round *round, enum admin_operation operation,
                     const struct admin_work *work)
{
    size_t running = 0, failed = 0;
    char reason[120];
    struct buf value;

    if (!round->snapshot->running[operation])
        return 0;
    for (size_t i = 0; i < work->count; i++) {
        running += work->tasks[i].state == ADMIN_TASK_RUNS;
        failed += work->tasks[i].state == ADMIN_TASK_FAILED;
    }
    /* Elections are told as one: which failed is known when none runs. */
    if (running > 0 && (running == work->count || operation == ADMIN_PREFER))
        return 0;
    txn_compare(&round->txn, STORE_MOD_REVISION,
                round->snapshot->running_revisions[operation], "admin/%s",
                admin_operation_name(operation));
    if (running > 0) {
        buf_init(&value, CLUSTER_VALUE_MAX);
        admin_work_encode(work, operation, &value);
        txn_put(&round->txn, false, &value, "admin/%s",
                admin_operation_name(operation));
        buf_free(&value);
        return finish_txn(round);
    }
    txn_delete(&round->txn, "admin/%s", admin_operation_name(operation));
    snprintf(reason, sizeof(reason),
             "%zu of %zu preferred replicas are not live and in sync", failed,
             work->count);
    add_last(round, operation, failed ? "failed" : "done", failed ? reason : NULL);
    return finish_txn(round);
}

/* ---- the round ---- */

static int begin_round(struct round *round)
{
    const struct cluster_snapshot *shown = &round->snapshot->shown;
    int rc;

    round->nodes = calloc((size_t)shown->broker_count + 1, sizeof(*round->nodes));
    if (!round->nodes)
        return -ENOMEM;
    round->view = (struct plan_view){
        .controller_epoch = shown->controller_epoch,
        .nodes = round->nodes,
        .now_ms = now_ms(round->loop),
    };
    for (uint32_t i = 0; i < shown->broker_count; i++)
        if (!shown->brokers[i].client)
            round->nodes[round->view.node_count++] = (struct plan_node){
                .id = shown->brokers[i].id,
                .broker_epoch = shown->brokers[i].epoch,
                .leaving = shown->brokers[i].stopping,
            };
    rc = admin_work_read(&round->reassign, ADMIN_REASSIGN, round->snapshot);
    if (rc == 0)
        rc = admin_work_read(&round->prefer, ADMIN_PREFER, round->snapshot);
    return rc;
}

static int run_round(struct round *round)
{
    int rc = begin_round(round);

    begin_txn(round);
    for (uint32_t i = 0; i < round->snapshot->shown.topic_count && rc == 0; i++) {
        rc = look_at_topic(round, snapshot_topic_at(round->snapshot, i));
        assignment_free(&round->assignment);
        if (rc == 0 && round->states + round->topics >= BATCH_MAX)
            rc = finish_txn(round);
    }
    if (rc == 0 && !round->incomplete)
        forget_unseen(round->loop);
    if (rc == 0)
        rc = finish_txn(round);
    if (rc == 0)
        rc = end_tasks(round, ADMIN_REASSIGN, &round->reassign);
    if (rc == 0)
        rc = end_tasks(round, ADMIN_PREFER, &round->prefer);
    txn_free(&round->txn);
    return rc;
}

int controller_loop_step(struct controller_loop *loop, const struct snapshot *snapshot)
{
    struct round round = {.loop = loop, .snapshot = snapshot};
    int64_t revision = snapshot->shown.revision;
    int rc;

    loop->active = cluster_is_controller(snapshot);
    if (!loop->active) {
        forget_all(loop);
        loop->looked_at = -1;
        loop->decided_revision = 0;
        return 0;
    }
    if (revision < loop->decided_revision ||
        (revision == loop->looked_at && !loop->waiting))
        return 0;
    rc = run_round(&round);
    admin_work_free(&round.reassign);
    admin_work_free(&round.prefer);
    free(round.nodes);
    loop->looked_at = rc == 0 && !round.incomplete ? revision : -1;
    return rc;
}

bool controller_loop_waits(const struct controller_loop *loop)
{
    return loop->active && (loop->waiting || loop->looked_at < 0);
}
