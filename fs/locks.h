/*
 * flock(2) on the mount's files. The kernel would keep these locks by itself, but by
 * inode; and two that have a log open for writing never share one (see node.h), so that
 * both would get an exclusive lock. Here they are kept by what the file is.
 *
 *     locks = locks_new(parking);
 *     locks_flock(locks, reply, tree_inode(&place, 0), owner, LOCK_EX); // maybe later
 *     locks_release(locks, inode, owner);                        // closed by its owner
 *     locks_free(locks);                            // nothing waits: after the parking
 *
 * The locks are this mount's: other nodes know nothing of them. Whoever waits is served
 * in the order of coming. Changing a lock from shared to exclusive gives it up first,
 * as flock(2) says.
 *
 * Any thread. The lock of the table is a leaf; nothing is answered under it.
 */
#ifndef TOPICFS_LOCKS_H
#define TOPICFS_LOCKS_H

#include "fs/parking.h"
#include "fs/reply.h"

struct locks;

struct locks *locks_new(struct parking *parking); /* NULL: no memory */
void locks_free(struct locks *locks);             /* accepts NULL */

/*
 * `operation` as flock(2) has it: LOCK_SH, LOCK_EX or LOCK_UN, perhaps with LOCK_NB.
 * `owner` stands for the open file. Answers 0; -EAGAIN (LOCK_NB, and another one has
 * it); -EINTR; -ENOTCONN (the mount ends); -EINVAL; -ENOMEM.
 */
void locks_flock(struct locks *locks, struct reply *reply, uint64_t inode,
                 uint64_t owner, int operation);
/* The owner has nothing locked there any more. */
void locks_release(struct locks *locks, uint64_t inode, uint64_t owner);

#endif
