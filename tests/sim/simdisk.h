/*
 * The logs on a node's disk: batches, of which a prefix is flushed. Outlives the node's
 * process; a power cut takes what was not flushed, or a part of it.
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
    int64_t producer_id;
    int64_t appended_ms;
};

struct simlog {
    uint32_t topic_id; /* 0: no log */
    struct simbatch *batches;
    uint32_t count;
    uint32_t flushed; /* how many batches are on disk for certain */
    uint32_t allocated;
    int64_t log_start;
    int32_t begin_epoch; /* of what was before begin_offset; -1: nothing known */
    int64_t begin_offset;
    int64_t checkpoint_hw;
    bool damaged;   /* a bit flip; found when the damaged batch is read */
    bool lost_tail; /* a power cut may have taken batches; until it is taken out */
};

void simlog_create(struct simlog *log, uint32_t topic_id);
void simlog_remove(struct simlog *log);
void simlog_append(struct simlog *log, const struct simbatch *batch);
int64_t simlog_end(const struct simlog *log);
int64_t simlog_flushed_end(const struct simlog *log);
/* Where batch `index` ends. */
int64_t simlog_batch_end(const struct simlog *log, uint32_t index);
/* Index of the first batch at or above `offset`. */
uint32_t simlog_find(const struct simlog *log, int64_t offset);
void simlog_cut(struct simlog *log, int64_t offset);
/* Empties the log; it continues at `offset`, behind a batch of `epoch`. */
void simlog_restart(struct simlog *log, int64_t offset, int32_t epoch);
void simlog_power_cut(struct simlog *log, struct prng *prng);
void simbatch_decode(const struct simbatch *batch, struct batch *out);

#endif
