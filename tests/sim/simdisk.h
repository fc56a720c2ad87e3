/*
 * The logs on a node's disk: batches, of which a prefix is flushed. Outlives the node's
 * process; a power cut takes what was not flushed, or a part of it.
 *
 * A log that is compacted has segments, and its batches may be parts of what was
 * appended. What is in a message follows from its batch's payload.
 */
#ifndef TOPICFS_SIM_SIMDISK_H
#define TOPICFS_SIM_SIMDISK_H

#include "replica/log.h"
#include "tests/sim/prng.h"

struct simbatch {
    int64_t base_offset;
    uint32_t message_count;
    int32_t leader_epoch;
    int32_t base_sequence;
    uint32_t payload; /* which batch of which client: the bytes, so to say */
    uint32_t first;   /* which of that batch's messages this one begins with */
    uint32_t flags;   /* enum batch_flag */
    int64_t producer_id;
    int64_t appended_ms;
    int64_t timestamp_ms; /* by the leader's clock */
    int64_t delete_at_ms;
};

enum { SIM_KEYS = 8 };

struct simmessage {
    int32_t key; /* below SIM_KEYS; -1: none */
    bool tombstone;
};

struct simsegment {
    int64_t base_offset;
    uint32_t index_flags; /* enum index_flag */
};

struct simlog {
    uint32_t topic_id; /* 0: no log */
    struct simbatch *batches;
    uint32_t count;
    uint32_t flushed; /* how many batches are on disk for certain */
    uint32_t allocated;
    int64_t log_start;
    int64_t end;      /* where the next batch goes */
    uint32_t roll_at; /* batches that a segment holds; 0: the log has no segments */
    struct simsegment *segments; /* the last one is appended to */
    uint32_t segment_count;
    uint32_t segments_allocated;
    int64_t compacted_to; /* below it all is from a compaction, and on disk */
    int32_t begin_epoch;  /* of what was before begin_offset; -1: nothing known */
    int64_t begin_offset;
    int64_t checkpoint_hw;
    bool damaged;   /* a bit flip; found when the damaged batch is read */
    bool lost_tail; /* a power cut may have taken batches; until it is taken out */
};

/* roll_at: as in the struct. */
void simlog_create(struct simlog *log, uint32_t topic_id, uint32_t roll_at);
void simlog_free(struct simlog *log);
void simlog_remove(struct simlog *log);
void simlog_append(struct simlog *log, const struct simbatch *batch);
int64_t simlog_end(const struct simlog *log);
int64_t simlog_flushed_end(const struct simlog *log);
int64_t simlog_last_time(const struct simlog *log); /* INT64_MIN: it is empty */
/* Where batch `index` ends. */
int64_t simlog_batch_end(const struct simlog *log, uint32_t index);
/* Index of the first batch at or above `offset`. */
uint32_t simlog_find(const struct simlog *log, int64_t offset);
void simlog_cut(struct simlog *log, int64_t offset);
/* Empties the log; it continues at `offset`, behind a batch of `epoch`. */
void simlog_restart(struct simlog *log, int64_t offset, int32_t epoch);
void simlog_power_cut(struct simlog *log, struct prng *prng);
/* A compaction wrote `batches`, in segments of at most roll_at, in the place of all
 * that is below `end`, where a segment begins. From `clean_to` on it has not looked at
 * the keys. */
void simlog_replace(struct simlog *log, const struct simbatch *batches, uint32_t count,
                    int64_t end, int64_t clean_to);
/* The batch that has the offset; NULL: there is none. */
const struct simbatch *simlog_at(const struct simlog *log, int64_t offset);
void simbatch_decode(const struct simbatch *batch, struct batch *out);
/* Takes what compaction or a fetch made of it. */
void simbatch_encode(const struct batch *part, struct simbatch *batch);
struct simmessage simbatch_message(const struct simbatch *batch, uint32_t n);

#endif
