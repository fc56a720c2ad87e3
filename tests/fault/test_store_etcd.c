/* The store over real etcd: what it does, and what it does when etcd is broken. */
#include "coord/clock.h"
#include "coord/err.h"
#include "coord/store_etcd.h"
#include "tests/fault/etcd_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void close_quickly(struct store *store)
{
    int64_t begun = rig_now_ms();

    store->ops->close(store);
    assert_true(rig_now_ms() - begun < 2000);
}

/* As a caller does it that does not know the outcome: read again, then compare. */
static void put_surely(struct store *store, const char *key, const char *value)
{
    int64_t until = rig_now_ms() + 20000, revision;
    int rc;

    do {
        rc = rig_put_once(store, key, value, false, &revision);
        assert_true(rc == 0 || rc == E_OUTCOME_UNKNOWN || rc == E_STORE_UNREACHABLE);
    } while (rc != 0 && rig_now_ms() < until);
    assert_int_equal(rc, 0);
}

static void check_limits(struct store *store)
{
    struct store_op ops[STORE_TXN_MAX + 1];
    char keys[STORE_TXN_MAX + 1][32];
    int64_t revision;

    for (int i = 0; i <= STORE_TXN_MAX; i++) {
        snprintf(keys[i], sizeof(keys[i]), "/test/many/%d", i);
        ops[i] = (struct store_op){STORE_PUT, keys[i], "v", false};
    }
    struct store_txn txn = {.ops = ops, .op_count = STORE_TXN_MAX + 1};
    assert_int_equal(store->ops->commit(store, &txn, &revision), -E2BIG);
    txn.op_count = STORE_TXN_MAX;
    assert_int_equal(rig_commit(store, &txn, &revision), 0);
    /* One key twice. */
    ops[1].key = keys[0];
    assert_int_equal(rig_commit(store, &txn, &revision), -EINVAL);
    char *huge = malloc(2 * 1024 * 1024);
    memset(huge, 'x', 2 * 1024 * 1024);
    huge[2 * 1024 * 1024 - 1] = '\0';
    assert_int_equal(rig_put(store, "/test/huge", huge, false, &revision), -E2BIG);
    free(huge);
}

static void test_transactions_and_watch(void **state)
{
    struct rig rig;
    struct seen seen;
    struct store_list list;
    int64_t first, revision, again;
    int rc;

    (void)state;
    rig_start(&rig, 1, 0);
    struct store *store = rig_open(&rig);
    seen_init(&seen);
    assert_int_equal(rig_put(store, "/test/a", "1", false, &first), 0);
    assert_int_equal(rig_put(store, "/other", "x", false, &revision), 0);
    seen_watch(&seen, store);
    assert_int_equal(seen.map.count, 1);
    assert_int_equal(seen.map.items[0].mod_revision, first);
    assert_in_range(seen.map.items[0].create_revision, 1, first);

    /* Several events of one transaction come in one call. */
    const struct store_compare compares[] = {
        {"/test/a", STORE_MOD_REVISION, first},
        {"/test/b", STORE_CREATE_REVISION, 0},
    };
    const struct store_op ops[] = {
        {STORE_PUT, "/test/a", "2", false},
        {STORE_PUT, "/test/b", "", false},
        {STORE_PUT, "/test/c/1", "x", false},
        {STORE_PUT, "/test/c/2", "y", false},
    };
    const struct store_txn txn = {compares, 2, ops, 4};
    assert_int_equal(rig_commit(store, &txn, &revision), 0);
    seen_wait(&seen, revision);
    assert_int_equal(seen.last_count, 4);
    seen_check(&seen, store);
    do
        rc = store->ops->commit(store, &txn, &again);
    while (rc == E_OUTCOME_UNKNOWN);
    assert_int_equal(rc, E_CONFLICT);

    /* What changes nothing returns a revision that was delivered. */
    assert_int_equal(rig_delete(store, "/test/none", &again), 0);
    seen_wait(&seen, again);

    const struct store_op prefix = {.verb = STORE_DELETE_PREFIX, .key = "/test/c/"};
    const struct store_txn cut = {.ops = &prefix, .op_count = 1};
    assert_int_equal(rig_commit(store, &cut, &revision), 0);
    seen_wait(&seen, revision);
    assert_int_equal(seen.last_count, 2);
    check_limits(store);
    assert_int_equal(store->ops->list(store, "/test/many/", &list), 0);
    assert_int_equal(list.count, STORE_TXN_MAX);
    seen_wait(&seen, list.revision);
    assert_int_equal(seen.last_count, STORE_TXN_MAX);
    store_list_free(&list);
    seen_check(&seen, store);
    assert_int_equal(store->ops->watch(store, 1, NULL, NULL), -EBUSY);
    close_quickly(store);
    seen_free(&seen);
    rig_stop(&rig);
}

