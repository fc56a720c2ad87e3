#include "fs/stream.h"

#include "tests/unit/support/node.h"
#include "tests/unit/support/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct node node;
    struct parking *parking;
    struct partition *partition;
};

static struct fixture *make(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    node_make(&f->node);
    node_start(&f->node);
    f->parking = parking_start(&clock_real);
    assert_non_null(f->parking);
    f->partition = node_topic(&f->node, "t", "{\"flush\":\"os\"}");
    return f;
}

static void end(struct fixture *f)
{
    parking_stop(f->parking);
    partition_unref(f->partition);
    node_stop(&f->node);
    node_remove(&f->node);
    free(f);
}

static struct stream *open_stream(struct fixture *f, const char *name,
                                  enum stream_format format)
{
    struct where where;
    struct view *view = NULL;
    struct stream *stream = NULL;
    assert_int_equal(where_parse(name, &where), 0);
    assert_int_equal(
        view_open(f->partition, &where, clock_real.wall_ms(&clock_real), &view), 0);
    assert_int_equal(stream_open(view, format, '\t', f->parking, &stream), 0);
    view_unref(view);
    return stream;
}

static void append(struct fixture *f, const char *lines)
{
    assert_int_equal(node_append(f->partition, lines, NULL), 0);
}

static void begin_read(struct stream *stream, struct record *record, int64_t at,
                       size_t size)
{
    record_init(record);
    stream_read(stream, &record->reply, at, size, false);
}

static void waits_for_messages(void **state)
{
    struct fixture *f = make();
    struct stream *stream = open_stream(f, "0", STREAM_TEXT);
    struct record record;
    (void)state;
    append(f, "a\n");
    begin_read(stream, &record, 0, 100);
    record_expect_bytes(&record, "a\n");
    begin_read(stream, &record, 2, 100);
    assert_false(record_wait_ms(&record, 20));
    append(f, "b\nc\n");
    record_expect_bytes(&record, "b\nc\n");
    begin_read(stream, &record, 1, 3); /* back */
    record_expect_bytes(&record, "\nb\n");
    stream_close(stream);
    end(f);
}

static void waits_for_an_offset(void **state)
{
    struct fixture *f = make();
    struct stream *stream = open_stream(f, "3", STREAM_TEXT);
    struct record record;
    (void)state;
    begin_read(stream, &record, 0, 100);
    append(f, "a\n");
    append(f, "b\nc\n");
    assert_false(record_wait_ms(&record, 10));
    append(f, "d\n");
    record_expect_bytes(&record, "d\n");
    stream_close(stream);
    end(f);
}

static void several_reads_wait(void **state)
{
    struct fixture *f = make();
    struct stream *stream = open_stream(f, "latest", STREAM_TEXT);
    struct record records[5];
    (void)state;
    for (int i = 0; i < 5; i++)
        begin_read(stream, &records[i], i == 4 ? 2 : 0, 100);
    record_interrupt(&records[1]);
    record_expect_error(&records[1], -EINTR);
    append(f, "a\n");
    record_expect_bytes(&records[0], "a\n");
    record_expect_bytes(&records[2], "a\n");
    record_expect_bytes(&records[3], "a\n");
    assert_false(record_wait_ms(&records[4], 10));
    stream_close(stream);
    record_expect_error(&records[4], -ENOTCONN);
    end(f);
}

static void nonblocking(void **state)
{
    struct fixture *f = make();
    struct stream *stream = open_stream(f, "0", STREAM_TEXT);
    struct record record;
    (void)state;
    record_init(&record);
    stream_read(stream, &record.reply, 0, 10, true);
    record_expect_error(&record, -EAGAIN);
    begin_read(stream, &record, -1, 10);
    record_expect_error(&record, -EINVAL);
    begin_read(stream, &record, 0, 0);
    record_expect_bytes(&record, "");
    stream_close(stream);
    end(f);
}

