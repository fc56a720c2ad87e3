/*
 * Replicas that can't be used, because they are damaged or their disk failed. Such a
 * one takes itself out of the in-sync replicas; once another leads, its files go to
 * <data>/replaced and it is filled anew; once it is in sync again, they are removed.
 *
 * That it is due stands in <data>/unusable from before the store knows of it until the
 * old files are aside: another crash must not hide it. From then on what lies in
 * <data>/replaced says that it was done.
 *
 * On the keeper's thread, but for what is asked at a partition's opening.
 */
#include "replica/broker_internal.h"
#include "replica/partition_replica.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPAIR_NAME_SIZE = TOPIC_ID_TEXT + 16,
    DELAY_MIN_MS = 1000, /* a disk that goes on failing */
    DELAY_MAX_MS = 10000,
};

/* What a partition's files are called in replaced/ and unusable/. */
static void name_of(const struct topic_id *topic_id, int32_t index,
                    char name[REPAIR_NAME_SIZE])
{
    char id[TOPIC_ID_TEXT];
    topic_id_format(topic_id, id);
    (void)snprintf(name, REPAIR_NAME_SIZE, "%s-%" PRId32, id, index);
}

static char *path_in(const struct broker *broker, const char *dir, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s/%s", datadir_path(broker->params.datadir), dir,
                    name) < 0
               ? NULL
               : path;
}

/* ---- what is on disk ----------------------------------------------------------------
 */

static bool exists(const struct broker *broker, const char *dir, const char *name)
{
    struct disk_stat stat;
    char *path = path_in(broker, dir, name);
    bool there = path && disk_real.ops->stat_path(&disk_real, path, &stat) == 0;
    free(path);
    return there;
}

bool broker_is_noted_unusable(const struct broker *broker,
                              const struct topic_id *topic_id, int32_t index)
{
    char name[REPAIR_NAME_SIZE];
    name_of(topic_id, index, name);
    return exists(broker, "unusable", name);
}

bool broker_has_replaced(const struct broker *broker, const struct topic_id *topic_id,
                         int32_t index)
{
    char name[REPAIR_NAME_SIZE];
    name_of(topic_id, index, name);
    return exists(broker, "replaced", name);
}

/* The disk may be what failed: then the store is told nevertheless. */
static void note_unusable(const struct broker *broker, const char *name)
{
    char *parent = datadir_file(broker->params.datadir, "unusable");
    char *path = path_in(broker, "unusable", name);
    int rc = parent && path ? disk_real.ops->mkdir(&disk_real, parent) : -ENOMEM;
    rc = rc == -EEXIST ? 0 : rc;
    rc = rc ? rc : disk_replace(&disk_real, path, "", 0);
    if (rc) {
        diag(DIAG_WARNING, "%s: not noted on disk: %s", path ? path : name,
             err_text(rc));
    }
    free(path);
    free(parent);
}

static void forget_unusable(const struct broker *broker, const char *name)
{
    char *path = path_in(broker, "unusable", name);
    if (path) {
        (void)disk_real.ops->unlink(&disk_real, path);
    }
    free(path);
}

struct removal {
    const struct broker *broker;
    const char *name; /* NULL: of every topic that was deleted */
    const struct cluster_snapshot *snapshot;
};

static bool is_deleted(const struct removal *removal, const char *name)
{
    char text[TOPIC_ID_TEXT];
    struct topic_id id;
    size_t length = strcspn(name, "-");
    if (length >= sizeof text) {
        return false;
    }
    memcpy(text, name, length);
    text[length] = '\0';
    return topic_id_parse(text, &id) == 0 &&
           cluster_snapshot_deleted(removal->snapshot, &id);
}

static int remove_one(void *arg, const char *name)
{
    const struct removal *removal = arg;
    size_t length = removal->name ? strlen(removal->name) : 0;
    bool wanted = removal->name ? strncmp(name, removal->name, length) == 0 &&
                                      (name[length] == '\0' || name[length] == '.')
                                : is_deleted(removal, name);
    char *path = wanted ? path_in(removal->broker, "replaced", name) : NULL;
    int rc = path ? log_remove(&disk_real, path) : 0;
    if (rc == -ENOTDIR) { /* whatever it was, a log it was not */
        rc = disk_real.ops->unlink(&disk_real, path);
    }
    if (rc) {
        diag(DIAG_WARNING, "%s: not removed: %s", path, err_text(rc));
    }
    free(path);
    return 0;
}

static void remove_replaced(const struct removal *removal)
{
    char *parent = datadir_file(removal->broker->params.datadir, "replaced");
    if (parent) {
        (void)disk_real.ops->list(&disk_real, parent, remove_one, (void *)removal);
    }
    free(parent);
}

void broker_repairs_clear(struct broker *broker)
{
    const struct removal removal = {
        .broker = broker, .snapshot = cluster_snapshot_get(broker->params.cluster)};
    remove_replaced(&removal);
    cluster_snapshot_put(removal.snapshot);
}

/* ---- the steps ----------------------------------------------------------------------
 */

