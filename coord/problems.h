/*
 * The register of what is wrong now, shown as cluster/problems: one line per fault.
 *
 *     problems_set(problems, "damaged", "t-0", "segment 42 is damaged",
 *                  "run topicfs check --repair with the node stopped");
 *     ...
 *     problems_clear(problems, "damaged", "t-0");
 *
 * A fault is named by (kind, subject); setting it again keeps its "since" and replaces
 * the texts. A set or a clear that changes something is logged once. Texts become one
 * line of at most 512 bytes each. Rendered are the oldest 1,000 faults and, in a last
 * line, the number of the rest.
 *
 * Thread-safe: one mutex inside, never held during a callback or I/O.
 */
#ifndef TOPICFS_PROBLEMS_H
#define TOPICFS_PROBLEMS_H

#include "coord/buf.h"
#include "coord/clock.h"

struct problems;

struct problems *problems_new(const struct clock *clock); /* NULL: no memory */
void problems_free(struct problems *problems);

void problems_set(struct problems *problems, const char *kind, const char *subject,
                  const char *what, const char *what_to_do);
void problems_clear(struct problems *problems, const char *kind, const char *subject);
/* All of the kind whose subject begins with "<directory>/". */
void problems_clear_below(struct problems *problems, const char *kind,
                          const char *directory);

/*
 * One line per fault, oldest first: "since=<RFC 3339 UTC> kind=<kind> <subject>:
 * <what>; <what to do>\n". Nothing when healthy. 0 or the buffer's error.
 */
int problems_render(struct problems *problems, struct buf *out);

#endif
