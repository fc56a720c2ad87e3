#include "replica/compact.h"

#include "replica/compact_write.h"
#include "replica/key_map.h"
#include "replica/log_internal.h"
#include "replica/producer_state.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <xxhash.h>

/* ---- which segments -----------------------------------------------------------------
 */

struct source {
    struct segment_view view;
    bool clean;            /* compacted before */
    int64_t tombstones_ms; /* INT64_MAX: none */
};

struct sources {
    struct source *at;
    size_t count;
    size_t allocated;
};

static void sources_free(struct sources *sources)
{
    for (size_t i = 0; i < sources->count; i++)
        log_view_release(&sources->at[i].view);
    free(sources->at);
    *sources = (struct sources){0};
}

static int sources_add(struct sources *sources, const struct segment_view *view)
{
    if (sources->count == sources->allocated) {
        size_t allocated = sources->allocated ? sources->allocated * 2 : 16;
        struct source *at = realloc(sources->at, allocated * sizeof *at);
        if (at == NULL)
            return -ENOMEM;
        sources->at = at;
        sources->allocated = allocated;
    }
    sources->at[sources->count++] =
        (struct source){.view = *view, .tombstones_ms = INT64_MAX};
    return 0;
}

static int read_header(struct source *source)
{
    struct segment *segment = source->view.segment;
    struct file_cache_file *index = NULL;
    struct index_header header;
    uint8_t bytes[INDEX_HEADER_BYTES];
    if (!(source->view.flags & SEGMENT_COMPACTED))
        return 0;
    int rc = segment_pin_index(segment, &index);
    if (rc == 0)
        rc = disk_read_all(segment->home->disk, index->fd, bytes, sizeof bytes, 0);
    if (rc == 0)
        rc = index_header_decode(bytes, &header);
    segment_unpin(segment, index);
    if (rc == E_CORRUPT || rc == -ENODATA)
        return E_DAMAGED;
    if (rc != 0)
        return rc;
    source->clean = compact_is_clean(header.flags);
    if (header.flags & INDEX_TOMBSTONES)
        source->tombstones_ms = header.created_ms + COMPACT_TOMBSTONE_MS;
    return 0;
}

/* All closed segments below the high watermark that have another one behind them. */
static int sources_collect(struct log *log, int64_t high_watermark, struct sources *out)
{
    int64_t base_offset = -1;
    int rc = 0;
    *out = (struct sources){0};
    while (rc == 0) {
        struct segment_view view;
        rc = log_view_after(log, base_offset, &view);
        if (rc != 0)
            break;
        base_offset = view.segment->base_offset;
        bool whole = !(view.flags & (SEGMENT_DAMAGED | SEGMENT_GAP));
        bool closed =
            compact_takes(view.flags & SEGMENT_CLOSED, view.end_offset, high_watermark);
        if (closed)
            rc = whole ? sources_add(out, &view) : E_DAMAGED;
        if (!closed || rc != 0) {
            log_view_release(&view);
            break;
        }
    }
    if (rc == -ENOENT) {
        rc = 0;
        if (out->count > 0)
            log_view_release(&out->at[--out->count].view);
    }
    for (size_t i = 0; rc == 0 && i < out->count; i++)
        rc = read_header(&out->at[i]);
    if (rc != 0)
        sources_free(out);
    return rc;
}

static void sources_look(const struct sources *sources, struct compact_look *out)
{
    *out = (struct compact_look){.tombstones_ms = INT64_MAX};
    for (size_t i = 0; i < sources->count; i++) {
        const struct source *source = &sources->at[i];
        out->end_offset = source->view.end_offset;
        if (source->clean)
            out->clean_bytes += source->view.text_size;
        else
            out->dirty_bytes += source->view.text_size;
        if (source->tombstones_ms < out->tombstones_ms)
            out->tombstones_ms = source->tombstones_ms;
    }
}

int compact_look(struct log *log, int64_t high_watermark, struct compact_look *out)
{
    struct sources sources;
    int rc = sources_collect(log, high_watermark, &sources);
    if (rc != 0)
        return rc;
    sources_look(&sources, out);
    sources_free(&sources);
    return 0;
}