static void test_sessions(void **state)
{
    struct rig rig;
    struct seen seen;
    struct store_status status;
    int64_t revision;

    (void)state;
    rig_start(&rig, 1, 0);
    struct store *store = rig_open(&rig), *other = rig_open(&rig);
    seen_init(&seen);
    seen_watch(&seen, other);
    assert_int_equal(rig_put(store, "/test/me", "1", true, &revision), E_SESSION_LOST);
    /* Seconds, so that a delay of the machine is not taken for the end. */
    assert_int_equal(store->ops->session_open(store, 4000), 0);
    assert_int_equal(rig_put(store, "/test/me", "1", true, &revision), 0);
    seen_wait(&seen, revision);
    /* It is kept alive beyond its time to live. */
    int64_t begun = rig_now_ms();
    while (rig_now_ms() - begun < 6000) {
        store->ops->status(store, &status);
        assert_true(status.reachable && !status.session_lost);
        int64_t left_ms = status.session_deadline_ns / 1000000 - rig_now_ms();
        assert_true(left_ms > 500 && left_ms <= 4000);
        usleep(100000); /* the pace of looking */
    }
    seen_wait_key(&seen, "/test/me", "1");
    /* Closing the session deletes at once, closing the store in the time to live. */
    begun = rig_now_ms();
    store->ops->session_close(store);
    seen_wait_key(&seen, "/test/me", NULL);
    assert_true(rig_now_ms() - begun < 2500); /* its lease had longer to live */
    assert_int_equal(store->ops->session_open(store, 2000), 0);
    assert_int_equal(rig_put(store, "/test/me", "2", true, &revision), 0);
    seen_wait_key(&seen, "/test/me", "2");
    close_quickly(store);
    begun = rig_now_ms();
    seen_wait_key(&seen, "/test/me", NULL);
    assert_true(rig_now_ms() - begun < 5000);
    close_quickly(other);
    seen_free(&seen);
    rig_stop(&rig);
}

static void test_session_lost(void **state)
{
    struct rig rig;
    struct seen seen;
    int64_t revision;

    (void)state;
    rig_start(&rig, 1, 0);
    struct store *store = rig_open(&rig);
    seen_init(&seen);
    store->ops->on_status(store, seen_on_status, &seen);
    seen_watch(&seen, store);
    assert_int_equal(store->ops->session_open(store, 3000), 0);
    assert_int_equal(rig_put(store, "/test/me", "1", true, &revision), 0);
    rig_shell(&rig,
              "for l in $(etcdctl --endpoints $EP lease list | grep -v found); do "
              "etcdctl --endpoints $EP lease revoke $l >/dev/null; done");
    seen_wait_key(&seen, "/test/me", NULL);
    seen_wait_status(&seen, true, true);
    assert_int_equal(rig_put(store, "/test/me", "2", true, &revision), E_SESSION_LOST);
    assert_int_equal(store->ops->session_open(store, 3000), 0);
    seen_wait_status(&seen, true, false);
    assert_int_equal(rig_put(store, "/test/me", "3", true, &revision), 0);
    seen_wait(&seen, revision);
    seen_check(&seen, store);
    close_quickly(store);
    seen_free(&seen);
    rig_stop(&rig);
}

