#include "replica/log_internal.h"
#include "tests/unit/support/log_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void make(struct log_rig *rig)
{
    log_rig_make(rig, 1);
    assert_int_equal(log_rig_open(rig, LOG_CLEAN), 0);
}

static void fill(struct log_rig *rig, int batches)
{
    for (int i = 0; i < batches; i++)
        assert_int_equal(log_rig_append(rig, 1 + (uint32_t)i % 4, 100), 0);
}

static int64_t end_offset(struct log_rig *rig)
{
    struct log_bounds bounds;
    log_bounds_get(rig->log, &bounds);
    return bounds.end.offset;
}

static int count_segment(void *arg, const struct log_segment_info *info)
{
    assert_true(info->closed);
    ++*(int *)arg;
    return 0;
}

static int closed_segments(struct log_rig *rig)
{
    int count = 0;
    assert_int_equal(log_each_segment(rig->log, count_segment, &count), 0);
    return count;
}

static void test_append_rolls_and_reads_back(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 200);
    assert_in_range(closed_segments(&rig), 3, 20);
    log_rig_check(&rig);
    /* Far more segments than files may be open. */
    assert_in_range(file_cache_open_count(rig.files), 1, 6);
    assert_int_equal(log_rig_flush(&rig), 0);
    assert_int_equal(rig.flushed_offset, log_rig_end(&rig));
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    log_rig_check(&rig);
    assert_int_equal(rig.damage_count, 0);
    fill(&rig, 5);
    log_rig_check(&rig);
    log_rig_remove(&rig);
}

static void test_appended_fields(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    struct batch batch = {.message_count = 2,
                          .length = 4,
                          .timestamp_ms = 5000,
                          .leader_epoch = 3,
                          .base_sequence = 17,
                          .producer_id = 99};
    assert_int_equal(log_append(rig.log, &batch, "a\nb\n"), 0);
    batch.timestamp_ms = 4000; /* clocks may go back: the log does not */
    batch.base_sequence = 19;
    assert_int_equal(log_append(rig.log, &batch, "c\nd\n"), 0);
    assert_int_equal(batch.timestamp_ms, 5000);
    assert_int_equal(batch.base_offset, 2);
    struct batch back;
    assert_int_equal(log_batch_at(rig.log, batch.position + 3, 0, &back), 0);
    assert_int_equal(back.base_offset, 2);
    assert_int_equal(back.position, batch.position);
    assert_int_equal(back.leader_epoch, 3);
    assert_int_equal(back.base_sequence, 19);
    assert_int_equal(back.producer_id, 99);
    assert_int_equal(back.payload_hash, batch.payload_hash);
    assert_int_equal(log_batch_at(rig.log, batch.position + 4, 0, &back), -ENOENT);
    batch.message_count = 0;
    assert_int_equal(log_append(rig.log, &batch, "c\nd\n"), -EINVAL);
    log_rig_remove(&rig);
}

/* Each change on the disk fails once: nothing is appended, and appends go on after. */
static void test_no_space(void **state)
{
    (void)state;
    for (int64_t at = 0; at < 60; at++) {
        struct log_rig rig;
        make(&rig);
        fake_disk_fail_after(rig.fake, at, ENOSPC, false);
        for (int i = 0; i < 40; i++) {
            int64_t before = log_rig_end(&rig);
            int rc = log_rig_append(&rig, 3, 100);
            if (rc != 0) {
                assert_int_equal(rc, -ENOSPC);
                log_rig_cut_model(&rig, before);
            }
            assert_int_equal(end_offset(&rig), log_rig_end(&rig));
        }
        fake_disk_fail_after(rig.fake, 0, 0, false);
        log_rig_check(&rig);
        assert_int_equal(log_rig_flush(&rig), 0);
        rig.high_watermark = rig.flushed_offset;
        log_rig_close(&rig);
        assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
        log_rig_check(&rig);
        assert_int_equal(rig.damage_count, 0);
        log_rig_remove(&rig);
    }
}

