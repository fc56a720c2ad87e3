/* etcd's bodies: what is sent, what is read, and what is refused. */
#include "coord/etcd_endpoints.h"
#include "coord/etcd_json.h"
#include "coord/etcd_known.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER                                                                         \
    "\"header\":{\"cluster_id\":\"324952591200643719\",\"revision\":"                  \
    "\"9007199254740993"                                                               \
    "\",\"raft_term\":\"2\"}"

static int list_of(const char *text, struct store_list *list)
{
    return etcd_json_list(text, strlen(text), list);
}

static int watch_of(const char *text, struct etcd_watch_reply *reply)
{
    return etcd_json_watch_reply(text, strlen(text), reply);
}

static void check_body(struct buf *body, const char *expected)
{
    assert_int_equal(buf_error(body), 0);
    assert_string_equal(body->data, expected);
    buf_free(body);
}

static void test_ranges(void **state)
{
    struct buf body;

    (void)state;
    buf_init(&body, 4096);
    etcd_json_range(&body, "a", &(struct etcd_range){.limit = 1});
    check_body(&body, "{\"key\":\"YQ==\",\"limit\":\"1\"}");
    etcd_json_range(&body, "a/", &(struct etcd_range){.prefix = true, .revision = 7});
    check_body(&body, "{\"key\":\"YS8=\",\"range_end\":\"YTA=\",\"revision\":\"7\"}");
    /* Behind 0xff comes the next of the byte before; behind nothing, everything. */
    etcd_json_range(&body, "a\xff", &(struct etcd_range){.prefix = true});
    check_body(&body, "{\"key\":\"Yf8=\",\"range_end\":\"Yg==\"}");
    etcd_json_range(&body, "", &(struct etcd_range){.prefix = true});
    check_body(&body, "{\"key\":\"AA==\",\"range_end\":\"AA==\"}");
}

static void test_transaction(void **state)
{
    const struct store_compare compares[] = {
        {"a", STORE_CREATE_REVISION, 0},
        {"b", STORE_MOD_REVISION, INT64_MAX},
    };
    const struct store_op ops[] = {
        {STORE_PUT, "a", "x", true},
        {STORE_DELETE, "b", NULL, false},
        {STORE_DELETE_PREFIX, "c/", NULL, false},
    };
    const struct store_txn txn = {compares, 2, ops, 3};
    struct buf body;

    (void)state;
    buf_init(&body, 4096);
    etcd_json_txn(&body, &txn, 42);
    check_body(
        &body,
        "{\"compare\":[{\"key\":\"YQ==\",\"result\":\"EQUAL\",\"target\":"
        "\"CREATE\",\"create_revision\":\"0\"},{\"key\":\"Yg==\",\"result\":"
        "\"EQUAL\",\"target\":\"MOD\",\"mod_revision\":\"9223372036854775807\"}],"
        "\"success\":[{\"request_put\":{\"key\":\"YQ==\",\"value\":\"eA==\","
        "\"lease\":\"42\"}},{\"request_delete_range\":{\"key\":\"Yg==\"}},"
        "{\"request_delete_range\":{\"key\":\"Yy8=\",\"range_end\":\"YzA=\"}}]}");
}

static void test_list(void **state)
{
    struct store_list list;

    (void)state;
    assert_int_equal(
        list_of("{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"2\","
                "\"mod_revision\":\"9007199254740993\",\"value\":\"eAB5\"},"
                "{\"key\":\"YgBj\",\"create_revision\":\"2\",\"mod_revision\":\"2\"},"
                "{\"key\":\"Yw==\",\"create_revision\":\"3\",\"mod_revision\":\"3\"}]}",
                &list),
        0);
    assert_int_equal(list.revision, 9007199254740993);
    assert_int_equal(list.count, 2); /* the key with a NUL is nobody's */
    assert_string_equal(list.items[0].key, "a");
    assert_int_equal(list.items[0].value_length, 3);
    assert_memory_equal(list.items[0].value, "x\0y", 4);
    assert_int_equal(list.items[0].mod_revision, 9007199254740993);
    assert_string_equal(list.items[1].value, "");
    store_list_free(&list);
    assert_int_equal(list_of("{" HEADER "}", &list), 0);
    assert_int_equal(list.count, 0);
    store_list_free(&list);
}

static void test_lists_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "\"\"",
        "{" HEADER,
        "{\"header\":1}",
        "{\"header\":{\"revision\":\"0\"}}",
        "{\"header\":{\"revision\":\"-1\"}}",
        "{\"header\":{\"revision\":\"9223372036854775808\"}}",
        "{" HEADER ",\"kvs\":{}}",
        "{" HEADER ",\"kvs\":[1]}",
        "{" HEADER ",\"kvs\":[{}]}",
        "{" HEADER ",\"kvs\":[{\"key\":\"YQ\",\"create_revision\":\"1\","
        "\"mod_revision\":\"1\"}]}",
        "{" HEADER ",\"kvs\":[{\"key\":7,\"create_revision\":\"1\","
        "\"mod_revision\":\"1\"}]}",
        "{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"2\","
        "\"mod_revision\":\"1\"}]}",
        /* not sorted */
        "{" HEADER ",\"kvs\":[{\"key\":\"Yg==\",\"create_revision\":\"1\","
        "\"mod_revision\":\"1\"},{\"key\":\"YQ==\",\"create_revision\":\"1\","
        "\"mod_revision\":\"1\"}]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct store_list list;
        assert_int_equal(list_of(bad[i], &list), -EBADMSG);
        assert_int_equal(list.count, 0);
        assert_null(list.items);
    }
}

