/* Readers beside an appender, a flusher, retention and truncation, on the real disk. */
#include "replica/file_cache.h"
#include "replica/log.h"

#include "tests/unit/support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

enum { LINE = 20, APPENDS = 4000, READERS = 3 };

struct shared {
    struct log *log;
    struct file_cache *files;
    pthread_mutex_t append_lock;
    _Atomic int64_t committed; /* offset: nothing below is ever cut */
    atomic_bool done;
    atomic_int failures;
    atomic_int reads;
    atomic_int damages;
};

static void on_damage(void *arg, const struct log_damage *damage)
{
    struct shared *shared = arg;
    (void)damage;
    atomic_fetch_add(&shared->damages, 1);
}

static void fail_if(struct shared *shared, bool wrong)
{
    if (wrong)
        atomic_fetch_add(&shared->failures, 1);
}

static void *append(void *arg)
{
    struct shared *shared = arg;
    for (int i = 0; i < APPENDS; i++) {
        pthread_mutex_lock(&shared->append_lock);
        struct log_bounds bounds;
        log_bounds_get(shared->log, &bounds);
        char text[LINE * 2 + 2];
        snprintf(text, sizeof text, "%0*lld\n%0*lld\n", LINE - 1,
                 (long long)bounds.end.offset, LINE - 1,
                 (long long)bounds.end.offset + 1);
        struct batch batch = {.message_count = 2,
                              .length = LINE * 2,
                              .timestamp_ms = i,
                              .base_sequence = -1,
                              .producer_id = -1};
        fail_if(shared, log_append(shared->log, &batch, text) != 0);
        if (i % 10 == 9) {
            /* The last one is not committed yet, and is cut now and then. */
            if (i % 100 == 99)
                fail_if(shared, log_truncate(shared->log, batch.base_offset) != 0);
            atomic_store(&shared->committed, batch.base_offset);
        }
        if (i % 500 == 499)
            fail_if(shared, log_retain(shared->log, atomic_load(&shared->committed), i,
                                       -1) < 0);
        pthread_mutex_unlock(&shared->append_lock);
    }
    atomic_store(&shared->done, true);
    return NULL;
}

static void *flush(void *arg)
{
    struct shared *shared = arg;
    while (!atomic_load(&shared->done)) {
        int64_t flushed;
        fail_if(shared, log_flush(shared->log, &flushed) != 0);
    }
    return NULL;
}

static void *read_at_random(void *arg)
{
    struct shared *shared = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    int own = 0;
    /* One read at least, also where the appender was ready before this one began. */
    while (!atomic_load(&shared->done) || own == 0) {
        struct log_bounds bounds;
        struct log_place place;
        struct extent extent;
        log_bounds_get(shared->log, &bounds);
        struct log_place end = {.offset = atomic_load(&shared->committed)};
        end.position =
            bounds.end.position; /* a limit; the offset is what counts here */
        if (end.offset <= bounds.start.offset)
            continue;
        int64_t offset =
            bounds.start.offset + rand_r(&seed) % (end.offset - bounds.start.offset);
        int rc = log_find_offset(shared->log, offset, &end, &place);
        if (rc == 0)
            rc = log_read(shared->log, place.position, LINE, place.position + LINE,
                          bounds.rewrites, &extent);
        if (rc == E_OFFSET_BELOW_START) /* retention was faster */
            continue;
        char text[LINE + 1] = "";
        fail_if(shared,
                rc != 0 || extent.length != LINE ||
                    disk_read_all(&disk_real, extent.fd, text, LINE, extent.at) != 0 ||
                    strtoll(text, NULL, 10) != offset);
        if (rc == 0)
            extent_release(&extent);
        own++;
        atomic_fetch_add(&shared->reads, 1);
    }
    return NULL;
}

static void test_all_at_once(void **state)
{
    (void)state;
    char dir[64];
    scratch_make(dir, sizeof dir);
    struct topic_config config;
    topic_config_defaults(&config);
    config.segment_bytes = 4096;
    config.retention_bytes = 40000;
    struct shared shared = {.append_lock = PTHREAD_MUTEX_INITIALIZER};
    shared.files = file_cache_new(&disk_real, 4);
    struct log_params params = {.disk = &disk_real,
                                .files = shared.files,
                                .clock = &clock_real,
                                .dir = dir,
                                .config = &config,
                                .recovery = LOG_CLEAN,
                                .on_damage = on_damage,
                                .arg = &shared};
    assert_int_equal(log_open(&params, &shared.log), 0);
    pthread_t threads[READERS + 2];
    pthread_create(&threads[0], NULL, append, &shared);
    pthread_create(&threads[1], NULL, flush, &shared);
    for (int i = 0; i < READERS; i++)
        pthread_create(&threads[2 + i], NULL, read_at_random, &shared);
    for (int i = 0; i < READERS + 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&shared.failures), 0);
    assert_int_equal(atomic_load(&shared.damages), 0);
    assert_true(atomic_load(&shared.reads) >= READERS);
    log_close(shared.log);
    assert_int_equal(file_cache_open_count(shared.files), 0);
    file_cache_free(shared.files);
    assert_int_equal(log_remove(&disk_real, dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
