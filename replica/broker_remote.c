/*
 * Partitions that other nodes keep: each has a handle in the table, so that it can be
 * written to from here, and, once somebody reads it, a copy (see partition_remote.c).
 */
#include "replica/broker_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

/* How long a copy stays behind its last use. */
enum { REMOTE_IDLE_MS = 5 * 60 * 1000 };

static int remove_copy(void *arg, const char *name)
{
    const struct broker *broker = arg;
    char *path = broker_remote_dir(broker, name, -1);
    int rc = path ? log_remove(&disk_real, path) : -ENOMEM;
    if (rc) {
        diag(DIAG_WARNING, "observers/%s: not removed: %s", name, err_text(rc));
    }
    free(path);
    return 0;
}

int broker_remotes_clear(struct broker *broker)
{
    char *parent = datadir_file(broker->params.datadir, "observers");
    int rc =
        parent ? disk_real.ops->list(&disk_real, parent, remove_copy, broker) : -ENOMEM;
    if (rc == -ENOENT) {
        rc = disk_real.ops->mkdir(&disk_real, parent);
    }
    free(parent);
    return rc < 0 ? rc : 0;
}

char *broker_remote_dir(const struct broker *broker, const char *topic, int32_t index)
{
    char *path = NULL;
    const char *data = datadir_path(broker->params.datadir);
    int n = index < 0 ? asprintf(&path, "%s/observers/%s", data, topic)
                      : asprintf(&path, "%s/observers/%s-%" PRId32, data, topic, index);
    return n < 0 ? NULL : path;
}

void broker_discard_copy(struct broker *broker, struct partition *partition,
                         const char *dir)
{
    char id[TOPIC_ID_TEXT];
    char name[TOPIC_ID_TEXT + 16];
    struct rubbish *rubbish = calloc(1, sizeof *rubbish);
    topic_id_format(&partition->topic_id, id);
    (void)snprintf(name, sizeof name, "%s-%" PRId32, id, partition->index);
    int rc = rubbish ? broker_move_dir(broker, dir, "deleted", name, &rubbish->dir)
                     : -ENOMEM;
    if (rc) {
        diag(DIAG_WARNING, "%s: not moved away: %s", dir, err_text(rc));
    }
    if (!rubbish || !rubbish->dir) {
        free(rubbish);
        return;
    }
    pthread_mutex_lock(&broker->table_lock);
    LL_PREPEND(broker->rubbish, rubbish);
    pthread_mutex_unlock(&broker->table_lock);
}

void broker_notice(void *arg, struct partition *partition, enum partition_news news)
{
    struct broker *broker = arg;
    struct partition_key key;
    if (news == PARTITION_WRITES) {
        replication_notice_writes(broker->replication, partition);
        return;
    }
    replication_notice(broker->replication, partition);
    if (partition_observe_ended(partition)) {
        partition_key_init(&key, &partition->topic_id, partition->index);
        broker_release_waiters_of(broker, &key);
    }
}

static void tend(struct partition **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (partition_remote_rest(list[i], REMOTE_IDLE_MS)) {
            diag(DIAG_INFO, "%s: the copy for readers was given up", list[i]->name);
        }
        partition_unref(list[i]);
    }
    free(list);
}

void broker_remotes_tend(struct broker *broker)
{
    size_t count = 0;
    struct partition **list = NULL;
    (void)broker_copies(broker, &list, &count);
    tend(list, count);
    (void)broker_partitions(broker, &list, &count);
    tend(list, count);
}
