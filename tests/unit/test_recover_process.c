#include "tests/unit/support/crash_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_process_crash_keeps_all_acknowledged(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CRASH_RIG_SEEDS; seed++) {
        crash_rig_rounds(seed, false, EXACT);
        crash_rig_rounds(seed, false, LOST);
    }
}

/*
 * After a crash of the process, recovery makes durable what it counts: whoever asks for
 * a flush then, or appends, can rely on it through a power cut.
 */
static void process_then_power(uint64_t seed, enum checkpoint checkpoint)
{
    struct log_rig rig;
    int64_t acked;
    int64_t flushed;
    crash_rig_begin(&rig, seed, 0, &acked, &flushed);
    fake_disk_process_crash(rig.fake);
    rig.flushed_offset = checkpoint == LOST ? -1 : checkpoint == STALE ? 0 : flushed;
    /* Without flush=ack, what was shown may be above what was flushed. */
    rig.high_watermark = checkpoint == LOST ? -1 : acked;
    assert_int_equal(log_rig_open(&rig, LOG_PROCESS_CRASHED), 0);
    crash_rig_check(&rig, acked);
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
    crash_rig_check(&rig, recovered);
    log_rig_remove(&rig);
}

static void test_process_crash_then_power_cut(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CRASH_RIG_SEEDS; seed++) {
        process_then_power(seed, EXACT);
        process_then_power(seed, STALE);
        process_then_power(seed, LOST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process_crash_keeps_all_acknowledged),
        cmocka_unit_test(test_process_crash_then_power_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
