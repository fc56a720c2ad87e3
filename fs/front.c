#include "fs/front.h"

#include "fs/answer.h"
#include "fs/directory.h"
#include "fs/front_change.h"
#include "fs/group_open.h"
#include "fs/handle.h"
#include "fs/locks.h"
#include "fs/lookup.h"
#include "fs/notifier.h"
#include "fs/opening.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/statvfs.h>

enum {
    FRONT_MAX_WRITE = 1024 * 1024, /* more than this ends the session */
    FRONT_MAX_BACKGROUND = 256, /* releases and read-ahead that the kernel has open */
};

static struct mounted *front_mounted(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

static struct node *front_node(fuse_req_t req, fuse_ino_t ino)
{
    return node_table_get(front_mounted(req)->nodes, ino);
}

static void front_error(fuse_req_t req, int code)
{
    (void)fuse_reply_err(req, err_errno(code));
}

static void front_init(void *userdata, struct fuse_conn_info *conn)
{
    (void)userdata;
    /* Cached pages at a tail that grows elsewhere read as NUL bytes, a write-back cache
     * writes twice: neither is wanted. Segments are immutable and need no revalidation.
     */
    conn->want &= ~(unsigned)(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_AUTO_INVAL_DATA |
                              FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_MOVE |
                              FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
    conn->want |=
        conn->capable & (unsigned)(FUSE_CAP_SPLICE_WRITE | FUSE_CAP_ATOMIC_O_TRUNC |
                                   FUSE_CAP_PARALLEL_DIROPS);
    conn->max_write = FRONT_MAX_WRITE;
    conn->max_background = FRONT_MAX_BACKGROUND;
    conn->congestion_threshold = FRONT_MAX_BACKGROUND;
}

/* ---- names ----------------------------------------------------------------------- */

/* Fills in what a look-up answers. On failure nothing is left looked up. */
static int front_entry(fuse_req_t req, struct mounted *mounted,
                       const struct tree_place *place, struct node **node,
                       struct fuse_entry_param *entry)
{
    *entry = (struct fuse_entry_param){
        .entry_timeout = tree_entry_timeout(place->kind),
        .attr_timeout = tree_attr_timeout(place->kind),
    };
    int rc = lookup_node(mounted, place, fuse_req_ctx(req)->pid, node);
    if (rc < 0)
        return rc;
    rc = lookup_attr(mounted, *node, &entry->attr);
    if (rc < 0) {
        node_table_forget(mounted->nodes, *node, 1);
        return rc;
    }
    entry->ino = node_id(mounted->nodes, *node);
    return 0;
}

void front_reply_entry(fuse_req_t req, struct mounted *mounted,
                       const struct tree_place *place)
{
    struct fuse_entry_param entry;
    struct node *node = NULL;
    int rc = front_entry(req, mounted, place, &node, &entry);
    if (rc < 0)
        front_error(req, rc);
    else if (fuse_reply_entry(req, &entry) < 0)
        node_table_forget(mounted->nodes, node, 1); /* the requester was interrupted */
}

void front_reply_attr(fuse_req_t req, struct mounted *mounted, const struct node *node)
{
    struct stat attr;
    int rc = lookup_attr(mounted, node, &attr);
    if (rc < 0)
        front_error(req, rc);
    else
        (void)fuse_reply_attr(req, &attr, tree_attr_timeout(node->place.kind));
}

static void front_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct mounted *mounted = front_mounted(req);
    struct tree_place place;
    int32_t partition;
    int rc = tree_child(&mounted->tree, &front_node(req, parent)->place, name, &place);
    if (rc < 0)
        front_error(req, rc);
    else if (opening_find(mounted, &place, &partition))
        opening_park(req, mounted, &place, partition);
    else
        front_reply_entry(req, mounted, &place);
}

static void front_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
    node_table_forget(front_mounted(req)->nodes, front_node(req, ino), lookups);
    fuse_reply_none(req);
}

static void front_forget_multi(fuse_req_t req, size_t count,
                               struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        node_table_forget(front_mounted(req)->nodes, front_node(req, forgets[i].ino),
                          forgets[i].nlookup);
    fuse_reply_none(req);
}

static void front_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    front_reply_attr(req, front_mounted(req), front_node(req, ino));
}

static void front_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct statvfs out = {0};
    (void)ino;
    int rc = broker_statvfs(front_mounted(req)->broker, &out);
    out.f_namemax = TOPIC_NAME_MAX;
    if (rc < 0)
        front_error(req, rc);
    else
        (void)fuse_reply_statfs(req, &out);
}