static void test_offline_when_it_cannot_cut_back(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 3);
    int64_t end = log_rig_end(&rig);
    fake_disk_fail_after(rig.fake, 0, EIO, true);
    assert_int_equal(log_rig_append(&rig, 1, 10), E_OFFLINE);
    fake_disk_fail_after(rig.fake, 0, 0, false);
    assert_int_equal(log_rig_append(&rig, 1, 10), E_OFFLINE);
    int64_t flushed;
    assert_int_equal(log_flush(rig.log, &flushed), E_OFFLINE);
    log_rig_cut_model(&rig, end);
    log_rig_check(&rig); /* reads go on */
    log_rig_remove(&rig);
}

static void test_failed_flush_is_final(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 3);
    int64_t flushed = -5;
    fake_disk_fail_after(rig.fake, 0, EIO, false);
    assert_int_equal(log_flush(rig.log, &flushed), E_OFFLINE);
    assert_int_equal(flushed, -5);
    assert_int_equal(log_flush(rig.log, &flushed), E_OFFLINE);
    assert_int_equal(log_rig_append(&rig, 1, 10), E_OFFLINE);
    log_rig_remove(&rig);
}

static void test_truncate(void **state)
{
    (void)state;
    for (int keep = 0; keep < 100; keep += 7) {
        struct log_rig rig;
        make(&rig);
        fill(&rig, keep);
        int64_t at = log_rig_end(&rig);
        fill(&rig, 100 - keep);
        assert_int_equal(log_truncate(rig.log, log_rig_end(&rig) + 1), -EINVAL);
        assert_int_equal(log_truncate(rig.log, at), 0);
        log_rig_cut_model(&rig, at);
        log_rig_check(&rig);
        fill(&rig, 30);
        log_rig_check(&rig);
        assert_int_equal(log_rig_flush(&rig), 0);
        rig.high_watermark = rig.flushed_offset;
        log_rig_close(&rig);
        fake_disk_power_cut(rig.fake);
        assert_int_equal(log_rig_open(&rig, LOG_MACHINE_CRASHED), 0);
        log_rig_check(&rig);
        log_rig_remove(&rig);
    }
}

static void test_truncate_inside_a_batch(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    assert_int_equal(log_rig_append(&rig, 3, 10), 0);
    assert_int_equal(log_truncate(rig.log, 1), -EINVAL);
    log_rig_check(&rig);
    log_rig_remove(&rig);
}

static void test_retention_by_bytes(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 200);
    int before = closed_segments(&rig);
    rig.config.retention_bytes = 8192;
    rig.config.retention_ms = -1;
    log_reconfigure(rig.log, &rig.config);
    assert_int_equal(log_retain(rig.log, 0, rig.now_ms, -1),
                     0); /* nothing is committed */
    int dropped = log_retain(rig.log, log_rig_end(&rig), rig.now_ms, -1);
    assert_in_range(dropped, 1, before - 1);
    assert_int_equal(closed_segments(&rig), before - dropped);
    struct log_bounds bounds;
    log_bounds_get(rig.log, &bounds);
    assert_in_range(bounds.end.position - bounds.start.position, 8192, 8192 + 4096);
    assert_int_equal(log_rig_read_line(&rig, 0), E_OFFSET_BELOW_START);
    struct extent extent;
    assert_int_equal(log_read(rig.log, bounds.start.position - 1, 1,
                              bounds.end.position, 0, &extent),
                     E_OFFSET_BELOW_START);
    log_rig_check(&rig);
    rig.log_start_offset = bounds.start.offset;
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    assert_int_equal(rig.damage_count, 0);
    log_rig_check(&rig);
    log_rig_remove(&rig);
}

