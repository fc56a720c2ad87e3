/*
 * A view: an anchored byte range of a partition's log. File offset x of a view is log
 * position base + x, for as long as anybody holds it: retention, compaction and later
 * look-ups never move it, and its size never falls. docs/views.md has the rules.
 *
 * `log`, `at/<where>`, `follow/<where>` are views; json/<where> renders one.
 *
 * A view on offset 42 of a shorter log has no base yet: its size is 0 until the message
 * comes. Reference-counted; thread-safe (one short mutex inside).
 */
#ifndef TOPICFS_VIEW_H
#define TOPICFS_VIEW_H

#include "fs/reply.h"
#include "fs/where.h"

struct view;

/*
 * Anchors a new view at `where` (now_ms: the wall clock, for ages). Takes its own
 * reference on the partition. `where` NULL: the whole log, from the log start. 0,
 * E_OFFSET_BELOW_START, E_TOPIC_DELETED, -ENOMEM, a read error.
 */
int view_open(struct partition *partition, const struct where *where, int64_t now_ms,
              struct view **out);
struct view *view_ref(struct view *view);
void view_unref(struct view *view); /* accepts NULL */

struct partition *view_partition(const struct view *view); /* borrowed */
/* The log position of the view's first byte, or -1 while it has none. */
int64_t view_base(struct view *view);

/* Bytes visible now; never falls. ESTALE-like codes once the view can't be read any
 * more (unclean election, topic deleted); a deleted range does not show here. */
int view_size(struct view *view, int64_t *size);
bool view_ended(struct view *view); /* a range whose last message is visible */

/*
 * Collects up to `size` bytes from file offset `at` into extents (REPLY_EXTENTS_MAX at
 * most). *count 0: at the present end. The caller releases the extents.
 */
int view_extents(struct view *view, int64_t at, size_t size, struct extent *extents,
                 size_t *count);

/* The log position that the high watermark has to pass before a read at file offset
 * `at` can find something new; for partition_wait(). Errors as view_size(). */
int view_next(struct view *view, int64_t at, int64_t *position);

/* The batch that the byte at file offset `at` belongs to; -ENOENT at the present end.
 */
int view_batch(struct view *view, int64_t at, struct batch *out);

/* Answers with what is there, nothing at the end: a regular file's read. */
void view_read(struct view *view, struct reply *reply, int64_t at, size_t size);

#endif
