/*
 * Deadlines of the HTTP server: one thread that calls what is due.
 *
 *     http_timers_start(clock, &timers);
 *     http_timers_arm(timers, &timer, now_ms + 500);
 *     if (http_timers_cancel(timers, &timer)) ... it did not and will not fire ...
 *     http_timers_hasten(timers);      // everything is due, now and from now on
 *     http_timers_stop(timers);
 *
 * Any thread, from within fire() too. A timer is embedded in what it belongs to, which
 * must outlive it: whoever arms one holds a reference for it, that fire(), or who
 * cancels, gives up.
 */
#ifndef TOPICFS_HTTP_TIMER_H
#define TOPICFS_HTTP_TIMER_H

#include "coord/coord.h"

#include <stdbool.h>
#include <stdint.h>

struct http_timers;

struct http_timer {
    /* On the timers' thread, no lock held; must not block. */
    void (*fire)(struct http_timer *timer);
    /* private: [timers->lock] */
    int64_t due_ms;
    bool armed;
    struct http_timer *prev, *next;
};

int http_timers_start(const struct clock *clock, struct http_timers **out);
/* Nothing may be armed any more. NULL is fine. */
void http_timers_stop(struct http_timers *timers);

/* `due_ms` as clock_mono_ms(). The timer must not be armed. */
void http_timers_arm(struct http_timers *timers, struct http_timer *timer,
                     int64_t due_ms);
/* true: it was armed, and is not any more. false: it fires, has fired, or never was. */
bool http_timers_cancel(struct http_timers *timers, struct http_timer *timer);
void http_timers_hasten(struct http_timers *timers);

#endif
