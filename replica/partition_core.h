/*
 * The decisions of a partition, without I/O, clock or threads: its role, what may be
 * appended, what counts as acknowledged, where the high watermark stands. The state
 * struct is shared with fetch_core (a leader's answers to fetches), isr (a leader's
 * changes of the in-sync replicas), follower_core and produce_core.
 * docs/replication.md gives the rules and the reason of each.
 *
 * Terms as in Kafka: LEO is the log end offset; a replica's LEO counts what it holds by
 * the topic's flush policy (with flush=ack, what is on disk). The high watermark is the
 * least LEO over the in-sync replicas, and rises only while the ISR has
 * min_insync_replicas.
 *
 *     core_lead(&core, &leadership);
 *     rc = core_admit(&core, acks);
 *     ... write the bytes ...
 *     core_appended(&core, end_offset);
 *     core_flushed(&core, end_offset);
 *     core_advance(&core);
 *     rc = core_outcome(&core, acks, epoch_of_append, end_offset);
 *
 * Pure; the struct is owned by whoever calls (in the broker: under partition->lock).
 */
#ifndef TOPICFS_PARTITION_CORE_H
#define TOPICFS_PARTITION_CORE_H

#include "coord/coord.h"
#include "replica/epochs.h"

#include <stdbool.h>
#include <stdint.h>

enum { CORE_REPLICAS_MAX = LEADERSHIP_REPLICAS_MAX };

enum core_role { ROLE_NONE, ROLE_LEADER, ROLE_FOLLOWER };

/* What this node knows of its own session with the coordination store. */
enum core_session {
    SESSION_GOOD,
    SESSION_SILENT, /* the deadline of the last good keepalive has passed */
    SESSION_LOST,   /* the registration is known to be gone */
};

/* What a leader knows of a replica. All but the first four fields are of this leader
 * epoch. */
struct core_replica {
    int32_t id;
    bool in_isr;              /* in the ISR as stored */
    bool maybe_isr;           /* in an ISR that was proposed and may be stored by now */
    int64_t registered_epoch; /* its broker epoch as this node sees it; 0: not alive */
    int64_t broker_epoch;     /* of the fetches that count; -1: none came */
    uint64_t sequence;        /* of its newest fetch */
    int64_t log_end_offset;   /* what it acknowledged; -1: nothing heard */
    int64_t flushed_offset;   /* what it said is on its disk; -1: nothing heard */
    int64_t fetch_ms;         /* when the newest fetch came */
    int64_t leader_end_at_fetch; /* the leader's log end then */
    int64_t caught_up_ms;        /* the last time at which it had all there was */
};

struct partition_core {
    int32_t self;
    enum core_role role;
    enum core_session session;
    /* This node is no replica: whatever it holds is a copy for reading, which counts
     * for nothing. It follows only while `observes`. */
    bool remote;
    bool observes;
    bool offline; /* the disk failed or the log is damaged: neither leads nor follows */
    int32_t leader; /* -1: none, or this node but in an epoch that it may not lead */
    int32_t leader_epoch;
    uint32_t replica_count;
    struct core_replica replicas[CORE_REPLICAS_MAX];

    struct leadership state; /* as stored at `revision` */
    int64_t revision;
    int64_t own_broker_epoch;
    bool registrations_known;

    /* from the topic's settings */
    int64_t min_insync_replicas;
    bool flush_counts; /* flush=ack: own LEO is the flushed offset */
    bool compacted;    /* batches may leave out offsets */
    int64_t lag_time_max_ms;
    int64_t lag_max_messages; /* 0: off */

    int64_t log_end_offset;
    int64_t flushed_offset;
    int64_t high_watermark;
    uint32_t cuts;    /* how often the log was cut: a flush that began before is void */
    int64_t flush_to; /* in this epoch: what is to be on disk everywhere, whatever the
                       * policy: a follower has heard it from the leader */

    /* leader */
    int64_t epoch_start;  /* log end when this epoch's leadership began */
    bool isr_in_flight;   /* a proposal is on its way */
    bool isr_reread;      /* the store must be read before the next proposal */
    uint32_t isr_unknown; /* proposals of unknown outcome against `revision` */
    struct leadership isr_proposed;

    /* follower */
    uint64_t fetch_sequence;       /* of the newest request */
    int64_t leader_high_watermark; /* -1: not heard in this epoch */
};

/* What the store says about this partition. */
struct core_leadership {
    const struct leadership *state;
    int64_t revision; /* at which the state was stored */
    const int32_t *replicas;
    /* Broker epochs of the replicas, 0 = not registered; NULL: nothing is known. */
    const int64_t *registrations;
    uint32_t replica_count;
    int64_t own_broker_epoch;
    int64_t now_ms; /* monotonic */
};

