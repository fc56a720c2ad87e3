#include "replica/http_metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct family {
    const char *name;
    const char *type;
    const char *help;
    int64_t (*value)(const struct http_metrics_row *row);
};

#define VALUE(function, expression)                                                    \
    static int64_t function(const struct http_metrics_row *row)                        \
    {                                                                                  \
        return (int64_t)(expression);                                                  \
    }

VALUE(start_of, row->status.start.offset)
VALUE(high_watermark_of, row->status.high_watermark.offset)
VALUE(end_of, row->status.log_end_offset)
VALUE(flushed_of, row->status.flushed_offset)
VALUE(size_of, row->status.size_bytes)
VALUE(epoch_of, row->status.leader_epoch)
VALUE(leads, row->is_leader)
VALUE(online, !row->status.offline)
VALUE(messages_of, row->counters.messages_in)
VALUE(bytes_in_of, row->counters.bytes_in)
VALUE(bytes_out_of, row->counters.bytes_out)
VALUE(errors_of, row->counters.produce_errors)
VALUE(flushes_of, row->counters.flushes)

static const struct family families[] = {
    {"topicfs_partition_log_start_offset", "gauge", "Oldest offset that is kept.",
     start_of},
    {"topicfs_partition_high_watermark", "gauge",
     "Offset below which messages are committed.", high_watermark_of},
    {"topicfs_partition_log_end_offset", "gauge", "Offset of the next message.",
     end_of},
    {"topicfs_partition_flushed_offset", "gauge",
     "Offset below which messages are known to be on disk.", flushed_of},
    {"topicfs_partition_size_bytes", "gauge", "Size on disk, text and indexes.",
     size_of},
    {"topicfs_partition_leader_epoch", "gauge", "Leader epoch.", epoch_of},
    {"topicfs_partition_is_leader", "gauge", "1 where this node leads the partition.",
     leads},
    {"topicfs_partition_online", "gauge", "0 after the partition's disk failed.",
     online},
    {"topicfs_partition_messages_in_total", "counter", "Messages appended.",
     messages_of},
    {"topicfs_partition_bytes_in_total", "counter", "Bytes of messages appended.",
     bytes_in_of},
    {"topicfs_partition_bytes_out_total", "counter",
     "Bytes of messages handed to readers.", bytes_out_of},
    {"topicfs_partition_produce_errors_total", "counter",
     "Appends that were refused or failed.", errors_of},
    {"topicfs_partition_flushes_total", "counter", "Flushes of the log to disk.",
     flushes_of},
};

int http_metrics_escape(struct buf *out, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\n')
            buf_adds(out, "\\n");
        else if (*value == '"' || *value == '\\')
            buf_printf(out, "\\%c", *value);
        else
            buf_add(out, value, 1);
    }
    return buf_error(out);
}

static void add_head(struct buf *out, const char *name, const char *type,
                     const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_one(struct buf *out, const char *name, const char *help, int64_t value)
{
    if (value < 0)
        return;
    add_head(out, name, "gauge", help);
    buf_printf(out, "%s %lld\n", name, (long long)value);
}

int http_metrics_render(const struct http_metrics_row *rows, size_t count,
                        const struct http_process *process, int64_t problems,
                        struct buf *out)
{
    add_head(out, "topicfs_build_info", "gauge", "Version of the program.");
    buf_adds(out, "topicfs_build_info{version=\"" TOPICFS_VERSION "\"} 1\n");
    add_one(out, "topicfs_problems", "Faults in cluster/problems.", problems);
    add_one(out, "topicfs_partitions", "Partitions on this node.", (int64_t)count);
    add_one(out, "topicfs_process_open_files", "Open file descriptors.",
            process->open_files);
    add_one(out, "topicfs_process_max_files", "Limit of open file descriptors.",
            process->max_files);
    add_one(out, "topicfs_process_resident_bytes", "Resident memory.",
            process->resident_bytes);
    add_one(out, "topicfs_process_threads", "Threads.", process->threads);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const struct family *family = &families[i];

        add_head(out, family->name, family->type, family->help);
        for (size_t j = 0; j < count; j++) {
            buf_printf(out, "%s{topic=\"", family->name);
            http_metrics_escape(out, rows[j].topic);
            buf_printf(out, "\",partition=\"%d\"} %lld\n", rows[j].partition,
                       (long long)family->value(&rows[j]));
        }
    }
    return buf_error(out);
}

/* ---- the process --------------------------------------------------------------------
 */

static int64_t count_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int64_t count = -3; /* ".", "..", and the directory itself */

    if (dir == NULL)
        return -1;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): our own stream */
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

/* "Threads:\t5", "VmRSS:\t  1234 kB" */
static int64_t status_line(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    long long value = -1;

    if (at == NULL || sscanf(at + strlen(key), "%lld", &value) != 1) /* NOLINT */
        return -1;
    return value;
}

void http_process_measure(struct http_process *out)
{
    char text[4096];
    size_t length = 0;
    FILE *file = fopen("/proc/self/status", "re");
    struct rlimit limit;

    *out = (struct http_process){.open_files = count_files(),
                                 .max_files = -1,
                                 .resident_bytes = -1,
                                 .threads = -1};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        out->max_files = (int64_t)limit.rlim_cur;
    if (file == NULL)
        return;
    length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    (void)fclose(file);
    out->threads = status_line(text, "\nThreads:");
    out->resident_bytes = status_line(text, "\nVmRSS:");
    if (out->resident_bytes >= 0)
        out->resident_bytes *= 1024;
}
