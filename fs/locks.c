#include "fs/locks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <utlist.h>

struct lock {
    uint64_t inode;
    uint64_t owner;
    bool exclusive;
    struct lock *prev, *next;
};

/* One that waits. Two ends meet: being granted, and giving up; whoever takes it off the
 * list of waiters gives its count back, and the last of it and the submitter answers.
 */
struct lock_wait {
    struct parking_waiter parked;
    atomic_int remaining;
    struct locks *locks;
    struct reply *reply;
    struct lock *lock; /* NULL: granted, it stands among the held ones */
    int error;         /* written before the count is given back */
    struct lock_wait *prev, *next;
};

struct locks {
    struct parking *parking; /* [const] */
    pthread_mutex_t mutex;
    struct lock *held;         /* [mutex] */
    struct lock_wait *waiting; /* [mutex] in the order of coming */
};

struct locks *locks_new(struct parking *parking)
{
    struct locks *locks = calloc(1, sizeof *locks);
    if (locks == NULL)
        return NULL;
    locks->parking = parking;
    (void)pthread_mutex_init(&locks->mutex, NULL);
    return locks;
}

void locks_free(struct locks *locks)
{
    struct lock *lock, *next;
    if (locks == NULL)
        return;
    DL_FOREACH_SAFE(locks->held, lock, next)
    free(lock);
    (void)pthread_mutex_destroy(&locks->mutex);
    free(locks);
}

/* [mutex] Another owner's lock stands against it. */
static bool locks_held_against(const struct locks *locks, const struct lock *wanted)
{
    const struct lock *lock;
    DL_FOREACH(locks->held, lock)
    {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the freed one was taken out */
        if (lock->inode == wanted->inode && lock->owner != wanted->owner &&
            (lock->exclusive || wanted->exclusive))
            return true;
    }
    return false;
}

/* [mutex] Somebody waits for the same file: who comes later stands behind. */
static bool locks_waited_for(const struct locks *locks, const struct lock *wanted)
{
    const struct lock_wait *wait;
    DL_FOREACH(locks->waiting, wait)
    {
        if (wait->lock->inode == wanted->inode)
            return true;
    }
    return false;
}

/* [mutex] */
static void locks_drop(struct locks *locks, uint64_t inode, uint64_t owner)
{
    struct lock *lock, *next;
    DL_FOREACH_SAFE(locks->held, lock, next)
    {
        if (lock->inode != inode || lock->owner != owner)
            continue;
        DL_DELETE(locks->held, lock);
        free(lock);
    }
}

/* [mutex] Moves the waiters whose turn has come to `granted`. */
static void locks_grant(struct locks *locks, uint64_t inode, struct lock_wait **granted)
{
    struct lock_wait *wait, *next;
    DL_FOREACH_SAFE(locks->waiting, wait, next)
    {
        if (wait->lock->inode != inode)
            continue;
        if (locks_held_against(locks, wait->lock))
            return;
        DL_DELETE(locks->waiting, wait);
        locks_drop(locks, inode, wait->lock->owner);
        DL_APPEND(locks->held, wait->lock);
        wait->lock = NULL;
        DL_APPEND(*granted, wait);
    }
}

static void lock_wait_end(struct lock_wait *wait)
{
    struct reply *reply = wait->reply;
    int error;
    if (atomic_fetch_sub(&wait->remaining, 1) != 1)
        return;
    reply_on_interrupt(reply, NULL, NULL);
    parking_remove(&wait->parked);
    error = wait->error;
    free(wait->lock);
    free(wait);
    reply_error(reply, error);
}

static void lock_wait_end_all(struct lock_wait *granted)
{
    struct lock_wait *wait, *next;
    DL_FOREACH_SAFE(granted, wait, next)
    lock_wait_end(wait);
}

