/*
 * However a text is cut into writes, the stored lines are the same: those that are not
 * too long, in order, the unterminated last one included (it ends at close).
 *
 * The first byte is the limit, the second seeds the cuts, the rest is the text. The
 * writer sends the rest of a short write. Where a line is refused, it steps over a
 * whole one; of one that it began earlier it sends the same bytes again or goes on
 * behind it.
 */
#include "replica/lines.h"

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

struct store {
    char *bytes; /* the stored lines, then the part that waits */
    size_t length;
    size_t pending;
    struct lines_state state;
};

static uint32_t fuzz_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 16;
}

/* One write. Returns what it took, 0 if it was refused. */
static size_t fuzz_write(struct store *store, size_t max, const char *bytes,
                         size_t length)
{
    struct lines_cut cut;
    lines_cut(&store->state, store->pending, max, bytes, length, &cut);
    FUZZ_REQUIRE(cut.consumed <= length);
    FUZZ_REQUIRE(cut.consumed == cut.skip + cut.complete + cut.tail);
    FUZZ_REQUIRE((cut.error != 0) == (cut.consumed == 0));
    FUZZ_REQUIRE(cut.count == lines_count(bytes + cut.skip, cut.complete));
    FUZZ_REQUIRE(cut.complete == 0 || bytes[cut.skip + cut.complete - 1] == '\n');
    FUZZ_REQUIRE(store->pending == 0 || cut.skip == 0);
    store->state = cut.after;
    if (cut.error != 0) {
        store->length -= store->pending;
        store->pending = 0;
        return 0;
    }
    memcpy(store->bytes + store->length, bytes + cut.skip, cut.complete + cut.tail);
    store->length += cut.complete + cut.tail;
    store->pending = cut.tail + (cut.complete == 0 ? store->pending : 0);
    FUZZ_REQUIRE(store->pending <= max);
    FUZZ_REQUIRE(!store->state.discarding || store->pending == 0);
    return cut.consumed;
}

/* How far the writer steps after a refusal. */
static size_t fuzz_step(const char *bytes, size_t length)
{
    const char *newline = memchr(bytes, '\n', length);
    return newline != NULL ? (size_t)(newline - bytes) + 1 : length;
}

/* What looks like the refused end of a line sent again is taken for that: such a text
 * has no one right outcome. */
static bool fuzz_ambiguous(const struct store *store, const char *bytes,
                           const char *end)
{
    size_t line = store->state.refused_length;
    return line > 0 && (size_t)(end - bytes) >= 2 * line &&
           memcmp(bytes, bytes + line, line) == 0;
}

/* false: the text is ambiguous. */
static bool fuzz_send(struct store *store, size_t max, const char *text, size_t length,
                      uint32_t seed)
{
    const char *end = text + length;
    while (text < end) {
        size_t piece = fuzz_random(&seed) % 24 + 1;
        if (piece > (size_t)(end - text))
            piece = (size_t)(end - text);
        while (piece > 0) {
            size_t taken = fuzz_write(store, max, text, piece);
            if (taken == 0) {
                if (fuzz_ambiguous(store, text, end))
                    return false;
                if (fuzz_random(&seed) % 2 == 0)
                    FUZZ_REQUIRE(fuzz_write(store, max, text, piece) == 0);
                taken = fuzz_step(text, piece);
            }
            text += taken;
            piece -= taken;
        }
    }
    return true;
}

static size_t fuzz_expect(size_t max, const char *text, size_t length, char *out)
{
    size_t filled = 0;
    const char *end = text + length;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t line = (size_t)((newline != NULL ? newline : end) - text);
        if (line <= max) {
            memcpy(out + filled, text, line);
            filled += line;
            out[filled++] = '\n';
        }
        text += line + (newline != NULL);
    }
    return filled;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store store = {0};
    char *want = malloc(2 * size + 2);
    size_t want_length;
    size_t max;
    store.bytes = malloc(2 * size + 2);
    if (size >= 2 && store.bytes != NULL && want != NULL) {
        max = data[0] % 20 + 1U;
        if (!fuzz_send(&store, max, (const char *)data + 2, size - 2, data[1]))
            goto out;
        if (store.pending > 0)
            store.bytes[store.length++] = '\n';
        want_length = fuzz_expect(max, (const char *)data + 2, size - 2, want);
        FUZZ_REQUIRE(store.length == want_length);
        FUZZ_REQUIRE(memcmp(store.bytes, want, want_length) == 0);
    }
out:
    free(store.bytes);
    free(want);
    return 0;
}
