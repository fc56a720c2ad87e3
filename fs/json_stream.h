/*
 * Messages as JSON, one object per line (replica/message_json.h).
 *
 * A json_stream renders a view into a byte stream in which file
 * offsets work: the last rendered bytes are kept, so that a reader can seek back a
 * little (bash's `read` does, after every line); farther back it renders anew from the
 * view's beginning, which is slow but right.
 *
 *     json_stream_new(view, delimiter) ... json_stream_read(...) ... json_stream_free()
 *
 * Not thread-safe: the stream's lock orders the calls. It reads the disk.
 */
#ifndef TOPICFS_JSON_STREAM_H
#define TOPICFS_JSON_STREAM_H

#include "fs/view.h"

struct json_stream;

/* Borrows the view. NULL: no memory. */
struct json_stream *json_stream_new(struct view *view, int key_delimiter);
void json_stream_free(struct json_stream *json); /* NULL is fine */

/*
 * The rendered bytes from `at` on, up to `size`: *bytes points into the stream's
 * memory, valid until the next call. *length 0: nothing more is visible, and *next_at
 * is the file offset in the view that more will come from. 0, or what view_extents()
 * says.
 */
int json_stream_read(struct json_stream *json, int64_t at, size_t size,
                     const char **bytes, size_t *length, int64_t *next_at);

#endif
