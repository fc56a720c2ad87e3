/*
 * A message as JSON, one object per line:
 *
 *     {"offset":42,"timestamp":1764417600000,"key":"k","value":"the rest"}
 *
 * key is null without a delimiter in the line; value is what stands behind it (the
 * whole line without one). What is not UTF-8 is null, with "key_base64" or
 * "value_base64" beside. Pure; any thread.
 */
#ifndef TOPICFS_MESSAGE_JSON_H
#define TOPICFS_MESSAGE_JSON_H

#include "coord/coord.h"

/* Appends the object and a newline. `partition` -1: is not shown; else it comes first.
 * `line` is without its newline. 0, or the buffer's error. */
int message_json_add(struct buf *out, int32_t partition, int64_t offset,
                     int64_t timestamp_ms, const char *line, size_t length,
                     int key_delimiter);

#endif
