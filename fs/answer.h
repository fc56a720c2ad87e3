/*
 * The real `struct reply`: answers a fuse_req_t. One of the few modules that know FUSE.
 *
 *     struct reply *reply = answer_new(req, &counts, false);
 *     view_read(view, reply, at, size);      // answers it, now or later
 *
 * Small data is copied; from ANSWER_SPLICE_MIN on the segment's descriptor is spliced
 * into the reply; above ANSWER_SPLICE_MAX it is read first, because a pipe can't hold 1
 * MiB and the header, and splicing it in two goes is slower than copying.
 */
#ifndef TOPICFS_ANSWER_H
#define TOPICFS_ANSWER_H

#include "fs/fuse_api.h"
#include "fs/reply.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { ANSWER_SPLICE_MIN = 16 * 1024, ANSWER_SPLICE_MAX = 1000 * 1024 };

/* Answers that are due. */
struct answer_counts {
    atomic_size_t soon; /* those that don't wait for messages to come */
    atomic_size_t all;
};

/*
 * `counts` are raised until the answer has been sent. `waits`: it is a stream's read,
 * which may be answered never, and a stop does not wait for it. NULL, and the request
 * answered with ENOMEM, if there is no memory.
 *
 * An interrupt's fn runs with a lock of the request held that on_interrupt() and
 * libfuse need: it must hand over to another thread, or answer there and then; not
 * while on_interrupt() that set it has not returned.
 */
struct reply *answer_new(fuse_req_t req, struct answer_counts *counts, bool waits);

#endif
