/* Operations on topics: create, add a partition. */
#include "coord/cluster_topics.h"

#include "coord/controller.h"
#include "coord/err.h"
#include "coord/placement.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

enum { DEFAULT_FACTOR_MAX = 3 };

int cluster_unknown_topic(const char *name, char *why, size_t why_size)
{
    cluster_explain(why, why_size, "topic %s: no such topic", name);
    return E_UNKNOWN_TOPIC;
}

int cluster_topics_check_name(const struct snapshot *base, const char *name,
                              bool internal, char *why, size_t why_size)
{
    if (topic_name_check(name) != 0) {
        cluster_explain(why, why_size, "%s", err_text(E_INVALID_NAME));
        return E_INVALID_NAME;
    }
    if (!internal && topic_name_is_internal(name)) {
        cluster_explain(
            why, why_size,
            "topic %s: names that begin with __ are kept for topicfs itself", name);
        return E_INVALID_NAME;
    }
    if (snapshot_topic_get(base, name)) {
        cluster_explain(why, why_size, "topic %s: the topic exists", name);
        return E_TOPIC_EXISTS;
    }
    return 0;
}

static int new_topic_id(struct topic_id *id)
{
    ssize_t n = getrandom(id->bytes, sizeof(id->bytes), 0);

    if (n < 0)
        return -errno;
    return n == (ssize_t)sizeof(id->bytes) ? 0 : -EIO;
}

void cluster_topics_free(struct new_topic *topic)
{
    assignment_free(&topic->assignment);
    cJSON_Delete(topic->overrides);
}

int cluster_topics_place(struct assignment *assignment, int32_t partitions,
                         uint32_t factor, const struct id_list *live)
{
    uint32_t start = placement_start(assignment->id.bytes, TOPIC_ID_BYTES);
    int32_t ids[LEADERSHIP_REPLICAS_MAX];
    int rc = 0;

    assignment->partitions = calloc((size_t)partitions, sizeof(struct id_list));
    if (!assignment->partitions)
        return -ENOMEM;
    assignment->partition_count = partitions;
    for (int32_t p = 0; p < partitions && rc == 0; p++) {
        rc =
            placement_replicas(live->ids, live->count, factor, start, (uint32_t)p, ids);
        if (rc == 0)
            rc = id_list_copy(&assignment->partitions[p], ids, factor);
    }
    return rc;
}

/* Puts the state of partitions from `first` on, which nobody has led yet. */
static void add_states(struct txn *txn, const char *name,
                       const struct assignment *assignment, int32_t first,
                       const struct controller_view *view, int32_t first_epoch)
{
    for (int32_t p = first; p < assignment->partition_count; p++) {
        struct partition_state state;

        txn_fail(txn, controller_new_partition(view, &assignment->partitions[p],
                                               first_epoch, &state));
        cluster_put_state(txn, name, p, 0, &state);
        partition_state_free(&state);
    }
}

enum { FIRST_STATES_MAX = STORE_TXN_MAX - 16 };

/* On a shared store a transaction is bounded: the states of a large topic follow in
 * more. Where the controller, or a node that tries again, was faster, they are there.
 */
static int commit_more_states(struct cluster *cluster, const struct snapshot *base,
                              const struct new_topic *topic,
                              const struct controller_view *view)
{
    int64_t assignment_revision = cluster->commit_revision; /* so far */
    int32_t count = topic->assignment.partition_count;
    int rc = 0;

    for (int32_t p = FIRST_STATES_MAX; p < count && rc == 0; p += FIRST_STATES_MAX) {
        struct assignment part = topic->assignment; /* borrows its lists */
        struct txn txn;

        if (count - p > FIRST_STATES_MAX)
            part.partition_count = p + FIRST_STATES_MAX;
        txn_init(&txn, cluster->prefix);
        add_states(&txn, topic->name, &part, p, view, topic->first_epoch);
        cluster_compare_assignment(&txn, topic->name, assignment_revision);
        rc = cluster_commit(cluster, &txn, base);
        if (rc == -EAGAIN)
            break;
    }
    return rc == -EAGAIN ? 0 : rc;
}

