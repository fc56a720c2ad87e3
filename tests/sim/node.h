/*
 * A simulated node: the process (gone when killed), its disk (stays), and the glue that
 * feeds the decision code. The runtime's threads do the same with real disks, sockets
 * and a real store; what must not be left out there is said at each function.
 *
 *   node.c          life, session and registration, its view of the store
 *   node_replica.c  one partition: fetches, appends, flushes, produce requests
 *   node_compact.c  compaction of its log
 *   node_control.c  the controller's part, and proposals of the ISR
 *   node_detect.c   fast detection
 */
#ifndef TOPICFS_SIM_NODE_H
#define TOPICFS_SIM_NODE_H

#include "coord/controller_plan.h"
#include "coord/deposals.h"
#include "coord/detector.h"
#include "replica/follower_core.h"
#include "replica/isr.h"
#include "replica/produce_core.h"
#include "tests/sim/world.h"

enum { WAITERS_MAX = 64, OPS_MAX = 16, TICK_MS = 100, STORE_TIMEOUT_MS = 1000 };
enum { PARK_MS = 300, FETCH_TIMEOUT_MS = 800, PEER_TIMEOUT_MS = 400 };

enum phase {
    PHASE_DOWN,
    PHASE_READ,     /* waits for a read of the store */
    PHASE_UNSEAT,   /* ends the registration of an earlier incarnation */
    PHASE_TAKE_OUT, /* takes suspect replicas out of ISR and ELR, before it registers */
    PHASE_GRANT,
    PHASE_REGISTER,
    PHASE_UP,
};

struct waiter {
    int32_t client;
    int32_t acks;
    int32_t leader_epoch;
    uint32_t payload;
    int64_t base_offset;
    int64_t end_offset;
};

struct parked {
    bool used;
    int64_t until_ms;
    struct fetch_request request;
    uint32_t incarnation; /* of the follower's process */
};

/* A partition in the memory of a process. */
struct replica {
    uint32_t topic_id; /* 0: none here */
    struct partition_core core;
    struct epoch_list epochs;
    struct producer_state *producers;
    uint32_t waiter_count;
    struct waiter waiters[WAITERS_MAX];
    struct parked parked[NODES_MAX];
    bool flushing;
    struct core_flush flush;
    uint32_t flush_count; /* batches that the flush covers */
    bool fetch_out;       /* a fetch is on its way */
    int64_t fetch_deadline_ms;
    int64_t next_fetch_ms; /* after a refusal */
    bool take_out;         /* to be taken out of ISR and ELR: damaged, or offline */
    int64_t taken_out_revision; /* 0: not yet. Drops its log once another leads */
    int64_t leaderless_since_ms;
    int64_t sync_end; /* somebody here waits by fsync; 0: nobody */
    int32_t sync_epoch;
    int64_t sync_since_ms; /* of the world */
};

enum op_kind {
    OP_NONE,
    OP_READ,
    OP_UNSEAT,
    OP_TAKE_OUT,
    OP_GRANT,
    OP_REGISTER,
    OP_KEEPALIVE,
    OP_ISR,
    OP_REREAD,
    OP_CONTROLLER,
    OP_PLAN,
    OP_DEPOSE,
    OP_LEAVE,
};

/* A request to the store that is on its way. */
struct op {
    enum op_kind kind;
    uint32_t number;
    int64_t sent_ms;
    int32_t slot;
    uint32_t topic_id;
    struct isr_proposal proposal;
    struct plan_change change;
    struct replica_ids replicas;
};

struct node {
    struct world *world;
    int32_t index;        /* broker id is index + 1 */
    uint32_t incarnation; /* of the process; rises at each start */
    enum phase phase;
    int64_t paused_until_ms;
    int64_t disk_full_until_ms;
    int64_t refuses_until_ms; /* a firewall refuses connections to it */
    int64_t clock_offset_ms;  /* clocks jump; nothing that must hold may rest on them */

