#include "coord/cluster.h"

#include "coord/cluster_private.h"
#include "coord/controller.h"
#include "coord/diag.h"
#include "coord/err.h"
#include "coord/store_embedded.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cluster_explain(char *why, size_t why_size, const char *format, ...)
{
    va_list arguments;

    if (!why || why_size == 0)
        return;
    va_start(arguments, format);
    vsnprintf(why, why_size, format, arguments);
    va_end(arguments);
}

/* The store's watch: makes the next snapshot current and queues it for subscribers. */
static void on_store_change(void *arg, const struct store_kv *kvs, size_t count,
                            int64_t revision)
{
    struct cluster *cluster = arg;
    struct cluster_notice *notice = calloc(1, sizeof(*notice));
    const struct snapshot *old = cluster->snapshot; /* only this function replaces it */
    struct snapshot *next = NULL;
    int rc = model_apply(cluster->model, old, kvs, count, revision, &next);

    if (rc != 0 || !notice) {
        diag(DIAG_ERROR, "cluster: revision %lld can't be shown: %s",
             (long long)revision, err_text(rc ? rc : -ENOMEM));
        snapshot_unref(next);
        free(notice);
        return;
    }
    atomic_fetch_add(&next->references, 1);
    notice->snapshot = next;
    pthread_mutex_lock(&cluster->lock);
    cluster->snapshot = next;
    *cluster->notices_end = notice;
    cluster->notices_end = &notice->next;
    pthread_mutex_unlock(&cluster->lock);
    snapshot_unref(old);
}

/*
 * [lock, released during calls] Shows queued snapshots to the subscribers, in order,
 * one thread at a time; returns when the queue is empty and no other thread is showing
 * one.
 */
static void notify(struct cluster *cluster)
{
    if (cluster->notifying && pthread_equal(cluster->notifier, pthread_self()))
        return;
    while (cluster->notifying || cluster->notices) {
        struct cluster_notice *notice = cluster->notices;

        if (cluster->notifying) {
            pthread_cond_wait(&cluster->notified_cond, &cluster->lock);
            continue;
        }
        cluster->notifying = true;
        cluster->notifier = pthread_self();
        cluster->notices = notice->next;
        if (!cluster->notices)
            cluster->notices_end = &cluster->notices;
        for (int i = 0; i < cluster->subscriber_count; i++) {
            cluster_change_fn *fn = cluster->subscribers[i].fn;
            void *arg = cluster->subscribers[i].arg;

            pthread_mutex_unlock(&cluster->lock);
            fn(arg, &notice->snapshot->shown);
            pthread_mutex_lock(&cluster->lock);
        }
        cluster->notifying = false;
        pthread_cond_broadcast(&cluster->notified_cond);
        snapshot_unref(notice->snapshot);
        free(notice);
    }
}

static const struct snapshot *snapshot_get(struct cluster *cluster)
{
    const struct snapshot *snapshot;

    pthread_mutex_lock(&cluster->lock);
    snapshot = cluster->snapshot;
    cluster_snapshot_ref(&snapshot->shown);
    pthread_mutex_unlock(&cluster->lock);
    return snapshot;
}

const struct cluster_snapshot *cluster_snapshot_get(struct cluster *cluster)
{
    return &snapshot_get(cluster)->shown;
}

void cluster_begin(struct cluster *cluster, const struct snapshot **base)
{
    pthread_mutex_lock(&cluster->operations_lock);
    *base = snapshot_get(cluster);
}

int cluster_commit(struct cluster *cluster, struct txn *txn,
                   const struct snapshot *base)
{
    int64_t revision;

    txn_compare(txn, STORE_CREATE_REVISION, base->controller_revision, "controller");
    return txn_commit(txn, cluster->store, &revision);
}

int cluster_end(struct cluster *cluster, const struct snapshot *base, int rc)
{
    snapshot_unref(base);
    pthread_mutex_unlock(&cluster->operations_lock);
    pthread_mutex_lock(&cluster->lock);
    notify(cluster);
    pthread_mutex_unlock(&cluster->lock);
    return rc;
}

