/*
 * Inside of the checks: what they know, and of logs that are compacted what each
 * message's absence says.
 */
#ifndef TOPICFS_SIM_CHECK_PRIVATE_H
#define TOPICFS_SIM_CHECK_PRIVATE_H

#include "tests/sim/check.h"

enum { EPOCHS_MAX = 4096 };

struct owner {
    int32_t node; /* id; 0: nobody yet */
    int64_t broker_epoch;
};

/* What was ever committed in a topic, as the first replica saw it whose high watermark
 * passed it. */
struct registry {
    uint32_t topic_id;
    struct simlog committed;
    int32_t lossy_epoch;
    /* of topics that are compacted */
    int64_t latest[SIM_KEYS]; /* offset of the last message with the key; -1: none */
    int64_t excused_to;       /* an election may have lost what superseded these */
    uint8_t *expired;         /* by offset: tombstones that went when they might */
    int64_t expired_allocated;
    uint32_t owner_count;
    struct owner owners[EPOCHS_MAX];
};

struct check {
    struct registry slots[SLOTS_MAX];
    int64_t deposed_ms[NODES_MAX]; /* by fast detection; -1: never */
    struct {
        uint32_t topic_id;
        int64_t at_ms;     /* -1: never */
    } moved[SLOTS_MAX];    /* for that */
    int64_t *committed_at; /* by payload: base offset + 1 */
    uint32_t payloads;
    struct world *world;
};

/* Is what the node did not act on is before the last possible loss? */
bool check_before_loss(const struct node *node, int32_t slot);

enum held { HELD, HELD_NOT, HELD_UNFLUSHED, HELD_OTHER };
/* The n-th message of a committed batch, in the first `limit` batches of the log. */
enum held check_held(const struct simlog *log, uint32_t limit,
                     const struct simbatch *committed, uint32_t n);
/* May a log that ends at log_end be without it? */
bool check_may_lack(const struct registry *registry, int64_t log_end,
                    const struct simbatch *committed, uint32_t n);
/* Another batch is committed. */
void check_note_latest(struct registry *registry, const struct simbatch *committed);
/* The committed batches are others now. */
void check_renew_latest(struct registry *registry);

#endif
