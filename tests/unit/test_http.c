/* The parts of the HTTP server that are pure: targets, errors, users, tokens, figures.
 */
#include "replica/http_error.h"
#include "replica/http_metrics.h"
#include "replica/http_peer.h"
#include "replica/http_target.h"
#include "replica/http_tokens.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- targets ------------------------------------------------------------------------
 */

static void test_target_is_taken_apart(void **state)
{
    struct http_target target;
    int64_t number = -7;

    (void)state;
    assert_int_equal(
        http_target_parse("/topics/a%2Fb//0/?from=42&x=a+b%21&flag", &target), 0);
    assert_int_equal(target.part_count, 3);
    assert_string_equal(target.parts[0], "topics");
    assert_string_equal(target.parts[1], "a/b");
    assert_string_equal(target.parts[2], "0");
    assert_string_equal(http_target_argument(&target, "x"), "a b!");
    assert_string_equal(http_target_argument(&target, "flag"), "");
    assert_null(http_target_argument(&target, "y"));
    assert_int_equal(http_target_i64(&target, "from", 0, 42, &number), 0);
    assert_int_equal(number, 42);
    assert_int_equal(http_target_i64(&target, "from", 0, 41, &number), -EINVAL);
    assert_int_equal(http_target_i64(&target, "x", 0, 41, &number), -EINVAL);
    number = -7;
    assert_int_equal(http_target_i64(&target, "absent", 0, 1, &number), 0);
    assert_int_equal(number, -7);
    http_target_free(&target);
}

static void test_target_absolute(void **state)
{
    struct http_target target;

    (void)state;
    assert_int_equal(http_target_parse("HTTP://host:1/a?b=c", &target), 0);
    assert_int_equal(target.part_count, 1);
    assert_string_equal(target.parts[0], "a");
    http_target_free(&target);
}

static void test_target_refusals(void **state)
{
    static const char *const bad[] = {
        "",       "*",       "topics",  "http://host", "/a%",     "/a%4",      "/a%zz",
        "/a%00b", "/?a=%00", "/?a=%g1", "/?a=1&a=2",   "/?a&a=2", "/?%61=1&a",
    };
    struct http_target target;
    char *text = calloc(1, HTTP_TARGET_BYTES_MAX + 2);

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (http_target_parse(bad[i], &target) != -EINVAL)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_null(target.text);
    }
    memset(text, '/', HTTP_TARGET_BYTES_MAX + 1);
    assert_int_equal(http_target_parse(text, &target), -ENAMETOOLONG);
    text[HTTP_TARGET_BYTES_MAX] = '\0';
    assert_int_equal(http_target_parse(text, &target), 0);
    http_target_free(&target);
    for (size_t i = 0; i <= HTTP_PARTS_MAX; i++)
        memcpy(text + 2 * i, "/a", 3);
    assert_int_equal(http_target_parse(text, &target), -EINVAL);
    free(text);
}

static bool matches(const char *path, const char *pattern)
{
    struct http_target target;
    bool found;

    assert_int_equal(http_target_parse(path, &target), 0);
    found = http_target_match(&target, pattern);
    http_target_free(&target);
    return found;
}

static void test_target_match(void **state)
{
    (void)state;
    assert_true(matches("/", "/"));
    assert_true(matches("/topics", "/topics"));
    assert_true(matches("/topics/", "/topics"));
    assert_false(matches("/topic", "/topics"));
    assert_false(matches("/topicsx", "/topics"));
    assert_false(matches("/topics/t", "/topics"));
    assert_true(matches("/topics/t/0", "/topics/*/*"));
    assert_false(matches("/topics/t", "/topics/*/*"));
    assert_false(matches("/topics/t/0/x", "/topics/*/*"));
    assert_true(matches("/topics/t/0/state", "/topics/*/*/state"));
    assert_true(matches("/cluster", "/cluster/**"));
    assert_true(matches("/cluster/a/b", "/cluster/**"));
    assert_false(matches("/clusters", "/cluster/**"));
}

