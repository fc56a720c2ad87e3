/*
 * A log whose process or machine crashes while it is written to, again and again: for
 * the tests of recovery. Programs of their own share it, so that each is short, also
 * where memory is checked.
 *
 *     for (uint64_t seed = 0; seed < CRASH_RIG_SEEDS; seed++)
 *         crash_rig_rounds(seed, true, EXACT);
 */
#ifndef TOPICFS_TEST_CRASH_RIG_H
#define TOPICFS_TEST_CRASH_RIG_H

#include "tests/unit/support/log_rig.h"

enum { CRASH_RIG_SEEDS = 60 };

/* What the checkpoint tells after the crash: how far was flushed, less than that,
 * nothing. */
enum checkpoint { EXACT, STALE, LOST };

/* Appends and flushes at random until the disk stops; *acked: what append returned 0
 * for. */
void crash_rig_work(struct log_rig *rig, int64_t *acked, int64_t *flushed);

/* A new log, and that work, until the disk has done `least` to `least` + 149 steps;
 * closed.
 */
void crash_rig_begin(struct log_rig *rig, uint64_t seed, int64_t least, int64_t *acked,
                     int64_t *flushed);

/* The log was opened without damage, has at least that many messages, and nothing that
 * was not appended; the model is cut to it. */
void crash_rig_check(struct log_rig *rig, int64_t at_least);

/* Four times: work, a crash (of the machine if `power`), and a start that keeps what it
 * must. */
void crash_rig_rounds(uint64_t seed, bool power, enum checkpoint checkpoint);

#endif