/* ---- one compaction -----------------------------------------------------------------
 */

struct last_message {
    int64_t producer_id;
    int64_t offset;
    int64_t timestamp_ms;
    UT_hash_handle hh;
};

/* A key of which a superseded message stays. */
struct kept_key {
    XXH128_hash_t hash;
    UT_hash_handle hh;
};

struct compaction {
    const struct compact_params *params;
    struct sources sources;
    struct key_map *map;
    struct last_message *producers;
    struct kept_key *kept_keys; /* second pass: of what it has come by */
    int32_t last_epoch;         /* second pass: of the batch before; -1: none */
    int64_t stop_offset; /* from here on keys are not in the map: copied as it is */
    struct compact_writer writer;
    bool unclean;   /* the writer has come to stop_offset */
    uint8_t *bytes; /* of the batch at hand */
    size_t bytes_size;
    uint64_t cuts;
};

typedef int batch_fn(struct compaction *compaction, const struct batch *batch);

static int read_bytes(struct compaction *compaction, int text,
                      const struct batch *batch)
{
    const struct disk *disk = compaction->params->log->home->disk;
    if (batch->length > compaction->bytes_size) {
        uint8_t *bytes = realloc(compaction->bytes, batch->length);
        if (bytes == NULL)
            return -ENOMEM;
        compaction->bytes = bytes;
        compaction->bytes_size = batch->length;
    }
    int rc =
        disk_read_all(disk, text, compaction->bytes, batch->length, batch->position);
    if (rc == -ENODATA)
        return E_DAMAGED;
    if (rc == 0 && XXH3_64bits(compaction->bytes, batch->length) != batch->payload_hash)
        rc = E_DAMAGED;
    return rc;
}

static bool gives_up(const struct compaction *compaction)
{
    const struct compact_params *params = compaction->params;
    return params->give_up != NULL && params->give_up(params->arg);
}

/* All batches of pinned files; with `text`, their bytes were read and compared. */
static int each_entry(struct compaction *compaction, const struct segment_view *view,
                      int index, int text, batch_fn *fn)
{
    struct index_reader reader;
    struct batch batch;
    struct segment_bad bad = {view->segment->base_offset, view->end_offset};
    int64_t position = 0;
    int rc = 0;
    index_reader_init(&reader, view->segment->home->disk, index,
                      view->segment->base_offset, view->entry_count);
    for (uint32_t i = 0; rc == 0 && i < view->entry_count; i++) {
        if (gives_up(compaction))
            return -ECANCELED;
        rc = index_reader_get(&reader, i, &batch);
        if (rc == 0 && batch.position != position)
            rc = E_DAMAGED;
        if (rc == 0) {
            bad = (struct segment_bad){batch.base_offset,
                                       batch.base_offset + batch.message_count};
            position = batch.position + batch.length;
            rc = text >= 0 ? read_bytes(compaction, text, &batch) : 0;
        }
        if (rc == 0)
            rc = fn(compaction, &batch);
    }
    if (rc == 0 && position != view->text_size)
        rc = E_DAMAGED;
    if (rc == E_DAMAGED)
        rc = log_report_read(compaction->params->log, view, compaction->cuts, &bad);
    return rc;
}

static int each_batch(struct compaction *compaction, const struct segment_view *view,
                      bool with_text, batch_fn *fn)
{
    struct segment *segment = view->segment;
    struct file_cache_file *text = NULL;
    struct file_cache_file *index = NULL;
    int rc = segment_pin_index(segment, &index);
    if (rc == 0 && with_text)
        rc = segment_pin_text(segment, &text);
    if (rc == 0)
        rc = each_entry(compaction, view, index->fd, with_text ? text->fd : -1, fn);
    segment_unpin(segment, text);
    segment_unpin(segment, index);
    return rc;
}

