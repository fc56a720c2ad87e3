#include "replica/check.h"
#include "replica/compact.h"
#include "replica/epochs.h"
#include "replica/key_map.h"
#include "replica/producer_state.h"
#include "support/log_rig.h"
#include "support/node.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

enum { KEYS_MAX = 64, MESSAGES_MAX = 4000, LINE_MAX_BYTES = 64 };

/* What was appended; `key` -1 = keyless. */
struct message {
    int key;
    bool tombstone;
    char line[LINE_MAX_BYTES];
};

struct rig {
    struct log_rig log;
    struct message *messages;
    int64_t count;
    bool *present; /* what read_log() found */
    int64_t now_ms;
    int32_t epoch;
    size_t map_bytes;
    pthread_mutex_t append_lock;
};

static void rig_make(struct rig *rig, uint64_t seed)
{
    *rig = (struct rig){.now_ms = 1000000, .epoch = 3, .map_bytes = KEY_MAP_BYTES / 64};
    pthread_mutex_init(&rig->append_lock, NULL);
    log_rig_make(&rig->log, seed);
    rig->log.config.segment_bytes = 700;
    rig->log.config.segment_ms = INT64_MAX;
    assert_int_equal(log_rig_open(&rig->log, LOG_CLEAN), 0);
    rig->messages = calloc(MESSAGES_MAX, sizeof *rig->messages);
    rig->present = calloc(MESSAGES_MAX, sizeof *rig->present);
    assert_true(rig->messages && rig->present);
}

static void rig_remove(struct rig *rig)
{
    log_rig_remove(&rig->log);
    pthread_mutex_destroy(&rig->append_lock);
    free(rig->messages);
    free(rig->present);
}

static int append_text(struct rig *rig, const char *text, uint32_t lines,
                       int64_t producer_id, int32_t sequence)
{
    struct batch batch = {.message_count = lines,
                          .length = (uint32_t)strlen(text),
                          .timestamp_ms = rig->now_ms,
                          .leader_epoch = rig->epoch,
                          .base_sequence = sequence,
                          .producer_id = producer_id};
    return log_append(rig->log.log, &batch, text);
}

static void make_message(struct rig *rig, int key, bool tombstone)
{
    struct message *message = &rig->messages[rig->count];
    *message = (struct message){.key = key, .tombstone = tombstone};
    if (key < 0)
        (void)snprintf(message->line, sizeof message->line, "no key %lld\n",
                       (long long)rig->count);
    else if (tombstone)
        (void)snprintf(message->line, sizeof message->line, "k%d\t\n", key);
    else
        (void)snprintf(message->line, sizeof message->line, "k%d\tvalue %lld\n", key,
                       (long long)rig->count);
    rig->count++;
}

/* One batch of random messages. */
static void append_random(struct rig *rig, int keys)
{
    char text[8 * LINE_MAX_BYTES] = "";
    size_t used = 0;
    uint32_t lines = 1 + (uint32_t)fake_disk_random(rig->log.fake, 7);
    for (uint32_t i = 0; i < lines; i++) {
        bool keyless = fake_disk_random(rig->log.fake, 12) == 0;
        make_message(
            rig, keyless ? -1 : (int)fake_disk_random(rig->log.fake, (uint64_t)keys),
            fake_disk_random(rig->log.fake, 10) == 0);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s",
                                 rig->messages[rig->count - 1].line);
    }
    assert_int_equal(append_text(rig, text, lines, -1, -1), 0);
}

static void append_batches(struct rig *rig, int count, int keys)
{
    for (int i = 0; i < count; i++)
        append_random(rig, keys);
}

static void flush(struct rig *rig)
{
    assert_int_equal(log_rig_flush(&rig->log), 0);
    rig->log.high_watermark = rig->count;
}

static int compact(struct rig *rig, struct compact_result *result)
{
    const struct compact_params params = {.log = rig->log.log,
                                          .high_watermark = rig->count,
                                          .delimiter = '\t',
                                          .segment_bytes =
                                              rig->log.config.segment_bytes,
                                          .now_ms = rig->now_ms,
                                          .map_bytes = rig->map_bytes,
                                          .append_lock = &rig->append_lock};
    return compact_run(&params, result);
}