int cluster_live(const struct snapshot *snapshot, struct id_list *out)
{
    uint32_t count = snapshot->shown.broker_count;

    *out = (struct id_list){.ids = calloc((size_t)count + 1, sizeof(int32_t))};
    if (!out->ids)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        out->ids[i] = snapshot->brokers[i].id;
    out->count = count;
    return 0;
}

int cluster_subscribe(struct cluster *cluster, cluster_change_fn *fn, void *arg)
{
    const struct snapshot *snapshot;

    pthread_mutex_lock(&cluster->lock);
    if (cluster->subscriber_count == CLUSTER_SUBSCRIBERS_MAX) {
        pthread_mutex_unlock(&cluster->lock);
        return -ENOSPC;
    }
    cluster->subscribers[cluster->subscriber_count].fn = fn;
    cluster->subscribers[cluster->subscriber_count++].arg = arg;
    snapshot = cluster->snapshot;
    cluster_snapshot_ref(&snapshot->shown);
    pthread_mutex_unlock(&cluster->lock);
    fn(arg, &snapshot->shown);
    snapshot_unref(snapshot);
    return 0;
}

void cluster_unsubscribe(struct cluster *cluster, cluster_change_fn *fn, void *arg)
{
    pthread_mutex_lock(&cluster->lock);
    while (cluster->notifying)
        pthread_cond_wait(&cluster->notified_cond, &cluster->lock);
    for (int i = 0; i < cluster->subscriber_count; i++) {
        if (cluster->subscribers[i].fn != fn || cluster->subscribers[i].arg != arg)
            continue;
        cluster->subscribers[i] = cluster->subscribers[--cluster->subscriber_count];
        break;
    }
    pthread_mutex_unlock(&cluster->lock);
}

bool cluster_store_was_created(const struct cluster *cluster)
{
    return cluster->store_was_created;
}

/* Splits "host:port" or "[v6]:port"; a host that is empty or a wildcard becomes this
 * machine's name. */
static void parse_address(const char *address, struct registration *registration)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : strlen(address);
    char *host = registration->host;

    registration->port = colon ? (int32_t)strtol(colon + 1, NULL, 10) : 0;
    if (registration->port < 0 || registration->port > 65535)
        registration->port = 0;
    if (length >= 2 && address[0] == '[' && address[length - 1] == ']') {
        address++;
        length -= 2;
    }
    snprintf(host, sizeof(registration->host), "%.*s", (int)length, address);
    if (host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 ||
        strcmp(host, "*") == 0) {
        if (gethostname(host, sizeof(registration->host)) < 0)
            snprintf(host, sizeof(registration->host), "localhost");
        host[sizeof(registration->host) - 1] = '\0';
    }
}

static void describe_self(const struct cluster *cluster, struct registration *out)
{
    const struct mount_config *config = cluster->params.config;
    const char *address = config->advertise && config->advertise[0] ? config->advertise
                          : config->listen                          ? config->listen
                                                                    : "";

    *out = (struct registration){0};
    parse_address(address, out);
    snprintf(out->rack, sizeof(out->rack), "%s", config->rack ? config->rack : "");
    snprintf(out->instance, sizeof(out->instance), "%s",
             cluster->params.instance ? cluster->params.instance : "");
}

/* Registers this node. The key's create revision is the broker epoch. */
static int register_self(struct cluster *cluster)
{
    struct registration registration;
    struct buf value;
    struct txn txn;
    int64_t revision;
    int rc;

    describe_self(cluster, &registration);
    buf_init(&value, 4096);
    registration_encode(&value, &registration, 0);
    txn_init(&txn, cluster->prefix);
    txn_compare(&txn, STORE_CREATE_REVISION, 0, "brokers/ids/%d", cluster->self);
    txn_put(&txn, true, &value, "brokers/ids/%d", cluster->self);
    rc = txn_commit(&txn, cluster->store, &revision);
    buf_free(&value);
    return rc;
}

