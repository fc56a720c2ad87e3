#include "coord/txn.h"

#include "coord/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void txn_init(struct txn *txn, const char *prefix)
{
    *txn = (struct txn){.prefix = prefix};
}

void txn_fail(struct txn *txn, int error)
{
    if (txn->error == 0)
        txn->error = error;
}

/* Makes room for one more item; false on error. */
static bool grow(struct txn *txn, void **items, size_t *allocated, size_t count,
                 size_t item_bytes)
{
    size_t wanted = *allocated ? *allocated * 2 : 8;
    void *grown;

    if (txn->error != 0)
        return false;
    if (count < *allocated)
        return true;
    grown = reallocarray(*items, wanted, item_bytes);
    if (!grown) {
        txn_fail(txn, -ENOMEM);
        return false;
    }
    *items = grown;
    *allocated = wanted;
    return true;
}

static char *make_key(struct txn *txn, const char *format, va_list arguments)
{
    char *rest = NULL, *key = NULL;

    if (vasprintf(&rest, format, arguments) < 0 ||
        asprintf(&key, "%s%s", txn->prefix, rest) < 0) {
        key = NULL;
        txn_fail(txn, -ENOMEM);
    }
    free(rest);
    return key;
}

void txn_compare(struct txn *txn, enum store_target target, int64_t revision,
                 const char *format, ...)
{
    va_list arguments;
    char *key;

    if (!grow(txn, (void **)&txn->compares, &txn->compare_allocated, txn->compare_count,
              sizeof(*txn->compares)))
        return;
    va_start(arguments, format);
    key = make_key(txn, format, arguments);
    va_end(arguments);
    if (key)
        txn->compares[txn->compare_count++] =
            (struct store_compare){key, target, revision};
}

/* Takes key and value. */
static void add_op(struct txn *txn, enum store_verb verb, char *key, char *value,
                   bool leased)
{
    if (key && grow(txn, (void **)&txn->ops, &txn->op_allocated, txn->op_count,
                    sizeof(*txn->ops))) {
        txn->ops[txn->op_count++] = (struct store_op){verb, key, value, leased};
        return;
    }
    free(key);
    free(value);
}

void txn_put(struct txn *txn, bool leased, struct buf *value, const char *format, ...)
{
    va_list arguments;
    char *key, *text;

    txn_fail(txn, buf_error(value));
    text = txn->error ? NULL : strdup(value->data ? value->data : "");
    buf_clear(value); /* in any case: nothing of it gets into the next one */
    if (!text) {
        txn_fail(txn, -ENOMEM);
        return;
    }
    va_start(arguments, format);
    key = make_key(txn, format, arguments);
    va_end(arguments);
    add_op(txn, STORE_PUT, key, text, leased);
}

void txn_delete(struct txn *txn, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_op(txn, STORE_DELETE, make_key(txn, format, arguments), NULL, false);
    va_end(arguments);
}

void txn_delete_prefix(struct txn *txn, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_op(txn, STORE_DELETE_PREFIX, make_key(txn, format, arguments), NULL, false);
    va_end(arguments);
}

/* Is the put there? 1 and the revision, 0, or an error. */
static int find_put(struct store *store, const struct store_op *put, int64_t since,
                    int64_t *revision)
{
    struct store_list list;
    int rc = store->ops->list(store, put->key, &list);

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        const struct store_kv *kv = &list.items[i];

        if (strcmp(kv->key, put->key) != 0 || kv->mod_revision <= since ||
            strcmp(kv->value, put->value) != 0)
            continue;
        *revision = kv->mod_revision;
        rc = 1;
    }
    store_list_free(&list);
    return rc;
}

static int commit_kept(struct txn *txn, struct store *store, int64_t *revision)
{
    struct store_txn request = {
        .compares = txn->compares,
        .compare_count = txn->compare_count,
        .ops = txn->ops,
        .op_count = txn->op_count,
    };

    return txn->error ? txn->error : store->ops->commit(store, &request, revision);
}

int txn_commit_sure(struct txn *txn, struct store *store, int64_t since,
                    int64_t *revision)
{
    int rc = commit_kept(txn, store, revision);

    for (size_t i = 0; i < txn->op_count && rc == E_OUTCOME_UNKNOWN; i++) {
        int found;

        if (txn->ops[i].verb != STORE_PUT)
            continue;
        found = find_put(store, &txn->ops[i], since, revision);
        if (found >= 0)
            rc = found == 1 ? 0 : E_CONFLICT;
        break;
    }
    txn_free(txn);
    return rc;
}

int txn_commit(struct txn *txn, struct store *store, int64_t *revision)
{
    int rc = commit_kept(txn, store, revision);

    txn_free(txn);
    return rc;
}

void txn_free(struct txn *txn)
{
    for (size_t i = 0; i < txn->op_count; i++) {
        free((char *)txn->ops[i].key);
        free((char *)txn->ops[i].value);
    }
    for (size_t i = 0; i < txn->compare_count; i++)
        free((char *)txn->compares[i].key);
    free(txn->ops);
    free(txn->compares);
    *txn = (struct txn){.prefix = txn->prefix};
}