static int64_t compact_all(struct rig *rig)
{
    struct compact_result result;
    struct compact_look look;
    int rounds = 0;
    do {
        assert_int_equal(compact(rig, &result), 0);
        assert_true(++rounds < 200);
    } while (result.more);
    assert_int_equal(compact_look(rig->log.log, rig->count, &look), 0);
    assert_int_equal(look.dirty_bytes, 0);
    return look.end_offset;
}

/* ---- reading ------------------------------------------------------------------------
 */

static int read_batch(void *arg, const struct batch *batch)
{
    struct rig *rig = arg;
    struct log_bounds bounds;
    char text[9 * LINE_MAX_BYTES];
    assert_true(batch->length < sizeof text);
    log_bounds_get(rig->log.log, &bounds);
    for (size_t at = 0; at < batch->length;) {
        struct extent extent;
        assert_int_equal(log_read(rig->log.log, batch->position + (int64_t)at,
                                  batch->length - at, bounds.end.position,
                                  bounds.rewrites, &extent),
                         0);
        assert_true(extent.length > 0);
        assert_int_equal(disk_read_all(&rig->log.fake->disk, extent.fd, text + at,
                                       extent.length, extent.at),
                         0);
        at += extent.length;
        extent_release(&extent);
    }
    const char *from = text;
    for (uint32_t i = 0; i < batch->message_count; i++) {
        int64_t offset = batch->base_offset + i;
        const char *line = rig->messages[offset].line;
        assert_memory_equal(from, line, strlen(line));
        assert_false(rig->present[offset]);
        rig->present[offset] = true;
        from += strlen(line);
    }
    assert_int_equal(from - text, batch->length);
    assert_in_range(batch->leader_epoch, 3, rig->epoch);
    return 0;
}

/* Every message that is there is at its offset with its bytes. */
static void read_log(struct rig *rig)
{
    memset(rig->present, 0, MESSAGES_MAX * sizeof *rig->present);
    assert_int_equal(log_each_batch(rig->log.log, 0, read_batch, rig), 0);
    struct log_bounds bounds;
    log_bounds_get(rig->log.log, &bounds);
    assert_int_equal(bounds.end.offset, rig->count);
    for (int64_t offset = 0; offset < rig->count; offset++) {
        struct log_place place;
        int64_t next = offset;
        while (next < rig->count && !rig->present[next])
            next++;
        assert_int_equal(log_find_offset(rig->log.log, offset, &bounds.end, &place), 0);
        /* The log start is a place of its own; its position is that of the next
         * message. */
        if (offset != bounds.start.offset)
            assert_int_equal(place.offset, next);
    }
}

static bool is_last(const struct rig *rig, int64_t offset, int64_t end)
{
    for (int64_t later = offset + 1; later < end; later++) {
        if (rig->messages[later].key == rig->messages[offset].key)
            return false;
    }
    return true;
}

/* Below `end` exactly the last ones, and the first; with `at_least`, those and perhaps
 * others. */
static void assert_compacted(struct rig *rig, int64_t end, bool at_least)
{
    read_log(rig);
    for (int64_t offset = 0; offset < rig->count; offset++) {
        /* With the first one the leader epoch begins. */
        bool wanted = rig->messages[offset].key < 0 || offset == 0 || offset >= end ||
                      is_last(rig, offset, end);
        if (wanted || !at_least)
            assert_int_equal(rig->present[offset], wanted);
    }
}

/* ---- tests --------------------------------------------------------------------------
 */