/* ---- first pass: keys and producers -------------------------------------------------
 */

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static int note_producer(struct compaction *compaction, const struct batch *batch)
{
    struct last_message *last = NULL;
    if (batch->producer_id < 0)
        return 0;
    HASH_FIND(hh, compaction->producers, &batch->producer_id, sizeof batch->producer_id,
              last);
    if (last == NULL) {
        last = calloc(1, sizeof *last);
        if (last == NULL)
            return -ENOMEM;
        last->producer_id = batch->producer_id;
        HASH_ADD(hh, compaction->producers, producer_id, sizeof last->producer_id,
                 last);
    }
    last->offset = batch->base_offset + batch->message_count - 1;
    last->timestamp_ms = batch->timestamp_ms;
    return 0;
}

/* The length of the line's key; -1 without one. `length` counts the newline. */
static int64_t key_length(const struct compaction *compaction, const uint8_t *line,
                          size_t length)
{
    const uint8_t *delimiter = memchr(line, compaction->params->delimiter, length - 1);
    return delimiter != NULL ? delimiter - line : -1;
}

/* The bytes of the line from `at` on, newline included; 0 if there is none. */
static size_t line_length(const struct batch *batch, const uint8_t *bytes, size_t at)
{
    const uint8_t *newline = memchr(bytes + at, '\n', batch->length - at);
    return newline != NULL ? (size_t)(newline + 1 - (bytes + at)) : 0;
}

static int note_keys(struct compaction *compaction, const struct batch *batch)
{
    int rc = note_producer(compaction, batch);
    const uint8_t *bytes = compaction->bytes;
    size_t at = 0;
    for (uint32_t i = 0; rc == 0 && i < batch->message_count; i++) {
        size_t length = line_length(batch, bytes, at);
        if (length == 0)
            return E_DAMAGED;
        int64_t key = key_length(compaction, bytes + at, length);
        if (key >= 0 && key_map_room(compaction->map) == 0 &&
            key_map_get(compaction->map, bytes + at, (size_t)key) < 0) {
            compaction->stop_offset = batch->base_offset + i;
            return 1;
        }
        if (key >= 0 && !(batch->flags & BATCH_SUPERSEDED))
            key_map_put(compaction->map, bytes + at, (size_t)key,
                        batch->base_offset + i);
        at += length;
    }
    return rc;
}

/* Segments behind the one in which the map became full are left for the next round. */
static int first_pass(struct compaction *compaction)
{
    struct sources *sources = &compaction->sources;
    int rc = 0;
    size_t i = 0;
    for (; rc == 0 && i < sources->count; i++) {
        const struct source *source = &sources->at[i];
        rc = source->clean ? each_batch(compaction, &source->view, false, note_producer)
                           : each_batch(compaction, &source->view, true, note_keys);
    }
    if (rc != 1)
        return rc;
    /* Nothing of this last one is in the map: it needs no copy. */
    if (compaction->stop_offset == sources->at[i - 1].view.segment->base_offset)
        i--;
    while (sources->count > i)
        log_view_release(&sources->at[--sources->count].view);
    return 0;
}

/* ---- second pass: what stays --------------------------------------------------------
 */

/* Whether the offset carries the last sequence of a producer that may come back. */
// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static bool is_last_of_producer(const struct compaction *compaction,
                                const struct batch *batch, int64_t offset)
{
    struct last_message *last = NULL;
    if (batch->producer_id < 0)
        return false;
    HASH_FIND(hh, compaction->producers, &batch->producer_id, sizeof batch->producer_id,
              last);
    return last != NULL && last->offset == offset &&
           compaction->params->now_ms - last->timestamp_ms <= PRODUCER_EXPIRY_MS;
}

