#include "fs/handle.h"

#include "fs/appender.h"
#include "fs/group_file.h"
#include "fs/jsonfile.h"
#include "fs/textfile.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/*
 * A stream gives at most this at once. A read(2) larger than one request becomes
 * several of them, and the kernel sends the next only after a full one: a short answer
 * ends the read(2) before the next would wait for messages with data in hand.
 */
enum { HANDLE_STREAM_MAX = 1000 * 1024 };

struct handle {
    struct mounted *mounted; /* [const], as all but the links */
    struct node *node;
    bool writing;
    struct stream *stream;      /* follow/, json/ */
    struct appender *appender;  /* log, append, when writing */
    struct textfile *text;      /* what was rendered at open, when reading */
    struct jsonfile *json;      /* what takes JSON, when writing */
    struct group_file *group;   /* all that is in groups/ */
    bool listed;                /* [table->lock] in the table */
    atomic_uint uses;           /* functions that run, and the open file itself */
    struct reply *last;         /* of the release; written before its use ends */
    struct handle *prev, *next; /* [table->lock] */
};

struct handle_table {
    pthread_mutex_t lock;
    struct handle *all; /* [lock] */
};

/* ---- the table ------------------------------------------------------------------- */

struct handle_table *handle_table_new(void)
{
    struct handle_table *table = calloc(1, sizeof *table);
    if (table != NULL)
        (void)pthread_mutex_init(&table->lock, NULL);
    return table;
}

void handle_table_release_all(struct handle_table *table)
{
    for (;;) {
        (void)pthread_mutex_lock(&table->lock);
        struct handle *handle = table->all;
        (void)pthread_mutex_unlock(&table->lock);
        if (handle == NULL)
            return;
        handle_release(handle, NULL);
    }
}

void handle_table_free(struct handle_table *table)
{
    if (table == NULL)
        return;
    (void)pthread_mutex_destroy(&table->lock);
    free(table);
}

/* ---- open ------------------------------------------------------------------------ */

static int handle_check_flags(const struct tree_place *place, int flags)
{
    enum tree_kind kind = place->kind;
    bool writing = (flags & O_ACCMODE) != O_RDONLY;
    if (tree_is_dir(kind))
        return writing ? -EISDIR : 0;
    if (tree_takes_json(kind) || kind == TREE_GROUP_OFFSET ||
        kind == TREE_GROUP_PREVIEW)
        return 0;
    if ((flags & O_TRUNC) != 0)
        return -EPERM;
    if (!writing)
        return 0;
    if ((kind != TREE_LOG && kind != TREE_APPEND) ||
        topic_name_is_internal(place->topic))
        return -EPERM;
    return (flags & O_APPEND) != 0 ? 0 : -EPERM;
}

static int handle_open_appender(struct handle *handle)
{
    const struct tree_place *place = &handle->node->place;
    struct appender_params params = {
        .cluster = handle->mounted->cluster,
        .broker = handle->mounted->broker,
        .parking = handle->mounted->parking,
        .topic_id = place->topic_id,
        .partition = place->kind == TREE_APPEND ? -1 : place->partition,
        .rotation = &handle->mounted->rotation,
    };
    return appender_open(&params, &handle->appender);
}

static int handle_open_stream(struct handle *handle)
{
    const struct tree_place *place = &handle->node->place;
    enum stream_format format = place->kind == TREE_JSON ? STREAM_JSON : STREAM_TEXT;
    int delimiter = KEY_DELIMITER_NONE;
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(handle->mounted->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, place->topic);
    int rc = E_TOPIC_DELETED;
    if (topic != NULL && topic_id_equal(&topic->id, &place->topic_id)) {
        delimiter = (int)topic->config.key_delimiter;
        rc = 0;
    }
    cluster_snapshot_put(snapshot);
    if (rc < 0)
        return rc;
    return stream_open(handle->node->view, format, delimiter, handle->mounted->parking,
                       &handle->stream);
}