static void test_random_workloads(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rig rig;
        rig_make(&rig, seed);
        /* From a map for all keys down to one that is full within a segment. */
        rig.map_bytes = seed % 2 ? KEY_MAP_BYTES / 64 : 16 * 24;
        for (int round = 0; round < 6; round++) {
            for (int i = 0; i < 20 + round * 5; i++)
                append_random(&rig, 1 + (int)seed * 2);
            int64_t end = compact_all(&rig);
            bool small = rig.map_bytes < KEY_MAP_BYTES / 64;
            assert_compacted(&rig, end, small);
            if (round % 2) {
                flush(&rig);
                log_rig_close(&rig.log);
                assert_int_equal(log_rig_open(&rig.log, LOG_CLEAN), 0);
                assert_int_equal(rig.log.damage_count, 0);
                assert_compacted(&rig, end, small);
            }
        }
        rig_remove(&rig);
    }
}

static void test_only_below_the_high_watermark(void **state)
{
    (void)state;
    struct rig rig;
    rig_make(&rig, 1);
    append_batches(&rig, 60, 2);
    int64_t all = rig.count;
    rig.count = all / 2;
    int64_t end = compact_all(&rig);
    assert_true(end <= all / 2 && end > 0);
    rig.count = all;
    assert_compacted(&rig, end, false);
    rig_remove(&rig);
}

static void test_views_from_before(void **state)
{
    (void)state;
    struct rig rig;
    struct log_bounds before;
    struct log_bounds after;
    struct extent extent;
    struct extent pinned;
    char bytes[8];
    rig_make(&rig, 7);
    append_batches(&rig, 60, 3);
    log_bounds_get(rig.log.log, &before);
    assert_int_equal(log_read(rig.log.log, before.start.position, 8,
                              before.end.position, before.rewrites, &pinned),
                     0);
    int64_t end = compact_all(&rig);
    log_bounds_get(rig.log.log, &after);
    assert_true(after.rewrites > before.rewrites);
    assert_true(after.size_bytes < before.size_bytes);
    /* The end stays where it is, so that views at the tail go on. */
    assert_int_equal(after.end.position, before.end.position);
    assert_int_equal(log_read(rig.log.log, before.start.position, 8,
                              before.end.position, before.rewrites, &extent),
                     E_RANGE_REWRITTEN);
    struct log_place place;
    assert_int_equal(log_find_offset(rig.log.log, end, &after.end, &place), 0);
    assert_int_equal(log_read(rig.log.log, place.position, 8, before.end.position,
                              before.rewrites, &extent),
                     0);
    assert_true(extent.length > 0);
    extent_release(&extent);
    assert_int_equal(
        disk_read_all(&rig.log.fake->disk, pinned.fd, bytes, pinned.length, pinned.at),
        0);
    assert_memory_equal(bytes, rig.messages[0].line, 8);
    extent_release(&pinned);
    rig_remove(&rig);
}

static void append_line(struct rig *rig, int key, bool tombstone)
{
    make_message(rig, key, tombstone);
    assert_int_equal(append_text(rig, rig->messages[rig->count - 1].line, 1, -1, -1),
                     0);
}

static void fill(struct rig *rig, int key, int n)
{
    for (int i = 0; i < n; i++)
        append_line(rig, key, false);
}

static void test_tombstones_stay_for_a_day(void **state)
{
    (void)state;
    struct rig rig;
    struct compact_look look;
    rig_make(&rig, 3);
    append_line(&rig, 9, false);
    append_line(&rig, 1, false);
    append_line(&rig, 1, true);
    append_line(&rig, 2, true);
    fill(&rig, 5, 100);
    (void)compact_all(&rig);
    read_log(&rig);
    assert_false(rig.present[1]);
    assert_true(rig.present[2] && rig.present[3]);
    assert_int_equal(compact_look(rig.log.log, rig.count, &look), 0);
    assert_int_equal(look.tombstones_ms, rig.now_ms + COMPACT_TOMBSTONE_MS);
    /* A later compaction does not begin their day anew. */
    rig.now_ms += COMPACT_TOMBSTONE_MS - 1;
    fill(&rig, 5, 100);
    (void)compact_all(&rig);
    read_log(&rig);
    assert_true(rig.present[2] && rig.present[3]);
    rig.now_ms += 1;
    fill(&rig, 5, 100);
    (void)compact_all(&rig);
    read_log(&rig);
    assert_false(rig.present[2]);
    assert_false(rig.present[3]);
    rig_remove(&rig);
}

