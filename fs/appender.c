#include "fs/append_op.h"
#include "fs/append_route.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- life --------------------------------------------------------------------------
 */

/* [order] The topic's settings now; NULL once it is deleted. Keeps the snapshot. */
static const struct topic *topic_now(struct appender *appender)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(appender->params.cluster);
    if (snapshot == appender->snapshot) {
        cluster_snapshot_put(snapshot);
        return appender->topic;
    }
    cluster_snapshot_put(appender->snapshot);
    appender->snapshot = snapshot;
    appender->topic =
        cluster_snapshot_topic_by_id(snapshot, &appender->params.topic_id);
    return appender->topic;
}

static int open_partition(struct appender *appender)
{
    const struct topic *topic = topic_now(appender);
    if (topic == NULL)
        return E_TOPIC_DELETED;
    if (appender->params.partition < 0)
        return 0;
    appender->only =
        broker_partition(appender->params.broker, &appender->params.topic_id,
                         appender->params.partition);
    return appender->only != NULL ? 0 : E_NO_LEADER;
}

int appender_open(const struct appender_params *params, struct appender **out)
{
    struct appender *appender = calloc(1, sizeof *appender);
    int rc;
    *out = NULL;
    if (appender == NULL)
        return -ENOMEM;
    appender->params = *params;
    if (params->grace_ms <= 0)
        appender->params.grace_ms = APPENDER_GRACE_MS;
    atomic_init(&appender->references, 1);
    pthread_mutex_init(&appender->order, NULL);
    pthread_mutex_init(&appender->lock, NULL);
    appender->ends = &appender->one_end;
    appender->end_count = 1;
    rc = open_partition(appender);
    if (rc < 0)
        appender_unref(appender);
    else
        *out = appender;
    return rc;
}

void appender_unref(struct appender *appender)
{
    if (atomic_fetch_sub(&appender->references, 1) != 1)
        return;
    while (appender->failures != NULL) {
        struct append_op *op = appender->failures;
        appender->failures = op->next;
        append_op_forget(op);
    }
    append_op_forget(appender->resume);
    pending_free(&appender->pending);
    cluster_snapshot_put(appender->snapshot);
    for (int32_t p = 0; p < appender->partition_count; p++)
        partition_unref(appender->partitions[p]);
    free(appender->partitions);
    partition_unref(appender->only);
    if (appender->ends != &appender->one_end)
        free(appender->ends);
    pthread_mutex_destroy(&appender->lock);
    pthread_mutex_destroy(&appender->order);
    free(appender);
}

/* ---- the line state
 * ------------------------------------------------------------------ */

/* [order] pending and lines have changed. */
static void new_state(struct appender *appender)
{
    appender->state = ++appender->last_state;
}

static void move_pending(struct pending *from, struct pending *to)
{
    pending_free(to);
    *to = *from;
    *from = (struct pending){0};
}

/* [order] A write that appended nothing is undone: its bytes were not taken. */
static void undo(struct appender *appender, struct append_op *op)
{
    struct pending *pending = &appender->pending;
    if (appender->state == op->state_after) {
        move_pending(&op->before, pending);
        appender->lines = op->lines_before;
        appender->state = op->state_before;
        return;
    }
    if (op->before.length == 0)
        return;
    /* Another write came in between and went on from what this one had left. What was
     * pending before must not be lost, so it goes in front of what is pending now. */
    if (pending_reserve(&op->before, pending->length) < 0) {
        diag(DIAG_WARNING, "a part of a line was lost: %s", err_text(-ENOMEM));
        return;
    }
    (void)pending_join(&op->before, pending->data, pending->length);
    op->before.length += pending->length;
    op->before.owner = pending->length > 0 ? pending->owner : op->before.owner;
    move_pending(&op->before, pending);
    new_state(appender);
}

/* [order] An interrupted write that was appended: its tail comes back with its bytes.
 */
static void remember(struct appender *appender, struct append_op *op)
{
    op->owns_tail = appender->state == op->state_after;
    if (op->owns_tail) {
        move_pending(&appender->pending, &op->tail);
        appender->lines = (struct lines_state){0};
        new_state(appender);
    }
    append_op_forget(appender->resume);
    appender->resume = op;
}

