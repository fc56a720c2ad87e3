/*
 * The text format of the embedded store's files, without I/O. One file is
 *
 *     topicfs-store 1 <checksum>
 *     <checksum> <revision> {"snapshot":[[key,value,create,mod,leased],...]}
 *     <checksum> <revision>
 * {"ops":[["put",key,value],["lease",key,value],["delete",key]]} <checksum> <revision>
 * "closed"
 *
 * Checksums are XXH3 (64 bits, 16 lower-case hexadecimal digits) of what follows (of
 * what stands before, in the header) without the newline. Revisions of transactions
 * have no gaps. "closed" is written by a clean stop: where it ends one copy, the other
 * one should have it too. create and mod are decimal strings, as 64 bits don't fit a
 * JSON number.
 *
 *     journal_copy_scan(&copy, bytes, length);    // takes the bytes
 *     for each copy.records[i] ... journal_apply(&map, &copy.records[i]);
 *     journal_copy_free(&copy);
 *
 * Pure; any thread; one owner.
 */
#ifndef TOPICFS_STORE_JOURNAL_H
#define TOPICFS_STORE_JOURNAL_H

#include "coord/buf.h"
#include "coord/store.h"
#include "coord/store_map.h"

enum { JOURNAL_FORMAT = 1 };
enum { JOURNAL_BYTES_MAX = 1 << 30 };

enum journal_kind { JOURNAL_SNAPSHOT, JOURNAL_TRANSACTION, JOURNAL_CLOSED };

struct journal_record {
    enum journal_kind kind;
    int64_t revision;
    const char *body; /* borrowed from the copy's bytes */
    size_t body_length;
};

struct journal_copy {
    char *bytes; /* NULL: the file is missing */
    size_t length;
    struct journal_record *records; /* the valid ones, in order, also behind damage */
    size_t count;
    size_t valid_length;   /* up to the first bad line */
    size_t bad_lines;      /* the header counts as one */
    size_t bad_tail_lines; /* of these, those behind the last valid line */
    bool torn;             /* the last line has no newline */
    bool newer;            /* the header is valid, its version is not ours */
    bool gap;              /* lines are missing between two valid ones */
    bool closed;           /* the last line is a valid "closed" */
    int64_t last_revision; /* of the last valid line; -1: none */
    char what[160];        /* the first damage in words, "" = none */
};

/* Takes `bytes` (from malloc; NULL = missing file) also on error: 0 or -ENOMEM. */
int journal_copy_scan(struct journal_copy *copy, char *bytes, size_t length);
void journal_copy_free(struct journal_copy *copy);

/* Applies a snapshot (to an empty map) or a transaction. 0; E_CORRUPT if the checksum
 * is right and the content is not; -ENOMEM. */
int journal_apply(struct store_map *map, const struct journal_record *record);

/* Append to `out`: 0 or the buffer's error; -EINVAL for text that is not UTF-8. A
 * change is a kv as a watcher gets it (value NULL = delete); leased[i] goes with
 * changes[i]. */
int journal_encode_header(struct buf *out);
int journal_encode_snapshot(struct buf *out, const struct store_map *map,
                            int64_t revision);
int journal_encode_transaction(struct buf *out, const struct store_kv *changes,
                               const bool *leased, size_t count, int64_t revision);
int journal_encode_closed(struct buf *out, int64_t revision);

#endif