static void range_ends(void **state)
{
    struct fixture *f = make();
    struct stream *text = open_stream(f, "1-2", STREAM_TEXT);
    struct stream *json = open_stream(f, "1-2", STREAM_JSON);
    struct record record;
    struct record end_record;
    (void)state;
    begin_read(text, &record, 0, 100);
    append(f, "a\nb\n");
    record_expect_bytes(&record, "b\n");
    begin_read(text, &record, 2, 100);
    begin_read(text, &end_record, 4, 100);
    assert_false(record_wait_ms(&record, 10));
    append(f, "c\nd\n");
    record_expect_bytes(&record, "c\n");
    record_expect_bytes(&end_record, "");
    begin_read(json, &record, 0, 1000);
    record_wait(&record);
    assert_int_equal(record.error, 0);
    assert_non_null(strstr(record.bytes, "{\"offset\":1,"));
    assert_non_null(strstr(record.bytes, "{\"offset\":2,"));
    assert_null(strstr(record.bytes, "{\"offset\":3,"));
    begin_read(json, &end_record, (int64_t)record.length, 1000);
    record_end(&record);
    record_expect_bytes(&end_record, "");
    stream_close(text);
    stream_close(json);
    end(f);
}

static void deleted_topic_ends_reads(void **state)
{
    struct fixture *f = make();
    struct stream *stream = open_stream(f, "0", STREAM_TEXT);
    struct record record;
    char why[256];
    (void)state;
    begin_read(stream, &record, 0, 100);
    assert_int_equal(cluster_delete_topic(f->node.cluster, "t", why, sizeof why), 0);
    record_expect_error(&record, E_TOPIC_DELETED);
    stream_close(stream);
    end(f);
}

static void drain_answers(void **state)
{
    struct fixture *f = make();
    struct stream *stream = open_stream(f, "0", STREAM_JSON);
    struct record record;
    (void)state;
    begin_read(stream, &record, 0, 100);
    assert_false(record_answered(&record));
    parking_drain(f->parking);
    record_expect_error(&record, -ENOTCONN);
    stream_close(stream);
    end(f);
}

/* Reads n bytes from `at` on, in pieces. */
static char *read_n(struct stream *stream, int64_t at, size_t n, size_t piece)
{
    char *bytes = malloc(n + 1);
    size_t length = 0;
    assert_non_null(bytes);
    while (length < n) {
        struct record record;
        size_t want = n - length < piece ? n - length : piece;
        begin_read(stream, &record, at + (int64_t)length, want);
        record_wait(&record);
        assert_int_equal(record.error, 0);
        assert_true(record.length > 0 && record.length <= want);
        memcpy(bytes + length, record.bytes, record.length);
        length += record.length;
        record_end(&record);
    }
    bytes[n] = '\0';
    return bytes;
}

enum { MESSAGES = 9000 };

static void fill(struct fixture *f)
{
    struct buf lines;
    buf_init(&lines, 1 << 20);
    for (int i = 0; i < MESSAGES; i++) {
        (void)buf_printf(&lines, "k%d\tvalue \"%d\"\n", i % 10, i);
        if (i % 50 == 49) {
            append(f, lines.data);
            buf_clear(&lines);
        }
    }
    buf_free(&lines);
}

/* From the middle of a batch on; any way of reading and seeking gives the same bytes.
 */
static void json_is_a_file(void **state)
{
    static const int64_t seeks[] = {600000, 599000, 300000, 10, 0, 550000, 123456};
    struct fixture *f = make();
    struct stream *stream;
    char *all;
    const char *at;
    size_t n = 620000;
    (void)state;
    fill(f);
    stream = open_stream(f, "70", STREAM_JSON);
    all = read_n(stream, 0, n, 131072);
    at = all;
    for (int i = 70; i < 8000; i++) {
        char head[64];
        char tail[64];
        const char *newline = strchr(at, '\n');
        (void)snprintf(head, sizeof head, "{\"offset\":%d,\"timestamp\":", i);
        (void)snprintf(tail, sizeof tail,
                       ",\"key\":\"k%d\",\"value\":\"value \\\"%d\\\"\"}", i % 10, i);
        assert_non_null(newline);
        assert_memory_equal(at, head, strlen(head));
        assert_memory_equal(newline - strlen(tail), tail, strlen(tail));
        at = newline + 1;
    }
    for (size_t i = 0; i < sizeof seeks / sizeof seeks[0]; i++) {
        char *part = read_n(stream, seeks[i], 20000, 7000);
        assert_memory_equal(part, all + seeks[i], 20000);
        free(part);
    }
    free(all);
    stream_close(stream);
    end(f);
}

