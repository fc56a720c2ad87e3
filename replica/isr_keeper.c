#include "replica/isr_keeper.h"

#include "replica/broker_internal.h"
#include "replica/partition_replica.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
    TICK_MS = 500,
    GATHER_MS = 5, /* a wake waits so long for others */
    DEAD_MAX = 8,
};

struct isr_keeper {
    struct isr_keeper_params params; /* [const] */
    pthread_t thread;                /* [start and stop] */

    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool woken;                               /* [lock] */
    bool stopping;                            /* [lock] */
    struct broker_incarnation dead[DEAD_MAX]; /* [lock] to report */
    unsigned dead_count;                      /* [lock] */
};

/* [lock] One that is woken gathers for a while already. */
static void wake(struct isr_keeper *keeper)
{
    if (!keeper->woken) {
        keeper->woken = true;
        pthread_cond_signal(&keeper->cond);
    }
}

void isr_keeper_wake(struct isr_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    wake(keeper);
    pthread_mutex_unlock(&keeper->lock);
}

void isr_keeper_dead(struct isr_keeper *keeper, int32_t broker, int64_t broker_epoch)
{
    pthread_mutex_lock(&keeper->lock);
    bool listed = keeper->dead_count == DEAD_MAX;
    for (unsigned i = 0; i < keeper->dead_count; i++) {
        listed = listed || keeper->dead[i].id == broker;
    }
    if (!listed) {
        keeper->dead[keeper->dead_count++] =
            (struct broker_incarnation){.id = broker, .epoch = broker_epoch};
    }
    wake(keeper);
    pthread_mutex_unlock(&keeper->lock);
}

/* ---- in-sync replicas ---------------------------------------------------------------
 */

static enum isr_result commit(struct isr_keeper *keeper, struct partition *partition,
                              const struct isr_proposal *proposal, int64_t *revision)
{
    struct broker_incarnation joining[CORE_REPLICAS_MAX];
    for (uint32_t i = 0; i < proposal->joined_count; i++) {
        joining[i] = (struct broker_incarnation){
            .id = proposal->joined[i].id, .epoch = proposal->joined[i].broker_epoch};
    }
    int rc =
        cluster_change_isr(keeper->params.cluster, &partition->topic_id,
                           partition->index, proposal->state_revision, &proposal->state,
                           joining, proposal->joined_count, revision);
    switch (rc) {
    case 0:
        return ISR_STORED;
    case E_OUTCOME_UNKNOWN:
        return ISR_UNKNOWN;
    default:
        return ISR_CONFLICT;
    }
}

/* One change per partition and round: what it leaves to do shows in the next. */
static void look_after(struct isr_keeper *keeper, struct partition *partition,
                       bool silent)
{
    struct isr_proposal proposal;
    partition_set_silent(partition, silent);
    partition_end_start(partition);
    broker_repair(keeper->params.broker, partition);
    if (!partition_isr_propose(partition, &proposal)) {
        return;
    }
    int64_t revision = 0;
    enum isr_result result = commit(keeper, partition, &proposal, &revision);
    partition_isr_outcome(partition, &proposal, result, revision);
    if (result != ISR_STORED) {
        diag(DIAG_DEBUG, "%s: in-sync replicas not changed yet", partition->name);
    }
}

/* What can't be stored now is tried again in the next round. */
static void record_loss(struct isr_keeper *keeper, struct partition *partition)
{
    struct partition_loss loss;
    if (!partition_loss_get(partition, &loss)) {
        return;
    }
    int rc = cluster_record_loss(keeper->params.cluster, &partition->topic_id,
                                 partition->index, &loss);
    if (rc == 0 || rc == E_UNKNOWN_TOPIC) {
        partition_loss_recorded(partition, &loss);
    } else {
        diag(DIAG_DEBUG, "%s: what was lost is not on record yet: %s", partition->name,
             err_text(rc));
    }
}

/* The snapshots that came since the last round were given to the partitions: what was
 * refused then may be tried again. */
static void look_after_all(struct isr_keeper *keeper, bool silent, bool reread)
{
    size_t count = 0;
    struct partition **list = NULL;
    if (reread) {
        broker_give_way(keeper->params.broker);
    }
    (void)broker_partitions(keeper->params.broker, &list, &count);
    for (size_t i = 0; i < count; i++) {
        if (reread) {
            partition_isr_reread(list[i]);
            record_loss(keeper, list[i]);
        }
        look_after(keeper, list[i], silent);
        partition_unref(list[i]);
    }
    free(list);
}