static int handle_open_text(struct handle *handle, int flags)
{
    struct mounted *mounted = handle->mounted;
    const struct tree_place *place = &handle->node->place;
    struct partition *partition = NULL;
    int rc = 0;
    if (handle->writing) {
        bool admin = place->kind == TREE_ADMIN_FILE;
        handle->json = jsonfile_new(admin ? "cluster/" : "config.json of topic ",
                                    admin ? place->name : place->topic);
        if (handle->json == NULL)
            return -ENOMEM;
    }
    if ((flags & O_ACCMODE) == O_WRONLY)
        return 0;
    if (place->kind == TREE_STATE)
        partition =
            broker_partition(mounted->broker, &place->topic_id, place->partition);
    if (partition != NULL)
        (void)partition_observe(partition);
    rc = textfile_open(&mounted->tree, place, partition, &handle->text);
    partition_unref(partition);
    return rc;
}

/* Did retention or compaction move the beginning of the log since the look-up? Then the
 * kernel is to look up again, or the reader would begin in what is gone. */
static int handle_check_anchor(const struct node *node)
{
    struct partition_status status;
    partition_status_get(node->partition, &status);
    bool moved = node->identity.base != status.start.position ||
                 node->identity.rewrites != status.rewrites;
    return moved ? -ESTALE : 0;
}

static int handle_open_kind(struct handle *handle, int flags)
{
    enum tree_kind kind = handle->node->place.kind;
    if (kind == TREE_LOG && !handle->writing) {
        int rc = handle_check_anchor(handle->node);
        if (rc < 0)
            return rc;
    }
    if (tree_is_in_groups(kind))
        return group_file_open(handle->mounted, &handle->node->place, flags,
                               &handle->group);
    if (tree_is_text(kind))
        return handle_open_text(handle, flags);
    if (kind == TREE_FOLLOW || kind == TREE_JSON)
        return handle_open_stream(handle);
    return handle->writing ? handle_open_appender(handle) : 0;
}

int handle_open(struct mounted *mounted, struct node *node, int flags, int64_t thread,
                struct handle **out)
{
    int rc = handle_check_flags(&node->place, flags);
    if (rc < 0)
        return rc;
    struct handle *handle = calloc(1, sizeof *handle);
    if (handle == NULL)
        return -ENOMEM;
    handle->mounted = mounted;
    handle->node = node;
    handle->writing = (flags & O_ACCMODE) != O_RDONLY;
    atomic_init(&handle->uses, 1);
    rc = node_table_open(mounted->nodes, node, handle->writing, thread,
                         clock_mono_ms(mounted->clock));
    if (rc < 0) {
        free(handle);
        return rc;
    }
    rc = handle_open_kind(handle, flags);
    if (rc < 0) {
        jsonfile_free(handle->json);
        node_table_close(mounted->nodes, node, handle->writing);
        free(handle);
        return rc;
    }
    partition_hold(node->partition);
    if (handle->group == NULL)
        handle_opened(handle);
    *out = handle;
    return 0;
}

void handle_opened(struct handle *handle)
{
    struct handle_table *table = handle->mounted->handles;
    (void)pthread_mutex_lock(&table->lock);
    DL_APPEND(table->all, handle);
    handle->listed = true;
    (void)pthread_mutex_unlock(&table->lock);
}

struct group_file *handle_group(const struct handle *handle)
{
    return handle->group;
}

bool handle_is_cached(const struct handle *handle)
{
    return handle->node->place.kind == TREE_SEGMENT;
}

bool handle_needs_no_flush(const struct handle *handle)
{
    return !handle->writing;
}

bool handle_is_stream(const struct handle *handle)
{
    return handle->stream != NULL ||
           (handle->group != NULL && group_file_is_stream(handle->group));
}

/* ---- the end --------------------------------------------------------------------- */

static void handle_free(struct handle *handle)
{
    struct appender *appender = handle->appender;
    struct reply *reply = handle->last;
    if (handle->stream != NULL)
        stream_close(handle->stream);
    group_file_close(handle->group);
    textfile_close(handle->text);
    jsonfile_free(handle->json);
    partition_let_go(handle->node->partition);
    node_table_close(handle->mounted->nodes, handle->node, handle->writing);
    free(handle);
    if (appender != NULL)
        appender_release(appender, reply);
    else if (reply != NULL)
        reply_error(reply, 0);
}

