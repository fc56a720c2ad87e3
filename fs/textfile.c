#include "fs/textfile.h"

#include <stdlib.h>

/* cluster/problems is bounded to 1,000 lines, and a state to a few thousand epochs. */
enum { TEXTFILE_MAX = 16 * 1024 * 1024 };

struct textfile {
    struct buf text;
};

static int textfile_render_config(const struct tree *tree,
                                  const struct tree_place *place, struct buf *out)
{
    int rc = -ENOMEM;
    cJSON *object = NULL;
    char *text = NULL;
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(tree->cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, place->topic);
    if (topic == NULL || !topic_id_equal(&topic->id, &place->topic_id)) {
        rc = -ESTALE;
        goto out;
    }
    object = settings_to_json(&topic->config, SETTING_TOPIC, topic->config_version);
    text = object != NULL ? cJSON_Print(object) : NULL;
    if (text != NULL) {
        (void)buf_adds(out, text);
        rc = buf_adds(out, "\n");
    }
out:
    cJSON_free(text);
    cJSON_Delete(object);
    cluster_snapshot_put(snapshot);
    return rc;
}

static int textfile_render(const struct tree *tree, const struct tree_place *place,
                           struct partition *partition, struct buf *out)
{
    switch (place->kind) {
    case TREE_CONFIG:
        return textfile_render_config(tree, place, out);
    case TREE_STATE:
        return partition != NULL ? partition_state_render(partition, out) : E_OFFLINE;
    case TREE_CLUSTER_FILE:
    case TREE_ADMIN_FILE:
        return cluster_tree_read(tree->cluster, place->name, out);
    default:
        return -EINVAL;
    }
}

int textfile_open(const struct tree *tree, const struct tree_place *place,
                  struct partition *partition, struct textfile **out)
{
    struct textfile *file = calloc(1, sizeof *file);
    if (file == NULL)
        return -ENOMEM;
    buf_init(&file->text, TEXTFILE_MAX);
    int rc = textfile_render(tree, place, partition, &file->text);
    if (rc == -ENOENT && place->kind == TREE_ADMIN_FILE)
        rc = 0; /* no such operation runs: an empty file, there to be written */
    if (rc < 0) {
        textfile_close(file);
        return rc;
    }
    *out = file;
    return 0;
}

int textfile_of(struct buf *text, struct textfile **out)
{
    struct textfile *file = calloc(1, sizeof *file);
    int rc = file != NULL ? buf_error(text) : -ENOMEM;
    if (rc < 0) {
        free(file);
        return rc;
    }
    file->text = *text;
    buf_init(text, text->maximum);
    *out = file;
    return 0;
}

int textfile_size(const struct tree *tree, const struct tree_place *place,
                  struct partition *partition, int64_t *size)
{
    struct textfile *file;
    int rc = textfile_open(tree, place, partition, &file);
    if (rc < 0)
        return rc;
    *size = (int64_t)file->text.length;
    textfile_close(file);
    return 0;
}

void textfile_read(const struct textfile *file, struct reply *reply, int64_t at,
                   size_t size)
{
    size_t length = file->text.length;
    if (at < 0 || (uint64_t)at >= length) {
        reply_bytes(reply, "", 0);
        return;
    }
    size_t left = length - (size_t)at;
    reply_bytes(reply, file->text.data + at, size < left ? size : left);
}

void textfile_close(struct textfile *file)
{
    if (file == NULL)
        return;
    buf_free(&file->text);
    free(file);
}