/* A watch goes on where it was; where that is compacted, nothing is missed either. */
static void test_restart_and_compaction(void **state)
{
    struct rig rig;
    struct seen seen;
    struct buf text;
    int64_t revision;

    (void)state;
    rig_start(&rig, 1, 0);
    struct store *store = rig_open(&rig);
    seen_init(&seen);
    store->ops->on_status(store, seen_on_status, &seen);
    assert_int_equal(rig_put(store, "/test/gone", "1", false, &revision), 0);
    assert_int_equal(rig_put(store, "/test/kept", "1", false, &revision), 0);
    seen_watch(&seen, store);

    rig_kill(&rig, 0);
    seen_wait_status(&seen, false, false);
    assert_true(seen.status.silent_since_ms > 0);
    buf_init(&text, 4096);
    assert_int_equal(problems_render(rig.problems, &text), 0);
    assert_non_null(strstr(text.data, "kind=store etcd"));
    buf_free(&text);
    int64_t begun = rig_now_ms();
    assert_int_equal(rig_put_once(store, "/test/x", "1", false, &revision),
                     E_STORE_UNREACHABLE);
    assert_true(rig_now_ms() - begun < 500); /* known to be gone: no waiting */
    rig_run(&rig, 0);
    seen_wait_status(&seen, true, false);
    put_surely(store, "/test/back", "1");
    seen_wait_key(&seen, "/test/back", "1");

    /* While the store can't listen (its stream is cut by each kill), things happen and
     * are compacted away. */
    rig_kill(&rig, 0);
    seen_wait_status(&seen, false, false);
    pthread_mutex_lock(&seen.lock); /* nothing is delivered meanwhile */
    rig_run(&rig, 0);
    rig_shell(&rig,
              "e=\"etcdctl --endpoints $EP\"\n"
              "$e put /test/kept 2; $e del /test/gone; $e put /test/new 1\n"
              "$e put /test/kept 3\n"
              "r=$($e get / -w json | sed 's/.*\"revision\":\\([0-9]*\\).*/\\1/')\n"
              "$e compact $r");
    pthread_mutex_unlock(&seen.lock);
    seen_wait_key(&seen, "/test/kept", "3");
    seen_wait_key(&seen, "/test/gone", NULL);
    put_surely(store, "/test/end", "1");
    seen_wait_key(&seen, "/test/end", "1");
    seen_check(&seen, store);
    buf_init(&text, 4096);
    assert_int_equal(problems_render(rig.problems, &text), 0);
    assert_int_equal(text.length, 0);
    buf_free(&text);
    close_quickly(store);
    seen_free(&seen);
    rig_stop(&rig);
}

/* What happened before the stream is open is compacted: the watch has to list again. */
static void test_compaction_while_cut_off(void **state)
{
    struct rig rig;
    struct seen seen;
    int64_t revision;

    (void)state;
    rig_start(&rig, 1, 0);
    struct store *store = rig_open(&rig);
    seen_init(&seen);
    assert_int_equal(rig_put(store, "/test/gone", "1", false, &revision), 0);
    assert_int_equal(rig_put(store, "/test/same", "1", false, &revision), 0);
    assert_int_equal(rig_put(store, "/test/kept", "1", false, &revision), 0);
    /* Listed, changed and compacted, then watched from the listed revision. */
    struct store_list list;
    assert_int_equal(store->ops->list(store, "/test/", &list), 0);
    assert_int_equal(list.count, 3);
    rig_shell(&rig,
              "e=\"etcdctl --endpoints $EP\"; exec >/dev/null\n"
              "$e put /test/kept 2; $e del /test/gone; $e put /test/new 1\n"
              "$e put /test/kept 3\n"
              "r=$($e get / -w json | sed 's/.*\"revision\":\\([0-9]*\\).*/\\1/')\n"
              "$e compact $r");
    seen.map = list;
    seen_watch_from(&seen, store, list.revision);
    seen_wait_key(&seen, "/test/gone", NULL);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.last_count, 3);
    seen_check(&seen, store);
    assert_int_equal(rig_put(store, "/test/end", "1", false, &revision), 0);
    seen_wait(&seen, revision);
    seen_check(&seen, store);
    close_quickly(store);
    seen_free(&seen);
    rig_stop(&rig);
}

