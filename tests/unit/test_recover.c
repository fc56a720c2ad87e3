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
    assert_true(log_rig_stored_end(&rig) >= end);
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
    int64_t log_end = log_rig_stored_end(&rig);
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
    assert_int_equal(log_rig_stored_end(&rig), log_end + 2);
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
    assert_int_equal(log_rig_stored_end(&rig), 50);
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
        cmocka_unit_test(test_each_file_damaged),
        cmocka_unit_test(test_pair_lost),
        cmocka_unit_test(test_all_lost),
        cmocka_unit_test(test_newer_format),
        cmocka_unit_test(test_foreign_files_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
