#include "tests/unit/support/crash_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 4 };

void crash_rig_work(struct log_rig *rig, int64_t *acked, int64_t *flushed)
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

void crash_rig_begin(struct log_rig *rig, uint64_t seed, int64_t least, int64_t *acked,
                     int64_t *flushed)
{
    *acked = *flushed = 0;
    log_rig_make(rig, seed);
    assert_int_equal(log_rig_open(rig, LOG_CLEAN), 0);
    rig->flushed_offset = rig->high_watermark = 0;
    fake_disk_stop_after(rig->fake, least + (int64_t)fake_disk_random(rig->fake, 150));
    crash_rig_work(rig, acked, flushed);
    log_rig_close(rig);
}

void crash_rig_check(struct log_rig *rig, int64_t at_least)
{
    int64_t end = log_rig_stored_end(rig);
    assert_true(end >= at_least);
    assert_true(end <= log_rig_end(rig));
    for (size_t i = 0; i < rig->damage_count; i++)
        print_error("damage: %lld to %lld\n", (long long)rig->damage[i].first_offset,
                    (long long)rig->damage[i].end_offset);
    assert_int_equal(rig->damage_count, 0);
    log_rig_cut_model(rig, end);
    log_rig_check(rig);
}

void crash_rig_rounds(uint64_t seed, bool power, enum checkpoint checkpoint)
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
        crash_rig_work(&rig, &acked, &flushed);
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
        crash_rig_check(&rig, power ? flushed : acked);
        acked = log_rig_end(&rig);
        /* What recovery left is to be durable before it counts as such. */
        assert_int_equal(log_rig_flush(&rig), 0);
        flushed = rig.flushed_offset;
    }
    log_rig_remove(&rig);
}
