/*
 * Partition directories: whose they are, how they get out of the way, and what becomes
 * of those that the store does not know.
 */
#include "replica/broker_internal.h"
#include "replica/index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct peek {
    const char *dir;
    struct topic_id *id;
    int result;
};

static int peek_index(void *arg, const char *name)
{
    struct peek *peek = arg;
    size_t length = strlen(name);
    char *path = NULL;
    if (length < 6 || strcmp(name + length - 6, ".index") != 0 ||
        asprintf(&path, "%s/%s", peek->dir, name) < 0) {
        return 0;
    }
    uint8_t bytes[INDEX_HEADER_BYTES];
    struct index_header header;
    int file = disk_real.ops->open(&disk_real, path, DISK_READ);
    free(path);
    if (file < 0) {
        return 0;
    }
    if (disk_read_all(&disk_real, file, bytes, sizeof bytes, 0) == 0 &&
        index_header_decode(bytes, &header) == 0) {
        *peek->id = header.topic_id;
        peek->result = 0;
    }
    (void)disk_real.ops->close(&disk_real, file);
    return peek->result == 0;
}

int broker_dir_topic_id(const char *dir, struct topic_id *id)
{
    struct peek peek = {.dir = dir, .id = id, .result = -ENOENT};
    int rc = disk_real.ops->list(&disk_real, dir, peek_index, &peek);
    return rc < 0 ? rc : peek.result;
}

int broker_move_dir(const struct broker *broker, const char *dir, const char *to,
                    const char *name, char **moved)
{
    char *parent = datadir_file(broker->params.datadir, to);
    int rc = parent ? disk_real.ops->mkdir(&disk_real, parent) : -ENOMEM;
    rc = rc == -EEXIST ? 0 : rc;
    for (unsigned i = 0; !rc; i++) {
        char *target = NULL;
        struct disk_stat stat;
        if (asprintf(&target, i ? "%s/%s.%u" : "%s/%s", parent, name, i) < 0) {
            rc = -ENOMEM;
            break;
        }
        rc = disk_real.ops->stat_path(&disk_real, target, &stat);
        if (rc == -ENOENT) {
            rc = disk_real.ops->rename(&disk_real, dir, target);
            *moved = rc ? NULL : target;
            if (rc) {
                free(target);
            }
            break;
        }
        free(target);
    }
    rc =
        rc ? rc
           : disk_real.ops->flush_dir(&disk_real, datadir_path(broker->params.datadir));
    free(parent);
    return rc;
}

void broker_set_aside(struct broker *broker, const char *dir, const char *why)
{
    const char *name = strrchr(dir, '/') + 1;
    char *moved = NULL;
    char what[512];
    int rc = broker_move_dir(broker, dir, "stray", name, &moved);
    if (rc) {
        (void)snprintf(what, sizeof what, "%s, and could not be moved to stray/: %s",
                       why, err_text(rc));
    } else {
        (void)snprintf(what, sizeof what, "%s; it was moved to %s", why, moved);
    }
    problems_set(broker->params.problems, "stray", name, what,
                 "look at it; topicfs never deletes it");
    free(moved);
}

/* ---- directories without a topic ----------------------------------------------------
 */

struct sort_out {
    struct broker *broker;
    const struct cluster_snapshot *snapshot;
    char **names;
    size_t count;
    int error;
};

/* "orders-0" -> "orders", 0. */
static bool split_name(const char *name, char topic[TOPIC_NAME_MAX + 1], int32_t *index)
{
    const char *dash = strrchr(name, '-');
    size_t length = dash ? (size_t)(dash - name) : 0;
    if (length == 0 || length > TOPIC_NAME_MAX || dash[1] == '\0' ||
        strspn(dash + 1, "0123456789") != strlen(dash + 1) || strlen(dash + 1) > 9) {
        return false;
    }
    memcpy(topic, name, length);
    topic[length] = '\0';
    *index = (int32_t)strtol(dash + 1, NULL, 10);
    return topic_name_check(topic) == 0;
}

/* The partition of that name, if it is one of a topic that the store knows. */
static const struct partition_info *find_partition(const struct sort_out *sort,
                                                   const char *name,
                                                   const struct topic **topic)
{
    char topic_name[TOPIC_NAME_MAX + 1];
    int32_t index = 0;
    *topic = split_name(name, topic_name, &index)
                 ? cluster_snapshot_topic(sort->snapshot, topic_name)
                 : NULL;
    return *topic && index < (*topic)->partition_count ? &(*topic)->partitions[index]
                                                       : NULL;
}

/* Neither assigned to this node, nor does anything rest on what it has of it. */
static bool was_moved_away(const struct sort_out *sort, const char *name)
{
    const struct topic *topic = NULL;
    const struct partition_info *info = find_partition(sort, name, &topic);
    int32_t self = sort->snapshot->self;
    return info && info->isr_count > 0 &&
           !replica_ids_list(info->replicas, info->replica_count, self) &&
           !replica_ids_list(info->isr, info->isr_count, self) &&
           !replica_ids_list(info->elr, info->elr_count, self);
}

/* Anything but what topicfs derives from messages. */
static int is_worth_keeping(void *arg, const char *name)
{
    static const char derived[] = ".producers";
    size_t length = strlen(name);
    (void)arg;
    return length < sizeof derived ||
           strcmp(name + length - (sizeof derived - 1), derived) != 0;
}

