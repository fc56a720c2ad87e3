/*
 * A coordination store that exists in memory only, with what the decisions rely on:
 * linearizable transactions that compare create and mod revisions, leases, a log of
 * changes for watches. Values are kept decoded.
 *
 * Requests reach it through the simulated network (node.c), so they may be lost, late,
 * or answered after the asker gave up.
 */
#ifndef TOPICFS_SIM_SIMSTORE_H
#define TOPICFS_SIM_SIMSTORE_H

#include "coord/leadership.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NODES_MAX = 5, SLOTS_MAX = 3 };

enum {
    KEY_CONTROLLER,
    KEY_CONTROLLER_EPOCH,
    KEY_REGISTRATION,
    KEY_PARTITION = KEY_REGISTRATION + NODES_MAX,
    KEY_STATE = KEY_PARTITION + SLOTS_MAX,
    KEY_DEPOSED = KEY_STATE + SLOTS_MAX,
    KEY_COUNT
};

/* A partition's assignment and settings; a slot is a name, topics come and go in it. */
struct partition_value {
    uint32_t topic_id;
    struct replica_ids replicas;
    struct replica_ids target; /* of a reassignment; empty: none */
    struct replica_ids original;
    int32_t min_insync;
    bool flush_ack;
    bool prefer;
    int64_t unclean_wait_ms;
    int64_t lag_time_max_ms;
    int64_t lag_max_messages;
};

/* The record of coord/deposals.h. */
struct deposed_value {
    uint32_t count;
    struct deposed_node {
        int32_t node; /* broker id */
        int64_t broker_epoch;
        uint32_t moved_count;
        struct {
            uint32_t topic_id;
            int32_t slot;
        } moved[SLOTS_MAX];
    } nodes[NODES_MAX];
    int64_t seen; /* the revision of what the latest writer decided from */
};

union value {
    struct {
        int32_t node;
        bool leaving;
        uint32_t incarnation; /* of the process, for the reader of a trace */
    } registration;
    int32_t controller;
    int32_t controller_epoch;
    struct partition_value partition;
    struct leadership state;
    struct deposed_value deposed;
};

struct entry {
    bool present;
    int64_t create_revision;
    int64_t mod_revision;
    uint32_t lease; /* 0: none */
    union value value;
};

struct compare {
    int32_t key;
    bool create; /* else mod */
    int64_t revision;
};

struct change {
    int32_t key;
    bool remove;
    uint32_t lease;
    union value value;
};

enum { COMPARES_MAX = 6, CHANGES_MAX = 3 };

struct transaction {
    uint32_t compare_count;
    struct compare compares[COMPARES_MAX];
    uint32_t change_count;
    struct change changes[CHANGES_MAX];
    int32_t writer;            /* node; -1: the operator */
    bool by_controller;        /* for the check of fences */
    int64_t controller_create; /* that the writer believes in */
};

struct log_event {
    int64_t revision;
    int32_t key;
    struct entry entry;
};

enum { LEASES_MAX = 256 };

struct simstore {
    int64_t revision;
    bool up;
    struct entry entries[KEY_COUNT];
    struct log_event *events;
    size_t event_count;
    size_t event_allocated;
    int64_t lease_deadline_ms[LEASES_MAX]; /* 0: no such lease */
    uint32_t lease_count;
    void *world;
};

void simstore_init(struct simstore *store, void *world);
void simstore_free(struct simstore *store);

/* true: done at store->revision; false: a comparison failed. */
bool simstore_commit(struct simstore *store, const struct transaction *transaction);

uint32_t simstore_lease_grant(struct simstore *store, int64_t deadline_ms);
/* false: the lease is over */
bool simstore_lease_renew(struct simstore *store, uint32_t lease, int64_t deadline_ms);
void simstore_lease_revoke(struct simstore *store, uint32_t lease);
void simstore_expire(struct simstore *store, int64_t now_ms);
/* A change of etcd's leader renews all leases. */
void simstore_renew_all(struct simstore *store, int64_t deadline_ms);

/* building transactions */
void transaction_compare(struct transaction *transaction, int32_t key, bool create,
                         int64_t revision);
union value *transaction_put(struct transaction *transaction, int32_t key,
                             uint32_t lease);
void transaction_remove(struct transaction *transaction, int32_t key);

#endif
