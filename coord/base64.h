/* Standard base64 with padding. Pure; any thread. */
#ifndef TOPICFS_BASE64_H
#define TOPICFS_BASE64_H

#include "coord/buf.h"

/* Appends the text of the bytes. 0, or the buffer's error. */
int base64_encode(struct buf *out, const void *bytes, size_t length);
/* The caller frees *out, which has a NUL behind its *length bytes. 0; -EBADMSG: no such
 * text; -ENOMEM. */
int base64_decode(const char *text, char **out, size_t *length);

#endif
