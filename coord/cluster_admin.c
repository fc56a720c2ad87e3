/*
 * What the admin files do. With one node nothing has to be waited for: an operation and
 * its outcome are one transaction, so that a crash leaves all of it or nothing.
 */
#include "coord/cluster_admin.h"

#include "coord/admin_work.h"
#include "coord/cluster_private.h"
#include "coord/controller.h"
#include "coord/err.h"
#include "coord/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Topics that one transaction on a shared store deletes: four operations each. */
enum { DELETIONS_MAX = 24 };

/* {"version":1,"at":"2026-11-29T12:00:00Z","result":"refused","reason":"..."} */
void cluster_add_outcome(struct cluster *cluster, struct txn *txn,
                         enum admin_operation operation, const char *result,
                         const char *reason)
{
    time_t seconds =
        (time_t)(cluster->params.clock->wall_ms(cluster->params.clock) / 1000);
    struct buf value;
    char at[32] = "";
    struct tm tm;

    if (!gmtime_r(&seconds, &tm) ||
        strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        at[0] = '\0';
    buf_init(&value, 64 * 1024);
    buf_printf(&value, "{\"version\":1,\"at\":\"%s\",\"result\":\"%s\"", at, result);
    if (reason) {
        buf_adds(&value, ",\"reason\":");
        /* A name in the reason may be cut in the middle of a character. */
        if (json_utf8_valid(reason, strlen(reason)))
            json_quote(&value, reason, strlen(reason));
        else
            buf_adds(&value, "\"the request names what is not UTF-8 or too long\"");
    }
    buf_adds(&value, "}");
    txn_put(txn, false, &value, "admin/last/%s", admin_operation_name(operation));
    buf_free(&value);
}

static void put_state(struct txn *txn, const struct admin_item *item,
                      const struct partition_state *state)
{
    cluster_put_state(txn, item->topic->topic.name, item->partition,
                      item->topic->infos[item->partition].state_revision, state);
}

static int prefer(struct txn *txn, const struct controller_view *view,
                  const struct admin_request *request, char *why, size_t why_size)
{
    for (size_t i = 0; i < request->count; i++) {
        const struct admin_item *item = &request->items[i];
        struct partition_state next;
        int rc = controller_prefer(view,
                                   &item->topic->assignment.partitions[item->partition],
                                   &item->topic->states[item->partition], &next);

        if (rc == E_NO_LEADER)
            cluster_explain(why, why_size,
                            "%s-%" PRId32
                            ": its preferred replica is not live and in sync",
                            item->topic->topic.name, item->partition);
        if (rc < 0)
            return rc;
        if (rc == 1)
            put_state(txn, item, &next);
        partition_state_free(&next);
    }
    return 0;
}

static bool same_replicas(const struct id_list *a, const struct id_list *b)
{
    return a->count == b->count &&
           memcmp(a->ids, b->ids, a->count * sizeof(*a->ids)) == 0;
}

/*
 * Moving a replica needs a second live node to fetch from. With one node the assignment
 * can only become, or stay, that node, which must have the partition in sync already.
 */
static int check_reassignment(const struct admin_item *item, char *why, size_t why_size)
{
    const struct partition_state *state = &item->topic->states[item->partition];

    for (uint32_t i = 0; i < item->replicas.count; i++) {
        if (id_list_contains(&state->isr, item->replicas.ids[i]))
            continue;
        cluster_explain(why, why_size,
                        "%s-%" PRId32 ": node %" PRId32
                        " has no copy in sync, and no live node can give it one",
                        item->topic->topic.name, item->partition,
                        item->replicas.ids[i]);
        return E_NO_LEADER;
    }
    return 0;
}

/* One assignment value per topic: items are sorted by topic. Returns how many items. */
static size_t reassign_topic(struct txn *txn, const struct admin_item *items,
                             size_t count)
{
    const struct snapshot_topic *topic = items[0].topic;
    struct assignment next = topic->assignment; /* the lists stay the topic's */
    struct id_list *all = calloc((size_t)next.partition_count, sizeof(*all));
    size_t n = 0;

    if (!all) {
        txn_fail(txn, -ENOMEM);
        return count;
    }
    memcpy(all, topic->assignment.partitions,
           (size_t)next.partition_count * sizeof(*all));
    next.partitions = all;
    for (; n < count && items[n].topic == topic; n++)
        all[items[n].partition] = items[n].replicas;
    cluster_compare_assignment(txn, topic->topic.name, topic->assignment_revision);
    cluster_put_assignment(txn, topic->topic.name, &next);
    free(all);
    return n;
}

static int reassign(struct txn *txn, const struct controller_view *view,
                    const struct admin_request *request, char *why, size_t why_size)
{
    for (size_t i = 0; i < request->count; i++) {
        const struct admin_item *item = &request->items[i];
        const struct id_list *old =
            &item->topic->assignment.partitions[item->partition];
        struct partition_state next;
        int rc;

        if (same_replicas(old, &item->replicas))
            continue;
        rc = check_reassignment(item, why, why_size);
        if (rc == 0)
            rc = controller_elect(view, &item->replicas,
                                  &item->topic->states[item->partition],
                                  item->topic->topic.config.min_insync_replicas, &next);
        if (rc != 0)
            return rc;
        put_state(txn, item, &next);
        partition_state_free(&next);
    }
    for (size_t i = 0; i < request->count;)
        i += reassign_topic(txn, &request->items[i], request->count - i);
    return 0;
}

static int carry_out(struct cluster *cluster, enum admin_operation operation,
                     const struct snapshot *base, const struct admin_request *request,
                     struct txn *txn, char *why, size_t why_size)
{
    struct controller_view view = {.epoch = base->shown.controller_epoch};
    struct id_list live;
    int rc;

    if (operation == ADMIN_DELETE) {
        for (size_t i = 0; i < request->count; i++)
            cluster_add_deletion(cluster, txn, request->items[i].topic);
        cluster_add_tombstone_pruning(cluster, txn, base, (uint32_t)request->count);
        return 0;
    }
    rc = cluster_live(base, &live);
    if (rc != 0)
        return rc;
    view.live = &live;
    rc = operation == ADMIN_PREFER ? prefer(txn, &view, request, why, why_size)
                                   : reassign(txn, &view, request, why, why_size);
    id_list_free(&live);
    return rc;
}

/* The refusal's own outcome; that it can't be recorded does not change the answer. */
static void record_refusal(struct cluster *cluster, const struct snapshot *base,
                           enum admin_operation operation, const char *reason)
{
    struct txn txn;

    txn_init(&txn, cluster->prefix);
    cluster_add_outcome(cluster, &txn, operation, "refused", reason);
    (void)cluster_commit(cluster, &txn, base);
}

/* ---- with several nodes ---- */

/* While it moves, a partition is on the old nodes and the new. */
static int check_room(const struct admin_task *task, char *why, size_t why_size)
{
    uint32_t count = task->target.count;

    for (uint32_t i = 0; i < task->original.count; i++)
        count += !replica_ids_contain(&task->target, task->original.ids[i]);
    if (count <= LEADERSHIP_REPLICAS_MAX)
        return 0;
    cluster_explain(why, why_size,
                    "%s-%" PRId32 ": old and new replicas are together on %" PRIu32
                    " nodes, more than %d: move it in two steps",
                    task->topic->topic.name, task->partition, count,
                    LEADERSHIP_REPLICAS_MAX);
    return E_INVALID_REPLICATION_FACTOR;
}

/*
 * Elections and reassignments are the controller's: the request goes to the store,
 * where it stays while it runs. Merged per partition into what runs already.
 */
static int add_task(const struct admin_item *item, enum admin_operation operation,
                    struct admin_work *work, char *why, size_t why_size)
{
    const struct partition_info *info = &item->topic->infos[item->partition];
    struct admin_task task = {.topic = item->topic, .partition = item->partition};
    int rc = 0;

    if (operation == ADMIN_REASSIGN) {
        replica_ids_set(&task.target, item->replicas.ids, item->replicas.count);
        replica_ids_set(&task.original, info->replicas, info->replica_count);
        rc = check_room(&task, why, why_size);
    }
    return rc ? rc : admin_work_put(work, &task);
}

/* Taking a reassignment back must leave a replica that can lead. */
static int check_return(const struct snapshot *base, const struct admin_task *task,
                        char *why, size_t why_size)
{
    const struct partition_state *state = &task->topic->states[task->partition];

    if (!replica_ids_same_members(&task->target, &task->original))
        return 0;
    for (uint32_t i = 0; i < task->target.count; i++) {
        int32_t id = task->target.ids[i];
        const struct broker_info *broker = cluster_snapshot_broker(&base->shown, id);

        if (broker && !broker->client &&
            (id_list_contains(&state->isr, id) || id_list_contains(&state->elr, id)))
            return 0;
    }
    cluster_explain(why, why_size,
                    "%s-%" PRId32 ": of these replicas none is live and in sync, so "
                    "that nobody could lead",
                    task->topic->topic.name, task->partition);
    return E_NO_LEADER;
}

static int check_preferred(const struct snapshot *base, const struct admin_item *item,
                           char *why, size_t why_size)
{
    const struct partition_info *info = &item->topic->infos[item->partition];
    const struct broker_info *broker =
        cluster_snapshot_broker(&base->shown, info->replicas[0]);

    if (info->leader == info->replicas[0] ||
        (broker && !broker->client &&
         id_list_contains(&item->topic->states[item->partition].isr, broker->id)))
        return 0;
    cluster_explain(why, why_size,
                    "%s-%" PRId32 ": its preferred replica is not live and in sync",
                    item->topic->topic.name, item->partition);
    return E_NO_LEADER;
}

static int merge_request(enum admin_operation operation, const struct snapshot *base,
                         const struct admin_request *request, struct admin_work *work,
                         char *why, size_t why_size)
{
    int rc = admin_work_read(work, operation, base);

    for (size_t i = 0; i < request->count && rc == 0; i++) {
        const struct admin_item *item = &request->items[i];
        const struct admin_task *task;

        rc = operation == ADMIN_PREFER ? check_preferred(base, item, why, why_size) : 0;
        if (rc == 0)
            rc = add_task(item, operation, work, why, why_size);
        task = rc ? NULL : admin_work_find(work, item->topic, item->partition);
        if (task && operation == ADMIN_REASSIGN)
            rc = check_return(base, task, why, why_size);
    }
    return rc;
}

static int hand_in(struct cluster *cluster, enum admin_operation operation,
                   const struct snapshot *base, const struct admin_request *request,
                   struct txn *txn, char *why, size_t why_size)
{
    struct admin_work work = {0};
    struct buf value;
    int rc = merge_request(operation, base, request, &work, why, why_size);

    if (rc == 0) {
        buf_init(&value, CLUSTER_VALUE_MAX);
        admin_work_encode(&work, operation, &value);
        txn_compare(txn, STORE_MOD_REVISION, base->running_revisions[operation],
                    "admin/%s", admin_operation_name(operation));
        txn_put(txn, false, &value, "admin/%s", admin_operation_name(operation));
        buf_free(&value);
        rc = cluster_commit(cluster, txn, base);
    } else {
        txn_free(txn);
    }
    admin_work_free(&work);
    return rc;
}

/* As many topics as a transaction takes. -EAGAIN and *rest: the rest by the next. */
static int delete_some(struct cluster *cluster, const struct snapshot *base,
                       struct admin_request *request, struct txn *txn, bool *rest)
{
    size_t some = request->count < DELETIONS_MAX ? request->count : DELETIONS_MAX;
    int rc;

    for (size_t i = 0; i < some; i++)
        cluster_add_deletion(cluster, txn, request->items[i].topic);
    if (some == request->count) {
        cluster_add_tombstone_pruning(cluster, txn, base, (uint32_t)some);
        cluster_add_outcome(cluster, txn, ADMIN_DELETE, "done", NULL);
    }
    rc = cluster_commit(cluster, txn, base);
    *rest = rc == 0 && some < request->count;
    return *rest ? -EAGAIN : rc;
}

static int admin_once(struct cluster *cluster, enum admin_operation operation,
                      const cJSON *request_json, bool again, bool *rest, char *why,
                      size_t why_size)
{
    struct admin_request request = {0};
    const struct snapshot *base;
    char reason[400] = "";
    struct txn txn;
    int rc;

    cluster_begin(cluster, &base);
    txn_init(&txn, cluster->prefix);
    rc = admin_request_read(operation, request_json, again && operation == ADMIN_DELETE,
                            base, &request, reason, sizeof(reason));
    if (rc != 0)
        txn_free(&txn);
    else if (operation == ADMIN_DELETE)
        rc = delete_some(cluster, base, &request, &txn, rest);
    else
        rc = hand_in(cluster, operation, base, &request, &txn, reason, sizeof(reason));
    if (rc != 0 && rc != -EAGAIN) {
        if (reason[0] == '\0')
            cluster_explain(reason, sizeof(reason), "%s", err_text(rc));
        if (rc != E_OUTCOME_UNKNOWN && rc != E_STORE_UNREACHABLE)
            record_refusal(cluster, base, operation, reason);
    }
    cluster_explain(why, why_size, "%s", reason);
    admin_request_free(&request);
    return cluster_end(cluster, base, rc);
}

static int admin_shared(struct cluster *cluster, enum admin_operation operation,
                        const cJSON *request, char *why, size_t why_size)
{
    bool again = false, rest;
    int attempts = 0, rc;

    do {
        rest = false;
        rc = admin_once(cluster, operation, request, again, &rest, why, why_size);
        again = true;
        attempts = rest ? 0 : attempts; /* that was no race that was lost */
    } while (cluster_again(&rc, &attempts));
    return rc;
}

int cluster_admin(struct cluster *cluster, const char *operation_name,
                  const cJSON *request_json, char *why, size_t why_size)
{
    int operation = admin_operation_find(operation_name);
    struct admin_request request = {0};
    const struct snapshot *base;
    char reason[400] = "";
    struct txn txn;
    int rc;

    if (operation < 0) {
        cluster_explain(why, why_size, "%s: no such operation", operation_name);
        return operation;
    }
    if (cluster->shared)
        return admin_shared(cluster, (enum admin_operation)operation, request_json, why,
                            why_size);
    cluster_begin(cluster, &base);
    txn_init(&txn, cluster->prefix);
    rc = admin_request_read((enum admin_operation)operation, request_json, false, base,
                            &request, reason, sizeof(reason));
    if (rc == 0)
        rc = carry_out(cluster, (enum admin_operation)operation, base, &request, &txn,
                       reason, sizeof(reason));
    if (rc == 0) {
        cluster_add_outcome(cluster, &txn, (enum admin_operation)operation, "done",
                            NULL);
        rc = cluster_commit(cluster, &txn, base);
        cluster_explain(why, why_size, "%s", rc ? err_text(rc) : "");
    } else {
        txn_free(&txn);
        if (reason[0] == '\0')
            cluster_explain(reason, sizeof(reason), "%s", err_text(rc));
        record_refusal(cluster, base, (enum admin_operation)operation, reason);
        cluster_explain(why, why_size, "%s", reason);
    }
    admin_request_free(&request);
    return cluster_end(cluster, base, rc);
}
