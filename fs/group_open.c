#include "fs/group_open.h"

#include "fs/directory.h"
#include "fs/group_call.h"
#include "fs/group_file.h"

#include <stdlib.h>

/* What is the same for all of them. Counted as the answers of reply.h are: a stop waits
 * for them. */
struct open_request {
    fuse_req_t req;
    struct mounted *mounted;
    void (*interrupt)(void *arg);
    void *interrupt_arg;
};

static void open_begin(struct open_request *request, fuse_req_t req,
                       struct mounted *mounted)
{
    *request = (struct open_request){.req = req, .mounted = mounted};
    (void)atomic_fetch_add(&mounted->answers.all, 1);
    (void)atomic_fetch_add(&mounted->answers.soon, 1);
}

/* After the answer. */
static void open_end(struct open_request *request)
{
    (void)atomic_fetch_sub(&request->mounted->answers.soon, 1);
    (void)atomic_fetch_sub(&request->mounted->answers.all, 1);
}

static void open_interrupted(fuse_req_t req, void *arg)
{
    struct open_request *request = arg;
    (void)req;
    request->interrupt(request->interrupt_arg);
}

static void open_on_interrupt(struct open_request *request, void (*fn)(void *arg),
                              void *arg)
{
    if (fn == NULL) {
        fuse_req_interrupt_func(request->req, NULL, NULL);
        return;
    }
    request->interrupt = fn;
    request->interrupt_arg = arg;
    fuse_req_interrupt_func(request->req, open_interrupted, request);
}

/* ---- files ------------------------------------------------------------------------
 */

struct open_file {
    struct group_file_waiter waiter;
    struct open_request request;
    struct handle *handle;
    struct fuse_file_info fi;
};

static void open_file_on_interrupt(struct group_file_waiter *waiter,
                                   void (*fn)(void *arg), void *arg)
{
    open_on_interrupt(&((struct open_file *)waiter)->request, fn, arg);
}

static void open_file_done(struct group_file_waiter *waiter, int error)
{
    struct open_file *open = (struct open_file *)waiter;
    if (error < 0) {
        handle_release(open->handle, NULL);
        (void)fuse_reply_err(open->request.req, err_errno(error));
    } else {
        handle_opened(open->handle);
        if (fuse_reply_open(open->request.req, &open->fi) < 0)
            handle_release(open->handle, NULL); /* interrupted: nobody else will */
    }
    open_end(&open->request);
    free(open);
}

void group_open_file(fuse_req_t req, struct mounted *mounted, struct handle *handle,
                     const struct fuse_file_info *fi)
{
    struct open_file *open = calloc(1, sizeof *open);
    if (open == NULL) {
        handle_release(handle, NULL);
        (void)fuse_reply_err(req, ENOMEM);
        return;
    }
    open_begin(&open->request, req, mounted);
    open->waiter.done = open_file_done;
    open->waiter.on_interrupt = open_file_on_interrupt;
    open->handle = handle;
    open->fi = *fi;
    group_file_ready(handle_group(handle), &open->waiter);
}

/* ---- listings ---------------------------------------------------------------------
 */

struct open_directory {
    struct group_call call; /* first */
    struct open_request request;
    struct directory *directory;
    const struct node *node; /* the kernel keeps it while the request is under way */
    struct fuse_file_info fi;
};

static void open_directory_interruptible(struct group_call *call, bool on)
{
    struct open_directory *open = (struct open_directory *)call;
    open_on_interrupt(&open->request, on ? group_call_interrupt : NULL, call);
}

static int open_directory_take(struct group_call *call, const cJSON *answer)
{
    struct open_directory *open = (struct open_directory *)call;
    return directory_fill_group(open->directory, open->request.mounted, open->node,
                                answer);
}

static void open_directory_done(struct group_call *call, int error)
{
    struct open_directory *open = (struct open_directory *)call;
    if (error < 0) {
        directory_free(open->directory);
        (void)fuse_reply_err(open->request.req, err_errno(error));
    } else if (fuse_reply_open(open->request.req, &open->fi) < 0) {
        directory_free(open->directory);
    }
    open_end(&open->request);
    free(open);
}

void group_open_directory(fuse_req_t req, struct mounted *mounted,
                          const struct node *node, const struct fuse_file_info *fi)
{
    struct open_directory *open = calloc(1, sizeof *open);
    struct directory *directory = directory_new();
    if (open == NULL || directory == NULL) {
        free(open);
        if (directory != NULL)
            directory_free(directory);
        (void)fuse_reply_err(req, ENOMEM);
        return;
    }
    open_begin(&open->request, req, mounted);
    open->directory = directory;
    open->node = node;
    open->fi = *fi;
    open->fi.fh = (uintptr_t)directory;
    group_call_init(&open->call, mounted, open_directory_take,
                    open_directory_interruptible, open_directory_done);
    if (node->place.kind == TREE_GROUPS)
        groups_list(mounted->groups, &open->call.call);
    else
        groups_describe(mounted->groups, node->place.name, true, &open->call.call);
    group_call_park(&open->call);
}

/* ---- rmdir ------------------------------------------------------------------------
 */

struct open_remove {
    struct group_call call; /* first */
    struct open_request request;
};

static void open_remove_interruptible(struct group_call *call, bool on)
{
    struct open_remove *open = (struct open_remove *)call;
    open_on_interrupt(&open->request, on ? group_call_interrupt : NULL, call);
}

static void open_remove_done(struct group_call *call, int error)
{
    struct open_remove *open = (struct open_remove *)call;
    (void)fuse_reply_err(open->request.req, err_errno(error));
    open_end(&open->request);
    free(open);
}

void group_open_remove(fuse_req_t req, struct mounted *mounted, const char *group)
{
    struct open_remove *open = calloc(1, sizeof *open);
    if (open == NULL) {
        (void)fuse_reply_err(req, ENOMEM);
        return;
    }
    open_begin(&open->request, req, mounted);
    group_call_init(&open->call, mounted, NULL, open_remove_interruptible,
                    open_remove_done);
    groups_remove(mounted->groups, group, &open->call.call);
    group_call_park(&open->call);
}