static void test_numbers(void **state)
{
    int64_t value;

    (void)state;
    assert_int_equal(http_number("9223372036854775807", 0, INT64_MAX, &value), 0);
    assert_true(value == INT64_MAX);
    assert_int_equal(http_number("9223372036854775808", 0, INT64_MAX, &value), -EINVAL);
    assert_int_equal(http_number("", 0, 1, &value), -EINVAL);
    assert_int_equal(http_number("-1", 0, 1, &value), -EINVAL);
    assert_int_equal(http_number("+1", 0, 1, &value), -EINVAL);
    assert_int_equal(http_number("1 ", 0, 1, &value), -EINVAL);
    assert_int_equal(http_number("0x1", 0, 1, &value), -EINVAL);
}

/* ---- errors -------------------------------------------------------------------------
 */

static void test_every_error_has_a_status(void **state)
{
    static const int codes[] = {
#define X(name, code, err, wire, text) (code),
        TOPICFS_ERRORS(X)
#undef X
    };

    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        unsigned status = http_error_status(codes[i]);

        assert_in_range(status, 400, 505);
        /* Only what is broken here is a 500. */
        if (status == 500 && codes[i] != E_DAMAGED && codes[i] != E_CORRUPT)
            fail_msg("%s has no status of its own", err_name(codes[i]));
    }
    assert_int_equal(http_error_status(E_OFFSET_BELOW_START), 410);
    assert_int_equal(http_error_status(E_COMMIT_TIMEOUT), 504);
    assert_int_equal(http_error_status(-EACCES), 403);
    assert_int_equal(http_error_status(-EUSERS), 409);
    assert_int_equal(http_error_status(-EXDEV), 500);
    assert_string_equal(http_error_name(-ENOSPC), "ENOSPC");
    assert_string_equal(http_error_name(E_TOPIC_DELETED), "TOPIC_DELETED");
}

static void test_error_is_json(void **state)
{
    struct buf text;
    cJSON *object = NULL;

    (void)state;
    buf_init(&text, 4096);
    assert_int_equal(http_error_render(&text, "NAME", 7, "say \"x\"\n\xff"), 0);
    assert_int_equal(json_parse(text.data, text.length, &object), 0);
    assert_string_equal(cJSON_GetObjectItem(object, "error")->valuestring, "NAME");
    assert_int_equal(cJSON_GetObjectItem(object, "code")->valueint, 7);
    assert_string_equal(cJSON_GetObjectItem(object, "message")->valuestring,
                        "say \"x\"??");
    cJSON_Delete(object);
    buf_free(&text);
}

/* ---- users --------------------------------------------------------------------------
 */

static void test_modes(void **state)
{
    static const gid_t groups[] = {10, 20};
    const struct http_user *user = http_user_new(1000, groups, 2);
    const struct http_user *root = http_user_new(0, NULL, 0);

    (void)state;
    assert_true(http_user_allows(user, 1000, 5, 0700, HTTP_READ | HTTP_WRITE));
    assert_false(
        http_user_allows(user, 1000, 20, 0077, HTTP_READ)); /* the owner's bits */
    assert_true(http_user_allows(user, 1, 20, 0070, HTTP_WRITE));
    assert_false(http_user_allows(user, 1, 20, 0707, HTTP_WRITE));
    assert_true(http_user_allows(user, 1, 30, 0005, HTTP_READ | HTTP_EXECUTE));
    assert_false(http_user_allows(user, 1, 30, 0005, HTTP_READ | HTTP_WRITE));
    assert_true(
        http_user_allows(root, 1, 30, 0, HTTP_READ | HTTP_WRITE | HTTP_EXECUTE));
    http_user_put(user);
    http_user_put(root);
}