/* What may be sent again stays, whatever the policy says. */
static void test_retention_keeps_what_is_young(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    int64_t first_ms = rig.now_ms;
    fill(&rig, 200);
    int64_t middle_ms = rig.now_ms;
    rig.now_ms += 5000;
    fill(&rig, 200);
    rig.config.retention_bytes = 0;
    rig.config.retention_ms = 1000;
    rig.config.segment_ms = 1000;
    log_reconfigure(rig.log, &rig.config);
    int64_t end = log_rig_end(&rig);
    assert_int_equal(log_retain(rig.log, end, first_ms + 10000, 10000), 0);
    assert_true(log_retain(rig.log, end, middle_ms + 10001, 10000) > 0);
    assert_true(closed_segments(&rig) > 1);
    assert_true(log_retain(rig.log, end, rig.now_ms + 10001, 10000) > 0);
    assert_int_equal(closed_segments(&rig), 0);
    log_rig_remove(&rig);
}

static void test_retention_by_time(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 100);
    rig.config.retention_ms = 1000;
    rig.config.segment_ms = 1000;
    log_reconfigure(rig.log, &rig.config);
    assert_int_equal(log_retain(rig.log, log_rig_end(&rig), rig.now_ms + 10, -1), 0);
    /* Nobody writes any more: in the end all of it goes, the offsets stay. */
    assert_true(log_retain(rig.log, log_rig_end(&rig), rig.now_ms + 5000, -1) > 0);
    struct log_bounds bounds;
    log_bounds_get(rig.log, &bounds);
    assert_int_equal(bounds.start.offset, log_rig_end(&rig));
    assert_int_equal(closed_segments(&rig), 0);
    fill(&rig, 3);
    log_rig_check(&rig);
    log_rig_remove(&rig);
}

/* Somebody cuts, removes or replaces the text that is appended to. */
enum touch { CUT, REMOVED };

static void touch_active(enum touch how)
{
    struct log_rig rig;
    make(&rig);
    rig.config.segment_bytes = 1 << 20;
    log_reconfigure(rig.log, &rig.config);
    fill(&rig, 20);
    int64_t before = log_rig_end(&rig);
    log_rig_check(&rig); /* its checksums are known to be right */
    const struct disk *disk = &rig.fake->disk;
    const char *path = LOG_RIG_DIR "/00000000000000000000.log";
    if (how == CUT) {
        int file = disk->ops->open(disk, path, DISK_WRITE);
        assert_int_equal(disk->ops->truncate(disk, file, 100), 0);
        disk->ops->close(disk, file);
    } else {
        assert_int_equal(disk->ops->unlink(disk, path), 0);
    }
    fill(&rig, 2);
    for (int64_t i = 0; i < before; i++) {
        int rc = log_rig_read_line(&rig, i); /* never other bytes */
        assert_true(rc == 0 || (how == CUT && rc == E_DAMAGED));
    }
    assert_true(how == REMOVED || rig.damage_count > 0);
    /* What was acknowledged since is kept. */
    assert_int_equal(log_rig_flush(&rig), 0);
    rig.high_watermark = rig.log_end_offset = rig.flushed_offset;
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    assert_true(rig.damage_count > 0);
    for (int64_t i = before; i < log_rig_end(&rig); i++)
        assert_int_equal(log_rig_read_line(&rig, i), 0);
    log_rig_remove(&rig);
}

static void test_active_text_touched(void **state)
{
    (void)state;
    touch_active(CUT);
    touch_active(REMOVED);
}

static void test_short_retention_rolls(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    /* The defaults for segments: what is asked of retention decides. */
    rig.config.segment_ms = 7 * 24 * 3600 * INT64_C(1000);
    rig.config.segment_bytes = 256 << 20;
    rig.config.retention_ms = 60000;
    log_reconfigure(rig.log, &rig.config);
    fill(&rig, 10);
    assert_int_equal(log_retain(rig.log, log_rig_end(&rig), rig.now_ms + 59000, -1), 0);
    assert_true(log_retain(rig.log, log_rig_end(&rig), rig.now_ms + 61000, -1) > 0);
    struct log_bounds bounds;
    log_bounds_get(rig.log, &bounds);
    assert_int_equal(bounds.start.offset, log_rig_end(&rig));

    /* Written to all the time, a log keeps no more than twice that. */
    for (int i = 0; i < 300; i++) {
        rig.now_ms += 1000;
        fill(&rig, 1);
        (void)log_retain(rig.log, log_rig_end(&rig), rig.now_ms, -1);
    }
    log_bounds_get(rig.log, &bounds);
    assert_in_range(log_rig_end(&rig) - bounds.start.offset, 60, 122);

    rig.config.retention_ms = -1;
    rig.config.retention_bytes = 100000;
    log_reconfigure(rig.log, &rig.config);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(log_rig_append(&rig, 1, 100), 0);
    (void)log_retain(rig.log, log_rig_end(&rig), rig.now_ms, -1);
    log_bounds_get(rig.log, &bounds);
    assert_in_range(bounds.end.position - bounds.start.position, 100000, 200100);
    log_rig_remove(&rig);
}

