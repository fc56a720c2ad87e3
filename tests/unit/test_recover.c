#include "replica/index.h"
#include "tests/unit/support/log_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

/* One thread: where races are looked for there are none, and reading is slow. */
#ifdef __SANITIZE_THREAD__
enum { CRASH_SEEDS = 10, ROUNDS = 4 };
#else
enum { CRASH_SEEDS = 60, ROUNDS = 4 };
#endif

static int64_t end_offset(struct log_rig *rig)
{
    struct log_bounds bounds;
    log_bounds_get(rig->log, &bounds);
    return bounds.end.offset;
}

/* Appends and flushes at random until the disk stops; *acked: what append returned 0
 * for. */
static void work(struct log_rig *rig, int64_t *acked, int64_t *flushed)
{
    for (int i = 0; i < 60; i++) {
        size_t length = fake_disk_random(rig->fake, 8) == 0 ? 2500 : 60;
        if (log_rig_append(rig, 1 + (uint32_t)fake_disk_random(rig->fake, 4), length) !=
            0)
            return;
        *acked = log_rig_end(rig);
        if (fake_disk_random(rig->fake, 5) == 0) {
            if (log_rig_flush(rig) != 0)
                return;
            *flushed = rig->flushed_offset;
        }
    }
}

static void check_recovered(struct log_rig *rig, int64_t at_least)
{
    int64_t end = end_offset(rig);
    assert_true(end >= at_least);
    assert_true(end <= log_rig_end(rig));
    for (size_t i = 0; i < rig->damage_count; i++)
        print_error("damage: %lld to %lld\n", (long long)rig->damage[i].first_offset,
                    (long long)rig->damage[i].end_offset);
    assert_int_equal(rig->damage_count, 0);
    log_rig_cut_model(rig, end);
    log_rig_check(rig);
}

enum checkpoint { EXACT, STALE, LOST };

static void crash_rounds(uint64_t seed, bool power, enum checkpoint checkpoint)
{
    struct log_rig rig;
    log_rig_make(&rig, seed);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    int64_t acked = 0;
    int64_t flushed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        /* A new partition's checkpoint says 0: nothing was flushed, and that is known.
         */
        int64_t known = rig.flushed_offset < 0 ? 0 : rig.flushed_offset;
        fake_disk_stop_after(rig.fake, (int64_t)fake_disk_random(rig.fake, 150));
        work(&rig, &acked, &flushed);
        log_rig_close(&rig);
        if (power)
            fake_disk_power_cut(rig.fake);
        else
            fake_disk_process_crash(rig.fake);
        rig.flushed_offset = checkpoint == EXACT   ? flushed
                             : checkpoint == STALE ? known
                                                   : -1;
        rig.high_watermark = checkpoint == LOST ? -1 : rig.flushed_offset;
        assert_int_equal(
            log_rig_open(&rig, power ? LOG_MACHINE_CRASHED : LOG_PROCESS_CRASHED), 0);
        check_recovered(&rig, power ? flushed : acked);
        acked = log_rig_end(&rig);
        /* What recovery left is to be durable before it counts as such. */
        assert_int_equal(log_rig_flush(&rig), 0);
        flushed = rig.flushed_offset;
    }
    log_rig_remove(&rig);
}

static void test_power_cut_keeps_a_prefix(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CRASH_SEEDS; seed++) {
        crash_rounds(seed, true, EXACT);
        crash_rounds(seed, true, STALE);
    }
}

static void test_process_crash_keeps_all_acknowledged(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CRASH_SEEDS; seed++) {
        crash_rounds(seed, false, EXACT);
        crash_rounds(seed, false, LOST);
    }
}

/*
 * After a crash of the process, recovery makes durable what it counts: whoever asks for
 * a flush then, or appends, can rely on it through a power cut.
 */
static void process_then_power(uint64_t seed, enum checkpoint checkpoint)
{
    struct log_rig rig;
    int64_t acked = 0;
    int64_t flushed = 0;
    log_rig_make(&rig, seed);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    rig.flushed_offset = rig.high_watermark = 0;
    fake_disk_stop_after(rig.fake, (int64_t)fake_disk_random(rig.fake, 150));
    work(&rig, &acked, &flushed);
    log_rig_close(&rig);
    fake_disk_process_crash(rig.fake);
    rig.flushed_offset = checkpoint == LOST ? -1 : checkpoint == STALE ? 0 : flushed;
    /* Without flush=ack, what was shown may be above what was flushed. */
    rig.high_watermark = checkpoint == LOST ? -1 : acked;
    assert_int_equal(log_rig_open(&rig, LOG_PROCESS_CRASHED), 0);
    check_recovered(&rig, acked);
    int64_t recovered = log_rig_end(&rig);
    if (seed % 2) {
        assert_int_equal(log_rig_append(&rig, 2, 60), 0);
        assert_int_equal(log_rig_flush(&rig), 0);
        recovered = log_rig_end(&rig);
    }
    log_rig_close(&rig);
    fake_disk_power_cut(rig.fake);
    rig.flushed_offset = rig.high_watermark = recovered;
    assert_int_equal(log_rig_open(&rig, LOG_MACHINE_CRASHED), 0);
    check_recovered(&rig, recovered);
    log_rig_remove(&rig);
}

