#include "fs/appender.h"

#include "tests/unit/support/node.h"
#include "tests/unit/support/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

/* The flush of logs can be held up, so that a write stays on its way. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_opened = PTHREAD_COND_INITIALIZER;
static bool gate_closed;

static bool is_of_a_log(int fd)
{
    char link[64];
    char path[256];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return strstr(path, "/t-") != NULL;
}

int fdatasync(int fd)
{
    bool held = is_of_a_log(fd);
    pthread_mutex_lock(&gate_lock);
    while (held && gate_closed)
        pthread_cond_wait(&gate_opened, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
    return (int)syscall(SYS_fdatasync, fd);
}

static void gate(bool closed)
{
    pthread_mutex_lock(&gate_lock);
    gate_closed = closed;
    pthread_cond_broadcast(&gate_opened);
    pthread_mutex_unlock(&gate_lock);
}

struct fixture {
    struct node node;
    struct parking *parking;
    struct partition *partition; /* of topic t */
    struct appender *appender;
    _Atomic uint32_t rotation;
};

static struct fixture *make(const char *settings, bool by_key)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct appender_params params;
    assert_non_null(f);
    node_make(&f->node);
    node_start(&f->node);
    f->parking = parking_start(&clock_real);
    assert_non_null(f->parking);
    f->partition = node_topic(&f->node, "t", settings);
    params = (struct appender_params){
        .cluster = f->node.cluster,
        .broker = f->node.broker,
        .parking = f->parking,
        .topic_id = node_topic_id(&f->node, "t"),
        .partition = by_key ? -1 : 0,
        .rotation = &f->rotation,
    };
    assert_int_equal(appender_open(&params, &f->appender), 0);
    return f;
}

static void end(struct fixture *f)
{
    gate(false);
    if (f->appender != NULL)
        appender_release(f->appender, NULL);
    parking_stop(f->parking);
    partition_unref(f->partition);
    node_stop(&f->node);
    node_remove(&f->node);
    free(f);
}

static void begin_write(struct fixture *f, struct record *record, const char *text,
                        uint64_t owner)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    record_init(record);
    appender_write(f->appender, &record->reply, copy, strlen(text), owner);
    memset(copy, 'X', strlen(text)); /* borrowed no longer */
    free(copy);
}

static long put(struct fixture *f, const char *text)
{
    struct record record;
    begin_write(f, &record, text, 1);
    return record_result(&record);
}

static long flush(struct fixture *f, uint64_t owner)
{
    struct record record;
    record_init(&record);
    appender_flush(f->appender, &record.reply, owner);
    return record_result(&record);
}

static void assert_log(struct fixture *f, const char *want)
{
    char *text = node_read_all(f->partition, NULL);
    assert_string_equal(text, want);
    free(text);
}

static void writes_and_parts(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\"}", false);
    (void)state;
    assert_int_equal(put(f, "one\ntwo\n"), 8);
    assert_log(f, "one\ntwo\n");
    assert_int_equal(put(f, "ab"), 2);
    assert_int_equal(put(f, "cd"), 2);
    assert_log(f, "one\ntwo\n");
    assert_int_equal(put(f, "ef\ng"), 4);
    assert_log(f, "one\ntwo\nabcdef\n");
    assert_int_equal(flush(f, 2), 0);
    assert_log(f, "one\ntwo\nabcdef\n");
    assert_int_equal(flush(f, 1), 0);
    assert_log(f, "one\ntwo\nabcdef\ng\n");
    assert_int_equal(flush(f, 1), 0);
    assert_int_equal(put(f, "\n"), 1);
    assert_int_equal(put(f, ""), 0);
    assert_log(f, "one\ntwo\nabcdef\ng\n\n");
    end(f);
}

static void one_write_is_one_batch(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\"}", false);
    struct batch batch;
    (void)state;
    assert_int_equal(put(f, "a"), 1);
    assert_int_equal(put(f, "b\nc\nd\ne"), 7);
    assert_int_equal(partition_batch_at(f->partition, 0, 0, &batch), 0);
    assert_int_equal(batch.message_count, 3);
    assert_int_equal(batch.length, 7);
    end(f);
}