/* Becomes controller: the key and the next epoch in one transaction. */
static int elect_self(struct cluster *cluster)
{
    const struct snapshot *base = cluster->snapshot;
    struct buf value;
    struct txn txn;
    int64_t revision;
    int32_t epoch = 0;
    int rc;

    rc = controller_next_epoch(
        base->controller_epoch_revision ? base->shown.controller_epoch : -1, &epoch);
    buf_init(&value, 256);
    txn_init(&txn, cluster->prefix);
    txn_fail(&txn, rc);
    txn_compare(&txn, STORE_CREATE_REVISION, 0, "controller");
    txn_compare(&txn, STORE_MOD_REVISION, base->controller_epoch_revision,
                "controller_epoch");
    controller_encode(&value, cluster->self);
    txn_put(&txn, true, &value, "controller");
    controller_epoch_encode(&value, epoch);
    txn_put(&txn, false, &value, "controller_epoch");
    cluster_add_tombstone_pruning(cluster, &txn, base, 0);
    rc = txn_commit(&txn, cluster->store, &revision);
    buf_free(&value);
    return rc;
}

/* The next state of one partition, now that this incarnation is here. */
static int elect_partition(struct cluster *cluster, struct txn *txn,
                           const struct controller_view *view,
                           const struct snapshot_topic *topic, int32_t p,
                           struct buf *value)
{
    const struct id_list *replicas = &topic->assignment.partitions[p];
    const struct partition_state *old = &topic->states[p];
    struct partition_state next;
    int rc;

    if (old->leader_epoch < 0)
        rc = controller_new_partition(
            view, replicas,
            controller_recovered_epoch(
                cluster->params.clock->wall_ms(cluster->params.clock)),
            &next);
    else
        rc = controller_elect(view, replicas, old,
                              topic->topic.config.min_insync_replicas, &next);
    if (rc != 0)
        return rc;
    txn_compare(txn, STORE_MOD_REVISION, topic->infos[p].state_revision,
                "brokers/topics/%s/partitions/%d/state", topic->topic.name, p);
    partition_state_encode(value, &next);
    txn_put(txn, false, value, "brokers/topics/%s/partitions/%d/state",
            topic->topic.name, p);
    rc = next.leader < 0;
    partition_state_free(&next);
    return rc;
}

/*
 * New leaders and leader epochs for everything that this node leads or could lead: one
 * transaction, as each costs a flush.
 */
static int elect_partitions(struct cluster *cluster)
{
    const struct snapshot *base = cluster->snapshot;
    struct controller_view view = {.epoch = base->shown.controller_epoch};
    struct id_list live = {0};
    struct buf value;
    struct txn txn;
    char what[120];
    int leaderless = 0;
    int rc = cluster_live(base, &live);

    view.live = &live;
    buf_init(&value, 64 * 1024);
    txn_init(&txn, cluster->prefix);
    txn_fail(&txn, rc);
    for (uint32_t i = 0; i < base->shown.topic_count; i++) {
        const struct snapshot_topic *topic = snapshot_topic_at(base, i);

        for (int32_t p = 0; p < topic->assignment.partition_count; p++) {
            rc = elect_partition(cluster, &txn, &view, topic, p, &value);
            txn_fail(&txn, rc < 0 ? rc : 0);
            leaderless += rc == 1;
        }
    }
    rc = cluster_commit(cluster, &txn, base);
    if (rc == 0 && leaderless > 0) {
        snprintf(what, sizeof(what), "%d partitions have no live in-sync replica",
                 leaderless);
        problems_set(cluster->params.problems, "leaderless", "cluster", what,
                     "mount with the node id that their assignment names");
    }
    buf_free(&value);
    id_list_free(&live);
    return rc;
}

