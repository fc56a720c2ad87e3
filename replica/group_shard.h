/*
 * One shard: the groups of one partition of __consumer_offsets, while this node leads
 * it. Inside of the coordinator (group_coordinator.c), whose thread alone calls it.
 *
 *     idle     another node coordinates these groups, or this one not yet
 *     loading  the log is read, up to what was its end when this node began; requests
 *              wait, up to SHARD_PATIENCE_MS
 *     ready    requests are carried out in runs: one run takes all that waits, or as
 *              many ops as make SHARD_RECORDS_BYTES; its records are one batch, and its
 *              answers are held until that is committed; meanwhile requests, and what
 *              is left of one, wait for the next run
 *
 * What it may wait for is the partition: to be led, to be committed as far as its log
 * goes, to have enough in-sync replicas. Nobody tells of that, so it looks: often at
 * first and after each change of the cluster, then less and less.
 *
 * A shard falls back to idle whenever it can't be sure of what the log will say: when
 * this node stops leading, an append fails or does not commit in time, or memory is
 * short. Then all that wait are answered E_NOT_COORDINATOR, the groups are forgotten,
 * and read anew from the log if this node leads (again).
 *
 * Beats that have nothing new to tell are parked, until their groups change or their
 * time is over. Queues are bounded: what is beyond is refused with E_NOT_COORDINATOR,
 * or, of beats, answered at once.
 */
#ifndef TOPICFS_GROUP_SHARD_H
#define TOPICFS_GROUP_SHARD_H

#include "replica/group_coordinator.h"
#include "replica/partition_lead.h"

#include <pthread.h>
#include <uthash.h>

enum {
    SHARD_PATIENCE_MS = 5000,
    SHARD_COMMIT_MS = 10000,       /* until an append is given up */
    SHARD_RECORDS_BYTES = 1 << 20, /* after so many a run takes no further op */
    SHARD_READ_BYTES = 1 << 20,    /* of the log, between looks at other shards */
    SHARD_OPS_MAX = 100000,        /* that wait */
    SHARD_PARKED_MAX = 20000,
    SHARD_WAIT_MAX_MS = 30000, /* of beats */
    SHARD_POLL_MS = 10,        /* while it waits for its partition: at first */
    SHARD_POLL_PARTS = 4,      /* then after such a part of the time that it waits, */
    SHARD_POLL_MAX_MS = 1000,  /* and at the latest */
    SHARD_PAUSE_MS = 100,      /* behind a failure; doubles up to */
    SHARD_PAUSE_MAX_MS = 5000,
};

/* A line that says nothing, from a leader that asks whether it still is one; no group
 * has such a name. */
#define SHARD_CONFIRM_KEY "!"

/* What a step looks at. */
struct group_shard_env {
    struct broker *broker;
    struct problems *problems;
    const struct group_config *defaults;
    const struct cluster_snapshot *snapshot;
    const struct topic *topic; /* __consumer_offsets; NULL: there is none */
    int64_t now_ms;            /* monotonic */
    int64_t wall_ms;
};

struct group_request {
    cJSON *object;               /* owned */
    struct group_wire_head head; /* of it */
    struct coordinator_call *call;
    struct group_request *prev, *next;
    cJSON *answer;     /* owned: held until its run is committed */
    const cJSON *rest; /* ops for a later run; NULL: it is not begun, or all is done */
    int64_t until_ms;  /* how long it stays in the list that it is in */
    int64_t wait_until_ms; /* of beats that were counted */
    int64_t heard_ms;      /* when those came */
    bool heard;            /* they were; now only their answers are awaited */
    bool last;             /* it is not parked again */
    bool awaits_topic;     /* parked until the snapshot has it */
};
/* Takes the object; NULL: no memory, the object is deleted. head is not filled. */
struct group_request *group_request_new(cJSON *object, struct coordinator_call *call);
/* Answers, and frees the request. Takes the answer; NULL: E_NOT_COORDINATOR, for want
 * of memory. */
void group_request_answer(struct group_request *request, cJSON *answer);
void group_request_refuse(struct group_request *request, int error, const char *why);

struct group_entry {
    struct group_core *core;
    int64_t next_ms;   /* when it is to be ticked */
    uint64_t noticed;  /* changes that parked beats know of */
    UT_hash_handle hh; /* by group_core_name() */
};

enum group_shard_state { SHARD_IDLE, SHARD_LOADING, SHARD_READY };

/* One append under way; on_done comes from any thread. */
struct group_append;
typedef void group_append_ended_fn(struct group_append *append,
                                   const struct produce_result *result);
