#include "fs/notifier.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct notifier_poll {
    struct stream_notify notify;
    struct notifier *notifier;
    struct fuse_pollhandle *handle;
    struct notifier_poll *next;
};

struct notifier {
    struct fuse_session *session; /* [const] */
    struct node_table *nodes;     /* [const] */
    struct cluster *cluster;      /* [const] */
    pthread_t change_thread;      /* [const] */
    pthread_t poll_thread;        /* [const] */
    pthread_mutex_t lock;
    pthread_cond_t changed;                   /* [lock] */
    pthread_cond_t polled;                    /* [lock] */
    bool stopping;                            /* [lock] */
    struct notifier_poll *polls;              /* [lock] fired, newest first */
    const struct cluster_snapshot *latest;    /* [lock] */
    const struct cluster_snapshot *announced; /* [change thread] */
};

/* ---- polls ----------------------------------------------------------------------- */

static void notifier_poll_free(struct notifier_poll *poll)
{
    fuse_pollhandle_destroy(poll->handle);
    free(poll);
}

static void notifier_poll_dropped(struct stream_notify *notify)
{
    notifier_poll_free((struct notifier_poll *)notify);
}

static void notifier_poll_fired(struct stream_notify *notify)
{
    struct notifier_poll *poll = (struct notifier_poll *)notify;
    struct notifier *notifier = poll->notifier;
    (void)pthread_mutex_lock(&notifier->lock);
    bool stopping = notifier->stopping;
    if (!stopping) {
        LL_PREPEND(notifier->polls, poll);
        (void)pthread_cond_signal(&notifier->polled);
    }
    (void)pthread_mutex_unlock(&notifier->lock);
    if (stopping)
        notifier_poll_free(poll);
}

struct stream_notify *notifier_poll_new(struct notifier *notifier,
                                        struct fuse_pollhandle *handle)
{
    struct notifier_poll *poll = calloc(1, sizeof *poll);
    if (poll == NULL) {
        fuse_pollhandle_destroy(handle);
        return NULL;
    }
    poll->notify.fire = notifier_poll_fired;
    poll->notify.free = notifier_poll_dropped;
    poll->notifier = notifier;
    poll->handle = handle;
    return &poll->notify;
}

static void *notifier_poll_thread(void *arg)
{
    struct notifier *notifier = arg;
    (void)pthread_mutex_lock(&notifier->lock);
    while (!notifier->stopping || notifier->polls != NULL) {
        struct notifier_poll *poll, *next, *polls = notifier->polls;
        if (polls == NULL) {
            (void)pthread_cond_wait(&notifier->polled, &notifier->lock);
            continue;
        }
        notifier->polls = NULL;
        (void)pthread_mutex_unlock(&notifier->lock);
        LL_FOREACH_SAFE(polls, poll, next)
        {
            (void)fuse_lowlevel_notify_poll(poll->handle);
            notifier_poll_free(poll);
        }
        (void)pthread_mutex_lock(&notifier->lock);
    }
    (void)pthread_mutex_unlock(&notifier->lock);
    return NULL;
}

/* ---- changes --------------------------------------------------------------------- */

/*
 * The kernel forgets the attributes of the nodes; what it does not know is no matter.
 * This takes no lock there. Forgetting a name would take its directory's,
 * uninterruptibly: a killed daemon whose thread waits so behind a mkdir that waits for
 * the daemon can never end, nor can the mkdir. Names lapse by themselves, within a
 * second.
 */
static void notifier_attributes(struct notifier *notifier,
                                const struct topic_id *topic_id)
{
    uint64_t small[64];
    uint64_t *ids = small, *large = NULL;
    size_t room = sizeof small / sizeof small[0];
    size_t count = node_table_ids(notifier->nodes, topic_id, ids, room);
    if (count > room) {
        large = calloc(count, sizeof *large);
        if (large != NULL) {
            size_t found = node_table_ids(notifier->nodes, topic_id, large, count);
            count = found < count ? found : count;
            ids = large;
        } else {
            count = room; /* the others lapse within the second that they are kept */
        }
    }
    for (size_t i = 0; i < count; i++)
        (void)fuse_lowlevel_notify_inval_inode(notifier->session, ids[i], -1, 0);
    free(large);
}

static bool notifier_same_access(const struct topic *a, const struct topic *b)
{
    return a->uid == b->uid && a->gid == b->gid && a->mode == b->mode &&
           a->config_version == b->config_version &&
           a->partition_count == b->partition_count;
}

