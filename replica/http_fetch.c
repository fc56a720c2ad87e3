/*
 * GET /topics/<t>/<p>: committed messages from an offset on, as they are in the log, in
 * whole lines, with a long poll at the end of the log.
 *
 * What is sent ends with a batch where that fits max_bytes: its end needs no search,
 * and the index knows the offset that follows. Only in a batch that is itself too large
 * the text is searched for a line's end.
 */
#include "replica/http_reading.h"
#include "replica/http_topics.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    FETCH_BYTES = 1024 * 1024,
    FETCH_BYTES_MAX = 64 * 1024 * 1024,
    LINE_BYTES_MAX = 64 * 1024 * 1024 + 1, /* of max_message_bytes, and its newline */
    FETCH_WAIT_MAX_MS = 60000,
    COPY_BYTES_MAX = 32 * 1024, /* below, a copy costs less than a descriptor */
    REWRITE_ATTEMPTS = 8,
};

/* Of `from`, until the partition can be read. */
enum { FROM_EARLIEST = -1, FROM_LATEST = -2 };

struct fetch {
    struct http_reading reading; /* first */
    struct read_waiter waiter;
    struct http_request *request;
    const struct clock *clock;
    struct partition *partition; /* the reading's */
    int64_t offset;
    size_t max_bytes;
    int64_t wait_ms;
    int64_t deadline_ms;
};

/* What a reply has. */
struct portion {
    struct extent extent; /* cut to whole lines */
    struct partition_status status;
    int64_t first_offset;
    int64_t next_offset;
    char *copy; /* instead of the extent's file; or NULL */
};

static void fetch_read(struct http_request *request);

static void fetch_free(void *context)
{
    struct fetch *fetch = context;

    http_reading_end(&fetch->reading);
    free(fetch);
}

static void on_ready(struct read_waiter *waiter)
{
    struct fetch *fetch =
        (struct fetch *)((char *)waiter - offsetof(struct fetch, waiter));

    http_request_continue(fetch->request, fetch_read);
}

static void on_expired(struct http_request *request)
{
    struct fetch *fetch = http_request_context(request);

    if (partition_wait_cancel(fetch->partition, &fetch->waiter)) {
        fetch->deadline_ms = 0; /* also when the server stops before the time */
        http_request_continue(request, fetch_read);
    }
}

/* ---- whole lines --------------------------------------------------------------------
 */

static int copy_extent(struct portion *portion)
{
    struct extent *extent = &portion->extent;

    portion->copy = malloc(extent->length);
    return portion->copy != NULL ? extent_read(extent, portion->copy) : -ENOMEM;
}

/* The extent lies inside one batch: cuts it behind its last newline. -EAGAIN: it has
 * none. */
static int cut_in_batch(struct portion *portion)
{
    int rc = copy_extent(portion);
    const char *end;

    if (rc < 0)
        return rc;
    end = memrchr(portion->copy, '\n', portion->extent.length);
    if (end == NULL)
        return -EAGAIN;
    portion->extent.length = (size_t)(end - portion->copy) + 1;
    for (const char *at = portion->copy; at <= end; portion->next_offset++)
        at = (const char *)memchr(at, '\n', (size_t)(end - at) + 1) + 1;
    return 0;
}

/* Cuts to whole lines, and finds the offset behind them. portion->next_offset is the
 * first message's when this is called. */
static int cut_to_lines(struct partition *partition, struct portion *portion)
{
    struct extent *extent = &portion->extent;
    const int64_t end = extent->position + (int64_t)extent->length;
    struct batch batch;
    int rc = partition_batch_at(partition, end, portion->status.rewrites, &batch);

    if (rc == -ENOENT) {
        /* The end of what is committed, unless that has just moved on. */
        struct partition_status now;

        partition_status_get(partition, &now);
        if (now.high_watermark.position == end) {
            portion->next_offset = now.high_watermark.offset;
            return 0;
        }
        rc = partition_batch_at(partition, end, portion->status.rewrites, &batch);
    }
    if (rc < 0)
        return rc;
    if (batch.position <= extent->position)
        return cut_in_batch(portion);
    extent->length = (size_t)(batch.position - extent->position);
    portion->next_offset = batch.base_offset;
    return 0;
}

