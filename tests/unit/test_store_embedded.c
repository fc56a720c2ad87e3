/* The embedded store: transactions, revisions, and every damage to its two files. */
#include "coord/coord.h"
#include "coord/store_embedded.h"

#include "tests/unit/support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

struct file {
    char *bytes;
    size_t length;
};

struct fixture {
    char dir[64];
    struct problems *problems;
    struct store *store;
    struct file files[2]; /* as saved */
    unsigned opens;
};

/* Writes that fail on demand, and no flushing, so that thousands of opens are quick. */
static struct {
    int writes_left; /* -1: unlimited */
    int flushes_left;
    bool cut_fails;
} faults;

static ssize_t test_pwrite(const struct store_io *io, int fd, const void *bytes,
                           size_t n, off_t at)
{
    (void)io;
    if (faults.writes_left == 0)
        return -ENOSPC;
    if (faults.writes_left > 0 && --faults.writes_left == 0)
        n = n > 1 ? n / 2 : n; /* the last one that works is short */
    return pwrite(fd, bytes, n, at);
}

static int test_flush(const struct store_io *io, int fd)
{
    (void)io;
    (void)fd;
    if (faults.flushes_left == 0)
        return -EIO;
    if (faults.flushes_left > 0)
        faults.flushes_left--;
    return 0;
}

static int test_truncate(const struct store_io *io, int fd, off_t size)
{
    (void)io;
    if (faults.cut_fails)
        return -EIO;
    return ftruncate(fd, size) < 0 ? -errno : 0;
}

static const struct store_io test_io = {test_pwrite, test_flush, test_truncate};

static void reset_faults(void)
{
    faults.writes_left = faults.flushes_left = -1;
    faults.cut_fails = false;
}

static const char *path_of(const struct fixture *f, const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    return path;
}

static const char *copy_names[2] = {"store.a", "store.b"};

static struct file load_file(const struct fixture *f, const char *name)
{
    FILE *in = fopen(path_of(f, name), "rb");
    struct file file = {calloc(1, 1 << 20), 0};

    assert_non_null(in);
    assert_non_null(file.bytes);
    file.length = fread(file.bytes, 1, 1 << 20, in);
    fclose(in);
    return file;
}

static void save_file(const struct fixture *f, const char *name, const char *bytes,
                      size_t length)
{
    FILE *out = fopen(path_of(f, name), "wb");

    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, length, out), length);
    fclose(out);
}

static int open_store(struct fixture *f)
{
    char why[700];

    f->problems = problems_new(&clock_real);
    return store_embedded_open_io(f->dir, f->problems, &test_io, &f->store, why,
                                  sizeof(why));
}

static void close_store(struct fixture *f)
{
    if (f->store)
        f->store->ops->close(f->store);
    f->store = NULL;
    problems_free(f->problems);
    f->problems = NULL;
}

static int commit_one(struct fixture *f, const struct store_op *op, int64_t *revision)
{
    const struct store_txn txn = {.ops = op, .op_count = 1};
    int64_t unused;

    return f->store->ops->commit(f->store, &txn, revision ? revision : &unused);
}

static int put(struct fixture *f, const char *key, const char *value)
{
    const struct store_op op = {STORE_PUT, key, value, false};

    return commit_one(f, &op, NULL);
}

/* All contents as one text. */
static void dump(struct fixture *f, char *text, size_t size)
{
    struct store_list list;
    size_t n = 0;

    assert_int_equal(f->store->ops->list(f->store, "", &list), 0);
    text[0] = '\0';
    for (size_t i = 0; i < list.count; i++)
        n += (size_t)snprintf(text + n, size - n, "%s=%s@%ld/%ld\n", list.items[i].key,
                              list.items[i].value, (long)list.items[i].create_revision,
                              (long)list.items[i].mod_revision);
    snprintf(text + n, size - n, "%ld\n", (long)list.revision);
    store_list_free(&list);
}

static size_t problem_lines(struct fixture *f)
{
    struct buf buf;
    size_t lines = 0;

    buf_init(&buf, 1 << 20);
    assert_int_equal(problems_render(f->problems, &buf), 0);
    for (size_t i = 0; i < buf.length; i++)
        lines += buf.data[i] == '\n';
    buf_free(&buf);
    return lines;
}

