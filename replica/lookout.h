/*
 * Notices at once when the process of another node dies: one thread that keeps a call
 * open to each node that matters to this one. The call is a fetch of no partitions,
 * which the other answers after a while; where it ends before, because the other's
 * kernel has closed its sockets, the node is asked again, and what comes of that is for
 * coord/detector.h to judge.
 *
 *     lookout_start(&params, &lookout);
 *     lookout_hint(lookout, broker);     // a call to it failed: ask it now
 *     lookout_stop(lookout);
 *
 * The controller looks after everybody, everybody after the controller, and a leader
 * after its followers. Other nodes are asked when there is a hint.
 *
 * lookout_hint, lookout_look: any thread, any lock; do not block.
 */
#ifndef TOPICFS_LOOKOUT_H
#define TOPICFS_LOOKOUT_H

#include "coord/coord.h"

struct lookout;

struct lookout_params {
    const struct mount_config *config; /* borrowed, as all of these */
    struct cluster *cluster;
    const struct clock *clock;
    /* The process of this incarnation seems to be gone. Must not block. */
    void (*on_dead)(void *arg, int32_t broker, int64_t broker_epoch);
    void *arg;
};

int lookout_start(const struct lookout_params *params, struct lookout **out);
void lookout_stop(struct lookout *lookout); /* NULL is fine */

void lookout_hint(struct lookout *lookout, int32_t broker);
/* There is another snapshot: others may matter by now. */
void lookout_look(struct lookout *lookout);

#endif
