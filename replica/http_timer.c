#include "replica/http_timer.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

struct http_timers {
    const struct clock *clock; /* [const] */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct http_timer *list; /* [lock] earliest first */
    int64_t wakes_at_ms; /* [lock] the thread looks at the list then, if not before */
    bool hastened;       /* [lock] */
    bool stopping;       /* [lock] */
};

enum { WAIT_MAX_MS = 60000 };

/* [lock] Until the first is due. The condition's clock stops during suspend and the
 * deadlines' does not: they are looked at again once a minute. */
static void wait_for_change(struct http_timers *timers)
{
    struct timespec until;
    int64_t now_ms = clock_mono_ms(timers->clock);
    int64_t wait_ms = WAIT_MAX_MS;

    if (timers->list != NULL && timers->list->due_ms - now_ms < wait_ms)
        wait_ms = timers->list->due_ms - now_ms;
    timers->wakes_at_ms = now_ms + wait_ms;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += wait_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&timers->changed, &timers->lock, &until);
}

static void *timers_run(void *arg)
{
    struct http_timers *timers = arg;

    (void)pthread_mutex_lock(&timers->lock);
    while (!timers->stopping || timers->list != NULL) {
        struct http_timer *timer = timers->list;

        if (timer == NULL ||
            (!timers->hastened && timer->due_ms > clock_mono_ms(timers->clock))) {
            wait_for_change(timers);
            continue;
        }
        DL_DELETE(timers->list, timer);
        timer->armed = false;
        (void)pthread_mutex_unlock(&timers->lock);
        timer->fire(timer);
        (void)pthread_mutex_lock(&timers->lock);
    }
    (void)pthread_mutex_unlock(&timers->lock);
    return NULL;
}

int http_timers_start(const struct clock *clock, struct http_timers **out)
{
    struct http_timers *timers = calloc(1, sizeof *timers);
    pthread_condattr_t attributes;
    int rc;

    if (timers == NULL)
        return -ENOMEM;
    timers->clock = clock;
    timers->wakes_at_ms = INT64_MAX;
    (void)pthread_mutex_init(&timers->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&timers->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    rc = pthread_create(&timers->thread, NULL, timers_run, timers);
    if (rc != 0) {
        (void)pthread_cond_destroy(&timers->changed);
        (void)pthread_mutex_destroy(&timers->lock);
        free(timers);
        return -rc;
    }
    *out = timers;
    return 0;
}

void http_timers_stop(struct http_timers *timers)
{
    if (timers == NULL)
        return;
    (void)pthread_mutex_lock(&timers->lock);
    timers->stopping = true;
    timers->hastened = true;
    (void)pthread_cond_signal(&timers->changed);
    (void)pthread_mutex_unlock(&timers->lock);
    (void)pthread_join(timers->thread, NULL);
    (void)pthread_cond_destroy(&timers->changed);
    (void)pthread_mutex_destroy(&timers->lock);
    free(timers);
}

/* [lock] Most deadlines are later than those that are there: looks from the end. */
static void insert(struct http_timers *timers, struct http_timer *timer)
{
    struct http_timer *before = timers->list == NULL ? NULL : timers->list->prev;

    while (before != NULL && before->due_ms > timer->due_ms)
        before = before == timers->list ? NULL : before->prev;
    if (before == NULL)
        DL_PREPEND(timers->list, timer);
    else
        DL_APPEND_ELEM(timers->list, before, timer);
}

void http_timers_arm(struct http_timers *timers, struct http_timer *timer,
                     int64_t due_ms)
{
    (void)pthread_mutex_lock(&timers->lock);
    timer->due_ms = due_ms;
    timer->armed = true;
    insert(timers, timer);
    /* Most are cancelled before they are due: the thread then wakes once for all that
     * came after the one that it waits for, instead of once for each. */
    if (due_ms < timers->wakes_at_ms) {
        timers->wakes_at_ms = due_ms;
        (void)pthread_cond_signal(&timers->changed);
    }
    (void)pthread_mutex_unlock(&timers->lock);
}

bool http_timers_cancel(struct http_timers *timers, struct http_timer *timer)
{
    bool armed;

    (void)pthread_mutex_lock(&timers->lock);
    armed = timer->armed;
    if (armed) {
        DL_DELETE(timers->list, timer);
        timer->armed = false;
    }
    (void)pthread_mutex_unlock(&timers->lock);
    return armed;
}

void http_timers_hasten(struct http_timers *timers)
{
    (void)pthread_mutex_lock(&timers->lock);
    timers->hastened = true;
    (void)pthread_cond_signal(&timers->changed);
    (void)pthread_mutex_unlock(&timers->lock);
}