/* A store of some transactions; its files are kept in f->files, closed or as killed. */
static void make_sample(struct fixture *f, bool closed, char *text, size_t size)
{
    assert_int_equal(open_store(f), 0);
    assert_int_equal(put(f, "/a", "{\"x\":\"1\\u0007\"}"), 0);
    assert_int_equal(put(f, "/b", "two"), 0);
    assert_int_equal(put(f, "/a", "\xc3\xa9\n\t"), 0);
    assert_int_equal(put(f, "/c", ""), 0);
    assert_int_equal(
        commit_one(f, &(struct store_op){STORE_DELETE, "/b", NULL, false}, NULL), 0);
    assert_int_equal(put(f, "/d", "last"), 0);
    dump(f, text, size);
    for (int c = 0; c < 2 && !closed; c++)
        f->files[c] = load_file(f, copy_names[c]);
    close_store(f);
    for (int c = 0; c < 2 && closed; c++)
        f->files[c] = load_file(f, copy_names[c]);
}

static void restore_files(struct fixture *f)
{
    for (int c = 0; c < 2; c++)
        save_file(f, copy_names[c], f->files[c].bytes, f->files[c].length);
}

static void expect_contents(struct fixture *f, const char *expected)
{
    char text[8000];

    dump(f, text, sizeof(text));
    assert_string_equal(text, expected);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f)
        return -1;
    reset_faults();
    scratch_make(f->dir, sizeof(f->dir));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {"store.a",         "store.b",
                                        "store.a.damaged", "store.b.damaged",
                                        "store.a.new",     "store.b.new"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(path_of(f, names[i]));
    free(f->files[0].bytes);
    free(f->files[1].bytes);
    rmdir(f->dir);
    free(f);
    return 0;
}

static void transactions_compare_and_count_revisions(void **state)
{
    struct fixture *f = *state;
    struct store_compare absent = {"/k", STORE_CREATE_REVISION, 0};
    struct store_op ops[2] = {{STORE_PUT, "/k", "v", false},
                              {STORE_PUT, "/k2", "v", false}};
    struct store_txn txn = {&absent, 1, ops, 2};
    int64_t revision = 0;

    assert_int_equal(open_store(f), 0);
    assert_true(store_embedded_was_created(f->store));
    assert_int_equal(f->store->ops->commit(f->store, &txn, &revision), 0);
    assert_int_equal(revision, 1);
    assert_int_equal(f->store->ops->commit(f->store, &txn, &revision), E_CONFLICT);
    absent = (struct store_compare){"/k", STORE_MOD_REVISION, 1};
    assert_int_equal(f->store->ops->commit(f->store, &txn, &revision), 0);
    assert_int_equal(revision, 2);
    expect_contents(f, "/k=v@1/2\n/k2=v@1/2\n2\n");
    ops[1].key = "/k"; /* one key twice */
    txn.compare_count = 0;
    assert_int_equal(f->store->ops->commit(f->store, &txn, &revision), -EINVAL);
    /* nothing to delete: no revision */
    assert_int_equal(
        commit_one(f, &(struct store_op){STORE_DELETE, "/z", NULL, false}, &revision),
        0);
    assert_int_equal(revision, 2);
    assert_int_equal(put(f, "/k", "\xff"), -EINVAL); /* not UTF-8 */
    assert_int_equal(
        commit_one(f, &(struct store_op){STORE_DELETE_PREFIX, "/k", NULL, false}, NULL),
        0);
    expect_contents(f, "3\n");
    close_store(f);
    assert_int_equal(open_store(f), 0);
    assert_false(store_embedded_was_created(f->store));
    expect_contents(f, "3\n");
    assert_int_equal(problem_lines(f), 0);
    close_store(f);
}

static void leased_keys_go_at_open(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_store(f), 0);
    assert_int_equal(
        commit_one(f, &(struct store_op){STORE_PUT, "/l", "x", true}, NULL), 0);
    assert_int_equal(put(f, "/k", "x"), 0);
    close_store(f);
    assert_int_equal(open_store(f), 0);
    expect_contents(f, "/k=x@2/2\n3\n");
    close_store(f);
}

struct seen {
    struct store *store;
    int64_t revisions[8];
    int count;
};

static void see(void *arg, const struct store_kv *kvs, size_t count, int64_t revision)
{
    struct seen *seen = arg;
    struct store_list list;

    assert_int_equal(count, 1);
    assert_int_equal(kvs[0].mod_revision, revision);
    assert_int_equal(seen->store->ops->list(seen->store, "", &list), 0); /* no lock */
    store_list_free(&list);
    seen->revisions[seen->count++] = revision;
    if (revision == 1) { /* a watcher may commit; its event comes after this one */
        const struct store_op op = {STORE_PUT, "/from-watch", "1", false};
        const struct store_txn txn = {.ops = &op, .op_count = 1};
        int64_t next;

        assert_int_equal(seen->store->ops->commit(seen->store, &txn, &next), 0);
        assert_int_equal(seen->count, 1);
    }
}

