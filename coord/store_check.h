/*
 * Verifies an embedded store that no process uses, for `topicfs check`.
 */
#ifndef TOPICFS_STORE_CHECK_H
#define TOPICFS_STORE_CHECK_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Checks both copies in `dir`, printing one line per finding to `out`. Changes nothing
 * without `repair`; with it a copy that is damaged is written anew from the other.
 * Returns the number of findings left (0: clean, repaired, or no store there), or a
 * negative code: E_CORRUPT (both copies are damaged), E_NEWER_FORMAT, an errno.
 */
int store_embedded_check(const char *dir, bool repair, FILE *out);

#endif
