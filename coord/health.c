#include "coord/health.h"

#include "coord/admin_work.h"
#include "coord/few_replicas.h"
#include "coord/sorted.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SUBJECT_MAX = TOPIC_NAME_MAX + 16,
    TEXT_MAX = 400,
    NODES_MAX = 1024,
    GRACE_MS = 500, /* what an election mends by itself is no news */
};

struct finder {
    const struct snapshot *snapshot;
    health_fn *fn;
    void *arg;
    int32_t dead[NODES_MAX];  /* nodes that hold replicas and are not live, sorted */
    uint32_t held[NODES_MAX]; /* how many replicas each holds */
    uint32_t dead_count;
};

static bool live(const struct finder *finder, int32_t id)
{
    return cluster_snapshot_broker(&finder->snapshot->shown, id) != NULL;
}

static int compare_id(const void *item, const void *id)
{
    int32_t a = *(const int32_t *)item, b = *(const int32_t *)id;

    return (a > b) - (a < b);
}

static void note_dead(struct finder *finder, int32_t id)
{
    bool found;
    size_t at = sorted_place(finder->dead, finder->dead_count, sizeof(finder->dead[0]),
                             &id, compare_id, &found);

    if (found) {
        finder->held[at]++;
        return;
    }
    if (finder->dead_count == NODES_MAX)
        return;
    memmove(&finder->dead[at + 1], &finder->dead[at],
            (finder->dead_count - at) * sizeof(finder->dead[0]));
    memmove(&finder->held[at + 1], &finder->held[at],
            (finder->dead_count - at) * sizeof(finder->held[0]));
    finder->dead[at] = id;
    finder->held[at] = 1;
    finder->dead_count++;
}

/* "1, 2, 3" */
static void add_ids(char *text, size_t size, const int32_t *ids, uint32_t count)
{
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%" PRId32,
                                   i ? ", " : "", ids[i]);
}

static void find_leaderless(const struct finder *finder, const char *subject,
                            const struct topic *topic,
                            const struct partition_info *info)
{
    int64_t unclean = topic->config.unclean_leader_election;
    char ids[120], what[TEXT_MAX];
    bool from_elr = info->isr_count == 0;
    const int32_t *eligible = from_elr ? info->elr : info->isr;
    uint32_t count = from_elr ? info->elr_count : info->isr_count;

    if (info->leader_epoch < 0 && info->state_revision > 0) {
        finder->fn(finder->arg, "leaderless", subject,
                   "its state in the coordination store is malformed: nobody knows who "
                   "may lead",
                   "write the state that it had; deleting the key lets any live "
                   "replica lead, which may lack messages");
        return;
    }
    add_ids(ids, sizeof(ids), eligible, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!live(finder, eligible[i]))
            continue;
        snprintf(what, sizeof(what),
                 "no leader: node %" PRId32 " can lead, and waits for the controller",
                 eligible[i]);
        finder->fn(finder->arg, "leaderless", subject, what,
                   "wait; or see what cluster/problems says of the controller");
        return;
    }
    if (ids[0] == '\0')
        snprintf(what, sizeof(what),
                 "no leader: every replica that was in sync came back from a crash "
                 "without all its messages, and the longest is not live");
    else
        snprintf(what, sizeof(what),
                 "no leader: of the replicas that have all committed messages (node "
                 "%s) none is live",
                 ids);
    finder->fn(finder->arg, "leaderless", subject, what,
               unclean < 0 ? "start one of these nodes; or set unclean_leader_election "
                             "in the topic's config.json, which may lose messages"
                           : "start one of these nodes; another replica will lead "
                             "after unclean_leader_election, and may lack messages");
}

static void find_in_partition(struct finder *finder, const struct topic *topic,
                              int32_t p)
{
    const struct partition_info *info = &topic->partitions[p];
    char subject[SUBJECT_MAX], ids[120], what[TEXT_MAX];

    for (uint32_t i = 0; i < info->replica_count; i++)
        if (!live(finder, info->replicas[i]))
            note_dead(finder, info->replicas[i]);
    snprintf(subject, sizeof(subject), "%s-%" PRId32, topic->name, p);
    if (info->leader < 0) {
        find_leaderless(finder, subject, topic, info);
        return;
    }
    if (info->isr_count >= info->replica_count)
        return;
    add_ids(ids, sizeof(ids), info->isr, info->isr_count);
    if ((int64_t)info->isr_count < topic->config.min_insync_replicas) {
        snprintf(what, sizeof(what),
                 "in sync: node %s; %" PRId64
                 " are needed, so that writes with acks=all wait",
                 ids, topic->config.min_insync_replicas);
        finder->fn(finder->arg, "below-minimum", subject, what,
                   "start the nodes that are missing, or lower min_insync_replicas");
        return;
    }
    snprintf(what, sizeof(what),
             "in sync: node %s; %" PRIu32 " of %" PRIu32 " replicas", ids,
             info->isr_count, info->replica_count);
    finder->fn(finder->arg, "under-replicated", subject, what,
               "start the nodes that are missing; those that run catch up by "
               "themselves");
}

