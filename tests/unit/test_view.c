#include "fs/view.h"

#include "tests/unit/support/node.h"
#include "tests/unit/support/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct node node;
    struct partition *partition;
};

static struct fixture *make(const char *settings)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    node_make(&f->node);
    node_start(&f->node);
    f->partition = node_topic(&f->node, "t", settings);
    return f;
}

static void end(struct fixture *f)
{
    partition_unref(f->partition);
    node_stop(&f->node);
    node_remove(&f->node);
    free(f);
}

static int64_t now_ms(struct fixture *f)
{
    const struct clock *clock = &f->node.clock.clock;
    return clock->wall_ms(clock);
}

static int try_open(struct fixture *f, const char *name, struct view **view)
{
    struct where where;
    assert_int_equal(where_parse(name, &where), 0);
    return view_open(f->partition, &where, now_ms(f), view);
}

static struct view *open_at(struct fixture *f, const char *name)
{
    struct view *view = NULL;
    assert_int_equal(try_open(f, name, &view), 0);
    return view;
}

static int64_t size_of(struct view *view)
{
    int64_t size = -1;
    assert_int_equal(view_size(view, &size), 0);
    return size;
}

static void assert_read(struct view *view, int64_t at, size_t size, const char *want)
{
    struct record record;
    record_init(&record);
    view_read(view, &record.reply, at, size);
    record_wait(&record);
    assert_int_equal(record.error, 0);
    assert_non_null(record.bytes);
    assert_string_equal(record.bytes, want);
    record_end(&record);
}

static int read_error(struct view *view, int64_t at, size_t size)
{
    struct record record;
    int error;
    record_init(&record);
    view_read(view, &record.reply, at, size);
    record_wait(&record);
    error = record.error;
    record_end(&record);
    return error;
}

static void append(struct fixture *f, const char *lines)
{
    assert_int_equal(node_append(f->partition, lines, NULL), 0);
}

static void places(void **state)
{
    static const struct {
        const char *name;
        const char *want;
    } cases[] = {
        {"0", "a\nbb\nccc\ndddd\n"},
        {"2", "ccc\ndddd\n"},
        {"4", ""},
        {"1-2", "bb\nccc\n"},
        {"3-3", "dddd\n"},
        {"2-9", "ccc\ndddd\n"},
        {"4-9", ""},
        {"last1", "dddd\n"},
        {"-2", "ccc\ndddd\n"},
        {"last0", ""},
        {"last99", "a\nbb\nccc\ndddd\n"},
        {"earliest", "a\nbb\nccc\ndddd\n"},
        {"latest", ""},
        {"last1h", "a\nbb\nccc\ndddd\n"},
        {"@0", "a\nbb\nccc\ndddd\n"},
        {"2001-01-01T00:00:00Z", "a\nbb\nccc\ndddd\n"},
        {"9", ""},
        {"@9999999999", ""},
    };
    struct fixture *f = make("{\"flush\":\"os\"}");
    (void)state;
    append(f, "a\nbb\n");
    append(f, "ccc\ndddd\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct view *view = open_at(f, cases[i].name);
        print_message("%s\n", cases[i].name);
        assert_int_equal(size_of(view), strlen(cases[i].want));
        assert_read(view, 0, 1000, cases[i].want);
        assert_read(view, (int64_t)strlen(cases[i].want), 1000, "");
        assert_read(view, INT64_MAX, 1000, "");
        view_unref(view);
    }
    end(f);
}

static void parts_of_a_file(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\"}");
    struct view *view;
    (void)state;
    append(f, "a\nbb\nccc\n");
    view = open_at(f, "1");
    assert_read(view, 0, 2, "bb");
    assert_read(view, 2, 3, "\ncc");
    assert_read(view, 0, 0, "");
    assert_read(view, 7, 9, "");
    assert_int_equal(read_error(view, -1, 1), -EINVAL);
    view_unref(view);
    end(f);
}

static void grows_with_the_log(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\"}");
    struct view *log = NULL;
    struct view *latest;
    struct view *range;
    (void)state;
    assert_int_equal(view_open(f->partition, NULL, 0, &log), 0);
    latest = open_at(f, "latest");
    range = open_at(f, "0-1");
    assert_int_equal(size_of(log), 0);
    append(f, "a\n");
    assert_int_equal(size_of(log), 2);
    assert_read(latest, 0, 9, "a\n");
    assert_int_equal(size_of(range), 2);
    assert_false(view_ended(range));
    append(f, "b\nc\n");
    assert_int_equal(size_of(log), 6);
    assert_int_equal(size_of(range), 4);
    assert_true(view_ended(range));
    assert_read(range, 0, 9, "a\nb\n");
    assert_false(view_ended(log));
    view_unref(log);
    view_unref(latest);
    view_unref(range);
    end(f);
}

static void waits_for_an_offset_above_the_end(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\"}");
    struct view *view;
    struct view *range;
    (void)state;
    append(f, "a\n");
    view = open_at(f, "3");
    range = open_at(f, "2-3");
    assert_int_equal(view_base(view), -1);
    append(f, "b\n");
    assert_int_equal(size_of(view), 0);
    assert_read(view, 0, 9, "");
    append(f, "c\nd\ne\n");
    assert_int_equal(size_of(view), 4);
    assert_int_equal(view_base(view), 6);
    assert_read(view, 0, 9, "d\ne\n");
    assert_read(range, 0, 9, "c\nd\n");
    view_unref(view);
    view_unref(range);
    end(f);
}