static void test_retention_on_a_full_disk(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 100);
    rig.config.retention_ms = 1000;
    log_reconfigure(rig.log, &rig.config);
    assert_true(closed_segments(&rig) > 0);
    fake_disk_fail_after(rig.fake, 0, ENOSPC, false);
    assert_true(log_retain(rig.log, log_rig_end(&rig), rig.now_ms + 5000, -1) > 0);
    assert_int_equal(closed_segments(&rig), 0);
    fill(&rig, 3);
    log_rig_remove(&rig);
}

static int64_t size_on_disk(struct log_rig *rig)
{
    struct log_bounds bounds;
    log_bounds_get(rig->log, &bounds);
    return bounds.size_bytes;
}

/* Giving space back takes a filesystem long, and an append waits for whoever drops. */
static void test_space_is_freed_later(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 200);
    log_rig_check(&rig); /* some files are open, most are not */
    rig.config.retention_bytes = 8192;
    log_reconfigure(rig.log, &rig.config);
    int64_t before = size_on_disk(&rig);
    int64_t freed = fake_disk_freed(rig.fake);
    assert_true(log_retain(rig.log, log_rig_end(&rig), rig.now_ms, -1) > 2);
    assert_int_equal(fake_disk_freed(rig.fake), freed);
    int64_t gone = before - size_on_disk(&rig);
    file_cache_free_space(rig.files);
    assert_int_equal(fake_disk_freed(rig.fake) - freed, gone);

    before = size_on_disk(&rig);
    freed = fake_disk_freed(rig.fake);
    assert_int_equal(log_restart(rig.log, 10), 0); /* and its files are there again */
    assert_int_equal(fake_disk_freed(rig.fake), freed);
    file_cache_free_space(rig.files);
    assert_in_range(fake_disk_freed(rig.fake) - freed, before - 4096, before);
    log_rig_close(&rig);
    log_rig_remove(&rig);
}

/* A reader's pin outlasts it, and does not pay for it either. */
static void test_space_of_what_is_read(void **state)
{
    (void)state;
    struct log_rig rig;
    struct extent extent;
    make(&rig);
    fill(&rig, 200);
    struct log_bounds bounds;
    log_bounds_get(rig.log, &bounds);
    assert_int_equal(log_read(rig.log, bounds.start.position, 10, bounds.end.position,
                              bounds.rewrites, &extent),
                     0);
    int64_t freed = fake_disk_freed(rig.fake);
    assert_int_equal(log_raise_start(rig.log, log_rig_end(&rig)), 0);
    char text[10];
    file_cache_free_space(rig.files);
    int64_t others = fake_disk_freed(rig.fake);
    assert_true(others > freed);
    assert_int_equal(disk_read_all(&rig.fake->disk, extent.fd, text, 10, extent.at), 0);
    assert_memory_equal(text, "0 ", 2);
    extent_release(&extent);
    assert_int_equal(fake_disk_freed(rig.fake), others);
    file_cache_free_space(rig.files);
    assert_true(fake_disk_freed(rig.fake) > others);
    log_rig_remove(&rig);
}