/* It was a copy for readers of the last process, which none outlives. */
static int remove_moved(const struct sort_out *sort, const char *name, const char *dir)
{
    const struct topic *topic = NULL;
    struct topic_id id;
    (void)find_partition(sort, name, &topic);
    int rc = broker_dir_topic_id(dir, &id);
    bool empty = disk_real.ops->list(&disk_real, dir, is_worth_keeping, NULL) == 0;
    if (empty || (rc == 0 && topic_id_equal(&id, &topic->id))) {
        diag(DIAG_INFO, "%s: removed, the partition was moved to other nodes", name);
        rc = log_remove(&disk_real, dir);
    }
    return rc == -ENOENT ? 0 : rc;
}

static int collect_stray(void *arg, const char *name)
{
    struct sort_out *sort = arg;
    char topic[TOPIC_NAME_MAX + 1];
    int32_t index = 0;
    if (!split_name(name, topic, &index)) {
        return 0;
    }
    const struct topic *known = cluster_snapshot_topic(sort->snapshot, topic);
    if (known && index < known->partition_count && !was_moved_away(sort, name)) {
        return 0;
    }
    char **names = realloc(sort->names, (sort->count + 1) * sizeof *names);
    char *copy = strdup(name);
    if (names) {
        sort->names = names;
    }
    if (!names || !copy) {
        free(copy);
        sort->error = -ENOMEM;
        return 1;
    }
    sort->names[sort->count++] = copy;
    return 0;
}

/* A topic is adopted once, with the partition that has the highest number. */
static bool is_highest(const struct sort_out *sort, const char *topic, int32_t index)
{
    for (size_t i = 0; i < sort->count; i++) {
        char other[TOPIC_NAME_MAX + 1];
        int32_t other_index = 0;
        if (split_name(sort->names[i], other, &other_index) && !strcmp(other, topic) &&
            other_index > index) {
            return false;
        }
    }
    return true;
}

/* The store is new but logs are there: it was lost. Their topics come back with default
 * settings, because the logs say whose they are. */
static void adopt(const struct sort_out *sort, const char *name)
{
    struct broker *broker = sort->broker;
    char topic[TOPIC_NAME_MAX + 1];
    int32_t index = 0;
    struct topic_id id;
    char why[256] = "";
    char *dir = datadir_file(broker->params.datadir, name);
    if (!dir || !split_name(name, topic, &index) || !is_highest(sort, topic, index)) {
        free(dir);
        return;
    }
    int rc = broker_dir_topic_id(dir, &id);
    if (rc) {
        broker_set_aside(broker, dir, "no index in it says which topic it belongs to");
    } else {
        rc = cluster_adopt_topic(broker->params.cluster, topic, &id, index + 1, why,
                                 sizeof why);
        if (rc) {
            broker_set_aside(broker, dir, why[0] ? why : err_text(rc));
        } else {
            problems_set(broker->params.problems, "adopted", topic,
                         "the coordination store was lost; the topic was brought back "
                         "from its log with default settings, owner and mode",
                         "check config.json, chown and chmod");
        }
    }
    free(dir);
}

/* A topic that was deleted while this node was away or as it crashed; or a directory
 * that never held a message, which nobody can miss. */
static bool was_deleted(const struct sort_out *sort, const char *dir)
{
    struct topic_id id;
    if (disk_real.ops->list(&disk_real, dir, is_worth_keeping, NULL) == 0) {
        return true;
    }
    return broker_dir_topic_id(dir, &id) == 0 &&
           cluster_snapshot_deleted(sort->snapshot, &id);
}

static int remove_deleted(void *arg, const char *name)
{
    const struct broker *broker = arg;
    char *path = NULL;
    if (asprintf(&path, "%s/deleted/%s", datadir_path(broker->params.datadir), name) >
        0) {
        int rc = log_remove(&disk_real, path);
        if (rc) {
            diag(DIAG_WARNING, "%s: not removed: %s", path, err_text(rc));
        }
        free(path);
    }
    return 0;
}

int broker_sort_out_strays(struct broker *broker)
{
    char *deleted = datadir_file(broker->params.datadir, "deleted");
    if (deleted) {
        (void)disk_real.ops->list(&disk_real, deleted, remove_deleted, broker);
        free(deleted);
    }
    bool lost_store = cluster_store_was_created(broker->params.cluster);
    struct sort_out sort = {
        .broker = broker,
        .snapshot = cluster_snapshot_get(broker->params.cluster),
    };
    int rc = disk_real.ops->list(&disk_real, datadir_path(broker->params.datadir),
                                 collect_stray, &sort);
    rc = rc < 0 ? rc : sort.error;
    for (size_t i = 0; i < sort.count; i++) {
        char *dir = datadir_file(broker->params.datadir, sort.names[i]);
        if (!rc && dir && was_moved_away(&sort, sort.names[i])) {
            rc = remove_moved(&sort, sort.names[i], dir);
        } else if (!rc && lost_store) {
            adopt(&sort, sort.names[i]);
        } else if (!rc && dir && was_deleted(&sort, dir)) {
            rc = log_remove(&disk_real, dir);
        } else if (!rc && dir) {
            broker_set_aside(broker, dir,
                             "the coordination store knows no such partition");
        }
        free(dir);
    }
    for (size_t i = 0; i < sort.count; i++) {
        free(sort.names[i]);
    }
    free(sort.names);
    cluster_snapshot_put(sort.snapshot);
    return rc;
}