int cluster_topics_commit(struct cluster *cluster, const struct snapshot *base,
                          const struct new_topic *topic, const struct id_list *live)
{
    struct assignment first = topic->assignment; /* borrows its lists */
    struct controller_view view = {.epoch = base->shown.controller_epoch, .live = live};
    const char *name = topic->name;
    struct buf value;
    struct txn txn;
    int rc;

    buf_init(&value, CLUSTER_VALUE_MAX);
    txn_init(&txn, cluster->prefix);
    cluster_compare_assignment(&txn, name, 0);
    cluster_put_assignment(&txn, name, &topic->assignment);
    /* Left-overs of another program would be taken for this topic's. */
    if (cluster->shared && first.partition_count > FIRST_STATES_MAX)
        first.partition_count = FIRST_STATES_MAX;
    add_states(&txn, name, &first, 0, &view, topic->first_epoch);
    txn_fail(&txn,
             topic_settings_encode(&value, &(struct topic_settings){
                                               topic->config_version, topic->overrides,
                                               topic->was_compacted}));
    txn_put(&txn, false, &value, "config/topics/%s", name);
    attributes_encode(&value, &topic->attributes);
    txn_put(&txn, false, &value, "attributes/topics/%s", name);
    rc = cluster_commit(cluster, &txn, base);
    buf_free(&value);
    if (rc == 0 && first.partition_count < topic->assignment.partition_count)
        rc = commit_more_states(cluster, base, topic, &view);
    return rc;
}

void cluster_topics_explain(const struct cluster *cluster, const char *name, int rc,
                            char *why, size_t why_size)
{
    if (rc == E_CONFLICT)
        cluster_explain(
            why, why_size,
            "topic %s: the coordination store has keys of it, but no assignment or a "
            "malformed one: mend that, or delete what is below %sbrokers/topics/%s/",
            name, cluster->prefix, name);
}

static bool has_leaders(const struct snapshot *snapshot, void *arg)
{
    const struct snapshot_topic *topic = snapshot_topic_get(snapshot, arg);

    for (int32_t p = 0; topic && p < topic->topic.partition_count; p++)
        if (topic->infos[p].leader < 0)
            return false;
    return true; /* also of a topic that was deleted meanwhile */
}

/* A new topic or partition can be written to when mkdir(2) returns. */
static int wait_for_leaders(struct cluster *cluster, const char *name, int rc)
{
    if (rc == 0 && cluster->shared)
        (void)cluster_wait(cluster, cluster->defaults.delivery_timeout_ms, has_leaders,
                           (void *)name);
    return rc;
}

static int resolve_factor(const char *name, struct topic_config *config, uint32_t live,
                          char *why, size_t why_size)
{
    if (config->replication_factor == 0)
        config->replication_factor =
            live < DEFAULT_FACTOR_MAX ? (int64_t)live : DEFAULT_FACTOR_MAX;
    if (config->min_insync_replicas > config->replication_factor) {
        cluster_explain(why, why_size,
                        "topic %s: min_insync_replicas is %" PRId64
                        ", more than its %" PRId64 " replica%s: no write could succeed",
                        name, config->min_insync_replicas, config->replication_factor,
                        config->replication_factor == 1 ? "" : "s");
        return E_INVALID_CONFIG;
    }
    if (config->replication_factor >= 1 && config->replication_factor <= (int64_t)live)
        return 0;
    cluster_explain(
        why, why_size,
        "topic %s: replication_factor is %" PRId64 ", but %" PRIu32 " node%s live",
        name, config->replication_factor, live, live == 1 ? " is" : "s are");
    return E_INVALID_REPLICATION_FACTOR;
}

/* The config of a new topic, and what of it is the topic's own. */
static int prepare_config(struct cluster *cluster, const cJSON *settings,
                          struct new_topic *topic, struct topic_config *config,
                          char *why, size_t why_size)
{
    int rc = 0;

    *config = cluster->defaults;
    if (settings)
        rc = settings_apply_json(config, SETTING_TOPIC, &cluster->defaults, settings, 0,
                                 true, why, why_size);
    return rc ? rc : cluster_own_settings(config, &topic->overrides);
}

struct creation { /* of one topic, over all attempts */
    const char *name;
    bool internal;
    const cJSON *settings;
    struct topic_id id;
    struct attributes attributes;
};

static int create_once(struct cluster *cluster, const struct creation *creation,
                       char *why, size_t why_size)
{
    struct new_topic topic = {.name = creation->name,
                              .attributes = creation->attributes,
                              .config_version = 1};
    const struct snapshot *base;
    struct topic_config config;
    struct id_list live = {0};
    int rc;

    cluster_begin(cluster, &base);
    /* An attempt of which the store did not tell the outcome came to pass. */
    if (cluster_snapshot_topic_by_id(&base->shown, &creation->id))
        return cluster_end(cluster, base, 0);
    rc = cluster_topics_check_name(base, topic.name, creation->internal, why, why_size);
    if (rc == 0)
        rc = cluster_live(base, &live);
    if (rc == 0)
        rc =
            prepare_config(cluster, creation->settings, &topic, &config, why, why_size);
    if (rc == 0)
        rc = resolve_factor(topic.name, &config, live.count, why, why_size);
    topic.assignment.id = creation->id;
    if (rc == 0)
        rc = cluster_topics_place(&topic.assignment, (int32_t)config.partitions,
                                  (uint32_t)config.replication_factor, &live);
    if (rc == 0)
        rc = cluster_topics_commit(cluster, base, &topic, &live);
    cluster_topics_free(&topic);
    id_list_free(&live);
    return cluster_end(cluster, base, rc);
}