/* Appends get their turn while much expires at once. */
static void test_retention_goes_in_steps(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    rig.config.segment_bytes = 64;
    log_reconfigure(rig.log, &rig.config);
    fill(&rig, 100);
    int segments = closed_segments(&rig);
    assert_in_range(segments, LOG_RETAIN_MAX + 1, 100);
    rig.config.retention_bytes = 0;
    log_reconfigure(rig.log, &rig.config);
    int64_t end = log_rig_end(&rig);
    int dropped = 0;
    int rc;
    do {
        rc = log_retain(rig.log, end, rig.now_ms, -1);
        assert_in_range(rc, 1, LOG_RETAIN_MAX);
        assert_int_equal(closed_segments(&rig), segments - (dropped += rc));
    } while (rc == LOG_RETAIN_MAX);
    assert_int_equal(dropped, segments);
    log_rig_check(&rig);
    log_rig_remove(&rig);
}

/* A crash while segments are dropped is no damage. */
static void test_crash_while_dropping(void **state)
{
    (void)state;
    for (int64_t at = 0; at < 16; at++) {
        struct log_rig rig;
        make(&rig);
        fill(&rig, 100);
        assert_int_equal(log_rig_flush(&rig), 0);
        rig.high_watermark = rig.flushed_offset;
        rig.config.retention_bytes = 5000;
        log_reconfigure(rig.log, &rig.config);
        fake_disk_stop_after(rig.fake, at);
        (void)log_retain(rig.log, log_rig_end(&rig), rig.now_ms, -1);
        log_rig_close(&rig);
        fake_disk_power_cut(rig.fake);
        assert_int_equal(log_rig_open(&rig, LOG_MACHINE_CRASHED), 0);
        assert_int_equal(rig.damage_count, 0);
        log_rig_check(&rig);
        log_rig_remove(&rig);
    }
}

static void test_raise_start(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 100);
    struct log_bounds bounds;
    int64_t end = log_rig_end(&rig);
    assert_int_equal(log_raise_start(rig.log, end / 2), 0);
    assert_int_equal(log_raise_start(rig.log, 1), 0); /* never lowers it */
    log_bounds_get(rig.log, &bounds);
    assert_int_equal(bounds.start.offset, end / 2);
    log_rig_check(&rig);
    rig.log_start_offset = end / 2;
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    log_bounds_get(rig.log, &bounds);
    assert_int_equal(bounds.start.offset, end / 2);
    log_rig_check(&rig);

    /* Beyond the end: the log begins anew there. */
    assert_int_equal(log_raise_start(rig.log, end + 1000), 0);
    assert_int_equal(end_offset(&rig), end + 1000);
    struct extent extent;
    assert_int_equal(log_read(rig.log, bounds.end.position, 10, INT64_MAX, 0, &extent),
                     E_OFFSET_BELOW_START);
    log_rig_cut_model(&rig, rig.first);
    rig.first = end + 1000;
    fill(&rig, 3);
    log_rig_check(&rig);
    log_rig_remove(&rig);
}

static void test_extent_outlives_its_segment(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 100);
    struct extent extent;
    struct log_bounds bounds;
    log_bounds_get(rig.log, &bounds);
    assert_int_equal(
        log_read(rig.log, bounds.start.position, 50, bounds.end.position, 0, &extent),
        0);
    assert_int_equal(log_raise_start(rig.log, log_rig_end(&rig)), 0);
    log_rig_close(&rig);
    char text[50];
    const struct disk *disk = &rig.fake->disk;
    assert_int_equal(disk_read_all(disk, extent.fd, text, extent.length, extent.at), 0);
    assert_memory_equal(text, "0 ", 2);
    extent_release(&extent);
    extent_release(&extent);
    log_rig_remove(&rig);
}

/* Text that somebody changes while the log is open is never served. */
static void test_changed_under_us(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 100);
    log_rig_check(&rig);
    assert_true(fake_disk_flip(rig.fake, LOG_RIG_DIR "/00000000000000000000.log", 8));
    assert_int_equal(log_rig_read_line(&rig, 0), E_DAMAGED);
    assert_int_equal(log_rig_read_line(&rig, 0), E_DAMAGED);
    assert_int_equal(rig.damage_count, 1); /* told once */
    assert_int_equal(rig.damage[0].first_offset, 0);
    assert_int_equal(rig.damage[0].end_offset, 1);
    assert_int_equal(log_rig_read_line(&rig, 1), 0);
    log_rig_remove(&rig);
}