/* The message with which an epoch begins stays, also when it is deleted; so does the
 * tombstone, or the message would be the last of its key. */
static void test_a_tombstone_stays_with_what_it_deleted(void **state)
{
    (void)state;
    struct rig rig;
    rig_make(&rig, 3);
    append_line(&rig, 1, false);
    append_line(&rig, 1, true);
    for (int day = 0; day < 3; day++) {
        fill(&rig, 5, 100);
        (void)compact_all(&rig);
        read_log(&rig);
        assert_true(rig.present[0] && rig.present[1]);
        rig.now_ms += COMPACT_TOMBSTONE_MS + 1;
    }
    rig_remove(&rig);
}

static void assert_same_epochs(const struct epoch_list *a, const struct epoch_list *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->items[i].epoch, b->items[i].epoch);
        assert_int_equal(a->items[i].offset, b->items[i].offset);
    }
}

/* All of an epoch is superseded; where it began and ended is what tells whether another
 * replica's log parts from this one. */
static void test_epochs_can_be_read_as_before(void **state)
{
    (void)state;
    struct rig rig;
    struct epoch_list before = {0};
    struct epoch_list after = {0};
    rig_make(&rig, 3);
    for (rig.epoch = 3; rig.epoch < 20; rig.epoch++) {
        append_batches(&rig, 3, 2);
    }
    fill(&rig, 0, 50);
    fill(&rig, 1, 50);
    assert_int_equal(epochs_build(&before, rig.log.log), 0);
    for (int round = 0; round < 2; round++) {
        (void)compact_all(&rig);
        assert_int_equal(epochs_build(&after, rig.log.log), 0);
        assert_same_epochs(&after, &before);
        read_log(&rig);
        fill(&rig, 1, 50);
    }
    epochs_free(&before);
    epochs_free(&after);
    rig_remove(&rig);
}

static void append_copy(struct rig *rig, const char *text, int64_t offset)
{
    struct batch batch = {.base_offset = offset,
                          .message_count = 1,
                          .length = (uint32_t)strlen(text),
                          .timestamp_ms = rig->now_ms,
                          .leader_epoch = rig->epoch,
                          .base_sequence = -1,
                          .producer_id = -1,
                          .payload_hash = XXH3_64bits(text, strlen(text))};
    assert_int_equal(log_append_verbatim(rig->log.log, &batch, text), 0);
}

static bool has_offset(struct rig *rig, int64_t offset)
{
    struct log_bounds bounds;
    struct log_place place;
    log_bounds_get(rig->log.log, &bounds);
    assert_int_equal(log_find_offset(rig->log.log, offset, &bounds.end, &place), 0);
    return place.offset == offset;
}

/* What was copied from a compacted log has holes, but nobody has looked at its keys:
 * what is deleted by then must not come back when the tombstone goes. */
static void test_a_copy_with_holes_is_not_compacted_yet(void **state)
{
    (void)state;
    struct rig rig;
    rig_make(&rig, 3);
    append_copy(&rig, "first\t1\n", 0);
    append_copy(&rig, "key\tvalue\n", 10);
    append_copy(&rig, "key\t\n", 11);
    rig.count = 12;
    for (int day = 0; day < 3; day++) {
        for (int i = 0; i < 100; i++)
            append_copy(&rig, "other\tvalue\n", rig.count++);
        assert_true(day == 2 || has_offset(&rig, 11));
        (void)compact_all(&rig);
        assert_false(has_offset(&rig, 10));
        rig.now_ms += COMPACT_TOMBSTONE_MS + 1;
    }
    assert_false(has_offset(&rig, 11));
    rig_remove(&rig);
}