static int create_topic(struct cluster *cluster, struct creation *creation, char *why,
                        size_t why_size)
{
    int attempts = 0, rc;

    creation->attributes.created_ms =
        cluster->params.clock->wall_ms(cluster->params.clock);
    rc = new_topic_id(&creation->id);
    if (rc != 0)
        return rc;
    do
        rc = create_once(cluster, creation, why, why_size);
    while (cluster_again(&rc, &attempts));
    cluster_topics_explain(cluster, creation->name, rc, why, why_size);
    return wait_for_leaders(cluster, creation->name, rc);
}

int cluster_create_topic(struct cluster *cluster, const char *name,
                         const cJSON *settings, uid_t uid, gid_t gid, mode_t mode,
                         char *why, size_t why_size)
{
    struct creation creation = {.name = name, .settings = settings};

    creation.attributes = (struct attributes){uid, gid, mode & 07777, 0};
    return create_topic(cluster, &creation, why, why_size);
}

int cluster_create_internal(struct cluster *cluster, const char *name,
                            const cJSON *settings, char *why, size_t why_size)
{
    struct creation creation = {.name = name, .settings = settings, .internal = true};
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(cluster);

    creation.attributes =
        (struct attributes){snapshot->topics_uid, snapshot->topics_gid, 0700, 0};
    cluster_snapshot_put(snapshot);
    return create_topic(cluster, &creation, why, why_size);
}

/* The topic's assignment and one partition more. */
static int grown_assignment(const struct snapshot_topic *topic,
                            const struct id_list *live, struct assignment *out)
{
    int32_t count = topic->assignment.partition_count, ids[LEADERSHIP_REPLICAS_MAX];
    uint32_t factor = topic->assignment.partitions[0].count;
    int rc = assignment_copy(out, &topic->assignment, count + 1);

    if (rc == 0)
        rc = placement_replicas(live->ids, live->count, factor,
                                placement_start(out->id.bytes, TOPIC_ID_BYTES),
                                (uint32_t)count, ids);
    return rc ? rc : id_list_copy(&out->partitions[count], ids, factor);
}

static int check_next_partition(const char *name, const struct snapshot_topic *topic,
                                int32_t partition, char *why, size_t why_size)
{
    int32_t next = topic->assignment.partition_count;

    if (partition == next && next < PARTITIONS_MAX)
        return 0;
    if (partition >= 0 && partition < next) {
        cluster_explain(why, why_size, "topic %s: partition %" PRId32 " exists", name,
                        partition);
        return -EEXIST;
    }
    if (next == PARTITIONS_MAX)
        cluster_explain(why, why_size,
                        "topic %s: it has %" PRId32 ", the most there are", name, next);
    else
        cluster_explain(why, why_size, "topic %s: the next partition is %" PRId32, name,
                        next);
    return E_INVALID_PARTITION;
}

static int add_partition_once(struct cluster *cluster, const char *name,
                              int32_t partition, char *why, size_t why_size)
{
    const struct snapshot_topic *topic;
    struct assignment grown = {0};
    struct controller_view view;
    const struct snapshot *base;
    struct id_list live = {0};
    struct txn txn;
    int rc;

    cluster_begin(cluster, &base);
    topic = snapshot_topic_get(base, name);
    rc = topic ? check_next_partition(name, topic, partition, why, why_size)
               : cluster_unknown_topic(name, why, why_size);
    if (rc == 0)
        rc = cluster_refuse_internal(name, "can't get more partitions", why, why_size);
    if (rc == 0)
        rc = cluster_live(base, &live);
    if (rc == 0)
        rc = grown_assignment(topic, &live, &grown);
    if (rc == 0) {
        view = (struct controller_view){base->shown.controller_epoch, &live};
        txn_init(&txn, cluster->prefix);
        cluster_compare_assignment(&txn, name, topic->assignment_revision);
        cluster_put_assignment(&txn, name, &grown);
        add_states(&txn, name, &grown, partition, &view, 0);
        rc = cluster_commit(cluster, &txn, base);
    } else if (rc == E_INVALID_REPLICATION_FACTOR) {
        cluster_explain(why, why_size, "topic %s: too few live nodes for its replicas",
                        name);
    }
    assignment_free(&grown);
    id_list_free(&live);
    return cluster_end(cluster, base, rc);
}

int cluster_add_partition(struct cluster *cluster, const char *name, int32_t partition,
                          char *why, size_t why_size)
{
    int attempts = 0, rc;

    do
        rc = add_partition_once(cluster, name, partition, why, why_size);
    while (cluster_again(&rc, &attempts));
    return wait_for_leaders(cluster, name, rc);
}
