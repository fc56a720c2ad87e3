/*
 * XXH3 over message bytes, with the widest vectors that the processor has: the
 * library's plain functions are built for the oldest processor of the architecture,
 * which makes the hash of 128 KiB four times as slow. The values are the same.
 *
 *     #include "replica/payload_hash.h"    instead of <xxhash.h>
 *     hash = XXH3_64bits(bytes, length);
 *
 * TOPICFS_XXH_DISPATCH is set by the build where the library has such functions.
 */
#ifndef TOPICFS_PAYLOAD_HASH_H
#define TOPICFS_PAYLOAD_HASH_H

#include <xxhash.h>

#ifdef TOPICFS_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* redefines the names as those that choose at run time */
#endif

#endif
