/*
 * A node's own thread in a shared store: keeps its session and registration, stands for
 * election, is the controller while elected, and shows what is wrong.
 *
 * Every round looks at the present snapshot alone, so that a missed wake-up or a failed
 * attempt costs a round and nothing else.
 */
#include "coord/cluster_private.h"
#include "coord/controller_loop.h"
#include "coord/diag.h"
#include "coord/err.h"
#include "coord/health.h"

#include <stdlib.h>
#include <time.h>

enum {
    ROUND_MS = 100, /* while something waits for its time */
    IDLE_MS = 1000, /* else; every change wakes the loop */
    PAUSE_MS = 200, /* after a failed attempt on the store */
};

struct loop {
    struct cluster *cluster;
    struct controller_loop *controller;
    struct health *health;
    int64_t retry_ms; /* monotonic: no attempt before it; 0: the last one succeeded */
};

void cluster_wake(struct cluster *cluster)
{
    pthread_mutex_lock(&cluster->lock);
    cluster->woken = true;
    pthread_cond_broadcast(&cluster->wake_cond);
    pthread_mutex_unlock(&cluster->lock);
}

static int64_t real_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until something changed or a round is over; false: the thread is to end. */
static bool wait_round(const struct loop *loop)
{
    struct cluster *cluster = loop->cluster;
    bool waiting = loop->retry_ms > 0 || controller_loop_waits(loop->controller) ||
                   health_waits(loop->health);
    int64_t ms = waiting ? ROUND_MS : IDLE_MS;
    struct timespec until;
    bool go_on;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&cluster->lock);
    while (!cluster->woken && !cluster->ending)
        if (pthread_cond_timedwait(&cluster->wake_cond, &cluster->lock, &until) != 0)
            break;
    cluster->woken = false;
    go_on = !cluster->ending;
    pthread_mutex_unlock(&cluster->lock);
    return go_on;
}

static int keep_registration(struct loop *loop)
{
    struct cluster *cluster = loop->cluster;
    struct problems *problems = cluster->params.problems;
    char why[400] = "";
    int rc = cluster_register(cluster, cluster->register_unknown, why, sizeof(why));

    /* What has the id may be of a request of this process that came late, after the one
     * that it sent next had its day: that ends with the session. */
    if (rc == E_NODE_ID_TAKEN && cluster->register_late) {
        rc = cluster_renew_session(cluster);
        return rc ? rc : -EAGAIN;
    }
    cluster->register_unknown = rc != 0 && rc != E_NODE_ID_TAKEN;
    if (rc == 0)
        problems_clear(problems, "fenced", "node");
    else if (rc == E_NODE_ID_TAKEN)
        problems_set(problems, "fenced", "node", why,
                     "end one of the two; this one leads nothing meanwhile");
    return rc;
}

/* The registration that this process made has been seen, and is gone again. */
static bool registration_gone(struct cluster *cluster, const struct snapshot *snapshot)
{
    bool gone;

    pthread_mutex_lock(&cluster->publish_lock);
    gone = snapshot->shown.self_epoch < 0 &&
           snapshot->shown.revision >= cluster->own_epoch;
    pthread_mutex_unlock(&cluster->publish_lock);
    return gone;
}

static int stand_for_election(struct loop *loop, const struct snapshot *snapshot)
{
    struct cluster *cluster = loop->cluster;
    int rc;

    if (snapshot->shown.controller >= 0 || snapshot->controller_revision > 0 ||
        snapshot->shown.self_epoch < 0 || cluster->params.config->role == ROLE_CLIENT)
        return 0;
    rc = cluster_elect_self(cluster, snapshot);
    if (rc == 0)
        diag(DIAG_INFO, "cluster: node %d is the controller", (int)cluster->self);
    return rc == E_CONFLICT ? 0 : rc;
}

static int act(struct loop *loop, const struct snapshot **snapshot)
{
    struct cluster *cluster = loop->cluster;
    int rc = cluster_keep_session(cluster);

    if (rc == 0 && registration_gone(cluster, *snapshot)) {
        rc = keep_registration(loop);
        snapshot_unref(*snapshot);
        *snapshot = cluster_get(cluster);
    }
    if (rc == 0)
        rc = stand_for_election(loop, *snapshot);
    if (rc == 0)
        rc = controller_loop_step(loop->controller, *snapshot);
    return rc;
}

static void *run(void *arg)
{
    struct loop *loop = arg;
    struct cluster *cluster = loop->cluster;

    while (wait_round(loop)) {
        const struct snapshot *snapshot = cluster_get(cluster);
        struct store_status status;

        if (real_ms() >= loop->retry_ms)
            loop->retry_ms = act(loop, &snapshot) != 0 ? real_ms() + PAUSE_MS : 0;
        cluster->store->ops->status(cluster->store, &status);
        health_update(loop->health, snapshot, &status, real_ms());
        snapshot_unref(snapshot);
    }
    health_free(loop->health);
    controller_loop_free(loop->controller);
    free(loop);
    return NULL;
}

int cluster_loop_start(struct cluster *cluster)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    int rc = -ENOMEM;

    if (!loop)
        return rc;
    loop->cluster = cluster;
    loop->controller = controller_loop_new(cluster);
    loop->health = health_new(cluster->params.problems);
    if (loop->controller && loop->health)
        rc = -pthread_create(&cluster->loop_thread, NULL, run, loop);
    if (rc == 0) {
        cluster->loop_runs = true;
        return 0;
    }
    health_free(loop->health);
    controller_loop_free(loop->controller);
    free(loop);
    return rc;
}

void cluster_loop_stop(struct cluster *cluster)
{
    if (!cluster->loop_runs)
        return;
    pthread_mutex_lock(&cluster->lock);
    cluster->ending = true;
    pthread_cond_broadcast(&cluster->wake_cond);
    pthread_mutex_unlock(&cluster->lock);
    pthread_join(cluster->loop_thread, NULL);
    cluster->loop_runs = false;
}
