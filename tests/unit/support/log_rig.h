/*
 * A log on the fake disk together with what it should hold, for the tests of the log.
 *
 *     struct log_rig rig;
 *     log_rig_make(&rig, seed);
 *     assert_int_equal(log_rig_open(&rig, LOG_CLEAN), 0);
 *     log_rig_append(&rig, 3, 100);          // three lines of up to 100 bytes
 *     log_rig_check(&rig);                   // all that was appended reads back
 *     log_rig_remove(&rig);
 */
#ifndef TOPICFS_TEST_LOG_RIG_H
#define TOPICFS_TEST_LOG_RIG_H

#include "replica/file_cache.h"
#include "replica/log.h"
#include "tests/unit/support/fake_disk.h"

#define LOG_RIG_DIR "data/t-0"

struct log_rig_line {
    char *text; /* with its newline */
    size_t length;
    int64_t timestamp_ms;
};

struct log_rig {
    struct fake_disk *fake;
    struct file_cache *files;
    struct log *log; /* NULL while closed */
    struct topic_config config;
    struct clock clock;
    struct log_rig_line *lines; /* indexed by offset - first */
    int64_t first;
    int64_t count;
    int64_t now_ms;
    struct batch last; /* what the last append returned */
    /* The checkpoint, for the next open. */
    int64_t log_start_offset;
    int64_t flushed_offset;
    int64_t high_watermark;
    int64_t log_end_offset;
    /* Damage since the last open. */
    struct log_damage damage[32];
    size_t damage_count;
};

void log_rig_make(struct log_rig *rig, uint64_t seed);
void log_rig_remove(struct log_rig *rig);

int log_rig_open(struct log_rig *rig, enum log_recovery recovery);
void log_rig_close(struct log_rig *rig); /* as a crash sees it: nothing is flushed */

int64_t log_rig_end(const struct log_rig *rig);        /* of what was appended */
int64_t log_rig_stored_end(const struct log_rig *rig); /* of what the log has */
/* One batch of random lines, the last of which ends the model also if this fails. */
int log_rig_append(struct log_rig *rig, uint32_t lines, size_t max_length);
int log_rig_flush(struct log_rig *rig); /* moves flushed_offset */
/* Forgets what was appended at or above `end`. */
void log_rig_cut_model(struct log_rig *rig, int64_t end);

/* The line at `offset` as read through find and read: 0 and a check that it is the
 * right one (fails the test if not), or the error. */
int log_rig_read_line(struct log_rig *rig, int64_t offset);
/* Everything from the log's start to its end reads back, by one scan and line by line.
 */
void log_rig_check(struct log_rig *rig);

#endif
