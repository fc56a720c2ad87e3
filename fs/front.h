/*
 * The front: each FUSE request decoded, handed to the module that knows what it means,
 * and answered. Nothing waits in here; nothing here knows what a message is.
 *
 *     session = fuse_session_new(&args, &front_operations, sizeof front_operations,
 *                                mounted);
 *
 * What is refused, and how:
 *
 *     unlink, rename, link, symlink, mknod, other names to create    EPERM
 *     truncate(2), times other than "now", chmod and chown but on
 *       topics/ and a topic's directory                              EPERM
 *     extended attributes                      EOPNOTSUPP (the kernel stops asking)
 *     fallocate                                                      EOPNOTSUPP
 *
 * Setting the times to "now" is accepted and changes nothing, as touch(1) on a file
 * with chattr +a succeeds: a log's time is that of its last message.
 */
#ifndef TOPICFS_FRONT_H
#define TOPICFS_FRONT_H

#include "fs/fuse_api.h"
#include "fs/mounted.h"

extern const struct fuse_lowlevel_ops front_operations;

#endif
