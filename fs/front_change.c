#include "fs/front_change.h"

#include "fs/group_open.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* One request on its way through the operations' thread. */
struct front_change {
    struct operation operation;
    struct mounted *mounted;
    fuse_req_t req;
    struct node *node; /* mkdir, rmdir: the parent; setattr: what is changed. The kernel
                          keeps it while the request is under way. */
    char name[NAME_MAX + 1];
    void (*succeeded)(struct front_change *change); /* answers */
};

static void front_change_done(struct operation *operation, int code)
{
    struct front_change *change = (struct front_change *)operation;
    /* From within the interrupt's own function there is nothing to end. */
    if (operation->state != OPERATION_INTERRUPTED)
        fuse_req_interrupt_func(change->req, NULL, NULL);
    if (code < 0)
        (void)fuse_reply_err(change->req, err_errno(code));
    else
        change->succeeded(change);
    (void)atomic_fetch_sub(&change->mounted->answers.soon, 1);
    (void)atomic_fetch_sub(&change->mounted->answers.all, 1);
    free(change);
}

static void front_change_interrupt(fuse_req_t req, void *arg)
{
    struct front_change *change = arg;
    (void)req;
    operations_interrupt(change->mounted->operations, &change->operation);
}

static struct front_change *front_change_new(fuse_req_t req, fuse_ino_t ino,
                                             enum operation_kind kind,
                                             void (*succeeded)(struct front_change *))
{
    struct front_change *change = malloc(sizeof *change);
    if (change == NULL) {
        (void)fuse_reply_err(req, ENOMEM);
        return NULL;
    }
    operation_init(&change->operation, kind, front_change_done);
    change->mounted = fuse_req_userdata(req);
    change->req = req;
    change->node = node_table_get(change->mounted->nodes, ino);
    change->name[0] = '\0';
    change->succeeded = succeeded;
    return change;
}

static void front_change_submit(struct front_change *change)
{
    (void)atomic_fetch_add(&change->mounted->answers.all, 1);
    (void)atomic_fetch_add(&change->mounted->answers.soon, 1);
    fuse_req_interrupt_func(change->req, front_change_interrupt, change);
    operations_submit(change->mounted->operations, &change->operation);
}

static void front_change_set_topic(struct front_change *change, const char *topic)
{
    (void)snprintf(change->operation.topic, sizeof change->operation.topic, "%s",
                   topic);
}

/* ---- mkdir, rmdir ---------------------------------------------------------------- */

static void front_mkdir_succeeded(struct front_change *change)
{
    struct tree_place place;
    int rc =
        tree_child(&change->mounted->tree, &change->node->place, change->name, &place);
    if (rc < 0)
        (void)fuse_reply_err(change->req, err_errno(rc));
    else
        front_reply_entry(change->req, change->mounted, &place);
}

static void front_mkdir_topic(fuse_req_t req, fuse_ino_t parent, const char *name,
                              mode_t mode)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);
    struct front_change *change =
        front_change_new(req, parent, OPERATION_CREATE_TOPIC, front_mkdir_succeeded);
    if (change == NULL)
        return;
    front_change_set_topic(change, name);
    (void)snprintf(change->name, sizeof change->name, "%s", name);
    change->operation.uid = ctx->uid;
    change->operation.gid = ctx->gid;
    change->operation.mode = mode & 07777; /* the umask has been applied */
    front_change_submit(change);
}

static void front_mkdir_partition(fuse_req_t req, fuse_ino_t parent,
                                  const struct tree_place *topic, const char *name)
{
    int64_t number;
    if (number_parse(name, INT32_MAX, &number) < 0) {
        (void)fuse_reply_err(req, EINVAL);
        return;
    }
    struct front_change *change =
        front_change_new(req, parent, OPERATION_ADD_PARTITION, front_mkdir_succeeded);
    if (change == NULL)
        return;
    front_change_set_topic(change, topic->topic);
    (void)snprintf(change->name, sizeof change->name, "%s", name);
    change->operation.topic_id = topic->topic_id;
    change->operation.partition = (int32_t)number;
    front_change_submit(change);
}

