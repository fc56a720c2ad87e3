/*
 * From an error to what an HTTP client gets: a status and a JSON object.
 *
 *     {"error":"OFFSET_BELOW_START","code":1,"message":"the offset lies below ..."}
 *
 * `error` is the name of coord/err.h's table, or of the errno ("ENOSPC"); `code` is the
 * number on the wire, Kafka's where Kafka has the error, -1 where there is none.
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_HTTP_ERROR_H
#define TOPICFS_HTTP_ERROR_H

#include "coord/coord.h"

/* The status for a code of coord/err.h or a negative errno; 500 for those that say
 * nothing to a client. */
unsigned http_error_status(int code);

/* "OFFSET_BELOW_START", "ENOSPC"; static storage, never NULL. */
const char *http_error_name(int code);

/* Appends the object and a newline. Bytes of `message` that are not UTF-8 are replaced.
 * 0 or the buffer's error. */
int http_error_render(struct buf *out, const char *name, int wire, const char *message);

#endif
