#include "fs/unmount.h"

#include "coord/coord.h"
#include "fs/mountpoint.h"
#include "fs/mounttable.h"
#include "fs/procscan.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STOP_WAIT_MS = 30000, LAZY_WAIT_MS = 500, POLL_MS = 20, USERS_SHOWN_MAX = 20 };

/* A user may unmount only through the setuid helper. */
static int run_fusermount(const char *path, bool lazy)
{
    char program[] = "fusermount3", unmount[] = "-u", later[] = "-z", end[] = "--";
    char *target = strdup(path);
    char *plain_args[] = {program, unmount, end, target, NULL};
    char *lazy_args[] = {program, unmount, later, end, target, NULL};
    int status = 0, rc = -ENOMEM;
    pid_t pid;

    if (target == NULL)
        return rc;
    rc = -posix_spawnp(&pid, program, NULL, NULL, lazy ? lazy_args : plain_args,
                       environ);
    free(target);
    if (rc < 0) {
        (void)fprintf(stderr, "topicfs: can't run fusermount3 (package fuse3): %s\n",
                      err_text(rc));
        return rc;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    /* It has one exit code for everything; busy is by far the most common reason. */
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

int unmount_path(const char *path, bool lazy)
{
    if (geteuid() != 0)
        return run_fusermount(path, lazy);
    if (umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) < 0)
        return -errno;
    return 0;
}

static int print_user(void *arg, const struct procscan_user *user)
{
    int *shown = arg;

    if (*shown == 0)
        (void)fprintf(stderr, "It is used by:\n");
    if (++*shown > USERS_SHOWN_MAX) {
        (void)fprintf(stderr, "  and others\n");
        return 1;
    }
    (void)fprintf(stderr, "  %s (process %d) %s %s\n", user->name, (int)user->pid,
                  user->how, user->path);
    return 0;
}

static void explain_busy(const char *path)
{
    int shown = 0;

    (void)fprintf(stderr, "topicfs: %s is busy\n", path);
    (void)procscan(path, print_user, &shown);
    if (shown == 0)
        (void)fprintf(stderr,
                      "No process of yours uses it; as root more can be seen.\n");
    (void)fprintf(
        stderr, "\"topicfs umount --lazy %s\" detaches it now; it ends when they do.\n",
        path);
}

static int is_daemon(void *arg, const struct procscan_user *user)
{
    (void)arg;
    return strcmp(user->name, "topicfs") == 0 && user->pid != getpid();
}

/* The source of a mount is its data directory: a daemon has files open there until it
 * has written everything. */
static bool wait_for_daemon(const char *data, int64_t wait_ms)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};

    for (int64_t waited = 0; waited <= wait_ms; waited += POLL_MS) {
        if (procscan(data, is_daemon, NULL) != 1)
            return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

static int end_mount(const struct mounttable_entry *entry, bool lazy)
{
    int rc;

    if (!mounttable_is_topicfs(entry)) {
        (void)fprintf(stderr, "topicfs: what is mounted at %s is no topicfs but %s\n",
                      entry->path, entry->type);
        return -EINVAL;
    }
    rc = unmount_path(entry->path, lazy);
    if (rc == -EBUSY)
        explain_busy(entry->path);
    else if (rc < 0)
        (void)fprintf(stderr, "topicfs: can't unmount %s: %s\n", entry->path,
                      err_text(rc));
    if (rc < 0 || entry->source[0] != '/')
        return rc;
    if (!wait_for_daemon(entry->source, lazy ? LAZY_WAIT_MS : STOP_WAIT_MS))
        (void)fprintf(
            stderr, "topicfs: %s is unmounted, but its daemon has not ended yet%s\n",
            entry->path,
            lazy ? ": it ends with the last process that uses the mount" : "");
    return 0;
}

int unmount_command(const char *path, bool lazy, bool release)
{
    struct mounttable_entry entry = {0};
    char *resolved = NULL;
    int rc = mountpoint_resolve(path, &resolved);

    if (rc < 0) {
        (void)fprintf(stderr, "topicfs: %s: %s\n", path, err_text(rc));
        goto out;
    }
    rc = mounttable_find(resolved, &entry);
    if (rc == 0)
        rc = end_mount(&entry, lazy);
    else if (rc == -ENOENT && release)
        rc = 0;
    else
        (void)fprintf(stderr, "topicfs: nothing is mounted at %s\n", resolved);
    if (rc == 0 && release) {
        rc = mountpoint_release(resolved);
        if (rc < 0)
            (void)fprintf(stderr, "topicfs: can't take the protection off %s: %s\n",
                          resolved, err_text(rc));
    }
out:
    mounttable_entry_free(&entry);
    free(resolved);
    return rc;
}
