#include "replica/check.h"
#include "replica/checkpoint.h"
#include "replica/index.h"
#include "support/node.h"

#include "tests/unit/support/scratch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>
#include <xxhash.h>

/* Lines of 100 bytes, three per batch, in segments of about ten batches. */
enum { LINES = 90, LINE_BYTES = 100, PER_BATCH = 3 };

struct fixture {
    struct node node;
    char report[16384]; /* of the last check */
};

static void make_line(int n, char *line)
{
    memset(line, 'a' + n % 26, LINE_BYTES);
    int length = snprintf(line, LINE_BYTES, "line %d ", n);
    line[length] = '-';
    line[LINE_BYTES - 1] = '\n';
    line[LINE_BYTES] = '\0';
}

static void append_lines(struct partition *partition)
{
    for (int n = 0; n < LINES; n += PER_BATCH) {
        char lines[PER_BATCH * LINE_BYTES + 1];
        for (int i = 0; i < PER_BATCH; i++)
            make_line(n + i, lines + (ptrdiff_t)i * LINE_BYTES);
        assert_int_equal(node_append(partition, lines, NULL), 0);
    }
}

static int make(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct node *node = &fixture->node;
    node_make(node);
    node_start(node);
    struct partition *partition =
        node_topic(node, "t", "{\"segment_bytes\":3000,\"flush\":\"os\"}");
    append_lines(partition);
    partition_unref(partition);
    node_stop(node);
    *state = fixture;
    return 0;
}

static int drop(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->node.broker)
        node_stop(&fixture->node);
    node_remove(&fixture->node);
    free(fixture);
    return 0;
}

static int check(struct fixture *fixture, bool repair)
{
    FILE *out = fmemopen(fixture->report, sizeof fixture->report, "w");
    assert_non_null(out);
    memset(fixture->report, 0, sizeof fixture->report);
    int rc = check_data_directory(fixture->node.dir, repair, out);
    assert_int_equal(fclose(out), 0);
    return rc;
}

static void expect(struct fixture *fixture, bool repair, int result, const char *text)
{
    int rc = check(fixture, repair);
    if (rc != result || (text && !strstr(fixture->report, text)))
        fail_msg("check: %d, wanted %d and \"%s\":\n%s", rc, result, text ? text : "",
                 fixture->report);
}

static const char *path_of(const struct fixture *fixture, const char *file)
{
    static _Thread_local char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", fixture->node.dir, file);
    return path;
}

