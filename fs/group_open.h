/*
 * The requests of the kernel about groups that wait for a coordinator: opening a file
 * or a listing, and removing a group. Each is answered exactly once; ends with EINTR at
 * an interrupt, EHOSTUNREACH when no coordinator answers in time, ENOTCONN when the
 * mount stops. One of the few modules that know FUSE. Called on a FUSE worker.
 */
#ifndef TOPICFS_GROUP_OPEN_H
#define TOPICFS_GROUP_OPEN_H

#include "fs/fuse_api.h"
#include "fs/handle.h"

/* Answers the open of a handle that is not ready yet; releases it if that fails. */
void group_open_file(fuse_req_t req, struct mounted *mounted, struct handle *handle,
                     const struct fuse_file_info *fi);
/* opendir() of what tree_is_group_listing(). */
void group_open_directory(fuse_req_t req, struct mounted *mounted,
                          const struct node *node, const struct fuse_file_info *fi);
void group_open_remove(fuse_req_t req, struct mounted *mounted, const char *group);

#endif
