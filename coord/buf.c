#include "coord/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_FIRST_BYTES = 64 };

void buf_init(struct buf *buf, size_t maximum_bytes)
{
    *buf = (struct buf){.maximum = maximum_bytes};
}

void buf_free(struct buf *buf)
{
    free(buf->data);
    buf_init(buf, buf->maximum);
}

void buf_clear(struct buf *buf)
{
    buf->length = 0;
    if (buf->data)
        buf->data[0] = '\0';
}

void buf_consume(struct buf *buf, size_t bytes)
{
    if (bytes >= buf->length) {
        buf_clear(buf);
        return;
    }
    buf->length -= bytes;
    memmove(buf->data, buf->data + bytes, buf->length + 1);
}

static int buf_fail(struct buf *buf, int error)
{
    buf_free(buf);
    buf->error = error;
    return error;
}

/* Makes room for `more` bytes and the NUL. */
static int buf_reserve(struct buf *buf, size_t more)
{
    if (buf->error)
        return buf->error;
    if (more > buf->maximum || buf->length > buf->maximum - more)
        return buf_fail(buf, -EMSGSIZE);

    size_t needed = buf->length + more;
    if (needed < buf->allocated)
        return 0;
    size_t size = buf->allocated ? buf->allocated : BUF_FIRST_BYTES;
    while (size <= needed) {
        if (size > SIZE_MAX / 2)
            return buf_fail(buf, -ENOMEM);
        size *= 2;
    }
    if (size - 1 > buf->maximum)
        size = buf->maximum + 1;
    char *data = realloc(buf->data, size);
    if (!data)
        return buf_fail(buf, -ENOMEM);
    buf->data = data;
    buf->allocated = size;
    return 0;
}

int buf_add(struct buf *buf, const void *bytes, size_t length)
{
    int rc = buf_reserve(buf, length);

    if (rc)
        return rc;
    if (length)
        memcpy(buf->data + buf->length, bytes, length);
    buf->length += length;
    buf->data[buf->length] = '\0';
    return 0;
}

void *buf_extend(struct buf *buf, size_t length)
{
    if (buf_reserve(buf, length))
        return NULL;
    char *at = buf->data + buf->length;
    buf->length += length;
    buf->data[buf->length] = '\0';
    return at;
}

int buf_adds(struct buf *buf, const char *text)
{
    return buf_add(buf, text, strlen(text));
}

int buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_list again;
    int rc = -EINVAL;

    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n < 0) {
        rc = buf_fail(buf, buf->error ? buf->error : -EMSGSIZE);
        goto out;
    }
    rc = buf_reserve(buf, (size_t)n);
    if (rc)
        goto out;
    vsnprintf(buf->data + buf->length, (size_t)n + 1, format, again);
    buf->length += (size_t)n;
out:
    va_end(again);
    va_end(args);
    return rc;
}

int buf_error(const struct buf *buf)
{
    return buf->error;
}

char *buf_take(struct buf *buf, size_t *length)
{
    char *data = buf->data;

    if (length)
        *length = buf->length;
    if (buf->length == 0) {
        free(data);
        data = NULL;
    }
    buf->data = NULL;
    buf->length = 0;
    buf->allocated = 0;
    return data;
}
