#include "replica/file_cache.h"
#include "tests/unit/support/fake_disk.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

enum { FILES = 8, MAX_OPEN = 3 };

struct fixture {
    struct fake_disk *fake;
    struct file_cache *cache;
    struct file_cache_file *slots[FILES];
    int opened;
};

struct opening {
    struct fixture *fixture;
    int number;
};

static int open_numbered(void *arg)
{
    struct opening *opening = arg;
    char path[32];
    snprintf(path, sizeof path, "file-%d", opening->number);
    opening->fixture->opened++;
    const struct disk *disk = &opening->fixture->fake->disk;
    return disk->ops->open(disk, path, DISK_WRITE | DISK_CREATE);
}

static struct file_cache_file *pin(struct fixture *fixture, int number)
{
    struct opening opening = {.fixture = fixture, .number = number};
    struct file_cache_file *file;
    assert_int_equal(file_cache_pin(fixture->cache, &fixture->slots[number],
                                    open_numbered, &opening, &file),
                     0);
    return file;
}

static void make(struct fixture *fixture)
{
    *fixture = (struct fixture){.fake = fake_disk_new(1)};
    fixture->cache = file_cache_new(&fixture->fake->disk, MAX_OPEN);
    assert_non_null(fixture->cache);
}

static void finish(struct fixture *fixture)
{
    for (int i = 0; i < FILES; i++)
        file_cache_drop(fixture->cache, &fixture->slots[i]);
    assert_int_equal(file_cache_open_count(fixture->cache), 0);
    file_cache_free(fixture->cache);
    fake_disk_free(fixture->fake);
}

static void test_longest_unused_is_closed(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture);
    for (int i = 0; i < MAX_OPEN; i++)
        file_cache_unpin(fixture.cache, pin(&fixture, i));
    file_cache_unpin(fixture.cache, pin(&fixture, 0)); /* 1 is now the oldest */
    file_cache_unpin(fixture.cache, pin(&fixture, 3));
    assert_int_equal(file_cache_open_count(fixture.cache), MAX_OPEN);
    assert_null(fixture.slots[1]);
    assert_non_null(fixture.slots[0]);
    assert_int_equal(fixture.opened, 4);
    finish(&fixture);
}

static void test_pinned_stay_open(void **state)
{
    (void)state;
    struct fixture fixture;
    struct file_cache_file *files[FILES];
    make(&fixture);
    for (int i = 0; i < FILES; i++)
        files[i] = pin(&fixture, i);
    assert_int_equal(file_cache_open_count(fixture.cache), FILES);
    for (int i = 0; i < FILES; i++) {
        assert_ptr_equal(fixture.slots[i], files[i]);
        file_cache_unpin(fixture.cache, files[i]);
    }
    assert_int_equal(file_cache_open_count(fixture.cache), MAX_OPEN);
    finish(&fixture);
}

static void test_dropped_while_pinned(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture);
    struct file_cache_file *file = pin(&fixture, 0);
    file_cache_drop(fixture.cache, &fixture.slots[0]);
    assert_null(fixture.slots[0]);
    const struct disk *disk = &fixture.fake->disk;
    assert_int_equal(disk->ops->pwrite(disk, file->fd, "x", 1, 0), 1);
    /* The slot may be used anew before the old file is gone. */
    struct file_cache_file *other = pin(&fixture, 0);
    assert_ptr_not_equal(other, file);
    file_cache_unpin(fixture.cache, file);
    assert_int_equal(file_cache_open_count(fixture.cache), 1);
    file_cache_unpin(fixture.cache, other);
    finish(&fixture);
}

static int refuse(void *arg)
{
    (void)arg;
    return -EMFILE;
}

static void test_failed_open(void **state)
{
    (void)state;
    struct fixture fixture;
    struct file_cache_file *file;
    make(&fixture);
    assert_int_equal(
        file_cache_pin(fixture.cache, &fixture.slots[0], refuse, NULL, &file), -EMFILE);
    assert_null(fixture.slots[0]);
    assert_int_equal(file_cache_open_count(fixture.cache), 0);
    finish(&fixture);
}

static int open_while_allowed(void *arg)
{
    struct opening *opening = arg;
    return file_cache_open_count(opening->fixture->cache) < 2 ? open_numbered(arg)
                                                              : -EMFILE;
}

static void test_fewer_are_allowed_than_wanted(void **state)
{
    (void)state;
    struct fixture fixture;
    struct file_cache_file *file;
    make(&fixture);
    for (int i = 0; i < FILES; i++) {
        struct opening opening = {.fixture = &fixture, .number = i};
        assert_int_equal(file_cache_pin(fixture.cache, &fixture.slots[i],
                                        open_while_allowed, &opening, &file),
                         0);
        file_cache_unpin(fixture.cache, file);
        assert_true(file_cache_open_count(fixture.cache) <= 2);
    }
    /* What is pinned can't be closed for others. */
    struct file_cache_file *pinned[2] = {pin(&fixture, 0), pin(&fixture, 1)};
    struct opening opening = {.fixture = &fixture, .number = 2};
    assert_int_equal(file_cache_pin(fixture.cache, &fixture.slots[2],
                                    open_while_allowed, &opening, &file),
                     -EMFILE);
    for (int i = 0; i < 2; i++)
        file_cache_unpin(fixture.cache, pinned[i]);
    finish(&fixture);
}

/* What another process took it gives back. */
static void test_shortage_passes(void **state)
{
    (void)state;
    struct fixture fixture;
    struct file_cache_file *file;
    make(&fixture);
    for (int i = 0; i < MAX_OPEN; i++)
        file_cache_unpin(fixture.cache, pin(&fixture, i));
    assert_int_equal(
        file_cache_pin(fixture.cache, &fixture.slots[MAX_OPEN], refuse, NULL, &file),
        -EMFILE);
    assert_int_equal(file_cache_open_count(fixture.cache), 0);
    for (int i = 0; i < 1000; i++)
        file_cache_unpin(fixture.cache, pin(&fixture, i % FILES));
    assert_int_equal(file_cache_open_count(fixture.cache), MAX_OPEN);
    finish(&fixture);
}

