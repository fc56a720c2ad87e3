#include "replica/http_status.h"

#include "replica/http_metrics.h"
#include "replica/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PROBLEMS_BYTES_MAX = 4 * 1024 * 1024, PATH_BYTES_MAX = 1024 };

/* ---- /healthz -----------------------------------------------------------------------
 */

static void healthz(struct http_request *request)
{
    const struct http_status *status = http_request_argument(request);
    struct buf text;
    unsigned code = 200;

    buf_init(&text, PROBLEMS_BYTES_MAX);
    (void)problems_render(status->problems, &text);
    if (text.length == 0 && buf_error(&text) == 0) {
        buf_adds(&text, "ok\n");
    } else {
        code = 503;
        if (http_request_user(request) == NULL) {
            buf_clear(&text);
            buf_adds(&text, "there are problems\n");
        }
    }
    http_reply_text(request, code, "text/plain; charset=utf-8", &text);
}

/* ---- /metrics -----------------------------------------------------------------------
 */

static void fill_row(const struct cluster_snapshot *snapshot, const struct topic *topic,
                     struct partition *partition, int32_t index,
                     struct http_metrics_row *row)
{
    *row = (struct http_metrics_row){.topic = topic->name, .partition = index};
    partition_status_get(partition, &row->status);
    partition_counters_get(partition, &row->counters);
    row->is_leader = row->status.leader == snapshot->self;
}

/* Of all partitions that are open here; the caller frees. NULL: no memory. */
static struct http_metrics_row *all_rows(const struct http_status *status,
                                         const struct cluster_snapshot *snapshot,
                                         size_t *count)
{
    struct http_metrics_row *rows;
    size_t most = 0;

    *count = 0;
    for (uint32_t i = 0; i < snapshot->topic_count; i++)
        most += (size_t)snapshot->topics[i]->partition_count;
    rows = calloc(most + 1, sizeof *rows);
    for (uint32_t i = 0; rows != NULL && i < snapshot->topic_count; i++) {
        const struct topic *topic = snapshot->topics[i];

        for (int32_t p = 0; p < topic->partition_count; p++) {
            struct partition *partition =
                broker_partition(status->broker, &topic->id, p);

            if (partition == NULL || partition_is_remote(partition)) {
                partition_unref(partition);
                continue;
            }
            fill_row(snapshot, topic, partition, p, &rows[(*count)++]);
            partition_unref(partition);
        }
    }
    return rows;
}

static int64_t count_problems(struct problems *problems)
{
    struct buf text;
    int64_t count = -1;

    buf_init(&text, PROBLEMS_BYTES_MAX);
    if (problems_render(problems, &text) == 0)
        count = text.length > 0 ? (int64_t)lines_count(text.data, text.length) : 0;
    buf_free(&text);
    return count;
}

static void metrics(struct http_request *request)
{
    const struct http_status *status = http_request_argument(request);
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(status->cluster);
    struct http_process process;
    struct http_metrics_row *rows;
    struct buf text;
    size_t count;

    rows = all_rows(status, snapshot, &count);
    if (rows == NULL) {
        http_reply_error(request, -ENOMEM, NULL);
    } else {
        buf_init(&text, SIZE_MAX / 2);
        http_process_measure(&process);
        (void)http_metrics_render(rows, count, &process,
                                  count_problems(status->problems), &text);
        if (status->groups != NULL)
            (void)groups_metrics(status->groups, &text);
        http_reply_text(request, 200, "text/plain; version=0.0.4; charset=utf-8",
                        &text);
    }
    free(rows);
    cluster_snapshot_put(snapshot);
}

/* ---- /cluster -----------------------------------------------------------------------
 */

static int list_entry(void *arg, const char *name, bool is_dir)
{
    cJSON *list = arg;
    char text[TOPIC_NAME_MAX + 2];
    size_t length = strnlen(name, TOPIC_NAME_MAX);

    memcpy(text, name, length);
    if (is_dir)
        text[length++] = '/';
    text[length] = '\0';
    return cJSON_AddItemToArray(list, cJSON_CreateString(text)) ? 0 : -ENOMEM;
}

static void list_directory(struct http_request *request, struct cluster *cluster,
                           const char *path)
{
    cJSON *list = cJSON_CreateArray();
    int rc =
        list == NULL ? -ENOMEM : cluster_tree_list(cluster, path, list_entry, list);

    if (rc == 0) {
        http_reply_json(request, 200, list);
    } else {
        cJSON_Delete(list);
        http_reply_error(request, rc, NULL);
    }
}

static void read_file(struct http_request *request, struct cluster *cluster,
                      const char *path)
{
    struct buf text;
    int rc;

    buf_init(&text, SIZE_MAX / 2);
    rc = cluster_tree_read(cluster, path, &text);
    if (rc < 0) {
        buf_free(&text);
        http_reply_error(request, rc, NULL);
        return;
    }
    http_reply_text(request, 200,
                    text.length > 0 && *text.data == '{' ? "application/json"
                                                         : "text/plain; charset=utf-8",
                    &text);
}

/* The parts behind "cluster", joined again. A part with a slash in it is no name. */
static int join_path(const struct http_target *target, struct buf *path)
{
    for (size_t i = 1; i < target->part_count; i++) {
        if (strchr(target->parts[i], '/') != NULL)
            return -ENOENT;
        buf_printf(path, "%s%s", i > 1 ? "/" : "", target->parts[i]);
    }
    return buf_adds(path, "");
}

static void cluster_tree(struct http_request *request)
{
    const struct http_status *status = http_request_argument(request);
    enum cluster_node_kind kind = CLUSTER_FILE;
    const char *name;
    struct buf path;
    int rc;

    buf_init(&path, PATH_BYTES_MAX);
    rc = join_path(http_request_target(request), &path);
    name = path.data != NULL ? path.data : "";
    if (rc == -EMSGSIZE)
        rc = -ENOENT;
    if (rc == 0)
        rc = cluster_tree_kind(status->cluster, name, &kind);
    if (rc < 0)
        http_reply_error(request, rc, NULL);
    else if (kind == CLUSTER_DIR)
        list_directory(request, status->cluster, name);
    else
        read_file(request, status->cluster, name);
    buf_free(&path);
}

int http_status_add(struct http_server *server, struct http_status *status)
{
    static const struct http_route routes[] = {
        {.method = "GET",
         .pattern = "/healthz",
         .access = HTTP_ROUTE_DECIDES,
         .handler = healthz},
        {.method = "GET", .pattern = "/metrics", .handler = metrics},
        {.method = "GET", .pattern = "/cluster/**", .handler = cluster_tree},
    };

    return http_server_add(server, routes, sizeof routes / sizeof routes[0], status);
}
