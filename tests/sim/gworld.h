/*
 * The simulated world of one consumer group: nodes, one of which coordinates, members
 * that read on them, the log of the group's records, a network that misbehaves, and
 * faults, all from one seed. The decisions are those of replica/group_core.h; the log
 * is taken for what replication makes of it (docs/replication.md, and the other world
 * of this simulator): one leader an epoch, what is committed stays, what is not may
 * stay or go at an election.
 *
 *     world = gworld_new();
 *     ok = gworld_run(world, seed, &options);    // any number of times
 *     gworld_free(world);
 *
 *   gworld.c   the queue, the network, the cluster's state, faults, the course of a run
 *   gtopics.c  topics come and go; offsets that users set
 *   gshard.c   the log of the records
 *   gnode.c    a node as coordinator
 *   gmember.c  a member: joins, reads, commits, releases
 *   gcheck.c   what must hold
 *
 * One thread. Times in ms. The same seed gives the same run.
 */
#ifndef TOPICFS_SIM_GWORLD_H
#define TOPICFS_SIM_GWORLD_H

#include "coord/snapshot.h"
#include "replica/group_core.h"
#include "tests/sim/prng.h"

#include <stdio.h>

enum {
    GNODES_MAX = 4,
    GMEMBERS_MAX = 24,
    GNAMES = 2,   /* of topics */
    GTOPICS = 16, /* that there ever are in a run */
    GPARTITIONS_MAX = 32,
    GREVISIONS_MAX = 4096,
};

enum gop { GOP_JOIN, GOP_LEAVE, GOP_COMMIT, GOP_BEAT, GOP_SET };

/* What a member asks of the coordinator, or a user who sets an offset (GOP_SET). */
struct grequest {
    enum gop op;
    int32_t slot;    /* of the member */
    uint32_t life;   /* of who is in the slot */
    uint32_t number; /* of the request */
    char member[GROUP_MEMBER_ID_MAX + 1];
    struct broker_incarnation node;
    int32_t topic;
    int32_t partition; /* of GOP_SET */
    int64_t offset;    /* of GOP_SET */
    uint64_t seen;
    size_t count; /* of commits or releases */
    union {
        struct group_commit commits[GPARTITIONS_MAX];
        struct group_released released[GPARTITIONS_MAX];
    } u;
};

struct ganswer {
    enum gop op;
    int32_t slot;
    uint32_t life;
    uint32_t number;
    int32_t error;
    int32_t epoch; /* of who answers */
    int32_t topic;
    int32_t partition; /* of GOP_SET */
    uint64_t changes;
    size_t count;
    struct group_grant grants[GPARTITIONS_MAX];
    bool refused[GPARTITIONS_MAX];
};

struct gmessage {
    int32_t from; /* nodes */
    int32_t to;
    bool answers;
    struct grequest request;
    struct ganswer answer;
};

enum gevent_kind {
    GEVENT_MESSAGE,
    GEVENT_VIEW,     /* the node sees revision `value` */
    GEVENT_NODE,     /* time goes on for a coordinator */
    GEVENT_START,    /* a killed node starts again */
    GEVENT_EXPIRE,   /* the node's session of epoch `value` is over, if it is silent */
    GEVENT_REGISTER, /* the node notices that it has to register */
    GEVENT_MEMBER,   /* time goes on for a member */
    GEVENT_COMMIT,   /* the log's first `value` batches are committed, in epoch `who` */
    GEVENT_HW,       /* the leader, a node, learns of `value` committed batches */
    GEVENT_PRODUCE,
    GEVENT_CHURN,
    GEVENT_SET,
    GEVENT_FAULT,
};

struct gevent {
    int64_t at_ms;
    uint64_t order;
    enum gevent_kind kind;
    int32_t who;
    uint32_t life;
    int64_t value;
    struct gmessage *message; /* owned */
};