/* ---- replacing segments ------------------------------------------------------------
 */

/* Writes what a compaction would: of the segment at base, only the first batch. */
static void write_first_batch(struct log_rig *rig, int64_t base)
{
    const struct disk *disk = &rig->fake->disk;
    struct segment_view view;
    struct batch batch;
    char path[64];
    uint8_t bytes[INDEX_HEADER_BYTES];
    assert_int_equal(log_view_by_offset(rig->log, base, &view), 0);
    assert_int_equal(log_batch_at(rig->log, view.segment->position, 0, &batch), 0);
    log_view_release(&view);
    char text[1000];
    struct extent extent;
    assert_int_equal(
        log_read(rig->log, batch.position, batch.length, INT64_MAX, 0, &extent), 0);
    assert_int_equal(disk_read_all(disk, extent.fd, text, batch.length, extent.at), 0);
    extent_release(&extent);

    snprintf(path, sizeof path, LOG_RIG_DIR "/%020lld.log.new", (long long)base);
    int file = disk->ops->open(disk, path, DISK_WRITE | DISK_CREATE);
    assert_int_equal(disk_write_all(disk, file, text, batch.length, 0), 0);
    assert_int_equal(disk->ops->flush(disk, file), 0);
    disk->ops->close(disk, file);
    snprintf(path, sizeof path, LOG_RIG_DIR "/%020lld.index.new", (long long)base);
    file = disk->ops->open(disk, path, DISK_WRITE | DISK_CREATE);
    struct index_header header = {.flags = INDEX_COMPACTED,
                                  .topic_id = rig->log->home->topic_id,
                                  .base_offset = base};
    index_header_encode(&header, bytes);
    assert_int_equal(disk_write_all(disk, file, bytes, sizeof bytes, 0), 0);
    batch.position = 0;
    index_entry_encode(&batch, base, bytes);
    assert_int_equal(disk_write_all(disk, file, bytes, sizeof bytes, index_entry_at(0)),
                     0);
    assert_int_equal(disk->ops->flush(disk, file), 0);
    disk->ops->close(disk, file);
}

/* Closed segments 0 to 2; the first two are to be replaced by the first one's first
 * batch. */
static void prepare_replacement(struct log_rig *rig, int64_t bases[3])
{
    make(rig);
    fill(rig, 100);
    assert_int_equal(log_rig_flush(rig), 0);
    rig->high_watermark = rig->flushed_offset;
    bases[0] = 0;
    for (int i = 1; i < 3; i++) {
        struct log_segment_info info;
        assert_int_equal(log_segment_find(rig->log, bases[i - 1], &info), 0);
        bases[i] = info.end_offset;
    }
    write_first_batch(rig, 0);
}

/* The first batch of fill() is one line: offset 0 is left, then a hole up to the end.
 */
static void check_replaced(struct log_rig *rig, int64_t end)
{
    struct log_bounds bounds;
    struct log_place place;
    log_bounds_get(rig->log, &bounds);
    assert_int_equal(log_rig_read_line(rig, 0), 0);
    for (int64_t i = 1; i <= end; i++) {
        assert_int_equal(log_find_offset(rig->log, i, &bounds.end, &place), 0);
        assert_int_equal(place.offset, end);
    }
    for (int64_t i = end; i < bounds.end.offset; i++)
        assert_int_equal(log_rig_read_line(rig, i), 0);
    int64_t behind = bounds.end.offset - end;
    assert_int_equal(log_find_last(rig->log, behind + 1, &bounds.end, &place), 0);
    assert_int_equal(place.offset, 0);
    assert_int_equal(log_find_last(rig->log, behind, &bounds.end, &place), 0);
    assert_int_equal(place.offset, end);
}

