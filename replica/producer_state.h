/*
 * What a partition remembers of its producers, so that a retried batch is stored once.
 *
 * Each batch carries a producer id and the sequence of its first message. Per producer
 * the last five batches are kept (Kafka's limit of requests in flight): a batch that
 * equals one of them is a duplicate, one that continues the last is new, any other is
 * out of order. The state is a function of the log's batches; snapshots only save
 * reading them again. A producer that was silent for a day is forgotten.
 *
 * Pure; one owner (in the broker: under partition->append_lock).
 * After Kafka's ProducerStateManager (KIP-98).
 */
#ifndef TOPICFS_PRODUCER_STATE_H
#define TOPICFS_PRODUCER_STATE_H

#include "coord/coord.h"
#include "replica/log.h"

#include <stdint.h>

enum { PRODUCER_BATCHES = 5 };
enum { PRODUCER_EXPIRY_MS = 24 * 60 * 60 * 1000 };

struct producer_state;

struct producer_state *producer_state_new(void); /* NULL: no memory */
void producer_state_free(struct producer_state *state);
void producer_state_clear(struct producer_state *state);

enum producer_verdict { PRODUCER_NEW, PRODUCER_DUPLICATE, PRODUCER_OUT_OF_ORDER };

/* For a duplicate, *original gets the offset of the batch as it was stored. */
enum producer_verdict producer_state_check(const struct producer_state *state,
                                           const struct batch *batch,
                                           int64_t *original);

/* Is anything kept of this producer? */
bool producer_state_knows(const struct producer_state *state, int64_t producer_id);

/* Takes a stored batch into account; batches come in offset order. 0 or -ENOMEM. */
int producer_state_add(struct producer_state *state, const struct batch *batch);

void producer_state_expire(struct producer_state *state, int64_t now_ms);
size_t producer_state_count(const struct producer_state *state);

/* The sequence after `sequence` + `count` messages; wraps after 2^31 - 1, as Kafka's.
 */
int32_t producer_sequence_after(int32_t sequence, uint32_t count);

/* Takes the first n messages off the batch, which then begins with the next one's
 * offset and sequence; all but length, position and hash. */
void producer_batch_rest(struct batch *batch, uint32_t n);

/*
 * A snapshot as bytes, for everything below `offset`, with a checksum; decode replaces
 * the state. 0, -ENOMEM, E_CORRUPT, E_NEWER_FORMAT.
 */
int producer_state_encode(const struct producer_state *state, int64_t offset,
                          struct buf *out);
int producer_state_decode(struct producer_state *state, const void *bytes,
                          size_t length, int64_t *offset);

#endif
