/* The tree under cluster/, from the present snapshot. */
#include "coord/cluster_private.h"
#include "coord/err.h"
#include "coord/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum tree_what {
    TREE_ROOT,
    TREE_CONTROLLER,
    TREE_CONTROLLER_EPOCH,
    TREE_PROBLEMS,
    TREE_BROKERS,
    TREE_IDS,
    TREE_ID,
    TREE_TOPICS,
    TREE_TOPIC,
    TREE_ASSIGNMENT,
    TREE_PARTITIONS,
    TREE_PARTITION,
    TREE_STATE,
    TREE_ADMIN,
    TREE_ADMIN_FILE,
    TREE_LAST,
    TREE_LAST_FILE,
};

struct tree_place {
    enum tree_what what;
    uint32_t broker;                    /* index; TREE_ID */
    const struct snapshot_topic *topic; /* from TREE_TOPIC on */
    int32_t partition;                  /* TREE_PARTITION, TREE_STATE */
    enum admin_operation operation;     /* TREE_ADMIN_FILE, TREE_LAST_FILE */
};

enum { TREE_PARTS = 6, TREE_PATH_MAX = 600 };

static int find_broker(const struct snapshot *snapshot, const char *text,
                       struct tree_place *place)
{
    const struct broker_info *broker;
    int64_t id;

    if (number_parse(text, INT32_MAX, &id) != 0)
        return -ENOENT;
    broker = cluster_snapshot_broker(&snapshot->shown, (int32_t)id);
    if (!broker)
        return -ENOENT;
    place->what = TREE_ID;
    place->broker = (uint32_t)(broker - snapshot->brokers);
    return 0;
}

/* Below brokers/topics/. */
static int find_in_topics(const struct snapshot *snapshot, char *parts[], int count,
                          struct tree_place *place)
{
    int64_t partition;

    place->topic = snapshot_topic_get(snapshot, parts[2]);
    if (!place->topic)
        return -ENOENT;
    place->what = TREE_TOPIC;
    if (count == 3)
        return 0;
    place->what = TREE_ASSIGNMENT;
    if (strcmp(parts[3], "assignment") == 0)
        return count == 4 ? 0 : -ENOTDIR;
    place->what = TREE_PARTITIONS;
    if (strcmp(parts[3], "partitions") != 0)
        return -ENOENT;
    if (count == 4)
        return 0;
    if (number_parse(parts[4], place->topic->topic.partition_count - 1, &partition) !=
        0)
        return -ENOENT;
    place->partition = (int32_t)partition;
    place->what = count == 5 ? TREE_PARTITION : TREE_STATE;
    return count == 5 || strcmp(parts[5], "state") == 0 ? 0 : -ENOENT;
}

static int find_in_brokers(const struct snapshot *snapshot, char *parts[], int count,
                           struct tree_place *place)
{
    bool ids = count > 1 && strcmp(parts[1], "ids") == 0;

    place->what = TREE_BROKERS;
    if (count == 1)
        return 0;
    if (!ids && strcmp(parts[1], "topics") != 0)
        return -ENOENT;
    place->what = ids ? TREE_IDS : TREE_TOPICS;
    if (count == 2)
        return 0;
    if (ids)
        return count == 3 ? find_broker(snapshot, parts[2], place) : -ENOENT;
    return find_in_topics(snapshot, parts, count, place);
}

static int find_in_admin(const struct snapshot *snapshot, char *parts[], int count,
                         struct tree_place *place)
{
    bool last = count > 1 && strcmp(parts[1], "last") == 0;
    int operation;

    place->what = count == 1 ? TREE_ADMIN : TREE_LAST;
    if (count == 1 || (last && count == 2))
        return 0;
    operation = admin_operation_find(parts[count - 1]);
    if (operation < 0 || count > 3 || (count == 3 && !last))
        return -ENOENT;
    place->operation = (enum admin_operation)operation;
    place->what = last ? TREE_LAST_FILE : TREE_ADMIN_FILE;
    return last && !snapshot->last[operation] ? -ENOENT : 0;
}

