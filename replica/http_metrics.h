/*
 * The node's figures in Prometheus' text format (0.0.4). Pure but for
 * http_process_measure(); any thread.
 */
#ifndef TOPICFS_HTTP_METRICS_H
#define TOPICFS_HTTP_METRICS_H

#include "coord/coord.h"
#include "replica/partition.h"

struct http_metrics_row {
    const char *topic;
    int32_t partition;
    bool is_leader;
    struct partition_status status;
    struct partition_counters counters;
};

struct http_process {
    int64_t open_files;
    int64_t max_files;
    int64_t resident_bytes;
    int64_t threads;
};

/* Of this process, from /proc; what can't be read is -1, and is left out. */
void http_process_measure(struct http_process *out);

/* 0 or the buffer's error. `problems`: how many there are. */
int http_metrics_render(const struct http_metrics_row *rows, size_t count,
                        const struct http_process *process, int64_t problems,
                        struct buf *out);

/* Appends a label's value, escaped, without quotes. */
int http_metrics_escape(struct buf *out, const char *value);

#endif
