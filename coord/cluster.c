#include "coord/cluster.h"

#include "coord/cluster_private.h"
#include "coord/controller.h"
#include "coord/diag.h"
#include "coord/err.h"
#include "coord/store_embedded.h"
#include "coord/store_etcd.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SHOW_WAIT_MS = 30000, /* for this node's watch to report what it committed */
    RACE_WAIT_MS = 300,   /* after a lost race, for the snapshot that tells why */
    RACE_ATTEMPTS = 30,
    REACH_WAIT_MS = 10000, /* for a store that does not answer, at open */
    ELECT_WAIT_MS = 2000,
};

void cluster_explain(char *why, size_t why_size, const char *format, ...)
{
    va_list arguments;

    if (!why || why_size == 0)
        return;
    va_start(arguments, format);
    vsnprintf(why, why_size, format, arguments);
    va_end(arguments);
}

/* [publish_lock] This process's own broker epoch; -1 while it has none that counts. */
static void set_self_epoch(const struct cluster *cluster, struct snapshot *next)
{
    bool own = cluster->own_epoch > 0 && !cluster->session_lost &&
               next->shown.self_epoch == cluster->own_epoch;

    if (cluster->shared && !own)
        next->shown.self_epoch = -1;
}

/* [publish_lock] Makes the next snapshot current and queues it for subscribers. */
static void publish(struct cluster *cluster, const struct store_kv *kvs, size_t count,
                    int64_t revision)
{
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
    set_self_epoch(cluster, next);
    atomic_fetch_add(&next->references, 1);
    notice->snapshot = next;
    pthread_mutex_lock(&cluster->lock);
    notice->sequence = ++cluster->sequence;
    cluster->snapshot = next;
    *cluster->notices_end = notice;
    cluster->notices_end = &notice->next;
    cluster->woken = true;
    pthread_cond_broadcast(&cluster->wake_cond);
    pthread_cond_broadcast(&cluster->notified_cond);
    pthread_mutex_unlock(&cluster->lock);
    snapshot_unref(old);
}

static void on_store_change(void *arg, const struct store_kv *kvs, size_t count,
                            int64_t revision)
{
    struct cluster *cluster = arg;

    pthread_mutex_lock(&cluster->publish_lock);
    publish(cluster, kvs, count, revision);
    pthread_mutex_unlock(&cluster->publish_lock);
}

void cluster_republish(struct cluster *cluster)
{
    pthread_mutex_lock(&cluster->publish_lock);
    publish(cluster, NULL, 0, cluster->snapshot->shown.revision);
    pthread_mutex_unlock(&cluster->publish_lock);
}

bool cluster_note_session(struct cluster *cluster, const struct store_status *status)
{
    bool lost;

    pthread_mutex_lock(&cluster->publish_lock);
    if (status->session_lost && !cluster->session_lost) {
        cluster->session_lost = true;
        publish(cluster, NULL, 0, cluster->snapshot->shown.revision);
    }
    lost = cluster->session_lost;
    pthread_mutex_unlock(&cluster->publish_lock);
    return lost;
}

/* The store's thread: a lost session fences this node at once. */
static void on_store_status(void *arg, const struct store_status *status)
{
    struct cluster *cluster = arg;

    (void)cluster_note_session(cluster, status);
    cluster_wake(cluster);
}

const struct snapshot *cluster_get(struct cluster *cluster)
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
    return &cluster_get(cluster)->shown;
}

void cluster_begin(struct cluster *cluster, const struct snapshot **base)
{
    pthread_mutex_lock(&cluster->operations_lock);
    *base = cluster_get(cluster);
}

int cluster_commit(struct cluster *cluster, struct txn *txn,
                   const struct snapshot *base)
{
    int64_t revision;
    int rc;

    if (!cluster->shared)
        txn_compare(txn, STORE_CREATE_REVISION, base->controller_revision,
                    "controller");
    rc = txn_commit_sure(txn, cluster->store, base->shown.revision, &revision);
    if (rc == 0 && revision > cluster->commit_revision)
        cluster->commit_revision = revision;
    return rc == E_CONFLICT && cluster->shared ? -EAGAIN : rc;
}

