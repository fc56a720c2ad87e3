#include "coord/store_recover.h"

#include "coord/err.h"

#include <inttypes.h>
#include <stdio.h>

const char *store_copy_name(int copy)
{
    return copy == 0 ? "store.a" : "store.b";
}

static const struct journal_record *newest_snapshot(const struct journal_copy *copies)
{
    const struct journal_record *newest = NULL;

    for (int c = 0; c < STORE_COPIES; c++) {
        const struct journal_record *first = copies[c].records;

        if (copies[c].count > 0 && first->kind == JOURNAL_SNAPSHOT &&
            (!newest || first->revision > newest->revision))
            newest = first;
    }
    return newest;
}

/* The transaction with `revision`; *cursor only moves forward. */
static const struct journal_record *find_transaction(const struct journal_copy *copy,
                                                     size_t *cursor, int64_t revision)
{
    for (; *cursor < copy->count; (*cursor)++) {
        const struct journal_record *record = &copy->records[*cursor];

        if (record->kind != JOURNAL_TRANSACTION || record->revision < revision)
            continue;
        return record->revision == revision ? record : NULL;
    }
    return NULL;
}

static int replay(const struct journal_copy *copies, struct store_recovery *out)
{
    const struct journal_record *record = newest_snapshot(copies);
    size_t cursors[STORE_COPIES] = {0};
    int rc = 0;

    if (!record)
        return E_CORRUPT;
    while (record && rc == 0) {
        rc = journal_apply(&out->map, record);
        out->revision = record->revision;
        record = NULL;
        for (int c = 0; c < STORE_COPIES && !record; c++)
            record = find_transaction(&copies[c], &cursors[c], out->revision + 1);
    }
    return rc;
}

/* The least revision that this copy must once have had: a single bad line at the end
 * may be one that was never acknowledged, any before it was. */
static int64_t known_revision(const struct journal_copy *copy)
{
    if (copy->bad_tail_lines > 1)
        return copy->last_revision + (int64_t)copy->bad_tail_lines - 1;
    return copy->last_revision;
}

static void judge(const struct journal_copy *copy, const struct journal_copy *other,
                  int64_t revision, struct store_verdict *verdict)
{
    bool behind = copy->last_revision < revision;
    bool only_tail = copy->bad_lines == copy->bad_tail_lines && copy->bad_lines <= 1;
    size_t size = sizeof(verdict->what);

    verdict->rewrite = true;
    verdict->fault = true;
    if (!copy->bytes) {
        /* A crash while the store was being made: the second copy is not there yet. */
        verdict->fault = revision > 0;
        snprintf(verdict->what, size, "the file is missing");
    } else if (copy->length == 0) {
        snprintf(verdict->what, size, "the file is empty");
        // NOLINTNEXTLINE(bugprone-branch-clone): the order of the cases says it
    } else if (!only_tail || copy->gap) {
        snprintf(verdict->what, size, "damaged: %s", copy->what);
    } else if (copy->count == 0 || copy->records[0].kind != JOURNAL_SNAPSHOT) {
        snprintf(verdict->what, size, "cut off before the end of its first entry");
    } else if (other->closed && other->last_revision == revision && !copy->closed) {
        snprintf(verdict->what, size,
                 "%s at revision %" PRId64 ", store closed at %" PRId64,
                 copy->bad_lines && !copy->torn ? "last line damaged" : "cut off",
                 copy->last_revision, revision);
    } else if (copy->bad_lines && !copy->torn) {
        snprintf(verdict->what, size, "damaged: %s", copy->what);
    } else if (behind) {
        verdict->fault = revision - copy->last_revision > 1;
        snprintf(verdict->what, size,
                 "ends at revision %" PRId64 " instead of %" PRId64,
                 copy->last_revision, revision);
    } else {
        verdict->rewrite = false;
        verdict->fault = false;
        verdict->cut = copy->torn;
        snprintf(verdict->what, size, "%s", copy->torn ? "torn last line" : "");
    }
}

static void explain_corrupt(const struct journal_copy *copies, char *why,
                            size_t why_size)
{
    const char *what[STORE_COPIES];

    for (int c = 0; c < STORE_COPIES; c++)
        what[c] = !copies[c].bytes        ? "missing"
                  : copies[c].length == 0 ? "empty"
                  : copies[c].what[0]     ? copies[c].what
                                          : "lacks entries";
    snprintf(
        why, why_size,
        "both copies of the store are damaged (store.a: %s; store.b: %s); nothing was "
        "changed. Put back one of them from a backup; or move both files away: the "
        "topics are then found again by their directories, with default settings",
        what[0], what[1]);
}

int store_recover(const struct journal_copy copies[STORE_COPIES],
                  struct store_recovery *out, char *why, size_t why_size)
{
    int rc;

    *out = (struct store_recovery){0};
    if (!copies[0].bytes && !copies[1].bytes) {
        out->absent = true;
        return 0;
    }
    for (int c = 0; c < STORE_COPIES; c++)
        if (copies[c].newer) {
            snprintf(why, why_size,
                     "%s was written by a newer topicfs; use that version",
                     store_copy_name(c));
            return E_NEWER_FORMAT;
        }
    rc = replay(copies, out);
    for (int c = 0; c < STORE_COPIES && rc == 0; c++)
        if (known_revision(&copies[c]) > out->revision)
            rc = E_CORRUPT;
    if (rc != 0) {
        if (rc == E_CORRUPT)
            explain_corrupt(copies, why, why_size);
        else
            snprintf(why, why_size, "reading the store: %s", err_text(rc));
        store_recovery_free(out);
        return rc;
    }
    for (int c = 0; c < STORE_COPIES; c++)
        judge(&copies[c], &copies[!c], out->revision, &out->verdicts[c]);
    return 0;
}

void store_recovery_free(struct store_recovery *recovery)
{
    store_map_free(&recovery->map);
}