static void portion_release(struct portion *portion)
{
    extent_release(&portion->extent);
    free(portion->copy);
    portion->copy = NULL;
}

/* One attempt; -EAGAIN: max_bytes is not enough for a line. */
static int read_portion(const struct fetch *fetch, size_t max_bytes,
                        struct portion *portion)
{
    struct log_place place;
    int rc;

    *portion = (struct portion){.extent = {.fd = -1}};
    partition_status_get(fetch->partition, &portion->status);
    rc = partition_find_offset(fetch->partition, fetch->offset, &place);
    if (rc == 0)
        rc = partition_read(fetch->partition, place.position, max_bytes,
                            portion->status.rewrites, &portion->extent);
    if (rc < 0)
        return rc;
    portion->first_offset = place.offset;
    portion->next_offset = place.offset;
    if (portion->extent.length > 0)
        rc = cut_to_lines(fetch->partition, portion);
    if (rc < 0)
        portion_release(portion);
    return rc;
}

/* A line that is longer than max_bytes is sent whole, as Kafka does: else nobody could
 * get past it. */
static int fetch_portion(const struct fetch *fetch, struct portion *portion)
{
    size_t max_bytes = fetch->max_bytes;
    int attempts = REWRITE_ATTEMPTS;
    int rc;

    for (;;) {
        rc = read_portion(fetch, max_bytes, portion);
        if (rc == -EAGAIN && max_bytes < LINE_BYTES_MAX)
            max_bytes = max_bytes < LINE_BYTES_MAX / 2 ? max_bytes * 2 : LINE_BYTES_MAX;
        else if (rc != E_RANGE_REWRITTEN || --attempts == 0)
            return rc == -EAGAIN ? E_DAMAGED : rc;
    }
}

/* ---- replying -----------------------------------------------------------------------
 */

static void add_places(struct http_request *request,
                       const struct partition_status *status)
{
    http_reply_number(request, "X-Topicfs-High-Watermark",
                      status->high_watermark.offset);
    http_reply_number(request, "X-Topicfs-Log-Start-Offset", status->start.offset);
    http_reply_number(request, "X-Topicfs-Leader-Epoch", status->leader_epoch);
}

/* libmicrohttpd closes the descriptor that it gets; the extent's stays with the cache.
 */
static struct MHD_Response *response_from_file(const struct extent *extent)
{
    int fd = fcntl(extent->fd, F_DUPFD_CLOEXEC, 0);
    struct MHD_Response *response;

    if (fd < 0)
        return NULL;
    response = MHD_create_response_from_fd_at_offset64(extent->length, fd,
                                                       (uint64_t)extent->at);
    if (response == NULL)
        (void)close(fd);
    return response;
}

static struct MHD_Response *response_of(struct http_request *request,
                                        struct portion *portion)
{
    size_t length = portion->extent.length;
    struct MHD_Response *response;

    if (length == 0)
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (portion->copy == NULL) {
        if (length > COPY_BYTES_MAX && !http_request_is_encrypted(request))
            return response_from_file(&portion->extent);
        if (copy_extent(portion) < 0)
            return NULL;
    }
    response =
        MHD_create_response_from_buffer(length, portion->copy, MHD_RESPMEM_MUST_FREE);
    if (response != NULL)
        portion->copy = NULL;
    return response;
}

static void reply_portion(struct http_request *request, struct portion *portion)
{
    struct MHD_Response *response = response_of(request, portion);

    if (response == NULL) {
        http_reply_error(request, -EIO, "the segment can't be sent");
        return;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  "application/octet-stream");
    http_reply(request, MHD_HTTP_OK, response);
    http_reply_number(request, "X-Topicfs-First-Offset", portion->first_offset);
    http_reply_number(request, "X-Topicfs-Next-Offset", portion->next_offset);
    add_places(request, &portion->status);
}