/* [order] Applies what writes that failed since have left. */
static void settle(struct appender *appender)
{
    struct append_op *op;
    pthread_mutex_lock(&appender->lock);
    op = appender->failures;
    appender->failures = NULL;
    pthread_mutex_unlock(&appender->lock);
    while (op != NULL) {
        struct append_op *next = op->next;
        if (!append_op_appended(op)) {
            undo(appender, op);
            append_op_forget(op);
        } else if (op->unsettled) {
            remember(appender, op);
        } else {
            /* The tail belongs to a write that was answered with an error. */
            if (appender->state == op->state_after) {
                pending_clear(&appender->pending);
                appender->lines = (struct lines_state){0};
                new_state(appender);
            }
            append_op_forget(op);
        }
        op = next;
    }
}

/* ---- write
 * --------------------------------------------------------------------------- */

static void hash_bytes(const char *bytes, size_t length, uint64_t out[2])
{
    XXH128_hash_t hash = XXH3_128bits(bytes, length);
    out[0] = hash.low64;
    out[1] = hash.high64;
}

/* [order] The state behind a write whose lines are on their way; room was made. */
static void advance(struct appender *appender, struct append_op *op, const char *tail,
                    uint64_t owner)
{
    op->state_before = appender->state;
    new_state(appender);
    op->state_after = appender->state;
    (void)pending_set(&appender->pending, tail, op->cut.tail, owner);
    appender->lines = op->cut.after;
}

/* [order] Room for joining the first line and for the tail, so that nothing can fail
 * behind the append. */
static int make_room(struct appender *appender, const struct lines_cut *cut)
{
    size_t room = cut->tail;
    if (appender->pending.length > 0 && cut->complete > room)
        room = cut->complete;
    return room > 0 ? pending_reserve(&appender->pending, room) : 0;
}

/* [order] A new op with what undoing and resuming need. */
static int prepare(struct appender *appender, const struct topic *topic,
                   struct reply *reply, const struct lines_cut *cut, size_t parts,
                   struct append_op **out)
{
    struct append_op *op = append_op_new(appender, APPEND_WRITE, reply, parts);
    *out = op;
    if (op == NULL)
        return -ENOMEM;
    op->consumed = cut->consumed;
    op->cut = *cut;
    op->timeout_ms = topic->config.delivery_timeout_ms;
    op->lines_before = appender->lines;
    if (appender->pending.length > 0 &&
        pending_copy(&appender->pending, &op->before) < 0) {
        append_op_abandon(op);
        return -ENOMEM;
    }
    return 0;
}

struct write_request {
    struct reply *reply;
    const char *bytes;
    size_t length;
    uint64_t owner;
};

/* [order; unlocked] Answers at once if nothing was appended, as if nothing had
 * happened; else the state goes on and the op is on its way. */
static void launch_write(struct append_op *op, const struct write_request *request)
{
    struct appender *appender = op->appender;
    if (!append_op_pending(op) && !append_op_appended(op)) {
        int error = op->parts[0].result.error;
        append_op_abandon(op);
        pthread_mutex_unlock(&appender->order);
        reply_error(request->reply, error);
        return;
    }
    advance(appender, op, request->bytes + op->cut.skip + op->cut.complete,
            request->owner);
    if (append_op_pending(op)) {
        op->write_length = request->length;
        hash_bytes(request->bytes, request->length, op->write_hash);
    }
    append_op_launch(op);
}

/* [order; unlocked where it returns 0] Appends the complete lines. An error: nothing
 * was appended, and nothing has changed. */
static int write_lines(struct appender *appender, const struct topic *topic,
                       const struct write_request *request, const struct lines_cut *cut)
{
    struct partitioner_batch one;
    struct partitioner_split split;
    struct append_routing routing;
    struct append_op *op = NULL;
    size_t joined = appender->pending.length;
    const char *bytes = request->bytes + cut->skip;
    int rc = append_route_next(appender, topic, &routing);
    if (rc < 0 || (rc = make_room(appender, cut)) < 0)
        return rc;
    if (joined > 0)
        bytes = pending_join(&appender->pending, bytes, cut->complete);
    rc = append_route_split(appender, &routing, bytes, joined + cut->complete,
                            cut->count, &one, &split);
    if (rc < 0)
        return rc;
    rc = prepare(appender, topic, request->reply, cut, split.count, &op);
    if (rc == 0) {
        op->routing = routing;
        append_route_submit(op, split.batches);
    }
    append_route_end(&split, &one);
    if (rc == 0)
        launch_write(op, request);
    return rc;
}

