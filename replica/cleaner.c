#include "replica/cleaner.h"

#include "replica/compact.h"
#include "replica/key_map.h"
#include "replica/partition_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uthash.h>

enum { TICK_MS = 1000, RETRY_MS = 60 * 1000 };

/* What the cleaner remembers of a log, so that an idle one costs nothing. */
struct cleaner_log {
    char name[TOPIC_NAME_MAX + 16];
    struct topic_id topic_id;
    int64_t looked_end; /* high watermark and rewrites when it was looked at */
    uint64_t looked_rewrites;
    struct compact_look look;
    int64_t retry_ms; /* it failed: not before this time (monotonic) */
    bool seen;        /* in this round */
    UT_hash_handle hh;
};

struct cleaner {
    struct cleaner_params params; /* [const] */
    struct cleaner_log *logs;     /* [cleaner thread] */
    pthread_t thread;             /* [const] */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping; /* [lock] */
};

struct job {
    struct cleaner *cleaner;
    struct partition *partition;
    struct topic_config config;
    int64_t high_watermark;
};

static bool is_stopping(struct cleaner *cleaner)
{
    pthread_mutex_lock(&cleaner->lock);
    bool stopping = cleaner->stopping;
    pthread_mutex_unlock(&cleaner->lock);
    return stopping;
}

/* Also called with the append lock held. */
static bool give_up(void *arg)
{
    struct job *job = arg;
    if (is_stopping(job->cleaner))
        return true;
    pthread_mutex_lock(&job->partition->lock);
    bool refused = partition_refusal(job->partition) != 0;
    pthread_mutex_unlock(&job->partition->lock);
    return refused;
}

/* Whether the partition's log is to be compacted at all. */
static bool prepare(struct cleaner *cleaner, struct partition *partition,
                    struct job *job)
{
    *job = (struct job){.cleaner = cleaner, .partition = partition};
    pthread_mutex_lock(&partition->lock);
    job->config = partition->config;
    job->high_watermark = partition->high_watermark.offset;
    bool wanted = !partition_refusal(partition) &&
                  (partition->config.cleanup_policy & CLEANUP_COMPACT) &&
                  partition->config.key_delimiter != KEY_DELIMITER_NONE;
    pthread_mutex_unlock(&partition->lock);
    return wanted;
}

/* ---- what is remembered -------------------------------------------------------------
 */

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static struct cleaner_log *log_of(struct cleaner *cleaner,
                                  const struct partition *partition)
{
    struct cleaner_log *log = NULL;
    HASH_FIND_STR(cleaner->logs, partition->name, log);
    if (log != NULL && topic_id_equal(&log->topic_id, &partition->topic_id))
        return log;
    if (log == NULL) {
        log = calloc(1, sizeof *log);
        if (log == NULL)
            return NULL;
        memcpy(log->name, partition->name, sizeof log->name);
        HASH_ADD_STR(cleaner->logs, name, log);
    }
    log->topic_id = partition->topic_id; /* made again under the same name */
    log->looked_end = -1;
    log->retry_ms = 0;
    return log;
}

/* Drops what is remembered of logs that are gone. */
// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void forget(struct cleaner *cleaner)
{
    struct cleaner_log *log = cleaner->logs;
    while (log != NULL) {
        struct cleaner_log *next = log->hh.next;
        bool gone = !log->seen;
        log->seen = false;
        if (gone) {
            if (log->retry_ms != 0)
                problems_clear(cleaner->params.problems, "compaction", log->name);
            // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): neighbours are unlinked first
            HASH_DEL(cleaner->logs, log);
            free(log);
        }
        log = next;
    }
}

static void failed(struct cleaner *cleaner, struct cleaner_log *log, int rc)
{
    char what[256];
    if (rc == -ECANCELED || rc == -ESTALE || rc == -EAGAIN)
        return; /* the segments changed, or the partition went: looked at again */
    (void)snprintf(what, sizeof what, "not compacted: %s", err_text(rc));
    problems_set(cleaner->params.problems, "compaction", log->name, what,
                 rc == E_DAMAGED ? "run topicfs check --repair with the node stopped"
                 : rc == -ENOSPC ? "make room; it is tried again by itself"
                                 : "it is tried again by itself");
    log->retry_ms = clock_mono_ms(cleaner->params.clock) + RETRY_MS;
    log->looked_end = -1;
}

/* ---- which one ----------------------------------------------------------------------
 */

static int look(struct job *job, struct cleaner_log *log)
{
    struct log_bounds bounds;
    log_bounds_get(job->partition->log, &bounds);
    if (log->looked_end == job->high_watermark &&
        log->looked_rewrites == bounds.rewrites)
        return 0;
    int rc = compact_look(job->partition->log, job->high_watermark, &log->look);
    if (rc == 0) {
        log->looked_end = job->high_watermark;
        log->looked_rewrites = bounds.rewrites;
    }
    return rc;
}

