/*
 * What is wrong with the cluster, as a snapshot and the store's status tell it: dead
 * nodes that hold replicas, partitions without a leader, below their minimum of in-sync
 * replicas or with fewer than assigned, internal topics with fewer than there could be,
 * elections that may have lost messages,
 * reassignments that run, a lost session. (A store out of reach is told by the store,
 * which knows why.) Kept in `problems`, where each keeps
 * the time since when; what has healed is taken out.
 *
 *     health_find(snapshot, &status, fn, arg);      // pure
 *     health_update(health, snapshot, &status, now);  // finds, and shows in problems
 *
 * health_find: any thread; the struct has one owner.
 */
#ifndef TOPICFS_HEALTH_H
#define TOPICFS_HEALTH_H

#include "coord/problems.h"
#include "coord/snapshot.h"
#include "coord/store.h"

/* One fault; the texts are valid during the call. */
typedef void health_fn(void *arg, const char *kind, const char *subject,
                       const char *what, const char *what_to_do);

/* Calls fn for each fault, those of one partition once: the worst. */
void health_find(const struct snapshot *snapshot, const struct store_status *status,
                 health_fn *fn, void *arg);

struct health;

struct health *health_new(struct problems *problems); /* borrowed; NULL: no memory */
void health_free(struct health *health);              /* accepts NULL */

/*
 * Shows what has lasted for half a second, takes out what has healed. now_ms:
 * monotonic. Does little if nothing has changed since the last call.
 */
void health_update(struct health *health, const struct snapshot *snapshot,
                   const struct store_status *status, int64_t now_ms);
/* Whether a fault is still too young to be shown. */
bool health_waits(const struct health *health);

#endif