/* Around whatever answers: the moment that the answer is out, the file may be closed,
 * and its release be under way on another thread. */
static void handle_use(struct handle *handle)
{
    (void)atomic_fetch_add(&handle->uses, 1);
}

static void handle_unuse(struct handle *handle)
{
    if (atomic_fetch_sub(&handle->uses, 1) == 1)
        handle_free(handle);
}

void handle_release(struct handle *handle, struct reply *reply)
{
    struct handle_table *table = handle->mounted->handles;
    (void)pthread_mutex_lock(&table->lock);
    if (handle->listed)
        DL_DELETE(table->all, handle);
    (void)pthread_mutex_unlock(&table->lock);
    handle->last = reply;
    handle_unuse(handle);
}

/* ---- reading --------------------------------------------------------------------- */

/* Checks that the segment is still the one that was looked up, then pins its bytes. */
static int handle_segment_extents(const struct node *node, int64_t at, size_t size,
                                  struct extent *extents, size_t *count)
{
    struct partition_status status;
    struct log_segment_info info;
    int rc = 0;
    *count = 0;
    partition_status_get(node->partition, &status);
    if (partition_segment_find(node->partition, node->segment.base_offset, &info) < 0 ||
        info.version != node->segment.version)
        return -ESTALE;
    while (size > 0 && *count < REPLY_EXTENTS_MAX) {
        struct extent *extent = &extents[*count];
        rc = partition_read(node->partition, node->segment.position + at, size,
                            status.rewrites, extent);
        if (rc < 0 || extent->length == 0)
            break;
        at += (int64_t)extent->length;
        size -= extent->length;
        (*count)++;
    }
    if (rc < 0) {
        while (*count > 0)
            extent_release(&extents[--*count]);
    }
    return rc;
}

static void handle_read_segment(const struct node *node, struct reply *reply,
                                int64_t at, size_t size)
{
    struct extent extents[REPLY_EXTENTS_MAX];
    size_t count = 0;
    int rc = 0;
    memset(extents, 0, sizeof extents);
    if (at < node->segment.size) {
        int64_t left = node->segment.size - at;
        if ((uint64_t)left < size)
            size = (size_t)left;
        rc = handle_segment_extents(node, at, size, extents, &count);
    }
    if (rc < 0)
        reply_error(reply, rc);
    else
        reply_extents(reply, extents, count);
}

void handle_read(struct handle *handle, struct reply *reply, int64_t at, size_t size,
                 int flags)
{
    handle_use(handle);
    if (at < 0) {
        reply_error(reply, -EINVAL);
    } else if (handle->text != NULL) {
        textfile_read(handle->text, reply, at, size);
    } else if (handle->group != NULL) {
        group_file_read(handle->group, reply, at,
                        size < HANDLE_STREAM_MAX ? size : HANDLE_STREAM_MAX,
                        (flags & O_NONBLOCK) != 0);
    } else if (handle->stream != NULL) {
        if (size > HANDLE_STREAM_MAX)
            size = HANDLE_STREAM_MAX;
        stream_read(handle->stream, reply, at, size, (flags & O_NONBLOCK) != 0);
    } else if (handle->node->view != NULL) {
        view_read(handle->node->view, reply, at, size);
    } else if (handle->node->place.kind == TREE_SEGMENT) {
        handle_read_segment(handle->node, reply, at, size);
    } else {
        /* `append`, which only root can open for reading: empty, so that a recursive
         * search by root ends without a complaint. */
        reply_bytes(reply, "", 0);
    }
    handle_unuse(handle);
}

bool handle_poll(struct handle *handle, struct stream_notify *notify)
{
    if (handle->stream != NULL)
        return stream_poll(handle->stream, notify);
    if (handle->group != NULL)
        return group_file_poll(handle->group, notify);
    if (notify != NULL)
        notify->free(notify);
    return true;
}