struct group_append {
    struct produce_waiter waiter; /* first */
    group_append_ended_fn *ended;
    void *arg;
    struct produce_result result; /* [coordinator->lock], as the next */
    bool done;
};

/* Reading the log. */
struct group_load {
    int64_t target; /* offset that must be committed first */
    bool reading;
    bool waits;       /* there is nothing to do for a moment */
    int64_t position; /* of the next byte */
    int64_t end;
    uint64_t rewrites;
    char *bytes;     /* of SHARD_READ_BYTES */
    struct buf line; /* a part of one */
    int64_t lines;
    int64_t malformed;
    int64_t first_malformed; /* which line it was, from 0; -1 */
};

struct group_shard {
    int32_t index; /* [const] */
    enum group_shard_state state;
    struct partition *partition; /* one reference; NULL: idle */
    int32_t leader_epoch;        /* in which it was loaded */
    struct partition_lead lead;  /* as of this step */
    uint64_t changes_base;       /* makes group_core_changes() unique over loads */
    uint32_t loads;
    struct group_load load;
    struct group_entry *groups;
    struct group_request *queue;
    size_t queued_ops;
    struct group_request *held;
    struct group_request *parked;
    size_t parked_count;
    int64_t parked_until_ms; /* the earliest end of a wait */
    bool changed;            /* some group's changes rose: look at what is parked */
    bool in_flight;
    int64_t in_flight_until_ms;
    struct group_append append;
    int64_t next_tick_ms;
    int64_t retry_ms; /* idle: when to look at the partition again */
    int64_t pause_ms; /* rises with each failure in a row */
    int64_t waits_ms; /* for the partition, since then; -1: it does not */
};

void group_shard_init(struct group_shard *shard, int32_t index,
                      group_append_ended_fn *ended, void *arg);
/* Takes the request, whose head is filled, for a later step. */
void group_shard_submit(struct group_shard *shard, const struct group_shard_env *env,
                        struct group_request *request);
/*
 * Does what is to be done now. `done`: the append under way has ended, with *result.
 * The time when it wants to be called again at the latest.
 */
int64_t group_shard_step(struct group_shard *shard, const struct group_shard_env *env,
                         const struct produce_result *done);
/* The snapshot is another one: all groups are looked at. */
void group_shard_news(struct group_shard *shard);
/* Refuses all that wait, forgets the groups, cancels what is under way. `pause`: before
 * it begins anew. */
void group_shard_drop(struct group_shard *shard, int64_t now_ms, bool pause,
                      const char *why);
/* After a drop: whether group_append.ended() will still come. */
bool group_shard_is_quiet(const struct group_shard *shard);
/* Of a quiet one. */
void group_shard_end(struct group_shard *shard);
/* Adds the description of each group to an array. 0 or -ENOMEM. */
int group_shard_describe(const struct group_shard *shard, cJSON *array);

/* ---- parts, for group_shard*.c ------------------------------------------------------
 */

/* NULL: no memory. */
struct group_entry *group_shard_entry(struct group_shard *shard,
                                      const struct group_shard_env *env,
                                      const char *name);
void group_shard_forget_all(struct group_shard *shard);
/* Drops it if nobody uses it. */
void group_shard_sweep(struct group_shard *shard, struct group_entry *entry);
/* Something was done to it: parked beats may have news; `tick`: its times too. */
void group_shard_touched(struct group_shard *shard, struct group_entry *entry,
                         bool tick);

/* group_shard_load.c */
void group_shard_load_begin(struct group_shard *shard);
/* Reads a piece. 0: all is read, the shard is ready; SHARD_LOAD_MORE; SHARD_LOAD_WAIT:
 * call again in a moment; negative: it can't be read. */
enum { SHARD_LOAD_MORE = 1, SHARD_LOAD_WAIT = 2 };
int group_shard_load(struct group_shard *shard, const struct group_shard_env *env);
void group_shard_load_end(struct group_shard *shard);

/*
 * group_shard_run.c: carries a request out, or goes on with it. 0: request->answer is
 * made; or SHARD_PARK: it is to be parked; SHARD_REST: a part of it is left to a later
 * run; -ENOMEM: the groups are not what the log will say, drop them.
 */
enum { SHARD_PARK = 1, SHARD_REST = 2 };
int group_shard_carry_out(struct group_shard *shard, const struct group_shard_env *env,
                          struct group_request *request, struct buf *records);
/* Whether parked beats have something to be told by now. */
bool group_shard_has_news(const struct group_shard *shard,
                          const struct group_request *request);

#endif
