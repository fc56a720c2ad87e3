#include "replica/disk.h"
#include "tests/unit/support/fake_disk.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int make_temp(void **state)
{
    char *dir = strdup("/tmp/topicfs-disk-XXXXXX");
    *state = dir;
    return mkdtemp(dir) == NULL;
}

static int remove_temp(void **state)
{
    int rc = disk_real.ops->rmdir(&disk_real, *state);
    free(*state);
    return rc;
}

static void in_dir(void **state, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", (const char *)*state, name);
}

static int count_names(void *arg, const char *name)
{
    assert_true(name[0] != '.');
    ++*(int *)arg;
    return 0;
}

static int names_in(const char *dir)
{
    int names = 0;
    assert_int_equal(disk_real.ops->list(&disk_real, dir, count_names, &names), 0);
    return names;
}

static void test_replace_and_slurp(void **state)
{
    char path[128];
    char *text;
    size_t length;
    in_dir(state, "file", path);
    assert_int_equal(disk_slurp(&disk_real, path, 100, &text, &length), -ENOENT);
    assert_int_equal(disk_replace(&disk_real, path, "a longer one", 12), 0);
    assert_int_equal(disk_replace(&disk_real, path, "new", 3), 0);
    assert_int_equal(disk_slurp(&disk_real, path, 100, &text, &length), 0);
    assert_int_equal(length, 3);
    assert_string_equal(text, "new");
    free(text);
    assert_int_equal(disk_slurp(&disk_real, path, 2, &text, &length), -EFBIG);
    assert_null(text);
    assert_int_equal(disk_slurp(&disk_real, *state, 100, &text, &length), -EISDIR);
    assert_int_equal(names_in(*state), 1); /* no temporary is left */
    assert_int_equal(disk_real.ops->unlink(&disk_real, path), 0);
}

static void test_read_beyond_the_end(void **state)
{
    char path[128];
    char bytes[8];
    in_dir(state, "file", path);
    int file = disk_real.ops->open(&disk_real, path,
                                   DISK_WRITE | DISK_CREATE | DISK_EXCLUSIVE);
    assert_true(file >= 0);
    assert_int_equal(disk_real.ops->open(&disk_real, path,
                                         DISK_WRITE | DISK_CREATE | DISK_EXCLUSIVE),
                     -EEXIST);
    assert_int_equal(disk_write_all(&disk_real, file, "12345", 5, 0), 0);
    assert_int_equal(disk_read_all(&disk_real, file, bytes, 5, 0), 0);
    assert_memory_equal(bytes, "12345", 5);
    assert_int_equal(disk_read_all(&disk_real, file, bytes, 6, 0), -ENODATA);
    struct disk_stat before, after;
    assert_int_equal(disk_real.ops->stat(&disk_real, file, &before), 0);
    assert_int_equal(before.size, 5);
    assert_int_equal(disk_real.ops->truncate(&disk_real, file, 2), 0);
    disk_real.ops->flush_begin(&disk_real, file);
    assert_int_equal(disk_real.ops->flush(&disk_real, file), 0);
    assert_int_equal(disk_real.ops->stat_path(&disk_real, path, &after), 0);
    assert_int_equal(after.size, 2);
    assert_true(after.ctime_ns >= before.ctime_ns);
    assert_int_equal(disk_real.ops->close(&disk_real, file), 0);
    assert_int_equal(disk_real.ops->unlink(&disk_real, path), 0);
}

static void test_directories(void **state)
{
    char path[128];
    struct disk_stat st;
    in_dir(state, "dir", path);
    assert_int_equal(disk_real.ops->mkdir(&disk_real, path), 0);
    assert_int_equal(disk_real.ops->mkdir(&disk_real, path), -EEXIST);
    assert_int_equal(disk_real.ops->stat_path(&disk_real, path, &st), 0);
    assert_true(st.is_dir);
    assert_int_equal(disk_real.ops->flush_dir(&disk_real, *state), 0);
    assert_int_equal(disk_real.ops->rmdir(&disk_real, path), 0);
    assert_int_equal(disk_real.ops->stat_path(&disk_real, path, &st), -ENOENT);
}

/* A crash at any point of a replacement leaves the old or the new file. */
static void test_replace_survives_power_cuts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fake_disk *fake = fake_disk_new(seed);
        const struct disk *disk = &fake->disk;
        char *text;
        size_t length;
        assert_int_equal(disk->ops->mkdir(disk, "d"), 0);
        assert_int_equal(disk_replace(disk, "d/file", "old text", 8), 0);
        fake_disk_stop_after(fake, (int64_t)(seed % 8));
        int rc = disk_replace(disk, "d/file", "new", 3);
        fake_disk_power_cut(fake);
        assert_int_equal(disk_slurp(disk, "d/file", 100, &text, &length), 0);
        if (rc == 0 || strcmp(text, "old text") != 0)
            assert_string_equal(text, "new");
        free(text);
        fake_disk_free(fake);
    }
}

static void test_failed_replace_keeps_the_old(void **state)
{
    (void)state;
    for (int64_t at = 0; at < 5; at++) {
        struct fake_disk *fake = fake_disk_new(1);
        const struct disk *disk = &fake->disk;
        struct disk_stat st;
        char *text;
        size_t length;
        assert_int_equal(disk->ops->mkdir(disk, "d"), 0);
        assert_int_equal(disk_replace(disk, "d/file", "old text", 8), 0);
        fake_disk_fail_after(fake, at, ENOSPC, false);
        assert_int_equal(disk_replace(disk, "d/file", "new", 3), -ENOSPC);
        assert_int_equal(disk_slurp(disk, "d/file", 100, &text, &length), 0);
        assert_string_equal(text, "old text");
        assert_int_equal(disk->ops->stat_path(disk, "d/file.tmp", &st), -ENOENT);
        free(text);
        fake_disk_free(fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_replace_and_slurp, make_temp, remove_temp),
        cmocka_unit_test_setup_teardown(test_read_beyond_the_end, make_temp,
                                        remove_temp),
        cmocka_unit_test_setup_teardown(test_directories, make_temp, remove_temp),
        cmocka_unit_test(test_replace_survives_power_cuts),
        cmocka_unit_test(test_failed_replace_keeps_the_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
