#include "replica/lines.h"

#include "coord/coord.h"

#include <string.h>
#include <xxhash.h>

/* Blocks of 255 keep the counters in bytes, which lets the compiler use whole vectors.
 */
size_t lines_count(const char *bytes, size_t length)
{
    size_t count = 0;
    while (length >= 255 * 32) {
        uint8_t lanes[32] = {0};
        for (int round = 0; round < 255; round++, bytes += 32)
            for (int i = 0; i < 32; i++)
                lanes[i] = (uint8_t)(lanes[i] + (bytes[i] == '\n'));
        for (int i = 0; i < 32; i++)
            count += lanes[i];
        length -= 255 * 32;
    }
    for (size_t i = 0; i < length; i++)
        count += bytes[i] == '\n';
    return count;
}

static void hash_refused(const char *bytes, size_t length, uint64_t out[2])
{
    XXH128_hash_t hash = XXH3_128bits(bytes, length);
    out[0] = hash.low64;
    out[1] = hash.high64;
}

/* The write begins with the end of a refused line that was refused before. */
static bool refused_before(const struct lines_state *state, const char *bytes,
                           size_t length)
{
    uint64_t hash[2];
    if (state->refused_length == 0 || state->refused_length > length)
        return false;
    hash_refused(bytes, state->refused_length, hash);
    return hash[0] == state->refused_hash[0] && hash[1] == state->refused_hash[1];
}

/* The first line is too long and nothing comes before it: what its rest will look like.
 */
static void refuse(struct lines_cut *cut, size_t pending, const char *bytes,
                   size_t length)
{
    const char *newline = memchr(bytes, '\n', length);
    cut->error = E_MESSAGE_TOO_LARGE;
    cut->after.discarding = newline == NULL;
    if (newline == NULL || pending == 0)
        return;
    cut->after.refused_length = (size_t)(newline - bytes) + 1;
    hash_refused(bytes, cut->after.refused_length, cut->after.refused_hash);
}

/*
 * The lines of bytes[0, length) up to the first that is too long, `pending` counting
 * for the first: sets complete, count and tail. Returns false if a line stopped it.
 */
static bool walk(struct lines_cut *cut, size_t pending, size_t max, const char *bytes,
                 size_t length)
{
    size_t begin = 0;
    while (begin < length) {
        const char *newline = memchr(bytes + begin, '\n', length - begin);
        size_t line =
            newline != NULL ? (size_t)(newline - bytes) - begin : length - begin;
        if (pending + line > max)
            return false;
        if (newline == NULL) {
            cut->tail = line;
            return true;
        }
        begin += line + 1;
        pending = 0;
        cut->complete = begin;
        cut->count++;
    }
    return true;
}

/* No line can be too long: only the last newline and the number of them matter. */
static void take_all(struct lines_cut *cut, const char *bytes, size_t length)
{
    const char *last = memrchr(bytes, '\n', length);
    cut->complete = last != NULL ? (size_t)(last - bytes) + 1 : 0;
    cut->tail = length - cut->complete;
    cut->count = (uint32_t)lines_count(bytes, cut->complete);
}

/* Goes on inside a refused line, or sends its end again. true: that is an error. */
static bool still_refused(const struct lines_state *state, const char *bytes,
                          size_t length, struct lines_cut *out)
{
    const char *newline;
    if (state->discarding) {
        newline = memchr(bytes, '\n', length);
        out->skip = newline != NULL ? (size_t)(newline - bytes) + 1 : 0;
        return newline == NULL;
    }
    return refused_before(state, bytes, length);
}

void lines_cut(const struct lines_state *state, size_t pending,
               size_t max_message_bytes, const char *bytes, size_t length,
               struct lines_cut *out)
{
    const struct lines_state before = *state; /* may lie in *out */
    bool fits;
    *out = (struct lines_cut){0};
    if (still_refused(&before, bytes, length, out)) {
        out->error = E_MESSAGE_TOO_LARGE;
        out->after = before;
        return;
    }
    bytes += out->skip;
    length -= out->skip;
    if (length <= max_message_bytes && pending <= max_message_bytes - length) {
        take_all(out, bytes, length);
        fits = true;
    } else {
        fits = walk(out, pending, max_message_bytes, bytes, length);
    }
    out->consumed = out->skip + out->complete + out->tail;
    if (!fits && out->consumed == 0)
        refuse(out, pending, bytes, length);
}
