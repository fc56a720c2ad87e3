#include "replica/replication.h"

#include "replica/forwarder.h"
#include "replica/isr_keeper.h"
#include "replica/lookout.h"
#include "replica/partition_outbox.h"
#include "replica/partition_replica.h"
#include "replica/replicator.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct replication {
    struct problems *problems;     /* [const] */
    struct replicator *replicator; /* [const until stopped] */
    struct forwarder *forwarder;   /* [const until stopped] */
    struct lookout *lookout;       /* [const until stopped] */
    struct isr_keeper *keeper;     /* [const until stopped] */
    pthread_mutex_t lock;
    bool active; /* [lock] */
};

static void on_dead(void *arg, int32_t broker, int64_t broker_epoch)
{
    struct replication *replication = arg;
    isr_keeper_dead(replication->keeper, broker, broker_epoch);
}

static void on_failed(void *arg, int32_t broker)
{
    struct replication *replication = arg;
    lookout_hint(replication->lookout, broker);
}

/* Why nothing is fetched from a node that is alive. */
static void on_refused(void *arg, int32_t broker, int error)
{
    struct replication *replication = arg;
    char subject[32];
    (void)snprintf(subject, sizeof subject, "node %d", (int)broker);
    switch (error) {
    case 0:
        problems_clear(replication->problems, "peer", subject);
        break;
    case -EACCES:
        problems_set(
            replication->problems, "peer", subject,
            "it refuses this node, which follows it: it is of another cluster, "
            "or has another key or certificates",
            "compare the options cluster, cluster_key and tls_ca of both");
        break;
    case E_NEWER_FORMAT:
        problems_set(replication->problems, "peer", subject,
                     "it and this node speak different versions of the protocol",
                     "run the same topicfs on both");
        break;
    default:
        problems_set(replication->problems, "peer", subject,
                     "what it answers can't be understood",
                     "see whether its advertise leads to another program");
        break;
    }
}

int replication_start(const struct replication_params *params, struct replication **out)
{
    struct replication *replication = calloc(1, sizeof *replication);
    *out = NULL;
    if (!replication) {
        return -ENOMEM;
    }
    pthread_mutex_init(&replication->lock, NULL);
    replication->problems = params->problems;
    const struct isr_keeper_params keeper = {
        .broker = params->broker, .cluster = params->cluster, .clock = params->clock};
    const struct replicator_params replicator = {.config = params->config,
                                                 .cluster = params->cluster,
                                                 .clock = params->clock,
                                                 .on_failed = on_failed,
                                                 .on_refused = on_refused,
                                                 .arg = replication};
    const struct lookout_params lookout = {.config = params->config,
                                           .cluster = params->cluster,
                                           .clock = params->clock,
                                           .on_dead = on_dead,
                                           .arg = replication};
    const struct forwarder_params forwarder = {
        .config = params->config, .cluster = params->cluster, .clock = params->clock};
    int rc = isr_keeper_start(&keeper, &replication->keeper);
    rc = rc ? rc : lookout_start(&lookout, &replication->lookout);
    rc = rc ? rc : replicator_start(&replicator, &replication->replicator);
    rc = rc ? rc : forwarder_start(&forwarder, &replication->forwarder);
    replication->active = rc == 0;
    if (rc) {
        replication_free(replication);
        return rc;
    }
    *out = replication;
    return 0;
}

void replication_stop(struct replication *replication)
{
    if (!replication) {
        return;
    }
    pthread_mutex_lock(&replication->lock);
    replication->active = false;
    pthread_mutex_unlock(&replication->lock);
    forwarder_stop(replication->forwarder);
    replication->forwarder = NULL;
    /* The replicator gives hints to the lookout, which tells the keeper of the dead. */
    replicator_stop(replication->replicator);
    lookout_stop(replication->lookout);
    isr_keeper_stop(replication->keeper);
    replication->replicator = NULL;
    replication->lookout = NULL;
    replication->keeper = NULL;
}

void replication_free(struct replication *replication)
{
    if (!replication) {
        return;
    }
    replication_stop(replication);
    pthread_mutex_destroy(&replication->lock);
    free(replication);
}

void replication_notice(struct replication *replication, struct partition *partition)
{
    pthread_mutex_lock(&replication->lock);
    if (replication->active) {
        replicator_notice(replication->replicator, partition);
        isr_keeper_wake(replication->keeper);
        if (partition_outbox_pending(partition) || partition_sync_pending(partition)) {
            forwarder_notice(replication->forwarder, partition);
        }
    }
    pthread_mutex_unlock(&replication->lock);
}

void replication_notice_writes(struct replication *replication,
                               struct partition *partition)
{
    pthread_mutex_lock(&replication->lock);
    if (replication->active) {
        forwarder_notice(replication->forwarder, partition);
    }
    pthread_mutex_unlock(&replication->lock);
}

void replication_notice_cluster(struct replication *replication)
{
    if (!replication) {
        return;
    }
    pthread_mutex_lock(&replication->lock);
    if (replication->active) {
        lookout_look(replication->lookout);
    }
    pthread_mutex_unlock(&replication->lock);
}