static void release_completes(void **state)
{
    struct fixture *f = make(NULL, false);
    struct record record;
    (void)state;
    assert_int_equal(put(f, "last words"), 10);
    record_init(&record);
    appender_release(f->appender, &record.reply);
    f->appender = NULL;
    assert_int_equal(record_result(&record), 0);
    assert_log(f, "last words\n");
    end(f);
}

static void long_lines(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\",\"max_message_bytes\":10}", false);
    (void)state;
    assert_int_equal(put(f, "ok\nxxxxxxxxxxx\nafter\n"), 3);
    assert_int_equal(put(f, "xxxxxxxxxxx\nafter\n"), E_MESSAGE_TOO_LARGE);
    assert_int_equal(put(f, "next\n"), 5);
    assert_int_equal(put(f, "yyyyyyyy"), 8);
    assert_int_equal(put(f, "yyyyyyyy"), E_MESSAGE_TOO_LARGE);
    assert_int_equal(put(f, "yyyyyyyy"), E_MESSAGE_TOO_LARGE);
    assert_int_equal(put(f, "yyy\nmore\n"), 9);
    assert_int_equal(put(f, "zzzzzzzz"), 8);
    assert_int_equal(put(f, "zzz\n"), E_MESSAGE_TOO_LARGE);
    assert_int_equal(put(f, "zzz\n"), E_MESSAGE_TOO_LARGE);
    assert_int_equal(put(f, "zzzzzzzzzzzz"), E_MESSAGE_TOO_LARGE);
    assert_int_equal(flush(f, 1), 0); /* the refused line ends, too */
    assert_int_equal(put(f, "1234567890\n"), 11);
    assert_log(f, "ok\nnext\nmore\n1234567890\n");
    end(f);
}

/* A write that fails with nothing appended leaves everything as it was. */
static void failed_write_keeps_the_part(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\",\"acks\":1}", false);
    (void)state;
    assert_int_equal(put(f, "ab"), 2);
    broker_interrupt_waiters(f->node.broker); /* appends fail from here on */
    assert_true(put(f, "c\n") < 0);
    assert_true(put(f, "c\n") < 0);
    assert_true(flush(f, 1) < 0);
    assert_int_equal(flush(f, 1), 0); /* told once, then it is gone */
    end(f);
}

static void interrupted_and_sent_again(void **state)
{
    struct fixture *f = make(NULL, false);
    struct record record;
    (void)state;
    assert_int_equal(put(f, "ab"), 2);
    for (int round = 0; round < 2; round++) {
        gate(true);
        begin_write(f, &record, "c\nde\nf", 1);
        assert_false(record_answered(&record));
        record_interrupt(&record);
        assert_false(record_wait_ms(&record, 100));
        assert_int_equal(record_result(&record), -EINTR);
    }
    begin_write(f, &record, "c\nde\nf", 1);
    assert_false(record_wait_ms(&record, 20));
    gate(false);
    assert_int_equal(record_result(&record), 6);
    assert_int_equal(put(f, "g\n"), 2);
    assert_log(f, "abc\nde\nfg\n");
    /* The same once more is a new message. */
    assert_int_equal(put(f, "g\n"), 2);
    assert_log(f, "abc\nde\nfg\ng\n");
    end(f);
}

static void interrupted_and_committed_in_time(void **state)
{
    struct fixture *f = make(NULL, false);
    struct record record;
    (void)state;
    gate(true);
    begin_write(f, &record, "a\n", 1);
    record_interrupt(&record);
    gate(false);
    assert_int_equal(record_result(&record), 2);
    assert_int_equal(put(f, "a\n"), 2);
    assert_log(f, "a\na\n");
    end(f);
}

static void interrupted_then_something_else(void **state)
{
    struct fixture *f = make(NULL, false);
    struct record record;
    (void)state;
    assert_int_equal(put(f, "ab"), 2);
    gate(true);
    begin_write(f, &record, "c\nf", 1);
    record_interrupt(&record);
    assert_int_equal(record_result(&record), -EINTR);
    gate(false);
    /* "f" belongs to the write that failed. */
    assert_int_equal(put(f, "x\n"), 2);
    assert_int_equal(put(f, "c\nf"), 3);
    assert_int_equal(flush(f, 1), 0);
    assert_log(f, "abc\nx\nc\nf\n");
    end(f);
}

