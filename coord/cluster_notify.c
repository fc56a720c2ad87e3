/* Shows snapshots to the subscribers, in order, and lets others wait for that. */
#include "coord/cluster_private.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* [lock, released during calls] Nobody is notifying. */
static void begin_calls(struct cluster *cluster)
{
    cluster->notifying = true;
    cluster->notifier = pthread_self();
}

static void end_calls(struct cluster *cluster)
{
    cluster->notifying = false;
    pthread_cond_broadcast(&cluster->notified_cond);
}

static void call(struct cluster *cluster, int subscriber,
                 const struct snapshot *snapshot)
{
    cluster_change_fn *fn = cluster->subscribers[subscriber].fn;
    void *arg = cluster->subscribers[subscriber].arg;

    pthread_mutex_unlock(&cluster->lock);
    fn(arg, &snapshot->shown);
    pthread_mutex_lock(&cluster->lock);
}

/* [lock, released during calls] */
static void show(struct cluster *cluster, struct cluster_notice *notice)
{
    begin_calls(cluster);
    cluster->notices = notice->next;
    if (!cluster->notices)
        cluster->notices_end = &cluster->notices;
    for (int i = 0; i < cluster->subscriber_count; i++)
        if (notice->sequence > cluster->subscribers[i].seen)
            call(cluster, i, notice->snapshot);
    cluster->shown_sequence = notice->sequence;
    end_calls(cluster);
    snapshot_unref(notice->snapshot);
    free(notice);
}

/* [lock, released meanwhile] */
static void await_calls(struct cluster *cluster)
{
    while (cluster->notifying)
        pthread_cond_wait(&cluster->notified_cond, &cluster->lock);
}

int cluster_subscribe(struct cluster *cluster, cluster_change_fn *fn, void *arg)
{
    const struct snapshot *snapshot;
    int at;

    pthread_mutex_lock(&cluster->lock);
    await_calls(cluster); /* else an older snapshot could come after the first */
    at = cluster->subscriber_count;
    if (at == CLUSTER_SUBSCRIBERS_MAX) {
        pthread_mutex_unlock(&cluster->lock);
        return -ENOSPC;
    }
    cluster->subscribers[at].fn = fn;
    cluster->subscribers[at].arg = arg;
    cluster->subscribers[at].seen = cluster->sequence;
    cluster->subscriber_count++;
    snapshot = cluster->snapshot;
    cluster_snapshot_ref(&snapshot->shown);
    begin_calls(cluster);
    call(cluster, at, snapshot);
    end_calls(cluster);
    pthread_mutex_unlock(&cluster->lock);
    snapshot_unref(snapshot);
    return 0;
}

void cluster_unsubscribe(struct cluster *cluster, cluster_change_fn *fn, void *arg)
{
    pthread_mutex_lock(&cluster->lock);
    await_calls(cluster);
    for (int i = 0; i < cluster->subscriber_count; i++) {
        if (cluster->subscribers[i].fn != fn || cluster->subscribers[i].arg != arg)
            continue;
        cluster->subscribers[i] = cluster->subscribers[--cluster->subscriber_count];
        break;
    }
    pthread_mutex_unlock(&cluster->lock);
}

/*
 * One thread shows at a time; returns when the queue is empty and no other thread is
 * showing one.
 */
void cluster_notify(struct cluster *cluster)
{
    if (cluster->notifying && pthread_equal(cluster->notifier, pthread_self()))
        return;
    while (cluster->notifying || cluster->notices) {
        if (cluster->notifying)
            pthread_cond_wait(&cluster->notified_cond, &cluster->lock);
        else
            show(cluster, cluster->notices);
    }
}

static void *run_notifier(void *arg)
{
    struct cluster *cluster = arg;

    pthread_mutex_lock(&cluster->lock);
    while (!cluster->notifier_ends) {
        if (cluster->notices && !cluster->notifying)
            show(cluster, cluster->notices);
        else
            pthread_cond_wait(&cluster->notified_cond, &cluster->lock);
    }
    pthread_mutex_unlock(&cluster->lock);
    return NULL;
}

int cluster_notifier_start(struct cluster *cluster)
{
    int rc = pthread_create(&cluster->notifier_thread, NULL, run_notifier, cluster);

    cluster->notifier_runs = rc == 0;
    return -rc;
}

void cluster_notifier_stop(struct cluster *cluster)
{
    if (!cluster->notifier_runs)
        return;
    pthread_mutex_lock(&cluster->lock);
    cluster->notifier_ends = true;
    pthread_cond_broadcast(&cluster->notified_cond);
    pthread_mutex_unlock(&cluster->lock);
    pthread_join(cluster->notifier_thread, NULL);
    cluster->notifier_runs = false;
}

static struct timespec deadline_after(int64_t timeout_ms)
{
    struct timespec deadline;

    (void)clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += timeout_ms % 1000 * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    return deadline;
}

bool cluster_wait(struct cluster *cluster, int64_t timeout_ms,
                  bool (*ready)(const struct snapshot *snapshot, void *arg), void *arg)
{
    const struct timespec deadline = deadline_after(timeout_ms);
    uint64_t sequence = 0; /* the first that was ready */
    bool shown = false;
    int rc = 0;

    pthread_mutex_lock(&cluster->lock);
    while (rc == 0) {
        if (sequence == 0 && ready(cluster->snapshot, arg))
            sequence = cluster->sequence;
        shown = (sequence > 0 && cluster->shown_sequence >= sequence) ||
                (cluster->sequence == 0 && ready(cluster->snapshot, arg));
        if (shown)
            break;
        rc = pthread_cond_timedwait(&cluster->notified_cond, &cluster->lock, &deadline);
    }
    pthread_mutex_unlock(&cluster->lock);
    return shown;
}

static bool has_revision(const struct snapshot *snapshot, void *arg)
{
    return snapshot->shown.revision >= *(const int64_t *)arg;
}

bool cluster_wait_revision(struct cluster *cluster, int64_t revision,
                           int64_t timeout_ms)
{
    return cluster_wait(cluster, timeout_ms, has_revision, &revision);
}
