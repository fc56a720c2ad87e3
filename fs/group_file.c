#include "fs/group_file.h"

#include "fs/group_call.h"
#include "fs/group_offset.h"
#include "fs/group_stream.h"
#include "fs/group_text.h"
#include "fs/jsonfile.h"
#include "fs/previews.h"
#include "fs/textfile.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct group_file {
    struct mounted *mounted; /* [const], as the next three */
    struct tree_place place;
    struct group_stream *stream; /* read/, json/ */
    struct jsonfile *json;       /* config.json, when writing */
    bool reading;                /* [const] a text is to be shown */
    struct textfile *text;       /* set before the open is answered */
    /* of the open that waits */
    struct group_call call;
    struct group_stream_waiter joined;
    struct group_file_waiter *waiter;
};

/* ---- open and close ---------------------------------------------------------------
 */

static int file_key_delimiter(struct mounted *mounted, const struct tree_place *place,
                              int *delimiter)
{
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(mounted->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, place->topic);
    int rc = E_TOPIC_DELETED;
    if (topic != NULL && topic_id_equal(&topic->id, &place->topic_id)) {
        *delimiter = (int)topic->config.key_delimiter;
        rc = 0;
    }
    cluster_snapshot_put(snapshot);
    return rc;
}

static int file_open_stream(struct group_file *file)
{
    const struct tree_place *place = &file->place;
    struct group_stream_params params = {
        .groups = file->mounted->groups,
        .parking = file->mounted->parking,
        .worker = file->mounted->worker,
        .group = place->name,
        .topic = place->topic,
        .topic_id = place->topic_id,
        .format = place->kind == TREE_GROUP_JSON ? STREAM_JSON : STREAM_TEXT,
    };
    int rc = file_key_delimiter(file->mounted, place, &params.key_delimiter);
    return rc < 0 ? rc : group_stream_open(&params, &file->stream);
}

int group_file_open(struct mounted *mounted, const struct tree_place *place, int flags,
                    struct group_file **out)
{
    struct group_file *file = calloc(1, sizeof *file);
    int rc = 0;
    if (file == NULL)
        return -ENOMEM;
    file->mounted = mounted;
    file->place = *place;
    file->reading = tree_is_group_text(place->kind) && (flags & O_ACCMODE) != O_WRONLY;
    if (tree_is_group_stream(place->kind)) {
        rc = file_open_stream(file);
    } else if (place->kind == TREE_GROUP_CONFIG && (flags & O_ACCMODE) != O_RDONLY) {
        file->json = jsonfile_new("config.json of group ", place->name);
        rc = file->json != NULL ? 0 : -ENOMEM;
    }
    if (rc < 0) {
        group_file_close(file);
        return rc;
    }
    *out = file;
    return 0;
}

void group_file_close(struct group_file *file)
{
    if (file == NULL)
        return;
    group_stream_close(file->stream);
    jsonfile_free(file->json);
    textfile_close(file->text);
    free(file);
}

/* ---- until it is ready ------------------------------------------------------------
 */

static struct group_file *file_of_call(struct group_call *call)
{
    return (struct group_file *)((char *)call - offsetof(struct group_file, call));
}

static void file_joined(struct group_stream_waiter *joined, int error)
{
    struct group_file *file =
        (struct group_file *)((char *)joined - offsetof(struct group_file, joined));
    file->waiter->done(file->waiter, error);
}

static int file_take_text(struct group_call *call, const cJSON *answer)
{
    struct group_file *file = file_of_call(call);
    struct buf text;
    buf_init(&text, GROUP_TEXT_MAX);
    int rc = group_text_render(&file->place, answer, &text);
    if (rc == 0)
        rc = textfile_of(&text, &file->text);
    buf_free(&text);
    return rc;
}

static void file_described(struct group_call *call, int error)
{
    struct group_file *file = file_of_call(call);
    file->waiter->done(file->waiter, error);
}

static void file_on_interrupt(struct group_stream_waiter *joined, void (*fn)(void *arg),
                              void *arg)
{
    struct group_file *file =
        (struct group_file *)((char *)joined - offsetof(struct group_file, joined));
    file->waiter->on_interrupt(file->waiter, fn, arg);
}