static struct kept_key *kept_key_find(const struct compaction *compaction,
                                      const XXH128_hash_t *hash)
{
    struct kept_key *kept = NULL;
    HASH_FIND(hh, compaction->kept_keys, hash, sizeof *hash, kept);
    return kept;
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static int kept_key_add(struct compaction *compaction, const uint8_t *key,
                        size_t length)
{
    const XXH128_hash_t hash = XXH3_128bits(key, length);
    if (kept_key_find(compaction, &hash) != NULL)
        return 0;
    struct kept_key *kept = calloc(1, sizeof *kept);
    if (kept == NULL)
        return -ENOMEM;
    kept->hash = hash;
    HASH_ADD(hh, compaction->kept_keys, hash, sizeof kept->hash, kept);
    return 0;
}

/* 0, or -ENOMEM. */
static int judge(struct compaction *compaction, const struct batch *batch, uint32_t n,
                 const uint8_t *line, size_t length, enum compact_verdict *out)
{
    int64_t key = key_length(compaction, line, length);
    struct compact_message message = {
        .offset = batch->base_offset + n,
        .keyed = key >= 0,
        .first_of_epoch = n == 0 && batch->leader_epoch > compaction->last_epoch,
    };
    if (key >= 0) {
        message.tombstone = (size_t)key + 2 == length;
        message.last_of_key = key_map_get(compaction->map, line, (size_t)key);
        message.last_of_producer =
            n + 1 == batch->message_count &&
            is_last_of_producer(compaction, batch, message.offset);
    }
    if (message.tombstone && compaction->kept_keys != NULL) {
        const XXH128_hash_t hash = XXH3_128bits(line, (size_t)key);
        message.earlier_key_stays = kept_key_find(compaction, &hash) != NULL;
    }
    *out = compact_judge(batch, &message, compaction->params->now_ms);
    return *out == COMPACT_KEEP_SUPERSEDED ? kept_key_add(compaction, line, (size_t)key)
                                           : 0;
}

/* Hands `count` messages of the batch, from the n-th on, to the writer. */
static int write_run(struct compaction *compaction, const struct batch *batch,
                     uint32_t n, uint32_t count, size_t from, size_t end,
                     enum compact_verdict verdict)
{
    struct batch run;
    if (count == 0 || verdict == COMPACT_DROP)
        return 0;
    compact_part(batch, n, count, verdict, compaction->params->now_ms, &run);
    run.length = (uint32_t)(end - from);
    return compact_writer_add(&compaction->writer, &run, compaction->bytes + from);
}

/* The rest of a batch whose keys are not in the map; a new segment begins with the
 * first. */
static int copy_rest(struct compaction *compaction, const struct batch *batch,
                     uint32_t n, size_t from)
{
    int rc = 0;
    if (!compaction->unclean)
        rc = compact_writer_begin(&compaction->writer, batch->base_offset + n,
                                  INDEX_UNCLEAN);
    compaction->unclean = true;
    return rc != 0 ? rc
                   : write_run(compaction, batch, n, batch->message_count - n, from,
                               batch->length, COMPACT_KEEP);
}

static int filter(struct compaction *compaction, const struct batch *batch)
{
    const uint8_t *bytes = compaction->bytes;
    enum compact_verdict before = COMPACT_DROP;
    uint32_t run = 0; /* the first message of the run */
    size_t from = 0;  /* its first byte */
    size_t at = 0;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < batch->message_count; i++) {
        int64_t offset = batch->base_offset + i;
        size_t length = line_length(batch, bytes, at);
        if (length == 0)
            return E_DAMAGED;
        if (offset >= compaction->stop_offset) {
            rc = write_run(compaction, batch, run, i - run, from, at, before);
            return rc != 0 ? rc : copy_rest(compaction, batch, i, at);
        }
        enum compact_verdict now;
        rc = judge(compaction, batch, i, bytes + at, length, &now);
        if (rc == 0 && now != before) {
            rc = write_run(compaction, batch, run, i - run, from, at, before);
            before = now;
            run = i;
            from = at;
        }
        at += length;
    }
    compaction->last_epoch = batch->leader_epoch;
    if (rc != 0)
        return rc;
    return write_run(compaction, batch, run, batch->message_count - run, from, at,
                     before);
}

