/*
 * `topicfs check`: verifies a data directory that no process uses. Every checksum,
 * offset and size of every segment; the store's two copies; the checkpoint.
 */
#ifndef TOPICFS_CHECK_H
#define TOPICFS_CHECK_H

#include <stdbool.h>
#include <stdio.h>

enum check_result { CHECK_CLEAN = 0, CHECK_REPAIRED = 1, CHECK_DAMAGED = 4 };

/*
 * Prints one line per finding to `out`, then a summary. With `repair`: cuts a torn
 * tail, rebuilds lost or damaged indexes from the text, keeps all lines that can be
 * kept with their offsets. Returns a check_result, or a negative code (E_IN_USE,
 * E_NEWER_FORMAT, errno). Exit codes as fsck's: 0 clean, 1 repaired, 4 damage left, 8
 * failed to run.
 */
int check_data_directory(const char *path, bool repair, FILE *out);

#endif