static void test_memo_goes_with_the_file(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture);
    struct file_cache_file *file = pin(&fixture, 0);
    atomic_store(&file->memo, calloc(1, 100));
    file_cache_unpin(fixture.cache, file);
    for (int i = 1; i <= MAX_OPEN; i++)
        file_cache_unpin(fixture.cache, pin(&fixture, i));
    file = pin(&fixture, 0);
    assert_null(atomic_load(&file->memo));
    file_cache_unpin(fixture.cache, file);
    finish(&fixture);
}

static void make_file(struct fixture *fixture, const char *path)
{
    const struct disk *disk = &fixture->fake->disk;
    int file = disk->ops->open(disk, path, DISK_WRITE | DISK_CREATE);
    assert_int_equal(disk->ops->pwrite(disk, file, "x", 1, 0), 1);
    assert_int_equal(disk->ops->close(disk, file), 0);
}

/* No more than so many; beyond them space is freed at once. */
static void test_held_files(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture);
    const struct disk *disk = &fixture.fake->disk;
    assert_int_equal(file_cache_hold(fixture.cache, "none"), -1);
    assert_int_equal(file_cache_hold(NULL, "none"), -1);
    file_cache_let_go(fixture.cache, -1);
    for (int i = 0; i < FILE_CACHE_HELD_MAX + 2; i++) {
        char path[32];
        snprintf(path, sizeof path, "gone-%d", i);
        make_file(&fixture, path);
        int held = file_cache_hold(fixture.cache, path);
        assert_int_equal(disk->ops->unlink(disk, path), 0);
        file_cache_let_go(fixture.cache, held);
    }
    assert_int_equal(fake_disk_freed(fixture.fake), 2);
    file_cache_free_space(fixture.cache);
    assert_int_equal(fake_disk_freed(fixture.fake), FILE_CACHE_HELD_MAX + 2);

    struct file_cache_file *file = pin(&fixture, 0);
    assert_int_equal(disk->ops->pwrite(disk, file->fd, "x", 1, 0), 1);
    file_cache_unpin(fixture.cache, file);
    assert_int_equal(disk->ops->unlink(disk, "file-0"), 0);
    file_cache_drop_removed(fixture.cache, &fixture.slots[0]);
    file_cache_drop_removed(fixture.cache, &fixture.slots[0]); /* not open any more */
    assert_int_equal(file_cache_open_count(fixture.cache), 0);
    assert_int_equal(fake_disk_freed(fixture.fake), FILE_CACHE_HELD_MAX + 2);
    file_cache_free_space(fixture.cache);
    assert_int_equal(fake_disk_freed(fixture.fake), FILE_CACHE_HELD_MAX + 3);
    finish(&fixture);
}

static int open_once_freed(void *arg)
{
    struct opening *opening = arg;
    return fake_disk_freed(opening->fixture->fake) > 0 ? open_numbered(arg) : -EMFILE;
}

/* They are open, too. */
static void test_held_files_give_way(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture);
    const struct disk *disk = &fixture.fake->disk;
    struct opening opening = {.fixture = &fixture, .number = 0};
    struct file_cache_file *file;
    make_file(&fixture, "gone");
    int held = file_cache_hold(fixture.cache, "gone");
    assert_int_equal(disk->ops->unlink(disk, "gone"), 0);
    file_cache_let_go(fixture.cache, held);
    assert_int_equal(file_cache_pin(fixture.cache, &fixture.slots[0], open_once_freed,
                                    &opening, &file),
                     0);
    file_cache_unpin(fixture.cache, file);
    finish(&fixture);
}

/* ---- threads --------------------------------------------------------------- */

struct shared {
    struct file_cache *cache;
    struct file_cache_file *slots[FILES];
};

static int open_null(void *arg)
{
    (void)arg;
    return disk_real.ops->open(&disk_real, "/dev/null", DISK_READ);
}

static void *pin_at_random(void *arg)
{
    struct shared *shared = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int i = 0; i < 3000; i++) {
        struct file_cache_file *file = NULL;
        int slot = rand_r(&seed) % FILES;
        int rc =
            file_cache_pin(shared->cache, &shared->slots[slot], open_null, NULL, &file);
        char byte;
        if (rc != 0 || disk_real.ops->pread(&disk_real, file->fd, &byte, 1, 0) != 0)
            return arg;
        file_cache_unpin(shared->cache, file);
    }
    return NULL;
}

static void test_threads_share_it(void **state)
{
    (void)state;
    struct shared shared = {.cache = file_cache_new(&disk_real, MAX_OPEN)};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pin_at_random, &shared), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_in_range(file_cache_open_count(shared.cache), 1, MAX_OPEN);
    for (int i = 0; i < FILES; i++)
        file_cache_drop(shared.cache, &shared.slots[i]);
    assert_int_equal(file_cache_open_count(shared.cache), 0);
    file_cache_free(shared.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_unused_is_closed),
        cmocka_unit_test(test_pinned_stay_open),
        cmocka_unit_test(test_dropped_while_pinned),
        cmocka_unit_test(test_failed_open),
        cmocka_unit_test(test_fewer_are_allowed_than_wanted),
        cmocka_unit_test(test_shortage_passes),
        cmocka_unit_test(test_memo_goes_with_the_file),
        cmocka_unit_test(test_held_files),
        cmocka_unit_test(test_held_files_give_way),
        cmocka_unit_test(test_threads_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
