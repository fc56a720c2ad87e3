/* Shows snapshots to the subscribers, in order, and lets others wait for that. */
#include "coord/cluster_private.h"

#include <stdlib.h>
#include <time.h>

/* [lock, released during calls] */
static void show(struct cluster *cluster, struct cluster_notice *notice)
{
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
    cluster->shown_sequence = notice->sequence;
    pthread_cond_broadcast(&cluster->notified_cond);
    snapshot_unref(notice->snapshot);
    free(notice);
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
        if (cluster->notices)
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
