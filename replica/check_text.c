/* Reading a segment's text through a window: hashes, lines, single flipped bits. */
#include "replica/check_internal.h"
#include "replica/payload_hash.h"

#include <stdlib.h>
#include <string.h>

/* Trying all bits of a batch costs its size squared. */
enum { FLIP_BYTES_MAX = 8 * 1024 };

int check_text_open(struct check_text *text, const struct disk *disk, int file)
{
    *text = (struct check_text){.disk = disk, .file = file};
    text->window = malloc(CHECK_WINDOW_BYTES);
    text->hash = XXH3_createState();
    return text->window == NULL || text->hash == NULL ? -ENOMEM : 0;
}

void check_text_close(struct check_text *text)
{
    free(text->window);
    if (text->hash != NULL)
        XXH3_freeState(text->hash);
    *text = (struct check_text){.file = -1};
}

void check_text_forget(struct check_text *text)
{
    text->length = 0;
}

/* Makes the window hold bytes from `at` on; *have is 0 at the end of the file. */
static int window_at(struct check_text *text, int64_t at, const uint8_t **bytes,
                     int64_t *have)
{
    bool holds = at >= text->at && at < text->at + (int64_t)text->length;
    if (!holds) {
        text->at = at;
        text->length = 0;
    }
    for (size_t got = 0; !holds && got < CHECK_WINDOW_BYTES;) {
        ssize_t n = text->disk->ops->pread(text->disk, text->file, text->window + got,
                                           CHECK_WINDOW_BYTES - got, at + (int64_t)got);
        if (n < 0)
            return (int)n;
        got += (size_t)n;
        text->length = got;
        if (n == 0)
            break;
    }
    *bytes = text->window + (at - text->at);
    *have = text->at + (int64_t)text->length - at;
    return 0;
}

static void count_lines(const uint8_t *bytes, int64_t n, int64_t at,
                        struct check_scan *scan)
{
    const uint8_t *from = bytes;
    const uint8_t *end = bytes + n;
    while (from < end) {
        const uint8_t *newline = memchr(from, '\n', (size_t)(end - from));
        if (newline == NULL)
            break;
        scan->lines++;
        from = newline + 1;
        scan->lines_end = at + (from - bytes);
    }
    scan->ends_line = end[-1] == '\n';
}

int check_text_scan(struct check_text *text, int64_t at, int64_t length,
                    struct check_scan *out)
{
    *out = (struct check_scan){.lines_end = at};
    XXH3_64bits_reset(text->hash);
    for (int64_t end = at + length; at < end;) {
        const uint8_t *bytes;
        int64_t have;
        int rc = window_at(text, at, &bytes, &have);
        if (rc == 0 && have == 0)
            rc = E_DAMAGED;
        if (rc != 0)
            return rc;
        if (have > end - at)
            have = end - at;
        XXH3_64bits_update(text->hash, bytes, (size_t)have);
        count_lines(bytes, have, at, out);
        at += have;
    }
    out->hash = XXH3_64bits_digest(text->hash);
    return 0;
}

int check_text_skip(struct check_text *text, int64_t at, int64_t end, int64_t n,
                    int64_t *out)
{
    while (n > 0 && at < end) {
        const uint8_t *bytes;
        int64_t have;
        int rc = window_at(text, at, &bytes, &have);
        if (rc == 0 && have == 0)
            rc = E_DAMAGED;
        if (rc != 0)
            return rc;
        if (have > end - at)
            have = end - at;
        const uint8_t *newline = memchr(bytes, '\n', (size_t)have);
        at += newline != NULL ? newline + 1 - bytes : have;
        n -= newline != NULL;
    }
    *out = at;
    return 0;
}

int check_text_cut(struct check_text *text, int64_t at, int64_t end, int64_t wanted,
                   int64_t *length)
{
    const uint8_t *bytes;
    int64_t have;
    check_text_forget(text); /* so that the window begins here */
    int rc = window_at(text, at, &bytes, &have);
    if (rc == 0 && have == 0)
        rc = E_DAMAGED;
    if (rc != 0)
        return rc;
    if (have > wanted)
        have = wanted;
    if (have > end - at)
        have = end - at;
    const uint8_t *newline = memrchr(bytes, '\n', (size_t)have);
    if (newline != NULL) {
        *length = newline + 1 - bytes;
        return 0;
    }
    int64_t behind = at;
    rc = check_text_skip(text, at, end, 1, &behind);
    *length = behind - at;
    return rc;
}

int check_text_flipped_bit(struct check_text *text, const struct batch *batch,
                           int64_t *at, uint8_t *byte)
{
    if (batch->length > FLIP_BYTES_MAX)
        return 0;
    uint8_t *bytes = malloc(batch->length);
    if (bytes == NULL)
        return -ENOMEM;
    int rc =
        disk_read_all(text->disk, text->file, bytes, batch->length, batch->position);
    bool found = false;
    for (uint32_t i = 0; rc == 0 && !found && i < batch->length; i++) {
        uint8_t as_it_is = bytes[i];
        for (unsigned bit = 0; !found && bit < 8; bit++) {
            bytes[i] = (uint8_t)(as_it_is ^ (1u << bit));
            found = XXH3_64bits(bytes, batch->length) == batch->payload_hash;
        }
        *at = batch->position + i;
        *byte = bytes[i];
        bytes[i] = as_it_is;
    }
    free(bytes);
    return rc != 0 ? rc : found;
}
