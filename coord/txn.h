/*
 * Builds a transaction of the coordination store. Errors stick: only txn_commit() needs
 * its result looked at.
 *
 *     struct txn txn;
 *     txn_init(&txn, prefix);
 *     txn_compare(&txn, STORE_MOD_REVISION, revision, "config/topics/%s", name);
 *     txn_put(&txn, false, &value, "config/topics/%s", name);   // empties the buffer
 *     rc = txn_commit(&txn, store, &revision);                  // also frees
 *
 * Not thread-safe: one owner.
 */
#ifndef TOPICFS_TXN_H
#define TOPICFS_TXN_H

#include "coord/buf.h"
#include "coord/store.h"

struct txn {
    const char *prefix; /* borrowed; before every key */
    struct store_op *ops;
    size_t op_count, op_allocated;
    struct store_compare *compares;
    size_t compare_count, compare_allocated;
    int error;
};

void txn_init(struct txn *txn, const char *prefix);
void txn_compare(struct txn *txn, enum store_target target, int64_t revision,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Puts the buffer's text and clears the buffer; a failed buffer fails the transaction.
 */
void txn_put(struct txn *txn, bool leased, struct buf *value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void txn_delete(struct txn *txn, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void txn_delete_prefix(struct txn *txn, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void txn_fail(struct txn *txn,
              int error); /* keeps the first error; 0 changes nothing */

/* 0 and the revision; the first error; or what the store's commit returns. Frees. */
int txn_commit(struct txn *txn, struct store *store, int64_t *revision);
/*
 * The same for a shared store: after E_OUTCOME_UNKNOWN it looks whether the first put
 * is there, younger than `since`. E_CONFLICT if it is not: look again and decide anew.
 * That is for what may be decided twice; it could still come to pass.
 */
int txn_commit_sure(struct txn *txn, struct store *store, int64_t since,
                    int64_t *revision);
void txn_free(struct txn *txn);

#endif