static void several_on_their_way(void **state)
{
    struct fixture *f = make(NULL, false);
    struct record records[3];
    struct record flushed;
    (void)state;
    gate(true);
    begin_write(f, &records[0], "a\nb", 1);
    begin_write(f, &records[1], "c\nd", 1);
    record_init(&flushed);
    appender_flush(f->appender, &flushed.reply, 1);
    begin_write(f, &records[2], "e\n", 1);
    assert_false(record_answered(&records[0]));
    record_interrupt(&records[0]);
    assert_int_equal(record_result(&records[0]), -EINTR);
    gate(false);
    assert_int_equal(record_result(&records[1]), 3);
    assert_int_equal(record_result(&records[2]), 2);
    assert_int_equal(record_result(&flushed), 0);
    assert_log(f, "a\nbc\nd\ne\n");
    end(f);
}

static void give_time(struct fixture *f, int64_t ms)
{
    char settings[64];
    char why[256];
    (void)snprintf(settings, sizeof settings, "{\"delivery_timeout_ms\":%lld}",
                   (long long)ms);
    cJSON *json = cJSON_Parse(settings);
    assert_int_equal(cluster_set_config(f->node.cluster, "t", json, why, sizeof why),
                     0);
    cJSON_Delete(json);
}

/* The disk does not answer, and the time is over. */
static void write_in_vain(struct fixture *f, const char *text)
{
    struct record record;
    give_time(f, 100);
    gate(true);
    begin_write(f, &record, text, 1);
    assert_int_equal(record_result(&record), E_COMMIT_TIMEOUT);
    give_time(f, 10000);
}

static void deadline(void **state)
{
    struct fixture *f = make(NULL, false);
    struct record record;
    (void)state;
    write_in_vain(f, "a\nb");
    begin_write(f, &record, "a\nb", 1);
    gate(false);
    assert_int_equal(record_result(&record), 3); /* the same, not once more */
    write_in_vain(f, "b\nd");
    gate(false);
    assert_int_equal(put(f, "c\n"), 2);
    assert_log(f, "a\nbb\nc\n");
    end(f);
}

static void stop_answers(void **state)
{
    struct fixture *f = make(NULL, false);
    struct record record;
    (void)state;
    gate(true);
    begin_write(f, &record, "a\n", 1);
    assert_false(record_answered(&record));
    parking_drain(f->parking);
    assert_int_equal(record_result(&record), E_COMMIT_TIMEOUT);
    end(f);
}

static void fsync_waits_for_the_disk(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\"}", false);
    struct record record;
    (void)state;
    record_init(&record);
    appender_fsync(f->appender, &record.reply);
    assert_true(record_answered(&record));
    assert_int_equal(record_result(&record), 0);
    assert_int_equal(put(f, "a\nb"), 3);
    gate(true);
    record_init(&record);
    appender_fsync(f->appender, &record.reply);
    assert_false(record_wait_ms(&record, 30));
    gate(false);
    assert_int_equal(record_result(&record), 0);
    assert_log(f, "a\n");
    end(f);
}

static void deleted_topic(void **state)
{
    struct fixture *f = make("{\"flush\":\"os\"}", false);
    char why[256];
    (void)state;
    assert_int_equal(put(f, "a\nb"), 3);
    assert_int_equal(cluster_delete_topic(f->node.cluster, "t", why, sizeof why), 0);
    assert_int_equal(put(f, "c\n"), E_TOPIC_DELETED);
    assert_int_equal(flush(f, 1), E_TOPIC_DELETED);
    assert_int_equal(flush(f, 1), 0);
    end(f);
}

static char *read_partition(struct fixture *f, int32_t index)
{
    struct partition *partition = node_partition(&f->node, "t", index);
    char *text;
    assert_non_null(partition);
    text = node_read_all(partition, NULL);
    partition_unref(partition);
    return text;
}

