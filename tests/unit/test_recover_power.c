#include "tests/unit/support/crash_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_power_cut_keeps_a_prefix(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CRASH_RIG_SEEDS; seed++) {
        crash_rig_rounds(seed, true, EXACT);
        crash_rig_rounds(seed, true, STALE);
    }
}

/* A recovery that is itself cut short, again and again, loses nothing either. */
static void crash_while_recovering(uint64_t seed, bool power_again)
{
    struct log_rig rig;
    int64_t acked;
    int64_t flushed;
    crash_rig_begin(&rig, seed, 20, &acked, &flushed);
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
    crash_rig_check(&rig, flushed);
    assert_int_equal(log_rig_append(&rig, 2, 60), 0);
    log_rig_check(&rig);
    log_rig_remove(&rig);
}

static void test_crash_while_recovering(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CRASH_RIG_SEEDS; seed++) {
        crash_while_recovering(seed, false);
        crash_while_recovering(seed, true);
    }
}

/* Without a checkpoint, what was not flushed may be left as damage; the rest must be
 * there. */
static void test_power_cut_and_lost_checkpoint(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CRASH_RIG_SEEDS; seed++) {
        struct log_rig rig;
        int64_t acked;
        int64_t flushed;
        crash_rig_begin(&rig, seed, 0, &acked, &flushed);
        fake_disk_power_cut(rig.fake);
        rig.flushed_offset = rig.high_watermark = -1;
        assert_int_equal(log_rig_open(&rig, LOG_MACHINE_CRASHED), 0);
        assert_true(log_rig_stored_end(&rig) >= flushed);
        int64_t readable_end = log_rig_stored_end(&rig);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_cut_keeps_a_prefix),
        cmocka_unit_test(test_crash_while_recovering),
        cmocka_unit_test(test_power_cut_and_lost_checkpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
