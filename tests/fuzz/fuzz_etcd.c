/*
 * What reads etcd's replies, on arbitrary bytes. What they accept has to be usable:
 * keys are texts, lists are sorted, revisions are positive.
 */
#include "coord/base64.h"
#include "coord/etcd_json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_kv(const struct store_kv *kv)
{
    require(kv->key != NULL && kv->key[0] != '\0');
    require(kv->mod_revision > 0);
    require(!kv->value || kv->value[kv->value_length] == '\0');
}

static void fuzz_list(const char *bytes, size_t size)
{
    struct store_list list;

    if (etcd_json_list(bytes, size, &list) != 0) {
        require(list.count == 0 && !list.items);
        return;
    }
    require(list.revision > 0);
    for (size_t i = 0; i < list.count; i++) {
        check_kv(&list.items[i]);
        require(i == 0 || strcmp(list.items[i - 1].key, list.items[i].key) < 0);
        require(list.items[i].value != NULL);
    }
    store_list_free(&list);
}

static void fuzz_watch(const char *bytes, size_t size)
{
    struct etcd_watch_reply reply;

    if (etcd_json_watch_reply(bytes, size, &reply) == 0) {
        for (size_t i = 0; i < reply.event_count; i++)
            check_kv(&reply.events[i]);
    }
    etcd_json_watch_free(&reply);
}

/* What decodes is encoded as the same text again, but for unused bits of the end. */
static void fuzz_base64(const char *text)
{
    char *bytes;
    size_t length;
    struct buf again;

    if (base64_decode(text, &bytes, &length) != 0)
        return;
    buf_init(&again, strlen(text) + 1);
    base64_encode(&again, bytes, length);
    require(again.length == strlen(text));
    require(length < 3 || strncmp(again.data, text, again.length - 4) == 0);
    buf_free(&again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct etcd_txn_reply txn;
    struct etcd_lease_reply lease;
    struct etcd_failure failure;
    /* Exactly as long as it is, so that a step too far is noticed. */
    char *bytes = malloc(size + 1), *exact = malloc(size > 0 ? size : 1), *token;

    require(bytes && exact);
    memcpy(exact, data, size);
    memcpy(bytes, data, size);
    bytes[size] = '\0';
    fuzz_list(exact, size);
    fuzz_watch(exact, size);
    if (etcd_json_txn_reply(exact, size, &txn) == 0)
        require(txn.revision > 0);
    if (etcd_json_lease_reply(exact, size, &lease) == 0)
        require(lease.ttl_s >= 0);
    if (etcd_json_token(exact, size, &token) == 0)
        require(token[0] != '\0' && !strpbrk(token, "\r\n"));
    free(token);
    etcd_json_failure(exact, size, &failure);
    require(strlen(failure.text) < sizeof(failure.text));
    fuzz_base64(bytes);
    free(exact);
    free(bytes);
    return 0;
}