/* An election may give up what was compacted. What comes then was not. */
static void test_nothing_is_appended_to_what_compaction_wrote(void **state)
{
    (void)state;
    struct log_bounds bounds;
    for (int64_t cut = 1; cut >= 0; cut--) {
        struct rig rig;
        struct compact_look look;
        rig_make(&rig, 3);
        append_line(&rig, 1, false);
        fill(&rig, 5, 100);
        (void)compact_all(&rig);
        assert_int_equal(log_truncate(rig.log.log, cut), 0);
        rig.count = cut;
        fill(&rig, 5, 100);
        assert_int_equal(compact_look(rig.log.log, rig.count, &look), 0);
        assert_true(look.dirty_bytes > 0);
        assert_compacted(&rig, compact_all(&rig), false);
        log_bounds_get(rig.log.log, &bounds);
        assert_int_equal(bounds.end.offset, cut + 100);
        rig_remove(&rig);
    }
}

static int add_to_state(void *arg, const struct batch *batch)
{
    return producer_state_add(arg, batch);
}

static void test_producers_keep_their_sequence(void **state)
{
    (void)state;
    struct rig rig;
    rig_make(&rig, 3);
    append_line(&rig, 9, false);
    for (int i = 0; i < 3; i++) {
        make_message(&rig, 1, false);
        make_message(&rig, 2, false);
        char text[2 * LINE_MAX_BYTES];
        (void)snprintf(text, sizeof text, "%s%s", rig.messages[rig.count - 2].line,
                       rig.messages[rig.count - 1].line);
        assert_int_equal(append_text(&rig, text, 2, 77, i * 2), 0);
    }
    fill(&rig, 1, 100);
    fill(&rig, 2, 100);
    (void)compact_all(&rig);
    struct producer_state *producers = producer_state_new();
    assert_int_equal(log_each_batch(rig.log.log, 0, add_to_state, producers), 0);
    struct batch next = {.producer_id = 77, .base_sequence = 6, .message_count = 1};
    struct batch late = {.producer_id = 77, .base_sequence = 4, .message_count = 1};
    int64_t original;
    assert_int_equal(producer_state_check(producers, &next, &original), PRODUCER_NEW);
    assert_int_equal(producer_state_check(producers, &late, &original),
                     PRODUCER_OUT_OF_ORDER);
    producer_state_free(producers);
    read_log(&rig);
    assert_true(rig.present[6]);
    for (int i = 1; i < 6; i++)
        assert_false(rig.present[i]);
    /* The producer is forgotten after a day, and its message goes. */
    rig.now_ms += PRODUCER_EXPIRY_MS + 1;
    fill(&rig, 1, 100);
    (void)compact_all(&rig);
    read_log(&rig);
    assert_false(rig.present[6]);
    rig_remove(&rig);
}

/* ---- crashes ------------------------------------------------------------------------
 */

/* One run that stops after n changes of the disk; false: it came to its end before. */
static bool crash_after(int64_t n, uint64_t seed, bool power)
{
    struct rig rig;
    struct compact_result result;
    rig_make(&rig, seed);
    append_batches(&rig, 40, 4);
    (void)compact_all(&rig);
    append_batches(&rig, 20, 4);
    flush(&rig);
    fake_disk_stop_after(rig.log.fake, n);
    bool stopped = compact(&rig, &result) != 0;
    log_rig_close(&rig.log);
    if (power)
        fake_disk_power_cut(rig.log.fake);
    else
        fake_disk_process_crash(rig.log.fake);
    assert_int_equal(
        log_rig_open(&rig.log, power ? LOG_MACHINE_CRASHED : LOG_PROCESS_CRASHED), 0);
    assert_int_equal(rig.log.damage_count, 0);
    assert_compacted(&rig, rig.count, true);
    assert_compacted(&rig, compact_all(&rig), false);
    append_line(&rig, 1, false);
    read_log(&rig);
    rig_remove(&rig);
    return stopped;
}

static void test_a_crash_at_each_step(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        int64_t n = 0;
        while (crash_after(n, seed * 1000 + (uint64_t)n, seed != 1))
            n++;
        assert_true(n > 10);
    }
}