static int find_at_top(const struct snapshot *snapshot, const char *name,
                       struct tree_place *place)
{
    if (strcmp(name, "controller") == 0) {
        place->what = TREE_CONTROLLER;
        return snapshot->shown.controller >= 0 ? 0 : -ENOENT;
    }
    if (strcmp(name, "controller_epoch") == 0)
        place->what = TREE_CONTROLLER_EPOCH;
    else if (strcmp(name, "problems") == 0)
        place->what = TREE_PROBLEMS;
    else
        return -ENOENT;
    return 0;
}

static int find(const struct snapshot *snapshot, const char *path,
                struct tree_place *place)
{
    char copy[TREE_PATH_MAX], *parts[TREE_PARTS], *rest = copy;
    int count = 0;

    *place = (struct tree_place){.what = TREE_ROOT};
    if (path[0] == '\0')
        return 0;
    if (strlen(path) >= sizeof(copy))
        return -ENOENT;
    memcpy(copy, path, strlen(path) + 1);
    while (rest && count < TREE_PARTS)
        parts[count++] = strsep(&rest, "/");
    if (rest)
        return -ENOENT;
    if (strcmp(parts[0], "brokers") == 0)
        return find_in_brokers(snapshot, parts, count, place);
    if (strcmp(parts[0], "admin") == 0)
        return find_in_admin(snapshot, parts, count, place);
    return count == 1 ? find_at_top(snapshot, parts[0], place) : -ENOENT;
}

static enum cluster_node_kind kind_of(enum tree_what what)
{
    switch (what) {
    case TREE_ROOT:
    case TREE_BROKERS:
    case TREE_IDS:
    case TREE_TOPICS:
    case TREE_TOPIC:
    case TREE_PARTITIONS:
    case TREE_PARTITION:
    case TREE_ADMIN:
    case TREE_LAST:
        return CLUSTER_DIR;
    case TREE_ADMIN_FILE:
        return CLUSTER_ADMIN_FILE;
    default:
        return CLUSTER_FILE;
    }
}

int cluster_tree_kind(struct cluster *cluster, const char *path,
                      enum cluster_node_kind *kind)
{
    const struct cluster_snapshot *shown = cluster_snapshot_get(cluster);
    struct tree_place place;
    int rc = find((const struct snapshot *)shown, path, &place);

    cluster_snapshot_put(shown);
    if (rc != 0)
        return -ENOENT;
    *kind = kind_of(place.what);
    return 0;
}

bool cluster_admin_running(struct cluster *cluster, const char *operation)
{
    const struct cluster_snapshot *shown = cluster_snapshot_get(cluster);
    int index = admin_operation_find(operation);
    bool running = index >= 0 && ((const struct snapshot *)shown)->running[index];

    cluster_snapshot_put(shown);
    return running;
}

struct lister {
    int (*fn)(void *arg, const char *name, bool is_dir);
    void *arg;
    bool ended;
};

static void show(struct lister *lister, const char *name, bool is_dir)
{
    if (!lister->ended)
        lister->ended = lister->fn(lister->arg, name, is_dir) != 0;
}

static void show_number(struct lister *lister, int32_t number, bool is_dir)
{
    char name[16];

    snprintf(name, sizeof(name), "%" PRId32, number);
    show(lister, name, is_dir);
}

static void list_root(const struct snapshot *snapshot, struct lister *lister)
{
    show(lister, "admin", true);
    show(lister, "brokers", true);
    if (snapshot->shown.controller >= 0)
        show(lister, "controller", false);
    show(lister, "controller_epoch", false);
    show(lister, "problems", false);
}

static void list_admin(const struct snapshot *snapshot, bool last,
                       struct lister *lister)
{
    if (!last)
        show(lister, "last", true);
    for (int i = 0; i < ADMIN_OPERATIONS; i++)
        if (last ? snapshot->last[i] : snapshot->running[i])
            show(lister, admin_operation_name((enum admin_operation)i), false);
}

