/*
 * From keys to snapshots: takes what the store's watch reports, decodes it, and makes
 * the next snapshot from the one before. A value that is malformed (another program
 * wrote it) is left out and named in problems, until a good one comes. Nothing is lost
 * or opened for it: a topic keeps the last good assignment, without settings nothing
 * expires, and without attributes the mode is 0700.
 *
 *     model = model_new(prefix, self, &defaults, problems);
 *     rc = model_apply(model, base, kvs, count, revision, &next);
 *
 * Pure but for problems and the clock; one thread at a time (the watch's order).
 */
#ifndef TOPICFS_MODEL_H
#define TOPICFS_MODEL_H

#include "coord/problems.h"
#include "coord/snapshot.h"
#include "coord/store.h"

struct model;

/* `prefix` ("/topicfs/<cluster>/") and the pointers are borrowed; `problems` may be
 * NULL. The clock is for what counts from when it was seen. NULL: no memory. */
struct model *model_new(const char *prefix, int32_t self,
                        const struct topic_config *defaults, struct problems *problems,
                        const struct clock *clock);
void model_free(struct model *model); /* accepts NULL */

/* 0 and the next snapshot, with one reference; -ENOMEM: what was not applied is carried
 * over to the next call. */
int model_apply(struct model *model, const struct snapshot *base,
                const struct store_kv *kvs, size_t count, int64_t revision,
                struct snapshot **out);

#endif