/* ---- JSON ------------------------------------------------------------------------ */

/* A complete value on its way to the operations' thread, and the write that waits. */
struct handle_apply {
    struct operation operation;
    struct operations *operations;
    struct reply *reply;
    size_t length;
};

static void handle_apply_done(struct operation *operation, int code)
{
    struct handle_apply *apply = (struct handle_apply *)operation;
    /* From within the interrupt's own function there is nothing to end. */
    if (operation->state != OPERATION_INTERRUPTED)
        reply_on_interrupt(apply->reply, NULL, NULL);
    if (code < 0)
        reply_error(apply->reply, code);
    else
        reply_written(apply->reply, apply->length);
    cJSON_Delete(operation->json);
    free(apply);
}

static void handle_apply_interrupt(void *arg)
{
    struct handle_apply *apply = arg;
    operations_interrupt(apply->operations, &apply->operation);
}

/* Takes `value`. */
static void handle_apply_submit(struct handle *handle, struct reply *reply,
                                cJSON *value, size_t length)
{
    const struct tree_place *place = &handle->node->place;
    struct handle_apply *apply = malloc(sizeof *apply);
    if (apply == NULL) {
        cJSON_Delete(value);
        reply_error(reply, -ENOMEM);
        return;
    }
    bool admin = place->kind == TREE_ADMIN_FILE;
    operation_init(&apply->operation, admin ? OPERATION_ADMIN : OPERATION_SET_CONFIG,
                   handle_apply_done);
    if (admin) {
        const char *slash = strrchr(place->name, '/');
        (void)snprintf(apply->operation.name, sizeof apply->operation.name, "%s",
                       slash != NULL ? slash + 1 : place->name);
    } else {
        (void)snprintf(apply->operation.topic, sizeof apply->operation.topic, "%s",
                       place->topic);
        apply->operation.topic_id = place->topic_id;
    }
    apply->operation.json = value;
    apply->operations = handle->mounted->operations;
    apply->reply = reply;
    apply->length = length;
    reply_on_interrupt(reply, handle_apply_interrupt, apply);
    operations_submit(apply->operations, &apply->operation);
}

/* ---- writing --------------------------------------------------------------------- */

static void handle_write_json(struct handle *handle, struct reply *reply,
                              const char *bytes, size_t length, uint64_t owner)
{
    cJSON *value = NULL;
    int rc = jsonfile_write(handle->json, bytes, length, owner, &value);
    if (rc < 0)
        reply_error(reply, rc);
    else if (value == NULL)
        reply_written(reply, length);
    else
        handle_apply_submit(handle, reply, value, length);
}

void handle_write(struct handle *handle, struct reply *reply, const char *bytes,
                  size_t length, int flags, uint64_t owner)
{
    handle_use(handle);
    if (handle->group != NULL)
        group_file_write(handle->group, reply, bytes, length, owner);
    else if (handle->json != NULL)
        handle_write_json(handle, reply, bytes, length, owner);
    else if (handle->appender == NULL)
        reply_error(reply, -EBADF);
    else if ((flags & O_APPEND) == 0) /* cleared since the open, by fcntl(2) */
        reply_error(reply, -EPERM);
    else
        appender_write(handle->appender, reply, bytes, length, owner);
    handle_unuse(handle);
}

void handle_flush(struct handle *handle, struct reply *reply, uint64_t owner)
{
    handle_use(handle);
    if (handle->appender != NULL)
        appender_flush(handle->appender, reply, owner);
    else if (handle->group != NULL)
        reply_error(reply, group_file_flush(handle->group, owner));
    else
        reply_error(reply,
                    handle->json != NULL ? jsonfile_flush(handle->json, owner) : 0);
    handle_unuse(handle);
}

void handle_fsync(struct handle *handle, struct reply *reply)
{
    handle_use(handle);
    if (handle->appender != NULL)
        appender_fsync(handle->appender, reply);
    else
        reply_error(reply, 0);
    handle_unuse(handle);
}
