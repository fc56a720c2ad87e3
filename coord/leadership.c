#include "coord/leadership.h"

#include <errno.h>
#include <string.h>

bool replica_ids_list(const int32_t *ids, uint32_t count, int32_t id)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

bool replica_ids_contain(const struct replica_ids *set, int32_t id)
{
    return replica_ids_list(set->ids, set->count, id);
}

void replica_ids_set(struct replica_ids *set, const int32_t *ids, uint32_t count)
{
    set->count = count < LEADERSHIP_REPLICAS_MAX ? count : LEADERSHIP_REPLICAS_MAX;
    if (count > 0) {
        memcpy(set->ids, ids, set->count * sizeof *ids);
    }
}

void replica_ids_add(struct replica_ids *set, int32_t id)
{
    if (set->count < LEADERSHIP_REPLICAS_MAX && !replica_ids_contain(set, id)) {
        set->ids[set->count++] = id;
    }
}

void replica_ids_remove(struct replica_ids *set, int32_t id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->ids[i] != id) {
            set->ids[kept++] = set->ids[i];
        }
    }
    set->count = kept;
}

bool replica_ids_equal(const struct replica_ids *a, const struct replica_ids *b)
{
    return a->count == b->count &&
           memcmp(a->ids, b->ids, a->count * sizeof a->ids[0]) == 0;
}

bool replica_ids_same_members(const struct replica_ids *a, const struct replica_ids *b)
{
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++) {
        same = replica_ids_contain(b, a->ids[i]);
    }
    return same;
}

void replica_ids_keep(struct replica_ids *set, const struct replica_ids *keep)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (replica_ids_contain(keep, set->ids[i])) {
            set->ids[kept++] = set->ids[i];
        }
    }
    set->count = kept;
}

const struct suspect *leadership_suspect(const struct leadership *state, int32_t id)
{
    for (uint32_t i = 0; i < state->suspect_count; i++) {
        if (state->suspects[i].id == id) {
            return &state->suspects[i];
        }
    }
    return NULL;
}

void leadership_forget_suspect(struct leadership *state, int32_t id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < state->suspect_count; i++) {
        if (state->suspects[i].id != id) {
            state->suspects[kept++] = state->suspects[i];
        }
    }
    state->suspect_count = kept;
}

bool leadership_is_last(const struct leadership *state, int32_t id)
{
    struct replica_ids all = state->isr;
    for (uint32_t i = 0; i < state->elr.count; i++) {
        replica_ids_add(&all, state->elr.ids[i]);
    }
    return all.count == 1 && all.ids[0] == id;
}

int leadership_take_out(const struct leadership *old, const struct suspect *suspect,
                        bool registered, struct leadership *out)
{
    const struct suspect *listed = leadership_suspect(old, suspect->id);
    bool counts = replica_ids_contain(&old->isr, suspect->id) ||
                  replica_ids_contain(&old->elr, suspect->id) ||
                  old->leader == suspect->id;
    bool worse = listed && (listed->kind != suspect->kind ||
                            listed->last_epoch != suspect->last_epoch ||
                            listed->end_offset != suspect->end_offset);
    if (!registered && !counts && !worse &&
        (listed || suspect->kind == SUSPECT_CRASHED)) {
        return 0;
    }
    if (old->leader_epoch == INT32_MAX) {
        return -EOVERFLOW;
    }
    *out = *old;
    out->leader_epoch++;
    if (out->leader == suspect->id) {
        out->leader = -1;
    }
    replica_ids_remove(&out->isr, suspect->id);
    replica_ids_remove(&out->elr, suspect->id);
    leadership_forget_suspect(out, suspect->id);
    if (out->suspect_count < LEADERSHIP_REPLICAS_MAX) {
        out->suspects[out->suspect_count++] = *suspect;
    }
    return 1;
}
