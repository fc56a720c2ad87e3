/* libfuse's low-level API in the version that all of the mount is written to. */
#ifndef TOPICFS_FUSE_API_H
#define TOPICFS_FUSE_API_H

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#endif