static void test_users_of_this_machine(void **state)
{
    const struct http_user *user = NULL;

    (void)state;
    assert_int_equal(http_user_by_name("root", &user), 0);
    assert_int_equal(http_user_uid(user), 0);
    http_user_put(user);
    assert_int_equal(http_user_by_name("no such user", &user), -ENOENT);
    assert_int_equal(http_user_by_uid(4000000000U, &user), 0);
    assert_true(http_user_uid(user) == 4000000000U);
    http_user_put(user);
}

/* ---- tokens -------------------------------------------------------------------------
 */

static int resolve(const char *name, const struct http_user **out)
{
    if (strcmp(name, "alice") != 0 && strcmp(name, "bob") != 0)
        return -ENOENT;
    *out = http_user_new(*name == 'a' ? 1 : 2, NULL, 0);
    return *out == NULL ? -ENOMEM : 0;
}

static void assert_finds(const struct http_token_list *list, const char *header,
                         int64_t uid)
{
    const struct http_user *user = http_token_list_find(list, header);
    int64_t found = user == NULL ? -1 : (int64_t)http_user_uid(user);

    http_user_put(user);
    if (found != uid)
        fail_msg("\"%s\" is user %lld", header, (long long)found);
}

static void test_tokens(void **state)
{
    static const char text[] = "# two users\n\n0123456789abcdef alice\n"
                               "\tfedcba9876543210x  bob \r\n";
    struct http_token_list *list = NULL;
    char why[256] = "";

    (void)state;
    assert_int_equal(
        http_token_list_parse(text, strlen(text), resolve, &list, why, sizeof why), 0);
    assert_finds(list, "Bearer 0123456789abcdef", 1);
    assert_finds(list, "bearer   fedcba9876543210x", 2);
    assert_finds(list, "Bearer fedcba9876543210", -1);
    assert_finds(list, "Bearer 0123456789abcdef0", -1);
    assert_finds(list, "Bearer ", -1);
    assert_finds(list, "Basic 0123456789abcdef", -1);
    assert_finds(list, "", -1);
    http_token_list_free(list);
}

static void test_token_files_that_are_refused(void **state)
{
    static const char *const bad[] = {
        "short alice\n",
        "0123456789abcdef\n",
        "0123456789abcdef \n",
        "0123456789abcdef alice bob\n",
        "0123456789abcdef carol\n",
        "0123456789abcdef alice\n0123456789abcdef bob\n",
        "0123456789abcd\xc3\xa9 alice\n",
        "0123456789abcdef al\x01ice\n",
    };
    struct http_token_list *list = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char why[256] = "";

        if (http_token_list_parse(bad[i], strlen(bad[i]), resolve, &list, why,
                                  sizeof why) == 0)
            fail_msg("taken: %s", bad[i]);
        assert_non_null(strstr(why, "line "));
    }
    char why[256] = "";
    assert_true(http_token_list_parse("a\0b", 3, resolve, &list, why, sizeof why) < 0);
}

/* ---- the other end ------------------------------------------------------------------
 */

static void test_loopback(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    (void)state;
    (void)inet_pton(AF_INET, "127.1.2.3", &in.sin_addr);
    assert_true(http_peer_is_loopback((struct sockaddr *)&in));
    (void)inet_pton(AF_INET, "128.0.0.1", &in.sin_addr);
    assert_false(http_peer_is_loopback((struct sockaddr *)&in));
    (void)inet_pton(AF_INET6, "::1", &in6.sin6_addr);
    assert_true(http_peer_is_loopback((struct sockaddr *)&in6));
    (void)inet_pton(AF_INET6, "::ffff:127.0.0.1", &in6.sin6_addr);
    assert_true(http_peer_is_loopback((struct sockaddr *)&in6));
    (void)inet_pton(AF_INET6, "::", &in6.sin6_addr);
    assert_false(http_peer_is_loopback((struct sockaddr *)&in6));
}