/* A partition that was just opened with this log; it has no role yet. */
void core_init(struct partition_core *core, int32_t self, int64_t log_end_offset,
               int64_t flushed_offset, int64_t high_watermark);

/* Takes the settings that decisions depend on. */
void core_configure(struct partition_core *core, const struct topic_config *config);

/*
 * Takes what the store says; by any channel and in any order: what is older than
 * what is known is refused with E_FENCED_EPOCH. -E2BIG: too many replicas.
 *
 * The node leads if the state names it and was stored after its own registration: an
 * epoch belongs to one incarnation of its leader. With a new epoch, what other replicas
 * hold is unknown until they fetch in it.
 */
int core_lead(struct partition_core *core, const struct core_leadership *leadership);

/* Only who is alive has changed. `registrations` as in core_leadership, for the same
 * replicas in the same order. */
void core_registrations(struct partition_core *core, const int64_t *registrations);

/* The session's state; when it is lost, the node leads nothing until core_lead() comes
 * with a new registration. */
void core_set_session(struct partition_core *core, enum core_session session);

/* The disk failed or the log is damaged: no role until core_reset(). */
void core_set_offline(struct partition_core *core);
/* Begins or ends following as an observer; for a remote partition. */
void core_observe(struct partition_core *core, bool observes);
/* The log was emptied, to be filled from the leader, beginning at `offset`. */
void core_reset(struct partition_core *core, int64_t offset);

/*
 * May an append with these acks happen now? 0, E_NO_LEADER, E_NOT_LEADER, E_OFFLINE,
 * E_SESSION_LOST (the store is silent beyond the session's deadline), or
 * E_NOT_ENOUGH_REPLICAS (acks=all below the minimum).
 */
int core_admit(const struct partition_core *core, int64_t acks);

void core_appended(struct partition_core *core, int64_t log_end_offset);
void core_flushed(struct partition_core *core, int64_t flushed_offset);

/* A flush takes a while: begin notes what it will cover, end counts it unless the log
 * was cut meanwhile. true: it counts. */
struct core_flush {
    uint32_t cuts;
    int64_t end_offset;
};
struct core_flush core_flush_begin(const struct partition_core *core);
bool core_flush_end(struct partition_core *core, const struct core_flush *flush);

/*
 * The log was cut so that `offset` is its end. The high watermark falls with it only
 * where follower_core allowed that. true: the producer state must be rebuilt from what
 * is left.
 */
bool core_cut(struct partition_core *core, struct epoch_list *epochs, int64_t offset);

/*
 * Moves the high watermark to where it belongs now, as leader by what the replicas
 * acknowledged, as follower by what the leader said. true if it rose. Never falls.
 */
bool core_advance(struct partition_core *core);

/* What this replica counts as its own. */
int64_t core_own_end(const struct partition_core *core);

/* Is a batch that ends at `end_offset` acknowledged under `acks`? */
bool core_acknowledged(const struct partition_core *core, int64_t acks,
                       int64_t end_offset);

/*
 * The same for a batch that was appended (or found to be a duplicate) in
 * `leader_epoch`: 0 acknowledged, CORE_WAIT, or E_NOT_LEADER once that epoch is over
 * here: then its fate is the next leader's, and a retry there finds out.
 */
enum { CORE_WAIT = 1 };
int core_outcome(const struct partition_core *core, int64_t acks, int32_t leader_epoch,
                 int64_t end_offset);

/*
 * Durability, for fsync. A leader asks for what is below an offset to be on disk: its
 * own, and by its answers to fetches that of the followers, who tell in their next
 * fetch how far they are. What counts is the largest set that may be the ISR.
 */

/* As leader: `offset`, as far as the log goes by now, is to be on disk everywhere. */
void core_sync(struct partition_core *core, int64_t offset);
/* What was asked for is here, and not on disk. */
bool core_must_flush(const struct partition_core *core);
/* How much of what was asked for is on disk; -1: nothing is asked of an observer. */
int64_t core_synced_to(const struct partition_core *core);
/* As leader: everything below it is committed and on disk here and on each replica that
 * may be in sync. */
int64_t core_durable_end(const struct partition_core *core);
/* Of a wait for that which began in `leader_epoch`: 0, CORE_WAIT, or E_NOT_LEADER: the
 * next leader is to be asked. */
int core_sync_outcome(const struct partition_core *core, int32_t leader_epoch,
                      int64_t end_offset);

/* NULL if `id` is not a replica. */
struct core_replica *core_replica_find(struct partition_core *core, int32_t id);
/* The size of the ISR as stored. */
uint32_t core_isr_size(const struct partition_core *core);

#endif
