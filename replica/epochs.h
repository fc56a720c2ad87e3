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
    /* Set by epochs_begin(): what came before the first batch of this log. */
    bool begins;
    struct epoch_start begin;
};

/* Replaces the list by what the log says. Damaged segments are passed over.
 * 0, -ENOMEM, or a read error. */
int epochs_build(struct epoch_list *list, struct log *log);

/* A batch of `epoch` was appended at `offset`. 0 or -ENOMEM. */
int epochs_add(struct epoch_list *list, int32_t epoch, int64_t offset);

void epochs_free(struct epoch_list *list);

/* ---- look-ups, for truncation; pure ---- */

/* The epoch of the last batch, or of what came before; -1: nothing is known. */
int32_t epochs_last(const struct epoch_list *list);
/* The epoch of the batch at `offset`; -1 if it lies below all that is known. */
int32_t epochs_at(const struct epoch_list *list, int64_t offset);

/* The epoch of the batch that ends at `offset`; -1: nothing is known of it. */
int32_t epochs_before(const struct epoch_list *list, int64_t offset);

/*
 * The largest known epoch that is not above `epoch`, and the offset at which it ends in
 * this log (that is where the next one begins, or log_end_offset). false: nothing of
 * that age is known; retention may have taken it.
 */
struct epoch_end {
    int32_t epoch;
    int64_t end_offset;
};
bool epochs_end(const struct epoch_list *list, int32_t epoch, int64_t log_end_offset,
                struct epoch_end *out);

/* The log was emptied and begins at `offset`, behind a batch of `epoch` (-1: unknown)
 * that is not in it. */
void epochs_begin(struct epoch_list *list, int32_t epoch, int64_t offset);

/* The log begins at `offset`, behind a batch of `epoch` that is not in it; what is in
 * it stays. */
void epochs_follow(struct epoch_list *list, int32_t epoch, int64_t offset);

/* The log was cut so that `offset` is its end: forgets what began there or later. */
void epochs_cut(struct epoch_list *list, int64_t offset);

#endif