static void flip(const struct fixture *fixture, const char *file, off_t at, char mask)
{
    char byte;
    int fd = open(path_of(fixture, file), O_RDWR);
    assert_true(fd >= 0);
    if (at < 0)
        at += lseek(fd, 0, SEEK_END);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= mask;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

static off_t size_of(const struct fixture *fixture, const char *file)
{
    struct stat st;
    assert_int_equal(stat(path_of(fixture, file), &st), 0);
    return st.st_size;
}

static void cut(const struct fixture *fixture, const char *file, off_t size)
{
    if (size < 0)
        size += size_of(fixture, file);
    assert_int_equal(truncate(path_of(fixture, file), size), 0);
}

static void put(const struct fixture *fixture, const char *file, const char *bytes)
{
    FILE *out = fopen(path_of(fixture, file), "a");
    assert_non_null(out);
    assert_true(fputs(bytes, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

/* Repair, then a check that finds nothing. */
static void repair(struct fixture *fixture, const char *text)
{
    expect(fixture, false, CHECK_DAMAGED, text);
    expect(fixture, true, CHECK_REPAIRED, text);
    expect(fixture, false, CHECK_CLEAN, NULL);
    expect(fixture, true, CHECK_CLEAN, NULL);
}

/* Reads one message by its offset; "" if there is none, or what is there is another. */
static void read_offset(struct partition *partition, int64_t offset, char *line)
{
    struct log_place place;
    struct extent extent;
    struct partition_status status;
    line[0] = '\0';
    partition_status_get(partition, &status);
    if (partition_find_offset(partition, offset, &place) || place.offset != offset ||
        partition_read(partition, place.position, LINE_BYTES, status.rewrites, &extent))
        return;
    ssize_t n = extent.length ? pread(extent.fd, line, extent.length, extent.at) : 0;
    line[n > 0 ? n : 0] = '\0';
    char *newline = strchr(line, '\n');
    if (newline)
        newline[1] = '\0';
    extent_release(&extent);
}

/* All lines are at their offsets but [first, end); new ones go on at LINES. */
static void assert_kept_but(struct fixture *fixture, int first, int end)
{
    struct node *node = &fixture->node;
    node_start(node);
    /* After a crash it is opened while the node already answers. */
    struct partition *partition = node_partition(node, "t", 0);
    for (int i = 0; i < 2000 && !partition; i++) {
        (void)usleep(5000);
        partition = node_partition(node, "t", 0);
    }
    assert_non_null(partition);
    for (int n = 0; n < LINES; n++) {
        char wanted[LINE_BYTES + 1];
        char line[LINE_BYTES + 1];
        make_line(n, wanted);
        read_offset(partition, n, line);
        if (n < first || n >= end)
            assert_string_equal(line, wanted);
    }
    struct produce_result result;
    assert_int_equal(node_append(partition, "new\n", &result), 0);
    assert_int_equal(result.base_offset, LINES);
    partition_unref(partition);
    char *problems = node_problems(node);
    assert_string_equal(problems, "");
    free(problems);
    node_stop(node);
    expect(fixture, false, CHECK_CLEAN, NULL);
}

#define LOG(base)   "t-0/000000000000000000" base ".log"
#define INDEX(base) "t-0/000000000000000000" base ".index"

/* ---- nothing wrong ------------------------------------------------------------------
 */

static void test_clean(void **state)
{
    expect(*state, false, CHECK_CLEAN, "1 partitions, 3 segments, 90 messages");
    expect(*state, true, CHECK_CLEAN, "clean");
    assert_kept_but(*state, 0, 0);
}

static void test_check_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct stat before, after;
    assert_int_equal(stat(path_of(fixture, "running.json"), &before), 0);
    flip(fixture, INDEX("30"), 70, 1);
    expect(fixture, false, CHECK_DAMAGED, NULL);
    expect(fixture, false, CHECK_DAMAGED, NULL);
    assert_int_equal(stat(path_of(fixture, "running.json"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(access(path_of(fixture, "damaged"), F_OK), -1);
}

static void test_refusals(void **state)
{
    struct fixture *fixture = *state;
    char empty[64];
    scratch_make(empty, sizeof empty);
    assert_int_equal(check_data_directory("/nonexistent/dir", false, stdout), -ENOENT);
    assert_int_equal(check_data_directory("/nonexistent/dir", true, stdout), -ENOENT);
    assert_int_equal(check_data_directory(path_of(fixture, "lock"), false, stdout),
                     -ENOTDIR);
    FILE *out = fmemopen(fixture->report, sizeof fixture->report, "w");
    assert_int_equal(check_data_directory(empty, false, out), -EINVAL);
    (void)fclose(out);
    /* Somebody else's directory; what looks like a partition's name is not enough. */
    char other[80];
    (void)snprintf(other, sizeof other, "%s/dbus-1", empty);
    assert_int_equal(mkdir(other, 0700), 0);
    out = fmemopen(fixture->report, sizeof fixture->report, "w");
    assert_int_equal(check_data_directory(empty, false, out), -EINVAL);
    assert_int_equal(check_data_directory(empty, true, out), -EINVAL);
    (void)fclose(out);
    assert_int_equal(rmdir(other), 0);
    assert_int_equal(rmdir(empty), 0); /* nothing was made in it */
    node_start(&fixture->node);
    assert_int_equal(check(fixture, false), E_IN_USE);
    assert_int_equal(check(fixture, true), E_IN_USE);
    node_stop(&fixture->node);
    assert_int_equal(unlink(path_of(fixture, "meta.json")), 0);
    put(fixture, "meta.json",
        "{\"version\":2,\"instance\":\"00000000000000000000000000000000\"}");
    assert_int_equal(check(fixture, true), E_NEWER_FORMAT);
}

/* ---- the index ----------------------------------------------------------------------
 */

static void test_lost_index(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(unlink(path_of(fixture, INDEX("30"))), 0);
    repair(fixture, INDEX("30") ": the file is missing");
    assert_kept_but(fixture, 0, 0);
}

static void test_lost_last_index(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(unlink(path_of(fixture, INDEX("60"))), 0);
    repair(fixture, INDEX("60") ": the file is missing");
    assert_kept_but(fixture, 0, 0);
}

static void test_damaged_index(void **state)
{
    static const off_t places[] = {0, 20, 64, 64 + 4, 64 * 3 + 60, 64 * 10 + 63};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        flip(fixture, INDEX("30"), places[i], 0x10);
        repair(fixture, "00000000000000000030.");
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        flip(fixture, INDEX("60"), places[i], 0x10);
        repair(fixture, "00000000000000000060.");
    }
    assert_kept_but(fixture, 0, 0);
}

/* What verifies keeps its time; only the damaged entry is made anew. */
static void test_good_entries_stay(void **state)
{
    struct fixture *fixture = *state;
    uint8_t before[64 * 11];
    uint8_t after[64 * 11];
    int fd = open(path_of(fixture, INDEX("30")), O_RDONLY);
    assert_int_equal(pread(fd, before, sizeof before, 0), sizeof before);
    (void)close(fd);
    flip(fixture, INDEX("30"), 64 * 5 + 9, 1);
    repair(fixture, "offsets 42 to 44");
    fd = open(path_of(fixture, INDEX("30")), O_RDONLY);
    assert_int_equal(pread(fd, after, sizeof after, 0), sizeof after);
    (void)close(fd);
    assert_memory_equal(before, after, 64 * 5);
    assert_memory_equal(before + 64 * 6, after + 64 * 6, 64 * 5);
    assert_int_equal(access(path_of(fixture, "damaged/" INDEX("30")), F_OK), 0);
    struct batch batch;
    struct batch neighbour;
    assert_int_equal(index_entry_decode(after + 64 * 5, 30, &batch), 0);
    assert_int_equal(index_entry_decode(after + 64 * 4, 30, &neighbour), 0);
    assert_int_equal(batch.timestamp_ms, neighbour.timestamp_ms);
    assert_int_equal(batch.leader_epoch, neighbour.leader_epoch);
    assert_int_equal(batch.producer_id, -1);
    assert_kept_but(fixture, 0, 0);
}

static void test_shortened_index(void **state)
{
    struct fixture *fixture = *state;
    static const off_t sizes[] = {0, 10, 64, 64 * 4, -1, -64};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        cut(fixture, INDEX("30"), sizes[i]);
        repair(fixture, "00000000000000000030.");
        cut(fixture, INDEX("60"), sizes[i]);
        repair(fixture, "00000000000000000060.");
    }
    assert_kept_but(fixture, 0, 0);
}

static void test_bytes_behind_the_index(void **state)
{
    struct fixture *fixture = *state;
    put(fixture, INDEX("30"), "stray");
    put(fixture, INDEX("60"), "stray");
    repair(fixture, INDEX("30") ": 5 bytes behind the last entry");
    assert_kept_but(fixture, 0, 0);
}

/* ---- the text -----------------------------------------------------------------------
 */

static void test_one_flipped_bit_is_put_right(void **state)
{
    struct fixture *fixture = *state;
    flip(fixture, LOG("30"), 450, 4);
    flip(fixture, LOG("60"), -1, 4); /* the last newline */
    repair(fixture, "one bit of byte 450 is flipped");
    assert_kept_but(fixture, 0, 0);
}

static void test_damaged_text_is_kept(void **state)
{
    struct fixture *fixture = *state;
    flip(fixture, LOG("30"), 950, 3);
    repair(fixture, "do not match their checksum: offsets 39 to 41");
    assert_kept_but(fixture, 39, 40);
}

/* '\n' ^ 3 is '\t': two lines become one, so their batch has a line too few. */
static void test_lost_newline(void **state)
{
    struct fixture *fixture = *state;
    flip(fixture, LOG("30"), 999, 3);
    repair(fixture, "2 lines for 3 offsets from 39 on");
    assert_kept_but(fixture, 39, 42);
}

static void test_lost_newline_at_the_end_of_a_batch(void **state)
{
    struct fixture *fixture = *state;
    flip(fixture, LOG("30"), 1199, 3);
    repair(fixture, "do not match their checksum: offsets 39 to 41");
    assert_kept_but(fixture, 0, 0);
}

static void test_newline_too_many(void **state)
{
    struct fixture *fixture = *state;
    int fd = open(path_of(fixture, LOG("30")), O_RDWR);
    assert_int_equal(pwrite(fd, "\n\n\n", 3, 920), 3);
    (void)close(fd);
    repair(fixture, "6 lines for 3 offsets from 39 on");
    assert_kept_but(fixture, 39, 42);
}

static void test_shortened_text(void **state)
{
    struct fixture *fixture = *state;
    cut(fixture, LOG("30"), 2050);
    repair(fixture, "offsets 50 to 59 are lost");
    assert_kept_but(fixture, 50, 60);
}

static void test_shortened_last_text(void **state)
{
    struct fixture *fixture = *state;
    cut(fixture, LOG("60"), 2050);
    repair(fixture, "offsets 80 to 89 are lost");
    assert_kept_but(fixture, 80, 90);
}

static void test_lost_text(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(unlink(path_of(fixture, LOG("30"))), 0);
    repair(fixture, LOG("30") ": the file is missing");
    assert_kept_but(fixture, 30, 60);
}

static void test_lost_last_text(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(unlink(path_of(fixture, LOG("60"))), 0);
    repair(fixture, "offsets 60 to 89 are lost");
    assert_kept_but(fixture, 60, 90);
}

static void test_text_behind_the_last_batch(void **state)
{
    struct fixture *fixture = *state;
    put(fixture, LOG("00"), "whole\nhalf");
    repair(fixture, "1 lines for 0 offsets from 30 on");
    assert_kept_but(fixture, 0, 0);
}

/* ---- segments -----------------------------------------------------------------------
 */

static void lose(struct fixture *fixture, const char *log, const char *index)
{
    assert_int_equal(unlink(path_of(fixture, log)), 0);
    assert_int_equal(unlink(path_of(fixture, index)), 0);
}

static void test_lost_segments(void **state)
{
    struct fixture *fixture = *state;
    lose(fixture, LOG("30"), INDEX("30"));
    repair(fixture, "offsets 30 to 59 are lost");
    assert_kept_but(fixture, 30, 60);
}

static void test_lost_last_segment(void **state)
{
    struct fixture *fixture = *state;
    lose(fixture, LOG("60"), INDEX("60"));
    repair(fixture, "offsets 60 to 89 are lost");
    assert_kept_but(fixture, 60, 90);
}

static void test_lost_first_segment(void **state)
{
    struct fixture *fixture = *state;
    lose(fixture, LOG("00"), INDEX("00"));
    repair(fixture, "offsets 0 to 29 are lost");
    assert_kept_but(fixture, 0, 30);
}

static void test_foreign_segment(void **state)
{
    struct fixture *fixture = *state;
    uint8_t bytes[INDEX_HEADER_BYTES];
    struct index_header header;
    int fd = open(path_of(fixture, INDEX("30")), O_RDWR);
    assert_int_equal(pread(fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(index_header_decode(bytes, &header), 0);
    header.topic_id.bytes[0] ^= 1;
    index_header_encode(&header, bytes);
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    (void)close(fd);
    expect(fixture, false, CHECK_DAMAGED, "belongs to another topic");
    expect(fixture, true, CHECK_DAMAGED, "belongs to another topic");
    header.topic_id.bytes[0] ^= 1;
    header.base_offset = 31;
    index_header_encode(&header, bytes);
    fd = open(path_of(fixture, INDEX("30")), O_RDWR);
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    (void)close(fd);
    expect(fixture, true, CHECK_DAMAGED, "from offset 31 under a wrong name");
}

static void test_foreign_files(void **state)
{
    struct fixture *fixture = *state;
    put(fixture, "notes.txt", "x");
    put(fixture, "t-0/notes.txt", "x");
    expect(fixture, true, CHECK_CLEAN, "t-0/notes.txt: not a file of topicfs");
    expect(fixture, true, CHECK_CLEAN, "notes.txt: not a file");
}

/* What a node keeps beside its logs, some of it only as one of a cluster. */
static void test_own_directories(void **state)
{
    static const char *const names[] = {"observers", "carried",  "stray",  "deleted",
                                        "replaced",  "unusable", "damaged"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int rc = mkdir(path_of(fixture, names[i]), 0700);
        assert_true(rc == 0 || errno == EEXIST);
    }
    assert_int_equal(mkdir(path_of(fixture, "replaced/x"), 0700), 0);
    expect(fixture, true, CHECK_CLEAN, "replaced: 1 replicas that could not be used");
    assert_null(strstr(fixture->report, "not a file of topicfs"));
}

/* ---- the rest -----------------------------------------------------------------------
 */

/* What is damaged makes it recover, which goes on behind the start. */
static void start_and_stop(struct fixture *fixture)
{
    node_start(&fixture->node);
    for (int i = 0; i < 1000 && broker_is_opening(fixture->node.broker); i++)
        usleep(10000);
    node_stop(&fixture->node);
}

static void test_small_files(void **state)
{
    static const char *const names[] = {"meta.json", "running.json", "checkpoint"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < 3; i++) {
        for (int k = 0; k < 4; k++) {
            /* The marker is shorter where a start was ended while it recovered. */
            off_t last = size_of(fixture, names[i]) - 1;
            flip(fixture, names[i], last * k / 3, 0x10);
            repair(fixture, names[i]);
            start_and_stop(fixture);
        }
        cut(fixture, names[i], size_of(fixture, names[i]) / 2);
        repair(fixture, names[i]);
        start_and_stop(fixture);
        assert_int_equal(unlink(path_of(fixture, names[i])), 0);
        expect(fixture, false, CHECK_CLEAN, NULL);
        start_and_stop(fixture);
    }
    assert_kept_but(fixture, 0, 0);
}

static void test_store(void **state)
{
    struct fixture *fixture = *state;
    static const char *const copies[] = {"store/store.a", "store/store.b"};
    for (size_t i = 0; i < 2; i++) {
        flip(fixture, copies[i], 40, 1);
        repair(fixture, copies[i] + 6);
    }
    flip(fixture, copies[0], 40, 1);
    flip(fixture, copies[1], 40, 1);
    expect(fixture, true, CHECK_DAMAGED, "store");
}

static void test_producer_snapshot(void **state)
{
    struct fixture *fixture = *state;
    flip(fixture, "t-0/00000000000000000090.producers", 5, 1);
    repair(fixture, "the producer snapshot is damaged");
    assert_kept_but(fixture, 0, 0);
}

static void put_manifest(const struct fixture *fixture, bool good)
{
    /* No new segments, no old ones: a switch that has nothing left to do. */
    uint64_t words[4] = {0};
    memcpy(words, "TFSREPL1", 8);
    words[3] = XXH3_64bits(words, 24) + !good;
    assert_int_equal(
        disk_replace(&disk_real, path_of(fixture, "t-0/replace"), words, sizeof words),
        0);
}

static void test_interrupted_compaction(void **state)
{
    struct fixture *fixture = *state;
    put_manifest(fixture, true);
    repair(fixture, "t-0: a compaction was interrupted");
    put_manifest(fixture, false);
    expect(fixture, false, CHECK_DAMAGED, "a compaction was interrupted");
    expect(fixture, true, CHECK_DAMAGED, "a compaction was interrupted");
}

/* ---- after a crash ------------------------------------------------------------------
 */

static void crash(const struct fixture *fixture)
{
    assert_int_equal(unlink(path_of(fixture, "running.json")), 0);
    put(fixture, "running.json",
        "{\"boot_id\":\"00000000-0000-0000-0000-000000000000\",\"clean\":false}\n");
}

static void set_checkpoint(const struct fixture *fixture, int64_t flushed)
{
    struct checkpoint checkpoint = {0};
    struct buf bytes;
    assert_int_equal(
        checkpoint_read(&checkpoint, &disk_real, path_of(fixture, "checkpoint")), 0);
    checkpoint.entries[0].flushed_offset = flushed;
    checkpoint.entries[0].high_watermark = flushed;
    buf_init(&bytes, 1 << 16);
    assert_int_equal(checkpoint_encode(&checkpoint, &bytes), 0);
    assert_int_equal(disk_replace(&disk_real, path_of(fixture, "checkpoint"),
                                  bytes.data, bytes.length),
                     0);
    buf_free(&bytes);
    checkpoint_free(&checkpoint);
}

static void test_torn_tail_is_cut(void **state)
{
    struct fixture *fixture = *state;
    crash(fixture);
    set_checkpoint(fixture, 81);
    flip(fixture, INDEX("60"), 64 * 9 + 8, 1); /* the entry of offset 84 */
    repair(fixture, "a torn tail");
    assert_int_equal(size_of(fixture, LOG("60")), 2400);
    assert_int_equal(size_of(fixture, INDEX("60")), 64 * 9);
}

static void test_below_the_flushed_offset_nothing_is_cut(void **state)
{
    struct fixture *fixture = *state;
    crash(fixture);
    set_checkpoint(fixture, 90);
    flip(fixture, INDEX("60"), 64 * 9 + 8, 1);
    repair(fixture, "offsets 84 to 86");
    assert_kept_but(fixture, 0, 0);
}

static void test_half_a_line(void **state)
{
    struct fixture *fixture = *state;
    crash(fixture);
    put(fixture, LOG("60"), "half a li");
    repair(fixture, "torn");
    assert_kept_but(fixture, 0, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
    const struct CMUnitTest tests[] = {
        TEST(test_clean),
        TEST(test_check_changes_nothing),
        TEST(test_refusals),
        TEST(test_lost_index),
        TEST(test_lost_last_index),
        TEST(test_damaged_index),
        TEST(test_good_entries_stay),
        TEST(test_shortened_index),
        TEST(test_bytes_behind_the_index),
        TEST(test_one_flipped_bit_is_put_right),
        TEST(test_damaged_text_is_kept),
        TEST(test_lost_newline),
        TEST(test_lost_newline_at_the_end_of_a_batch),
        TEST(test_newline_too_many),
        TEST(test_shortened_text),
        TEST(test_shortened_last_text),
        TEST(test_lost_text),
        TEST(test_lost_last_text),
        TEST(test_text_behind_the_last_batch),
        TEST(test_lost_segments),
        TEST(test_lost_last_segment),
        TEST(test_lost_first_segment),
        TEST(test_foreign_segment),
        TEST(test_foreign_files),
        TEST(test_own_directories),
        TEST(test_small_files),
        TEST(test_store),
        TEST(test_producer_snapshot),
        TEST(test_interrupted_compaction),
        TEST(test_torn_tail_is_cut),
        TEST(test_below_the_flushed_offset_nothing_is_cut),
        TEST(test_half_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
