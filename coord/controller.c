#include "coord/controller.h"

#include "coord/err.h"

#include <string.h>

enum { EPOCH_2025_S = 1735689600 };

int controller_next_epoch(int32_t stored, int32_t *out)
{
    if (stored == INT32_MAX)
        return -EOVERFLOW;
    *out = stored < 0 ? 1 : stored + 1;
    return 0;
}

static bool live(const struct controller_view *view, int32_t id)
{
    return id_list_contains(view->live, id);
}

int controller_new_partition(const struct controller_view *view,
                             const struct id_list *replicas, int32_t first_epoch,
                             struct partition_state *out)
{
    int rc;

    partition_state_init(out);
    rc = id_list_copy(&out->isr, replicas->ids, replicas->count);
    out->controller_epoch = view->epoch;
    out->leader_epoch = first_epoch;
    out->leader = -1;
    if (rc != 0)
        return rc;
    out->isr.count = 0;
    for (uint32_t i = 0; i < replicas->count; i++)
        if (live(view, replicas->ids[i]))
            out->isr.ids[out->isr.count++] = replicas->ids[i];
    if (out->isr.count > 0) {
        out->leader = out->isr.ids[0];
        return 0;
    }
    /* Nobody is there: all of them are eligible, as nothing was ever written. */
    memcpy(out->isr.ids, replicas->ids, replicas->count * sizeof(*replicas->ids));
    out->isr.count = replicas->count;
    return 0;
}

static int32_t first_eligible(const struct controller_view *view,
                              const struct id_list *replicas,
                              const struct id_list *eligible)
{
    for (uint32_t i = 0; i < replicas->count; i++)
        if (live(view, replicas->ids[i]) &&
            id_list_contains(eligible, replicas->ids[i]))
            return replicas->ids[i];
    return -1;
}

/* Appends those of `from` that are not in `out` yet and not in `except`. */
static void add_ids(struct id_list *out, const struct id_list *from,
                    const struct id_list *except)
{
    for (uint32_t i = 0; i < from->count; i++)
        if (!id_list_contains(out, from->ids[i]) &&
            !id_list_contains(except, from->ids[i]))
            out->ids[out->count++] = from->ids[i];
}

/* The live part of the ISR; the leader alone if it comes from the ELR. */
static void shrink_isr(const struct controller_view *view,
                       const struct id_list *replicas, struct partition_state *out,
                       const struct partition_state *old)
{
    out->isr.count = 0;
    for (uint32_t i = 0; i < old->isr.count; i++)
        if (live(view, old->isr.ids[i]) && id_list_contains(replicas, old->isr.ids[i]))
            out->isr.ids[out->isr.count++] = old->isr.ids[i];
    if (out->isr.count == 0)
        out->isr.ids[out->isr.count++] = out->leader;
}

int controller_elect(const struct controller_view *view, const struct id_list *replicas,
                     const struct partition_state *old, int64_t min_insync,
                     struct partition_state *out)
{
    static const int32_t room[2 * LEADERSHIP_REPLICAS_MAX + 1];
    uint32_t most = old->isr.count + old->elr.count;
    int rc;

    *out = *old;
    out->isr = out->elr = (struct id_list){0};
    out->suspects = NULL; /* one node alone: nobody else could lead, or know more */
    out->suspect_count = 0;
    if (old->leader_epoch == INT32_MAX)
        return -EOVERFLOW;
    rc = id_list_copy(&out->isr, room, most + 1);
    if (rc == 0)
        rc = id_list_copy(&out->elr, room, most);
    if (rc != 0) {
        partition_state_free(out);
        return rc;
    }
    out->isr.count = out->elr.count = 0;
    out->controller_epoch = view->epoch;
    out->leader_epoch = old->leader_epoch + 1;
    out->leader = first_eligible(view, replicas, &old->isr);
    if (out->leader < 0)
        out->leader = first_eligible(view, replicas, &old->elr);
    if (out->leader < 0) {
        add_ids(&out->isr, &old->isr, &out->elr);
        add_ids(&out->elr, &old->elr, &out->isr);
        return 0;
    }
    shrink_isr(view, replicas, out, old);
    if (out->isr.count < min_insync) {
        add_ids(&out->elr, &old->elr, &out->isr);
        add_ids(&out->elr, &old->isr, &out->isr);
    }
    return 0;
}

int controller_prefer(const struct controller_view *view,
                      const struct id_list *replicas, const struct partition_state *old,
                      struct partition_state *out)
{
    int32_t preferred = replicas->count > 0 ? replicas->ids[0] : -1;
    int rc;

    partition_state_init(out);
    if (preferred >= 0 && old->leader == preferred)
        return 0;
    if (!live(view, preferred) || !id_list_contains(&old->isr, preferred))
        return E_NO_LEADER;
    if (old->leader_epoch == INT32_MAX)
        return -EOVERFLOW;
    rc = partition_state_copy(out, old);
    if (rc != 0)
        return rc;
    out->controller_epoch = view->epoch;
    out->leader = preferred;
    out->leader_epoch = old->leader_epoch + 1;
    return 1;
}

int32_t controller_recovered_epoch(int64_t wall_ms)
{
    int64_t seconds = wall_ms / 1000 - EPOCH_2025_S;

    if (seconds < 1)
        return 1;
    return seconds > INT32_MAX - 1 ? INT32_MAX - 1 : (int32_t)seconds;
}
