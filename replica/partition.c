#include "replica/partition_internal.h"
#include "replica/partition_replica.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct partition *partition_ref(struct partition *partition)
{
    atomic_fetch_add_explicit(&partition->references, 1, memory_order_relaxed);
    return partition;
}

void partition_unref(struct partition *partition)
{
    if (partition && atomic_fetch_sub_explicit(&partition->references, 1,
                                               memory_order_acq_rel) == 1) {
        partition->on_last_unref(partition->on_last_unref_arg, partition);
    }
}

static void report_damage(void *arg, const struct log_damage *damage)
{
    struct partition *partition = arg;
    char what[512];
    (void)snprintf(what, sizeof what, "%s: offsets %lld to %lld can't be served",
                   damage->what, (long long)damage->first_offset,
                   (long long)damage->end_offset - 1);
    bool shared = partition->observer && !partition->copy;
    problems_set(partition->problems, "damaged", damage->file, what,
                 shared ? "nothing, where other replicas are in sync: it is fetched "
                          "anew from them; else unmount and run topicfs check --repair "
                          "on the data directory"
                        : "unmount and run topicfs check --repair on the data "
                          "directory");
    if (damage->end_offset > damage->first_offset) {
        atomic_store(&partition->damaged, true);
    }
}

static void find_registrations(const struct cluster_snapshot *snapshot,
                               const struct partition_info *info, int64_t *out)
{
    for (uint32_t i = 0; i < info->replica_count; i++) {
        const struct broker_info *broker =
            cluster_snapshot_broker(snapshot, info->replicas[i]);
        out[i] = broker ? broker->epoch : 0;
    }
}

/* [partition->lock or not yet shared] */
static void set_leadership(struct partition *partition,
                           const struct cluster_snapshot *snapshot,
                           const struct topic *topic)
{
    const struct partition_info *info = &topic->partitions[partition->index];
    int64_t registrations[CORE_REPLICAS_MAX];
    struct leadership state;
    partition_info_leadership(info, &state);
    find_registrations(snapshot, info, registrations);
    const struct core_leadership leadership = {
        .state = &state,
        .revision = info->state_revision,
        .replicas = info->replicas,
        .registrations = registrations,
        .replica_count = info->replica_count,
        .own_broker_epoch = snapshot->self_epoch,
        .now_ms = clock_mono_ms(partition->clock),
    };
    /* Without a registration this node leads nothing. */
    bool lost = snapshot->self_epoch < 0;
    if (lost != (partition->core.session == SESSION_LOST)) {
        core_set_session(&partition->core, lost ? SESSION_LOST : SESSION_GOOD);
    }
    int rc = core_lead(&partition->core, &leadership);
    if (rc && rc != E_FENCED_EPOCH) {
        diag(DIAG_ERROR, "%s: leadership of epoch %d refused: %s", partition->name,
             info->leader_epoch, err_text(rc));
    }
    (void)partition_note_unfit(partition);
}

static bool has_others(const struct partition_params *params)
{
    return params->observer && !params->copy &&
           params->topic->partitions[params->index].replica_count > 1;
}

/* What a crash of the machine took of a log that counts before it is flushed: others
 * have it, or one of them has the most of it. Here it is not damage. */
static bool may_lack_its_end(const struct partition_params *params)
{
    return params->recovery == LOG_MACHINE_CRASHED && has_others(params) &&
           params->topic->config.flush != FLUSH_ACK;
}

static int open_log(struct partition *partition, const struct partition_params *params)
{
    const struct log_params log_params = {
        .disk = params->disk,
        .files = params->files,
        .clock = params->clock,
        .dir = params->dir,
        .may_create = params->may_create,
        .topic_id = params->topic->id,
        .config = &params->topic->config,
        .recovery = params->recovery,
        .log_start_offset = params->log_start_offset,
        .flushed_offset = params->flushed_offset,
        .high_watermark = may_lack_its_end(params) ? -1 : params->high_watermark,
        .log_end_offset = may_lack_its_end(params) ? -1 : params->log_end_offset,
        .on_damage = report_damage,
        .arg = partition,
    };
    return log_open(&log_params, &partition->log);
}

/*
 * What the log holds after recovery counts as flushed only if recovery saw to it: a
 * clean stop flushed everything, a crashed process left its page cache, which recovery
 * flushes. After a machine crash what survived came from the disk.
 */
