/*
 * Diagnostics: one line per event on standard error, with a syslog priority prefix
 * ("<4>") when journald reads it (JOURNAL_STREAM is set), else with time and level.
 *
 *     diag(DIAG_WARNING, "partition %s: %s", name, err_text(rc));
 *
 * An error is logged once, where it is handled. Lines longer than 1 KiB are cut.
 * Any thread; no locks beyond one write(2).
 */
#ifndef TOPICFS_DIAG_H
#define TOPICFS_DIAG_H

enum diag_level { DIAG_ERROR = 3, DIAG_WARNING = 4, DIAG_INFO = 6, DIAG_DEBUG = 7 };

void diag(enum diag_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