static void test_members_fail(void **state)
{
    struct rig rig;
    struct seen seen;
    struct store_status status;

    (void)state;
    rig_start(&rig, 3, 0);
    struct store *store = rig_open(&rig);
    seen_init(&seen);
    seen_watch(&seen, store);
    store->ops->on_status(store, seen_on_status, &seen);
    assert_int_equal(store->ops->session_open(store, 6000), 0);
    put_surely(store, "/test/n", "0");

    int leader = rig_leader(&rig);
    rig_kill(&rig, leader);
    int64_t begun = rig_now_ms();
    put_surely(store, "/test/n", "1");
    assert_true(rig_now_ms() - begun < 6000);
    seen_wait_key(&seen, "/test/n", "1");
    rig_run(&rig, leader);

    /* Each member in turn stands still: whichever one the store listens to. */
    for (int i = 0; i < 3; i++) {
        char value[32];
        snprintf(value, sizeof(value), "stop-%d", i);
        rig_signal(&rig, i, SIGSTOP);
        begun = rig_now_ms();
        put_surely(store, "/test/n", value);
        seen_wait_key(&seen, "/test/n", value);
        assert_true(rig_now_ms() - begun < 8000);
        rig_signal(&rig, i, SIGCONT);
        (void)rig_leader(&rig);
    }
    put_surely(store, "/test/n", "end");
    seen_wait_key(&seen, "/test/n", "end");
    seen_check(&seen, store);
    store->ops->status(store, &status);
    assert_false(status.session_lost);

    /* Without a majority it says that it is unreachable, and closes all the same. */
    int stopped = (leader + 1) % 3;
    rig_kill(&rig, leader);
    rig_signal(&rig, stopped, SIGSTOP);
    seen_wait_status(&seen, false, false);
    close_quickly(store);
    rig_signal(&rig, stopped, SIGCONT);
    seen_free(&seen);
    rig_stop(&rig);
}

/* A stopped member takes requests and answers none: their outcome is unknown. */
static void test_hanging_etcd(void **state)
{
    struct rig rig;
    struct seen seen;
    int64_t revision;

    (void)state;
    rig_start(&rig, 1, 0);
    struct store *store = rig_open(&rig);
    seen_init(&seen);
    store->ops->on_status(store, seen_on_status, &seen);
    seen_watch(&seen, store);
    assert_int_equal(rig_put(store, "/test/a", "1", false, &revision), 0);
    seen_wait(&seen, revision);
    rig_signal(&rig, 0, SIGSTOP);
    int64_t begun = rig_now_ms();
    assert_int_equal(rig_put_once(store, "/test/a", "2", false, &revision),
                     E_OUTCOME_UNKNOWN);
    assert_true(rig_now_ms() - begun < 2000);
    seen_wait_status(&seen, false, false);
    rig_signal(&rig, 0, SIGCONT);
    seen_wait_status(&seen, true, false);
    put_surely(store, "/test/a", "3");
    seen_wait_key(&seen, "/test/a", "3");
    seen_check(&seen, store);
    rig_signal(&rig, 0, SIGSTOP);
    close_quickly(store);
    rig_signal(&rig, 0, SIGCONT);
    seen_free(&seen);
    rig_stop(&rig);
}

