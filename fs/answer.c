#include "fs/answer.h"

#include <pthread.h>
#include <stdlib.h>

struct answer {
    struct reply reply;
    fuse_req_t req;
    struct answer_counts *counts;
    pthread_t worker; /* the thread that got the request */
    bool waits;
    void (*interrupt)(void *arg);
    void *interrupt_arg;
};

/* After the answer was sent: until then the session must stay. */
static void answer_end(struct answer *answer)
{
    if (!answer->waits)
        (void)atomic_fetch_sub(&answer->counts->soon, 1);
    (void)atomic_fetch_sub(&answer->counts->all, 1);
    free(answer);
}

/* A reply can fail only because the requester is gone (ENOENT) or the mount is: nobody
 * is left to be told, so the results are not looked at. */

static void answer_error(struct reply *reply, int code)
{
    struct answer *answer = (struct answer *)reply;
    (void)fuse_reply_err(answer->req, err_errno(code));
    answer_end(answer);
}

static void answer_written(struct reply *reply, size_t bytes)
{
    struct answer *answer = (struct answer *)reply;
    (void)fuse_reply_write(answer->req, bytes);
    answer_end(answer);
}

static void answer_bytes(struct reply *reply, const void *bytes, size_t length)
{
    struct answer *answer = (struct answer *)reply;
    (void)fuse_reply_buf(answer->req, bytes, length);
    answer_end(answer);
}

static void answer_copy(fuse_req_t req, const struct extent *extents, size_t count,
                        size_t total)
{
    char small[ANSWER_SPLICE_MIN];
    char *large = NULL, *bytes = small;
    size_t filled = 0;
    int rc = 0;
    if (total > sizeof small)
        bytes = large = malloc(total);
    if (bytes == NULL)
        rc = -ENOMEM;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = extent_read(&extents[i], bytes + filled);
        filled += extents[i].length;
    }
    if (rc < 0)
        (void)fuse_reply_err(req, err_errno(rc));
    else
        (void)fuse_reply_buf(req, bytes, total);
    free(large);
}

static void answer_splice(fuse_req_t req, const struct extent *extents, size_t count)
{
    struct {
        struct fuse_bufvec vec; /* its own one buf, then the rest */
        struct fuse_buf more[REPLY_EXTENTS_MAX];
    } list = {.vec = {.count = count}};
    struct fuse_buf *bufs = list.vec.buf;
    for (size_t i = 0; i < count; i++) {
        bufs[i] = (struct fuse_buf){
            .size = extents[i].length,
            .flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK,
            .fd = extents[i].fd,
            .pos = extents[i].at,
        };
    }
    (void)fuse_reply_data(req, &list.vec, 0);
}

static void answer_extents(struct reply *reply, struct extent *extents, size_t count)
{
    struct answer *answer = (struct answer *)reply;
    fuse_req_t req = answer->req;
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += extents[i].length;
    if (total == 0)
        (void)fuse_reply_buf(req, NULL, 0);
    else if (total < ANSWER_SPLICE_MIN || total > ANSWER_SPLICE_MAX ||
             !pthread_equal(answer->worker, pthread_self()))
        /* libfuse keeps a pipe for each thread that splices, and closes only those of
         * its own threads. */
        answer_copy(req, extents, count, total);
    else
        answer_splice(req, extents, count);
    for (size_t i = 0; i < count; i++)
        extent_release(&extents[i]);
    answer_end(answer);
}

static void answer_interrupted(fuse_req_t req, void *data)
{
    struct answer *answer = data;
    (void)req;
    answer->interrupt(answer->interrupt_arg);
}

static void answer_on_interrupt(struct reply *reply, void (*fn)(void *arg), void *arg)
{
    struct answer *answer = (struct answer *)reply;
    if (fn == NULL) {
        fuse_req_interrupt_func(answer->req, NULL, NULL);
        return;
    }
    answer->interrupt = fn;
    answer->interrupt_arg = arg;
    fuse_req_interrupt_func(answer->req, answer_interrupted, answer);
}

static const struct reply_ops answer_ops = {
    .error = answer_error,
    .written = answer_written,
    .bytes = answer_bytes,
    .extents = answer_extents,
    .on_interrupt = answer_on_interrupt,
};

struct reply *answer_new(fuse_req_t req, struct answer_counts *counts, bool waits)
{
    struct answer *answer = malloc(sizeof *answer);
    if (answer == NULL) {
        (void)fuse_reply_err(req, ENOMEM);
        return NULL;
    }
    *answer = (struct answer){
        .reply = {.ops = &answer_ops},
        .req = req,
        .counts = counts,
        .worker = pthread_self(),
        .waits = waits,
    };
    (void)atomic_fetch_add(&counts->all, 1);
    if (!waits)
        (void)atomic_fetch_add(&counts->soon, 1);
    return &answer->reply;
}