static void test_replace_prefix(void **state)
{
    (void)state;
    struct log_rig rig;
    int64_t bases[3];
    struct log_bounds before, after;
    struct extent extent, pinned;
    prepare_replacement(&rig, bases);
    log_bounds_get(rig.log, &before);
    assert_int_equal(log_read(rig.log, 0, 10, INT64_MAX, 0, &pinned), 0);
    assert_int_equal(log_replace_prefix(rig.log, bases, 1, bases[2]), 0);
    log_bounds_get(rig.log, &after);
    assert_int_equal(after.rewrites, before.rewrites + 1);
    assert_int_equal(after.end.position, before.end.position);
    assert_true(after.start.position > before.start.position);
    check_replaced(&rig, bases[2]);
    /* An older view is void below, goes on above; what was pinned stays. */
    assert_int_equal(log_read(rig.log, 0, 10, INT64_MAX, before.rewrites, &extent),
                     E_RANGE_REWRITTEN);
    struct log_segment_info info;
    assert_int_equal(log_segment_find(rig.log, bases[2], &info), 0);
    assert_int_equal(
        log_read(rig.log, info.position, 10, INT64_MAX, before.rewrites, &extent), 0);
    assert_int_equal(extent.length, 10);
    extent_release(&extent);
    char text[2];
    assert_int_equal(disk_read_all(&rig.fake->disk, pinned.fd, text, 2, pinned.at), 0);
    assert_memory_equal(text, "0 ", 2);
    extent_release(&pinned);
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    assert_int_equal(rig.damage_count, 0);
    check_replaced(&rig, bases[2]);
    log_rig_remove(&rig);
}

static void test_crash_while_replacing(void **state)
{
    (void)state;
    for (int64_t at = 0; at < 20; at++) {
        struct log_rig rig;
        int64_t bases[3];
        prepare_replacement(&rig, bases);
        fake_disk_stop_after(rig.fake, at);
        int rc = log_replace_prefix(rig.log, bases, 1, bases[2]);
        log_rig_close(&rig);
        fake_disk_power_cut(rig.fake);
        assert_int_equal(log_rig_open(&rig, LOG_MACHINE_CRASHED), 0);
        assert_int_equal(rig.damage_count, 0);
        struct log_segment_info info;
        bool old = log_segment_find(rig.log, bases[1], &info) == 0;
        assert_true(rc != 0 || !old);
        if (old)
            log_rig_check(&rig);
        else
            check_replaced(&rig, bases[2]);
        log_rig_remove(&rig);
    }
}

static int list_nothing(void *arg, const char *name)
{
    (void)arg;
    fail_msg("%s was left", name);
    return 1;
}

static void test_remove(void **state)
{
    (void)state;
    struct log_rig rig;
    make(&rig);
    fill(&rig, 300);
    log_rig_close(&rig);
    const struct disk *disk = &rig.fake->disk;
    assert_int_equal(log_remove(disk, LOG_RIG_DIR), 0);
    assert_int_equal(disk->ops->list(disk, "data", list_nothing, NULL), 0);
    log_rig_remove(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append_rolls_and_reads_back),
        cmocka_unit_test(test_appended_fields),
        cmocka_unit_test(test_no_space),
        cmocka_unit_test(test_offline_when_it_cannot_cut_back),
        cmocka_unit_test(test_failed_flush_is_final),
        cmocka_unit_test(test_truncate),
        cmocka_unit_test(test_truncate_inside_a_batch),
        cmocka_unit_test(test_retention_by_bytes),
        cmocka_unit_test(test_retention_keeps_what_is_young),
        cmocka_unit_test(test_retention_by_time),
        cmocka_unit_test(test_active_text_touched),
        cmocka_unit_test(test_short_retention_rolls),
        cmocka_unit_test(test_retention_on_a_full_disk),
        cmocka_unit_test(test_space_is_freed_later),
        cmocka_unit_test(test_space_of_what_is_read),
        cmocka_unit_test(test_retention_goes_in_steps),
        cmocka_unit_test(test_crash_while_dropping),
        cmocka_unit_test(test_raise_start),
        cmocka_unit_test(test_extent_outlives_its_segment),
        cmocka_unit_test(test_changed_under_us),
        cmocka_unit_test(test_replace_prefix),
        cmocka_unit_test(test_crash_while_replacing),
        cmocka_unit_test(test_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
