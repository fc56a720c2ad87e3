#include "fs/group_history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* What was finished, as "partition:next_offset " for each call. */
struct finished {
    char text[256];
};

static void on_finished(void *arg, const struct group_chunk *chunk, int64_t next_offset)
{
    struct finished *finished = arg;
    size_t used = strlen(finished->text);
    (void)snprintf(finished->text + used, sizeof finished->text - used, "%d:%lld ",
                   chunk->partition, (long long)next_offset);
}

static void add(struct group_history *history, int32_t partition, int64_t first_offset,
                const char *text)
{
    struct group_chunk chunk = {
        .partition = partition, .generation = 7, .first_offset = first_offset};
    for (const char *at = text; *at != '\0'; at++)
        chunk.count += *at == '\n';
    chunk.next_offset = first_offset + chunk.count;
    assert_int_equal(buf_adds(group_history_bytes(history), text), 0);
    assert_int_equal(group_history_add(history, &chunk), 0);
}

static void assert_consumes(struct group_history *history, int64_t at,
                            const char *expected)
{
    struct finished finished = {""};
    group_history_consume(history, at, on_finished, &finished);
    assert_string_equal(finished.text, expected);
}

static void assert_reads(struct group_history *history, int64_t at, size_t size,
                         const char *expected)
{
    const char *bytes;
    size_t length;
    assert_int_equal(group_history_read(history, at, size, &bytes, &length), 0);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(bytes, expected, length);
}

static void assert_refuses(struct group_history *history, int64_t at, int code)
{
    const char *bytes;
    size_t length;
    assert_int_equal(group_history_read(history, at, 1, &bytes, &length), code);
}

/* As bash does it: a block, then back to behind the first line. */
static void test_line_by_line(void **state)
{
    struct group_history *history = group_history_new();
    (void)state;
    add(history, 2, 40, "one\ntwo\nthree\n");
    assert_consumes(history, 0, "");
    assert_reads(history, 0, 100, "one\ntwo\nthree\n");
    assert_consumes(history, 4, "2:41 ");
    assert_reads(history, 4, 100, "two\nthree\n");
    assert_refuses(history, 3, -ESTALE);
    assert_consumes(history, 8, "2:42 ");
    assert_consumes(history, 8, "");
    assert_reads(history, 8, 3, "thr");
    assert_consumes(history, 14, "2:43 ");
    assert_reads(history, 14, 100, "");
    assert_refuses(history, 15, -EINVAL);
    group_history_free(history);
}

/* As dash does it: byte by byte. A line counts when its newline was passed. */
static void test_byte_by_byte(void **state)
{
    struct group_history *history = group_history_new();
    (void)state;
    add(history, 0, 0, "ab\n\nc\n");
    assert_consumes(history, 1, "");
    assert_reads(history, 0, 1, "a"); /* the line that 1 is in can be read again */
    assert_consumes(history, 2, "");
    assert_consumes(history, 3, "0:1 ");
    assert_consumes(history, 4, "0:2 ");
    assert_refuses(history, 2, -ESTALE);
    assert_consumes(history, 6, "0:3 ");
    group_history_free(history);
}

static void test_several_chunks(void **state)
{
    struct group_history *history = group_history_new();
    (void)state;
    add(history, 0, 5, "a\nb\n");
    add(history, 1, 9, "c\n");
    add(history, 0, 7, "d\n");
    assert_reads(history, 2, 100, "b\nc\nd\n");
    assert_consumes(history, 7, "0:7 1:10 ");
    assert_reads(history, 6, 100, "d\n");
    assert_int_equal(group_history_start(history), 6);
    assert_consumes(history, 8, "0:8 ");
    assert_int_equal(group_history_start(history), 8);
    add(history, 1, 10, "e\n");
    assert_reads(history, 8, 100, "e\n");
    assert_int_equal(group_history_end(history), 10);
    group_history_free(history);
}

static void test_lost_between_lines(void **state)
{
    struct group_history *history = group_history_new();
    (void)state;
    add(history, 0, 0, "a\nb\nc\n");
    add(history, 1, 0, "x\ny\n");
    assert_consumes(history, 2, "0:1 ");
    group_history_lose(history, 0, 6); /* another grant */
    assert_reads(history, 2, 100, "b\nc\nx\ny\n");
    group_history_lose(history, 0, 7);
    assert_reads(history, 2, 100, "x\ny\n");
    assert_consumes(history, 4, "1:1 ");
    assert_reads(history, 4, 100, "y\n");
    assert_consumes(history, 6, "1:2 ");
    assert_int_equal(group_history_end(history), 6);
    group_history_free(history);
}

static void test_lost_within_a_line(void **state)
{
    struct group_history *history = group_history_new();
    (void)state;
    add(history, 0, 0, "first\nsecond\n");
    add(history, 1, 0, "x\n");
    assert_consumes(history, 2, "");
    group_history_lose(history, 0, 7);
    assert_reads(history, 2, 100, "rst\n");
    assert_consumes(history, 6, "");
    assert_reads(history, 6, 100, "x\n");
    assert_consumes(history, 8, "1:1 ");
    group_history_free(history);
}

static void test_lost_ahead(void **state)
{
    struct group_history *history = group_history_new();
    (void)state;
    add(history, 0, 0, "a\n");
    add(history, 1, 0, "lost\n");
    add(history, 0, 1, "b\n");
    group_history_lose(history, 1, 7);
    assert_reads(history, 0, 100, "a\n");
    assert_consumes(history, 2, "0:1 ");
    assert_reads(history, 2, 100, "b\n");
    assert_consumes(history, 4, "0:2 ");
    group_history_free(history);
}

static void test_undo(void **state)
{
    struct group_history *history = group_history_new();
    (void)state;
    add(history, 0, 0, "a\n");
    assert_int_equal(buf_adds(group_history_bytes(history), "half"), 0);
    group_history_undo(history);
    add(history, 0, 1, "b\n");
    assert_reads(history, 0, 100, "a\nb\n");
    group_history_free(history);
}

/* Many lines, read as bash does, give each line once and in order. */
static void test_many_lines(void **state)
{
    struct group_history *history = group_history_new();
    struct finished finished;
    int64_t at = 0;
    (void)state;
    for (int block = 0; block < 20; block++) {
        char text[4096] = "";
        for (int i = 0; i < 100; i++)
            (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d\n",
                           block * 100 + i);
        add(history, block % 3, block * 100, text);
        for (int i = 0; i < 100; i++) {
            const char *bytes;
            size_t length;
            char expected[16];
            finished.text[0] = '\0';
            group_history_consume(history, at, on_finished, &finished);
            assert_int_equal(group_history_read(history, at, 128, &bytes, &length), 0);
            (void)snprintf(expected, sizeof expected, "%d\n", block * 100 + i);
            assert_memory_equal(bytes, expected, strlen(expected));
            at += (int64_t)strlen(expected);
        }
    }
    group_history_free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_by_line),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_several_chunks),
        cmocka_unit_test(test_lost_between_lines),
        cmocka_unit_test(test_lost_within_a_line),
        cmocka_unit_test(test_lost_ahead),
        cmocka_unit_test(test_undo),
        cmocka_unit_test(test_many_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