static void list_place(const struct snapshot *snapshot, const struct tree_place *place,
                       struct lister *lister)
{
    const struct cluster_snapshot *shown = &snapshot->shown;

    if (place->what == TREE_ROOT)
        list_root(snapshot, lister);
    if (place->what == TREE_ADMIN || place->what == TREE_LAST)
        list_admin(snapshot, place->what == TREE_LAST, lister);
    if (place->what == TREE_BROKERS) {
        show(lister, "ids", true);
        show(lister, "topics", true);
    }
    if (place->what == TREE_TOPIC) {
        show(lister, "assignment", false);
        show(lister, "partitions", true);
    }
    if (place->what == TREE_PARTITION)
        show(lister, "state", false);
    for (uint32_t i = 0; place->what == TREE_IDS && i < shown->broker_count; i++)
        show_number(lister, shown->brokers[i].id, false);
    for (uint32_t i = 0; place->what == TREE_TOPICS && i < shown->topic_count; i++)
        show(lister, shown->topics[i]->name, true);
    for (int32_t p = 0; place->what == TREE_PARTITIONS && !lister->ended &&
                        p < place->topic->topic.partition_count;
         p++)
        show_number(lister, p, true);
}

int cluster_tree_list(struct cluster *cluster, const char *path,
                      int (*fn)(void *arg, const char *name, bool is_dir), void *arg)
{
    const struct cluster_snapshot *shown = cluster_snapshot_get(cluster);
    struct lister lister = {.fn = fn, .arg = arg};
    struct tree_place place;
    int rc = find((const struct snapshot *)shown, path, &place);

    if (rc == 0 && kind_of(place.what) != CLUSTER_DIR)
        rc = -ENOTDIR;
    if (rc == 0)
        list_place((const struct snapshot *)shown, &place, &lister);
    cluster_snapshot_put(shown);
    return rc;
}

/* A state that is not stored has no epoch yet; it shows as one without a leader. */
static int render_state(const struct tree_place *place, struct buf *out)
{
    return partition_state_encode(out, &place->topic->states[place->partition]);
}

static int render(struct cluster *cluster, const struct snapshot *snapshot,
                  const struct tree_place *place, struct buf *out)
{
    const char *text = NULL;

    switch (place->what) {
    case TREE_CONTROLLER:
        controller_encode(out, snapshot->shown.controller);
        break;
    case TREE_CONTROLLER_EPOCH:
        controller_epoch_encode(out, snapshot->shown.controller_epoch);
        break;
    case TREE_PROBLEMS: /* its lines end in a newline already; empty when healthy */
        return problems_render(cluster->params.problems, out);
    case TREE_ID:
        registration_encode(out, &snapshot->registrations[place->broker],
                            snapshot->brokers[place->broker].epoch);
        break;
    case TREE_ASSIGNMENT:
        assignment_encode(out, &place->topic->assignment);
        break;
    case TREE_STATE:
        render_state(place, out);
        break;
    case TREE_ADMIN_FILE:
    case TREE_LAST_FILE:
        text = place->what == TREE_LAST_FILE ? snapshot->last[place->operation]
                                             : snapshot->running[place->operation];
        if (!text)
            return -ENOENT;
        buf_adds(out, text);
        break;
    default:
        return -EISDIR;
    }
    return buf_adds(out, "\n");
}

int cluster_tree_read(struct cluster *cluster, const char *path, struct buf *out)
{
    const struct cluster_snapshot *shown = cluster_snapshot_get(cluster);
    const struct snapshot *snapshot = (const struct snapshot *)shown;
    struct tree_place place;
    int rc = find(snapshot, path, &place);

    rc = rc == 0 ? render(cluster, snapshot, &place, out) : -ENOENT;
    cluster_snapshot_put(shown);
    return rc;
}