/* [order] The bytes of an interrupted write have come again. */
static bool resumes(const struct appender *appender,
                    const struct write_request *request)
{
    const struct append_op *op = appender->resume;
    uint64_t hash[2];
    if (op == NULL || op->write_length != request->length)
        return false;
    hash_bytes(request->bytes, request->length, hash);
    return hash[0] == op->write_hash[0] && hash[1] == op->write_hash[1];
}

/*
 * [order; unlocked where it returns 0] Goes on with an interrupted write: what was
 * appended is waited for, what was not (by key: some partitions) is appended now.
 */
static int write_again(struct appender *appender, const struct write_request *request)
{
    struct append_op *op = appender->resume;
    struct partitioner_batch one;
    struct partitioner_split split;
    struct pending *joined = &op->before;
    size_t complete = op->cut.complete;
    int rc = pending_reserve(joined, complete);
    if (rc < 0)
        return rc;
    (void)pending_join(joined, request->bytes + op->cut.skip, complete);
    rc = append_route_split(appender, &op->routing, joined->data,
                            joined->length + complete, op->cut.count, &one, &split);
    if (rc < 0)
        return rc;
    appender->resume = NULL;
    append_op_arm(op, request->reply);
    append_route_submit(op, split.batches);
    append_route_end(&split, &one);
    op->state_before = appender->state;
    op->state_after = 0;
    if (op->owns_tail) {
        move_pending(&op->tail, &appender->pending);
        appender->lines = op->cut.after;
        new_state(appender);
        op->state_after = appender->state;
    }
    append_op_launch(op);
    return 0;
}

/* [order] No line is complete: all of it waits (or is thrown away). */
static int keep_pending(struct appender *appender, const struct write_request *request,
                        const struct lines_cut *cut)
{
    struct pending *pending = &appender->pending;
    if (cut->tail > 0) {
        if (pending_reserve(pending, cut->tail) < 0)
            return -ENOMEM;
        (void)pending_join(pending, request->bytes + cut->skip, cut->tail);
        pending->length += cut->tail;
    }
    pending->owner = request->owner;
    appender->lines = cut->after;
    new_state(appender);
    return 0;
}

/* [order; unlocked where it sets *launched] An error, or 0 and the bytes taken. */
static int write_ordered(struct appender *appender, const struct write_request *request,
                         size_t *taken, bool *launched)
{
    const struct topic *topic = topic_now(appender);
    struct lines_cut cut;
    int rc;
    *taken = 0;
    settle(appender);
    if (topic == NULL)
        return E_TOPIC_DELETED;
    if (request->length == 0)
        return 0;
    if (resumes(appender, request)) {
        rc = write_again(appender, request);
        *launched = rc == 0;
        return rc;
    }
    append_op_forget(appender->resume);
    appender->resume = NULL;
    lines_cut(&appender->lines, appender->pending.length,
              (size_t)topic->config.max_message_bytes, request->bytes, request->length,
              &cut);
    if (cut.error != 0) {
        pending_clear(&appender->pending);
        appender->pending.owner = request->owner;
        appender->lines = cut.after;
        new_state(appender);
        return cut.error;
    }
    /* By key a write is all or nothing. */
    if (append_route_by_key(appender) && cut.consumed < request->length)
        return E_MESSAGE_TOO_LARGE;
    *taken = cut.consumed;
    if (cut.complete == 0)
        return keep_pending(appender, request, &cut);
    rc = write_lines(appender, topic, request, &cut);
    *launched = rc == 0;
    return rc;
}