static int open_with(struct rig *rig, const char *credentials,
                     const char *password_file, bool certificate, struct store **store)
{
    char *endpoints = rig_endpoints(rig, credentials);
    char ca[96], cert[96], key[96], why[256] = "";
    bool tls = rig->flags & RIG_TLS;

    snprintf(ca, sizeof(ca), "%s/ca.pem", rig->dir);
    snprintf(cert, sizeof(cert), "%s/client.pem", rig->dir);
    snprintf(key, sizeof(key), "%s/client.key", rig->dir);
    const struct store_etcd_params params = {.endpoints = endpoints,
                                             .user = password_file ? "root" : NULL,
                                             .password_file = password_file,
                                             .ca_file = tls ? ca : NULL,
                                             .cert_file = certificate ? cert : NULL,
                                             .key_file = certificate ? key : NULL,
                                             .prefix = "/test/",
                                             .problems = rig->problems,
                                             .clock = &clock_real};
    int rc = store_etcd_open(&params, store, why, sizeof(why));
    assert_true((rc == 0) == (*store != NULL));
    if (rc != 0)
        assert_true(why[0] != '\0');
    free(endpoints);
    return rc;
}

static void try_store(struct rig *rig, struct store *store)
{
    struct seen seen;
    int64_t revision;

    (void)rig;
    seen_init(&seen);
    seen_watch(&seen, store);
    assert_int_equal(store->ops->session_open(store, 3000), 0);
    assert_int_equal(rig_put(store, "/test/a", "1", true, &revision), 0);
    seen_wait(&seen, revision);
    store->ops->session_close(store);
    seen_wait_key(&seen, "/test/a", NULL);
    close_quickly(store);
    seen_free(&seen);
}

static void test_tls_and_certificates(void **state)
{
    struct rig rig;
    struct store *store;

    (void)state;
    rig_start(&rig, 1, RIG_TLS);
    assert_int_equal(open_with(&rig, "", NULL, true, &store), 0);
    try_store(&rig, store);
    assert_int_not_equal(open_with(&rig, "", NULL, false, &store), 0);
    /* Another authority than the server's is not trusted. */
    rig_shell(&rig, "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other"
                    " -keyout $DIR/other.key -out $DIR/ca.pem 2>/dev/null");
    assert_int_equal(open_with(&rig, "", NULL, true, &store), E_STORE_UNREACHABLE);
    rig_stop(&rig);
}

static void test_passwords(void **state)
{
    struct rig rig;
    struct seen seen;
    struct store *store;
    char file[96];

    (void)state;
    rig_start(&rig, 1, 0);
    rig_shell(&rig, "e=\"etcdctl --endpoints $EP\"; exec >/dev/null\n"
                    "$e user add root:se@cret; $e auth enable\n"
                    "echo se@cret >$DIR/password");
    snprintf(file, sizeof(file), "%s/password", rig.dir);
    assert_int_equal(open_with(&rig, "", NULL, false, &store), -EACCES);
    assert_int_equal(open_with(&rig, "root:wrong@", NULL, false, &store), -EACCES);
    assert_int_equal(open_with(&rig, "", file, false, &store), 0);
    try_store(&rig, store);
    assert_int_equal(open_with(&rig, "root:se%40cret@", NULL, false, &store), 0);
    /* Tokens live in etcd's memory: after its restart there has to be a new one. */
    seen_init(&seen);
    seen_watch(&seen, store);
    rig_kill(&rig, 0);
    rig_run(&rig, 0);
    put_surely(store, "/test/a", "1");
    seen_wait_key(&seen, "/test/a", "1");
    seen_check(&seen, store);
    close_quickly(store);
    seen_free(&seen);
    rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transactions_and_watch),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_session_lost),
        cmocka_unit_test(test_restart_and_compaction),
        cmocka_unit_test(test_compaction_while_cut_off),
        cmocka_unit_test(test_members_fail),
        cmocka_unit_test(test_hanging_etcd),
        cmocka_unit_test(test_tls_and_certificates),
        cmocka_unit_test(test_passwords),
    };
    if (access("/usr/bin/etcd", X_OK) != 0) {
        fprintf(stderr,
                "/usr/bin/etcd is missing: mountscripts/install-deps --tests\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
