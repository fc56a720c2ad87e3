/*
 * This node as a member: its registration, whose create revision is the broker epoch,
 * its candidacy as controller, and how it leaves.
 */
#include "coord/cluster_private.h"
#include "coord/controller.h"
#include "coord/diag.h"
#include "coord/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REGISTER_ATTEMPTS = 10, LEAVE_WAIT_MS = 5000 };

/* What others are told. */
static const char *own_address(const struct mount_config *config)
{
    if (config->advertise && config->advertise[0])
        return config->advertise;
    return config->listen ? config->listen : "";
}

/* 0: none that somebody could connect to. */
static int32_t port_of(const char *address)
{
    const char *colon = strrchr(address, ':');
    long port = colon ? strtol(colon + 1, NULL, 10) : 0; /* a setting: digits alone */

    return port > 0 && port <= 65535 ? (int32_t)port : 0;
}

int cluster_address_check(const struct mount_config *config, char *why, size_t why_size)
{
    const char *address = own_address(config);

    if (strcmp(config->coord, "embedded") == 0)
        return 0;
    if (!config->listen || !config->listen[0]) {
        cluster_explain(
            why, why_size,
            "the nodes of a cluster reach each other over HTTP: listen must "
            "be set where coord is not embedded");
        return -EINVAL;
    }
    if (config->role != ROLE_CLIENT && port_of(address) == 0) {
        cluster_explain(
            why, why_size,
            "%s=%s: other nodes are to reach this one there: give host:port "
            "with a port of 1 to 65535",
            address == config->advertise ? "advertise" : "listen", address);
        return -EINVAL;
    }
    return 0;
}

/* Splits "host:port" or "[v6]:port"; a host that is empty or a wildcard becomes this
 * machine's name. */
static void parse_address(const char *address, struct registration *registration)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : strlen(address);
    char *host = registration->host;

    registration->port = port_of(address);
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

void cluster_describe_self(const struct cluster *cluster, struct registration *out)
{
    const struct mount_config *config = cluster->params.config;
    *out = (struct registration){
        .client = config->role == ROLE_CLIENT,
        .started = cluster->started,
    };
    parse_address(own_address(config), out);
    snprintf(out->rack, sizeof(out->rack), "%s", config->rack ? config->rack : "");
    snprintf(out->instance, sizeof(out->instance), "%s", cluster->instance);
}

int cluster_renew_session(struct cluster *cluster)
{
    int rc;

    /* Also if no other can be opened, the present one is over. */
    pthread_mutex_lock(&cluster->publish_lock);
    cluster->session_lost = true;
    cluster->own_epoch = 0;
    pthread_mutex_unlock(&cluster->publish_lock);
    rc = cluster->store->ops->session_open(cluster->store,
                                           cluster->params.config->session_timeout_ms);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&cluster->publish_lock);
    cluster->session_lost = false;
    pthread_mutex_unlock(&cluster->publish_lock);
    cluster->register_late = false;
    return 0;
}

/* Asks, for what the listener is told may be older than the session. */
int cluster_keep_session(struct cluster *cluster)
{
    struct store_status status;

    cluster->store->ops->status(cluster->store, &status);
    return cluster_note_session(cluster, &status) ? cluster_renew_session(cluster) : 0;
}

/* What the store holds under brokers/ids/<self> and controller, read now. */
struct occupancy {
    int64_t registration_revision; /* create revision; 0: free */
    struct registration registration;
    bool malformed;
    int64_t controller_revision; /* of a controller key of this node's id; 0: none */
};

static int read_key(struct cluster *cluster, const char *rest, struct store_list *list,
                    const struct store_kv **found)
{
    char *key = NULL;
    int rc;

    *found = NULL;
    if (asprintf(&key, "%s%s", cluster->prefix, rest) < 0)
        return -ENOMEM;
    rc = cluster->store->ops->list(cluster->store, key, list);
    for (size_t i = 0; rc == 0 && i < list->count; i++)
        if (strcmp(list->items[i].key, key) == 0)
            *found = &list->items[i];
    free(key);
    return rc;
}

static int read_occupancy(struct cluster *cluster, struct occupancy *out)
{
    const struct store_kv *kv;
    struct store_list list;
    char key[64];
    int32_t controller;
    int rc;

    *out = (struct occupancy){0};
    snprintf(key, sizeof(key), "brokers/ids/%" PRId32, cluster->self);
    rc = read_key(cluster, key, &list, &kv);
    if (rc != 0)
        return rc;
    if (kv) {
        out->registration_revision = kv->create_revision;
        out->malformed = registration_decode(kv->value, &out->registration) != 0;
    }
    store_list_free(&list);
    rc = read_key(cluster, "controller", &list, &kv);
    if (rc != 0)
        return rc;
    if (kv && controller_decode(kv->value, &controller) == 0 &&
        controller == cluster->self)
        out->controller_revision = kv->create_revision;
    store_list_free(&list);
    return 0;
}

