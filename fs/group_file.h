/*
 * Open files below groups/<g>/: the streams, the texts that the coordinator knows, and
 * what is written to config.json and offsets/.
 *
 *     rc = group_file_open(mounted, place, flags, &file);
 *     group_file_ready(file, &waiter);        // waiter->done(): it may be used, or not
 *     group_file_read(file, reply, at, size, nonblock);
 *     group_file_close(file);
 *
 * A text is what it was at its open. Each write(2) to offsets/<t>/<p> is one value,
 * which holds when the write returns.
 *
 * Any thread.
 */
#ifndef TOPICFS_GROUP_FILE_H
#define TOPICFS_GROUP_FILE_H

#include "fs/mounted.h"
#include "fs/reply.h"
#include "fs/stream.h"

struct group_file;

/* `flags` as open(2) has them. 0, E_TOPIC_DELETED, -ENOMEM. */
int group_file_open(struct mounted *mounted, const struct tree_place *place, int flags,
                    struct group_file **out);
/* No request of it may be under way. */
void group_file_close(struct group_file *file); /* accepts NULL */

struct group_file_waiter {
    /* Once, on any thread: 0, or what the open fails with. */
    void (*done)(struct group_file_waiter *waiter, int error);
    /* As reply_on_interrupt(). */
    void (*on_interrupt)(struct group_file_waiter *waiter, void (*fn)(void *arg),
                         void *arg);
};
void group_file_ready(struct group_file *file, struct group_file_waiter *waiter);

void group_file_read(struct group_file *file, struct reply *reply, int64_t at,
                     size_t size, bool nonblock);
void group_file_write(struct group_file *file, struct reply *reply, const char *bytes,
                      size_t length, uint64_t owner);
/* The process `owner` closes a descriptor: 0, or E_INVALID_JSON; see jsonfile.h. */
int group_file_flush(struct group_file *file, uint64_t owner);
bool group_file_is_stream(const struct group_file *file);
bool group_file_poll(struct group_file *file, struct stream_notify *notify);

#endif