/* The change is stored; that this node does not show it yet is not its failure. */
static int end_shared(struct cluster *cluster, int64_t base_revision, int64_t committed,
                      int rc)
{
    if (rc == -EAGAIN)
        (void)cluster_wait_revision(cluster, base_revision + 1, RACE_WAIT_MS);
    else if (rc == 0 && !cluster_wait_revision(cluster, committed, SHOW_WAIT_MS))
        diag(DIAG_WARNING, "cluster: revision %lld is stored but not shown yet",
             (long long)committed);
    return rc;
}

int cluster_end(struct cluster *cluster, const struct snapshot *base, int rc)
{
    int64_t base_revision = base->shown.revision, committed = cluster->commit_revision;

    snapshot_unref(base);
    pthread_mutex_unlock(&cluster->operations_lock);
    if (cluster->shared)
        return end_shared(cluster, base_revision, committed, rc);
    pthread_mutex_lock(&cluster->lock);
    cluster_notify(cluster);
    pthread_mutex_unlock(&cluster->lock);
    return rc;
}

bool cluster_again(int *rc, int *attempts)
{
    if (*rc != -EAGAIN)
        return false;
    if (++*attempts < RACE_ATTEMPTS)
        return true;
    *rc = E_CONFLICT;
    return false;
}

int cluster_live(const struct snapshot *snapshot, struct id_list *out)
{
    uint32_t count = snapshot->shown.broker_count;

    *out = (struct id_list){.ids = calloc((size_t)count + 1, sizeof(int32_t))};
    if (!out->ids)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        if (!snapshot->brokers[i].client && !snapshot->brokers[i].stopping)
            out->ids[out->count++] = snapshot->brokers[i].id;
    return 0;
}

bool cluster_store_was_created(const struct cluster *cluster)
{
    return cluster->store_was_created;
}

