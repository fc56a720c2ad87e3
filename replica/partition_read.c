/* Reading: committed bytes, places, waits for more. */
#include "replica/partition_internal.h"

#include <utlist.h>

/* The end of what readers may see, or E_TOPIC_DELETED. An offline partition still
 * reads. */
static int visible_end(struct partition *partition, struct log_place *end)
{
    pthread_mutex_lock(&partition->lock);
    int rc = partition->deleted ? E_TOPIC_DELETED : 0;
    *end = partition->high_watermark;
    pthread_mutex_unlock(&partition->lock);
    return rc;
}

/* A log that was detached under a call is that of a deleted topic. */
static int outcome(struct partition *partition, int rc)
{
    struct log_place end;
    return rc == E_OFFLINE && visible_end(partition, &end) ? E_TOPIC_DELETED : rc;
}

int partition_read(struct partition *partition, int64_t position, size_t max_bytes,
                   uint64_t rewrites, struct extent *out)
{
    struct log_place end;
    int rc = visible_end(partition, &end);
    if (rc) {
        return rc;
    }
    rc = log_read(partition->log, position, max_bytes, end.position, rewrites, out);
    if (!rc) {
        statistics_add(&partition->statistics.bytes_out, out->length);
    }
    return outcome(partition, rc);
}

int partition_find_offset(struct partition *partition, int64_t offset,
                          struct log_place *out)
{
    struct log_place end;
    int rc = visible_end(partition, &end);
    if (rc) {
        return rc;
    }
    if (offset > end.offset) {
        return -ERANGE;
    }
    return outcome(partition, log_find_offset(partition->log, offset, &end, out));
}

int partition_find_time(struct partition *partition, int64_t time_ms,
                        struct log_place *out)
{
    struct log_place end;
    int rc = visible_end(partition, &end);
    rc = rc ? rc : log_find_time(partition->log, time_ms, &end, out);
    return outcome(partition, rc);
}

int partition_find_last(struct partition *partition, int64_t count,
                        struct log_place *out)
{
    struct log_place end;
    int rc = visible_end(partition, &end);
    rc = rc ? rc : log_find_last(partition->log, count, &end, out);
    return outcome(partition, rc);
}

int partition_batch_at(struct partition *partition, int64_t position, uint64_t rewrites,
                       struct batch *out)
{
    struct log_place end;
    int rc = visible_end(partition, &end);
    if (rc) {
        return rc;
    }
    if (position >= end.position) {
        return -ENOENT;
    }
    return outcome(partition, log_batch_at(partition->log, position, rewrites, out));
}

int partition_wait(struct partition *partition, int64_t position,
                   struct read_waiter *waiter)
{
    pthread_mutex_lock(&partition->lock);
    int rc = partition_refusal(partition);
    if (rc == E_OFFLINE && !partition->stopping) {
        rc = 0; /* nothing more will come, but what is there can be read */
    }
    if (!rc && partition->high_watermark.position > position) {
        rc = 1;
    }
    if (!rc) {
        waiter->beyond_position = position;
        waiter->parked = true;
        DL_APPEND(partition->reads, waiter);
        partition_watch(partition);
    }
    pthread_mutex_unlock(&partition->lock);
    return rc;
}

bool partition_wait_cancel(struct partition *partition, struct read_waiter *waiter)
{
    pthread_mutex_lock(&partition->lock);
    bool parked = waiter->parked;
    if (parked) {
        DL_DELETE(partition->reads, waiter);
        waiter->parked = false;
    }
    pthread_mutex_unlock(&partition->lock);
    return parked;
}

int partition_segment_find(struct partition *partition, int64_t base_offset,
                           struct log_segment_info *out)
{
    struct log_place end;
    int rc = visible_end(partition, &end);
    rc = rc ? rc : log_segment_find(partition->log, base_offset, out);
    if (rc) {
        return rc;
    }
    return out->closed && out->end_offset <= end.offset ? 0 : -ENOENT;
}

struct committed_segments {
    int64_t end_offset; /* the high watermark when it began */
    int (*fn)(void *arg, const struct log_segment_info *info);
    void *arg;
};

static int pass_committed(void *arg, const struct log_segment_info *info)
{
    const struct committed_segments *segments = arg;
    if (info->end_offset > segments->end_offset) {
        return 0;
    }
    return segments->fn(segments->arg, info);
}

int partition_each_segment(struct partition *partition,
                           int (*fn)(void *arg, const struct log_segment_info *info),
                           void *arg)
{
    struct log_place end;
    int rc = visible_end(partition, &end);
    if (rc) {
        return rc;
    }
    struct committed_segments segments = {end.offset, fn, arg};
    return outcome(partition,
                   log_each_segment(partition->log, pass_committed, &segments));
}
