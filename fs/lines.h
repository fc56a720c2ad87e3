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
 * with E_MESSAGE_TOO_LARGE as soon as that is clear, once, and none of it is stored. A
 * write that begins with one takes nothing; a write that has others before it takes
 * those and ends short in front of it. What follows of a refused line is taken and
 * thrown away up to its newline:
 *   - its newline was not in the refused write: whatever comes next continues it;
 *   - it began in an earlier write, and the refused one has its newline: the writer may
 *     send the same bytes again (stdio does) or go on behind them. So only the same
 * bytes are thrown away, anything else begins a new line. A whole line that is refused
 * changes nothing: sent again it is refused again.
 */
#ifndef TOPICFS_LINES_H
#define TOPICFS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lines_state {
    bool discarding; /* inside a refused line */
    /* The end of a refused line, newline included, that may come again; 0: none. */
    size_t refused_length;
    uint64_t refused_hash[2];
};

struct lines_cut {
    int error;       /* 0 or E_MESSAGE_TOO_LARGE: then nothing is taken */
    size_t skip;     /* bytes of a refused line, thrown away */
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
