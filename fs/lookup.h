/*
 * From a place in the tree to the node that the kernel gets for it, and that node's
 * attributes. Here views are anchored: what a look-up returns is fixed to a base
 * position.
 *
 * Reads the log where a <where> needs it (an index, one batch); never waits for another
 * node or a flush. Any thread.
 */
#ifndef TOPICFS_LOOKUP_H
#define TOPICFS_LOOKUP_H

#include "fs/mounted.h"

/* A node for the place, looked up once more: give it back with node_table_forget().
 * 0; -ENOENT; E_TOPIC_DELETED; E_OFFLINE (the partition is not open here); what
 * view_open() says. `thread` is the asking thread's id: see node_table_wants_own(). */
int lookup_node(struct mounted *mounted, const struct tree_place *place, int64_t thread,
                struct node **out);

/* Attributes with the present size. -ESTALE and codes that become it: what the node
 * showed is gone. */
int lookup_attr(struct mounted *mounted, const struct node *node, struct stat *out);

/* The partition of a place, or NULL if this node does not have it open; the caller ends
 * the reference. */
struct partition *lookup_partition(struct mounted *mounted,
                                   const struct tree_place *place);

#endif
