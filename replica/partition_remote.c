/*
 * A partition that this node keeps no replica of, or no more. Its log is a copy for
 * readers: empty until somebody asks for it, then fetched like a follower's, but as an
 * observer, whom the leader counts for nothing. When nobody has used it for some
 * minutes it is emptied again, which ends the views of it.
 */
#include "replica/partition_internal.h"
#include "replica/partition_replica.h"

bool partition_is_remote(const struct partition *partition)
{
    return atomic_load(&partition->remote);
}

static void note_use(struct partition *partition)
{
    atomic_store(&partition->used_ms, clock_mono_ms(partition->clock));
}

void partition_remote_update(struct partition *partition, const struct topic *topic)
{
    const struct partition_info *info = &topic->partitions[partition->index];
    struct partition_core *core = &partition->core;
    bool remote = partition->copy ||
                  (partition->observer &&
                   !replica_ids_list(info->replicas, info->replica_count, core->self));
    if (remote == core->remote) {
        return;
    }
    core->remote = remote;
    atomic_store(&partition->remote, remote);
    if (!partition->copy) {
        /* It was moved away from here: what is there goes on as a copy; or back. */
        core_observe(core, remote);
        atomic_store(&partition->shown, remote);
        note_use(partition);
    }
}

bool partition_observe(struct partition *partition)
{
    struct released released = {0};
    if (!partition_is_remote(partition)) {
        return !partition_is_filling(partition);
    }
    note_use(partition);
    if (atomic_load(&partition->shown)) {
        return true;
    }
    pthread_mutex_lock(&partition->lock);
    bool refused = partition_refusal(partition) != 0;
    bool begin = !refused && !partition->core.observes;
    if (begin) {
        core_observe(&partition->core, true);
        partition_collect(partition, &released);
    }
    pthread_mutex_unlock(&partition->lock);
    if (begin) {
        partition_release(partition, &released);
    }
    return refused || atomic_load(&partition->shown);
}

bool partition_observe_ended(struct partition *partition)
{
    int news = FILLED_NEWS;
    if (!partition_is_remote(partition)) {
        return atomic_compare_exchange_strong(&partition->filling, &news, FILLED);
    }
    pthread_mutex_lock(&partition->lock);
    bool ended = atomic_load(&partition->shown) || partition_refusal(partition);
    pthread_mutex_unlock(&partition->lock);
    return ended;
}

bool partition_must_catch_up(struct partition *partition)
{
    return partition_is_remote(partition) ? !atomic_load(&partition->shown)
                                          : partition_is_filling(partition);
}

bool partition_remote_caught_up(struct partition *partition, int64_t high_watermark)
{
    bool caught_up = partition_is_remote(partition) &&
                     !atomic_load(&partition->shown) &&
                     partition->high_watermark.offset >= high_watermark;
    if (caught_up) {
        atomic_store(&partition->shown, true);
    }
    return caught_up;
}

void partition_hold(struct partition *partition)
{
    if (partition) {
        atomic_fetch_add(&partition->holds, 1);
    }
}

void partition_let_go(struct partition *partition)
{
    if (partition) {
        note_use(partition);
        atomic_fetch_sub(&partition->holds, 1);
    }
}

/* [lock] */
static bool is_idle(struct partition *partition, int64_t idle_ms)
{
    int64_t now_ms = clock_mono_ms(partition->clock);
    bool unused = atomic_load(&partition->holds) == 0 && !partition->reads &&
                  now_ms - atomic_load(&partition->used_ms) >= idle_ms;
    return partition_is_remote(partition) && partition->core.observes &&
           !partition_refusal(partition) && !partition->produces &&
           !partition->outbox_writes && !partition->outbox_busy &&
           (unused || atomic_load(&partition->damaged));
}

/* [append_lock, released here] */
static bool give_up(struct partition *partition)
{
    struct released released;
    int rc = partition_begin_anew(partition, 0, -1);
    if (!rc) {
        producer_state_clear(partition->producers);
        if (atomic_exchange(&partition->damaged, false)) {
            problems_clear_below(partition->problems, "damaged", partition->name);
        }
    }
    pthread_mutex_lock(&partition->lock);
    partition_collect(partition, &released);
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
    if (rc) {
        partition_fail(partition, rc);
    }
    return !rc;
}

bool partition_remote_rest(struct partition *partition, int64_t idle_ms)
{
    if (!partition_is_remote(partition)) {
        return false;
    }
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    bool idle = is_idle(partition, idle_ms);
    if (idle) {
        atomic_store(&partition->shown, false);
        core_observe(&partition->core, false);
    }
    pthread_mutex_unlock(&partition->lock);
    if (!idle) {
        pthread_mutex_unlock(&partition->append_lock);
        return false;
    }
    return give_up(partition);
}
