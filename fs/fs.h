/*
 * Public header of the fs layer: the mount. main() makes the parts, then serves here.
 *
 *     mount_serve(&params, why, sizeof why);   // returns after unmount or a signal
 */
#ifndef TOPICFS_FS_H
#define TOPICFS_FS_H

#include "coord/coord.h"
#include "replica/replica.h"

struct mount_params {
    const char *mountpoint;
    struct cluster *cluster; /* borrowed, as all of these */
    struct broker *broker;
    struct groups *groups;
    struct problems *problems;
    const struct clock *clock;
    const struct mount_config *config;
    const char *const *fuse_options; /* options for libfuse and the kernel, e.g. "ro" */
    size_t fuse_option_count;
    /* Called once, when the mount answers requests (readiness notification). */
    void (*ready)(void *arg);
    void *ready_arg;
};

/* Blocks the signals that end the mount. To be called before the process starts its
 * first thread, so that one of them can only be taken by mount_serve(), at leisure. */
void mount_block_signals(void);

/* Mounts and serves until unmounted or SIGTERM, SIGINT, SIGHUP. Everything parked is
 * answered before it returns. 0, or a negative code with the reason in `why`. */
int mount_serve(const struct mount_params *params, char *why, size_t why_size);

#endif