static void by_key(void **state)
{
    struct fixture *f = make("{\"partitions\":3,\"flush\":\"os\"}", true);
    size_t total = 0;
    (void)state;
    assert_int_equal(put(f, "a\nb\n"), 4); /* no key: partition 0, then 1, then 2 */
    assert_int_equal(put(f, "c\n"), 2);
    assert_int_equal(put(f, "d"), 1);
    assert_int_equal(put(f, "e\nabc\t1\n21\t1\nabc\t2\n"), 19);
    for (int32_t p = 0; p < 3; p++) {
        char *text = read_partition(f, p);
        if (p == 0)
            assert_non_null(strstr(text, "a\nb\n"));
        if (p == 1)
            assert_non_null(strstr(text, "c\n"));
        if (p == 2)
            assert_non_null(strstr(text, "de\n"));
        assert_true((strstr(text, "abc\t1\n") != NULL) ==
                    (strstr(text, "abc\t2\n") != NULL));
        total += strlen(text);
        free(text);
    }
    assert_int_equal(total, 4 + 2 + 20);
    end(f);
}

static void by_key_is_all_or_nothing(void **state)
{
    struct fixture *f =
        make("{\"partitions\":3,\"flush\":\"os\",\"max_message_bytes\":10}", true);
    (void)state;
    assert_int_equal(put(f, "ab"), 2);
    assert_int_equal(put(f, "c\nk\t34567890123\n"), E_MESSAGE_TOO_LARGE);
    assert_int_equal(put(f, "c\n"), 2);
    for (int32_t p = 0; p < 3; p++) {
        char *text = read_partition(f, p);
        assert_true(text[0] == '\0' || strcmp(text, "abc\n") == 0);
        free(text);
    }
    end(f);
}

static void by_key_interrupted_and_sent_again(void **state)
{
    struct fixture *f = make("{\"partitions\":4}", true);
    static const char bytes[] = "abc\t1\n21\t1\nfoobar\t1\nno key\nta";
    struct record record;
    size_t total = 0;
    (void)state;
    gate(true);
    begin_write(f, &record, bytes, 1);
    record_interrupt(&record);
    assert_int_equal(record_result(&record), -EINTR);
    begin_write(f, &record, bytes, 1);
    gate(false);
    assert_int_equal(record_result(&record), sizeof bytes - 1);
    assert_int_equal(put(f, "il\n"), 3);
    record_init(&record);
    appender_fsync(f->appender, &record.reply);
    assert_int_equal(record_result(&record), 0);
    for (int32_t p = 0; p < 4; p++) {
        char *text = read_partition(f, p);
        total += strlen(text);
        free(text);
    }
    assert_int_equal(total, sizeof bytes - 1 + 3);
    end(f);
}

enum { WRITERS = 4, ROUNDS = 60 };

struct writer {
    struct fixture *fixture;
    int number;
};

/* Whole lines; every third write is interrupted and sent again until it is answered. */
static void *write_many(void *arg)
{
    struct writer *writer = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char line[32];
        int n = snprintf(line, sizeof line, "%d-%d\n", writer->number, i);
        for (bool done = false; !done;) {
            struct record record;
            record_init(&record);
            appender_write(writer->fixture->appender, &record.reply, line, (size_t)n,
                           (uint64_t)writer->number);
            if (i % 3 == 0)
                record_interrupt(&record);
            record_wait(&record);
            done = record.error == 0;
            record_end(&record);
        }
    }
    return NULL;
}

static void threads_share_an_open_file(void **state)
{
    struct fixture *f = make(NULL, false);
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    char *text;
    (void)state;
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){f, i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    text = node_read_all(f->partition, NULL);
    for (int w = 0; w < WRITERS; w++) {
        const char *at = text;
        for (int i = 0; i < ROUNDS; i++) {
            char line[32];
            (void)snprintf(line, sizeof line, "%d-%d\n", w, i);
            at = strstr(at, line);
            assert_non_null(at);
        }
    }
    free(text);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_parts),
        cmocka_unit_test(one_write_is_one_batch),
        cmocka_unit_test(release_completes),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(failed_write_keeps_the_part),
        cmocka_unit_test(interrupted_and_sent_again),
        cmocka_unit_test(interrupted_and_committed_in_time),
        cmocka_unit_test(interrupted_then_something_else),
        cmocka_unit_test(several_on_their_way),
        cmocka_unit_test(deadline),
        cmocka_unit_test(stop_answers),
        cmocka_unit_test(fsync_waits_for_the_disk),
        cmocka_unit_test(deleted_topic),
        cmocka_unit_test(by_key),
        cmocka_unit_test(by_key_is_all_or_nothing),
        cmocka_unit_test(by_key_interrupted_and_sent_again),
        cmocka_unit_test(threads_share_an_open_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