static void test_an_error_at_each_step(void **state)
{
    (void)state;
    bool failed = true;
    for (int64_t n = 0; failed; n++) {
        struct rig rig;
        struct compact_result result;
        rig_make(&rig, 5);
        append_batches(&rig, 40, 4);
        flush(&rig);
        fake_disk_fail_after(rig.log.fake, n, ENOSPC, false);
        int rc = compact(&rig, &result);
        failed = rc != 0;
        fake_disk_fail_after(rig.log.fake, 0, 0, false);
        if (rc == E_OFFLINE) { /* within the switch: the next open ends it */
            log_rig_close(&rig.log);
            assert_int_equal(log_rig_open(&rig.log, LOG_PROCESS_CRASHED), 0);
        }
        assert_compacted(&rig, rig.count, true);
        assert_compacted(&rig, compact_all(&rig), false);
        rig_remove(&rig);
    }
}

/* Appends wait for the switch: not for the space of what was replaced. */
static void test_space_is_freed_later(void **state)
{
    (void)state;
    struct rig rig;
    struct compact_result result;
    rig_make(&rig, 5);
    append_batches(&rig, 200, 4);
    flush(&rig);
    int64_t freed = fake_disk_freed(rig.log.fake);
    assert_int_equal(compact(&rig, &result), 0);
    /* The note of what is to be replaced by what is gone. */
    assert_in_range(fake_disk_freed(rig.log.fake) - freed, 0, 1024);
    assert_true(result.bytes_before > 4096);
    file_cache_free_space(rig.log.files);
    assert_true(fake_disk_freed(rig.log.fake) - freed > result.bytes_before);
    rig_remove(&rig);
}

static void test_damage_is_found_and_changes_nothing(void **state)
{
    (void)state;
    struct rig rig;
    struct compact_result result;
    struct log_bounds before;
    struct log_bounds after;
    rig_make(&rig, 5);
    append_batches(&rig, 40, 4);
    flush(&rig);
    log_bounds_get(rig.log.log, &before);
    assert_true(
        fake_disk_flip(rig.log.fake, LOG_RIG_DIR "/00000000000000000000.log", 300));
    assert_int_equal(compact(&rig, &result), E_DAMAGED);
    log_bounds_get(rig.log.log, &after);
    assert_int_equal(before.size_bytes, after.size_bytes);
    assert_int_equal(before.rewrites, after.rewrites);
    assert_int_equal(rig.log.damage_count, 1);
    rig_remove(&rig);
}

static void test_many_rewrites_of_one_key_stay_small(void **state)
{
    (void)state;
    struct rig rig;
    struct log_bounds bounds;
    struct compact_result result;
    enum { LINES = 1000 };
    rig_make(&rig, 5);
    rig.log.config.segment_bytes = 64 * 1024;
    log_reconfigure(rig.log.log, &rig.log.config);
    char *text = malloc((size_t)LINES * 20 + 1);
    for (int i = 0; i < 1000; i++) {
        size_t length = 0;
        for (int k = 0; k < LINES; k++)
            length += (size_t)snprintf(text + length, 20, "key\t%d\n", i * LINES + k);
        struct batch batch = {.message_count = LINES,
                              .length = (uint32_t)length,
                              .base_sequence = -1,
                              .producer_id = -1};
        assert_int_equal(log_append(rig.log.log, &batch, text), 0);
        rig.count += LINES;
        if (i % 50 == 49)
            assert_int_equal(compact(&rig, &result), 0);
        log_bounds_get(rig.log.log, &bounds);
        assert_true(bounds.size_bytes < 1200 * 1024);
    }
    log_bounds_get(rig.log.log, &bounds);
    assert_int_equal(bounds.end.offset, 1000 * LINES);
    assert_true(bounds.size_bytes < 150 * 1024);
    free(text);
    rig_remove(&rig);
}

/* ---- the cleaner, in a whole node ---------------------------------------------------
 */

static void append_versions(struct partition *partition, int from, int end)
{
    for (int i = from; i < end; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "k%d\tversion %d\n", i % 3, i);
        assert_int_equal(node_append(partition, line, NULL), 0);
    }
}