/* ---- the dead -----------------------------------------------------------------------
 */

static void report(struct isr_keeper *keeper, const struct broker_incarnation *dead)
{
    int rc = cluster_report_dead(keeper->params.cluster, dead->id, dead->epoch);
    if (rc == 0) {
        diag(DIAG_INFO, "node %d refuses connections: its registration is ended",
             dead->id);
    } else if (rc != E_CONFLICT) {
        diag(DIAG_DEBUG, "node %d refuses connections: left to its session: %s",
             dead->id, err_text(rc));
    }
}

/* ---- the thread ---------------------------------------------------------------------
 */

/* Has the session's deadline passed? *left_ms: when to look again. */
static bool is_silent(struct isr_keeper *keeper, int64_t *left_ms)
{
    struct cluster_session session;
    int64_t now_ns = keeper->params.clock->mono_ns(keeper->params.clock);
    cluster_session(keeper->params.cluster, &session);
    *left_ms = TICK_MS;
    if (session.lost || session.deadline_ns <= now_ns) {
        return true;
    }
    int64_t left = (session.deadline_ns - now_ns) / 1000000 + 1;
    *left_ms = left < TICK_MS ? left : TICK_MS;
    return false;
}

static void add_ms(struct timespec *time, int64_t ms)
{
    time->tv_sec += ms / 1000;
    time->tv_nsec += ms % 1000 * 1000000;
    if (time->tv_nsec >= 1000000000) {
        time->tv_sec++;
        time->tv_nsec -= 1000000000;
    }
}

/* [lock] Until a wake or the time; wakes that come close together are one. */
static void sleep_for(struct isr_keeper *keeper, int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    add_ms(&until, ms);
    int rc = 0;
    while (!keeper->woken && !keeper->stopping && rc == 0) {
        rc = pthread_cond_timedwait(&keeper->cond, &keeper->lock, &until);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    add_ms(&until, GATHER_MS);
    rc = keeper->woken ? 0 : 1;
    while (!keeper->stopping && rc == 0) {
        rc = pthread_cond_timedwait(&keeper->cond, &keeper->lock, &until);
    }
    keeper->woken = false;
}

static void *keeper_main(void *arg)
{
    struct isr_keeper *keeper = arg;
    int64_t reread_ms = 0;
    int64_t left_ms = TICK_MS;
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->stopping) {
        sleep_for(keeper, left_ms);
        if (keeper->stopping) {
            break;
        }
        struct broker_incarnation dead = {.id = -1};
        if (keeper->dead_count > 0) {
            dead = keeper->dead[--keeper->dead_count];
        }
        keeper->woken = keeper->dead_count > 0;
        pthread_mutex_unlock(&keeper->lock);
        if (dead.id >= 0) {
            report(keeper, &dead);
        }
        bool silent = is_silent(keeper, &left_ms);
        int64_t now_ms = clock_mono_ms(keeper->params.clock);
        bool reread = now_ms - reread_ms >= TICK_MS;
        reread_ms = reread ? now_ms : reread_ms;
        look_after_all(keeper, silent, reread);
        pthread_mutex_lock(&keeper->lock);
    }
    pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

int isr_keeper_start(const struct isr_keeper_params *params, struct isr_keeper **out)
{
    struct isr_keeper *keeper = calloc(1, sizeof *keeper);
    pthread_condattr_t attributes;
    *out = NULL;
    if (!keeper) {
        return -ENOMEM;
    }
    keeper->params = *params;
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper->cond, &attributes);
    pthread_condattr_destroy(&attributes);
    int rc = pthread_create(&keeper->thread, NULL, keeper_main, keeper);
    if (rc) {
        pthread_cond_destroy(&keeper->cond);
        pthread_mutex_destroy(&keeper->lock);
        free(keeper);
        return -rc;
    }
    *out = keeper;
    return 0;
}

void isr_keeper_stop(struct isr_keeper *keeper)
{
    if (!keeper) {
        return;
    }
    pthread_mutex_lock(&keeper->lock);
    keeper->stopping = true;
    pthread_cond_signal(&keeper->cond);
    pthread_mutex_unlock(&keeper->lock);
    pthread_join(keeper->thread, NULL);
    pthread_cond_destroy(&keeper->cond);
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}
