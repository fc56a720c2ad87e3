/*
 * What an embedded store tells that no process uses: for a data directory of a single
 * node that is mounted with a shared store from now on.
 *
 *     rc = carry_over_read(store_dir, &contents, why, sizeof(why));
 *     for each contents->topics[i] ... cluster_carry_topic(cluster, topic, ...);
 *     cluster_carry_owner(cluster, contents);
 *     cluster_snapshot_put(contents);
 */
#ifndef TOPICFS_CARRY_OVER_H
#define TOPICFS_CARRY_OVER_H

#include "coord/cluster.h"

/*
 * Reads the store in `store_dir` and changes nothing there. The snapshot has its
 * topics, tombstones, owner and mode of topics/. 0 and one reference; -ENOENT: there is
 * no store; E_CORRUPT (both copies are damaged); E_NEWER_FORMAT; a negative errno;
 * `why` gets the reason. Any thread; may read much.
 */
int carry_over_read(const char *store_dir, const struct cluster_snapshot **out,
                    char *why, size_t why_size);

#endif
