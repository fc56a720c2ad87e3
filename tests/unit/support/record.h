/*
 * A reply that records its answer, and can be interrupted as FUSE does it.
 *
 *     struct record record;
 *     record_init(&record);
 *     appender_write(appender, &record.reply, ...);
 *     record_wait(&record);              // fails the test after 10 s
 *     assert_int_equal(record.error, 0);
 *     record_end(&record);
 *
 * A second answer fails the test.
 */
#ifndef TOPICFS_TEST_RECORD_H
#define TOPICFS_TEST_RECORD_H

#include "fs/reply.h"

#include <pthread.h>

struct record {
    struct reply reply;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int answers;
    int error;
    size_t written;
    char *bytes;
    size_t length;
    void (*fn)(void *arg);
    void *arg;
    bool interrupted;
    bool running;
};

void record_init(struct record *record);
void record_end(struct record *record);
void record_interrupt(struct record *record);
void record_wait(struct record *record);
/* true if it was answered within ms. */
bool record_wait_ms(struct record *record, int64_t ms);
bool record_answered(struct record *record);
/* Waits for the answer, which must be this, and ends the record. */
void record_expect_bytes(struct record *record, const char *want);
void record_expect_error(struct record *record, int want);
/* Waits for the answer, ends the record, and returns the bytes written or the error. */
long record_result(struct record *record);

#endif