static void file_interruptible(struct group_call *call, bool on)
{
    struct group_file *file = file_of_call(call);
    file->waiter->on_interrupt(file->waiter, on ? group_call_interrupt : NULL, call);
}

static int file_preview(struct group_file *file)
{
    struct buf text;
    int64_t offset;
    buf_init(&text, GROUP_TEXT_MAX);
    int rc = 0;
    if (previews_get(file->mounted->previews, &file->place, &offset))
        rc = offset < 0 ? buf_adds(&text, "none\n")
                        : buf_printf(&text, "%lld\n", (long long)offset);
    if (rc == 0)
        rc = textfile_of(&text, &file->text);
    buf_free(&text);
    return rc;
}

void group_file_ready(struct group_file *file, struct group_file_waiter *waiter)
{
    file->waiter = waiter;
    if (file->stream != NULL) {
        file->joined = (struct group_stream_waiter){.done = file_joined,
                                                    .on_interrupt = file_on_interrupt};
        group_stream_await(file->stream, &file->joined);
    } else if (!file->reading) {
        waiter->done(waiter, 0);
    } else if (file->place.kind == TREE_GROUP_PREVIEW) {
        waiter->done(waiter, file_preview(file));
    } else {
        group_call_init(&file->call, file->mounted, file_take_text, file_interruptible,
                        file_described);
        groups_describe(file->mounted->groups, file->place.name,
                        group_text_needs_ends(file->place.kind), &file->call.call);
        group_call_park(&file->call);
    }
}

/* ---- reading ----------------------------------------------------------------------
 */

void group_file_read(struct group_file *file, struct reply *reply, int64_t at,
                     size_t size, bool nonblock)
{
    if (file->stream != NULL)
        group_stream_read(file->stream, reply, at, size, nonblock);
    else if (file->text != NULL)
        textfile_read(file->text, reply, at, size);
    else
        reply_error(reply, -EBADF);
}

bool group_file_is_stream(const struct group_file *file)
{
    return file->stream != NULL;
}

bool group_file_poll(struct group_file *file, struct stream_notify *notify)
{
    if (file->stream != NULL)
        return group_stream_poll(file->stream, notify);
    if (notify != NULL)
        notify->free(notify);
    return true;
}

/* ---- writing ----------------------------------------------------------------------
 */

/* A write on its way: up to three questions, one after the other. */
struct group_write {
    struct group_call call;
    struct group_file *file; /* stays open until the write is answered */
    struct reply *reply;
    size_t length;
    struct group_offset offset;
    int64_t committed;
    int64_t target;
    int32_t leader_epoch;
};

static void write_interruptible(struct group_call *call, bool on)
{
    struct group_write *writing = (struct group_write *)call;
    reply_on_interrupt(writing->reply, on ? group_call_interrupt : NULL, call);
}

static void write_done(struct group_call *call, int error)
{
    struct group_write *writing = (struct group_write *)call;
    if (error < 0)
        reply_error(writing->reply, error);
    else
        reply_written(writing->reply, writing->length);
    free(writing);
}

static void write_begin(struct group_write *writing,
                        int (*take)(struct group_call *call, const cJSON *answer),
                        void (*done)(struct group_call *call, int error))
{
    group_call_init(&writing->call, writing->file->mounted, take, write_interruptible,
                    done);
    writing->call.group = writing->file->place.name;
}

static struct group_write *write_new(struct group_file *file, struct reply *reply,
                                     size_t length)
{
    struct group_write *writing = calloc(1, sizeof *writing);
    if (writing == NULL) {
        reply_error(reply, -ENOMEM);
        return NULL;
    }
    writing->file = file;
    writing->reply = reply;
    writing->length = length;
    return writing;
}

static void write_set(struct group_write *writing)
{
    struct group_file *file = writing->file;
    const struct tree_place *place = &file->place;
    if (place->kind == TREE_GROUP_PREVIEW) {
        previews_set(file->mounted->previews, place, writing->target);
        write_done(&writing->call, 0);
        return;
    }
    write_begin(writing, NULL, write_done);
    groups_set_offset(file->mounted->groups, place->name, place->topic,
                      &place->topic_id, place->partition, writing->target,
                      writing->leader_epoch, &writing->call.call);
    group_call_park(&writing->call);
}

