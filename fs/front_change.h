/*
 * The part of the front that changes the cluster: mkdir, rmdir, chmod, chown. Each is
 * an operation on the operations' thread, which also answers the request.
 */
#ifndef TOPICFS_FRONT_CHANGE_H
#define TOPICFS_FRONT_CHANGE_H

#include "fs/fuse_api.h"
#include "fs/mounted.h"

void front_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void front_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void front_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                   struct fuse_file_info *fi);

/* Provided by front.c: answers with the node of a place, looked up once more; with a
 * node's attributes. */
void front_reply_entry(fuse_req_t req, struct mounted *mounted,
                       const struct tree_place *place);
void front_reply_attr(fuse_req_t req, struct mounted *mounted, const struct node *node);

#endif