static void waits_for_a_time_ahead(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\"}");
    char name[32];
    struct view *view;
    (void)state;
    append(f, "a\n");
    (void)snprintf(name, sizeof name, "@%lld", (long long)(now_ms(f) / 1000 + 2));
    view = open_at(f, name);
    append(f, "too early\n");
    assert_int_equal(size_of(view), 0);
    later_clock_add(&f->node.clock, 3000);
    append(f, "x\n");
    assert_int_equal(size_of(view), 2);
    assert_read(view, 0, 2, "x\n");
    view_unref(view);
    end(f);
}

/* Fills segments of 4 KiB: line n is its number and zeros, 64 bytes. */
static void fill(struct fixture *f, int from, int to)
{
    for (int n = from; n < to; n++) {
        char line[80];
        (void)snprintf(line, sizeof line, "%06d%057d\n", n, 0);
        append(f, line);
    }
}

static void across_segments(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\",\"segment_bytes\":4096}");
    struct view *view;
    char *got = malloc(64 * 1024);
    size_t length = 0;
    (void)state;
    fill(f, 0, 1000);
    view = open_at(f, "7-906");
    assert_int_equal(size_of(view), 900 * 64);
    assert_non_null(got);
    while (length < 900 * 64) {
        struct record record;
        record_init(&record);
        view_read(view, &record.reply, (int64_t)length, 20000);
        record_wait(&record);
        assert_int_equal(record.error, 0);
        assert_true(record.length > 4096);
        memcpy(got + length, record.bytes, record.length);
        length += record.length;
        record_end(&record);
    }
    assert_int_equal(length, 900 * 64);
    for (int n = 0; n < 900; n++) {
        char want[8];
        (void)snprintf(want, sizeof want, "%06d", n + 7);
        assert_memory_equal(got + n * 64, want, 6);
    }
    free(got);
    view_unref(view);
    end(f);
}

static void deleted_range_is_an_error(void **state)
{
    struct fixture *f =
        make("{\"flush\":\"os\",\"segment_bytes\":4096,\"retention_bytes\":8192}");
    struct partition_status status;
    struct view *log = NULL;
    struct view *none = NULL;
    int64_t size;
    (void)state;
    fill(f, 0, 2);
    assert_int_equal(view_open(f->partition, NULL, 0, &log), 0);
    fill(f, 2, 1000);
    size = size_of(log);
    later_clock_add(&f->node.clock, 5000);
    for (int i = 0; i < 2000; i++) {
        partition_status_get(f->partition, &status);
        if (status.start.offset > 500)
            break;
        (void)usleep(5000);
    }
    assert_true(status.start.offset > 500);
    assert_int_equal(size_of(log), size); /* tail must not see it shrink */
    assert_int_equal(read_error(log, 0, 100), E_OFFSET_BELOW_START);
    assert_read(log, 999 * 64, 6, "000999");
    assert_int_equal(try_open(f, "0", &none), E_OFFSET_BELOW_START);
    assert_null(none);
    view_unref(log);
    end(f);
}

static void deleted_topic_is_an_error(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\"}");
    struct view *view;
    struct view *none = NULL;
    int64_t size;
    char why[256];
    (void)state;
    append(f, "a\n");
    view = open_at(f, "0");
    assert_int_equal(cluster_delete_topic(f->node.cluster, "t", why, sizeof why), 0);
    assert_int_equal(view_size(view, &size), E_TOPIC_DELETED);
    assert_int_equal(read_error(view, 0, 9), E_TOPIC_DELETED);
    assert_int_equal(try_open(f, "0", &none), E_TOPIC_DELETED);
    view_unref(view);
    end(f);
}

/* Seven lines in segments of a few each; the node is restarted without one file. */
static struct fixture *without(const char *file)
{
    char path[256];
    char line[320];
    struct fixture *f = make("{\"segment_bytes\":1024}");
    for (int i = 0; i < 7; i++) {
        (void)snprintf(line, sizeof line, "%d%0300d\n", i, 0);
        assert_int_equal(node_append(f->partition, line, NULL), 0);
    }
    partition_unref(f->partition);
    node_stop(&f->node);
    (void)snprintf(path, sizeof path, "%s/t-0/%s", f->node.dir, file);
    assert_int_equal(unlink(path), 0);
    node_start(&f->node);
    f->partition = node_partition(&f->node, "t", 0);
    assert_non_null(f->partition);
    return f;
}

static void lost_last_index_hides_nothing_before_it(void **state)
{
    (void)state;
    struct fixture *f = without("00000000000000000006.index");
    struct view *view = open_at(f, "0-0");
    char want[320];
    (void)snprintf(want, sizeof want, "0%0300d\n", 0);
    assert_read(view, 0, 1000, want);
    view_unref(view);
    assert_int_equal(view_open(f->partition, NULL, now_ms(f), &view), 0);
    assert_read(view, 0, 302, want);
    assert_int_equal(read_error(view, 6 * 302, 302), E_DAMAGED);
    view_unref(view);
    end(f);
}

static void range_ends_before_a_damaged_segment(void **state)
{
    (void)state;
    struct fixture *f = without("00000000000000000003.index");
    char want[320];
    (void)snprintf(want, sizeof want, "2%0300d\n", 0);
    struct view *view = open_at(f, "2-2");
    assert_read(view, 0, 1000, want);
    assert_true(view_ended(view));
    view_unref(view);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),
        cmocka_unit_test(parts_of_a_file),
        cmocka_unit_test(grows_with_the_log),
        cmocka_unit_test(waits_for_an_offset_above_the_end),
        cmocka_unit_test(waits_for_a_time_ahead),
        cmocka_unit_test(across_segments),
        cmocka_unit_test(deleted_range_is_an_error),
        cmocka_unit_test(lost_last_index_hides_nothing_before_it),
        cmocka_unit_test(range_ends_before_a_damaged_segment),
        cmocka_unit_test(deleted_topic_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
