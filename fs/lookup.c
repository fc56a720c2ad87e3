#include "fs/lookup.h"

#include "fs/textfile.h"

struct partition *lookup_partition(struct mounted *mounted,
                                   const struct tree_place *place)
{
    return broker_partition(mounted->broker, &place->topic_id, place->partition);
}

/* 0 and a reference on the partition with its status, or a code. */
static int lookup_status(struct mounted *mounted, const struct tree_place *place,
                         struct partition **out, struct partition_status *status)
{
    struct partition *partition = lookup_partition(mounted, place);
    if (partition == NULL)
        return tree_topic_exists(&mounted->tree, place) ? E_OFFLINE : E_TOPIC_DELETED;
    partition_status_get(partition, status);
    if (status->deleted) {
        partition_unref(partition);
        return E_TOPIC_DELETED;
    }
    *out = partition;
    return 0;
}

/* A new node that owns the partition and the view; both are given back on failure. */
static int lookup_add(struct mounted *mounted, const struct tree_place *place,
                      const struct node_identity *identity, struct partition *partition,
                      struct view *view, const struct log_segment_info *segment,
                      bool own, struct node **out)
{
    struct node *node = node_new(place, identity);
    if (node == NULL) {
        view_unref(view);
        partition_unref(partition);
        return -ENOMEM;
    }
    node->partition = partition;
    node->view = view;
    if (segment != NULL)
        node->segment = *segment;
    if (own)
        node_table_add_own(mounted->nodes, *out = node);
    else
        *out = node_table_add(mounted->nodes, node);
    return 0;
}

/* What tells nodes of one name apart, for what shows a log. */
static struct node_identity lookup_identity(const struct partition_status *status,
                                            int64_t base)
{
    return (struct node_identity){
        .base = base,
        .generation = status->unclean,
        .rewrites = status->rewrites,
    };
}

/* `log`: found by the log start before a view has to be made. */
static int lookup_log(struct mounted *mounted, const struct tree_place *place, bool own,
                      struct node **out)
{
    struct partition *partition;
    struct partition_status status;
    struct view *view = NULL;
    int rc = lookup_status(mounted, place, &partition, &status);
    if (rc < 0)
        return rc;
    struct node_identity identity = lookup_identity(&status, status.start.position);
    *out = own ? NULL : node_table_find(mounted->nodes, place, &identity);
    if (*out != NULL) {
        partition_unref(partition);
        return 0;
    }
    rc = view_open(partition, NULL, mounted->clock->wall_ms(mounted->clock), &view);
    if (rc < 0) {
        partition_unref(partition);
        return rc;
    }
    identity.base = view_base(view);
    return lookup_add(mounted, place, &identity, partition, view, NULL, own, out);
}

/* at/, follow/, json/: where the name leads to is known only from the view. */
static int lookup_view(struct mounted *mounted, const struct tree_place *place,
                       struct node **out)
{
    struct partition *partition;
    struct partition_status status;
    struct view *view = NULL;
    int rc = lookup_status(mounted, place, &partition, &status);
    if (rc < 0)
        return rc;
    rc = view_open(partition, &place->where, mounted->clock->wall_ms(mounted->clock),
                   &view);
    if (rc < 0) {
        partition_unref(partition);
        return rc;
    }
    struct node_identity identity = lookup_identity(&status, view_base(view));
    return lookup_add(mounted, place, &identity, partition, view, NULL, false, out);
}

static int lookup_segment(struct mounted *mounted, const struct tree_place *place,
                          struct node **out)
{
    struct partition *partition;
    struct partition_status status;
    struct log_segment_info info;
    int rc = lookup_status(mounted, place, &partition, &status);
    if (rc < 0)
        return rc;
    rc = partition_segment_find(partition, place->base_offset, &info);
    if (rc < 0) {
        partition_unref(partition);
        return rc;
    }
    /* The count of compactions is not part of what a segment is: as long as its own
     * version stays, the kernel keeps its pages. */
    struct node_identity identity = {.base = info.position, .generation = info.version};
    return lookup_add(mounted, place, &identity, partition, NULL, &info, false, out);
}

int lookup_node(struct mounted *mounted, const struct tree_place *place, int64_t thread,
                struct node **out)
{
    bool own = node_table_wants_own(mounted->nodes, place, thread,
                                    clock_mono_ms(mounted->clock));
    static const struct node_identity none = {0};
    switch (place->kind) {
    case TREE_LOG:
        return lookup_log(mounted, place, own, out);
    case TREE_AT:
    case TREE_FOLLOW:
    case TREE_JSON:
        return lookup_view(mounted, place, out);
    case TREE_SEGMENT:
        return lookup_segment(mounted, place, out);
    default:
        *out = own ? NULL : node_table_find(mounted->nodes, place, &none);
        return *out != NULL
                   ? 0
                   : lookup_add(mounted, place, &none, NULL, NULL, NULL, own, out);
    }
}

static void lookup_set_time(struct stat *out, int64_t ms)
{
    out->st_mtim.tv_sec = ms / 1000;
    out->st_mtim.tv_nsec = (ms % 1000) * 1000000;
    out->st_ctim = out->st_atim = out->st_mtim;
}

static void lookup_set_size(struct stat *out, int64_t size)
{
    out->st_size = size;
    out->st_blocks = (size + 511) / 512;
}

static int lookup_view_attr(const struct node *node, struct stat *out)
{
    struct partition_status status;
    int64_t size;
    (void)partition_observe(node->partition);
    int rc = view_size(node->view, &size);
    if (rc < 0)
        return rc;
    partition_status_get(node->partition, &status);
    if (status.last_append_ms > 0)
        lookup_set_time(out, status.last_append_ms);
    /* The size of a rendering is not known before it is read; programs read a file that
     * claims no bytes until its end, as they do in /proc. */
    lookup_set_size(out, node->place.kind == TREE_JSON ? 0 : size);
    return 0;
}

static int lookup_text_attr(struct mounted *mounted, const struct node *node,
                            struct stat *out)
{
    int64_t size;
    struct partition *partition = NULL;
    struct partition_status status;
    if (node->place.kind == TREE_STATE) {
        /* Not the time of the rendering: tar takes a time that moves for a file that
         * changes while it is read. */
        int found = lookup_status(mounted, &node->place, &partition, &status);
        if (found < 0)
            return found;
        if (status.last_append_ms > 0)
            lookup_set_time(out, status.last_append_ms);
    }
    int rc = textfile_size(&mounted->tree, &node->place, partition, &size);
    partition_unref(partition);
    if (rc == 0)
        lookup_set_size(out, size);
    return rc;
}

int lookup_attr(struct mounted *mounted, const struct node *node, struct stat *out)
{
    enum tree_kind kind = node->place.kind;
    int rc = tree_attr(&mounted->tree, &node->place, node->identity.generation, out);
    if (rc < 0)
        return rc;
    if (tree_is_view(kind))
        return lookup_view_attr(node, out);
    if (tree_is_text(kind))
        return lookup_text_attr(mounted, node, out);
    if (kind == TREE_SEGMENT) {
        lookup_set_size(out, node->segment.size);
        lookup_set_time(out, node->segment.mtime_ms);
    }
    return 0;
}