/* A recovery that is itself cut short, again and again, loses nothing either. */
static void crash_while_recovering(uint64_t seed, bool power_again)
{
    struct log_rig rig;
    int64_t acked = 0;
    int64_t flushed = 0;
    log_rig_make(&rig, seed);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    rig.flushed_offset = rig.high_watermark = 0;
    fake_disk_stop_after(rig.fake, 20 + (int64_t)fake_disk_random(rig.fake, 150));
    work(&rig, &acked, &flushed);
    log_rig_close(&rig);
    fake_disk_power_cut(rig.fake);
    rig.flushed_offset = rig.high_watermark =
        seed % 3 ? flushed : (int64_t)fake_disk_random(rig.fake, (uint64_t)flushed + 1);
    for (int i = 0; i < 6; i++) {
        fake_disk_stop_after(rig.fake, i);
        (void)log_rig_open(&rig, LOG_MACHINE_CRASHED);
        log_rig_close(&rig);
        if (power_again)
            fake_disk_power_cut(rig.fake);
        else
            fake_disk_process_crash(rig.fake);
    }
    assert_int_equal(log_rig_open(&rig, LOG_MACHINE_CRASHED), 0);
    check_recovered(&rig, flushed);
    assert_int_equal(log_rig_append(&rig, 2, 60), 0);
    log_rig_check(&rig);
    log_rig_remove(&rig);
}

static void test_crash_while_recovering(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CRASH_SEEDS; seed++) {
        crash_while_recovering(seed, false);
        crash_while_recovering(seed, true);
    }
}

static void test_process_crash_then_power_cut(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CRASH_SEEDS; seed++) {
        process_then_power(seed, EXACT);
        process_then_power(seed, STALE);
        process_then_power(seed, LOST);
    }
}

/* Without a checkpoint, what was not flushed may be left as damage; the rest must be
 * there. */
static void test_power_cut_and_lost_checkpoint(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CRASH_SEEDS; seed++) {
        struct log_rig rig;
        int64_t acked = 0;
        int64_t flushed = 0;
        log_rig_make(&rig, seed);
        assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
        fake_disk_stop_after(rig.fake, (int64_t)fake_disk_random(rig.fake, 150));
        work(&rig, &acked, &flushed);
        log_rig_close(&rig);
        fake_disk_power_cut(rig.fake);
        rig.flushed_offset = -1;
        assert_int_equal(log_rig_open(&rig, LOG_MACHINE_CRASHED), 0);
        assert_true(end_offset(&rig) >= flushed);
        int64_t readable_end = end_offset(&rig);
        if (readable_end > log_rig_end(&rig))
            readable_end = log_rig_end(&rig);
        for (int64_t i = 0; i < readable_end; i++) {
            int rc = log_rig_read_line(&rig, i);
            if (rc != 0) {
                assert_int_equal(rc, E_DAMAGED);
                assert_true(i >= flushed);
                assert_true(rig.damage_count > 0);
            }
        }
        log_rig_remove(&rig);
    }
}

/* ---- one file damaged ------------------------------------------------------ */

enum harm { GONE, EMPTIED, SHORTENED, FLIPPED, LENGTHENED, HARMS };

static void harm_file(struct log_rig *rig, const char *path, enum harm harm)
{
    const struct disk *disk = &rig->fake->disk;
    struct disk_stat st;
    assert_int_equal(disk->ops->stat_path(disk, path, &st), 0);
    if (harm == GONE) {
        assert_int_equal(disk->ops->unlink(disk, path), 0);
    } else if (harm == FLIPPED) {
        int64_t bit = (int64_t)fake_disk_random(rig->fake, (uint64_t)st.size * 8);
        assert_true(fake_disk_flip(rig->fake, path, bit));
    } else {
        int file = disk->ops->open(disk, path, DISK_WRITE);
        int64_t size = harm == EMPTIED ? 0
                       : harm == SHORTENED
                           ? (int64_t)fake_disk_random(rig->fake, (uint64_t)st.size)
                           : st.size + 100;
        assert_int_equal(disk->ops->truncate(disk, file, size), 0);
        disk->ops->close(disk, file);
    }
}

