/*
 * A growing byte buffer with a maximum, after curl's dynbuf: once an append fails (no
 * memory, or past the maximum) the buffer frees itself and every later append fails the
 * same way, so only the last one needs its result looked at.
 *
 *     struct buf buf;
 *     buf_init(&buf, 64 * 1024);
 *     buf_printf(&buf, "{\"leader\":%d}", leader);
 *     if (buf_error(&buf)) ...
 *     use buf.data, buf.length (a NUL always follows, uncounted)
 *     buf_free(&buf);
 *
 * Not thread-safe: one owner.
 */
#ifndef TOPICFS_BUF_H
#define TOPICFS_BUF_H

#include <stddef.h>

struct buf {
    char *data; /* NULL while empty */
    size_t length;
    size_t allocated;
    size_t maximum;
    int error;
};

void buf_init(struct buf *buf, size_t maximum_bytes);
void buf_free(struct buf *buf);  /* also resets to empty, keeps the maximum */
void buf_clear(struct buf *buf); /* length 0, memory kept, error kept */
void buf_consume(struct buf *buf, size_t bytes); /* drops from the front */

/* 0, -ENOMEM, or -EMSGSIZE past the maximum. */
int buf_add(struct buf *buf, const void *bytes, size_t length);
/* Appends `length` bytes for the caller to fill; NULL as buf_add() fails. */
void *buf_extend(struct buf *buf, size_t length);
int buf_adds(struct buf *buf, const char *text);
int buf_printf(struct buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int buf_error(const struct buf *buf);

/* Takes the bytes out of the buffer; the caller frees them. NULL if empty or failed. */
char *buf_take(struct buf *buf, size_t *length);

#endif
