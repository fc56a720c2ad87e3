/*
 * The writing side of one open file description of `log` (one partition) or `append` (a
 * topic: key to partition): bytes become lines, lines become batches, batches are
 * acknowledged as the topic's acks say. docs/semantics.md has the rules in words.
 *
 * Calls for one appender may come from several threads; [appender->lock] orders them.
 */
#ifndef TOPICFS_APPENDER_H
#define TOPICFS_APPENDER_H

#include "fs/parking.h"
#include "fs/reply.h"

struct appender;

enum { APPENDER_GRACE_MS = 200 };

struct appender_params {
    struct cluster *cluster; /* for the topic's settings, read anew at each write */
    struct broker *broker;
    struct parking *parking;
    struct topic_id topic_id;
    int32_t partition; /* -1: by key (append) */
    /* One counter for all open files of the mount, borrowed: each write through
     * `append` sends its keyless lines to the next partition. */
    _Atomic uint32_t *rotation;
    /* So long an interrupted request may still end by itself; 0: APPENDER_GRACE_MS. */
    int64_t grace_ms;
};

/* 0, E_TOPIC_DELETED, E_NO_LEADER (this node has no such partition), -ENOMEM. */
int appender_open(const struct appender_params *params, struct appender **out);

/* One WRITE. Answers with the bytes taken (short where only the first lines could be
 * stored), or an error if nothing was. `owner` is the writer's FUSE lock owner. */
void appender_write(struct appender *appender, struct reply *reply, const char *bytes,
                    size_t length, uint64_t owner);
/* FLUSH: completes a trailing part of a line if `owner` wrote it; answers when stored.
 */
void appender_flush(struct appender *appender, struct reply *reply, uint64_t owner);
/* Everything that this open file has written is durable when answered with 0. */
void appender_fsync(struct appender *appender, struct reply *reply);
/* RELEASE: completes any trailing part; answers when stored (reply may be NULL); frees.
 */
void appender_release(struct appender *appender, struct reply *reply);

#endif