static int64_t wait_for_rewrite(struct partition *partition, uint64_t before)
{
    struct partition_status status = {0};
    for (int i = 0; i < 2000; i++) {
        partition_status_get(partition, &status);
        if (status.rewrites > before)
            return status.size_bytes;
        (void)usleep(5000);
    }
    fail_msg("not compacted within ten seconds");
    return -1;
}

static void test_the_cleaner(void **state)
{
    static const char settings[] = "{\"cleanup_policy\":\"delete,compact\",\"segment_"
                                   "bytes\":1024,\"flush\":\"os\"}";
    (void)state;
    struct node node;
    char command[256];
    node_make(&node);
    node_start(&node);
    struct partition *bad = node_topic(&node, "bad", settings);
    struct partition *good = node_topic(&node, "good", settings);
    append_versions(bad, 0, 20);
    append_versions(good, 0, 20);
    (void)snprintf(command, sizeof command, "%s/bad-0/00000000000000000000.log",
                   node.dir);
    int fd = open(command, O_RDWR);
    assert_int_equal(pwrite(fd, "X", 1, 5), 1);
    (void)close(fd);
    append_versions(bad, 20, 200);
    append_versions(good, 20, 200);
    int64_t size = wait_for_rewrite(good, 0);
    assert_true(size < 200 * (18 + 64));
    char *problems = NULL;
    for (int i = 0;
         i < 1000 && (!problems || !strstr(problems, "kind=compaction bad-0")); i++) {
        free(problems);
        problems = node_problems(&node);
        (void)usleep(5000);
    }
    assert_non_null(strstr(problems, "kind=compaction bad-0"));
    assert_null(strstr(problems, "good-0"));
    free(problems);
    struct partition_status status;
    partition_status_get(good, &status);
    char *before = node_read_all(good, NULL);
    assert_non_null(strstr(before, "k1\tversion 199\n"));
    assert_null(strstr(before, "version 5\n"));
    partition_unref(good);
    partition_unref(bad);
    node_stop(&node);
    node_start(&node);
    good = node_partition(&node, "good", 0);
    char *after = node_read_all(good, NULL);
    assert_string_equal(before, after);
    free(before);
    free(after);
    struct produce_result result;
    assert_int_equal(node_append(good, "k0\tnew\n", &result), 0);
    assert_int_equal(result.base_offset, 200);
    partition_unref(good);
    node_stop(&node);
    FILE *report = tmpfile();
    assert_int_equal(check_data_directory(node.dir, true, report), CHECK_REPAIRED);
    assert_int_equal(check_data_directory(node.dir, false, report), CHECK_CLEAN);
    (void)fclose(report);
    /* Once repaired, the other one is compacted, too. */
    node_start(&node);
    bad = node_partition(&node, "bad", 0);
    (void)wait_for_rewrite(bad, 0);
    problems = node_problems(&node);
    assert_string_equal(problems, "");
    free(problems);
    partition_unref(bad);
    node_stop(&node);
    node_remove(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_workloads),
        cmocka_unit_test(test_only_below_the_high_watermark),
        cmocka_unit_test(test_views_from_before),
        cmocka_unit_test(test_tombstones_stay_for_a_day),
        cmocka_unit_test(test_a_tombstone_stays_with_what_it_deleted),
        cmocka_unit_test(test_epochs_can_be_read_as_before),
        cmocka_unit_test(test_a_copy_with_holes_is_not_compacted_yet),
        cmocka_unit_test(test_nothing_is_appended_to_what_compaction_wrote),
        cmocka_unit_test(test_producers_keep_their_sequence),
        cmocka_unit_test(test_a_crash_at_each_step),
        cmocka_unit_test(test_an_error_at_each_step),
        cmocka_unit_test(test_space_is_freed_later),
        cmocka_unit_test(test_damage_is_found_and_changes_nothing),
        cmocka_unit_test(test_many_rewrites_of_one_key_stay_small),
        cmocka_unit_test(test_the_cleaner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
