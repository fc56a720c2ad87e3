/*
 * Which processes use files below a directory: what fuser(1) finds out, from /proc.
 *
 *     procscan(path, print_user, NULL);
 *
 * Sees only what the caller may see: as a user, the user's own processes. It reads
 * links in /proc and touches no file below the directory itself. Any thread.
 */
#ifndef TOPICFS_PROCSCAN_H
#define TOPICFS_PROCSCAN_H

#include <sys/types.h>

struct procscan_user {
    pid_t pid;
    char name[32];    /* the process's name */
    const char *how;  /* "works in", "has open", "has mapped", "has as root" */
    const char *path; /* borrowed during the call */
};

/* Nonzero ends the scan. Called at most once a process. */
typedef int procscan_fn(void *arg, const struct procscan_user *user);

/* `path`: absolute, without symbolic links. 0, a nonzero result of fn, a negative
 * errno. */
int procscan(const char *path, procscan_fn *fn, void *arg);

#endif
