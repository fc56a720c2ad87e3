/*
 * The leader epochs of a log and the offset at which each begins, found by binary
 * search: epochs only rise along a log. Costs two small reads a segment, and about
 * thirty more for each epoch that begins inside one.
 *
 * Any thread; the list has one owner.
 */
#ifndef TOPICFS_EPOCHS_H
#define TOPICFS_EPOCHS_H

#include "replica/log.h"

struct epoch_start {
    int32_t epoch;
    int64_t offset;
};

struct epoch_list {
    struct epoch_start *items;
    size_t count;
    size_t allocated;
};

/* Replaces the list by what the log says. Damaged segments are passed over.
 * 0, -ENOMEM, or a read error. */
int epochs_build(struct epoch_list *list, struct log *log);

/* A batch of `epoch` was appended at `offset`. 0 or -ENOMEM. */
int epochs_add(struct epoch_list *list, int32_t epoch, int64_t offset);

void epochs_free(struct epoch_list *list);

#endif
