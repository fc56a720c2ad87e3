#include "replica/epochs.h"

#include <stdlib.h>

void epochs_free(struct epoch_list *list)
{
    free(list->items);
    *list = (struct epoch_list){0};
}

int epochs_add(struct epoch_list *list, int32_t epoch, int64_t offset)
{
    if (list->count && list->items[list->count - 1].epoch >= epoch) {
        return 0;
    }
    if (list->count == list->allocated) {
        size_t allocated = list->allocated ? list->allocated * 2 : 8;
        struct epoch_start *items =
            realloc(list->items, allocated * sizeof list->items[0]);
        if (!items) {
            return -ENOMEM;
        }
        list->items = items;
        list->allocated = allocated;
    }
    list->items[list->count++] = (struct epoch_start){.epoch = epoch, .offset = offset};
    return 0;
}

struct build {
    struct epoch_list *list;
    struct log *log;
    uint64_t rewrites;
    int64_t covered; /* position up to which the list speaks */
};

/* The first batch in (low, high] whose epoch is above that of the batch at `low`. */
static int next_epoch(const struct build *build, const struct batch *low, int64_t high,
                      struct batch *out)
{
    int64_t below = low->position;
    while (high - below > 1) {
        int64_t middle = below + (high - below) / 2;
        struct batch batch;
        int rc = log_batch_at(build->log, middle, build->rewrites, &batch);
        if (rc) {
            return rc;
        }
        if (batch.leader_epoch > low->leader_epoch) {
            high = batch.position;
        } else {
            below = batch.position + (int64_t)batch.length - 1;
        }
    }
    return log_batch_at(build->log, high, build->rewrites, out);
}

static int add_segment(void *arg, const struct log_segment_info *info)
{
    struct build *build = arg;
    build->covered = info->position + info->size;
    if (info->damaged || info->size == 0) {
        return 0;
    }
    struct batch first;
    struct batch last;
    int rc = log_batch_at(build->log, info->position, build->rewrites, &first);
    rc = rc ? rc
            : log_batch_at(build->log, info->position + info->size - 1, build->rewrites,
                           &last);
    rc = rc ? rc : epochs_add(build->list, first.leader_epoch, first.base_offset);
    while (!rc && first.leader_epoch < last.leader_epoch) {
        rc = next_epoch(build, &first, last.position, &first);
        rc = rc ? rc : epochs_add(build->list, first.leader_epoch, first.base_offset);
    }
    return rc == E_DAMAGED ? 0 : rc;
}

int epochs_build(struct epoch_list *list, struct log *log)
{
    epochs_free(list);
    struct log_bounds bounds;
    log_bounds_get(log, &bounds);
    struct build build = {.list = list,
                          .log = log,
                          .rewrites = bounds.rewrites,
                          .covered = bounds.start.position};
    int rc = log_each_segment(log, add_segment, &build);
    const struct log_segment_info active = {
        .position = build.covered,
        .size = bounds.end.position - build.covered,
    };
    return rc ? rc : add_segment(&build, &active);
}

int32_t epochs_last(const struct epoch_list *list)
{
    if (list->count) {
        return list->items[list->count - 1].epoch;
    }
    return list->begins ? list->begin.epoch : -1;
}

int32_t epochs_at(const struct epoch_list *list, int64_t offset)
{
    for (size_t i = list->count; i > 0; i--) {
        if (list->items[i - 1].offset <= offset) {
            return list->items[i - 1].epoch;
        }
    }
    return -1;
}

int32_t epochs_before(const struct epoch_list *list, int64_t offset)
{
    int32_t epoch = epochs_at(list, offset - 1);
    if (epoch < 0 && list->begins && list->begin.offset <= offset) {
        epoch = list->begin.epoch;
    }
    return epoch;
}

bool epochs_end(const struct epoch_list *list, int32_t epoch, int64_t log_end_offset,
                struct epoch_end *out)
{
    for (size_t i = list->count; i > 0; i--) {
        if (list->items[i - 1].epoch <= epoch) {
            out->epoch = list->items[i - 1].epoch;
            out->end_offset = i == list->count ? log_end_offset : list->items[i].offset;
            return true;
        }
    }
    if (!list->begins || list->begin.epoch > epoch) {
        return false;
    }
    out->epoch = list->begin.epoch;
    out->end_offset = list->count ? list->items[0].offset : log_end_offset;
    return true;
}

void epochs_begin(struct epoch_list *list, int32_t epoch, int64_t offset)
{
    list->count = 0;
    epochs_follow(list, epoch, offset);
}

void epochs_follow(struct epoch_list *list, int32_t epoch, int64_t offset)
{
    list->begins = epoch >= 0;
    list->begin = (struct epoch_start){.epoch = epoch, .offset = offset};
}

void epochs_cut(struct epoch_list *list, int64_t offset)
{
    while (list->count && list->items[list->count - 1].offset >= offset) {
        list->count--;
    }
}
