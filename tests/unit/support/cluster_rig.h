/*
 * Several nodes of one cluster in one process, over a shared_store.
 *
 *     struct cluster_rig rig;
 *     rig_open(&rig, 3);                     // nodes 1, 2, 3, all live
 *     rig_kill(&rig, 2);                     // as kill -9: its session goes on
 *     shared_backend_advance(rig.backend, 7000);
 *     rig_until(&rig, 1, condition, arg);    // bounded; fails the test
 *     rig_close(&rig);
 *
 * Functions fail the test where they can't do their part. One thread.
 */
#ifndef TOPICFS_TEST_CLUSTER_RIG_H
#define TOPICFS_TEST_CLUSTER_RIG_H

#include "coord/cluster_private.h"
#include "shared_store.h"

enum { RIG_NODES_MAX = 5, RIG_ANY_LEADER = -2 };

struct rig_node {
    struct mount_config config;
    struct problems *problems;
    struct store *store;     /* owned by the cluster */
    struct cluster *cluster; /* NULL: not running */
    enum node_started started;
    bool join_later;
};

struct cluster_rig {
    struct shared_backend *backend;
    struct rig_node nodes[RIG_NODES_MAX + 1]; /* by id; 0 is not used */
    char why[500];
};

void rig_open(struct cluster_rig *rig, int count);
void rig_close(struct cluster_rig *rig);

/* Fixtures: *state is a rig with nodes 1, 2, 3, or with none. */
int rig_setup(void **state);
int rig_setup_empty(void **state);
int rig_teardown(void **state);

/* Starts a node; NULL instance: of its id. */
int rig_try_start(struct cluster_rig *rig, int id, const char *instance);
void rig_start(struct cluster_rig *rig, int id);
void rig_stop(struct cluster_rig *rig, int id); /* cleanly */
void rig_kill(struct cluster_rig *rig, int id); /* its session is not ended */

int rig_create(struct cluster_rig *rig, int id, const char *topic,
               const char *settings);
int rig_admin(struct cluster_rig *rig, int id, const char *operation,
              const char *request);

/* Waits until the node's snapshot fulfils it. */
typedef bool rig_condition(const struct cluster_snapshot *snapshot, const void *arg);
void rig_until(struct cluster_rig *rig, int id, rig_condition *condition,
               const void *arg);
bool rig_is(struct cluster_rig *rig, int id, rig_condition *condition, const void *arg);
/* Until cluster/problems of the node has a line with `part`, or has none. */
void rig_until_problem(struct cluster_rig *rig, int id, const char *part, bool there);
/* The broker epoch that the node has, as it knows; -1: it is fenced. */
int64_t rig_self_epoch(struct cluster_rig *rig, int id);
void rig_until_registered_anew(struct cluster_rig *rig, int id, int64_t epoch_before);
void rig_pause(void); /* for a moment, between two looks */
/* Until all running nodes show what the store holds at the call. Nodes follow it each
 * in its own time: what one shows, or a call on it returned for, another may not know.
 */
void rig_settle(struct cluster_rig *rig);
/* As rig_until, while time goes on in steps: for what a node does some time after it
 * saw the cause, as nobody else knows when it saw it. */
void rig_until_later(struct cluster_rig *rig, int id, int64_t step_ms,
                     rig_condition *condition, const void *arg);

/* A copy of the partition's state; its lists are small enough to hold. */
struct rig_state {
    struct leadership state;
    struct replica_ids replicas;
    int64_t revision;
    struct partition_loss loss;
    struct topic_id topic;
};
struct rig_state rig_state(struct cluster_rig *rig, int id, const char *topic,
                           int32_t partition);

/* Conditions. `arg`: */
rig_condition rig_has_controller; /* NULL */
rig_condition rig_controller_is;  /* int32_t: that node */
rig_condition rig_lacks_broker;   /* int32_t */
rig_condition rig_has_broker;     /* int32_t */
rig_condition rig_is_fenced;      /* NULL */
rig_condition rig_is_member;      /* NULL */
struct rig_leader {
    const char *topic;
    int32_t partition, leader;
    int32_t epoch_above; /* its leader epoch is larger; -1: any */
};
rig_condition rig_leads; /* struct rig_leader */

#endif
