/*
 * What two copies of the embedded store's journal say together. Without I/O.
 *
 * The state is replayed from the newest snapshot that is valid in either copy, then
 * each revision from whichever copy has it. So any damage to one copy is made good by
 * the other, and even two damaged copies are enough while they are damaged in different
 * places. A last line that is cut off is what a crash leaves: it was never
 * acknowledged, unless the other copy has it.
 *
 *     journal_copy_scan(&copies[0], ...); journal_copy_scan(&copies[1], ...);
 *     rc = store_recover(copies, &recovery, why, sizeof(why));
 *     ... recovery.map, recovery.revision; repair what verdicts[i] says ...
 *     store_recovery_free(&recovery);
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_STORE_RECOVER_H
#define TOPICFS_STORE_RECOVER_H

#include "coord/store_journal.h"

enum { STORE_COPIES = 2 };

struct store_verdict {
    bool rewrite; /* does not say what the state is: to be written anew */
    bool cut;     /* right but for a torn tail, to be cut at valid_length */
    bool fault;   /* not what a crash leaves: name it to the user */
    char what[200];
};

struct store_recovery {
    struct store_map map;
    int64_t revision;
    bool absent; /* neither file exists: a new store */
    struct store_verdict verdicts[STORE_COPIES];
};

/*
 * 0; E_CORRUPT: something that was committed is in neither copy; E_NEWER_FORMAT;
 * -ENOMEM. `why` gets the reason and what to do. The copies are borrowed for the call.
 */
int store_recover(const struct journal_copy copies[STORE_COPIES],
                  struct store_recovery *out, char *why, size_t why_size);
void store_recovery_free(struct store_recovery *recovery);

/* "store.a", "store.b". */
const char *store_copy_name(int copy);

#endif