static void test_transaction_replies(void **state)
{
    static const struct {
        const char *text;
        bool succeeded, changed;
    } replies[] = {
        {"{" HEADER "}", false, false},
        {"{" HEADER ",\"succeeded\":true}", true, false},
        {"{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{}}]}", true,
         true},
        {"{" HEADER
         ",\"succeeded\":true,\"responses\":[{\"response_delete_range\":{}}]}",
         true, false},
        {"{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_delete_range\":"
         "{\"deleted\":\"3\"}}]}",
         true, true},
    };
    struct etcd_txn_reply reply;

    (void)state;
    for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++) {
        const char *text = replies[i].text;
        assert_int_equal(etcd_json_txn_reply(text, strlen(text), &reply), 0);
        assert_int_equal(reply.succeeded, replies[i].succeeded);
        assert_int_equal(reply.changed, replies[i].changed);
        /* Cut anywhere it is no reply. */
        for (size_t n = 0; n < strlen(text); n++)
            assert_int_equal(etcd_json_txn_reply(text, n, &reply), -EBADMSG);
    }
}

static void test_leases(void **state)
{
    struct etcd_lease_reply reply;
    const char *gone = "{\"result\":{" HEADER ",\"ID\":\"7\"}}";
    const char *alive = "{\"result\":{" HEADER ",\"ID\":\"7\",\"TTL\":\"6\"}}";
    const char *granted = "{" HEADER ",\"ID\":\"7\",\"TTL\":\"5\"}";
    const char *odd = "{" HEADER ",\"TTL\":\"99999999999\"}";

    (void)state;
    assert_int_equal(etcd_json_lease_reply(gone, strlen(gone), &reply), 0);
    assert_int_equal(reply.ttl_s, 0);
    assert_int_equal(etcd_json_lease_reply(alive, strlen(alive), &reply), 0);
    assert_int_equal(reply.ttl_s, 6);
    assert_int_equal(etcd_json_lease_reply(granted, strlen(granted), &reply), 0);
    assert_int_equal(reply.ttl_s, 5);
    assert_int_equal(etcd_json_lease_reply(odd, strlen(odd), &reply), -EBADMSG);
}

static void test_tokens_and_failures(void **state)
{
    struct etcd_failure failure;
    char *token;
    const char *good = "{\"token\":\"abc.12\"}";
    const char *evil = "{\"token\":\"a\\r\\nHost: b\"}";
    const char *unary = "{\"error\":\"x\",\"message\":\"etcdserver: no\",\"code\":14}";
    const char *stream = "{\"error\":{\"grpc_code\":14,\"message\":\"gone\"}}";
    const char *unary_3_6 = "{\"code\":5,\"message\":\"no lease\",\"details\":[]}";
    const char *stream_3_6 = "{\"error\":{\"code\":14,\"message\":\"gone\"}}";
    const char *plain = "CommonName of client sending a request\n";

    (void)state;
    assert_int_equal(etcd_json_token(good, strlen(good), &token), 0);
    assert_string_equal(token, "abc.12");
    free(token);
    assert_int_equal(etcd_json_token(evil, strlen(evil), &token), -EBADMSG);
    assert_int_equal(etcd_json_token("{}", 2, &token), -EBADMSG);
    etcd_json_failure(unary, strlen(unary), &failure);
    assert_int_equal(failure.code, 14);
    assert_string_equal(failure.text, "etcdserver: no");
    etcd_json_failure(stream, strlen(stream), &failure);
    assert_int_equal(failure.code, 14);
    assert_string_equal(failure.text, "gone");
    etcd_json_failure(unary_3_6, strlen(unary_3_6), &failure);
    assert_int_equal(failure.code, 5);
    assert_string_equal(failure.text, "no lease");
    etcd_json_failure(stream_3_6, strlen(stream_3_6), &failure);
    assert_int_equal(failure.code, 14);
    assert_string_equal(failure.text, "gone");
    etcd_json_failure(plain, strlen(plain), &failure);
    assert_int_equal(failure.code, -1);
    assert_string_equal(failure.text, "CommonName of client sending a request");
}

