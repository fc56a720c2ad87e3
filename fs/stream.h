/*
 * Streams: open files of follow/<where> and json/<where>. read() blocks until messages
 * come, at the end of a range it returns 0; poll works; a seek back works (bash's
 * `read` needs it). One per open file description.
 */
#ifndef TOPICFS_STREAM_H
#define TOPICFS_STREAM_H

#include "fs/parking.h"
#include "fs/view.h"

struct stream;

enum stream_format { STREAM_TEXT, STREAM_JSON };

/* Takes its own reference on the view. key_delimiter: the topic's, used by STREAM_JSON
 * and kept for the stream's life. 0 or -ENOMEM. */
int stream_open(struct view *view, enum stream_format format, int key_delimiter,
                struct parking *parking, struct stream **out);
/* After it returned no callback of the stream runs any more. Parked reads were
 * answered. */
void stream_close(struct stream *stream);

/* Answers now, or parks until data comes; `nonblock`: -EAGAIN instead of parking. */
void stream_read(struct stream *stream, struct reply *reply, int64_t at, size_t size,
                 bool nonblock);

/*
 * true if a read at the place where the last one ended would not block. `notify` (which
 * may be NULL) is called once when a message comes behind those that are there, or the
 * stream ends; it is owned by the stream from here on and freed with notify->free. A
 * newer call replaces the older notify.
 */
struct stream_notify {
    void (*fire)(struct stream_notify *notify); /* any thread; also frees it */
    void (*free)(struct stream_notify *notify);
};
bool stream_poll(struct stream *stream, struct stream_notify *notify);

#endif
