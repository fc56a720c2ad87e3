/*
 * From the bytes of a write to lines: what is appended, what waits for its newline,
 * what is refused. Pure: decides only, the appender acts.
 *
 *     lines_cut(&state, pending, max_message_bytes, bytes, length, &cut);
 *     if (cut.error) { state = cut.after; drop the pending part; answer cut.error; }
 *     append pending + bytes[cut.skip, cut.skip + cut.complete); on failure change
 * nothing state = cut.after; the new pending part is the cut.tail bytes behind that
 *     answer cut.consumed
 *
 * The rules. A line of more than max_message_bytes (its newline not counted) is refused
 * with E_MESSAGE_TOO_LARGE as soon as that is clear, and none of it is stored. A write
 * that begins with one takes nothing; a write that has others before it takes those and
 * ends short in front of it. Sent again, what was refused is refused again: the kernel
 * cuts a write(2) of more than 1 MiB into several of ours, and drops the error of a
 * later one because the first was taken; the writer meets it when it sends the rest.
 * So:
 *   - the refused bytes had no newline: what follows is refused too, up to the newline;
 * the write that brings that goes on behind it;
 *   - they had it, and the line began in an earlier write: the same bytes are refused
 *     again, anything else begins a new line;
 *   - a whole line that is refused changes nothing.
 */
#ifndef TOPICFS_LINES_H
#define TOPICFS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lines_state {
    bool discarding; /* inside a refused line */
    /* The end of a refused line, newline included, to be refused again; 0: none. */
    size_t refused_length;
    uint64_t refused_hash[2];
};

struct lines_cut {
    int error;       /* 0 or E_MESSAGE_TOO_LARGE: then nothing is taken */
    size_t skip;     /* the end of a refused line, thrown away */
    size_t complete; /* bytes behind them that end with a newline; 0: no line is
                        complete */
    size_t tail;     /* bytes behind those that begin (or continue) a line */
    size_t consumed; /* all of the above; less than the write: a short write */
    uint32_t count;  /* lines in `complete` */
    struct lines_state after;
};

/* `pending` is the length of the part that waits; it is put in front of the first line
 * (there is none while discarding). length > 0. */
void lines_cut(const struct lines_state *state, size_t pending,
               size_t max_message_bytes, const char *bytes, size_t length,
               struct lines_cut *out);

/* How many newlines there are. */
size_t lines_count(const char *bytes, size_t length);

#endif