/* What a seed makes of the world. */
struct gprofile {
    int32_t node_count;
    int32_t partitions[GNAMES];
    int32_t members;
    int64_t run_ms;
    int64_t session_ms;       /* of nodes */
    int64_t group_session_ms; /* of members */
    uint32_t loss;            /* permille */
    uint32_t duplicate;
    uint32_t late;   /* permille of messages that take seconds */
    uint32_t refuse; /* permille of appends that are refused */
    int64_t delay_max_ms;
    int64_t commit_max_ms; /* of a batch */
    int64_t view_max_ms;   /* until a node sees a change */
    int64_t fault_every_ms;
    int64_t churn_every_ms;
    int64_t set_every_ms; /* offsets; 0: never */
    int64_t produce_every_ms;
    bool soak;
};

struct goptions {
    bool trace;
    bool soak;
};

struct gshard;
struct gnode;
struct gmember;
struct gcheck;

struct gworld {
    uint64_t seed;
    struct prng prng;
    int64_t now_ms;
    uint64_t order;
    struct gevent *heap;
    size_t heap_count;
    size_t heap_allocated;
    struct gprofile profile;
    bool calm; /* the faults are over */
    bool trace;
    bool failed;
    char violation[512];

    /* The cluster's state, as the store has it; what each revision was is kept. */
    struct snapshot *revisions[GREVISIONS_MAX];
    int32_t leader_of[GREVISIONS_MAX]; /* of the shard; -1: none */
    int32_t epoch_of[GREVISIONS_MAX];
    int32_t revision;    /* the present one */
    int32_t topic_count; /* that there ever were */
    struct topic_id topic_ids[GTOPICS];
    int32_t topic_names[GTOPICS];
    int32_t present[GNAMES];                /* the topic of that name; -1: deleted */
    uint32_t set_number;                    /* of requests to set an offset */
    int64_t ends[GTOPICS][GPARTITIONS_MAX]; /* messages in the topics */

    int64_t cut_until_ms[GNODES_MAX][GNODES_MAX];
    int64_t stall_until_ms; /* nothing is committed */
    struct gshard *shard;
    struct gnode *nodes[GNODES_MAX];
    struct gmember *members[GMEMBERS_MAX];
    struct gcheck *check;

    uint64_t steps;
    uint64_t delivered;
    uint64_t duplicates;
    uint64_t commits;
    uint64_t failovers;
    uint64_t deletions;     /* of topics */
    uint64_t resets;        /* offsets that were set */
    int64_t longest_gap_ms; /* of a partition without a reader, in a soak */
};

struct gworld *gworld_new(void);
void gworld_free(struct gworld *world);
/* false: an invariant was violated; world->violation says which. */
bool gworld_run(struct gworld *world, uint64_t seed, const struct goptions *options);

/* An event; the caller fills in the rest of it at once. */
struct gevent *gworld_at(struct gworld *world, int64_t at_ms, enum gevent_kind kind,
                         int32_t who);
/* Takes the message: delivers it late, twice or never. */
void gworld_send(struct gworld *world, struct gmessage *message);
/* Memory that is zeroed, or the end of the program. */
void *gworld_alloc(size_t bytes);

/* The number of partitions that the topic has, in the present revision; 0: deleted. */
int32_t gworld_partitions(const struct gworld *world, int32_t topic);
const char *gworld_topic_name(const struct gworld *world, int32_t topic);
int32_t gworld_topic_of(const struct gworld *world, const struct topic_id *id);
/* A new revision, as the one before, to be changed at once; everybody sees it some time
 * later. */
struct snapshot *gworld_revise(struct gworld *world);
/* The node that leads, by what the store says; -1: none. */
int32_t gworld_leader(const struct gworld *world);
/* Whether this incarnation of the node is registered. */
bool gworld_registered(const struct gworld *world,
                       const struct broker_incarnation *node);
/* Registers the node anew. */
void gworld_register(struct gworld *world, int32_t node);

void gworld_violation(struct gworld *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gworld_log(struct gworld *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define GWORLD_TRACE(world, ...)                                                       \
    do {                                                                               \
        if ((world)->trace)                                                            \
            gworld_log((world), __VA_ARGS__);                                          \
    } while (0)

#endif
