/*
 * The state of a partition as the coordination store has it, in a form for decisions:
 * fixed size, no memory to manage. docs/replication.md explains the fields' rules.
 *
 * Two writers change it, each by compare-and-swap on the revision of what it read: the
 * partition's leader, which changes isr and elr within its own epoch and compares its
 * own registration too; and everybody else (the controller, a replica that takes itself
 * out), who begins a new leader epoch with every write. So an epoch has one leader, in
 * one incarnation.
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_LEADERSHIP_H
#define TOPICFS_LEADERSHIP_H

#include <stdbool.h>
#include <stdint.h>

enum { LEADERSHIP_REPLICAS_MAX = 16 };

/* A small set of broker ids, in an order that may matter (assignment). */
struct replica_ids {
    uint32_t count;
    int32_t ids[LEADERSHIP_REPLICAS_MAX];
};

enum suspect_kind {
    SUSPECT_CRASHED,  /* its machine crashed before all was flushed: a tail may be gone
                       */
    SUSPECT_UNUSABLE, /* damaged or offline: not to lead whatever happens */
};

/* A replica that took itself out because it may lack committed messages. */
struct suspect {
    int32_t id;
    enum suspect_kind kind;
    int32_t last_epoch; /* of its log when it took itself out; -1: empty */
    int64_t end_offset;
};

struct leadership {
    int32_t controller_epoch;
    int32_t leader; /* -1: none */
    int32_t leader_epoch;
    struct replica_ids isr; /* may be empty: every member took itself out */
    /* Eligible replicas: they left the ISR while it was below the minimum, when the
     * high watermark stood still. Only non-empty while the high watermark stands still.
     */
    struct replica_ids elr;
    uint32_t suspect_count;
    struct suspect suspects[LEADERSHIP_REPLICAS_MAX];
    /* The last epoch that began with a leader which may have lacked committed messages;
     * -1: none. Only entries of lower epochs may be cut below the high watermark. */
    int32_t lossy_epoch;
};

bool replica_ids_contain(const struct replica_ids *set, int32_t id);
/* The same of a plain list. */
bool replica_ids_list(const int32_t *ids, uint32_t count, int32_t id);
/* Makes it these, LEADERSHIP_REPLICAS_MAX at most. */
void replica_ids_set(struct replica_ids *set, const int32_t *ids, uint32_t count);
/* Adds `id` unless it is there or the set is full. */
void replica_ids_add(struct replica_ids *set, int32_t id);
void replica_ids_remove(struct replica_ids *set, int32_t id);
bool replica_ids_equal(const struct replica_ids *a, const struct replica_ids *b);
/* The same in any order. */
bool replica_ids_same_members(const struct replica_ids *a, const struct replica_ids *b);
/* The members of `set` that are in `keep`, in the order of `set`. */
void replica_ids_keep(struct replica_ids *set, const struct replica_ids *keep);

/* NULL if `id` is none. */
const struct suspect *leadership_suspect(const struct leadership *state, int32_t id);
void leadership_forget_suspect(struct leadership *state, int32_t id);

/* Is `id` in sync or eligible, and nobody else? Then no other replica is known to have
 * all that was committed. */
bool leadership_is_last(const struct leadership *state, int32_t id);

/*
 * A replica takes itself out of ISR and ELR because it may lack messages that it once
 * acknowledged. `registered`: its node has a registration now. Then it always writes:
 * its leader may be about to let it join on the ground of what it acknowledged, and a
 * new revision makes that fail. Without one nobody can let it join, and it writes only
 * what changes something. 1: *out is to be written; 0: nothing changes; -EOVERFLOW at
 * the end of the epochs.
 */
int leadership_take_out(const struct leadership *old, const struct suspect *suspect,
                        bool registered, struct leadership *out);

#endif
