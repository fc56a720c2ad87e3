/*
 * The simulated world: a virtual clock, a queue of events, a network that misbehaves,
 * nodes, a store, clients, an operator, and faults, all from one seed.
 *
 *     world = world_new();
 *     ok = world_run(world, seed, trace);    // any number of times
 *     world_free(world);
 *
 * One thread. The same seed gives the same run.
 */
#ifndef TOPICFS_SIM_WORLD_H
#define TOPICFS_SIM_WORLD_H

#include "replica/fetch_core.h"
#include "tests/sim/prng.h"
#include "tests/sim/simdisk.h"
#include "tests/sim/simstore.h"

enum { CLIENTS_MAX = 4, FETCH_BATCHES = 8 };

/* Addresses in the network: nodes are 0 .. NODES_MAX-1 (their broker id is one more).
 */
enum { ADDRESS_STORE = NODES_MAX, ADDRESS_CLIENT, ADDRESS_COUNT = ADDRESS_CLIENT + 1 };

enum message_kind {
    MESSAGE_FETCH,
    MESSAGE_FETCH_ANSWER,
    MESSAGE_STATE, /* LeaderAndIsr: what the controller has just stored */
    MESSAGE_PRODUCE,
    MESSAGE_PRODUCE_ANSWER,
    MESSAGE_STORE,
    MESSAGE_STORE_ANSWER,
};

enum store_request { STORE_READ, STORE_TXN, STORE_GRANT, STORE_KEEPALIVE };

struct message {
    enum message_kind kind;
    int32_t from;         /* address */
    int32_t to;           /* address */
    uint32_t incarnation; /* of the process that asks; an answer goes to that alone */
    int32_t slot;
    uint32_t topic_id;
    union {
        struct fetch_request fetch;
        struct {
            struct fetch_answer answer;
            uint32_t batch_count;
            struct simbatch batches[FETCH_BATCHES];
        } fetched;
        struct {
            struct leadership state;
            int64_t revision;
            struct replica_ids replicas;
        } state;
        struct {
            int32_t client;
            int32_t acks;
            struct simbatch batch;
        } produce;
        struct {
            int32_t client;
            int32_t error;
            uint32_t payload;
            int32_t acks;
            int64_t base_offset;
            int32_t leader_hint;
        } produced;
        struct {
            enum store_request request;
            uint32_t op;
            uint32_t lease;
            struct transaction transaction;
        } store;
        struct {
            uint32_t op;
            bool done; /* false: a comparison failed, or the lease is over */
            int64_t revision;
            uint32_t lease;
        } stored;
    } u;
    struct message *next_free;
};

enum event_kind {
    EVENT_MESSAGE,
    EVENT_TICK,
    EVENT_FLUSHED,
    EVENT_WATCH,
    EVENT_START,
    EVENT_CLIENT,
    EVENT_FAULT,
    EVENT_STORE_TICK,
    EVENT_OPERATOR,
};

struct event {
    int64_t at_us;
    uint64_t order;
    enum event_kind kind;
    int32_t who; /* node or client */
    uint32_t incarnation;
    int32_t slot;
    int64_t value;
    struct message *message;
};

/* What a seed makes of the world. */
struct profile {
    int32_t node_count;
    int32_t slot_count;
    int32_t client_count;
    int64_t chaos_ms;
    int64_t session_ms;
    uint32_t loss; /* permille */
    uint32_t duplicate;
    uint32_t late; /* permille of messages that take seconds */
    uint32_t store_late;
    int64_t delay_max_us;
    int64_t flush_max_us;
    uint32_t slow_flush; /* permille of flushes that take up to a second */
    uint32_t faults;     /* bits of enum fault */
    int64_t fault_every_ms;
    uint32_t deletes;     /* permille of operator steps that delete a topic */
    bool early_fetch;     /* followers fetch on while they flush */
    int64_t give_up_ms;   /* producers try so long at most */
    int64_t retention_ms; /* longer than any retry is on its way; 0: off */
    bool aimed;           /* faults where they hurt: see fault_expansion() */
    uint32_t roll_at;     /* batches of a segment; 0: topics are not compacted */
    uint32_t compact;     /* permille of a replica's ticks in which it compacts */
    uint32_t map_full;    /* permille of compactions that have no room for all keys */
    int64_t tombstone_ms; /* for so long a tombstone stays */
    int64_t producer_ms;  /* for so long a producer is remembered */
};

struct node;
struct client;
struct check;

struct world {
    uint64_t seed;
    struct prng prng;
    int64_t now_us;
    uint64_t order;
    struct event *heap;
    size_t heap_count;
    size_t heap_allocated;
    struct message *free_messages;
    struct profile profile;
    bool compacts; /* set by the owner: topics are compacted */
    bool calm;     /* the healing phase: no faults */
    bool trace;
    bool failed;
    char violation[512];
    bool cut[ADDRESS_COUNT][ADDRESS_COUNT]; /* from, to */
    int64_t cut_until_ms[ADDRESS_COUNT][ADDRESS_COUNT];
    int64_t store_down_until_ms;
    int64_t hold_us; /* the next message is held back so long; 0: not */
    struct simstore store;
    struct node *nodes[NODES_MAX];
    struct client *clients[CLIENTS_MAX];
    struct check *check;
    uint32_t next_topic_id;
    uint32_t next_payload;
    int64_t next_producer_id;
    uint64_t steps;
    uint64_t messages_acknowledged;
    uint64_t messages_compacted; /* that went, on any replica */
};

struct world *world_new(void);
void world_free(struct world *world);
/* false: an invariant was violated; world->violation says which. */
bool world_run(struct world *world, uint64_t seed, bool trace);

static inline int64_t world_ms(const struct world *world)
{
    return world->now_us / 1000;
}

struct event *world_at(struct world *world, int64_t at_us, enum event_kind kind,
                       int32_t who);
struct message *world_message(struct world *world, enum message_kind kind, int32_t from,
                              int32_t to);
/* Takes the message: delivers it late, twice or never. */
void world_send(struct world *world, struct message *message);
/* The store has a new revision: tells the watchers. */
void world_store_changed(struct world *world);

void world_violation(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void world_log(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define WORLD_TRACE(world, ...)                                                        \
    do {                                                                               \
        if ((world)->trace) {                                                          \
            world_log((world), __VA_ARGS__);                                           \
        }                                                                              \
    } while (0)

#endif