static int write_take_place(struct group_call *call, const cJSON *answer)
{
    struct group_write *writing = (struct group_write *)call;
    int64_t leader_epoch = 0;
    int rc = json_get_i64(answer, "offset", &writing->target);
    if (rc == 0)
        rc = json_get_i64(answer, "leader_epoch", &leader_epoch);
    if (rc < 0)
        return -EIO;
    writing->leader_epoch = (int32_t)leader_epoch;
    return 0;
}

static void write_located(struct group_call *call, int error)
{
    /* An offset that the log does not have is a value that can't be taken. */
    if (error == E_OFFSET_BELOW_START || error == -ERANGE)
        error = -EINVAL;
    if (error < 0)
        write_done(call, error);
    else
        write_set((struct group_write *)call);
}

static void write_locate(struct group_write *writing, enum groups_place_kind kind,
                         int64_t value)
{
    const struct tree_place *place = &writing->file->place;
    write_begin(writing, write_take_place, write_located);
    groups_locate(writing->file->mounted->groups, &place->topic_id, place->partition,
                  kind, value, &writing->call.call);
    group_call_park(&writing->call);
}

static int write_take_committed(struct group_call *call, const cJSON *answer)
{
    struct group_write *writing = (struct group_write *)call;
    const struct tree_place *place = &writing->file->place;
    writing->committed =
        group_text_committed(answer, &place->topic_id, place->partition);
    return 0;
}

static void write_described(struct group_call *call, int error)
{
    struct group_write *writing = (struct group_write *)call;
    int64_t target = 0;
    if (error == 0)
        error = group_offset_step(writing->committed, writing->offset.value, &target);
    if (error < 0)
        write_done(call, error);
    else
        write_locate(writing, GROUPS_PLACE_OFFSET, target);
}

static void write_offset(struct group_file *file, struct reply *reply,
                         const char *bytes, size_t length)
{
    struct mounted *mounted = file->mounted;
    struct group_offset offset;
    int rc = group_offset_parse(bytes, length, mounted->clock->wall_ms(mounted->clock),
                                &offset);
    struct group_write *writing = rc == 0 ? write_new(file, reply, length) : NULL;
    if (rc < 0)
        reply_error(reply, rc);
    if (writing == NULL)
        return;
    writing->offset = offset;
    switch (offset.kind) {
    case GROUP_OFFSET_PLACE:
        write_locate(writing, offset.place, offset.value);
        break;
    case GROUP_OFFSET_STEP:
        write_begin(writing, write_take_committed, write_described);
        groups_describe(mounted->groups, file->place.name, false, &writing->call.call);
        group_call_park(&writing->call);
        break;
    case GROUP_OFFSET_NONE:
        writing->target = writing->leader_epoch = -1;
        write_set(writing);
        break;
    }
}

static void write_config(struct group_file *file, struct reply *reply,
                         const char *bytes, size_t length, uint64_t owner)
{
    cJSON *value = NULL;
    int rc = jsonfile_write(file->json, bytes, length, owner, &value);
    if (rc < 0) {
        reply_error(reply, rc);
        return;
    }
    if (value == NULL) {
        reply_written(reply, length);
        return;
    }
    struct group_write *writing = NULL;
    if (!cJSON_IsObject(value))
        reply_error(reply, E_INVALID_CONFIG);
    else
        writing = write_new(file, reply, length);
    if (writing != NULL) {
        write_begin(writing, NULL, write_done);
        groups_configure(file->mounted->groups, file->place.name, value,
                         &writing->call.call);
        group_call_park(&writing->call);
    }
    cJSON_Delete(value);
}

void group_file_write(struct group_file *file, struct reply *reply, const char *bytes,
                      size_t length, uint64_t owner)
{
    if (file->json != NULL)
        write_config(file, reply, bytes, length, owner);
    else if (file->place.kind == TREE_GROUP_OFFSET ||
             file->place.kind == TREE_GROUP_PREVIEW)
        write_offset(file, reply, bytes, length);
    else
        reply_error(reply, -EBADF);
}

int group_file_flush(struct group_file *file, uint64_t owner)
{
    return file->json != NULL ? jsonfile_flush(file->json, owner) : 0;
}
