/*
 * The scrubber: one thread that reads every log of this node now and then and compares
 * it with its checksums, at a pace that leaves the disk to others. So damage is found
 * while other replicas have what is damaged, and before this one leads. After a crash
 * it begins at once.
 *
 * What it finds it reports as any reader does (log_params.on_damage).
 */
#ifndef TOPICFS_SCRUBBER_H
#define TOPICFS_SCRUBBER_H

#include "replica/broker.h"

struct scrubber;

/* `broker` is borrowed. `crashed`: how the last process ended. 0 or a negative errno.
 */
int scrubber_start(struct broker *broker, bool crashed, struct scrubber **out);
void scrubber_stop(struct scrubber *scrubber); /* NULL is fine */

#endif
