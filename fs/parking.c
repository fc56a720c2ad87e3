/*
 * The states of a waiter, all changes under parking->lock:
 *
 *   OUT       not parked. parking_interrupt() only notes `hurried`.
 *   WAITING   on exactly one list. The timer takes it when due, or parking_remove()
 * ends it. GIVEN_UP  off the lists; give_up() runs or has run. Ended by
 * parking_remove() alone.
 *
 *   OUT --add--> WAITING --due, timer thread--> GIVEN_UP --remove--> OUT
 *                WAITING --remove (completed)--> OUT
 *
 * Who answers. Not decided here: a request is completed by whoever takes its count of
 * things waited for to zero (see parking.h), and each of those things is ended either
 * by its own callback or by a successful cancel, never both. So completion and give-up
 * may run at the same time, and the answer still goes out once.
 *
 * Races, and why they are harmless:
 *   - done() before parking_add(): the submitter still holds its count, so it
 * completes.
 *   - interrupt before parking_add(): `hurried` makes the add start with the grace.
 *   - give_up() beside done(): cancel tells give_up() that done() runs, and give_up()
 *     touches nothing more; the completer's parking_remove() waits until it has
 * returned.
 *   - interrupt beside the completion: the completer first ends the interrupt function
 *     (which waits for a running one), then removes, then frees.
 *   - stop beside all of them: draining only makes everything due; parking_drain()
 * waits for the last remove, so that every completion has passed.
 *
 * Interrupts don't complete anything on their own thread: they move the waiter to the
 * `hurried` list. All give-ups run on the timer thread, one after the other.
 *
 * Three lists, each sorted by due time, because the usual insertion is then at the
 * tail: deadlines (one time-out a topic), hurried (one grace), and idle (no deadline).
 */
#include "fs/parking.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

struct parking_list {
    struct parking_waiter *head, *tail;
};

struct parking {
    const struct clock *clock; /* [const] */
    pthread_t thread;          /* [const] */
    pthread_mutex_t lock;
    pthread_cond_t wake;            /* the timer has something earlier to do */
    pthread_cond_t changed;         /* a give_up returned, or a waiter was removed */
    struct parking_list deadlines;  /* [lock] */
    struct parking_list hurried;    /* [lock] */
    struct parking_list idle;       /* [lock] */
    struct parking_waiter *running; /* [lock] its give_up() runs; only compared */
    size_t count;                   /* [lock] added and not yet removed */
    int64_t wakes_at_ns;            /* [lock] the timer sleeps until then at most */
    bool draining;                  /* [lock] */
    bool ending;                    /* [lock] */
};

static int64_t now_ns(const struct parking *parking)
{
    return parking->clock->mono_ns(parking->clock);
}

static int64_t add_ms(int64_t ns, int64_t ms)
{
    if (ms > (INT64_MAX - ns) / NS_PER_MS)
        return INT64_MAX;
    return ns + ms * NS_PER_MS;
}

/* [lock] */
static void list_remove(struct parking_waiter *waiter)
{
    struct parking_list *list = waiter->list;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter->next;
    else
        list->head = waiter->next;
    if (waiter->next != NULL)
        waiter->next->prev = waiter->prev;
    else
        list->tail = waiter->prev;
    waiter->prev = NULL;
    waiter->next = NULL;
    waiter->list = NULL;
}

/* [lock] */
static void list_insert(struct parking_list *list, struct parking_waiter *waiter)
{
    struct parking_waiter *before = list->tail;
    while (before != NULL && before->due_ns > waiter->due_ns)
        before = before->prev;
    waiter->list = list;
    waiter->prev = before;
    waiter->next = before != NULL ? before->next : list->head;
    if (waiter->next != NULL)
        waiter->next->prev = waiter;
    else
        list->tail = waiter;
    if (before != NULL)
        before->next = waiter;
    else
        list->head = waiter;
}

/* [lock] Puts it where its reason belongs, and wakes the timer if that is too late. */
static void schedule(struct parking *parking, struct parking_waiter *waiter,
                     enum parking_reason reason, int64_t due_ns)
{
    struct parking_list *list = &parking->hurried;
    if (reason == PARKING_DEADLINE)
        list = due_ns == INT64_MAX ? &parking->idle : &parking->deadlines;
    waiter->reason = reason;
    waiter->due_ns = due_ns;
    list_insert(list, waiter);
    if (due_ns < parking->wakes_at_ns) {
        parking->wakes_at_ns = due_ns;
        pthread_cond_signal(&parking->wake);
    }
}

/* [lock] The waiter that is due first, NULL if none ever is. */
static struct parking_waiter *first_due(const struct parking *parking)
{
    struct parking_waiter *a = parking->hurried.head;
    struct parking_waiter *b = parking->deadlines.head;
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    return a->due_ns <= b->due_ns ? a : b;
}

/* [lock] Sleeps until due_ns on our clock, or until woken. */
static void sleep_until(struct parking *parking, int64_t due_ns)
{
    struct timespec until;
    int64_t span = due_ns - now_ns(parking);
    parking->wakes_at_ns = due_ns;
    if (due_ns == INT64_MAX) {
        pthread_cond_wait(&parking->wake, &parking->lock);
        return;
    }
    if (span <= 0)
        return;
    /* The condition counts CLOCK_MONOTONIC, which stops in suspend where our clock goes
     * on: after at most a minute we look again. */
    if (span > 60LL * NS_PER_S)
        span = 60LL * NS_PER_S;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(span / NS_PER_S);
    until.tv_nsec += (long)(span % NS_PER_S);
    if (until.tv_nsec >= NS_PER_S) {
        until.tv_nsec -= NS_PER_S;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&parking->wake, &parking->lock, &until);
}