void front_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct mounted *mounted = fuse_req_userdata(req);
    const struct tree_place *place = &node_table_get(mounted->nodes, parent)->place;
    if (place->kind == TREE_TOPIC)
        front_mkdir_partition(req, parent, place, name);
    else if (place->kind == TREE_GROUPS)
        /* Each valid name is there already. */
        (void)fuse_reply_err(req, topic_name_check(name) < 0 ? EINVAL : EEXIST);
    else if (place->kind != TREE_TOPICS)
        (void)fuse_reply_err(req, EPERM);
    else if (topic_name_check(name) < 0)
        (void)fuse_reply_err(req, err_errno(E_INVALID_NAME));
    else
        front_mkdir_topic(req, parent, name, mode);
}

static void front_rmdir_succeeded(struct front_change *change)
{
    (void)fuse_reply_err(change->req, 0);
}

void front_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct mounted *mounted = fuse_req_userdata(req);
    enum tree_kind kind = node_table_get(mounted->nodes, parent)->place.kind;
    if (kind == TREE_GROUPS) {
        group_open_remove(req, mounted, name);
        return;
    }
    if (kind != TREE_TOPICS) {
        (void)fuse_reply_err(req, EPERM);
        return;
    }
    struct front_change *change =
        front_change_new(req, parent, OPERATION_DELETE_TOPIC, front_rmdir_succeeded);
    if (change == NULL)
        return;
    front_change_set_topic(change, name);
    front_change_submit(change);
}

/* ---- setattr --------------------------------------------------------------------- */

static void front_setattr_succeeded(struct front_change *change)
{
    front_reply_attr(change->req, change->mounted, change->node);
}

/* Whether the request changes owner or mode; -EPERM if it changes what can't be. */
static int front_setattr_check(const struct node *node, int to_set)
{
    const int now = FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
    const int times =
        FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | now | FUSE_SET_ATTR_CTIME;
    const int access = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID;
    if ((to_set & ~(times | access)) != 0)
        return -EPERM;
    if ((to_set & FUSE_SET_ATTR_ATIME) != 0 && (to_set & FUSE_SET_ATTR_ATIME_NOW) == 0)
        return -EPERM;
    if ((to_set & FUSE_SET_ATTR_MTIME) != 0 && (to_set & FUSE_SET_ATTR_MTIME_NOW) == 0)
        return -EPERM;
    if ((to_set & access) == 0)
        return 0;
    if (node->place.kind != TREE_TOPICS && node->place.kind != TREE_TOPIC)
        return -EPERM;
    return 1;
}

void front_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                   struct fuse_file_info *fi)
{
    struct mounted *mounted = fuse_req_userdata(req);
    const struct node *node = node_table_get(mounted->nodes, ino);
    int rc = front_setattr_check(node, to_set);
    (void)fi;
    if (rc < 0) {
        (void)fuse_reply_err(req, -rc);
        return;
    }
    if (rc == 0) {
        front_reply_attr(req, mounted, node);
        return;
    }
    struct front_change *change =
        front_change_new(req, ino, OPERATION_SET_OWNER, front_setattr_succeeded);
    if (change == NULL)
        return;
    if (node->place.kind == TREE_TOPIC) {
        front_change_set_topic(change, node->place.topic);
        change->operation.topic_id = node->place.topic_id;
    }
    if ((to_set & FUSE_SET_ATTR_UID) != 0)
        change->operation.uid = attr->st_uid;
    if ((to_set & FUSE_SET_ATTR_GID) != 0)
        change->operation.gid = attr->st_gid;
    if ((to_set & FUSE_SET_ATTR_MODE) != 0)
        change->operation.mode = attr->st_mode & 07777;
    front_change_submit(change);
}