static void test_hosts(void **state)
{
    (void)state;
    assert_true(http_peer_host_is_loopback("localhost"));
    assert_true(http_peer_host_is_loopback("LOCALHOST:9640"));
    assert_true(http_peer_host_is_loopback("127.0.0.1:9640"));
    assert_true(http_peer_host_is_loopback("[::1]:9640"));
    assert_false(http_peer_host_is_loopback("localhost.example:9640"));
    assert_false(http_peer_host_is_loopback("127.0.0.1.example"));
    assert_false(http_peer_host_is_loopback("[::1].example"));
    assert_false(http_peer_host_is_loopback(""));
    assert_false(http_peer_host_is_loopback(":1"));
}

/* Also that a socket whose owner has closed it is nobody's: it shows as root's. */
static void test_owner_of_a_socket(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in peer;
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    uid_t uid = 12345;

    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, length), 0);
    int server = accept(listener, (struct sockaddr *)&peer, &length);
    assert_true(server >= 0);
    assert_int_equal(
        http_peer_uid((struct sockaddr *)&peer, (struct sockaddr *)&address, &uid), 0);
    assert_int_equal(uid, getuid());
    (void)close(client);
    assert_true(
        http_peer_uid((struct sockaddr *)&peer, (struct sockaddr *)&address, &uid) < 0);
    (void)close(server);
    assert_true(
        http_peer_uid((struct sockaddr *)&peer, (struct sockaddr *)&address, &uid) < 0);
    (void)close(listener);
}

/* ---- figures ------------------------------------------------------------------------
 */

static void test_metrics(void **state)
{
    const struct http_metrics_row rows[] = {
        {.topic = "a\"b\\c\nd",
         .partition = 3,
         .is_leader = true,
         .status = {.start = {.offset = 5},
                    .high_watermark = {.offset = 7},
                    .log_end_offset = 9},
         .counters = {.messages_in = 4, .bytes_in = 1ULL << 40}},
        {.topic = "t", .status = {.offline = true}},
    };
    const struct http_process process = {
        .open_files = 12, .max_files = -1, .resident_bytes = 4096, .threads = 9};
    struct buf text;

    (void)state;
    buf_init(&text, 1 << 20);
    assert_int_equal(http_metrics_render(rows, 2, &process, 0, &text), 0);
    assert_non_null(strstr(
        text.data, "\ntopicfs_partition_high_watermark{topic=\"a\\\"b\\\\c\\nd\","
                   "partition=\"3\"} 7\n"));
    assert_non_null(strstr(text.data, "partition=\"3\"} 1099511627776\n"));
    assert_non_null(
        strstr(text.data, "topicfs_partition_online{topic=\"t\",partition=\"0\"} 0\n"));
    assert_non_null(strstr(text.data, "\ntopicfs_problems 0\n"));
    assert_null(strstr(text.data, "max_files"));
    /* Every line is a comment or "name{labels} value"; each family has its two. */
    size_t helps = 0, types = 0;
    for (char *rest = text.data, *line; (line = strsep(&rest, "\n")) != NULL;) {
        helps += strncmp(line, "# HELP topicfs_", 15) == 0;
        types += strncmp(line, "# TYPE topicfs_", 15) == 0;
        if (*line != '#' && *line != '\0')
            assert_int_equal(strncmp(line, "topicfs_", 8), 0);
    }
    assert_int_equal(helps, types);
    assert_true(helps > 15);
    buf_free(&text);
}

static void test_own_process(void **state)
{
    struct http_process process;

    (void)state;
    http_process_measure(&process);
    assert_in_range(process.open_files, 1, 1000);
    assert_in_range(process.threads, 1, 100);
    assert_true(process.resident_bytes > 100000);
    assert_true(process.max_files > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target_is_taken_apart),
        cmocka_unit_test(test_target_absolute),
        cmocka_unit_test(test_target_refusals),
        cmocka_unit_test(test_target_match),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_every_error_has_a_status),
        cmocka_unit_test(test_error_is_json),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_users_of_this_machine),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_token_files_that_are_refused),
        cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_owner_of_a_socket),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_own_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
