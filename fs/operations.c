#include "fs/operations.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct operations {
    struct cluster *cluster; /* [const] */
    struct broker *broker;   /* [const] */
    struct parking *parking; /* [const] */
    pthread_t thread;        /* [const] */
    pthread_mutex_t lock;
    pthread_cond_t wake;       /* [lock] */
    struct operation *queue;   /* [lock] oldest first */
    size_t waiting;            /* [lock] length of queue */
    struct operation *running; /* [lock] NULL: none, or its requester was let go */
    bool stopping;             /* [lock] */
};

static const char *operation_name(enum operation_kind kind)
{
    static const char *const names[] = {
        [OPERATION_CREATE_TOPIC] = "create topic",
        [OPERATION_DELETE_TOPIC] = "delete topic",
        [OPERATION_ADD_PARTITION] = "add a partition to topic",
        [OPERATION_SET_CONFIG] = "set config of topic",
        [OPERATION_SET_OWNER] = "set owner or mode of topic",
        [OPERATION_ADMIN] = "admin operation",
    };
    return names[kind];
}

/* A partition is there when the broker has it open: subscribers have run by now. */
static int operation_await(struct operations *operations,
                           const struct operation *operation)
{
    int rc = 0;
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(operations->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, operation->topic);
    for (int32_t i = 0; topic != NULL && rc == 0 && i < topic->partition_count; i++) {
        if (topic->partitions[i].leader != snapshot->self)
            continue;
        struct partition *partition =
            broker_partition(operations->broker, &topic->id, i);
        if (partition == NULL)
            rc = E_OFFLINE;
        partition_unref(partition);
    }
    cluster_snapshot_put(snapshot);
    return rc;
}

/* Whether the topic is still the one that the requester had looked up. */
static int operation_check_topic(struct operations *operations,
                                 const struct operation *operation)
{
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(operations->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, operation->topic);
    bool same = topic != NULL && topic_id_equal(&topic->id, &operation->topic_id);
    cluster_snapshot_put(snapshot);
    return same ? 0 : E_TOPIC_DELETED;
}

static int operation_run(struct operations *operations,
                         const struct operation *operation, char *why, size_t why_size)
{
    struct cluster *cluster = operations->cluster;
    const char *topic = operation->topic;
    int rc = 0;
    if (operation->kind == OPERATION_ADD_PARTITION ||
        operation->kind == OPERATION_SET_CONFIG ||
        (operation->kind == OPERATION_SET_OWNER && topic[0] != '\0'))
        rc = operation_check_topic(operations, operation);
    if (rc < 0)
        return rc;
    switch (operation->kind) {
    case OPERATION_CREATE_TOPIC:
        rc = cluster_create_topic(cluster, topic, NULL, operation->uid, operation->gid,
                                  operation->mode, why, why_size);
        return rc < 0 ? rc : operation_await(operations, operation);
    case OPERATION_DELETE_TOPIC:
        return cluster_delete_topic(cluster, topic, why, why_size);
    case OPERATION_ADD_PARTITION:
        rc = cluster_add_partition(cluster, topic, operation->partition, why, why_size);
        return rc < 0 ? rc : operation_await(operations, operation);
    case OPERATION_SET_CONFIG:
        return cluster_set_config(cluster, topic, operation->json, why, why_size);
    case OPERATION_SET_OWNER:
        return cluster_set_owner(cluster, topic[0] != '\0' ? topic : NULL,
                                 operation->uid, operation->gid, operation->mode);
    case OPERATION_ADMIN:
        return cluster_admin(cluster, operation->name, operation->json, why, why_size);
    }
    return -EINVAL;
}

static int operation_carry_out(struct operations *operations,
                               const struct operation *operation)
{
    char why[512] = "";
    int rc = operation_run(operations, operation, why, sizeof why);
    if (rc < 0) {
        /* The errno is all that the requester gets; the reason stands here. */
        diag(DIAG_WARNING, "%s %s%s refused: %s%s%s", operation_name(operation->kind),
             operation->topic,
             operation->kind == OPERATION_ADMIN ? operation->name : "", err_text(rc),
             why[0] != '\0' ? ": " : "", why);
    }
    return rc;
}

/* The one that has what runs, if anybody still waits for it; it is his to answer. */
static struct operation *operations_claim(struct operations *operations,
                                          const struct operation *only)
{
    (void)pthread_mutex_lock(&operations->lock);
    struct operation *operation = operations->running;
    if (only != NULL && operation != only)
        operation = NULL;
    if (operation != NULL)
        operations->running = NULL;
    (void)pthread_mutex_unlock(&operations->lock);
    return operation;
}

/* The grace after an interrupt is over. */
static void operation_let_go(struct parking_waiter *waiter, enum parking_reason reason)
{
    struct operation *operation =
        (struct operation *)((char *)waiter - offsetof(struct operation, parked));
    (void)reason;
    if (operations_claim(operation->operations, operation) == NULL)
        return; /* done() is on its way */
    parking_remove(waiter);
    operation->done(operation, -EINTR);
}

