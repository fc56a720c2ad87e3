#include "replica/peer_thread.h"

#include "replica/partition_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct peer_notice {
    struct partition *partition; /* one reference */
    struct peer_notice *prev, *next;
};

int peer_thread_start(struct peer_thread *thread, const struct mount_config *config,
                      void *(*run)(void *arg), void *arg)
{
    *thread = (struct peer_thread){0};
    pthread_mutex_init(&thread->lock, NULL);
    int rc = peer_client_new(config, &thread->client);
    return rc ? rc : -pthread_create(&thread->thread, NULL, run, arg);
}

void peer_thread_notice(struct peer_thread *thread, struct partition *partition)
{
    struct peer_notice *notice = calloc(1, sizeof *notice);
    if (!notice) {
        /* The next change of the partition, or its leader's, comes with another. */
        diag(DIAG_WARNING, "%s: a change was not noticed: %s", partition->name,
             err_text(-ENOMEM));
        return;
    }
    notice->partition = partition_ref(partition);
    pthread_mutex_lock(&thread->lock);
    bool wake = thread->notices == NULL && !thread->awake;
    DL_APPEND(thread->notices, notice);
    pthread_mutex_unlock(&thread->lock);
    if (wake) {
        peer_client_wake(thread->client);
    }
}

void peer_thread_stay_awake(struct peer_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->awake = true;
    pthread_mutex_unlock(&thread->lock);
}

bool peer_thread_take(struct peer_thread *thread,
                      void (*take)(void *arg, struct partition *partition), void *arg)
{
    struct peer_notice *notices = NULL;
    pthread_mutex_lock(&thread->lock);
    bool stopping = thread->stopping;
    if (!stopping) {
        notices = thread->notices;
        thread->notices = NULL;
    }
    thread->awake = false;
    pthread_mutex_unlock(&thread->lock);
    struct peer_notice *notice;
    struct peer_notice *next;
    DL_FOREACH_SAFE(notices, notice, next)
    {
        take(arg, notice->partition);
        partition_unref(notice->partition);
        free(notice);
    }
    return !stopping;
}

static void drop_notices(struct peer_thread *thread)
{
    struct peer_notice *notice;
    struct peer_notice *next;
    DL_FOREACH_SAFE(thread->notices, notice, next)
    {
        partition_unref(notice->partition);
        free(notice);
    }
    thread->notices = NULL;
}

void peer_thread_stop(struct peer_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->stopping = true;
    pthread_mutex_unlock(&thread->lock);
    peer_client_wake(thread->client);
    pthread_join(thread->thread, NULL);
    drop_notices(thread);
}

void peer_thread_free(struct peer_thread *thread)
{
    peer_client_free(thread->client);
    pthread_mutex_destroy(&thread->lock);
}

bool peer_address_find(const struct cluster_snapshot *snapshot, int32_t id,
                       struct peer_address *out)
{
    const struct broker_info *broker = cluster_snapshot_broker(snapshot, id);
    if (!broker || broker->port <= 0) {
        return false;
    }
    memcpy(out->host, broker->host, sizeof out->host);
    out->port = broker->port;
    return true;
}
