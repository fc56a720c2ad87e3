/* Operations on topics: those whose logs are here and whose entries the store lacks. */
#include "coord/cluster_topics.h"
#include "coord/controller.h"
#include "coord/err.h"

#include <inttypes.h>
#include <string.h>

struct adoption {
    const char *name;
    struct topic_id id;
    int32_t partitions;
    const struct snapshot_topic *from; /* settings, owner, mode; NULL: defaults */
};

static int check_adoption(const struct snapshot *base, const struct adoption *adoption,
                          const struct topic *same, char *why, size_t why_size)
{
    const char *name = adoption->name;
    int rc = cluster_topics_check_name(base, name, true, why, why_size);

    if (rc == 0 && same) {
        cluster_explain(why, why_size, "topic %s: another topic has its id", name);
        rc = E_TOPIC_EXISTS;
    }
    if (rc == 0 && cluster_snapshot_deleted(&base->shown, &adoption->id)) {
        cluster_explain(why, why_size, "topic %s: it was deleted", name);
        rc = E_TOPIC_DELETED;
    }
    if (rc == 0 &&
        (adoption->partitions < 1 || adoption->partitions > PARTITIONS_MAX)) {
        cluster_explain(why, why_size, "topic %s: %" PRId32 " partitions", name,
                        adoption->partitions);
        rc = E_INVALID_PARTITION;
    }
    return rc;
}

/* What topicfs keeps for itself is not to be dropped by age, nor shown to everybody. */
static int internal_properties(struct new_topic *topic)
{
    topic->attributes.mode = 0700;
    topic->overrides = cJSON_CreateObject();
    return cJSON_AddStringToObject(topic->overrides, "cleanup_policy", "compact")
               ? 0
               : -ENOMEM;
}

/* Fills what a new topic has beside its assignment. */
static int adopted_properties(struct cluster *cluster, const struct snapshot *base,
                              const struct snapshot_topic *from,
                              struct new_topic *topic)
{
    const struct clock *clock = cluster->params.clock;
    int64_t now_ms = clock->wall_ms(clock);

    topic->first_epoch = controller_recovered_epoch(now_ms);
    topic->config_version = from ? from->topic.config_version : 1;
    topic->was_compacted = from ? from->topic.config.was_compacted : true;
    topic->attributes =
        from ? (struct attributes){from->topic.uid, from->topic.gid, from->topic.mode,
                                   from->topic.created_ms}
             : (struct attributes){base->shown.topics_uid, base->shown.topics_gid, 0755,
                                   now_ms};
    if (!from && topic_name_is_internal(topic->name))
        return internal_properties(topic);
    if (!from || !from->overrides)
        return 0;
    topic->overrides = cJSON_Duplicate(from->overrides, true);
    return topic->overrides ? 0 : -ENOMEM;
}

static int adopt_once(struct cluster *cluster, const struct adoption *adoption,
                      bool again, char *why, size_t why_size)
{
    struct id_list self = {.ids = &cluster->self, .count = 1};
    struct new_topic topic = {.name = adoption->name};
    const struct topic *same;
    const struct snapshot *base;
    int rc;

    cluster_begin(cluster, &base);
    same = cluster_snapshot_topic_by_id(&base->shown, &adoption->id);
    if ((again || adoption->from) && same && strcmp(same->name, adoption->name) == 0)
        return cluster_end(cluster, base, 0);
    topic.assignment.id = adoption->id;
    rc = check_adoption(base, adoption, same, why, why_size);
    if (rc == 0)
        rc = adopted_properties(cluster, base, adoption->from, &topic);
    if (rc == 0)
        rc = cluster_topics_place(&topic.assignment, adoption->partitions, 1, &self);
    if (rc == 0)
        rc = cluster_topics_commit(cluster, base, &topic, &self);
    cluster_topics_free(&topic);
    return cluster_end(cluster, base, rc);
}

static int adopt(struct cluster *cluster, const struct adoption *adoption, char *why,
                 size_t why_size)
{
    int attempts = 0, rc;

    do
        rc = adopt_once(cluster, adoption, attempts > 0, why, why_size);
    while (cluster_again(&rc, &attempts));
    cluster_topics_explain(cluster, adoption->name, rc, why, why_size);
    return rc;
}

int cluster_adopt_topic(struct cluster *cluster, const char *name,
                        const struct topic_id *id, int32_t partitions, char *why,
                        size_t why_size)
{
    const struct adoption adoption = {
        .name = name, .id = *id, .partitions = partitions};

    return adopt(cluster, &adoption, why, why_size);
}

int cluster_carry_topic(struct cluster *cluster, const struct topic *topic, char *why,
                        size_t why_size)
{
    const struct adoption adoption = {.name = topic->name,
                                      .id = topic->id,
                                      .partitions = topic->partition_count,
                                      .from = (const struct snapshot_topic *)topic};

    return adopt(cluster, &adoption, why, why_size);
}