/* true: the store knows. */
static bool take_out(struct broker *broker, struct partition *partition,
                     struct suspect *suspect)
{
    char name[REPAIR_NAME_SIZE];
    int64_t revision = 0;
    if (partition->taken_out_revision) {
        return true;
    }
    name_of(&partition->topic_id, partition->index, name);
    note_unusable(broker, name);
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(broker->params.cluster);
    suspect->id = snapshot->self;
    cluster_snapshot_put(snapshot);
    int rc = cluster_take_out(broker->params.cluster, &partition->topic_id,
                              partition->index, suspect, &revision);
    if (rc) {
        diag(DIAG_DEBUG, "%s: not taken out yet: %s", partition->name, err_text(rc));
        return false;
    }
    diag(DIAG_INFO, "%s: the replica here can't be used, and is out", partition->name);
    partition->taken_out_revision = revision > 0 ? revision : 1;
    return true;
}

struct move {
    struct broker *broker;
    struct partition *partition;
    char *to; /* where the files are now; freed by the caller */
};

/* An attempt that came to nothing, made of what the leader had, is nobody's only copy.
 */
static int move_aside(void *arg)
{
    struct move *move = arg;
    char name[REPAIR_NAME_SIZE];
    name_of(&move->partition->topic_id, move->partition->index, name);
    int rc = broker_move_dir(move->broker, move->partition->dir,
                             move->partition->repairing ? "deleted" : "replaced", name,
                             &move->to);
    return move->to ? 0 : rc; /* moved, if not for good */
}

/* true: it is time for another attempt. */
static bool is_due(struct broker *broker, struct partition *partition)
{
    int64_t now_ms = clock_mono_ms(broker->params.clock);
    int64_t delay_ms = partition->refill_delay_ms * 2;
    if (now_ms < partition->refill_after_ms) {
        return false;
    }
    delay_ms = delay_ms < DELAY_MIN_MS ? DELAY_MIN_MS : delay_ms;
    partition->refill_delay_ms = delay_ms < DELAY_MAX_MS ? delay_ms : DELAY_MAX_MS;
    partition->refill_after_ms = now_ms + partition->refill_delay_ms;
    return true;
}

static void note_refill(struct broker *broker, const char *name, const char *moved)
{
    char what[512];
    (void)snprintf(what, sizeof what,
                   "the replica could not be used and is fetched anew from the leader; "
                   "what it was is in %s",
                   moved ? moved : "no place that is known");
    problems_set(broker->params.problems, "refill", name, what,
                 "nothing: once it is in sync again that is removed");
}

int broker_replace_dir(struct broker *broker, const struct topic *topic, int32_t index)
{
    char name[REPAIR_NAME_SIZE];
    char subject[TOPIC_NAME_MAX + 16];
    char *moved = NULL;
    (void)snprintf(subject, sizeof subject, "%s-%" PRId32, topic->name, index);
    char *dir = datadir_file(broker->params.datadir, subject);
    name_of(&topic->id, index, name);
    int rc = dir ? broker_move_dir(broker, dir, "replaced", name, &moved) : -ENOMEM;
    if (moved) {
        rc = 0; /* if not for good */
        note_refill(broker, subject, moved);
    }
    free(moved);
    free(dir);
    return rc;
}

static void refill(struct broker *broker, struct partition *partition)
{
    char name[REPAIR_NAME_SIZE];
    char what[512];
    struct move move = {.broker = broker, .partition = partition};
    bool again = partition->repairing;
    int rc = partition_refill(partition, move_aside, &move);
    if (rc) {
        (void)snprintf(what, sizeof what,
                       "the replica can't be used, and can't be begun anew: %s",
                       err_text(rc));
        problems_set(broker->params.problems, "refill", partition->name, what,
                     "mend that; it is tried again and again");
    } else {
        partition->taken_out_revision = 0;
        partition->repairing = true;
        name_of(&partition->topic_id, partition->index, name);
        (void)broker_checkpoint(broker);
        forget_unusable(broker, name);
        if (again) {
            (void)(move.to ? log_remove(&disk_real, move.to) : 0);
        } else {
            note_refill(broker, partition->name, move.to);
        }
    }
    free(move.to);
}

static void finish(struct broker *broker, struct partition *partition)
{
    char name[REPAIR_NAME_SIZE];
    const struct removal removal = {.broker = broker, .name = name};
    name_of(&partition->topic_id, partition->index, name);
    remove_replaced(&removal);
    forget_unusable(broker, name);
    problems_clear_below(broker->params.problems, "damaged", partition->name);
    problems_clear(broker->params.problems, "offline", partition->name);
    problems_clear(broker->params.problems, "lost", partition->name);
    problems_clear(broker->params.problems, "refill", partition->name);
    partition->repairing = false;
    partition->refill_delay_ms = partition->refill_after_ms = 0;
    diag(DIAG_INFO, "%s: the replica is in sync again", partition->name);
}

void broker_repair(struct broker *broker, struct partition *partition)
{
    struct suspect suspect;
    bool unfit = partition_unfit(partition);
    if (partition->repairing && partition_is_in_sync(partition)) {
        finish(broker, partition);
    }
    if (partition_suspect(partition, DOUBT_NONE, &suspect)) {
        if (take_out(broker, partition, &suspect) && unfit &&
            partition_may_refill(partition, partition->taken_out_revision) &&
            is_due(broker, partition)) {
            refill(broker, partition);
        }
    }
}