/* What an earlier incarnation of this node left goes with its registration. */
static void drop_controller(struct txn *txn, const struct occupancy *occupancy)
{
    if (occupancy->controller_revision == 0)
        return;
    txn_compare(txn, STORE_CREATE_REVISION, occupancy->controller_revision,
                "controller");
    txn_delete(txn, "controller");
}

static int drop_registration(struct cluster *cluster, const struct occupancy *occupancy)
{
    int64_t revision;
    struct txn txn;

    txn_init(&txn, cluster->prefix);
    txn_compare(&txn, STORE_CREATE_REVISION, occupancy->registration_revision,
                "brokers/ids/%" PRId32, cluster->self);
    txn_delete(&txn, "brokers/ids/%" PRId32, cluster->self);
    txn_delete(&txn, "brokers/stopping/%" PRId32, cluster->self);
    drop_controller(&txn, occupancy);
    return txn_commit(&txn, cluster->store, &revision);
}

static int put_registration(struct cluster *cluster, const struct occupancy *occupancy,
                            int64_t *revision)
{
    struct registration registration;
    struct buf value;
    struct txn txn;
    int rc;

    cluster_describe_self(cluster, &registration);
    buf_init(&value, 4096);
    registration_encode(&value, &registration, 0);
    txn_init(&txn, cluster->prefix);
    txn_compare(&txn, STORE_CREATE_REVISION, 0, "brokers/ids/%" PRId32, cluster->self);
    txn_put(&txn, true, &value, "brokers/ids/%" PRId32, cluster->self);
    drop_controller(&txn, occupancy);
    rc = txn_commit(&txn, cluster->store, revision);
    buf_free(&value);
    return rc;
}

static int taken(const struct cluster *cluster, const struct occupancy *occupancy,
                 char *why, size_t why_size)
{
    const struct registration *other = &occupancy->registration;
    bool same = strcmp(other->instance, cluster->instance) == 0;

    cluster_explain(
        why, why_size,
        "node=%" PRId32 ": a node with this id is alive in cluster %s, at %s:%" PRId32
        ", with %s data directory; give each node an id of its own, or, if that one "
        "just died, try again in %" PRId64 " s",
        cluster->self, cluster->params.config->cluster, other->host, other->port,
        same ? "a copy of this" : "another",
        (cluster->params.config->session_timeout_ms + 999) / 1000);
    return E_NODE_ID_TAKEN;
}

/* -EAGAIN: look again. 0: the id is free, *occupancy tells what else there is. */
static int make_room(struct cluster *cluster, bool replace, struct occupancy *occupancy,
                     char *why, size_t why_size)
{
    int rc = read_occupancy(cluster, occupancy);

    if (rc != 0 || occupancy->registration_revision == 0)
        return rc;
    /* This process's own, of a session that is not over yet, is replaced in any case.
     */
    if (!occupancy->malformed &&
        occupancy->registration_revision != cluster->last_epoch &&
        (!replace || strcmp(occupancy->registration.instance, cluster->instance) != 0))
        return taken(cluster, occupancy, why, why_size);
    rc = drop_registration(cluster, occupancy);
    return rc ? rc : -EAGAIN;
}

static int register_once(struct cluster *cluster, bool replace, char *why,
                         size_t why_size)
{
    struct occupancy occupancy;
    int64_t revision = 0;
    int rc = make_room(cluster, replace, &occupancy, why, why_size);

    if (rc == 0)
        rc = put_registration(cluster, &occupancy, &revision);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&cluster->publish_lock);
    cluster->own_epoch = revision;
    cluster->last_epoch = revision;
    pthread_mutex_unlock(&cluster->publish_lock);
    cluster_republish(cluster);
    return 0;
}

static int unseat_once(struct cluster *cluster, bool replace, char *why,
                       size_t why_size)
{
    struct occupancy occupancy;

    return make_room(cluster, replace, &occupancy, why, why_size);
}

/* Until it works out: another attempt after a lost race, or an outcome that is not
 * known. */
static int attempt(struct cluster *cluster, bool replace, char *why, size_t why_size,
                   int (*once)(struct cluster *cluster, bool replace, char *why,
                               size_t why_size))
{
    int rc = -EAGAIN;

    for (int i = 0; i < REGISTER_ATTEMPTS && (rc == -EAGAIN || rc == E_CONFLICT); i++) {
        rc = once(cluster, replace, why, why_size);
        /* What may be there by now is this process's own. */
        replace |= rc == E_OUTCOME_UNKNOWN;
        cluster->register_late |= rc == E_OUTCOME_UNKNOWN;
        if (rc == E_OUTCOME_UNKNOWN)
            rc = -EAGAIN;
    }
    if (rc == -EAGAIN)
        rc = E_STORE_UNREACHABLE;
    if (rc != 0 && why && why_size > 0 && why[0] == '\0')
        cluster_explain(why, why_size, "registering node %" PRId32 ": %s",
                        cluster->self, err_text(rc));
    return rc;
}