/* ---- refusals -------------------------------------------------------------------- */

static void front_refuse_name(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    (void)parent, (void)name;
    (void)fuse_reply_err(req, EPERM);
}

static void front_mknod(fuse_req_t req, fuse_ino_t parent, const char *name,
                        mode_t mode, dev_t rdev)
{
    (void)mode, (void)rdev;
    front_refuse_name(req, parent, name);
}

static void front_symlink(fuse_req_t req, const char *link, fuse_ino_t parent,
                          const char *name)
{
    (void)link;
    front_refuse_name(req, parent, name);
}

static void front_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent,
                       const char *name)
{
    (void)ino;
    front_refuse_name(req, parent, name);
}

static void front_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
                         fuse_ino_t new_parent, const char *new_name,
                         unsigned int flags)
{
    (void)new_parent, (void)new_name, (void)flags;
    front_refuse_name(req, parent, name);
}

/* ---- directories ----------------------------------------------------------------- */

static void front_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    const struct node *node = front_node(req, ino);
    if (tree_is_group_listing(node->place.kind)) {
        group_open_directory(req, front_mounted(req), node, fi);
        return;
    }
    struct directory *directory = directory_new();
    if (directory == NULL) {
        front_error(req, -ENOMEM);
        return;
    }
    fi->fh = (uintptr_t)directory;
    if (fuse_reply_open(req, fi) < 0)
        directory_free(directory);
}

static void front_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,
                          struct fuse_file_info *fi)
{
    struct directory *directory = (struct directory *)(uintptr_t)fi->fh;
    const struct directory_entry *entry;
    char *bytes = malloc(size);
    size_t used = 0;
    int rc = bytes != NULL ? 0 : -ENOMEM;
    if (rc == 0 && at == 0 && !directory_is_filled(directory))
        rc = directory_fill(directory, front_mounted(req), front_node(req, ino));
    while (rc == 0 && (entry = directory_entry(directory, (size_t)at)) != NULL) {
        struct stat attr = {.st_ino = entry->inode, .st_mode = entry->type};
        size_t need = fuse_add_direntry(req, bytes + used, size - used, entry->name,
                                        &attr, at + 1);
        if (need > size - used)
            break;
        used += need;
        at++;
    }
    if (rc < 0)
        front_error(req, rc);
    else
        (void)fuse_reply_buf(req, bytes, used);
    free(bytes);
}

static void front_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    directory_free((struct directory *)(uintptr_t)fi->fh);
    (void)fuse_reply_err(req, 0);
}

/* ---- open files ------------------------------------------------------------------ */

static struct handle *front_handle(const struct fuse_file_info *fi)
{
    return (struct handle *)(uintptr_t)fi->fh;
}

static int front_open_node(fuse_req_t req, struct node *node, struct fuse_file_info *fi)
{
    struct handle *handle;
    int rc = handle_open(front_mounted(req), node, fi->flags, fuse_req_ctx(req)->pid,
                         &handle);
    if (rc < 0)
        return rc;
    fi->fh = (uintptr_t)handle;
    fi->direct_io = !handle_is_cached(handle);
    fi->keep_cache = handle_is_cached(handle);
    fi->noflush = handle_needs_no_flush(handle);
    return 0;
}

static void front_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    int rc = front_open_node(req, front_node(req, ino), fi);
    if (rc < 0)
        front_error(req, rc);
    else if (handle_group(front_handle(fi)) != NULL)
        group_open_file(req, front_mounted(req), front_handle(fi), fi);
    else if (fuse_reply_open(req, fi) < 0)
        handle_release(front_handle(fi), NULL);
}

/* open(O_CREAT) of a name that the kernel did not find: an admin operation that does
 * not run yet, or a file that appeared meanwhile. */
static void front_create(fuse_req_t req, fuse_ino_t parent, const char *name,
                         mode_t mode, struct fuse_file_info *fi)
{
    struct mounted *mounted = front_mounted(req);
    const struct tree_place *directory = &front_node(req, parent)->place;
    struct fuse_entry_param entry;
    struct tree_place place;
    struct node *node = NULL;
    (void)mode;
    int rc = tree_child(&mounted->tree, directory, name, &place);
    if (rc == -ENOENT)
        rc = tree_admin_place(&mounted->tree, directory, name, &place);
    if (rc == 0 && tree_is_dir(place.kind))
        rc = -EISDIR;
    /* Those of groups are found by the look-up that comes before. */
    if (rc == 0 && tree_is_in_groups(place.kind))
        rc = -EEXIST;
    if (rc == 0)
        rc = front_entry(req, mounted, &place, &node, &entry);
    if (rc < 0) {
        front_error(req, rc);
        return;
    }
    rc = front_open_node(req, node, fi);
    if (rc < 0) {
        node_table_forget(mounted->nodes, node, 1);
        front_error(req, rc);
    } else if (fuse_reply_create(req, &entry, fi) < 0) {
        handle_release(front_handle(fi), NULL);
        node_table_forget(mounted->nodes, node, 1);
    }
}

