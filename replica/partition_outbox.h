/*
 * Writes that can't be appended here and now: another node leads the partition, or none
 * does, or too few replicas are in sync and the topic says to wait. Their bytes are
 * copied and wait in order; one batch at a time is on its way to the leader, which may
 * be this node. It keeps its producer id and sequence until its fate is known.
 *
 * Who waits can give up at any time: what was not sent is withdrawn; what was goes on,
 * and whoever comes with its ticket waits for it again, or learns how it ended.
 *
 *     while (partition_outbox_next(partition, &batch) is OUTBOX_SEND) {
 *         ... POST /replica/produce to batch.leader; or partition_outbox_append() where
 *         that is this node ...
 *         partition_outbox_settle(partition, &batch, &outcome);
 *     }
 *
 * One thread (the forwarder's) works on a partition's outbox; writes are added by any.
 */
#ifndef TOPICFS_PARTITION_OUTBOX_H
#define TOPICFS_PARTITION_OUTBOX_H

#include "replica/partition.h"
#include "replica/peer_wire.h"

enum {
    OUTBOX_BATCH_BYTES = 1 << 20,
    OUTBOX_NODE_BYTES = 64 << 20,
    OUTBOX_SETTLE_MS = 300, /* after its time, to learn that a write was refused */
};

struct outbox_write;

/* Zeroed: none. Owned by the forwarder. */
struct outbox_batch {
    struct outbox_write *writes; /* list, private */
    struct buf bytes;
    uint32_t message_count;
    int64_t acks;
    int64_t producer_id;
    int32_t base_sequence;
    int64_t deadline_ms;
    bool maybe_appended; /* by an attempt whose outcome is not known */
    bool again; /* this node appended it as a leader; sequences go on behind it */
    /* Of this attempt. */
    bool here; /* this node leads */
    int32_t leader;
    int32_t leader_epoch;
};

enum outbox_state {
    OUTBOX_EMPTY,
    OUTBOX_WAIT, /* no leader: look again at the next notice, or at *due_ms */
    OUTBOX_SEND, /* the batch is to be sent now */
};

/* The batch to send: the one that is under way already, or the next. Ends those that
 * are out of time. *due_ms: when the next one is. */
enum outbox_state partition_outbox_next(struct partition *partition,
                                        struct outbox_batch *batch, int64_t *due_ms);

/* Appends the batch here; as partition_produce_remote(). */
int partition_outbox_append(struct partition *partition,
                            const struct outbox_batch *batch,
                            struct produce_waiter *waiter,
                            struct produce_result *result);

/* Who waits for a write of the batch is told that its fate is not known, once its time
 * and OUTBOX_SETTLE_MS are over; the write goes on. Returns when to look again, at the
 * latest `due_ms`. */
int64_t partition_outbox_expire(struct partition *partition, struct outbox_batch *batch,
                                int64_t due_ms);

struct outbox_outcome {
    int error;     /* 0: as its acks ask for */
    bool appended; /* with an error: it is, or may be, in the leader's log */
    int64_t base_offset;
    int32_t leader_epoch; /* without an error: of the leader that met them; -1: this
                           * node itself */
};
/* true: ended, its writes were answered or wait for what this node sees of it. false:
 * it is to be sent again, after a pause or a notice. */
bool partition_outbox_settle(struct partition *partition, struct outbox_batch *batch,
                             const struct outbox_outcome *outcome);

/* Are there writes that wait, or a batch under way? */
bool partition_outbox_pending(struct partition *partition);
/* Does another leadership hold than the one that this attempt went to? */
bool partition_outbox_moved(struct partition *partition,
                            const struct outbox_batch *batch);
/* The topic was deleted, the disk failed, or the node stops: what is under way is to be
 * abandoned. */
bool partition_outbox_ending(struct partition *partition);
/* Ends the batch without knowing its fate. */
void partition_outbox_abandon(struct partition *partition, struct outbox_batch *batch);

#endif