/* The present contents, then changes as they come. */
static int load(struct cluster *cluster)
{
    struct store_list list;
    struct snapshot *empty = snapshot_new(), *first = NULL;
    int rc = empty ? cluster->store->ops->list(cluster->store, cluster->prefix, &list)
                   : -ENOMEM;

    if (rc == 0) {
        rc = model_apply(cluster->model, empty, list.items, list.count, list.revision,
                         &first);
        cluster->snapshot = first;
        if (rc == 0)
            rc = cluster->store->ops->watch(cluster->store, list.revision,
                                            on_store_change, cluster);
        store_list_free(&list);
    }
    snapshot_unref(empty);
    return rc;
}

static struct cluster *cluster_new(const struct cluster_params *params)
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));

    if (!cluster)
        return NULL;
    cluster->params = *params;
    cluster->params.store_dir = NULL;
    cluster->params.instance = NULL;
    cluster->defaults = params->config->topic;
    cluster->self = (int32_t)params->config->node;
    cluster->notices_end = &cluster->notices;
    pthread_mutex_init(&cluster->operations_lock, NULL);
    pthread_mutex_init(&cluster->lock, NULL);
    pthread_cond_init(&cluster->notified_cond, NULL);
    if (asprintf(&cluster->prefix, "/topicfs/%s/", params->config->cluster) < 0)
        cluster->prefix = NULL;
    else
        cluster->model = model_new(cluster->prefix, cluster->self, &cluster->defaults,
                                   params->problems);
    if (cluster->model)
        return cluster;
    cluster_close(cluster);
    return NULL;
}

static int join(struct cluster *cluster, const char *instance)
{
    int rc;

    cluster->params.instance = instance;
    rc = load(cluster);
    if (rc == 0)
        rc = register_self(cluster);
    if (rc == 0)
        rc = elect_self(cluster);
    if (rc == 0)
        rc = elect_partitions(cluster);
    cluster->params.instance = NULL;
    return rc;
}

int cluster_open(const struct cluster_params *params, struct cluster **out, char *why,
                 size_t why_size)
{
    struct cluster *cluster;
    int rc;

    *out = NULL;
    cluster_explain(why, why_size, "%s", "");
    if (strcmp(params->config->coord, "embedded") != 0) {
        cluster_explain(why, why_size, "coord=%s: this version has only coord=embedded",
                        params->config->coord);
        return E_INVALID_CONFIG;
    }
    if (topic_name_check(params->config->cluster) != 0) {
        cluster_explain(why, why_size,
                        "cluster=%s: a name of a-z A-Z 0-9 . _ - is needed",
                        params->config->cluster);
        return E_INVALID_CONFIG;
    }
    cluster = cluster_new(params);
    if (!cluster)
        return -ENOMEM;
    rc = store_embedded_open(params->store_dir, params->problems, &cluster->store, why,
                             why_size);
    if (rc == 0) {
        cluster->store_was_created = store_embedded_was_created(cluster->store);
        rc = join(cluster, params->instance);
        if (rc != 0)
            cluster_explain(why, why_size, "joining the cluster: %s", err_text(rc));
    }
    if (rc != 0) {
        cluster_close(cluster);
        return rc;
    }
    pthread_mutex_lock(&cluster->lock);
    notify(cluster); /* nobody subscribed yet: empties the queue */
    pthread_mutex_unlock(&cluster->lock);
    *out = cluster;
    return 0;
}

void cluster_close(struct cluster *cluster)
{
    if (!cluster)
        return;
    if (cluster->store)
        cluster->store->ops->close(cluster->store);
    while (cluster->notices) {
        struct cluster_notice *notice = cluster->notices;

        cluster->notices = notice->next;
        snapshot_unref(notice->snapshot);
        free(notice);
    }
    snapshot_unref(cluster->snapshot);
    model_free(cluster->model);
    pthread_mutex_destroy(&cluster->operations_lock);
    pthread_mutex_destroy(&cluster->lock);
    pthread_cond_destroy(&cluster->notified_cond);
    free(cluster->prefix);
    free(cluster);
}