static void front_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,
                       struct fuse_file_info *fi)
{
    struct handle *handle = front_handle(fi);
    struct reply *reply =
        answer_new(req, &front_mounted(req)->answers, handle_is_stream(handle));
    (void)ino;
    if (reply != NULL)
        handle_read(handle, reply, at, size, fi->flags);
}

static void front_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size,
                        off_t at, struct fuse_file_info *fi)
{
    struct reply *reply = answer_new(req, &front_mounted(req)->answers, false);
    (void)ino;
    (void)at; /* of an O_APPEND write: what the kernel takes for the size */
    if (reply != NULL)
        handle_write(front_handle(fi), reply, bytes, size, fi->flags, fi->lock_owner);
}

static void front_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct reply *reply = answer_new(req, &front_mounted(req)->answers, false);
    (void)ino;
    if (reply != NULL)
        handle_flush(front_handle(fi), reply, fi->lock_owner);
}

static void front_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
                        struct fuse_file_info *fi)
{
    struct reply *reply = answer_new(req, &front_mounted(req)->answers, false);
    (void)ino, (void)datasync;
    if (reply != NULL)
        handle_fsync(front_handle(fi), reply);
}

/* One for all nodes of a file. */
static uint64_t front_lock_inode(fuse_req_t req, fuse_ino_t ino)
{
    return tree_inode(&front_node(req, ino)->place, 0);
}

static void front_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct handle *handle = front_handle(fi);
    struct reply *reply = answer_new(req, &front_mounted(req)->answers, false);
    if (fi->flock_release)
        locks_release(front_mounted(req)->locks, front_lock_inode(req, ino),
                      fi->lock_owner);
    handle_release(handle, reply);
}

static void front_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
                        int operation)
{
    bool waits = (operation & LOCK_NB) == 0;
    struct reply *reply = answer_new(req, &front_mounted(req)->answers, waits);
    if (reply != NULL)
        locks_flock(front_mounted(req)->locks, reply, front_lock_inode(req, ino),
                    fi->lock_owner, operation);
}

/* fcntl(2)'s locks: refused, for the kernel's own would not keep two writers of a log
 * apart, and say that they did. */
static void front_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
                        struct flock *lock)
{
    (void)ino, (void)fi, (void)lock;
    (void)fuse_reply_err(req, ENOLCK);
}

static void front_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
                        struct flock *lock, int sleep)
{
    (void)sleep;
    front_getlk(req, ino, fi, lock);
}

static void front_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
                       struct fuse_pollhandle *poll_handle)
{
    struct handle *handle = front_handle(fi);
    struct stream_notify *notify = NULL;
    unsigned ready = POLLIN | POLLRDNORM;
    (void)ino;
    if (poll_handle != NULL)
        notify = notifier_poll_new(front_mounted(req)->notifier, poll_handle);
    if (!handle_poll(handle, notify))
        ready = 0;
    else if (!handle_is_stream(handle))
        ready |= POLLOUT | POLLWRNORM;
    (void)fuse_reply_poll(req, ready);
}

const struct fuse_lowlevel_ops front_operations = {
    .init = front_init,
    .lookup = front_lookup,
    .forget = front_forget,
    .forget_multi = front_forget_multi,
    .getattr = front_getattr,
    .setattr = front_setattr,
    .statfs = front_statfs,
    .mkdir = front_mkdir,
    .rmdir = front_rmdir,
    .mknod = front_mknod,
    .unlink = front_refuse_name,
    .symlink = front_symlink,
    .link = front_link,
    .rename = front_rename,
    .opendir = front_opendir,
    .readdir = front_readdir,
    .releasedir = front_releasedir,
    .open = front_open,
    .create = front_create,
    .read = front_read,
    .write = front_write,
    .flush = front_flush,
    .fsync = front_fsync,
    .release = front_release,
    .flock = front_flock,
    .getlk = front_getlk,
    .setlk = front_setlk,
    .poll = front_poll,
};