static void set_places(struct partition *partition,
                       const struct partition_params *params)
{
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    partition->end = bounds.end;
    partition->flushed = bounds.end;
    partition->last_append_ms = bounds.last_timestamp_ms;
    int64_t committed = params->high_watermark;
    if (committed < bounds.start.offset) {
        committed = bounds.start.offset;
    }
    if (committed > bounds.end.offset) {
        committed = bounds.end.offset;
    }
    partition->high_watermark = bounds.start;
    atomic_store(&partition->on_disk, params->flushed_offset > params->high_watermark
                                          ? params->flushed_offset
                                          : params->high_watermark);
    core_init(&partition->core, params->self, bounds.end.offset, bounds.end.offset,
              committed);
}

/* [partition->lock or not yet shared] */
static void place_high_watermark(struct partition *partition)
{
    int64_t offset = partition->core.high_watermark;
    struct log_place place = partition->end;
    if (offset == partition->high_watermark.offset) {
        return;
    }
    if (offset == partition->flushed.offset) {
        place = partition->flushed;
    } else if (offset != partition->end.offset) {
        int rc = log_find_offset(partition->log, offset, &partition->end, &place);
        if (rc) {
            diag(DIAG_ERROR, "%s: high watermark %lld can't be placed: %s",
                 partition->name, (long long)offset, err_text(rc));
            return;
        }
    }
    partition->high_watermark = place;
}

/* [partition->lock] */
static bool see(struct partition *partition)
{
    const struct partition_core *core = &partition->core;
    const struct partition_seen now = {
        .role = core->role,
        .leader = core->leader,
        .leader_epoch = core->leader_epoch,
        .revision = core->revision,
        .own_end = core->role == ROLE_FOLLOWER ? core_own_end(core) : -1,
        .synced_to = core->role == ROLE_FOLLOWER ? core_synced_to(core) : -1,
    };
    struct partition_seen *seen = &partition->seen;
    bool news = now.role != seen->role || now.leader != seen->leader ||
                now.leader_epoch != seen->leader_epoch ||
                now.revision != seen->revision || now.own_end != seen->own_end ||
                now.synced_to != seen->synced_to;
    *seen = now;
    return news;
}

/* What is known of the epoch before the log start is no entry of the log. */
static void note_start(struct partition *partition,
                       const struct partition_params *params)
{
    struct log_bounds bounds;
    log_bounds_get(partition->log, &bounds);
    if (params->start_epoch >= 0 && params->log_start_offset == bounds.start.offset) {
        epochs_follow(&partition->epochs, params->start_epoch, bounds.start.offset);
    }
}

/* An earlier process found the replica unfit and came no further: what is found now may
 * look better than it is. */
static void note_listed(struct partition *partition,
                        const struct partition_params *params)
{
    const struct suspect *suspect =
        leadership_suspect(&partition->core.state, partition->core.self);
    partition->listed =
        !params->replaced &&
        (params->unusable || (suspect && suspect->kind == SUSPECT_UNUSABLE));
    (void)partition_note_unfit(partition);
}

int partition_open(const struct partition_params *params, struct partition **out)
{
    struct partition *partition = calloc(1, sizeof *partition);
    if (!partition) {
        return -ENOMEM;
    }
    atomic_init(&partition->references, 1);
    pthread_mutex_init(&partition->dir_lock, NULL);
    pthread_mutex_init(&partition->append_lock, NULL);
    pthread_mutex_init(&partition->lock, NULL);
    (void)snprintf(partition->name, sizeof partition->name, "%s-%d",
                   params->topic->name, params->index);
    partition->topic_id = params->topic->id;
    partition->index = params->index;
    atomic_init(&partition->copy, params->copy);
    partition->clock = params->clock;
    partition->problems = params->problems;
    partition->disk = params->disk;
    partition->flusher = params->flusher;
    partition_producer_begin(partition);
    partition->unclean = params->unclean;
    partition->on_last_unref = params->on_last_unref;
    partition->on_last_unref_arg = params->on_last_unref_arg;
    partition->observer = params->observer;
    partition->observer_arg = params->observer_arg;
    partition->outbox_bytes = params->outbox_bytes;
    partition->persist = params->persist;
    partition->repairing = params->replaced;
    partition->loss = PARTITION_LOSS_NONE;
    partition->config = params->topic->config;
    partition->flush_job.run = partition_flush_run;
    partition->dir = strdup(params->dir);
    partition->producers = producer_state_new();
    int rc = partition->dir && partition->producers ? 0 : -ENOMEM;
    rc = rc ? rc : open_log(partition, params);
    if (rc) {
        goto fail;
    }
    set_places(partition, params);
    rc = partition_producers_load(partition);
    rc = rc ? rc : epochs_build(&partition->epochs, partition->log);
    if (rc) {
        goto fail;
    }
    note_start(partition, params);
    partition_remote_update(partition, params->topic);
    core_configure(&partition->core, &partition->config);
    set_leadership(partition, params->snapshot, params->topic);
    note_listed(partition, params);
    (void)core_advance(&partition->core);
    place_high_watermark(partition);
    (void)see(partition);
    if (params->recovery != LOG_CLEAN) {
        partition_begin_start(partition);
        (void)partition_led_anew(partition);
    }
    *out = partition;
    partition_tell(partition, PARTITION_CHANGED);
    return 0;
fail:
    partition_free(partition);
    return rc;
}