static void lock_wait_give_up(struct parking_waiter *waiter, enum parking_reason reason)
{
    struct lock_wait *wait = (struct lock_wait *)waiter;
    struct locks *locks = wait->locks;
    struct lock_wait *granted = NULL;
    (void)pthread_mutex_lock(&locks->mutex);
    bool ours = wait->lock != NULL;
    if (ours) {
        DL_DELETE(locks->waiting, wait);
        /* Those behind it may have waited for its turn only. */
        locks_grant(locks, wait->lock->inode, &granted);
    }
    (void)pthread_mutex_unlock(&locks->mutex);
    lock_wait_end_all(granted);
    if (ours) {
        wait->error = reason == PARKING_INTERRUPTED ? -EINTR : -ENOTCONN;
        lock_wait_end(wait);
    }
}

void locks_release(struct locks *locks, uint64_t inode, uint64_t owner)
{
    struct lock_wait *granted = NULL;
    (void)pthread_mutex_lock(&locks->mutex);
    locks_drop(locks, inode, owner);
    locks_grant(locks, inode, &granted);
    (void)pthread_mutex_unlock(&locks->mutex);
    lock_wait_end_all(granted);
}

/* [mutex] 0: got it, or `wait` stands in the queue and *waits is set; -EAGAIN, without
 * `wait`. Takes the lock unless it fails. */
static int locks_take(struct locks *locks, struct lock *lock, struct lock_wait *wait,
                      bool *waits)
{
    bool held = locks_held_against(locks, lock);
    if (held && wait == NULL)
        return -EAGAIN;
    *waits = held || (wait != NULL && locks_waited_for(locks, lock));
    if (*waits)
        DL_APPEND(locks->waiting, wait);
    else
        DL_APPEND(locks->held, lock);
    return 0;
}

static void lock_wait_park(struct lock_wait *wait)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): set where it must wait */
    reply_on_interrupt(wait->reply, parking_interrupt, &wait->parked);
    parking_add(&wait->parked, PARKING_FOREVER, 0);
    lock_wait_end(wait);
}

static struct lock_wait *lock_wait_new(struct locks *locks, struct reply *reply,
                                       struct lock *lock)
{
    struct lock_wait *wait = calloc(1, sizeof *wait);
    if (wait == NULL)
        return NULL;
    wait->locks = locks;
    wait->reply = reply;
    wait->lock = lock;
    atomic_init(&wait->remaining, 2);
    parking_waiter_init(&wait->parked, locks->parking, lock_wait_give_up);
    return wait;
}

void locks_flock(struct locks *locks, struct reply *reply, uint64_t inode,
                 uint64_t owner, int operation)
{
    int kind = operation & ~LOCK_NB;
    bool blocks = (operation & LOCK_NB) == 0;
    struct lock_wait *wait = NULL, *granted = NULL;
    struct lock *lock;
    bool waits = false;
    int rc = 0;
    if (kind == LOCK_UN) {
        locks_release(locks, inode, owner);
        reply_error(reply, 0);
        return;
    }
    if (kind != LOCK_SH && kind != LOCK_EX) {
        reply_error(reply, -EINVAL);
        return;
    }
    lock = malloc(sizeof *lock);
    if (lock != NULL) {
        *lock = (struct lock){inode, owner, kind == LOCK_EX, NULL, NULL};
        wait = blocks ? lock_wait_new(locks, reply, lock) : NULL;
    }
    if (lock == NULL || (blocks && wait == NULL)) {
        free(lock);
        reply_error(reply, -ENOMEM);
        return;
    }
    (void)pthread_mutex_lock(&locks->mutex);
    locks_drop(locks, inode, owner);
    locks_grant(locks, inode, &granted);
    rc = locks_take(locks, lock, wait, &waits);
    (void)pthread_mutex_unlock(&locks->mutex);
    lock_wait_end_all(granted);
    if (rc == 0 && waits) {
        lock_wait_park(wait);
        return;
    }
    free(wait);
    if (rc < 0)
        free(lock);
    reply_error(reply, rc);
}
