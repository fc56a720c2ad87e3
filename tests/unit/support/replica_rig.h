/*
 * Several whole nodes below the mount, in one process: data directories, brokers, HTTP
 * servers on the loopback interface, one shared store.
 *
 *     struct replica_rig *rig = replica_rig_open(3);       // nodes 1, 2, 3
 *     replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
 *     struct partition *partition = replica_rig_partition(rig, 1, "t");
 *     ...
 *     partition_unref(partition);
 *     replica_rig_kill(rig, 1);                            // as kill -9
 *     replica_rig_start(rig, 1);
 *     replica_rig_close(rig);
 *
 * The clock of all runs with the real one, from another zero; that of the brokers can
 * be put forward without any session's noticing. Functions fail the test where they
 * can't do their part. One thread.
 */
#ifndef TOPICFS_TEST_REPLICA_RIG_H
#define TOPICFS_TEST_REPLICA_RIG_H

#include "replica/http_server.h"
#include "replica/peer_routes.h"
#include "replica/replica.h"
#include "tests/unit/support/cluster_rig.h"
#include "tests/unit/support/later_clock.h"

#include <pthread.h>
#include <stdatomic.h>

struct replica_node {
    char dir[64];
    struct datadir *datadir;
    struct broker *broker; /* NULL: not running */
    struct peer_routes *routes;
    struct http_server *server;
    int port_fd;   /* keeps the port for it */
    int silent_fd; /* holds the port of a node that is cut off; -1: none */
    void *more;    /* what the rig's parts keep */
};

struct replica_rig;

/* What a test adds to each node. */
struct replica_rig_parts {
    /* Before the server starts: routes are added here. */
    void (*start)(struct replica_rig *rig, int id);
    /* After it has stopped, before the broker and the cluster are closed. */
    void (*stop)(struct replica_rig *rig, int id);
};

struct replica_rig {
    struct cluster_rig cluster;
    struct later_clock clock;              /* of the brokers, upon the store's */
    const struct replica_rig_parts *parts; /* NULL: none */
    int count;
    struct replica_node nodes[RIG_NODES_MAX + 1]; /* by id */
    pthread_t ticker;
    atomic_bool stopping;
};

struct replica_rig *replica_rig_open(int count);
struct replica_rig *replica_rig_open_with(int count,
                                          const struct replica_rig_parts *parts);
void replica_rig_close(struct replica_rig *rig);

/* For cmocka: the state is a rig of three nodes. */
int replica_rig_setup(void **state);
int replica_rig_teardown(void **state);

/* Puts the brokers' clock forward. */
void replica_rig_later(struct replica_rig *rig, int64_t ms);

void replica_rig_start(struct replica_rig *rig, int id);
/* Everything ends at once; the session goes on until its time is over. What was not
 * flushed is flushed: the page cache survives a process. */
void replica_rig_kill(struct replica_rig *rig, int id);
/* The same as others see a machine that is cut off: what goes there is neither refused
 * nor answered, so that only the session's end tells. */
void replica_rig_cut_off(struct replica_rig *rig, int id);
/* A shell command in the data directory of a node. */
void replica_rig_run(const struct replica_rig *rig, int id, const char *command);
/* Ends the session of a killed node. */
void replica_rig_bury(struct replica_rig *rig, int id);

/* Creates it and waits until all nodes know. */
void replica_rig_topic(struct replica_rig *rig, const char *name, const char *settings);
/* Partition 0 on a node, referenced; waits until it is there. */
struct partition *replica_rig_partition(struct replica_rig *rig, int id,
                                        const char *topic);
/* The leader of partition 0 by what node `id` sees; waits until there is one that is
 * not `except`. */
int replica_rig_leader(struct replica_rig *rig, int id, const char *topic, int except);

/* Bounded waits. */
void replica_rig_until_committed(struct partition *partition, int64_t offset);
void replica_rig_until_isr(struct replica_rig *rig, int id, const char *topic,
                           uint32_t size);

#endif