/* Both lists are sorted by name. */
static void notifier_compare(struct notifier *notifier,
                             const struct cluster_snapshot *old,
                             const struct cluster_snapshot *new)
{
    bool listing_changed =
        old->topic_count != new->topic_count || old->topics_uid != new->topics_uid ||
        old->topics_gid != new->topics_gid || old->topics_mode != new->topics_mode;
    for (uint32_t i = 0, j = 0; i < old->topic_count; i++) {
        const struct topic *before = old->topics[i];
        const struct topic *after = NULL;
        while (j < new->topic_count && strcmp(new->topics[j]->name, before->name) < 0)
            j++;
        if (j < new->topic_count && strcmp(new->topics[j]->name, before->name) == 0)
            after = new->topics[j];
        if (after == NULL || !topic_id_equal(&after->id, &before->id)) {
            listing_changed = true;
            notifier_attributes(notifier, &before->id);
        } else if (!notifier_same_access(before, after)) {
            notifier_attributes(notifier, &after->id);
        }
    }
    if (listing_changed)
        notifier_attributes(notifier, NULL);
}

static void notifier_on_change(void *arg, const struct cluster_snapshot *snapshot)
{
    struct notifier *notifier = arg;
    const struct cluster_snapshot *ref = cluster_snapshot_ref(snapshot);
    (void)pthread_mutex_lock(&notifier->lock);
    const struct cluster_snapshot *overtaken = notifier->latest;
    notifier->latest = ref;
    (void)pthread_cond_signal(&notifier->changed);
    (void)pthread_mutex_unlock(&notifier->lock);
    cluster_snapshot_put(overtaken);
}

static void *notifier_change_thread(void *arg)
{
    struct notifier *notifier = arg;
    (void)pthread_mutex_lock(&notifier->lock);
    while (!notifier->stopping) {
        const struct cluster_snapshot *latest = notifier->latest;
        if (latest == NULL) {
            (void)pthread_cond_wait(&notifier->changed, &notifier->lock);
            continue;
        }
        notifier->latest = NULL;
        (void)pthread_mutex_unlock(&notifier->lock);
        if (notifier->announced != NULL)
            notifier_compare(notifier, notifier->announced, latest);
        cluster_snapshot_put(notifier->announced);
        notifier->announced = latest;
        (void)pthread_mutex_lock(&notifier->lock);
    }
    (void)pthread_mutex_unlock(&notifier->lock);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------ */

static void notifier_join(struct notifier *notifier, bool change, bool poll)
{
    (void)pthread_mutex_lock(&notifier->lock);
    notifier->stopping = true;
    (void)pthread_cond_broadcast(&notifier->changed);
    (void)pthread_cond_broadcast(&notifier->polled);
    (void)pthread_mutex_unlock(&notifier->lock);
    if (change)
        (void)pthread_join(notifier->change_thread, NULL);
    if (poll)
        (void)pthread_join(notifier->poll_thread, NULL);
}

int notifier_start(struct fuse_session *session, struct node_table *nodes,
                   struct cluster *cluster, struct notifier **out)
{
    bool change = false, poll = false;
    struct notifier *notifier = calloc(1, sizeof *notifier);
    if (notifier == NULL)
        return -ENOMEM;
    notifier->session = session;
    notifier->nodes = nodes;
    notifier->cluster = cluster;
    (void)pthread_mutex_init(&notifier->lock, NULL);
    (void)pthread_cond_init(&notifier->changed, NULL);
    (void)pthread_cond_init(&notifier->polled, NULL);
    int rc = -pthread_create(&notifier->change_thread, NULL, notifier_change_thread,
                             notifier);
    change = rc == 0;
    if (rc == 0)
        rc = -pthread_create(&notifier->poll_thread, NULL, notifier_poll_thread,
                             notifier);
    poll = change && rc == 0;
    if (rc == 0)
        rc = cluster_subscribe(cluster, notifier_on_change, notifier);
    if (rc < 0) {
        notifier_join(notifier, change, poll);
        notifier_free(notifier);
        return rc;
    }
    *out = notifier;
    return 0;
}

void notifier_stop(struct notifier *notifier)
{
    cluster_unsubscribe(notifier->cluster, notifier_on_change, notifier);
    notifier_join(notifier, true, true);
}

void notifier_free(struct notifier *notifier)
{
    if (notifier == NULL)
        return;
    cluster_snapshot_put(notifier->latest);
    cluster_snapshot_put(notifier->announced);
    (void)pthread_cond_destroy(&notifier->polled);
    (void)pthread_cond_destroy(&notifier->changed);
    (void)pthread_mutex_destroy(&notifier->lock);
    free(notifier);
}
