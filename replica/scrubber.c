#include "replica/scrubber.h"

#include "replica/broker_internal.h"

#include <stdlib.h>

enum {
    STEP_BYTES = 1 << 20,
    STEP_PAUSE_MS = 32, /* 32 MiB/s at most */
    TICK_MS = 1000,
    FIRST_MS = 10 * 60 * 1000, /* after a start that found all in order */
};
static const int64_t round_ms = INT64_C(7) * 24 * 60 * 60 * 1000;

struct scrubber {
    struct broker *broker; /* [const] */
    pthread_t thread;      /* [start and stop] */
    int64_t due_ms;        /* [the thread] the next round begins; monotonic */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping; /* [lock] */
};

/* false: the end of the node is wanted. */
static bool pause_for(struct scrubber *scrubber, int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int rc = 0;
    pthread_mutex_lock(&scrubber->lock);
    while (!scrubber->stopping && rc == 0) {
        rc = pthread_cond_timedwait(&scrubber->wake, &scrubber->lock, &until);
    }
    bool on = !scrubber->stopping;
    pthread_mutex_unlock(&scrubber->lock);
    return on;
}

/* ---- one log ------------------------------------------------------------------------
 */

struct scrub {
    struct scrubber *scrubber;
    struct partition *partition;
    bool ended; /* the node stops, or the partition needs it no more */
    int64_t next_position;
};

static bool is_wanted(struct scrub *scrub)
{
    struct partition_status status;
    partition_status_get(scrub->partition, &status);
    return !status.deleted && !status.offline && !atomic_load(&scrub->partition->unfit);
}

/* What can't be read is passed over with the rest of its segment: it is known now. */
static int read_range(struct scrub *scrub, int64_t position, int64_t end)
{
    struct log_bounds bounds;
    log_bounds_get(scrub->partition->log, &bounds);
    int rc = 0;
    while (rc == 0 && position < end && !scrub->ended) {
        struct extent extent;
        rc = log_read(scrub->partition->log, position, STEP_BYTES, end, bounds.rewrites,
                      &extent);
        bool more = rc == 0 && extent.length > 0;
        position += more ? (int64_t)extent.length : 0;
        extent_release(&extent);
        scrub->ended = !pause_for(scrub->scrubber, STEP_PAUSE_MS) || !is_wanted(scrub);
        if (!more) {
            break;
        }
    }
    return scrub->ended;
}

static int read_segment(void *arg, const struct log_segment_info *info)
{
    struct scrub *scrub = arg;
    scrub->next_position = info->position + info->size;
    return info->damaged ? 0 : read_range(scrub, info->position, scrub->next_position);
}

/* true: go on with the next one. */
static bool scrub_log(struct scrubber *scrubber, struct partition *partition)
{
    struct log_bounds bounds;
    struct scrub scrub = {.scrubber = scrubber, .partition = partition};
    log_bounds_get(partition->log, &bounds);
    scrub.next_position = bounds.start.position;
    if (log_each_segment(partition->log, read_segment, &scrub) == 0) {
        (void)read_range(&scrub, scrub.next_position, bounds.end.position);
    }
    return pause_for(scrubber, 0);
}

/* ---- the thread ---------------------------------------------------------------------
 */

/* Only keys are kept over a round: no log that is deleted meanwhile has to wait. */
static struct partition_key *all_keys(struct broker *broker, size_t *count)
{
    struct partition **list = NULL;
    (void)broker_partitions(broker, &list, count);
    struct partition_key *keys = *count ? calloc(*count, sizeof *keys) : NULL;
    for (size_t i = 0; i < *count; i++) {
        if (keys) {
            partition_key_init(&keys[i], &list[i]->topic_id, list[i]->index);
        }
        partition_unref(list[i]);
    }
    free(list);
    *count = keys ? *count : 0;
    return keys;
}

static void scrub_all(struct scrubber *scrubber)
{
    size_t count = 0;
    bool on = true;
    struct partition_key *keys = all_keys(scrubber->broker, &count);
    for (size_t i = 0; i < count && on; i++) {
        struct partition *partition =
            broker_partition(scrubber->broker, &keys[i].topic_id, keys[i].index);
        on = !partition || scrub_log(scrubber, partition);
        partition_unref(partition);
    }
    free(keys);
}

static void *scrubber_main(void *arg)
{
    struct scrubber *scrubber = arg;
    while (pause_for(scrubber, TICK_MS)) {
        int64_t now_ms = clock_mono_ms(&clock_real);
        if (now_ms >= scrubber->due_ms && !broker_is_opening(scrubber->broker)) {
            scrubber->due_ms = now_ms + round_ms;
            scrub_all(scrubber);
        }
    }
    return NULL;
}

int scrubber_start(struct broker *broker, bool crashed, struct scrubber **out)
{
    struct scrubber *scrubber = calloc(1, sizeof *scrubber);
    pthread_condattr_t attributes;
    *out = NULL;
    if (!scrubber) {
        return -ENOMEM;
    }
    scrubber->broker = broker;
    scrubber->due_ms = clock_mono_ms(&clock_real) + (crashed ? 0 : FIRST_MS);
    pthread_mutex_init(&scrubber->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&scrubber->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    int rc = -pthread_create(&scrubber->thread, NULL, scrubber_main, scrubber);
    if (rc) {
        pthread_cond_destroy(&scrubber->wake);
        pthread_mutex_destroy(&scrubber->lock);
        free(scrubber);
        return rc;
    }
    *out = scrubber;
    return 0;
}

void scrubber_stop(struct scrubber *scrubber)
{
    if (!scrubber) {
        return;
    }
    pthread_mutex_lock(&scrubber->lock);
    scrubber->stopping = true;
    pthread_cond_signal(&scrubber->wake);
    pthread_mutex_unlock(&scrubber->lock);
    pthread_join(scrubber->thread, NULL);
    pthread_cond_destroy(&scrubber->wake);
    pthread_mutex_destroy(&scrubber->lock);
    free(scrubber);
}