/* [lock, released meanwhile] Works on a copy: the requester may be let go. */
static void operations_run_one(struct operations *operations,
                               struct operation *operation)
{
    struct operation own = *operation;
    own.json = operation->json != NULL ? cJSON_Duplicate(operation->json, true) : NULL;
    int rc = operation->json != NULL && own.json == NULL ? -ENOMEM : 0;
    operation->state = OPERATION_RUNNING;
    operations->running = operation;
    (void)pthread_mutex_unlock(&operations->lock);
    rc = rc < 0 ? rc : operation_carry_out(operations, &own);
    cJSON_Delete(own.json);
    operation = operations_claim(operations, NULL);
    if (operation != NULL) {
        if (operation->is_parked)
            parking_remove(&operation->parked);
        operation->done(operation, rc);
    }
    (void)pthread_mutex_lock(&operations->lock);
}

static void *operations_thread(void *arg)
{
    struct operations *operations = arg;
    (void)pthread_mutex_lock(&operations->lock);
    while (!operations->stopping) {
        struct operation *operation = operations->queue;
        if (operation == NULL) {
            (void)pthread_cond_wait(&operations->wake, &operations->lock);
            continue;
        }
        DL_DELETE(operations->queue, operation);
        operations->waiting--;
        operations_run_one(operations, operation);
    }
    (void)pthread_mutex_unlock(&operations->lock);
    return NULL;
}

struct operations *operations_start(struct cluster *cluster, struct broker *broker,
                                    struct parking *parking)
{
    struct operations *operations = calloc(1, sizeof *operations);
    if (operations == NULL)
        return NULL;
    operations->cluster = cluster;
    operations->broker = broker;
    operations->parking = parking;
    (void)pthread_mutex_init(&operations->lock, NULL);
    (void)pthread_cond_init(&operations->wake, NULL);
    if (pthread_create(&operations->thread, NULL, operations_thread, operations) != 0) {
        operations_free(operations);
        return NULL;
    }
    return operations;
}

void operations_stop(struct operations *operations)
{
    struct operation *operation, *next, *queue;
    (void)pthread_mutex_lock(&operations->lock);
    operations->stopping = true;
    queue = operations->queue;
    operations->queue = NULL;
    operations->waiting = 0;
    DL_FOREACH(queue, operation)
    operation->state = OPERATION_RUNNING; /* interrupts come too late now */
    (void)pthread_cond_signal(&operations->wake);
    (void)pthread_mutex_unlock(&operations->lock);
    DL_FOREACH_SAFE(queue, operation, next)
    operation->done(operation, -EINTR);
    (void)pthread_join(operations->thread, NULL);
}

void operations_free(struct operations *operations)
{
    if (operations == NULL)
        return;
    (void)pthread_cond_destroy(&operations->wake);
    (void)pthread_mutex_destroy(&operations->lock);
    free(operations);
}

void operation_init(struct operation *operation, enum operation_kind kind,
                    void (*done)(struct operation *operation, int code))
{
    memset(operation, 0, sizeof *operation);
    operation->kind = kind;
    operation->done = done;
    operation->uid = (uid_t)-1;
    operation->gid = (gid_t)-1;
    operation->mode = (mode_t)-1;
}

void operations_submit(struct operations *operations, struct operation *operation)
{
    int rc = 0;
    (void)pthread_mutex_lock(&operations->lock);
    if (operation->interrupted || operations->stopping) {
        rc = -EINTR;
    } else if (operations->waiting >= OPERATIONS_MAX) {
        rc = -EBUSY;
    } else {
        operation->state = OPERATION_QUEUED;
        operation->operations = operations;
        DL_APPEND(operations->queue, operation);
        operations->waiting++;
        (void)pthread_cond_signal(&operations->wake);
    }
    if (rc < 0)
        operation->state = OPERATION_RUNNING;
    (void)pthread_mutex_unlock(&operations->lock);
    if (rc < 0)
        operation->done(operation, rc);
}

void operations_interrupt(struct operations *operations, struct operation *operation)
{
    bool ended = false;
    (void)pthread_mutex_lock(&operations->lock);
    operation->interrupted = true;
    if (operation->state == OPERATION_QUEUED) {
        DL_DELETE(operations->queue, operation);
        operations->waiting--;
        operation->state = OPERATION_INTERRUPTED;
        ended = true;
    } else if (operations->running == operation && !operation->is_parked) {
        operation->is_parked = true;
        parking_waiter_init(&operation->parked, operations->parking, operation_let_go);
        parking_interrupt(&operation->parked);
        parking_add(&operation->parked, PARKING_FOREVER, OPERATIONS_GRACE_MS);
    }
    (void)pthread_mutex_unlock(&operations->lock);
    if (ended)
        operation->done(operation, -EINTR);
}
