/*
 * Looking at one segment on disk: what its two files hold and where they agree. Private
 * to the recovery; `topicfs check` uses it, too.
 *
 *     rc = recover_segment_load(home, base_offset, &found);   // sizes, header, last
 * entry rc = recover_segment_walk(&found, from_offset, limit, true, report, arg);
 *     ... found.end_offset, .end_position, .entries: what is good, and .cut, .torn ...
 */
#ifndef TOPICFS_RECOVER_SEGMENT_H
#define TOPICFS_RECOVER_SEGMENT_H

#include "replica/segment.h"

struct recover_segment {
    struct segment *segment; /* flags: SEGMENT_COMPACTED is set; one reference */
    bool has_text;
    bool has_index;
    bool header_good;
    int64_t text_size;  /* of the file */
    int64_t index_size; /* of the file */
    int64_t base_position;
    uint32_t entries; /* whole ones in the file */

    /* Up to the last good entry: */
    int64_t end_offset;
    int64_t end_position;
    int64_t last_timestamp_ms; /* INT64_MIN without entries */
    int64_t first_timestamp_ms;
    bool last_bad; /* entries behind that one are unreadable */

    /* Set by the walk: */
    bool cut;             /* a bad entry at or above the limit: cut to... */
    uint32_t cut_entries; /* ...so many entries; end_* are those of the last kept */
};

/* E_NEWER_FORMAT, -ENOMEM, or a negative errno of the disk; damage is in *out. */
int recover_segment_load(struct segment_home *home, int64_t base_offset,
                         struct recover_segment *out);
void recover_segment_release(struct recover_segment *found);

/* Everything adds up without a look at the text: the file ends where the entries do. */
bool recover_segment_sizes_agree(const struct recover_segment *found);

/*
 * Checks the entries from the one that holds `from_offset` on, with their text if
 * `text`. A bad one whose offset is at or above `limit` ends the walk (found->cut);
 * each bad range below goes to report(arg, first, end), where end is INT64_MAX if
 * unknown.
 */
int recover_segment_walk(
    struct recover_segment *found, int64_t from_offset, int64_t limit, bool text,
    void (*report)(void *arg, int64_t first_offset, int64_t end_offset), void *arg);

/* Number of newlines in the text file from `at` on. */
int recover_segment_count_lines(const struct recover_segment *found, int64_t at,
                                int64_t *lines);

#endif