static void watchers_see_changes_in_order(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};

    assert_int_equal(open_store(f), 0);
    seen.store = f->store;
    assert_int_equal(f->store->ops->watch(f->store, 5, see, &seen), E_CONFLICT);
    assert_int_equal(f->store->ops->watch(f->store, 0, see, &seen), 0);
    assert_int_equal(put(f, "/k", "1"), 0);
    assert_int_equal(put(f, "/k", "2"), 0);
    assert_int_equal(seen.count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(seen.revisions[i], i + 1);
    close_store(f);
}

/* Opens with what is on disk: contents, whether a problem is named, and now and then
 * a second, clean open. `named`: 1 must be, 0 must not, -1 either. */
static void expect_mended(struct fixture *f, const char *expected, int named)
{
    assert_int_equal(open_store(f), 0);
    expect_contents(f, expected);
    if (named >= 0)
        assert_int_equal(problem_lines(f), named);
    close_store(f);
    if (f->opens++ % 16 != 0)
        return;
    assert_int_equal(open_store(f), 0);
    expect_contents(f, expected);
    assert_int_equal(problem_lines(f), 0);
    close_store(f);
}

static void one_copy_removed_or_emptied(void **state)
{
    struct fixture *f = *state;
    char expected[1000];

    make_sample(f, true, expected, sizeof(expected));
    for (int c = 0; c < 2; c++) {
        restore_files(f);
        unlink(path_of(f, copy_names[c]));
        expect_mended(f, expected, 1);
        restore_files(f);
        save_file(f, copy_names[c], "", 0);
        expect_mended(f, expected, 1);
    }
}

static void one_copy_truncated_anywhere(void **state)
{
    struct fixture *f = *state;
    char expected[1000];

    for (int closed = 0; closed < 2; closed++) {
        make_sample(f, closed, expected, sizeof(expected));
        for (int c = 0; c < 2; c++)
            for (size_t length = 0; length < f->files[c].length; length++) {
                restore_files(f);
                save_file(f, copy_names[c], f->files[c].bytes, length);
                expect_mended(f, expected, closed ? 1 : -1);
            }
        for (int c = 0; c < 2; c++) {
            unlink(path_of(f, copy_names[c]));
            free(f->files[c].bytes);
            f->files[c].bytes = NULL;
        }
    }
}

static void one_copy_with_a_flipped_bit(void **state)
{
    struct fixture *f = *state;
    char expected[1000];

    for (int closed = 0; closed < 2; closed++) {
        make_sample(f, closed, expected, sizeof(expected));
        for (int c = 0; c < 2; c++)
            for (size_t at = 0; at < f->files[c].length; at += 2) {
                char *byte = &f->files[c].bytes[at];

                *byte ^= (char)(1 << at / 2 % 8);
                restore_files(f);
                *byte ^= (char)(1 << at / 2 % 8);
                expect_mended(f, expected, closed ? 1 : -1);
            }
        for (int c = 0; c < 2; c++) {
            unlink(path_of(f, copy_names[c]));
            free(f->files[c].bytes);
            f->files[c].bytes = NULL;
        }
    }
}

/* Two damaged copies: the right contents, or a refusal that leaves both as they are. */
static void both_copies_damaged(void **state)
{
    struct fixture *f = *state;
    char expected[1000];
    int refused = 0, mended = 0;

    make_sample(f, true, expected, sizeof(expected));
    for (size_t i = 0; i < f->files[0].length; i += 3) {
        size_t other = i * 7 % f->files[1].length;
        int rc;

        f->files[0].bytes[i] ^= 4;
        f->files[1].bytes[other] ^= 4;
        restore_files(f);
        rc = open_store(f);
        if (rc == 0) {
            expect_contents(f, expected);
            mended++;
        } else {
            struct file now = load_file(f, "store.a");

            assert_int_equal(rc, E_CORRUPT);
            assert_int_equal(now.length, f->files[0].length);
            assert_memory_equal(now.bytes, f->files[0].bytes, now.length);
            free(now.bytes);
            refused++;
        }
        close_store(f);
        f->files[0].bytes[i] ^= 4;
        f->files[1].bytes[other] ^= 4;
    }
    assert_true(refused > 0);
    assert_true(mended > 0);
    save_file(f, "store.a", "", 0);
    save_file(f, "store.b", "", 0);
    assert_int_equal(open_store(f), E_CORRUPT);
    close_store(f);
    unlink(path_of(f, "store.b"));
    assert_int_equal(open_store(f), E_CORRUPT);
    close_store(f);
}

