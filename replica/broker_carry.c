/*
 * The first mount of a data directory with a store that is shared, after it was used
 * with the embedded one: its topics go along, as they are. That store is put out of the
 * way afterwards, for what it says is old from then on.
 */
#include "replica/broker_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The cluster has another topic of that name: the logs are kept, but not served. */
static void set_aside_logs(struct broker *broker, const struct topic *topic)
{
    for (int32_t index = 0; index < topic->partition_count; index++) {
        char name[TOPIC_NAME_MAX + 16];
        struct topic_id found;
        (void)snprintf(name, sizeof name, "%s-%" PRId32, topic->name, index);
        char *dir = datadir_file(broker->params.datadir, name);
        if (dir && broker_dir_topic_id(dir, &found) == 0 &&
            topic_id_equal(&found, &topic->id)) {
            broker_set_aside(broker, dir, "the cluster has another topic of this name");
        }
        free(dir);
    }
}

static int carry_topic(struct broker *broker, const struct topic *topic, char *why,
                       size_t why_size)
{
    int rc = cluster_carry_topic(broker->params.cluster, topic, why, why_size);
    if (rc == E_TOPIC_EXISTS) {
        set_aside_logs(broker, topic);
        rc = 0;
    } else if (rc == E_TOPIC_DELETED) {
        rc = 0; /* there: its logs go, as after any deletion */
    } else if (rc == 0) {
        diag(DIAG_INFO, "topic %s: brought along from the embedded store", topic->name);
    } else if (why[0] == '\0') {
        (void)snprintf(why, why_size, "topic %s can't be brought along: %s",
                       topic->name, err_text(rc));
    }
    return rc;
}

static int carry_all(struct broker *broker, const struct cluster_snapshot *contents,
                     char *why, size_t why_size)
{
    int rc = 0;
    if (contents->topic_count > 0 && broker->params.config->role == ROLE_CLIENT) {
        (void)snprintf(why, why_size,
                       "the data directory %s has topics of its own, and role=client "
                       "keeps none: mount without it, or with another directory",
                       datadir_path(broker->params.datadir));
        return -EINVAL;
    }
    for (uint32_t i = 0; !rc && i < contents->topic_count; i++) {
        why[0] = '\0';
        rc = carry_topic(broker, contents->topics[i], why, why_size);
    }
    rc = rc ? rc : cluster_carry_owner(broker->params.cluster, contents);
    return rc;
}

static int put_away(struct broker *broker)
{
    char *moved = NULL;
    int rc = broker_move_dir(broker, datadir_store_path(broker->params.datadir),
                             "carried", "store", &moved);
    if (!rc) {
        diag(DIAG_INFO, "the embedded store is in %s now", moved);
    }
    free(moved);
    return rc;
}

int broker_carry_over(struct broker *broker, char *why, size_t why_size)
{
    const struct cluster_snapshot *contents = NULL;
    const char *store_dir = datadir_store_path(broker->params.datadir);
    struct cluster_session session;
    cluster_session(broker->params.cluster, &session);
    if (!session.shared) {
        return 0;
    }
    int rc = carry_over_read(store_dir, &contents, why, why_size);
    if (rc == -ENOENT) {
        return 0;
    }
    rc = rc ? rc : carry_all(broker, contents, why, why_size);
    cluster_snapshot_put(contents);
    rc = rc ? rc : put_away(broker);
    if (rc && why[0] == '\0') {
        (void)snprintf(why, why_size, "bringing along what %s says: %s", store_dir,
                       err_text(rc));
    }
    return rc;
}
