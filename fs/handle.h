/*
 * Open files: what each open file description of the mount holds, and what reads and
 * writes on it do. Everything is answered through `struct reply`, at once or later.
 *
 *     rc = handle_open(mounted, node, flags, thread, &handle);
 *     handle_read(handle, reply, at, size, flags);
 *     handle_release(handle, reply);           // frees
 *
 * Rules for `log` and `append`, those of an append-only file (chattr +a): opened for
 * writing only with O_APPEND, which must still be there at each write; O_TRUNC never.
 * Files that take JSON may be opened as one likes, and O_TRUNC erases nothing.
 *
 * Any thread; for one handle several at a time. handle_release() may come as soon as
 * all requests are answered, while the function that answered the last of them still
 * runs: it is that which then takes the handle apart.
 */
#ifndef TOPICFS_HANDLE_H
#define TOPICFS_HANDLE_H

#include "fs/mounted.h"
#include "fs/reply.h"
#include "fs/stream.h"

struct handle;
struct handle_table;
struct group_file;

struct handle_table *handle_table_new(void); /* NULL: no memory */
/* Releases what is still open, as the end of the mount does: partial lines are
 * completed. What is answered later (acks) is not waited for. */
void handle_table_release_all(struct handle_table *table);
void handle_table_free(struct handle_table *table); /* accepts NULL; nothing open */

/*
 * `flags` as open(2) has them; `thread` is the opener's thread id. 0; -EPERM (see
 * above, or a file that can't be written); -ESTALE (open for writing already: look it
 * up again); or what the file's module says.
 */
int handle_open(struct mounted *mounted, struct node *node, int flags, int64_t thread,
                struct handle **out);
/* NULL unless it is a file of a group: then the open is answered when that is ready,
 * and handle_opened() called before, or else handle_release(). */
struct group_file *handle_group(const struct handle *handle);
void handle_opened(struct handle *handle);
/* The kernel may keep pages of it: an immutable segment. */
bool handle_is_cached(const struct handle *handle);
/* Nothing happens at FLUSH: not open for writing. */
bool handle_needs_no_flush(const struct handle *handle);

void handle_read(struct handle *handle, struct reply *reply, int64_t at, size_t size,
                 int flags);
void handle_write(struct handle *handle, struct reply *reply, const char *bytes,
                  size_t length, int flags, uint64_t owner);
void handle_flush(struct handle *handle, struct reply *reply, uint64_t owner);
void handle_fsync(struct handle *handle, struct reply *reply);
/* `reply` may be NULL. */
void handle_release(struct handle *handle, struct reply *reply);

/* A read may wait for messages. */
bool handle_is_stream(const struct handle *handle);
/* Whether a read would not wait; see stream_poll(). Takes `notify` (may be NULL). */
bool handle_poll(struct handle *handle, struct stream_notify *notify);

#endif
