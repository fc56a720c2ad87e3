/* Operations on topics that are there: settings, owner and mode. */
#include "coord/cluster_private.h"
#include "coord/err.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

static bool kept_in_assignment(const char *key)
{
    return strcmp(key, "version") == 0 || strcmp(key, "partitions") == 0 ||
           strcmp(key, "replication_factor") == 0;
}

int cluster_own_settings(const struct topic_config *config, cJSON **out)
{
    struct topic_config built_in;
    cJSON *own, *base;
    const cJSON *item;
    int rc;

    topic_config_defaults(&built_in);
    built_in.replication_factor = config->replication_factor;
    own = settings_to_json(config, SETTING_TOPIC, 0);
    base = settings_to_json(&built_in, SETTING_TOPIC, 0);
    rc = own && base ? 0 : -ENOMEM;
    cJSON_ArrayForEach(item, base)
    {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(own, item->string);

        if (kept_in_assignment(item->string) || cJSON_Compare(value, item, true))
            cJSON_DeleteItemFromObjectCaseSensitive(own, item->string);
    }
    cJSON_Delete(base);
    if (rc != 0) {
        cJSON_Delete(own);
        own = NULL;
    }
    *out = own;
    return rc;
}

/* Applies `object` to the topic's settings and adds what changes to the transaction. */
static int change_config(struct cluster *cluster, const struct snapshot_topic *topic,
                         const cJSON *object, struct txn *txn, char *why,
                         size_t why_size)
{
    struct topic_config config = topic->topic.config, defaults = cluster->defaults;
    int64_t version = topic->topic.config_version;
    struct topic_settings settings = {.was_compacted =
                                          config.was_compacted ||
                                          (config.cleanup_policy & CLEANUP_COMPACT)};
    struct buf value;
    int rc;

    if (version == INT64_MAX) {
        cluster_explain(why, why_size, "the version can't rise any more");
        return -EOVERFLOW;
    }
    defaults.partitions = config.partitions;
    defaults.replication_factor = config.replication_factor;
    defaults.min_insync_replicas = topic_config_min_insync(&defaults);
    rc = settings_apply_json(&config, SETTING_TOPIC, &defaults, object, version, false,
                             why, why_size);
    if (rc == 0)
        rc = cluster_own_settings(&config, &settings.overrides);
    if (rc != 0)
        return rc;
    settings.config_version = version + 1;
    buf_init(&value, CLUSTER_VALUE_MAX);
    txn_compare(txn, STORE_MOD_REVISION, topic->config_revision, "config/topics/%s",
                topic->topic.name);
    txn_fail(txn, topic_settings_encode(&value, &settings));
    txn_put(txn, false, &value, "config/topics/%s", topic->topic.name);
    buf_free(&value);
    topic_settings_free(&settings);
    return 0;
}

static int set_config_once(struct cluster *cluster, const char *name,
                           const cJSON *object, char *why, size_t why_size)
{
    const struct snapshot_topic *topic;
    const struct snapshot *base;
    struct txn txn;
    int rc;

    cluster_begin(cluster, &base);
    topic = snapshot_topic_get(base, name);
    if (!topic)
        return cluster_end(cluster, base, cluster_unknown_topic(name, why, why_size));
    txn_init(&txn, cluster->prefix);
    rc = change_config(cluster, topic, object, &txn, why, why_size);
    if (rc == 0)
        rc = cluster_commit(cluster, &txn, base);
    else
        txn_free(&txn);
    return cluster_end(cluster, base, rc);
}

int cluster_set_config(struct cluster *cluster, const char *name, const cJSON *object,
                       char *why, size_t why_size)
{
    int attempts = 0, rc;

    do
        rc = set_config_once(cluster, name, object, why, why_size);
    while (cluster_again(&rc, &attempts));
    return rc;
}

/* `name` NULL: of topics/ itself. `revision`: of those that are there, 0 if none. */
static void add_attributes(struct txn *txn, const struct attributes *attributes,
                           const char *name, int64_t revision)
{
    const char *below = name ? "/" : "";
    struct buf value;

    name = name ? name : "";
    buf_init(&value, 4096);
    attributes_encode(&value, attributes);
    txn_compare(txn, STORE_MOD_REVISION, revision, "attributes/topics%s%s", below,
                name);
    txn_put(txn, false, &value, "attributes/topics%s%s", below, name);
    buf_free(&value);
}

static int set_owner_once(struct cluster *cluster, const char *name, uid_t uid,
                          gid_t gid, mode_t mode)
{
    const struct snapshot_topic *topic = NULL;
    struct attributes attributes;
    const struct snapshot *base;
    struct txn txn;
    int rc;

    cluster_begin(cluster, &base);
    topic = name ? snapshot_topic_get(base, name) : NULL;
    if (name && !topic)
        return cluster_end(cluster, base, E_UNKNOWN_TOPIC);
    if (topic)
        attributes = (struct attributes){topic->topic.uid, topic->topic.gid,
                                         topic->topic.mode, topic->topic.created_ms};
    else
        attributes = (struct attributes){base->shown.topics_uid, base->shown.topics_gid,
                                         base->shown.topics_mode, 0};
    if (uid != (uid_t)-1)
        attributes.uid = uid;
    if (gid != (gid_t)-1)
        attributes.gid = gid;
    if (mode != (mode_t)-1)
        attributes.mode = mode & 07777;
    txn_init(&txn, cluster->prefix);
    if (topic)
        cluster_compare_assignment(&txn, name, topic->assignment_revision);
    /* chown and chmod at the same time: both count. */
    add_attributes(&txn, &attributes, name,
                   topic ? topic->attributes_revision
                         : base->topics_attributes_revision);
    rc = cluster_commit(cluster, &txn, base);
    return cluster_end(cluster, base, rc);
}

int cluster_set_owner(struct cluster *cluster, const char *name, uid_t uid, gid_t gid,
                      mode_t mode)
{
    int attempts = 0, rc;

    do
        rc = set_owner_once(cluster, name, uid, gid, mode);
    while (cluster_again(&rc, &attempts));
    return rc;
}

static bool has_default_owner(const struct cluster_snapshot *snapshot)
{
    return snapshot->topics_uid == geteuid() && snapshot->topics_gid == getegid() &&
           snapshot->topics_mode == 0755;
}

static int carry_owner_once(struct cluster *cluster,
                            const struct cluster_snapshot *from)
{
    const struct attributes attributes = {from->topics_uid, from->topics_gid,
                                          from->topics_mode, 0};
    const struct snapshot *base;
    struct txn txn;
    int rc = 0;

    cluster_begin(cluster, &base);
    if (has_default_owner(&base->shown)) {
        txn_init(&txn, cluster->prefix);
        add_attributes(&txn, &attributes, NULL, 0);
        rc = cluster_commit(cluster, &txn, base);
    }
    return cluster_end(cluster, base, rc);
}

int cluster_carry_owner(struct cluster *cluster, const struct cluster_snapshot *from)
{
    int rc = has_default_owner(from) ? 0 : carry_owner_once(cluster, from);

    return rc == -EAGAIN ? 0 : rc; /* somebody else has set it */
}
