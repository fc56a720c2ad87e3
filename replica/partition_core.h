/*
 * The decisions of a partition, without I/O, clock or threads: what may be appended,
 * what counts as acknowledged, where the high watermark stands.
 *
 * Terms as in Kafka: LEO is the log end offset; a replica's LEO counts what it holds by
 * the topic's flush policy (with flush=ack, what is on disk). The high watermark is the
 * least LEO over the in-sync replicas, and rises only while the ISR has
 * min_insync_replicas.
 *
 *     core_become_leader(&core, &leadership);
 *     rc = core_admit(&core, acks);
 *     ... write the bytes ...
 *     core_appended(&core, end_offset);
 *     core_flushed(&core, end_offset);
 *     if (core_acknowledged(&core, acks, end_offset)) ...
 *
 * Pure; the struct is owned by whoever calls (in the broker: under partition->lock).
 */
#ifndef TOPICFS_PARTITION_CORE_H
#define TOPICFS_PARTITION_CORE_H

#include "coord/coord.h"

#include <stdbool.h>
#include <stdint.h>

enum { CORE_REPLICAS_MAX = 16 };

enum core_role { ROLE_NONE, ROLE_LEADER, ROLE_FOLLOWER };

struct core_replica {
    int32_t id;
    bool in_isr;
    int64_t log_end_offset; /* -1: nothing heard in this leader epoch */
};

struct partition_core {
    int32_t self;
    enum core_role role;
    int32_t leader; /* -1: none */
    int32_t leader_epoch;
    uint32_t replica_count;
    struct core_replica replicas[CORE_REPLICAS_MAX];
    int64_t min_insync_replicas;
    bool flush_counts; /* flush=ack: own LEO is the flushed offset */
    int64_t log_end_offset;
    int64_t flushed_offset;
    int64_t high_watermark;
};

/* What a state of the cluster says about this partition. */
struct core_leadership {
    int32_t leader;
    int32_t leader_epoch;
    const int32_t *replicas;
    uint32_t replica_count;
    const int32_t *isr;
    uint32_t isr_count;
};

/* A partition that was just opened with this log; it has no role yet. */
void core_init(struct partition_core *core, int32_t self, int64_t log_end_offset,
               int64_t flushed_offset, int64_t high_watermark);

/* Takes the settings that decisions depend on. */
void core_configure(struct partition_core *core, const struct topic_config *config);

/*
 * Takes a new leadership: leader if it names self, follower if self is among the
 * replicas, else no role. An older leader epoch than the present one is refused with
 * E_FENCED_EPOCH. With a new epoch, what other replicas hold is unknown until they
 * fetch in it.
 */
int core_lead(struct partition_core *core, const struct core_leadership *leadership);

/* 0, E_NO_LEADER, E_NOT_LEADER, or E_NOT_ENOUGH_REPLICAS (acks=all below the minimum).
 */
int core_admit(const struct partition_core *core, int64_t acks);

void core_appended(struct partition_core *core, int64_t log_end_offset);
void core_flushed(struct partition_core *core, int64_t flushed_offset);

/*
 * Moves the high watermark to where it belongs now. true if it rose. Never falls.
 */
bool core_advance(struct partition_core *core);

/* What this replica counts as its own. */
int64_t core_own_end(const struct partition_core *core);

/* Is a batch that ends at `end_offset` acknowledged under `acks`? */
bool core_acknowledged(const struct partition_core *core, int64_t acks,
                       int64_t end_offset);

#endif
