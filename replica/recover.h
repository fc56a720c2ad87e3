/*
 * Opening a log: which segments there are, what of them can be trusted, where the log
 * ends. Fills the table, start and end of a log that log_open() made.
 *
 * The rules, with limit = the larger of what was flushed and what was committed:
 *   - Below the limit nothing is ever cut. What is bad there is reported and not
 * served; if that leaves the end in doubt, appends go on in a new segment, behind every
 * offset that may have been given.
 *   - At or above the limit, what a crash left torn is cut, so that a prefix is left.
 *   - After a clean stop only sizes and last entries are looked at; else also the
 * entries and text behind the flushed point.
 */
#ifndef TOPICFS_RECOVER_H
#define TOPICFS_RECOVER_H

#include "replica/log.h"

/* 0, E_NEWER_FORMAT, or a negative errno. */
int recover_log(struct log *log, const struct log_params *params);

#endif
