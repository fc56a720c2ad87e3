/*
 * Small files that are rendered when they are opened: config.json, state, what is below
 * cluster/. An open file keeps what it showed at its open, so that a reader never sees
 * two renderings mixed.
 *
 *     rc = textfile_open(&tree, &place, partition, &file);
 *     textfile_read(file, reply, at, size);
 *     textfile_close(file);
 *
 * All from memory; any thread.
 */
#ifndef TOPICFS_TEXTFILE_H
#define TOPICFS_TEXTFILE_H

#include "fs/reply.h"
#include "fs/tree.h"

struct textfile;

/* `partition` (TREE_STATE) is borrowed for the call; NULL there: E_OFFLINE. 0; -ESTALE
 * (the topic was deleted); -ENOENT; -ENOMEM. */
int textfile_open(const struct tree *tree, const struct tree_place *place,
                  struct partition *partition, struct textfile **out);
/* Takes the buffer's bytes. 0 or the buffer's error. */
int textfile_of(struct buf *text, struct textfile **out);
/* As many bytes as an open now would show. */
int textfile_size(const struct tree *tree, const struct tree_place *place,
                  struct partition *partition, int64_t *size);
void textfile_read(const struct textfile *file, struct reply *reply, int64_t at,
                   size_t size);
void textfile_close(struct textfile *file); /* accepts NULL */

#endif
