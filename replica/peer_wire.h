/*
 * What nodes say to each other about partitions, as bytes: fetches of followers,
 * batches that a node forwards to a leader, and the answers to both.
 * docs/replication.md describes the calls; the layout is told at the functions of
 * peer_wire.c.
 *
 *     buf_init(&buf, PEER_REQUEST_MAX);
 *     rc = peer_fetch_encode(&fetch, &buf);              // POST /replica/fetch
 *     ...
 *     rc = peer_fetch_decode(bytes, length, &fetch);     // borrows the bytes
 *     peer_fetch_free(&fetch);
 *
 * Every message begins with a magic, the protocol's version, its kind, and who speaks:
 * cluster, broker id, broker epoch. Whether those fit is for the caller to judge. An
 * older version is understood, and answered in the same: the answer's sender gets the
 * version of the question's. Version 2 has flush_to and `patient`, and knows of syncs.
 * Decoders take any bytes: 0; E_NEWER_FORMAT, of a later protocol version; -EBADMSG,
 * malformed; -ENOMEM. On error there is nothing to free.
 *
 * All integers are little-endian. Pure; any thread; one owner.
 */
#ifndef TOPICFS_PEER_WIRE_H
#define TOPICFS_PEER_WIRE_H

#include "replica/fetch_core.h"
#include "replica/index.h"

enum {
    PEER_VERSION = 2,
    PEER_CLUSTER_MAX = 255,
    PEER_PARTITIONS_MAX = 100000,
    /* A batch may be one line of the greatest max_message_bytes, 64 MiB; a reply has it
     * behind what else fits. Whatever a log accepts must get through. */
    PEER_REQUEST_MAX = 72 << 20,
    PEER_REPLY_MAX = 80 << 20,
    PEER_SYNC_MAX = 1024,
};

/* Who speaks. */
struct peer_sender {
    char cluster[PEER_CLUSTER_MAX + 1];
    int32_t id;
    int64_t broker_epoch;
    uint16_t version; /* of the protocol; 0, for an encoder: PEER_VERSION */
};

/* This node, as it is registered. */
void peer_sender_set(struct peer_sender *sender, const char *cluster,
                     const struct cluster_snapshot *snapshot);

struct peer_partition {
    struct topic_id topic_id;
    int32_t index;
};

/* ---- fetching -----------------------------------------------------------------------
 */

/* follower and broker_epoch of the request travel as the sender. */
struct peer_fetch_item {
    struct peer_partition partition;
    struct fetch_request request;
    uint32_t max_bytes; /* of its payload; the first batch is given whatever its size */
};

struct peer_fetch {
    struct peer_sender from;
    uint32_t wait_ms;   /* how long the leader may wait for news */
    uint32_t max_bytes; /* of payload in all */
    uint32_t count;
    struct peer_fetch_item *items; /* freed by peer_fetch_free() */
};

int peer_fetch_encode(const struct peer_fetch *fetch, struct buf *out);
int peer_fetch_decode(const void *bytes, size_t length, struct peer_fetch *out);
void peer_fetch_free(struct peer_fetch *fetch);

/*
 * Batches travel as their index entries, with all fields and the entry's checksum, with
 * positions that count within this item's payload, and then as their bytes.
 */
struct peer_fetched_item {
    struct peer_partition partition;
    struct fetch_answer answer;
    int64_t base_offset; /* that the entries count from */
    uint32_t batch_count;
    const uint8_t *entries; /* batch_count * INDEX_ENTRY_BYTES; borrowed */
    size_t length;          /* of the payload */
    const uint8_t *bytes;   /* borrowed */
};

struct peer_fetched {
    struct peer_sender from;
    uint32_t count;
    struct peer_fetched_item *items; /* freed by peer_fetched_free() */
};

/* Everything but the payloads, which follow in the order of the items. */
int peer_fetched_encode(const struct peer_fetched *fetched, struct buf *out);
int peer_fetched_decode(const void *bytes, size_t length, struct peer_fetched *out);
void peer_fetched_free(struct peer_fetched *fetched);

/* Batch i of an item. *bytes points to its payload, which has the hash that the entry
 * says. 0 or -EBADMSG. */
int peer_fetched_batch(const struct peer_fetched_item *item, uint32_t i,
                       struct batch *out, const uint8_t **bytes);

/* ---- producing ----------------------------------------------------------------------
 */

/* One batch for the leader. */
struct peer_produce {
    struct peer_sender from;
    struct peer_partition partition;
    int32_t leader_epoch; /* that the sender knows */
    int64_t producer_id;
    int32_t base_sequence;
    int32_t acks; /* enum topic_acks */
    uint32_t timeout_ms;
    uint32_t message_count;
    size_t length;
    const uint8_t *bytes; /* borrowed */
};

/* Everything but the bytes, which follow. */
int peer_produce_encode(const struct peer_produce *produce, struct buf *out);
int peer_produce_decode(const void *bytes, size_t length, struct peer_produce *out);

struct peer_produced {
    struct peer_sender from;
    int error;     /* of coord/err.h, or a negative errno */
    bool appended; /* it is in the leader's log, though perhaps not committed */
    int32_t leader_epoch;
    int64_t base_offset;
};

int peer_produced_encode(const struct peer_produced *produced, struct buf *out);
int peer_produced_decode(const void *bytes, size_t length, struct peer_produced *out);

/* ---- making durable -----------------------------------------------------------------
 */

/* Everything below the offset is to be on the disks of all in-sync replicas. */
struct peer_sync {
    struct peer_sender from;
    struct peer_partition partition;
    int32_t leader_epoch; /* that the sender knows */
    int64_t end_offset;
    uint32_t timeout_ms;
};

int peer_sync_encode(const struct peer_sync *sync, struct buf *out);
int peer_sync_decode(const void *bytes, size_t length, struct peer_sync *out);

struct peer_synced {
    struct peer_sender from;
    int error; /* E_COMMIT_TIMEOUT: not yet; ask again */
    int32_t leader_epoch;
    int64_t durable_end; /* how far it is; also with an error. -1: unknown */
};

int peer_synced_encode(const struct peer_synced *synced, struct buf *out);
int peer_synced_decode(const void *bytes, size_t length, struct peer_synced *out);

#endif
