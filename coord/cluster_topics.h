/*
 * Making topics: what creating (cluster_topics.c) and adopting (cluster_topic_adopt.c)
 * share. Within an operation (coord/cluster_private.h):
 *
 *     struct new_topic topic = {.name = name, ...};
 *     rc = cluster_topics_check_name(base, name, internal, why, why_size);
 *     ... its id, settings and attributes ...
 *     rc = cluster_topics_place(&topic.assignment, partitions, factor, &live);
 *     rc = cluster_topics_commit(cluster, base, &topic, &live);
 *     cluster_topics_free(&topic);
 *
 * and after the last attempt cluster_topics_explain(cluster, name, rc, why, why_size).
 */
#ifndef TOPICFS_CLUSTER_TOPICS_H
#define TOPICFS_CLUSTER_TOPICS_H

#include "coord/cluster_private.h"

/* Everything that a new topic needs, gathered before its transaction. */
struct new_topic {
    const char *name;             /* borrowed */
    struct assignment assignment; /* owned, as the next */
    cJSON *overrides;
    struct attributes attributes;
    int32_t first_epoch;
    int64_t config_version;
    bool was_compacted; /* see struct topic_config */
};

/* 0; E_INVALID_NAME, also for names that begin with "__" unless `internal`;
 * E_TOPIC_EXISTS. */
int cluster_topics_check_name(const struct snapshot *base, const char *name,
                              bool internal, char *why, size_t why_size);
/* Fills the partitions of an assignment that has its id. 0; -ENOMEM;
 * E_INVALID_REPLICATION_FACTOR. */
int cluster_topics_place(struct assignment *assignment, int32_t partitions,
                         uint32_t factor, const struct id_list *live);
/* As cluster_commit(). Left-overs of another program in its way are a lost race. */
int cluster_topics_commit(struct cluster *cluster, const struct snapshot *base,
                          const struct new_topic *topic, const struct id_list *live);
void cluster_topics_free(struct new_topic *topic);
/* Of E_CONFLICT alone: who has lost every race was in none, but found left-overs. */
void cluster_topics_explain(const struct cluster *cluster, const char *name, int rc,
                            char *why, size_t why_size);

#endif