/* [lock, released while give_up runs] */
static void give_up(struct parking *parking, struct parking_waiter *waiter)
{
    enum parking_reason reason = waiter->reason;
    list_remove(waiter);
    waiter->state = PARKING_GIVEN_UP;
    parking->running = waiter;
    pthread_mutex_unlock(&parking->lock);
    waiter->give_up(waiter, reason);
    pthread_mutex_lock(&parking->lock);
    parking->running = NULL;
    pthread_cond_broadcast(&parking->changed);
}

static void *timer_main(void *arg)
{
    struct parking *parking = arg;
    pthread_mutex_lock(&parking->lock);
    while (!parking->ending) {
        struct parking_waiter *waiter = first_due(parking);
        if (waiter != NULL && waiter->due_ns <= now_ns(parking))
            give_up(parking, waiter);
        else
            sleep_until(parking, waiter != NULL ? waiter->due_ns : INT64_MAX);
    }
    pthread_mutex_unlock(&parking->lock);
    return NULL;
}

struct parking *parking_start(const struct clock *clock)
{
    pthread_condattr_t monotonic;
    struct parking *parking = calloc(1, sizeof *parking);
    if (parking == NULL)
        return NULL;
    parking->clock = clock;
    parking->wakes_at_ns = INT64_MAX;
    pthread_mutex_init(&parking->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&parking->wake, &monotonic);
    pthread_cond_init(&parking->changed, NULL);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&parking->thread, NULL, timer_main, parking) != 0) {
        pthread_cond_destroy(&parking->changed);
        pthread_cond_destroy(&parking->wake);
        pthread_mutex_destroy(&parking->lock);
        free(parking);
        return NULL;
    }
    return parking;
}

/* [lock] */
static void hurry_list(struct parking *parking, struct parking_list *list)
{
    while (list->head != NULL) {
        struct parking_waiter *waiter = list->head;
        list_remove(waiter);
        schedule(parking, waiter, PARKING_STOPPED, 0);
    }
}

void parking_drain(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    parking->draining = true;
    /* Those in their grace keep their reason, and become due. */
    for (struct parking_waiter *w = parking->hurried.head; w != NULL; w = w->next)
        w->due_ns = 0;
    hurry_list(parking, &parking->deadlines);
    hurry_list(parking, &parking->idle);
    parking->wakes_at_ns = 0;
    pthread_cond_signal(&parking->wake);
    while (parking->count > 0)
        pthread_cond_wait(&parking->changed, &parking->lock);
    pthread_mutex_unlock(&parking->lock);
}

void parking_stop(struct parking *parking)
{
    if (parking == NULL)
        return;
    parking_drain(parking);
    pthread_mutex_lock(&parking->lock);
    parking->ending = true;
    pthread_cond_signal(&parking->wake);
    pthread_mutex_unlock(&parking->lock);
    pthread_join(parking->thread, NULL);
    pthread_cond_destroy(&parking->changed);
    pthread_cond_destroy(&parking->wake);
    pthread_mutex_destroy(&parking->lock);
    free(parking);
}

void parking_waiter_init(struct parking_waiter *waiter, struct parking *parking,
                         void (*fn)(struct parking_waiter *waiter,
                                    enum parking_reason reason))
{
    *waiter = (struct parking_waiter){.give_up = fn, .parking = parking};
}

void parking_add(struct parking_waiter *waiter, int64_t timeout_ms, int64_t grace_ms)
{
    struct parking *parking = waiter->parking;
    int64_t now = now_ns(parking);
    pthread_mutex_lock(&parking->lock);
    parking->count++;
    waiter->state = PARKING_WAITING;
    waiter->grace_ms = grace_ms;
    if (parking->draining)
        schedule(parking, waiter, PARKING_STOPPED, 0);
    else if (waiter->hurried)
        schedule(parking, waiter, PARKING_INTERRUPTED, add_ms(now, grace_ms));
    else
        schedule(parking, waiter, PARKING_DEADLINE,
                 timeout_ms == PARKING_FOREVER ? INT64_MAX : add_ms(now, timeout_ms));
    pthread_mutex_unlock(&parking->lock);
}

void parking_interrupt(void *arg)
{
    struct parking_waiter *waiter = arg;
    struct parking *parking = waiter->parking;
    int64_t now = now_ns(parking);
    pthread_mutex_lock(&parking->lock);
    if (waiter->state == PARKING_OUT) {
        waiter->hurried = true;
    } else if (waiter->state == PARKING_WAITING && waiter->list != &parking->hurried) {
        int64_t due_ns = add_ms(now, waiter->grace_ms);
        /* The deadline still holds where it comes first. */
        if (due_ns < waiter->due_ns) {
            list_remove(waiter);
            schedule(parking, waiter, PARKING_INTERRUPTED, due_ns);
        }
    }
    pthread_mutex_unlock(&parking->lock);
}

void parking_expire(struct parking_waiter *waiter)
{
    struct parking *parking = waiter->parking;
    pthread_mutex_lock(&parking->lock);
    if (waiter->state == PARKING_WAITING) {
        list_remove(waiter);
        schedule(parking, waiter, PARKING_STOPPED, 0);
    }
    pthread_mutex_unlock(&parking->lock);
}

void parking_remove(struct parking_waiter *waiter)
{
    struct parking *parking = waiter->parking;
    pthread_mutex_lock(&parking->lock);
    if (waiter->state == PARKING_WAITING)
        list_remove(waiter);
    while (parking->running == waiter &&
           !pthread_equal(parking->thread, pthread_self()))
        pthread_cond_wait(&parking->changed, &parking->lock);
    waiter->state = PARKING_OUT;
    waiter->hurried = false;
    if (--parking->count == 0 && parking->draining)
        pthread_cond_broadcast(&parking->changed);
    pthread_mutex_unlock(&parking->lock);
}