static void reply_failure(struct http_request *request, const struct fetch *fetch,
                          int rc)
{
    struct partition_status status;

    http_reply_error(request, rc,
                     rc == -ERANGE ? "the offset lies above the high watermark" : NULL);
    partition_status_get(fetch->partition, &status);
    add_places(request, &status);
}

/* At the end of the log: true if the request now waits for more. */
static bool wait_for_more(struct fetch *fetch, int64_t position)
{
    int64_t left_ms = fetch->deadline_ms - clock_mono_ms(fetch->clock);

    if (left_ms <= 0)
        return false;
    http_request_wait(fetch->request, left_ms, on_expired);
    /* An error comes again, from the read. */
    int rc = partition_wait(fetch->partition, position, &fetch->waiter);
    if (rc < 0)
        fetch->deadline_ms = 0;
    if (rc != 0)
        http_request_continue(fetch->request, fetch_read);
    return true;
}

static void fetch_read(struct http_request *request)
{
    struct fetch *fetch = http_request_context(request);
    struct portion portion;
    int rc = fetch_portion(fetch, &portion);

    if (rc < 0) {
        reply_failure(request, fetch, rc);
        return;
    }
    if (portion.extent.length > 0 ||
        !wait_for_more(fetch, portion.status.high_watermark.position))
        reply_portion(request, &portion);
    portion_release(&portion);
}

/* ---- the request --------------------------------------------------------------------
 */

static int parse_from(struct http_request *request, struct fetch *fetch)
{
    const char *from = http_target_argument(http_request_target(request), "from");

    if (from == NULL || strcmp(from, "earliest") == 0)
        fetch->offset = FROM_EARLIEST;
    else if (strcmp(from, "latest") == 0)
        fetch->offset = FROM_LATEST;
    else
        return http_number(from, 0, INT64_MAX, &fetch->offset);
    return 0;
}

static const char *parse_arguments(struct http_request *request, struct fetch *fetch)
{
    static const char *const names[] = {"from", "max_bytes", "wait_ms", NULL};
    const struct http_target *target = http_request_target(request);
    int64_t max_bytes = FETCH_BYTES;

    if (http_target_unknown(target, names) != NULL)
        return "the arguments are from, max_bytes and wait_ms";
    if (http_target_i64(target, "max_bytes", 1, FETCH_BYTES_MAX, &max_bytes) < 0)
        return "max_bytes is a number from 1 to 67108864";
    if (http_target_i64(target, "wait_ms", 0, FETCH_WAIT_MAX_MS, &fetch->wait_ms) < 0)
        return "wait_ms is a number from 0 to 60000";
    if (parse_from(request, fetch) < 0)
        return "from is an offset, earliest or latest";
    fetch->max_bytes = (size_t)max_bytes;
    return NULL;
}

/* The partition can be read. */
static void fetch_begin(struct http_request *request)
{
    struct fetch *fetch = http_request_context(request);
    struct partition_status status;

    fetch->partition = fetch->reading.partition;
    fetch->deadline_ms = clock_mono_ms(fetch->clock) + fetch->wait_ms;
    partition_status_get(fetch->partition, &status);
    if (fetch->offset == FROM_EARLIEST)
        fetch->offset = status.start.offset;
    else if (fetch->offset == FROM_LATEST)
        fetch->offset = status.high_watermark.offset;
    fetch_read(request);
}

void http_fetch_handle(struct http_request *request)
{
    const struct http_topics *topics = http_request_argument(request);
    struct fetch *fetch = calloc(1, sizeof *fetch);
    const char *why;

    if (fetch == NULL) {
        http_reply_error(request, -ENOMEM, NULL);
        return;
    }
    *fetch = (struct fetch){
        .waiter = {.ready = on_ready}, .request = request, .clock = topics->clock};
    http_request_set_context(request, fetch, fetch_free);
    why = parse_arguments(request, fetch);
    if (why != NULL)
        http_reply_error(request, -EINVAL, why);
    else
        http_reading_begin(request, &fetch->reading, fetch_begin);
}