    /* disk */
    struct simlog logs[SLOTS_MAX];

    /* process */
    struct entry view[KEY_COUNT];
    int64_t view_revision;
    size_t view_events; /* how many events of the store's log it has applied */
    bool watch_pending;
    int64_t broker_epoch;
    uint32_t lease;
    int64_t session_until_ms;
    bool session_lost;
    bool leaving;
    int64_t next_keepalive_ms;
    int64_t phase_deadline_ms;
    struct replica replicas[SLOTS_MAX];
    struct op ops[OPS_MAX];
    uint32_t next_op;
    bool controller;
    int64_t controller_create;
    int32_t controller_epoch;
    struct detector detector;
    /* Of the view's deposals: when each was seen first. */
    struct {
        int32_t node; /* broker id; 0: none */
        int64_t broker_epoch;
        int64_t seen_ms;
    } deposed[NODES_MAX];
};

struct node *node_new(struct world *world, int32_t index);
void node_free(struct node *node);
void node_reset(struct node *node); /* for the next run: empty disk, no process */

static inline int32_t node_id(const struct node *node)
{
    return node->index + 1;
}
static inline int64_t node_now(const struct node *node)
{
    return world_ms(node->world) + node->clock_offset_ms;
}
static inline bool node_disk_full(const struct node *node)
{
    return node->disk_full_until_ms > world_ms(node->world);
}
static inline bool node_runs(const struct node *node)
{
    return node->phase != PHASE_DOWN;
}

void node_start(struct node *node);
void node_kill(struct node *node);      /* the process; the page cache stays */
void node_power_cut(struct node *node); /* the machine */
/* Asks for its leaderships to be taken over, as a clean stop does. */
void node_leave(struct node *node);
void node_tick(struct node *node);
void node_receive(struct node *node, const struct message *message);
/* The node's view goes on to the store's revision `to`. */
void node_see(struct node *node, int64_t to);
enum core_session node_session(const struct node *node);

/* A transaction or another request; NULL: too many are on their way. */
struct op *node_ask(struct node *node, enum op_kind kind, enum store_request request,
                    const struct transaction *transaction);
bool node_asks(const struct node *node, enum op_kind kind, int32_t slot);

/* node_replica.c */
void replica_open(struct node *node,
                  int32_t slot); /* from the disk, as recovery does */
void replica_close(struct node *node, int32_t slot); /* the process is gone */
void replica_view(struct node *node, int32_t slot, uint32_t changed_keys);
void replica_state(struct node *node, int32_t slot, const struct leadership *state,
                   int64_t revision, const struct replica_ids *replicas);
void replica_session(struct node *node, int32_t slot);
void replica_tick(struct node *node, int32_t slot);
void replica_flushed(struct node *node, int32_t slot);
void replica_fetch(struct node *node, const struct message *message);
void replica_fetched(struct node *node, const struct message *message);
void replica_produce(struct node *node, const struct message *message);
/* The high watermark may have moved: answers whoever waits. */
void replica_settle(struct node *node, int32_t slot);
/* It was taken out by the state of this revision. */
void replica_taken_out(struct node *node, int32_t slot, int64_t revision);
void replica_offline(struct node *node, int32_t slot);

/* node_compact.c */
void replica_compact(struct node *node, int32_t slot);

/* node_detect.c */
void detect_view(struct node *node, uint32_t changed_keys);
void detect_tick(struct node *node);

/* node_control.c */
void control_tick(struct node *node);
void control_isr(struct node *node, int32_t slot);
void control_isr_done(struct node *node, const struct op *op, enum isr_result result,
                      int64_t revision);
void control_reread_done(struct node *node, const struct op *op);
void control_elected(struct node *node, int64_t revision);
void control_planned(struct node *node, const struct op *op, int64_t revision);
/* Takes a replica out; false: there is nothing to take it out of. */
bool control_take_out(struct node *node, int32_t slot, enum suspect_kind kind,
                      bool *asked);

#endif
