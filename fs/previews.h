/*
 * What the files offsets/<topic>/<p>.preview show: the offset that the value written
 * last would have led to. Kept by this mount, the newest PREVIEWS_MAX of them.
 *
 * Thread-safe: one short mutex.
 */
#ifndef TOPICFS_PREVIEWS_H
#define TOPICFS_PREVIEWS_H

#include "fs/tree.h"

enum { PREVIEWS_MAX = 256 };

struct previews;

struct previews *previews_new(void);           /* NULL: no memory */
void previews_free(struct previews *previews); /* accepts NULL */

/* `offset` -1: nothing would be committed. */
void previews_set(struct previews *previews, const struct tree_place *place,
                  int64_t offset);
/* false: nothing was written. */
bool previews_get(struct previews *previews, const struct tree_place *place,
                  int64_t *offset);

#endif