static void test_watch_replies(void **state)
{
    struct etcd_watch_reply reply;

    (void)state;
    assert_int_equal(watch_of("{\"result\":{" HEADER ",\"created\":true}}", &reply), 0);
    assert_true(reply.created);
    etcd_json_watch_free(&reply);
    assert_int_equal(watch_of("{\"result\":{\"header\":{\"raft_term\":\"2\"},"
                              "\"canceled\":true,\"compact_revision\":\"3\"}}",
                              &reply),
                     0);
    assert_true(reply.canceled);
    assert_int_equal(reply.compact_revision, 3);
    etcd_json_watch_free(&reply);
    assert_int_equal(
        watch_of(
            "{\"result\":{" HEADER ",\"fragment\":true,\"events\":["
            "{\"kv\":{\"key\":\"YQ==\",\"create_revision\":\"2\","
            "\"mod_revision\":\"5\",\"value\":\"eA==\"}},"
            "{\"type\":\"DELETE\",\"kv\":{\"key\":\"Yg==\",\"mod_revision\":\"5\"}}]}}",
            &reply),
        0);
    assert_true(reply.fragment);
    assert_int_equal(reply.event_count, 2);
    assert_string_equal(reply.events[0].value, "x");
    assert_string_equal(reply.events[1].key, "b");
    assert_null(reply.events[1].value);
    assert_int_equal(reply.events[1].mod_revision, 5);
    etcd_json_watch_free(&reply);
    assert_int_equal(
        watch_of("{\"error\":{\"grpc_code\":14,\"message\":\"no\"}}", &reply), 0);
    assert_true(reply.failed);
    etcd_json_watch_free(&reply);
    assert_int_equal(
        watch_of("{\"result\":{" HEADER ",\"events\":[{\"type\":7}]}}", &reply),
        -EBADMSG);
    assert_int_equal(watch_of("{\"result\":{" HEADER ",\"events\":[{}]}}", &reply),
                     -EBADMSG);
    assert_int_equal(watch_of("{}", &reply), -EBADMSG);
}

static int endpoints_of(const char *text, struct etcd_endpoints *out)
{
    char why[256];

    return etcd_endpoints_parse(text, out, why, sizeof(why));
}

static void test_endpoints(void **state)
{
    static const char *const bad[] = {
        "",           "http://a",       "etcd://",         "etcd://a,",
        "etcd://a:0", "etcd://a:65536", "etcd://a:1x",     "etcd://a/b",
        "etcd://@a",  "etcd://u%4:p@a", "etcd://u%00:p@a", "etcd://[]:1"};
    struct etcd_endpoints out;

    (void)state;
    assert_int_equal(endpoints_of("etcd://a,b:1,[::1]:2,[::1]", &out), 0);
    assert_int_equal(out.count, 4);
    assert_string_equal(out.urls[0], "http://a:2379");
    assert_string_equal(out.urls[1], "http://b:1");
    assert_string_equal(out.urls[2], "http://[::1]:2");
    assert_string_equal(out.urls[3], "http://[::1]:2379");
    assert_null(out.user);
    etcd_endpoints_free(&out);
    assert_int_equal(endpoints_of("etcds://r%40x:p%3aq@a", &out), 0);
    assert_string_equal(out.urls[0], "https://a:2379");
    assert_string_equal(out.user, "r@x");
    assert_string_equal(out.password, "p:q");
    etcd_endpoints_free(&out);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(endpoints_of(bad[i], &out), -EINVAL);
}

static struct store_kv kv(const char *key, const char *value, int64_t create,
                          int64_t mod)
{
    return (struct store_kv){(char *)(uintptr_t)key, (char *)(uintptr_t)value,
                             value ? strlen(value) : 0, create, mod};
}

static void test_known_difference(void **state)
{
    struct store_kv before[] = {kv("a", "1", 2, 2), kv("b", "1", 3, 3),
                                kv("c", "1", 4, 4), kv("d", "1", 5, 5)};
    struct store_kv after[] = {kv("a", "1", 2, 2), kv("c", "2", 4, 9),
                               kv("e", "1", 10, 10), kv("f", "1", 6, 6)};
    struct store_kv put = kv("f", "1", 6, 6), deletion = kv("d", NULL, 0, 7);
    struct etcd_known *known = etcd_known_new();
    struct store_kv *events;
    size_t count;

    (void)state;
    assert_int_equal(etcd_known_set(known, &(struct store_list){before, 4, 5}), 0);
    assert_int_equal(etcd_known_apply(known, &put), 0);
    assert_int_equal(etcd_known_apply(known, &deletion), 0);
    assert_int_equal(deletion.create_revision, 5);
    assert_int_equal(
        etcd_known_diff(known, &(struct store_list){after, 4, 12}, &events, &count), 0);
    assert_int_equal(count, 3);
    assert_string_equal(events[0].key, "b");
    assert_null(events[0].value);
    assert_int_equal(events[0].mod_revision, 12);
    assert_string_equal(events[1].key, "c");
    assert_string_equal(events[1].value, "2");
    assert_string_equal(events[2].key, "e");
    free(events);
    etcd_known_free(known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_transaction),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_lists_refused),
        cmocka_unit_test(test_transaction_replies),
        cmocka_unit_test(test_leases),
        cmocka_unit_test(test_tokens_and_failures),
        cmocka_unit_test(test_watch_replies),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_known_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
