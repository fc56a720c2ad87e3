/*
 * Going into the background, and telling whoever waits how it went.
 *
 *     daemon_close_inherited();       // first of all, if it will go into the
 * background struct daemon daemon; if (daemon_start(&daemon, background, &status) ==
 * DAEMON_PARENT) return status;              // the child is ready, or has failed and
 * said why
 *     ...
 *     daemon_log(&daemon, data);      // standard error goes to <data>/topicfs.log
 *     ...
 *     daemon_ready(&daemon);          // or: daemon_failed(&daemon, why)
 *     ...
 *     daemon_stopping(&daemon);
 *
 * The parent returns only when the child is ready, so a script can go on at once. Until
 * then the child stays in the caller's session: Ctrl-C ends both.
 *
 * In the foreground the same calls just tell systemd (Type=notify), if it asked.
 *
 * daemon_start() before any thread is made; the rest from any one thread.
 */
#ifndef TOPICFS_DAEMON_H
#define TOPICFS_DAEMON_H

#include <stdbool.h>
#include <sys/types.h>

struct daemon {
    bool background;
    int pipe;        /* to the parent; -1 once it was told, or in the foreground */
    int log;         /* topicfs.log; -1: standard error is left as it is */
    off_t log_start; /* where this run's part of the log begins */
};

enum daemon_side { DAEMON_CHILD, DAEMON_PARENT };

/* Closes what the caller left open above standard error: a daemon that goes on holding
 * a script's lock file or pipe would keep others waiting for ever. */
void daemon_close_inherited(void);

/* Forks if `background`. A negative errno if that fails. *status is set in the parent.
 */
int daemon_start(struct daemon *daemon, bool background, int *status);

/* Sends standard error to the log, unless in the foreground or the journal already gets
 * it. 0 or a negative errno. */
int daemon_log(struct daemon *daemon, const char *data);

/* false: the parent was ended while it waited; whoever ended it wants no mount. */
bool daemon_ready(struct daemon *daemon);
void daemon_failed(struct daemon *daemon, const char *why);
void daemon_stopping(const struct daemon *daemon);

#endif