static void find_loss(const struct finder *finder, const struct topic *topic, int32_t p)
{
    const struct partition_loss *loss = &topic->partitions[p].loss;
    char subject[SUBJECT_MAX], range[80], at[32] = "", what[TEXT_MAX];
    time_t seconds = (time_t)(loss->at_ms / 1000);
    struct tm tm;

    if (loss->epoch < 0)
        return;
    if (!gmtime_r(&seconds, &tm) ||
        strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        at[0] = '\0';
    if (loss->from < 0)
        snprintf(range, sizeof(range), "messages");
    else if (loss->to < 0)
        snprintf(range, sizeof(range), "messages from offset %" PRId64 " on",
                 loss->from);
    else
        snprintf(range, sizeof(range), "messages %" PRId64 " to %" PRId64, loss->from,
                 loss->to - 1);
    snprintf(subject, sizeof(subject), "%s-%" PRId32, topic->name, p);
    snprintf(what, sizeof(what),
             "the election of %s (leader epoch %" PRId32 ") may have lost %s", at,
             loss->epoch, range);
    finder->fn(finder->arg, "loss", subject, what,
               "write them again where their origin has them; this line goes with the "
               "topic");
}

static void find_dead_nodes(const struct finder *finder)
{
    for (uint32_t i = 0; i < finder->dead_count; i++) {
        char subject[16], what[TEXT_MAX];

        snprintf(subject, sizeof(subject), "%" PRId32, finder->dead[i]);
        snprintf(what, sizeof(what), "not live, and assigned %" PRIu32 " replica%s",
                 finder->held[i], finder->held[i] == 1 ? "" : "s");
        finder->fn(finder->arg, "node", subject, what,
                   "start it; or, if it will not come back, move its replicas with "
                   "cluster/admin/reassign_partitions");
    }
}

static bool all_in(const struct replica_ids *ids, const int32_t *set, uint32_t count)
{
    bool all = true;

    for (uint32_t i = 0; all && i < ids->count; i++)
        all = replica_ids_list(set, count, ids->ids[i]);
    return all;
}

/* How far a move is, in words; true: it will not end by itself. */
static bool describe_move(const struct finder *finder, const struct admin_task *task,
                          const struct partition_info *info, char *step, size_t size)
{
    int32_t gone[LEADERSHIP_REPLICAS_MAX];
    uint32_t count = 0;
    char ids[120];

    for (uint32_t i = 0; i < task->target.count; i++)
        if (!live(finder, task->target.ids[i]))
            gone[count++] = task->target.ids[i];
    if (count > 0) {
        add_ids(ids, sizeof(ids), gone, count);
        snprintf(step, size, "node %s is not live", ids);
        return true;
    }
    snprintf(step, size, "%s",
             !all_in(&task->target, info->replicas, info->replica_count)
                 ? "about to begin"
             : all_in(&task->target, info->isr, info->isr_count)
                 ? "in sync there, about to end"
                 : "the new replicas are catching up");
    return false;
}

static void find_reassignments(const struct finder *finder)
{
    struct admin_work work;

    if (admin_work_read(&work, ADMIN_REASSIGN, finder->snapshot) != 0)
        return;
    for (size_t i = 0; i < work.count; i++) {
        const struct admin_task *task = &work.tasks[i];
        const struct partition_info *info =
            &task->topic->topic.partitions[task->partition];
        char subject[SUBJECT_MAX], ids[120], step[160], what[TEXT_MAX];
        bool stuck;

        if (task->state != ADMIN_TASK_RUNS)
            continue;
        stuck = describe_move(finder, task, info, step, sizeof(step));
        snprintf(subject, sizeof(subject), "%s-%" PRId32, task->topic->topic.name,
                 task->partition);
        add_ids(ids, sizeof(ids), task->target.ids, task->target.count);
        snprintf(what, sizeof(what), "moving to node %s: %s", ids, step);
        finder->fn(finder->arg, "reassigning", subject, what,
                   stuck ? "start that node; or write the old replicas to "
                           "cluster/admin/reassign_partitions, which takes it back"
                         : "wait; or write the old replicas to "
                           "cluster/admin/reassign_partitions, which takes it back");
    }
    admin_work_free(&work);
}

static void find_few_replicas(const struct finder *finder, const struct topic *topic)
{
    struct few_replicas few;

    if (few_replicas_find(finder->snapshot, topic, &few))
        finder->fn(finder->arg, "few-replicas", topic->name, few.what, few.what_to_do);
}

static void find_in_session(const struct finder *finder,
                            const struct store_status *status)
{
    if (status->session_lost)
        finder->fn(finder->arg, "session", "coordination",
                   "this node's session is over: it leads nothing until it has "
                   "registered again",
                   "it does so by itself once the coordination store answers");
    if (finder->snapshot->shown.controller < 0)
        finder->fn(finder->arg, "controller", "cluster",
                   "no node is the controller: no leader can be replaced",
                   "one is elected by itself while a node with role=replica is live");
}

void health_find(const struct snapshot *snapshot, const struct store_status *status,
                 health_fn *fn, void *arg)
{
    struct finder finder;

    finder.snapshot = snapshot;
    finder.fn = fn;
    finder.arg = arg;
    finder.dead_count = 0;
    find_in_session(&finder, status);
    for (uint32_t i = 0; i < snapshot->shown.topic_count; i++) {
        const struct topic *topic = snapshot->topics[i];

        for (int32_t p = 0; p < topic->partition_count; p++) {
            find_in_partition(&finder, topic, p);
            find_loss(&finder, topic, p);
        }
        find_few_replicas(&finder, topic);
    }
    find_dead_nodes(&finder);
    find_reassignments(&finder);
}

/* ---- what is shown ---- */

struct shown {
    char *kind, *subject;
    bool found; /* in the present round */
    bool told;  /* is in problems */
    int64_t since_ms;
};

struct health {
    struct problems *problems;
    struct shown *shown; /* in the order of finding */
    size_t count, allocated;
    size_t next; /* where the next fault most likely is */
    int64_t now_ms;
    bool waiting;                /* a fault has not lasted long enough to be told */
    const struct snapshot *seen; /* holds a reference */
    bool lost;
};

struct health *health_new(struct problems *problems)
{
    struct health *health = calloc(1, sizeof(*health));

    if (health)
        health->problems = problems;
    return health;
}

void health_free(struct health *health)
{
    if (!health)
        return;
    for (size_t i = 0; i < health->count; i++) {
        free(health->shown[i].kind);
        free(health->shown[i].subject);
    }
    free(health->shown);
    snapshot_unref(health->seen);
    free(health);
}

static bool is_fault(const struct shown *shown, const char *kind, const char *subject)
{
    return strcmp(shown->kind, kind) == 0 && strcmp(shown->subject, subject) == 0;
}

/* Faults come in the same order each time: the search begins after the last found. */
static struct shown *find_shown(struct health *health, const char *kind,
                                const char *subject)
{
    for (size_t i = 0; i < health->count; i++) {
        struct shown *shown = &health->shown[(health->next + i) % health->count];

        if (!is_fault(shown, kind, subject))
            continue;
        health->next = (health->next + i + 1) % health->count;
        return shown;
    }
    return NULL;
}

static struct shown *add_shown(struct health *health, const char *kind,
                               const char *subject)
{
    struct shown *shown;

    if (!health->shown || health->count == health->allocated) {
        size_t wanted = health->allocated ? 2 * health->allocated : 16;

        shown = reallocarray(health->shown, wanted, sizeof(*shown));
        if (!shown)
            return NULL;
        health->shown = shown;
        health->allocated = wanted;
    }
    shown = &health->shown[health->count];
    *shown = (struct shown){
        .kind = strdup(kind), .subject = strdup(subject), .since_ms = health->now_ms};
    if (!shown->kind || !shown->subject) {
        free(shown->kind);
        free(shown->subject);
        return NULL;
    }
    health->count++;
    return shown;
}

static void show(void *arg, const char *kind, const char *subject, const char *what,
                 const char *what_to_do)
{
    struct health *health = arg;
    struct shown *shown = find_shown(health, kind, subject);

    if (!shown)
        shown = add_shown(health, kind, subject);
    if (!shown)
        return; /* without a note it could never be cleared */
    shown->found = true;
    if (!shown->told && health->now_ms - shown->since_ms < GRACE_MS) {
        health->waiting = true;
        return;
    }
    shown->told = true;
    problems_set(health->problems, kind, subject, what, what_to_do);
}

static void clear_healed(struct health *health)
{
    size_t kept = 0;

    for (size_t i = 0; i < health->count; i++) {
        struct shown *shown = &health->shown[i];

        if (shown->found) {
            shown->found = false;
            health->shown[kept++] = *shown;
            continue;
        }
        if (shown->told)
            problems_clear(health->problems, shown->kind, shown->subject);
        free(shown->kind);
        free(shown->subject);
    }
    health->count = kept;
}

void health_update(struct health *health, const struct snapshot *snapshot,
                   const struct store_status *status, int64_t now_ms)
{
    if (!health->problems || (!health->waiting && snapshot == health->seen &&
                              status->session_lost == health->lost))
        return;
    health->next = 0;
    health->now_ms = now_ms;
    health->waiting = false;
    health_find(snapshot, status, show, health);
    clear_healed(health);
    cluster_snapshot_ref(&snapshot->shown);
    snapshot_unref(health->seen);
    health->seen = snapshot;
    health->lost = status->session_lost;
}

bool health_waits(const struct health *health)
{
    return health->waiting;
}
