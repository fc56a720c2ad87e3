/*
 * A whole node below the mount, in a temporary directory: data directory, cluster,
 * broker. For tests of what lies above the log.
 *
 *     struct node node;
 *     node_make(&node);                       // new directory
 *     node_start(&node);
 *     struct partition *p = node_topic(&node, "t", "{\"flush\":\"os\"}");
 *     ...
 *     partition_unref(p);
 *     node_stop(&node);                       // node_start() again is a restart
 *     node_remove(&node);
 *
 * Every failure is a failed assertion of the running test.
 */
#ifndef TOPICFS_TEST_NODE_H
#define TOPICFS_TEST_NODE_H

#include "replica/replica.h"
#include "tests/unit/support/later_clock.h"

struct node {
    char dir[64];
    struct later_clock clock; /* of the broker: the real one, until it is put forward */
    struct mount_config config;
    struct problems *problems;
    struct datadir *datadir;
    struct cluster *cluster;
    struct broker *broker;
};

void node_make(struct node *node);
void node_start(struct node *node);
void node_stop(struct node *node);
void node_remove(struct node *node);

/* Creates a topic with these settings (JSON, may be NULL); its partition 0, referenced.
 */
struct partition *node_topic(struct node *node, const char *name, const char *settings);
struct partition *node_partition(struct node *node, const char *name, int32_t index);
struct topic_id node_topic_id(struct node *node, const char *name);
/* The text of cluster/problems; the caller frees. */
char *node_problems(struct node *node);

/* Appends lines and waits up to 10 s until they are acknowledged; the result's error.
 */
int node_append(struct partition *partition, const char *lines,
                struct produce_result *result);
/* All committed bytes from the log start; the caller frees. */
char *node_read_all(struct partition *partition, size_t *length);
void node_assert_text(struct partition *partition, const char *wanted);

#endif