static void a_newer_format_is_refused(void **state)
{
    static const char wrong[] = "topicfs-store 2 8d5a8e0b2f6f4f0c\n";
    struct fixture *f = *state;
    char expected[1000], newer[64];
    int n = snprintf(newer, sizeof(newer), "topicfs-store 2 %016llx\n",
                     (unsigned long long)XXH3_64bits("topicfs-store 2", 15));

    make_sample(f, true, expected, sizeof(expected));
    /* With a wrong checksum it is a damaged header, which the other copy mends. */
    save_file(f, "store.a", wrong, sizeof(wrong) - 1);
    expect_mended(f, expected, 1);
    save_file(f, "store.b", newer, (size_t)n);
    assert_int_equal(open_store(f), E_NEWER_FORMAT);
    close_store(f);
}

static void failed_writes_leave_nothing(void **state)
{
    struct fixture *f = *state;
    char before[1000];

    assert_int_equal(open_store(f), 0);
    assert_int_equal(put(f, "/k", "1"), 0);
    for (int n = 0; n < 4; n++) {
        dump(f, before, sizeof(before));
        faults.writes_left = n;
        assert_int_equal(put(f, "/k", "2"), n < 3 ? -ENOSPC : 0);
        reset_faults();
        if (n < 3)
            expect_contents(f, before);
        assert_int_equal(put(f, "/j", "3"), 0);
    }
    for (int n = 0; n < 2; n++) {
        dump(f, before, sizeof(before));
        faults.flushes_left = n;
        faults.cut_fails = n == 1; /* the bytes stay until the next commit */
        assert_int_equal(put(f, "/k", "4"), -EIO);
        assert_int_equal(put(f, "/k", "4"), -EIO);
        expect_contents(f, before);
        reset_faults();
        assert_int_equal(put(f, "/k", "5"), 0);
    }
    dump(f, before, sizeof(before));
    close_store(f);
    expect_mended(f, before, 0);
}

static void a_long_journal_is_compacted(void **state)
{
    struct fixture *f = *state;
    char value[2048], before[8000];
    struct stat st;

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    assert_int_equal(open_store(f), 0);
    for (int i = 0; i < 1200; i++) {
        value[0] = (char)('a' + i % 26);
        assert_int_equal(put(f, i % 2 ? "/k" : "/j", value), 0);
    }
    for (int c = 0; c < 2; c++) {
        assert_int_equal(stat(path_of(f, copy_names[c]), &st), 0);
        assert_true(st.st_size < 1100 * 1024);
    }
    dump(f, before, sizeof(before));
    close_store(f);
    assert_int_equal(open_store(f), 0);
    expect_contents(f, before);
    close_store(f);
}

static void check_finds_and_repairs(void **state)
{
    struct fixture *f = *state;
    FILE *null = fopen("/dev/null", "w");
    char expected[1000];

    assert_non_null(null);
    make_sample(f, true, expected, sizeof(expected));
    assert_int_equal(store_embedded_check(f->dir, false, null), 0);
    f->files[0].bytes[200] ^= 1;
    restore_files(f);
    assert_int_equal(store_embedded_check(f->dir, false, null), 1);
    assert_int_equal(store_embedded_check(f->dir, true, null), 0);
    assert_int_equal(store_embedded_check(f->dir, false, null), 0);
    expect_mended(f, expected, 0);
    save_file(f, "store.a", "x", 1);
    save_file(f, "store.b", "x", 1);
    assert_int_equal(store_embedded_check(f->dir, true, null), E_CORRUPT);
    fclose(null);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(transactions_compare_and_count_revisions),
        TEST(leased_keys_go_at_open),
        TEST(watchers_see_changes_in_order),
        TEST(one_copy_removed_or_emptied),
        TEST(one_copy_truncated_anywhere),
        TEST(one_copy_with_a_flipped_bit),
        TEST(both_copies_damaged),
        TEST(a_newer_format_is_refused),
        TEST(failed_writes_leave_nothing),
        TEST(a_long_journal_is_compacted),
        TEST(check_finds_and_repairs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