/* 0 = not due; else how dirty it is, in thousandths. */
static int64_t urgency(const struct compact_look *look, int64_t now_ms)
{
    int64_t bytes = look->clean_bytes + look->dirty_bytes;
    int64_t dirty = bytes > 0 ? look->dirty_bytes * 1000 / bytes : 0;
    if (dirty >= 500)
        return dirty;
    return look->tombstones_ms <= now_ms ? dirty + 1 : 0;
}

/* The most urgent log; *partition NULL: none is due. */
static void choose(struct cleaner *cleaner, struct partition **list, size_t count,
                   struct job *out)
{
    const struct clock *clock = cleaner->params.clock;
    int64_t most = 0;
    *out = (struct job){.partition = NULL};
    for (size_t i = 0; i < count; i++) {
        struct job job;
        struct cleaner_log *log =
            prepare(cleaner, list[i], &job) ? log_of(cleaner, list[i]) : NULL;
        if (log == NULL)
            continue;
        log->seen = true;
        if (log->retry_ms > clock_mono_ms(clock))
            continue;
        int rc = look(&job, log);
        if (rc != 0) {
            failed(cleaner, log, rc);
            continue;
        }
        int64_t how = urgency(&log->look, clock->wall_ms(clock));
        if (how > most) {
            most = how;
            *out = job;
        }
    }
    forget(cleaner);
}

/* ---- the thread ---------------------------------------------------------------------
 */

static bool compact(struct cleaner *cleaner, struct job *job)
{
    struct compact_result result;
    struct cleaner_log *log = log_of(cleaner, job->partition);
    const struct compact_params params = {
        .log = job->partition->log,
        .high_watermark = job->high_watermark,
        .delimiter = (int)job->config.key_delimiter,
        .segment_bytes = job->config.segment_bytes,
        .now_ms = cleaner->params.clock->wall_ms(cleaner->params.clock),
        .map_bytes = KEY_MAP_BYTES,
        .append_lock = &job->partition->append_lock,
        .give_up = give_up,
        .arg = job,
    };
    if (log == NULL)
        return false;
    int rc = compact_run(&params, &result);
    log->looked_end = -1;
    if (rc != 0) {
        failed(cleaner, log, rc);
        if (rc == E_OFFLINE)
            partition_fail(job->partition, rc);
        return false;
    }
    if (log->retry_ms != 0)
        problems_clear(cleaner->params.problems, "compaction", log->name);
    log->retry_ms = 0;
    diag(DIAG_DEBUG, "%s: compacted %lld bytes to %lld", log->name,
         (long long)result.bytes_before, (long long)result.bytes_after);
    return true;
}

/* One log at most; true: it was compacted, and there may be more to do. */
static bool clean_one(struct cleaner *cleaner)
{
    size_t count = 0;
    struct job job;
    struct partition **list = cleaner->params.partitions(cleaner->params.arg, &count);
    choose(cleaner, list, count, &job);
    bool done = job.partition != NULL && compact(cleaner, &job);
    for (size_t i = 0; i < count; i++)
        partition_unref(list[i]);
    free(list);
    return done;
}

/* [lock] */
static void wait_for_tick(struct cleaner *cleaner)
{
    struct timespec until;
    int64_t tick_ms = cleaner->params.tick_ms > 0 ? cleaner->params.tick_ms : TICK_MS;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += tick_ms / 1000;
    until.tv_nsec += tick_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&cleaner->wake, &cleaner->lock, &until);
}

static void *cleaner_main(void *arg)
{
    struct cleaner *cleaner = arg;
    pthread_mutex_lock(&cleaner->lock);
    while (!cleaner->stopping) {
        wait_for_tick(cleaner);
        while (!cleaner->stopping) {
            pthread_mutex_unlock(&cleaner->lock);
            bool again = clean_one(cleaner);
            pthread_mutex_lock(&cleaner->lock);
            if (!again)
                break;
        }
    }
    pthread_mutex_unlock(&cleaner->lock);
    return NULL;
}

int cleaner_start(const struct cleaner_params *params, struct cleaner **out)
{
    pthread_condattr_t attributes;
    struct cleaner *cleaner = calloc(1, sizeof *cleaner);
    *out = NULL;
    if (cleaner == NULL)
        return -ENOMEM;
    cleaner->params = *params;
    pthread_mutex_init(&cleaner->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&cleaner->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    int rc = -pthread_create(&cleaner->thread, NULL, cleaner_main, cleaner);
    if (rc != 0) {
        pthread_cond_destroy(&cleaner->wake);
        pthread_mutex_destroy(&cleaner->lock);
        free(cleaner);
        return rc;
    }
    *out = cleaner;
    return 0;
}

void cleaner_stop(struct cleaner *cleaner)
{
    if (cleaner == NULL)
        return;
    pthread_mutex_lock(&cleaner->lock);
    cleaner->stopping = true;
    pthread_cond_signal(&cleaner->wake);
    pthread_mutex_unlock(&cleaner->lock);
    pthread_join(cleaner->thread, NULL);
    forget(cleaner); /* the last round left none of them seen */
    pthread_cond_destroy(&cleaner->wake);
    pthread_mutex_destroy(&cleaner->lock);
    free(cleaner);
}