void partition_free(struct partition *partition)
{
    if (!partition) {
        return;
    }
    log_close(partition->log);
    producer_state_free(partition->producers);
    epochs_free(&partition->epochs);
    partition_tickets_free(partition);
    pthread_mutex_destroy(&partition->dir_lock);
    pthread_mutex_destroy(&partition->append_lock);
    pthread_mutex_destroy(&partition->lock);
    free(partition->dir);
    free(partition);
}

int partition_refusal(const struct partition *partition)
{
    if (partition->deleted) {
        return E_TOPIC_DELETED;
    }
    return partition->offline || partition->stopping ? E_OFFLINE : 0;
}

/* ---- waiters ------------------------------------------------------------------------
 */

/* A batch of a log that was begun anew. *posted: it is on its way to the leader. */
static bool doubt_is_over(struct partition *partition, struct produce_waiter *waiter,
                          bool *posted)
{
    switch (partition_doubt(partition, waiter)) {
    case DOUBT_LASTS:
        return false;
    case DOUBT_GONE:
        *posted = partition_outbox_post(partition, waiter);
        if (!*posted) {
            waiter->result = (struct produce_result){.error = E_NO_LEADER};
        }
        return !*posted;
    case DOUBT_ENDED:
        break;
    }
    return true;
}

static bool produce_is_done(struct partition *partition, struct produce_waiter *waiter,
                            bool *posted)
{
    int refusal = partition_refusal(partition);
    if (refusal) {
        waiter->result.error = refusal;
        return true;
    }
    if (waiter->cut) {
        waiter->result = (struct produce_result){.error = E_NO_LEADER};
        return true;
    }
    if (waiter->await_flush) {
        return partition_sync_is_done(partition, waiter);
    }
    if (waiter->doubtful) {
        return doubt_is_over(partition, waiter, posted);
    }
    if (waiter->result.leader_epoch < 0 && partition_hides(partition)) {
        return true; /* the leader said that it is committed; nobody can see it here */
    }
    if (waiter->remote) {
        int outcome = core_outcome(&partition->core, waiter->acks, waiter->leader_epoch,
                                   waiter->await_offset);
        waiter->result.error = outcome < 0 ? outcome : 0;
        return outcome != CORE_WAIT;
    }
    return core_acknowledged(&partition->core, waiter->acks, waiter->await_offset);
}

void partition_fail_produces(struct partition *partition, int64_t end_offset)
{
    struct produce_waiter *waiter;
    DL_FOREACH(partition->produces, waiter)
    {
        /* What another leader has committed is only to come. */
        bool sent = waiter->result.leader_epoch < 0 && !waiter->await_flush;
        waiter->cut = waiter->cut ||
                      (!waiter->doubtful && !sent && waiter->await_offset > end_offset);
    }
}

static void collect_produces(struct partition *partition, struct released *released)
{
    struct produce_waiter *produce;
    struct produce_waiter *next;
    DL_FOREACH_SAFE(partition->produces, produce, next)
    {
        bool posted = false;
        if (produce_is_done(partition, produce, &posted)) {
            partition_outbox_drop(partition, produce);
            DL_DELETE(partition->produces, produce);
            produce->parked = false;
            DL_APPEND(released->produces, produce);
        }
        released->post = released->post || posted;
    }
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): utlist's macros
static void collect_reads(struct partition *partition, struct released *released)
{
    struct read_waiter *read;
    struct read_waiter *next;
    bool refused = partition_refusal(partition) != 0;
    DL_FOREACH_SAFE(partition->reads, read, next)
    {
        if (refused || partition->high_watermark.position > read->beyond_position) {
            DL_DELETE(partition->reads, read);
            read->parked = false;
            DL_APPEND(released->reads, read);
        }
    }
}

void partition_tell(struct partition *partition, enum partition_news news)
{
    if (partition->observer) {
        partition->observer(partition->observer_arg, partition, news);
    }
}