struct notify {
    struct stream_notify base;
    atomic_int *fired;
    atomic_int *freed;
};

static void notify_free(struct stream_notify *base)
{
    struct notify *notify = (struct notify *)base;
    atomic_fetch_add(notify->freed, 1);
    free(notify);
}

static void notify_fire(struct stream_notify *base)
{
    struct notify *notify = (struct notify *)base;
    atomic_fetch_add(notify->fired, 1);
    notify_free(base);
}

static struct stream_notify *notify_new(atomic_int *fired, atomic_int *freed)
{
    struct notify *notify = malloc(sizeof *notify);
    assert_non_null(notify);
    notify->base = (struct stream_notify){.fire = notify_fire, .free = notify_free};
    notify->fired = fired;
    notify->freed = freed;
    return &notify->base;
}

static void poll_tells(void **state)
{
    for (int format = STREAM_TEXT; format <= STREAM_JSON; format++) {
        struct fixture *f = make();
        struct stream *stream = open_stream(f, "0", (enum stream_format)format);
        atomic_int fired = 0;
        atomic_int freed = 0;
        struct record record;
        (void)state;
        assert_false(stream_poll(stream, NULL));
        assert_false(stream_poll(stream, notify_new(&fired, &freed)));
        assert_false(stream_poll(stream, notify_new(&fired, &freed)));
        assert_int_equal(fired, 0);
        assert_int_equal(freed, 1);
        append(f, "a\n");
        assert_int_equal(fired, 1);
        assert_true(stream_poll(stream, NULL));
        begin_read(stream, &record, 0, 1000);
        record_wait(&record);
        record_end(&record);
        assert_false(stream_poll(stream, notify_new(&fired, &freed)));
        append(f, "b\n");
        assert_int_equal(fired, 2);
        /* Of what comes behind what is there it tells, too: some ask only once. */
        assert_true(stream_poll(stream, notify_new(&fired, &freed)));
        assert_int_equal(fired, 2);
        append(f, "c\n");
        assert_int_equal(fired, 3);
        assert_true(stream_poll(stream, notify_new(&fired, &freed)));
        stream_close(stream);
        assert_int_equal(fired, 3);
        assert_int_equal(freed, 5);
        end(f);
    }
}

enum { READERS = 4, LINES = 300 };

struct reader {
    struct stream *stream;
    bool interrupt;
};

/* Follows until all lines have come; interrupts its own reads now and then. */
static void *follow(void *arg)
{
    struct reader *reader = arg;
    int64_t at = 0;
    int lines = 0;
    while (lines < LINES) {
        struct record record;
        begin_read(reader->stream, &record, at, 64);
        if (reader->interrupt)
            record_interrupt(&record);
        record_wait(&record);
        for (size_t i = 0; record.error == 0 && i < record.length; i++)
            lines += record.bytes[i] == '\n';
        at += record.error == 0 ? (int64_t)record.length : 0;
        record_end(&record);
    }
    return NULL;
}

static void many_follow(void **state)
{
    struct fixture *f = make();
    struct stream *shared = open_stream(f, "0", STREAM_TEXT);
    struct stream *json = open_stream(f, "0", STREAM_JSON);
    struct reader readers[READERS] = {
        {shared, false}, {shared, true}, {json, true}, {json, false}};
    pthread_t threads[READERS];
    (void)state;
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, follow, &readers[i]), 0);
    for (int i = 0; i < LINES; i++)
        append(f, "0123456789\n");
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    stream_close(shared);
    stream_close(json);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_messages),
        cmocka_unit_test(waits_for_an_offset),
        cmocka_unit_test(several_reads_wait),
        cmocka_unit_test(nonblocking),
        cmocka_unit_test(range_ends),
        cmocka_unit_test(deleted_topic_ends_reads),
        cmocka_unit_test(drain_answers),
        cmocka_unit_test(json_is_a_file),
        cmocka_unit_test(poll_tells),
        cmocka_unit_test(many_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
