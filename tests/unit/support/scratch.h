/*
 * A new directory for a test: in memory where the machine has /dev/shm, so that tests
 * that flush thousands of times need seconds instead of minutes, else in /tmp.
 */
#ifndef TOPICFS_TEST_SCRATCH_H
#define TOPICFS_TEST_SCRATCH_H

#include <stddef.h>

/* Fills in the path; a failure is a failed assertion of the running test. */
void scratch_make(char *path, size_t size);

#endif