struct bases {
    int64_t bases[32];
    size_t count;
};

static int collect_base(void *arg, const struct log_segment_info *info)
{
    struct bases *bases = arg;
    bases->bases[bases->count++] = info->base_offset;
    return 0;
}

/* Builds the same log for a seed each time; flushed and stopped. */
static void build(struct log_rig *rig, uint64_t seed, struct bases *bases)
{
    log_rig_make(rig, seed);
    assert_int_equal(log_rig_open(rig, LOG_CLEAN), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(log_rig_append(rig, 1 + i % 4, 100), 0);
    assert_int_equal(log_rig_flush(rig), 0);
    *bases = (struct bases){.count = 0};
    assert_int_equal(log_each_segment(rig->log, collect_base, bases), 0);
    int64_t last = bases->bases[bases->count - 1];
    struct log_segment_info info;
    assert_int_equal(log_segment_find(rig->log, last, &info), 0);
    bases->bases[bases->count++] = info.end_offset;
    rig->high_watermark = rig->log_end_offset = rig->flushed_offset;
    log_rig_close(rig);
}

static void harm_and_open(uint64_t seed, size_t which, const char *suffix,
                          enum harm harm, enum log_recovery recovery)
{
    struct log_rig rig;
    struct bases bases;
    char path[64];
    build(&rig, seed, &bases);
    int64_t base = bases.bases[which];
    int64_t next = which + 1 < bases.count ? bases.bases[which + 1] : log_rig_end(&rig);
    snprintf(path, sizeof path, LOG_RIG_DIR "/%020lld%s", (long long)base, suffix);
    harm_file(&rig, path, harm);
    struct disk_stat harmed, opened;
    const struct disk *disk = &rig.fake->disk;
    bool there = disk->ops->stat_path(disk, path, &harmed) == 0;

    assert_int_equal(log_rig_open(&rig, recovery), 0);
    int64_t end = log_rig_end(&rig);
    assert_true(end_offset(&rig) >= end);
    if (there && harm != LENGTHENED) {
        assert_int_equal(disk->ops->stat_path(disk, path, &opened), 0);
        assert_int_equal(opened.size, harmed.size); /* kept as evidence */
    }
    size_t bad = 0;
    for (int64_t i = 0; i < end; i++) {
        int rc = log_rig_read_line(&rig, i);
        if (rc != 0) {
            assert_int_equal(rc, E_DAMAGED);
            assert_in_range(i, base, next - 1);
            bad++;
        }
    }
    assert_true(bad > 0 || harm == LENGTHENED);
    assert_true(rig.damage_count > 0);

    /* Appends go on behind everything that was ever given. */
    int64_t log_end = end_offset(&rig);
    log_rig_cut_model(&rig, rig.first);
    rig.first = log_end;
    assert_int_equal(log_rig_append(&rig, 2, 50), 0);
    assert_int_equal(rig.last.base_offset, log_end);
    assert_int_equal(log_rig_read_line(&rig, log_end + 1), 0);
    assert_int_equal(log_rig_flush(&rig), 0);

    /* And a second start sees the same. */
    rig.high_watermark = rig.log_end_offset = rig.flushed_offset;
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    assert_int_equal(end_offset(&rig), log_end + 2);
    assert_int_equal(log_rig_read_line(&rig, log_end), 0);
    log_rig_remove(&rig);
}

static void test_each_file_damaged(void **state)
{
    (void)state;
    struct log_rig rig;
    struct bases bases;
    build(&rig, 1, &bases);
    log_rig_remove(&rig);
    assert_in_range(bases.count, 3, 10);
    static const enum log_recovery modes[] = {LOG_CLEAN, LOG_PROCESS_CRASHED,
                                              LOG_MACHINE_CRASHED};
    for (size_t which = 0; which < bases.count; which++) {
        for (int harm = 0; harm < HARMS; harm++) {
            for (size_t mode = 0; mode < 3; mode++) {
                /* Behind the flushed end, a longer file is a torn append and cut. */
                if (harm == LENGTHENED && which == bases.count - 1)
                    continue;
                harm_and_open(1, which, ".log", (enum harm)harm, modes[mode]);
                harm_and_open(1, which, ".index", (enum harm)harm, modes[mode]);
            }
        }
    }
}

static void test_pair_lost(void **state)
{
    (void)state;
    struct log_rig rig;
    struct bases bases;
    char path[64];
    build(&rig, 2, &bases);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, LOG_RIG_DIR "/%020lld%s", (long long)bases.bases[1],
                 i == 0 ? ".log" : ".index");
        harm_file(&rig, path, GONE);
    }
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    assert_int_equal(rig.damage_count, 1);
    assert_int_equal(rig.damage[0].first_offset, bases.bases[1]);
    assert_int_equal(rig.damage[0].end_offset, bases.bases[2]);
    for (int64_t i = 0; i < log_rig_end(&rig); i++) {
        bool lost = i >= bases.bases[1] && i < bases.bases[2];
        assert_int_equal(log_rig_read_line(&rig, i), lost ? E_DAMAGED : 0);
    }
    /* A reader that goes on byte by byte is told, too. */
    struct log_segment_info info;
    struct extent extent;
    struct log_bounds bounds;
    log_bounds_get(rig.log, &bounds);
    assert_int_equal(log_segment_find(rig.log, bases.bases[0], &info), 0);
    assert_int_equal(log_read(rig.log, info.position + info.size, 100,
                              bounds.end.position, 0, &extent),
                     E_DAMAGED);
    log_rig_remove(&rig);
}

