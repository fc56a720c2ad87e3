#include "tests/unit/support/log_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int64_t fixed_mono(const struct clock *clock)
{
    (void)clock;
    return 0;
}

static int64_t fixed_wall(const struct clock *clock)
{
    (void)clock;
    return 1700000000000;
}

void log_rig_make(struct log_rig *rig, uint64_t seed)
{
    *rig = (struct log_rig){.fake = fake_disk_new(seed),
                            .log_start_offset = -1,
                            .flushed_offset = -1,
                            .high_watermark = -1,
                            .log_end_offset = -1,
                            .now_ms = 1000};
    rig->clock = (struct clock){.mono_ns = fixed_mono, .wall_ms = fixed_wall};
    topic_config_defaults(&rig->config);
    rig->config.segment_bytes = 4096;
    const struct disk *disk = &rig->fake->disk;
    assert_int_equal(disk->ops->mkdir(disk, "data"), 0);
    assert_int_equal(disk->ops->flush_dir(disk, "data"), 0);
    rig->files = file_cache_new(disk, 6);
    assert_non_null(rig->files);
}

void log_rig_remove(struct log_rig *rig)
{
    log_rig_close(rig);
    log_rig_cut_model(rig, rig->first);
    free(rig->lines);
    file_cache_free(rig->files);
    fake_disk_free(rig->fake);
}

static void on_damage(void *arg, const struct log_damage *damage)
{
    struct log_rig *rig = arg;
    assert_true(damage->first_offset <= damage->end_offset);
    if (rig->damage_count < sizeof rig->damage / sizeof rig->damage[0])
        rig->damage[rig->damage_count++] = *damage;
}

int log_rig_open(struct log_rig *rig, enum log_recovery recovery)
{
    struct topic_id id = {.bytes = {1, 2, 3}};
    struct log_params params = {.disk = &rig->fake->disk,
                                .files = rig->files,
                                .clock = &rig->clock,
                                .dir = LOG_RIG_DIR,
                                .may_create = true,
                                .topic_id = id,
                                .config = &rig->config,
                                .recovery = recovery,
                                .log_start_offset = rig->log_start_offset,
                                .flushed_offset = rig->flushed_offset,
                                .high_watermark = rig->high_watermark,
                                .log_end_offset = rig->log_end_offset,
                                .on_damage = on_damage,
                                .arg = rig};
    rig->damage_count = 0;
    return log_open(&params, &rig->log);
}

void log_rig_close(struct log_rig *rig)
{
    log_close(rig->log);
    rig->log = NULL;
}

int64_t log_rig_end(const struct log_rig *rig)
{
    return rig->first + rig->count;
}

int64_t log_rig_stored_end(const struct log_rig *rig)
{
    struct log_bounds bounds;
    log_bounds_get(rig->log, &bounds);
    return bounds.end.offset;
}

static void add_line(struct log_rig *rig, const char *text, size_t length)
{
    rig->lines = realloc(rig->lines, (size_t)(rig->count + 1) * sizeof *rig->lines);
    assert_non_null(rig->lines);
    struct log_rig_line *line = &rig->lines[rig->count++];
    *line = (struct log_rig_line){.length = length, .timestamp_ms = rig->now_ms};
    line->text = malloc(length);
    assert_non_null(line->text);
    memcpy(line->text, text, length);
}

int log_rig_append(struct log_rig *rig, uint32_t lines, size_t max_length)
{
    char *text = malloc(lines * (max_length + 32));
    assert_non_null(text);
    size_t length = 0;
    rig->now_ms += (int64_t)fake_disk_random(rig->fake, 3);
    for (uint32_t i = 0; i < lines; i++) {
        size_t from = length;
        length +=
            (size_t)snprintf(text + length, 32, "%lld ", (long long)log_rig_end(rig));
        for (uint64_t n = fake_disk_random(rig->fake, max_length); n > 0; n--)
            text[length++] = (char)('a' + fake_disk_random(rig->fake, 26));
        text[length++] = '\n';
        add_line(rig, text + from, length - from);
    }
    struct batch batch = {.message_count = lines,
                          .length = (uint32_t)length,
                          .timestamp_ms = rig->now_ms,
                          .base_sequence = -1,
                          .producer_id = -1};
    int rc = log_append(rig->log, &batch, text);
    rig->last = batch;
    free(text);
    return rc;
}

int log_rig_flush(struct log_rig *rig)
{
    return log_flush(rig->log, &rig->flushed_offset);
}

void log_rig_cut_model(struct log_rig *rig, int64_t end)
{
    while (log_rig_end(rig) > end)
        free(rig->lines[--rig->count].text);
}

int log_rig_read_line(struct log_rig *rig, int64_t offset)
{
    struct log_bounds bounds;
    struct log_place place;
    struct extent extent;
    log_bounds_get(rig->log, &bounds);
    int rc = log_find_offset(rig->log, offset, &bounds.end, &place);
    if (rc != 0)
        return rc;
    assert_int_equal(place.offset, offset);
    const struct log_rig_line *line = &rig->lines[offset - rig->first];
    rc = log_read(rig->log, place.position, line->length, bounds.end.position,
                  bounds.rewrites, &extent);
    if (rc != 0)
        return rc;
    char *text = malloc(line->length);
    assert_non_null(text);
    assert_int_equal(extent.length, line->length);
    assert_int_equal(
        disk_read_all(&rig->fake->disk, extent.fd, text, extent.length, extent.at), 0);
    assert_memory_equal(text, line->text, line->length);
    free(text);
    extent_release(&extent);
    return 0;
}

static void check_scan(struct log_rig *rig, const struct log_bounds *bounds)
{
    char *text = malloc((size_t)(bounds->end.position - bounds->start.position) + 1);
    assert_non_null(text);
    int64_t position = bounds->start.position;
    char *to = text;
    while (position < bounds->end.position) {
        struct extent extent;
        assert_int_equal(log_read(rig->log, position, 1000, bounds->end.position,
                                  bounds->rewrites, &extent),
                         0);
        assert_true(extent.length > 0);
        assert_int_equal(
            disk_read_all(&rig->fake->disk, extent.fd, to, extent.length, extent.at),
            0);
        to += extent.length;
        position += (int64_t)extent.length;
        extent_release(&extent);
    }
    const char *from = text;
    for (int64_t i = bounds->start.offset; i < bounds->end.offset; i++) {
        const struct log_rig_line *line = &rig->lines[i - rig->first];
        assert_true(from + line->length <= to);
        assert_memory_equal(from, line->text, line->length);
        from += line->length;
    }
    assert_ptr_equal(from, to);
    free(text);
}

void log_rig_check(struct log_rig *rig)
{
    struct log_bounds bounds;
    log_bounds_get(rig->log, &bounds);
    assert_int_equal(bounds.end.offset, log_rig_end(rig));
    check_scan(rig, &bounds);
    for (int64_t i = bounds.start.offset; i < bounds.end.offset; i++)
        assert_int_equal(log_rig_read_line(rig, i), 0);
}