int cluster_register(struct cluster *cluster, bool replace, char *why, size_t why_size)
{
    const struct occupancy nobody = {0};
    int64_t revision;

    if (!cluster->shared)
        return put_registration(cluster, &nobody, &revision);
    return attempt(cluster, replace, why, why_size, register_once);
}

int cluster_unseat(struct cluster *cluster, char *why, size_t why_size)
{
    return attempt(cluster, true, why, why_size, unseat_once);
}

int cluster_elect_self(struct cluster *cluster, const struct snapshot *base)
{
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
    if (cluster->shared) /* a node that is fenced is no candidate */
        txn_compare(&txn, STORE_CREATE_REVISION, base->shown.self_epoch,
                    "brokers/ids/%" PRId32, cluster->self);
    controller_encode(&value, cluster->self);
    txn_put(&txn, true, &value, "controller");
    controller_epoch_encode(&value, epoch);
    txn_put(&txn, false, &value, "controller_epoch");
    cluster_add_tombstone_pruning(cluster, &txn, base, 0);
    rc = txn_commit(&txn, cluster->store, &revision);
    buf_free(&value);
    return rc;
}

/*
 * A controller key of this node's id that is older than its registration is of an
 * earlier incarnation, or of an earlier session.
 */
bool cluster_is_controller(const struct snapshot *snapshot)
{
    const struct cluster_snapshot *shown = &snapshot->shown;

    return shown->controller == shown->self && shown->self_epoch > 0 &&
           snapshot->controller_revision > shown->self_epoch;
}

/* Is the announcement, of revision *arg, known here, and does this node lead nothing
 * that another in-sync replica could lead? */
static bool handed_over(const struct snapshot *snapshot, void *arg)
{
    const struct cluster_snapshot *shown = &snapshot->shown;

    if (shown->revision < *(const int64_t *)arg)
        return false;
    if (shown->self_epoch < 0 || shown->controller < 0)
        return true;
    for (uint32_t i = 0; i < shown->topic_count; i++)
        for (int32_t p = 0; p < shown->topics[i]->partition_count; p++) {
            const struct partition_info *info = &shown->topics[i]->partitions[p];

            if (info->leader != shown->self)
                continue;
            for (uint32_t j = 0; j < info->isr_count; j++) {
                const struct broker_info *broker =
                    cluster_snapshot_broker(shown, info->isr[j]);

                if (broker && !broker->stopping && !broker->client &&
                    broker->id != shown->self)
                    return false;
            }
        }
    return true;
}

static void announce_stop(struct cluster *cluster, const struct snapshot *base)
{
    int64_t revision;
    struct buf value;
    struct txn txn;

    buf_init(&value, 64);
    controller_encode(&value, cluster->self);
    txn_init(&txn, cluster->prefix);
    txn_compare(&txn, STORE_CREATE_REVISION, base->shown.self_epoch,
                "brokers/ids/%" PRId32, cluster->self);
    txn_put(&txn, true, &value, "brokers/stopping/%" PRId32, cluster->self);
    if (txn_commit(&txn, cluster->store, &revision) == 0 &&
        !cluster_wait(cluster, LEAVE_WAIT_MS, handed_over, &revision))
        diag(DIAG_WARNING,
             "cluster: leaving without having handed all leadership over");
    buf_free(&value);
}

/* [loop has ended] What the session's end would drop anyway goes now, in one step. */
static void deregister(struct cluster *cluster, const struct snapshot *base)
{
    int64_t revision;
    struct txn txn;

    txn_init(&txn, cluster->prefix);
    txn_compare(&txn, STORE_CREATE_REVISION, base->shown.self_epoch,
                "brokers/ids/%" PRId32, cluster->self);
    txn_delete(&txn, "brokers/ids/%" PRId32, cluster->self);
    txn_delete(&txn, "brokers/stopping/%" PRId32, cluster->self);
    if (cluster_is_controller(base)) {
        txn_compare(&txn, STORE_CREATE_REVISION, base->controller_revision,
                    "controller");
        txn_delete(&txn, "controller");
    }
    (void)txn_commit(&txn, cluster->store, &revision);
}

/* The store has dropped, or will drop, what was bound to the session. */
static void end_session(struct cluster *cluster)
{
    cluster->store->ops->session_close(cluster->store);
    pthread_mutex_lock(&cluster->publish_lock);
    cluster->own_epoch = 0;
    pthread_mutex_unlock(&cluster->publish_lock);
    cluster_republish(cluster);
}

void cluster_stop(struct cluster *cluster)
{
    const struct snapshot *base;
    struct store_status status;

    if (!cluster || !cluster->loop_runs)
        return;
    base = cluster_get(cluster);
    cluster->store->ops->status(cluster->store, &status);
    if (status.reachable && base->shown.self_epoch > 0 &&
        cluster->params.config->role != ROLE_CLIENT)
        announce_stop(cluster, base);
    snapshot_unref(base);
    cluster_loop_stop(cluster);
    base = cluster_get(cluster);
    if (status.reachable && base->shown.self_epoch > 0)
        deregister(cluster, base);
    snapshot_unref(base);
    end_session(cluster);
}
