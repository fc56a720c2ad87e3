/*
 * Look-ups that wait: below a partition that is still being recovered after a crash, or
 * that other nodes keep and of which a copy must come first, a look-up is parked until
 * the partition can be read, so that `cat log` and `echo >> log`
 * begin late instead of failing, and `ls` of everything else goes on.
 *
 *     if (opening_find(mounted, &place, &partition))
 *         opening_park(req, mounted, &place, partition);  // answers later, exactly
 * once
 *
 * Ends with the look-up itself, EINTR at an interrupt, EHOSTUNREACH after the topic's
 * delivery_timeout_ms, ENOTCONN when the mount stops. Called on a FUSE worker.
 */
#ifndef TOPICFS_OPENING_H
#define TOPICFS_OPENING_H

#include "fs/mounted.h"

/* A partition that `place` needs and that can't be read yet; asks for its copy. For
 * `append` any of the topic's that is not open will do: no copy is needed. */
bool opening_find(struct mounted *mounted, const struct tree_place *place,
                  int32_t *partition);
void opening_park(fuse_req_t req, struct mounted *mounted,
                  const struct tree_place *place, int32_t partition);

#endif