void partition_collect(struct partition *partition, struct released *released)
{
    *released = (struct released){0};
    if (core_advance(&partition->core)) {
        place_high_watermark(partition);
    }
    if (partition->observer) {
        partition_outbox_collect(partition, released);
    }
    collect_produces(partition, released);
    collect_reads(partition, released);
    if (partition->observer) {
        partition_collect_fetches(partition, released);
        bool filled = partition_led_anew(partition);
        released->tell = see(partition) || filled;
    }
}

void partition_release(struct partition *partition, struct released *released)
{
    struct produce_waiter *produce;
    struct produce_waiter *next_produce;
    DL_FOREACH_SAFE(released->produces, produce, next_produce)
    {
        /* The waiter may be gone once done() was called. */
        const struct produce_result result = produce->result;
        produce->done(produce, &result);
    }
    struct read_waiter *read;
    struct read_waiter *next_read;
    DL_FOREACH_SAFE(released->reads, read, next_read)
    {
        read->ready(read);
    }
    struct fetch_waiter *fetch;
    struct fetch_waiter *next_fetch;
    DL_FOREACH_SAFE(released->fetches, fetch, next_fetch)
    {
        fetch->news(fetch);
    }
    if (released->tell) {
        partition_tell(partition, PARTITION_CHANGED);
    }
    if (released->post) {
        partition_tell(partition, PARTITION_WRITES);
    }
}

void partition_update(struct partition *partition,
                      const struct cluster_snapshot *snapshot,
                      const struct topic *topic)
{
    struct released released;
    pthread_mutex_lock(&partition->append_lock);
    log_reconfigure(partition->log, &topic->config);
    pthread_mutex_lock(&partition->lock);
    partition->config = topic->config;
    partition_remote_update(partition, topic);
    core_configure(&partition->core, &partition->config);
    set_leadership(partition, snapshot, topic);
    partition_collect(partition, &released);
    partition_flush_asked(partition);
    if (partition->produces || (partition->config.flush != FLUSH_OS &&
                                partition->flushed.offset < partition->end.offset)) {
        /* What another policy left, or somebody waits for, falls under this one. */
        partition_flush_soon(partition);
    }
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
}

static void end_waits(struct partition *partition, bool *flag)
{
    struct released released;
    pthread_mutex_lock(&partition->lock);
    *flag = true;
    if (partition->offline) {
        core_set_offline(&partition->core);
    }
    partition_collect(partition, &released);
    released.tell = true;
    pthread_mutex_unlock(&partition->lock);
    partition_release(partition, &released);
}

void partition_mark_deleted(struct partition *partition)
{
    end_waits(partition, &partition->deleted);
}

void partition_interrupt(struct partition *partition)
{
    end_waits(partition, &partition->stopping);
}

static bool is_deleted(struct partition *partition)
{
    pthread_mutex_lock(&partition->lock);
    bool deleted = partition->deleted;
    pthread_mutex_unlock(&partition->lock);
    return deleted;
}

bool partition_is_disk_error(int error)
{
    switch (error) {
    case E_OFFLINE:
    case -EIO:
    case -EROFS:
    case -EPERM:
    case -EACCES:
    case -ENOENT:
    case -ENOTDIR:
    case -ENODEV:
    case -ENXIO:
    case -EUCLEAN:
        return true;
    default:
        return false;
    }
}

bool partition_leave(struct partition *partition, int error)
{
    struct released released;
    char what[256];
    pthread_mutex_lock(&partition->lock);
    bool before = partition->failed;
    partition->failed = true;
    bool others = partition_note_unfit(partition);
    partition->failed = others;
    if (others) {
        partition_collect(partition, &released);
        released.tell = true;
    }
    pthread_mutex_unlock(&partition->lock);
    if (others && !before) {
        (void)snprintf(
            what, sizeof what, "the disk failed%s%s; the replica here is out of use",
            error == E_OFFLINE ? "" : ": ", error == E_OFFLINE ? "" : err_text(error));
        problems_set(partition->problems, "offline", partition->name, what,
                     "check the disk; the replica is fetched anew from the others as "
                     "soon as that works");
    }
    if (others) {
        partition_release(partition, &released);
    }
    return others;
}

void partition_fail(struct partition *partition, int error)
{
    if (is_deleted(partition)) { /* its files went away; the disk is fine */
        return;
    }
    if (partition_leave(partition, error)) {
        return;
    }
    char what[256];
    (void)snprintf(what, sizeof what, "the disk failed: %s; nothing more is written",
                   err_text(error));
    problems_set(partition->problems, "offline", partition->name, what,
                 "check the disk, then unmount and mount again");
    end_waits(partition, &partition->offline);
    if (is_deleted(partition)) { /* meanwhile */
        problems_clear(partition->problems, "offline", partition->name);
    }
}
