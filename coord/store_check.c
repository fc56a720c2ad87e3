#include "coord/store_check.h"

#include "coord/err.h"
#include "coord/store_files.h"

/* Prints the findings; returns how many there are. */
static int print_findings(const struct store_recovery *recovery, bool repaired,
                          FILE *out)
{
    int findings = 0;

    for (int c = 0; c < STORE_COPIES; c++) {
        const struct store_verdict *verdict = &recovery->verdicts[c];

        if (!verdict->rewrite && !verdict->cut)
            continue;
        findings++;
        fprintf(out, "store: %s: %s%s\n", store_copy_name(c), verdict->what,
                !repaired          ? ""
                : verdict->rewrite ? "; written anew"
                                   : "; cut");
    }
    return findings;
}

/* The copy that kept the mark of a clean end would convict the one that was made anew.
 */
static int mark_closed(struct store_files *files, const struct journal_copy *copies,
                       int64_t revision)
{
    struct buf line;
    int rc;

    if (!copies[0].closed && !copies[1].closed)
        return 0;
    buf_init(&line, 256);
    rc = journal_encode_closed(&line, revision);
    if (rc == 0)
        rc = store_files_append(files, line.data, line.length);
    buf_free(&line);
    return rc;
}

int store_embedded_check(const char *dir, bool repair, FILE *out)
{
    struct journal_copy copies[STORE_COPIES];
    struct store_recovery recovery;
    struct store_files files;
    int findings, rc;
    char why[640];

    rc = store_files_open(&files, dir, false, &store_io_real);
    if (rc == -ENOENT)
        return 0;
    if (rc == 0)
        rc = store_files_scan(&files, copies);
    if (rc != 0) {
        fprintf(out, "store: %s\n", err_text(rc));
        store_files_close(&files);
        return rc;
    }
    rc = store_recover(copies, &recovery, why, sizeof(why));
    if (rc != 0) {
        fprintf(out, "store: %s\n", why);
        goto out;
    }
    if (repair && !recovery.absent)
        rc = store_files_repair(&files, copies, &recovery);
    if (repair && !recovery.absent && rc == 0)
        rc = mark_closed(&files, copies, recovery.revision);
    findings = print_findings(&recovery, repair && rc == 0, out);
    if (rc != 0)
        fprintf(out, "store: repairing: %s\n", err_text(rc));
    else if (!repair)
        rc = findings;
    store_recovery_free(&recovery);
out:
    for (int c = 0; c < STORE_COPIES; c++)
        journal_copy_free(&copies[c]);
    store_files_close(&files);
    return rc;
}