void appender_write(struct appender *appender, struct reply *reply, const char *bytes,
                    size_t length, uint64_t owner)
{
    struct write_request request = {reply, bytes, length, owner};
    size_t taken;
    bool launched = false;
    int rc;
    pthread_mutex_lock(&appender->order);
    rc = write_ordered(appender, &request, &taken, &launched);
    if (launched)
        return;
    pthread_mutex_unlock(&appender->order);
    if (rc < 0)
        reply_error(reply, rc);
    else
        reply_written(reply, taken);
}

/* ---- flush, fsync, release
 * ------------------------------------------------------------ */

/* [order; unlocked where it returns 0] Ends the pending part with a newline. On error
 * it is still pending. */
static int end_line(struct appender *appender, enum append_kind kind,
                    struct reply *reply)
{
    const struct topic *topic = topic_now(appender);
    struct pending *pending = &appender->pending;
    struct append_routing routing;
    struct partitioner_batch one;
    struct partitioner_split split;
    struct append_op *op;
    int rc =
        topic == NULL ? E_TOPIC_DELETED : append_route_next(appender, topic, &routing);
    if (rc < 0)
        return rc;
    op = append_op_new(appender, kind, reply, 1);
    if (op == NULL)
        return -ENOMEM;
    op->timeout_ms = topic->config.delivery_timeout_ms;
    pending->data[pending->length] = '\n';
    (void)append_route_split(appender, &routing, pending->data, pending->length + 1, 1,
                             &one, &split);
    append_route_submit(op, split.batches);
    /* Whatever comes of it, nobody is there to write the part again. */
    pending_clear(pending);
    new_state(appender);
    append_op_launch(op);
    return 0;
}

void appender_flush(struct appender *appender, struct reply *reply, uint64_t owner)
{
    int rc = 0;
    pthread_mutex_lock(&appender->order);
    settle(appender);
    if (appender->pending.owner == owner) {
        if (appender->lines.discarding) {
            appender->lines = (struct lines_state){0};
            new_state(appender);
        }
        if (appender->pending.length > 0) {
            rc = end_line(appender, APPEND_FLUSH, reply);
            if (rc == 0)
                return;
            pending_clear(&appender->pending);
            new_state(appender);
        }
    }
    pthread_mutex_unlock(&appender->order);
    reply_error(reply, rc);
}

/* [order; unlocked where it returns 0] Waits until each partition that this file has
 * appended to has it on disk. */
static int sync_ordered(struct appender *appender, struct reply *reply)
{
    const struct topic *topic = topic_now(appender);
    struct append_op *op;
    if (topic == NULL)
        return E_TOPIC_DELETED;
    op = append_op_new(appender, APPEND_FSYNC, reply, (size_t)appender->end_count);
    if (op == NULL)
        return -ENOMEM;
    op->timeout_ms = topic->config.delivery_timeout_ms;
    for (int32_t slot = 0; slot < appender->end_count; slot++) {
        struct append_part *part = &op->parts[slot];
        struct sync_range end;
        pthread_mutex_lock(&appender->lock);
        end = appender->ends[slot];
        pthread_mutex_unlock(&appender->lock);
        part->slot = slot;
        if (end.end_offset == 0 && end.first_queued == 0)
            append_op_skip(part);
        else
            (void)append_op_sync(part, append_route_handle(appender, slot), &end);
    }
    append_op_launch(op);
    return 0;
}

void appender_fsync(struct appender *appender, struct reply *reply)
{
    int rc;
    pthread_mutex_lock(&appender->order);
    rc = sync_ordered(appender, reply);
    if (rc == 0)
        return;
    pthread_mutex_unlock(&appender->order);
    reply_error(reply, rc);
}

void appender_release(struct appender *appender, struct reply *reply)
{
    int rc = 0;
    pthread_mutex_lock(&appender->order);
    settle(appender);
    if (appender->pending.length > 0) {
        rc = end_line(appender, APPEND_RELEASE, reply);
        if (rc == 0) {
            appender_unref(appender);
            return;
        }
        diag(DIAG_WARNING, "completing the last line of a closed file: %s",
             err_text(rc));
    }
    pthread_mutex_unlock(&appender->order);
    appender_unref(appender);
    if (reply != NULL)
        reply_error(reply, rc);
}
