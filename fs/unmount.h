/*
 * `topicfs umount`: ends a mount, tells who keeps it from ending, and waits for its
 * daemon to have stopped, so that the data directory is free when it returns.
 *
 * Any thread; blocks.
 */
#ifndef TOPICFS_UNMOUNT_H
#define TOPICFS_UNMOUNT_H

#include <stdbool.h>

/* Unmounts whatever is at `path` (absolute): umount2(2) as root, else fusermount3,
 * which says on standard error why it can't. 0; -EBUSY; another negative errno. */
int unmount_path(const char *path, bool lazy);

/*
 * The whole command, with its messages on standard error. `path` as the user gave it;
 * `lazy`: detach although it is busy; `release`: afterwards take the write protection
 * off the directory. 0, or a negative errno after a message.
 */
int unmount_command(const char *path, bool lazy, bool release);

#endif
