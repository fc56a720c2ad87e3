/*
 * The decoders of what peers send: any bytes are refused or understood, within bounds;
 * what was understood is encoded to the same bytes again.
 *
 * The first byte chooses the decoder.
 */
#include "replica/peer_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_REQUIRE(condition)                                                        \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
            abort();                                                                   \
        }                                                                              \
    } while (0)

/* `payload` bytes at the end are not part of what is encoded. */
static void require_same(struct buf *again, const uint8_t *data, size_t size,
                         size_t payload)
{
    FUZZ_REQUIRE(buf_error(again) == 0);
    FUZZ_REQUIRE(again->length == size - payload);
    FUZZ_REQUIRE(memcmp(again->data, data, again->length) == 0);
    buf_free(again);
}

static void fuzz_fetch(const uint8_t *data, size_t size, struct buf *again)
{
    struct peer_fetch fetch;
    if (peer_fetch_decode(data, size, &fetch) == 0) {
        (void)peer_fetch_encode(&fetch, again);
        require_same(again, data, size, 0);
        peer_fetch_free(&fetch);
    }
}

static void fuzz_fetched(const uint8_t *data, size_t size, struct buf *again)
{
    struct peer_fetched fetched;
    size_t payload = 0;
    if (peer_fetched_decode(data, size, &fetched) != 0)
        return;
    for (uint32_t i = 0; i < fetched.count; i++) {
        const struct peer_fetched_item *item = &fetched.items[i];
        payload += item->length;
        for (uint32_t k = 0; k < item->batch_count; k++) {
            struct batch batch;
            const uint8_t *bytes;
            if (peer_fetched_batch(item, k, &batch, &bytes) == 0)
                FUZZ_REQUIRE(bytes >= item->bytes &&
                             bytes + batch.length <= item->bytes + item->length);
        }
    }
    (void)peer_fetched_encode(&fetched, again);
    require_same(again, data, size, payload);
    peer_fetched_free(&fetched);
}

static void fuzz_produce(const uint8_t *data, size_t size, struct buf *again)
{
    struct peer_produce produce;
    if (peer_produce_decode(data, size, &produce) == 0) {
        (void)peer_produce_encode(&produce, again);
        require_same(again, data, size, produce.length);
    }
}

static void fuzz_produced(const uint8_t *data, size_t size, struct buf *again)
{
    struct peer_produced produced;
    if (peer_produced_decode(data, size, &produced) == 0) {
        (void)peer_produced_encode(&produced, again);
        require_same(again, data, size, 0);
    }
}

static void fuzz_sync(const uint8_t *data, size_t size, struct buf *again)
{
    struct peer_sync sync;
    if (peer_sync_decode(data, size, &sync) == 0) {
        (void)peer_sync_encode(&sync, again);
        require_same(again, data, size, 0);
    }
}

static void fuzz_synced(const uint8_t *data, size_t size, struct buf *again)
{
    struct peer_synced synced;
    if (peer_synced_decode(data, size, &synced) == 0) {
        (void)peer_synced_encode(&synced, again);
        require_same(again, data, size, 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const decoders[])(const uint8_t *data, size_t size,
                                    struct buf *again) = {
        fuzz_fetch, fuzz_fetched, fuzz_produce, fuzz_produced, fuzz_sync, fuzz_synced};
    if (size == 0)
        return 0;
    struct buf again;
    buf_init(&again, PEER_REPLY_MAX);
    /* A copy of exactly that size: reading past it is found. */
    uint8_t *copy = malloc(size > 1 ? size - 1 : 1);
    memcpy(copy, data + 1, size - 1);
    decoders[data[0] % 6](copy, size - 1, &again);
    free(copy);
    buf_free(&again);
    return 0;
}