static void test_all_lost(void **state)
{
    (void)state;
    struct log_rig rig;
    log_rig_make(&rig, 3);
    rig.log_start_offset = 10;
    rig.flushed_offset = 40;
    rig.log_end_offset = 50;
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    assert_int_equal(rig.damage_count, 1);
    assert_int_equal(end_offset(&rig), 50);
    rig.first = 50;
    assert_int_equal(log_rig_append(&rig, 1, 10), 0);
    assert_int_equal(rig.last.base_offset, 50);
    assert_int_equal(log_rig_read_line(&rig, 50), 0);
    log_rig_remove(&rig);
}

static void put_header(struct log_rig *rig, int64_t base, const uint8_t *header)
{
    char path[64];
    const struct disk *disk = &rig->fake->disk;
    snprintf(path, sizeof path, LOG_RIG_DIR "/%020lld.index", (long long)base);
    int file = disk->ops->open(disk, path, DISK_WRITE);
    assert_int_equal(disk_write_all(disk, file, header, INDEX_HEADER_BYTES, 0), 0);
    disk->ops->close(disk, file);
}

static void test_newer_format(void **state)
{
    (void)state;
    struct log_rig rig;
    struct bases bases;
    uint8_t header[INDEX_HEADER_BYTES];
    build(&rig, 4, &bases);
    struct index_header fields = {.topic_id = {.bytes = {1, 2, 3}}};
    index_header_encode(&fields, header);
    header[8] = INDEX_VERSION + 1;
    uint64_t hash = XXH3_64bits(header, 56);
    memcpy(header + 56, &hash, 8);
    put_header(&rig, 0, header);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), E_NEWER_FORMAT);
    assert_null(rig.log);

    /* Files that were copied from another topic are not served as this one's. */
    fields.topic_id.bytes[0] = 9;
    index_header_encode(&fields, header);
    put_header(&rig, 0, header);
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    assert_int_equal(rig.damage_count, 1);
    assert_int_equal(log_rig_read_line(&rig, 0), E_DAMAGED);
    assert_int_equal(log_rig_read_line(&rig, bases.bases[1]), 0);
    log_rig_remove(&rig);
}

static void test_foreign_files_are_left_alone(void **state)
{
    (void)state;
    struct log_rig rig;
    struct bases bases;
    struct disk_stat st;
    build(&rig, 5, &bases);
    const struct disk *disk = &rig.fake->disk;
    const char *names[] = {LOG_RIG_DIR "/notes.txt", LOG_RIG_DIR "/1.log",
                           LOG_RIG_DIR "/99999999999999999999.log"};
    for (int i = 0; i < 3; i++)
        disk->ops->close(disk,
                         disk->ops->open(disk, names[i], DISK_WRITE | DISK_CREATE));
    assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
    assert_int_equal(rig.damage_count, 0);
    log_rig_check(&rig);
    for (int i = 0; i < 3; i++)
        assert_int_equal(disk->ops->stat_path(disk, names[i], &st), 0);
    log_rig_remove(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_cut_keeps_a_prefix),
        cmocka_unit_test(test_process_crash_keeps_all_acknowledged),
        cmocka_unit_test(test_process_crash_then_power_cut),
        cmocka_unit_test(test_crash_while_recovering),
        cmocka_unit_test(test_power_cut_and_lost_checkpoint),
        cmocka_unit_test(test_each_file_damaged),
        cmocka_unit_test(test_pair_lost),
        cmocka_unit_test(test_all_lost),
        cmocka_unit_test(test_newer_format),
        cmocka_unit_test(test_foreign_files_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
