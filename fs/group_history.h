/*
 * What an open group stream has handed out and its reader may not have finished: the
 * bytes, at the file offsets where they were read, and which messages they are.
 *
 *     rc = group_member_take(.., group_history_bytes(history), &chunk);
 *     rc = group_history_add(history, &chunk);        // what was appended is this
 *     group_history_consume(history, at, fn, arg);    // a READ at `at`
 *     rc = group_history_read(history, at, size, &bytes, &length);
 *
 * The rule. Everything below the offset of the next READ is finished, in whole lines: a
 * line that lies across it is not. What is finished is forgotten, and so is what lies
 * below it; what is not can be read again.
 *
 * A chunk is lines of one partition, one line a message: `count` of them, from
 * first_offset on.
 *
 * Pure; one owner.
 */
#ifndef TOPICFS_GROUP_HISTORY_H
#define TOPICFS_GROUP_HISTORY_H

#include "replica/replica.h"

struct group_history;

struct group_history *group_history_new(void);          /* NULL: no memory */
void group_history_free(struct group_history *history); /* accepts NULL */

/* The buffer whose end is the file offset group_history_end(). Bytes that are appended
 * to it belong to the next group_history_add(). */
struct buf *group_history_bytes(struct group_history *history);
/* What was appended since is `chunk`. 0 or -ENOMEM: the bytes were dropped, and the
 * chunk is nobody's. */
int group_history_add(struct group_history *history, const struct group_chunk *chunk);
/* Drops what was appended since. */
void group_history_undo(struct group_history *history);

/* The first file offset that can be read again, and the one behind the last. */
int64_t group_history_start(const struct group_history *history);
int64_t group_history_end(const struct group_history *history);

/* Calls fn for each chunk of which more messages lie below `at` than did before, with
 * the offset behind the last of them; then forgets them. `at` is not above the end. */
typedef void group_history_fn(void *arg, const struct group_chunk *chunk,
                              int64_t next_offset);
void group_history_consume(struct group_history *history, int64_t at,
                           group_history_fn *fn, void *arg);

/*
 * The bytes from `at` on, `size` at most: valid until the history changes. *length 0:
 * at the end. -ESTALE: they were finished; -EINVAL: beyond what was handed out.
 */
int group_history_read(struct group_history *history, int64_t at, size_t size,
                       const char **bytes, size_t *length);

/*
 * How much is left of the line that `at` is in the middle of, if that is all that was
 * handed out; else 0.
 */
size_t group_history_line_left(const struct group_history *history, int64_t at);

/*
 * The partition of this grant went to another member. Its messages are not finished by
 * what is read next. The line that a reader is in the middle of is given to its end;
 * from there on a read finds what follows the chunk, at the file offset where its next
 * line was.
 */
void group_history_lose(struct group_history *history, int32_t partition,
                        int64_t generation);
/* The same for each grant that is not `has` any more. */
typedef bool group_history_has_fn(void *arg, const struct group_chunk *chunk);
void group_history_check(struct group_history *history, group_history_has_fn *has,
                         void *arg);

#endif