/* The next state of one partition, now that this incarnation is here. */
static int elect_partition(struct cluster *cluster, struct txn *txn,
                           const struct controller_view *view,
                           const struct snapshot_topic *topic, int32_t p)
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
    cluster_put_state(txn, topic->topic.name, p, topic->infos[p].state_revision, &next);
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
    struct txn txn;
    char what[120];
    int leaderless = 0;
    int rc = cluster_live(base, &live);

    view.live = &live;
    txn_init(&txn, cluster->prefix);
    txn_fail(&txn, rc);
    for (uint32_t i = 0; i < base->shown.topic_count; i++) {
        const struct snapshot_topic *topic = snapshot_topic_at(base, i);

        for (int32_t p = 0; p < topic->assignment.partition_count; p++) {
            rc = elect_partition(cluster, &txn, &view, topic, p);
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
        if (first)
            set_self_epoch(cluster, first);
        if (cluster->shared)
            cluster->store_was_created = list.count == 0;
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
    pthread_condattr_t monotonic;

    if (!cluster)
        return NULL;
    cluster->params = *params;
    cluster->params.store_dir = NULL;
    cluster->params.instance = NULL;
    cluster->started = params->started;
    snprintf(cluster->instance, sizeof(cluster->instance), "%s",
             params->instance ? params->instance : "");
    cluster->defaults = params->config->topic;
    topic_config_defaults(&cluster->built_in);
    cluster->self = (int32_t)params->config->node;
    cluster->notices_end = &cluster->notices;
    pthread_mutex_init(&cluster->operations_lock, NULL);
    pthread_mutex_init(&cluster->publish_lock, NULL);
    pthread_mutex_init(&cluster->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&cluster->notified_cond, &monotonic);
    pthread_cond_init(&cluster->wake_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (asprintf(&cluster->prefix, "/topicfs/%s/", params->config->cluster) < 0)
        cluster->prefix = NULL;
    else
        cluster->model = model_new(cluster->prefix, cluster->self, &cluster->built_in,
                                   params->problems, params->clock);
    if (cluster->model)
        return cluster;
    cluster_close(cluster);
    return NULL;
}

static int join_alone(struct cluster *cluster)
{
    int rc = load(cluster);

    if (rc == 0)
        rc = cluster_register(cluster, false, NULL, 0);
    if (rc == 0)
        rc = cluster_elect_self(cluster, cluster->snapshot);
    if (rc == 0)
        rc = elect_partitions(cluster);
    return rc;
}

static int open_alone(const struct cluster_params *params, struct cluster *cluster,
                      char *why, size_t why_size)
{
    int rc = store_embedded_open(params->store_dir, params->problems, &cluster->store,
                                 why, why_size);

    if (rc != 0)
        return rc;
    cluster->store_was_created = store_embedded_was_created(cluster->store);
    rc = join_alone(cluster);
    if (rc != 0) {
        cluster_explain(why, why_size, "joining the cluster: %s", err_text(rc));
        return rc;
    }
    pthread_mutex_lock(&cluster->lock);
    cluster_notify(cluster); /* nobody subscribed yet: empties the queue */
    pthread_mutex_unlock(&cluster->lock);
    return 0;
}

/* A store that does not answer now may be on its way up with this machine. */
static int reach(struct cluster *cluster, int (*step)(struct cluster *cluster))
{
    const struct clock *clock = cluster->params.clock;
    int64_t give_up_ms = clock_mono_ms(clock) + REACH_WAIT_MS;

    for (;;) {
        int rc = step(cluster);
        const struct timespec pause = {.tv_nsec = 200 * 1000000L};

        if ((rc != E_STORE_UNREACHABLE && rc != E_OUTCOME_UNKNOWN) ||
            clock_mono_ms(clock) >= give_up_ms)
            return rc;
        (void)nanosleep(&pause, NULL);
    }
}

static int open_session(struct cluster *cluster)
{
    return cluster->store->ops->session_open(
        cluster->store, cluster->params.config->session_timeout_ms);
}

static bool registered_self(const struct snapshot *snapshot, void *arg)
{
    (void)arg;
    return snapshot->shown.self_epoch > 0;
}

static bool has_controller(const struct snapshot *snapshot, void *arg)
{
    (void)arg;
    return snapshot->shown.controller >= 0;
}

int cluster_join(struct cluster *cluster, char *why, size_t why_size)
{
    int rc;

    if (!cluster->shared || cluster->loop_runs)
        return 0;
    cluster_explain(why, why_size, "%s", "");
    rc = cluster_keep_session(cluster);
    if (rc == 0)
        rc = cluster_register(cluster, true, why, why_size);
    /* From here on the loop registers anew: this may be gone before it is shown. */
    if (rc == 0)
        rc = cluster_loop_start(cluster);
    if (rc == 0 && !cluster_wait(cluster, SHOW_WAIT_MS, registered_self, NULL)) {
        cluster_loop_stop(cluster);
        cluster_explain(why, why_size,
                        "coord=%s: the store took this node's registration, but its "
                        "watch does not report it, or it does not last",
                        cluster->params.config->coord);
        rc = E_STORE_UNREACHABLE;
    }
    if (rc == 0 && cluster->params.config->role != ROLE_CLIENT &&
        !cluster_wait(cluster, ELECT_WAIT_MS, has_controller, NULL))
        diag(DIAG_INFO, "cluster: no controller yet");
    return rc;
}

static int join_shared(struct cluster *cluster, bool later, char *why, size_t why_size)
{
    int rc;

    cluster->store->ops->on_status(cluster->store, on_store_status, cluster);
    rc = reach(cluster, load);
    if (rc == 0)
        rc = reach(cluster, open_session);
    if (rc != 0) {
        cluster_explain(why, why_size, "coord=%s: %s", cluster->params.config->coord,
                        err_text(rc));
        return rc;
    }
    rc = cluster_notifier_start(cluster);
    if (rc != 0)
        return rc;
    return later ? cluster_unseat(cluster, why, why_size)
                 : cluster_join(cluster, why, why_size);
}

int cluster_open_shared(const struct cluster_params *params, struct store *store,
                        struct cluster **out, char *why, size_t why_size)
{
    struct cluster *cluster = cluster_new(params);
    int rc;

    *out = NULL;
    if (!cluster) {
        store->ops->close(store);
        return -ENOMEM;
    }
    cluster->store = store;
    cluster->shared = true;
    rc = join_shared(cluster, params->join_later, why, why_size);
    if (rc == 0) {
        *out = cluster;
        return 0;
    }
    if (why && why_size > 0 && why[0] == '\0')
        cluster_explain(why, why_size, "joining the cluster: %s", err_text(rc));
    cluster_close(cluster);
    return rc;
}

static const char *if_set(const char *value)
{
    return value && value[0] ? value : NULL;
}

static int open_etcd(const struct cluster_params *params, struct cluster **out,
                     char *why, size_t why_size)
{
    const struct mount_config *config = params->config;
    int64_t give_up_ms = clock_mono_ms(params->clock) + REACH_WAIT_MS;
    char prefix[TOPIC_NAME_MAX + 16];
    struct store *store = NULL;
    struct store_etcd_params etcd = {
        .endpoints = config->coord,
        .user = if_set(config->coord_user),
        .password_file = if_set(config->coord_password_file),
        .ca_file = if_set(config->coord_ca),
        .cert_file = if_set(config->coord_cert),
        .key_file = if_set(config->coord_key),
        .prefix = prefix,
        .problems = params->problems,
        .clock = params->clock,
    };
    int rc;

    snprintf(prefix, sizeof(prefix), "/topicfs/%s/", config->cluster);
    for (;;) {
        const struct timespec pause = {.tv_nsec = 200 * 1000000L};

        rc = store_etcd_open(&etcd, &store, why, why_size);
        if (rc != E_STORE_UNREACHABLE || clock_mono_ms(params->clock) >= give_up_ms)
            break;
        (void)nanosleep(&pause, NULL);
    }
    return rc ? rc : cluster_open_shared(params, store, out, why, why_size);
}

int cluster_open(const struct cluster_params *params, struct cluster **out, char *why,
                 size_t why_size)
{
    struct cluster *cluster;
    int rc;

    *out = NULL;
    cluster_explain(why, why_size, "%s", "");
    if (topic_name_check(params->config->cluster) != 0) {
        cluster_explain(why, why_size,
                        "cluster=%s: a name of a-z A-Z 0-9 . _ - is needed",
                        params->config->cluster);
        return E_INVALID_CONFIG;
    }
    if (strcmp(params->config->coord, "embedded") != 0)
        return open_etcd(params, out, why, why_size);
    cluster = cluster_new(params);
    if (!cluster)
        return -ENOMEM;
    rc = open_alone(params, cluster, why, why_size);
    if (rc != 0) {
        cluster_close(cluster);
        return rc;
    }
    *out = cluster;
    return 0;
}

void cluster_close(struct cluster *cluster)
{
    if (!cluster)
        return;
    cluster_stop(cluster);
    if (cluster->store)
        cluster->store->ops->close(cluster->store);
    cluster_notifier_stop(cluster);
    while (cluster->notices) {
        struct cluster_notice *notice = cluster->notices;

        cluster->notices = notice->next;
        snapshot_unref(notice->snapshot);
        free(notice);
    }
    snapshot_unref(cluster->snapshot);
    model_free(cluster->model);
    pthread_mutex_destroy(&cluster->operations_lock);
    pthread_mutex_destroy(&cluster->publish_lock);
    pthread_mutex_destroy(&cluster->lock);
    pthread_cond_destroy(&cluster->notified_cond);
    pthread_cond_destroy(&cluster->wake_cond);
    free(cluster->prefix);
    free(cluster);
}
