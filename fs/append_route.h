/*
 * From the lines of a write to the partitions of an open file: `log` has one, `append`
 * one for each key. Private to appender.c.
 *
 *     append_route_next(appender, topic, &routing);
 *     append_route_split(appender, &routing, bytes, length, count, &one, &split);
 *     ... an op of split.count parts ...
 *     append_route_submit(op, split.batches);
 *     append_route_end(&split, &one);
 *
 * All are called with appender->order held.
 */
#ifndef TOPICFS_APPEND_ROUTE_H
#define TOPICFS_APPEND_ROUTE_H

#include "fs/append_op.h"
#include "replica/replica.h"

bool append_route_by_key(const struct appender *appender);

/* How the lines of the next write go, and room for its partitions. 0, E_NO_LEADER (the
 * topic has no partitions), -ENOMEM. */
int append_route_next(struct appender *appender, const struct topic *topic,
                      struct append_routing *out);

/* The batches, borrowing `bytes`: the usual single one is `one`, without memory. 0 or
 * -ENOMEM. */
int append_route_split(const struct appender *appender,
                       const struct append_routing *routing, const char *bytes,
                       size_t length, uint32_t count, struct partitioner_batch *one,
                       struct partitioner_split *split);
void append_route_end(struct partitioner_split *split,
                      const struct partitioner_batch *one);

/* Borrowed from the appender; NULL if this node has no such partition. */
struct partition *append_route_handle(struct appender *appender, int32_t slot);

/* Hands all parts of the op over, new or resumed. After a refusal the rest is not sent:
 * the whole write fails anyway. */
void append_route_submit(struct append_op *op, const struct partitioner_batch *batches);

#endif
