#include "replica/segment.h"
#include "tests/unit/support/fake_disk.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

struct fixture {
    struct fake_disk *fake;
    struct file_cache *files;
    struct segment_home *home;
    struct segment *segment;
    int64_t next; /* offset */
};

static void make(struct fixture *fixture)
{
    struct topic_id id = {.bytes = {5}};
    *fixture = (struct fixture){.fake = fake_disk_new(1), .next = 42};
    const struct disk *disk = &fixture->fake->disk;
    assert_int_equal(disk->ops->mkdir(disk, "dir"), 0);
    fixture->files = file_cache_new(disk, 4);
    fixture->home = segment_home_new(disk, fixture->files, &id, "dir");
    assert_int_equal(segment_create(fixture->home, 42, 1000, 5, 0, &fixture->segment),
                     0);
}

static void finish(struct fixture *fixture)
{
    segment_unref(fixture->segment);
    segment_home_unref(fixture->home);
    assert_int_equal(file_cache_open_count(fixture->files), 0);
    file_cache_free(fixture->files);
    fake_disk_free(fixture->fake);
}

/* As the log does it: write, then publish. */
static int append(struct fixture *fixture, const char *text, uint32_t lines)
{
    struct segment *segment = fixture->segment;
    uint32_t length = (uint32_t)strlen(text);
    struct batch batch = {.base_offset = fixture->next,
                          .position = segment->text_size,
                          .message_count = lines,
                          .length = length,
                          .payload_hash = XXH3_64bits(text, length)};
    int rc = segment_append(segment, &batch, text);
    if (rc == 0) {
        segment->text_size += length;
        segment->entry_count++;
        fixture->next = segment->end_offset = fixture->next + lines;
    }
    return rc;
}

static int64_t size_of(struct fixture *fixture, const char *path)
{
    struct disk_stat st;
    const struct disk *disk = &fixture->fake->disk;
    int rc = disk->ops->stat_path(disk, path, &st);
    return rc != 0 ? rc : st.size;
}

#define TEXT  "dir/00000000000000000042.log"
#define INDEX "dir/00000000000000000042.index"

static void test_files(void **state)
{
    (void)state;
    struct fixture fixture;
    struct segment *second;
    make(&fixture);
    assert_int_equal(append(&fixture, "a\nb\n", 2), 0);
    assert_int_equal(append(&fixture, "c\n", 1), 0);
    assert_int_equal(size_of(&fixture, TEXT), 6);
    assert_int_equal(size_of(&fixture, INDEX), 3 * 64);
    assert_int_equal(segment_create(fixture.home, 42, 0, 5, 0, &second), -EEXIST);
    assert_null(second);
    assert_int_equal(size_of(&fixture, TEXT), 6);
    assert_int_equal(segment_cut(fixture.segment, 1, 4), 0);
    assert_int_equal(size_of(&fixture, TEXT), 4);
    assert_int_equal(size_of(&fixture, INDEX), 2 * 64);
    const struct disk *disk = &fixture.fake->disk;
    assert_int_equal(segment_remove_files(disk, NULL, "dir", 42), 0);
    assert_int_equal(size_of(&fixture, TEXT), -ENOENT);
    assert_int_equal(size_of(&fixture, INDEX), -ENOENT);
    assert_int_equal(segment_remove_files(disk, NULL, "dir", 42), 0);
    finish(&fixture);
}

static void test_failed_append_leaves_no_trace(void **state)
{
    (void)state;
    for (int64_t at = 0; at < 2; at++) {
        struct fixture fixture;
        make(&fixture);
        assert_int_equal(append(&fixture, "a\nb\n", 2), 0);
        fake_disk_fail_after(fixture.fake, at, ENOSPC, false);
        assert_int_equal(append(&fixture, "something\n", 1), -ENOSPC);
        assert_int_equal(size_of(&fixture, TEXT), 4);
        assert_int_equal(size_of(&fixture, INDEX), 2 * 64);
        finish(&fixture);
    }
}

static void test_failed_create_leaves_no_file(void **state)
{
    (void)state;
    for (int64_t at = 0; at < 3; at++) {
        struct fixture fixture;
        struct segment *second;
        make(&fixture);
        fake_disk_fail_after(fixture.fake, at, ENOSPC, false);
        assert_int_equal(segment_create(fixture.home, 99, 0, 5, 0, &second), -ENOSPC);
        assert_int_equal(size_of(&fixture, "dir/00000000000000000099.log"), -ENOENT);
        assert_int_equal(size_of(&fixture, "dir/00000000000000000099.index"), -ENOENT);
        finish(&fixture);
    }
}

static void test_flush_errors(void **state)
{
    (void)state;
    for (int64_t at = 0; at < 2; at++) {
        struct fixture fixture;
        make(&fixture);
        fake_disk_fail_after(fixture.fake, at, EIO, false);
        assert_int_equal(segment_flush(fixture.segment), E_OFFLINE);
        finish(&fixture);
    }
}

static void test_retired_is_not_opened_again(void **state)
{
    (void)state;
    struct fixture fixture;
    struct file_cache_file *file;
    make(&fixture);
    assert_int_equal(segment_pin_text(fixture.segment, &file), 0);
    segment_unpin(fixture.segment, file);
    atomic_store(&fixture.segment->retired, true);
    assert_int_equal(segment_pin_text(fixture.segment, &file), -ESTALE);
    assert_null(file);
    finish(&fixture);
}

static void test_check(void **state)
{
    (void)state;
    struct fixture fixture;
    struct file_cache_file *text;
    struct segment_bad bad;
    make(&fixture);
    assert_int_equal(append(&fixture, "a\nb\n", 2), 0);
    assert_int_equal(append(&fixture, "ccc\n", 1), 0);
    fixture.segment->flags = SEGMENT_CLOSED;
    assert_true(fake_disk_flip(fixture.fake, TEXT, 5 * 8));
    struct segment_view view = {.segment = fixture.segment,
                                .end_offset = fixture.next,
                                .text_size = 8,
                                .entry_count = 2,
                                .flags = SEGMENT_CLOSED};
    assert_int_equal(segment_pin_text(fixture.segment, &text), 0);
    size_t length = 8;
    assert_int_equal(segment_check(&view, text, 0, &length, &bad), 0);
    assert_int_equal(length, 4); /* up to the bad one */
    length = 4;
    assert_int_equal(segment_check(&view, text, 4, &length, &bad), E_DAMAGED);
    assert_int_equal(bad.first_offset, 44);
    assert_int_equal(bad.end_offset, 45);
    /* Mended again, it is served again. */
    assert_true(fake_disk_flip(fixture.fake, TEXT, 5 * 8));
    assert_int_equal(segment_check(&view, text, 4, &length, &bad), 0);
    segment_unpin(fixture.segment, text);
    finish(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_failed_append_leaves_no_trace),
        cmocka_unit_test(test_failed_create_leaves_no_file),
        cmocka_unit_test(test_flush_errors),
        cmocka_unit_test(test_retired_is_not_opened_again),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