static int second_pass(struct compaction *compaction)
{
    const struct sources *sources = &compaction->sources;
    int rc = compact_writer_begin(&compaction->writer,
                                  sources->at[0].view.segment->base_offset, 0);
    for (size_t i = 0; rc == 0 && i < sources->count; i++)
        rc = each_batch(compaction, &sources->at[i].view, true, filter);
    return rc != 0 ? rc : compact_writer_end(&compaction->writer);
}

/* ---- the switch ---------------------------------------------------------------------
 */

/* Retention may have taken the first ones meanwhile; they must not come back. */
static int switch_over(struct compaction *compaction)
{
    const struct compact_params *params = compaction->params;
    const struct sources *sources = &compaction->sources;
    const struct segment_view *last = &sources->at[sources->count - 1].view;
    struct segment_view first;
    pthread_mutex_lock(params->append_lock);
    int rc = gives_up(compaction) ? -ECANCELED : 0;
    if (rc == 0)
        rc = log_view_after(params->log, -1, &first);
    if (rc == 0) {
        if (first.segment != sources->at[0].view.segment)
            rc = -ESTALE;
        log_view_release(&first);
    }
    if (rc == 0)
        rc = log_replace_prefix(params->log, compaction->writer.bases,
                                compaction->writer.count, last->end_offset);
    pthread_mutex_unlock(params->append_lock);
    return rc == -ENOENT || rc == -EINVAL ? -ESTALE : rc; /* not the same any more */
}

static int64_t text_bytes(struct log *log, int64_t end_offset)
{
    int64_t bytes = 0;
    struct segment_view view;
    for (int64_t base = -1; log_view_after(log, base, &view) == 0;) {
        base = view.segment->base_offset;
        if (base < end_offset)
            bytes += view.text_size;
        log_view_release(&view);
        if (base >= end_offset)
            break;
    }
    return bytes;
}

static void compaction_free(struct compaction *compaction)
{
    struct last_message *last = compaction->producers;
    HASH_CLEAR(hh,
               compaction->producers); /* the table; its members are still chained */
    while (last != NULL) {
        struct last_message *next = last->hh.next;
        free(last);
        last = next;
    }
    struct kept_key *kept = compaction->kept_keys;
    HASH_CLEAR(hh, compaction->kept_keys);
    while (kept != NULL) {
        struct kept_key *next = kept->hh.next;
        free(kept);
        kept = next;
    }
    key_map_free(compaction->map);
    free(compaction->bytes);
    sources_free(&compaction->sources);
}

static int run_passes(struct compaction *compaction, struct compact_result *out)
{
    const struct compact_params *params = compaction->params;
    const struct segment_home *home = params->log->home;
    int rc = first_pass(compaction);
    if (rc != 0 || compaction->sources.count == 0)
        return rc;
    const struct sources *sources = &compaction->sources;
    int64_t end_offset = sources->at[sources->count - 1].view.end_offset;
    out->more = compaction->stop_offset != INT64_MAX;
    out->bytes_before = text_bytes(params->log, end_offset);
    rc = compact_writer_open(&compaction->writer, home->disk, home->dir,
                             &home->topic_id, params->segment_bytes, params->now_ms);
    if (rc == 0)
        rc = second_pass(compaction);
    if (rc == 0)
        rc = switch_over(compaction);
    /* After E_OFFLINE the files belong to the switch, which the next open ends. */
    compact_writer_close(&compaction->writer, rc != 0 && rc != E_OFFLINE);
    if (rc == 0)
        out->bytes_after = text_bytes(params->log, end_offset);
    return rc;
}

int compact_run(const struct compact_params *params, struct compact_result *out)
{
    struct compaction compaction = {.params = params,
                                    .last_epoch = -1,
                                    .stop_offset = INT64_MAX,
                                    .cuts = log_cuts(params->log)};
    *out = (struct compact_result){0};
    int rc = sources_collect(params->log, params->high_watermark, &compaction.sources);
    if (rc == 0 && compaction.sources.count > 0) {
        compaction.map = key_map_new(params->map_bytes);
        rc = compaction.map == NULL ? -ENOMEM : run_passes(&compaction, out);
    }
    compaction_free(&compaction);
    return rc;
}
