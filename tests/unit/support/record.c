#include "tests/unit/support/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct record *record_of(struct reply *reply)
{
    return (struct record *)reply;
}

static void answered(struct record *record)
{
    if (++record->answers != 1) {
        /* On any thread: an assertion of cmocka would not be seen there. */
        (void)fprintf(stderr, "a request was answered twice\n");
        abort();
    }
    pthread_cond_broadcast(&record->changed);
}

static void record_error(struct reply *reply, int code)
{
    struct record *record = record_of(reply);
    pthread_mutex_lock(&record->lock);
    record->error = code;
    answered(record);
    pthread_mutex_unlock(&record->lock);
}

static void record_written(struct reply *reply, size_t bytes)
{
    struct record *record = record_of(reply);
    pthread_mutex_lock(&record->lock);
    record->written = bytes;
    answered(record);
    pthread_mutex_unlock(&record->lock);
}

static void record_bytes(struct reply *reply, const void *bytes, size_t length)
{
    struct record *record = record_of(reply);
    char *copy = malloc(length + 1);
    if (copy == NULL)
        abort();
    if (length > 0)
        memcpy(copy, bytes, length);
    copy[length] = '\0';
    pthread_mutex_lock(&record->lock);
    record->bytes = copy;
    record->length = length;
    answered(record);
    pthread_mutex_unlock(&record->lock);
}

static void record_extents(struct reply *reply, struct extent *extents, size_t count)
{
    size_t total = 0;
    size_t filled = 0;
    char *bytes;
    for (size_t i = 0; i < count; i++)
        total += extents[i].length;
    bytes = malloc(total + 1);
    if (bytes == NULL)
        abort();
    for (size_t i = 0; i < count; i++) {
        if (pread(extents[i].fd, bytes + filled, extents[i].length,
                  (off_t)extents[i].at) != (ssize_t)extents[i].length)
            abort();
        filled += extents[i].length;
        extent_release(&extents[i]);
    }
    record_bytes(reply, bytes, total);
    free(bytes);
}

static void record_on_interrupt(struct reply *reply, void (*fn)(void *arg), void *arg)
{
    struct record *record = record_of(reply);
    bool now;
    pthread_mutex_lock(&record->lock);
    while (fn == NULL && record->running)
        pthread_cond_wait(&record->changed, &record->lock);
    now = fn != NULL && record->interrupted;
    record->fn = now ? NULL : fn;
    record->arg = arg;
    pthread_mutex_unlock(&record->lock);
    if (now)
        fn(arg);
}

static const struct reply_ops record_ops = {
    .error = record_error,
    .written = record_written,
    .bytes = record_bytes,
    .extents = record_extents,
    .on_interrupt = record_on_interrupt,
};

void record_init(struct record *record)
{
    memset(record, 0, sizeof *record);
    record->reply.ops = &record_ops;
    pthread_mutex_init(&record->lock, NULL);
    pthread_cond_init(&record->changed, NULL);
}

void record_end(struct record *record)
{
    free(record->bytes);
    pthread_cond_destroy(&record->changed);
    pthread_mutex_destroy(&record->lock);
}

void record_interrupt(struct record *record)
{
    void (*fn)(void *arg);
    void *arg;
    pthread_mutex_lock(&record->lock);
    record->interrupted = true;
    fn = record->fn;
    arg = record->arg;
    record->fn = NULL;
    record->running = fn != NULL;
    pthread_mutex_unlock(&record->lock);
    if (fn == NULL)
        return;
    fn(arg);
    pthread_mutex_lock(&record->lock);
    record->running = false;
    pthread_cond_broadcast(&record->changed);
    pthread_mutex_unlock(&record->lock);
}

bool record_wait_ms(struct record *record, int64_t ms)
{
    struct timespec until;
    bool done;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&record->lock);
    while (record->answers == 0 &&
           pthread_cond_timedwait(&record->changed, &record->lock, &until) == 0)
        continue;
    done = record->answers > 0;
    pthread_mutex_unlock(&record->lock);
    return done;
}

void record_wait(struct record *record)
{
    if (!record_wait_ms(record, 10000))
        fail_msg("no answer in 10 s");
}

bool record_answered(struct record *record)
{
    return record_wait_ms(record, 0);
}

long record_result(struct record *record)
{
    record_wait(record);
    long result = record->error ? record->error : (long)record->written;
    record_end(record);
    return result;
}

void record_expect_bytes(struct record *record, const char *want)
{
    record_wait(record);
    assert_int_equal(record->error, 0);
    assert_string_equal(record->bytes, want);
    record_end(record);
}

void record_expect_error(struct record *record, int want)
{
    record_wait(record);
    assert_int_equal(record->error, want);
    record_end(record);
}
