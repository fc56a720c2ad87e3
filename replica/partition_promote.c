/*
 * A copy for readers becomes a replica, which counts ("observer promotion", as
 * Confluent's documentation of Kafka calls it): what the copy has may be older than
 * what this node knew of the partition's epochs and producers, so that its log begins
 * anew, among the replicas. The handle stays, with all that is being written, read and
 * waited for.
 */
#include "replica/partition_internal.h"
#include "replica/partition_replica.h"

#include <stdlib.h>
#include <string.h>

int partition_promote(struct partition *partition, const struct topic *topic,
                      const char *dir, int (*persist)(void *arg), char **former)
{
    char *own = strdup(dir);
    *former = NULL;
    if (!own) {
        return -ENOMEM;
    }
    pthread_mutex_lock(&partition->dir_lock);
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    int rc = partition_refusal(partition);
    pthread_mutex_unlock(&partition->lock);
    rc = rc ? rc : log_renew_in(partition->log, own, 0);
    if (rc) {
        free(own);
        pthread_mutex_unlock(&partition->append_lock);
    } else {
        *former = partition->dir;
        partition->dir = own;
        partition->persist = persist;
        problems_clear_below(partition->problems, "damaged", partition->name);
        partition_begin_filling(partition, topic);
    }
    pthread_mutex_unlock(&partition->dir_lock);
    return rc;
}
