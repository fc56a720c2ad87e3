/* The settings table: text and JSON forms, borders, refusals and their texts. */
#include "coord/settings.h"

#include "coord/err.h"
#include "coord/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct topic_config config;
    struct topic_config defaults;
    char why[512];
};

static int setup(void **state)
{
    static struct fixture fixture;

    topic_config_defaults(&fixture.config);
    topic_config_defaults(&fixture.defaults);
    *state = &fixture;
    return 0;
}

static int set(struct fixture *fixture, const char *name, const char *value)
{
    return settings_set_text(&fixture->config, SETTING_TOPIC, name, value, fixture->why,
                             sizeof fixture->why);
}

static int apply(struct fixture *fixture, const char *text, bool creating)
{
    cJSON *object;

    assert_int_equal(json_parse(text, strlen(text), &object), 0);
    struct topic_config before = fixture->config;
    int rc =
        settings_apply_json(&fixture->config, SETTING_TOPIC, &fixture->defaults, object,
                            7, creating, fixture->why, sizeof fixture->why);
    if (rc)
        assert_memory_equal(&fixture->config, &before, sizeof before);
    assert_true((rc == 0) == (fixture->why[0] == '\0'));
    cJSON_Delete(object);
    return rc;
}

static void assert_refused(struct fixture *fixture, const char *name, const char *value,
                           const char *why)
{
    struct topic_config before = fixture->config;

    assert_int_equal(set(fixture, name, value), E_INVALID_CONFIG);
    assert_string_equal(fixture->why, why);
    assert_memory_equal(&fixture->config, &before, sizeof before);
}

static void test_defaults(void **state)
{
    static const struct topic_config expected = {
        .partitions = 1,
        .acks = ACKS_ALL,
        .on_below_min = BELOW_MIN_WAIT,
        .flush = FLUSH_ACK,
        .flush_ms = 1000,
        .max_message_bytes = 1024 * 1024,
        .segment_bytes = 256 * 1024 * 1024,
        .segment_ms = 7 * 86400000,
        .retention_ms = 7 * 86400000,
        .retention_bytes = -1,
        .cleanup_policy = CLEANUP_DELETE,
        .key_delimiter = '\t',
        .unclean_leader_election = UNCLEAN_NEVER,
        .delivery_timeout_ms = 30000,
        .replica_lag_time_max_ms = 10000,
    };
    struct fixture *fixture = *state;

    assert_memory_equal(&fixture->config, &expected, sizeof expected);
}

static void test_text_forms(void **state)
{
    static const struct {
        const char *name;
        const char *value;
        int64_t expected;
        size_t at;
    } cases[] = {
#define AT(field) offsetof(struct topic_config, field)
        {"partitions", "10000", 10000, AT(partitions)},
        {"replication_factor", "3", 3, AT(replication_factor)},
        {"acks", "all", ACKS_ALL, AT(acks)},
        {"acks", "-1", ACKS_ALL, AT(acks)},
        {"acks", "0", ACKS_NONE, AT(acks)},
        {"acks", "1", ACKS_LEADER, AT(acks)},
        {"on_below_min", "fail", BELOW_MIN_FAIL, AT(on_below_min)},
        {"flush", "interval", FLUSH_INTERVAL, AT(flush)},
        {"flush", "os", FLUSH_OS, AT(flush)},
        {"flush_ms", "1", 1, AT(flush_ms)},
        {"flush_ms", "250ms", 250, AT(flush_ms)},
        {"flush_ms", "1d", 86400000, AT(flush_ms)},
        {"max_message_bytes", "1", 1, AT(max_message_bytes)},
        {"max_message_bytes", "64m", 64 * 1024 * 1024, AT(max_message_bytes)},
        {"segment_bytes", "1k", 1024, AT(segment_bytes)},
        {"segment_bytes", "1G", 1024 * 1024 * 1024, AT(segment_bytes)},
        {"segment_bytes", "2147483647", 2147483647, AT(segment_bytes)},
        {"segment_ms", "2h", 7200000, AT(segment_ms)},
        {"retention_ms", "-1", -1, AT(retention_ms)},
        {"retention_ms", "0", 0, AT(retention_ms)},
        {"retention_ms", "5m", 300000, AT(retention_ms)},
        {"retention_ms", "36500d", INT64_C(3153600000000), AT(retention_ms)},
        {"retention_bytes", "9007199254740991", 9007199254740991, AT(retention_bytes)},
        {"cleanup_policy", "compact", CLEANUP_COMPACT, AT(cleanup_policy)},
        {"cleanup_policy", "delete,compact", 3, AT(cleanup_policy)},
        {"cleanup_policy", "compact+delete", 3, AT(cleanup_policy)},
        {"key_delimiter", ";", ';', AT(key_delimiter)},
        {"key_delimiter", "\\t", '\t', AT(key_delimiter)},
        {"key_delimiter", "comma", ',', AT(key_delimiter)},
        {"key_delimiter", "\x7f", 127, AT(key_delimiter)},
        {"unclean_leader_election", "true", UNCLEAN_AT_ONCE,
         AT(unclean_leader_election)},
        {"unclean_leader_election", "0", UNCLEAN_AT_ONCE, AT(unclean_leader_election)},
        {"unclean_leader_election", "5s", 5000, AT(unclean_leader_election)},
        {"unclean_leader_election", "false", UNCLEAN_NEVER,
         AT(unclean_leader_election)},
        {"delivery_timeout_ms", "1s", 1000, AT(delivery_timeout_ms)},
        {"replica_lag_max_messages", "4000", 4000, AT(replica_lag_max_messages)},
    };
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t got;

        if (set(fixture, cases[i].name, cases[i].value))
            fail_msg("%s", fixture->why);
        memcpy(&got, (const char *)&fixture->config + cases[i].at, sizeof got);
        if (got != cases[i].expected)
            fail_msg("%s=%s gave %lld", cases[i].name, cases[i].value, (long long)got);
    }
}

static void test_no_delimiter(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(set(fixture, "key_delimiter", ""), 0);
    assert_int_equal(fixture->config.key_delimiter, KEY_DELIMITER_NONE);
    assert_int_equal(set(fixture, "key_delimiter", "tab"), 0);
    assert_int_equal(set(fixture, "key_delimiter", "none"), 0);
    assert_int_equal(fixture->config.key_delimiter, KEY_DELIMITER_NONE);
}

static void test_refusals_say_what_is_allowed(void **state)
{
    struct fixture *fixture = *state;

    assert_refused(
        fixture, "retention_ms", "-5",
        "retention_ms: -5 is out of range; allowed: -1 or more, for example 7d");
    assert_refused(fixture, "retention_ms", "36501d",
                   "retention_ms: 36501d is out of range; allowed: 36500d or less, for "
                   "example 7d");
    assert_refused(fixture, "retention_ms", "1w",
                   "retention_ms: 1w is not a time; allowed: milliseconds, or a number "
                   "with ms, s, m, h or d, for example 7d");
    assert_refused(
        fixture, "segment_bytes", "2g",
        "segment_bytes: 2g is out of range; allowed: 2147483647 or less, for "
        "example 256m");
    assert_refused(fixture, "segment_bytes", "",
                   "segment_bytes: an empty value is not a size; allowed: bytes, or a "
                   "number with k, m or g, for example 256m");
    assert_refused(fixture, "flush", "always",
                   "flush: always is unknown; allowed: ack, interval or os");
    assert_refused(fixture, "cleanup_policy", "delete,",
                   "cleanup_policy: delete, is unknown; allowed: delete or compact, or "
                   "both as delete,compact");
    assert_refused(
        fixture, "unclean_leader_election", "-1",
        "unclean_leader_election: -1 is out of range; allowed: false, true, 0 "
        "or more, for example 30s");
    assert_refused(fixture, "key_delimiter", "ab",
                   "key_delimiter: ab is not one byte of ASCII; allowed: tab, none, "
                   "comma, space, or one byte of ASCII but newline");
    assert_refused(fixture, "partitions", NULL,
                   "partitions: needs a value, as in partitions=...");
}

static void test_malformed_numbers(void **state)
{
    static const char *const bad[] = {"",    " 1",  "1 ",   "+1",  "--1", "1.5", "0x1",
                                      "1e3", "1kk", "1 ms", "one", "-",   "1S",  "ms"};
    static const char *const huge[] = {"9223372036854775807", "9223372036854775808",
                                       "99999999999999999999999",
                                       "-9223372036854775809", "106751991168d"};
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(set(fixture, "segment_ms", bad[i]), E_INVALID_CONFIG);
        assert_null(strstr(fixture->why, "out of range"));
    }
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        assert_int_equal(set(fixture, "segment_ms", huge[i]), E_INVALID_CONFIG);
        assert_non_null(strstr(fixture->why, "out of range"));
    }
    assert_int_equal(set(fixture, "key_delimiter", "\n"), E_INVALID_CONFIG);
    assert_int_equal(set(fixture, "key_delimiter", "\xc3"), E_INVALID_CONFIG);
}

static void test_unknown_names(void **state)
{
    struct fixture *fixture = *state;

    assert_refused(fixture, "retention", "1",
                   "retention: unknown setting; did you mean retention_ms?");
    assert_refused(fixture, "retension_ms", "1",
                   "retension_ms: unknown setting; did you mean retention_ms?");
    assert_refused(fixture, "Acks", "1", "Acks: unknown setting; did you mean acks?");
    assert_refused(fixture, "xyzzy", "1", "xyzzy: unknown setting");
    assert_refused(fixture, "", "1", ": unknown setting");
    /* A mount's setting is none of a topic's. */
    assert_refused(fixture, "listen", "x:1", "listen: unknown setting");
}

static void test_why_is_clean_and_bounded(void **state)
{
    struct fixture *fixture = *state;
    char value[300];
    char why[40];

    for (size_t size = 0; size <= sizeof why; size++) {
        memset(why, 'w', sizeof why);
        assert_int_equal(settings_set_text(&fixture->config, SETTING_TOPIC, "acks",
                                           "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", why,
                                           size),
                         E_INVALID_CONFIG);
        if (size > 0)
            assert_true(json_utf8_valid(why, strnlen(why, size)));
        if (size < sizeof why)
            assert_int_equal(why[size], 'w');
    }
    assert_int_equal(set(fixture, "acks", "a\nb\x80"), E_INVALID_CONFIG);
    assert_string_equal(fixture->why, "acks: a?b? is unknown; allowed: all, 1 or 0");
    memset(value, '9', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    assert_int_equal(set(fixture, "segment_ms", value), E_INVALID_CONFIG);
    assert_non_null(strstr(fixture->why, "999... "));
    assert_true(strlen(fixture->why) < 250);
}

static void test_json_forms(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(apply(fixture,
                           "{\"retention_ms\":\"1d\",\"segment_bytes\":2048,\"acks\":1,"
                           "\"flush\":\"os\",\"unclean_leader_election\":true,"
                           "\"cleanup_policy\":[\"compact\",\"delete\"],"
                           "\"key_delimiter\":\":\"}",
                           false),
                     0);
    assert_int_equal(fixture->config.retention_ms, 86400000);
    assert_int_equal(fixture->config.segment_bytes, 2048);
    assert_int_equal(fixture->config.acks, ACKS_LEADER);
    assert_int_equal(fixture->config.flush, FLUSH_OS);
    assert_int_equal(fixture->config.unclean_leader_election, UNCLEAN_AT_ONCE);
    assert_int_equal(fixture->config.cleanup_policy, 3);
    assert_int_equal(fixture->config.key_delimiter, ':');

    assert_int_equal(apply(fixture,
                           "{\"acks\":\"all\",\"unclean_leader_election\":5000,"
                           "\"cleanup_policy\":\"delete\",\"key_delimiter\":\"\"}",
                           false),
                     0);
    assert_int_equal(fixture->config.acks, ACKS_ALL);
    assert_int_equal(fixture->config.unclean_leader_election, 5000);
    assert_int_equal(fixture->config.key_delimiter, KEY_DELIMITER_NONE);
    assert_int_equal(apply(fixture, "{}", false), 0);
}

static void test_json_null_restores_the_default(void **state)
{
    struct fixture *fixture = *state;

    fixture->defaults.retention_ms = 1234;
    fixture->config.acks = ACKS_NONE;
    assert_int_equal(apply(fixture, "{\"retention_ms\":null,\"acks\":null}", false), 0);
    assert_int_equal(fixture->config.retention_ms, 1234);
    assert_int_equal(fixture->config.acks, ACKS_ALL);
    fixture->config.partitions = 4;
    assert_int_equal(apply(fixture, "{\"partitions\":null}", false), E_READ_ONLY);
    assert_int_equal(apply(fixture, "{\"partitions\":null}", true), 0);
    assert_int_equal(fixture->config.partitions, 1);
}

static void test_json_refusals(void **state)
{
    static const char *const bad[] = {
        "[]",
        "5",
        "\"retention_ms\"",
        "null",
        "{\"nonsense\":1}",
        "{\"retention_ms\":1.5}",
        "{\"retention_ms\":true}",
        "{\"retention_ms\":[1]}",
        "{\"retention_ms\":{}}",
        "{\"retention_ms\":1e300}",
        "{\"retention_ms\":-2}",
        "{\"flush\":1}",
        "{\"flush\":\"ACK\"}",
        "{\"acks\":2}",
        "{\"key_delimiter\":5}",
        "{\"key_delimiter\":\"\\n\"}",
        "{\"key_delimiter\":\"\\u00e9\"}",
        "{\"cleanup_policy\":[]}",
        "{\"cleanup_policy\":[1]}",
        "{\"cleanup_policy\":[\"delete,compact\"]}",
        "{\"cleanup_policy\":[\"\"]}",
        "{\"cleanup_policy\":1}",
        "{\"unclean_leader_election\":-1}",
        "{\"segment_bytes\":1023}",
        "{\"segment_bytes\":2147483648}",
        "{\"max_message_bytes\":0}",
        "{\"max_message_bytes\":67108865}",
        "{\"min_insync_replicas\":-1}",
        "{\"version\":\"x\"}",
        "{\"version\":null}",
        "{\"cleanup_policy\":\"compact\",\"key_delimiter\":\"\"}",
        /* All or nothing: the first key would be fine. */
        "{\"retention_ms\":5,\"flush\":\"never\"}",
    };
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (apply(fixture, bad[i], true) != E_INVALID_CONFIG)
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(apply(fixture, "{\"retention_ms\":1.5}", false), E_INVALID_CONFIG);
    assert_non_null(strstr(fixture->why, "retention_ms: 1.5 is not a time; allowed: "));
    assert_int_equal(apply(fixture, "{\"retention_ms\":-5}", false), E_INVALID_CONFIG);
    assert_string_equal(
        fixture->why,
        "retention_ms: -5 is out of range; allowed: -1 or more, for example 7d");
}

static void test_json_read_only(void **state)
{
    struct fixture *fixture = *state;

    fixture->config.partitions = 3;
    fixture->config.replication_factor = 2;
    assert_int_equal(
        apply(fixture, "{\"partitions\":3,\"replication_factor\":2}", false), 0);
    assert_int_equal(apply(fixture, "{\"partitions\":4,\"acks\":0}", false),
                     E_READ_ONLY);
    assert_string_equal(fixture->why,
                        "partitions: it is 3 and can't be changed once the topic is "
                        "made; mkdir of the next partition adds one");
    assert_int_equal(apply(fixture, "{\"replication_factor\":0}", false), E_READ_ONLY);
    assert_int_equal(apply(fixture, "{\"partitions\":4}", true), 0);
    assert_int_equal(fixture->config.partitions, 4);
}

static void test_json_version(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(apply(fixture, "{\"acks\":0,\"version\":7}", false), 0);
    assert_int_equal(apply(fixture, "{\"acks\":1,\"version\":6}", false), E_CONFLICT);
    assert_string_equal(fixture->why,
                        "version: it is 7 now, not 6; read the file again and retry");
    /* A stale version explains whatever else is wrong, wherever it stands. */
    assert_int_equal(apply(fixture, "{\"partitions\":9,\"version\":8}", false),
                     E_CONFLICT);
}

static void test_min_insync(void **state)
{
    struct fixture *fixture = *state;
    struct topic_config *config = &fixture->config;

    for (int factor = 1; factor <= 5; factor++) {
        config->replication_factor = factor;
        assert_int_equal(topic_config_min_insync(config), factor >= 3 ? 2 : 1);
    }
    config->replication_factor = 3;
    /* What is shown for a default, written back, leaves it the default. */
    assert_int_equal(apply(fixture, "{\"min_insync_replicas\":2}", false), 0);
    assert_int_equal(config->min_insync_replicas, 0);
    assert_int_equal(apply(fixture, "{\"min_insync_replicas\":3}", false), 0);
    assert_int_equal(topic_config_min_insync(config), 3);
    assert_int_equal(apply(fixture, "{\"min_insync_replicas\":2}", false), 0);
    assert_int_equal(config->min_insync_replicas, 2);
    assert_int_equal(apply(fixture, "{\"min_insync_replicas\":0}", false), 0);
    assert_int_equal(config->min_insync_replicas, 0);
    assert_int_equal(apply(fixture, "{\"min_insync_replicas\":4}", false),
                     E_INVALID_CONFIG);
    assert_string_equal(fixture->why,
                        "min_insync_replicas: 4 is more than replication_factor, which "
                        "is 3; allowed: 1 to 3");
}

static void test_to_json(void **state)
{
    struct fixture *fixture = *state;

    fixture->config.replication_factor = 3;
    fixture->config.acks = ACKS_LEADER;
    fixture->config.unclean_leader_election = UNCLEAN_AT_ONCE;
    fixture->config.cleanup_policy = 3;
    cJSON *object = settings_to_json(&fixture->config, SETTING_TOPIC, 9007199254740993);
    char *text = cJSON_PrintUnformatted(object);
    assert_string_equal(
        text,
        "{\"version\":9007199254740993,\"partitions\":1,\"replication_factor\":3,"
        "\"acks\":1,\"min_insync_replicas\":2,\"on_below_min\":\"wait\",\"flush\":"
        "\"ack\","
        "\"flush_ms\":1000,\"max_message_bytes\":1048576,\"segment_bytes\":268435456,"
        "\"segment_ms\":604800000,\"retention_ms\":604800000,\"retention_bytes\":-1,"
        "\"cleanup_policy\":\"delete,compact\",\"key_delimiter\":\"\\t\","
        "\"unclean_leader_election\":true,\"delivery_timeout_ms\":30000,"
        "\"replica_lag_time_max_ms\":10000,\"replica_lag_max_messages\":0}");
    cJSON_free(text);

    /* The tree itself, and its text, give the same config again. */
    struct topic_config before = fixture->config;
    assert_int_equal(settings_apply_json(&fixture->config, SETTING_TOPIC,
                                         &fixture->defaults, object, 9007199254740993,
                                         false, NULL, 0),
                     0);
    assert_memory_equal(&fixture->config, &before, sizeof before);
    cJSON_Delete(object);
}

static void test_mount(void **state)
{
    static const struct {
        const char *name;
        const char *value;
        int rc;
    } cases[] = {
        {"data", "/srv/log", 0},
        {"data", "", E_INVALID_CONFIG},
        {"coord", "embedded", 0},
        {"coord", "etcd://a:2379", 0},
        {"coord", "etcd://10.0.0.1:2379,[::1]:2380", 0},
        {"coord", "etcd://", E_INVALID_CONFIG},
        {"coord", "etcd://a", E_INVALID_CONFIG},
        {"coord", "etcd://a:1,", E_INVALID_CONFIG},
        {"coord", "etcd://a:1/x", E_INVALID_CONFIG},
        {"coord", "zookeeper://a:1", E_INVALID_CONFIG},
        {"cluster", "prod.eu-1", 0},
        {"cluster", "..", E_INVALID_CONFIG},
        {"cluster", "a/b", E_INVALID_CONFIG},
        {"cluster", "", E_INVALID_CONFIG},
        {"node", "0", 0},
        {"node", "2147483647", 0},
        {"node", "2147483648", E_INVALID_CONFIG},
        {"node", "-1", E_INVALID_CONFIG},
        {"listen", "", 0},
        {"listen", "127.0.0.1:0", 0},
        {"listen", "[::]:65535", 0},
        {"listen", "a:65536", E_INVALID_CONFIG},
        {"listen", "a:", E_INVALID_CONFIG},
        {"listen", ":1", E_INVALID_CONFIG},
        {"listen", "::1:80", E_INVALID_CONFIG},
        {"listen", "[]:80", E_INVALID_CONFIG},
        {"listen", "[::1]80", E_INVALID_CONFIG},
        {"advertise", "node1.example:9640", 0},
        {"advertise", "a b:1", E_INVALID_CONFIG},
        {"rack", "r\xc3\xa9", 0},
        {"rack", "r\xc3", E_INVALID_CONFIG},
        {"rack", "a\nb", E_INVALID_CONFIG},
        {"session_timeout_ms", "10s", 0},
        {"session_timeout_ms", "499", E_INVALID_CONFIG},
        {"allow_other", NULL, 0},
        {"allow_other", "maybe", E_INVALID_CONFIG},
        {"retention_ms", "3d", 0},
        {"retention_ms", "-3", E_INVALID_CONFIG},
        {"start", "latest", 0},
        {"offsets_retention_ms", "-1", 0},
        {"group_session_timeout_ms", "499", E_INVALID_CONFIG},
        {"lissten", "x", E_INVALID_CONFIG},
        {"retention_sm", "x", E_INVALID_CONFIG},
    };
    struct mount_config config;
    char why[512];

    (void)state;
    assert_int_equal(mount_config_defaults(&config), 0);
    assert_string_equal(config.data, "/var/lib/topicfs");
    assert_string_equal(config.coord, "embedded");
    assert_int_equal(config.session_timeout_ms, 6000);
    assert_int_equal(config.topic.segment_bytes, 256 * 1024 * 1024);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int rc = settings_set_text(&config, SETTING_MOUNT, cases[i].name,
                                   cases[i].value, why, sizeof why);

        if (rc != cases[i].rc)
            fail_msg("%s=%s: %d %s", cases[i].name, cases[i].value, rc, why);
        assert_true((rc == 0) == (why[0] == '\0'));
    }
    assert_string_equal(why,
                        "retention_sm: unknown setting; did you mean retention_ms?");
    assert_string_equal(config.coord, "etcd://10.0.0.1:2379,[::1]:2380");
    assert_string_equal(config.listen, "[::]:65535");
    assert_int_equal(config.allow_other, 1);
    assert_int_equal(config.node, 2147483647);
    assert_int_equal(config.topic.retention_ms, 3 * 86400000);
    assert_int_equal(config.group.start, GROUP_START_LATEST);
    assert_int_equal(config.group.offsets_retention_ms, -1);
    mount_config_free(&config);
    assert_null(config.data);
    mount_config_free(&config);
}

static void test_group(void **state)
{
    struct group_config config, defaults, before;
    cJSON *object;
    char why[512];

    (void)state;
    group_config_defaults(&config);
    assert_int_equal(config.start, GROUP_START_EARLIEST);
    assert_int_equal(config.commit, GROUP_COMMIT_AUTO);
    assert_int_equal(config.group_session_timeout_ms, 10000);
    assert_int_equal(config.max_poll_interval_ms, 300000);
    assert_int_equal(config.offsets_retention_ms, 7 * 86400000);
    defaults = config;
    defaults.max_poll_interval_ms = 60000;

    object = cJSON_Parse("{\"version\":3,\"commit\":\"manual\",\"start\":\"latest\","
                         "\"max_poll_interval_ms\":null,"
                         "\"group_session_timeout_ms\":\"30s\"}");
    assert_int_equal(settings_apply_json(&config, SETTING_GROUP, &defaults, object, 2,
                                         false, why, sizeof why),
                     E_CONFLICT);
    assert_int_equal(settings_apply_json(&config, SETTING_GROUP, &defaults, object, 3,
                                         false, why, sizeof why),
                     0);
    cJSON_Delete(object);
    assert_int_equal(config.max_poll_interval_ms, 60000);
    object = settings_to_json(&config, SETTING_GROUP, 4);
    char *text = cJSON_PrintUnformatted(object);
    assert_string_equal(text,
                        "{\"version\":4,\"start\":\"latest\",\"commit\":\"manual\","
                        "\"group_session_timeout_ms\":30000,"
                        "\"max_poll_interval_ms\":60000,"
                        "\"offsets_retention_ms\":604800000}");
    cJSON_free(text);
    cJSON_Delete(object);

    /* All or nothing; the names of topics' settings are no names here. */
    before = config;
    object = cJSON_Parse("{\"commit\":\"auto\",\"retention_ms\":1}");
    assert_int_equal(settings_apply_json(&config, SETTING_GROUP, &defaults, object, 4,
                                         false, why, sizeof why),
                     E_INVALID_CONFIG);
    assert_string_equal(why, "retention_ms: unknown setting");
    assert_memory_equal(&config, &before, sizeof config);
    cJSON_Delete(object);
    assert_int_equal(
        settings_set_text(&config, SETTING_GROUP, "comit", "auto", why, sizeof why),
        E_INVALID_CONFIG);
    assert_string_equal(why, "comit: unknown setting; did you mean commit?");
    assert_int_equal(
        settings_set_text(&config, SETTING_GROUP, "commit", "auto", why, sizeof why),
        0);
    assert_int_equal(config.commit, GROUP_COMMIT_AUTO);
}

static void test_help(void **state)
{
    struct buf help;

    (void)state;
    buf_init(&help, 64 * 1024);
    assert_int_equal(settings_help(&help, SETTING_MOUNT), 0);
    assert_int_equal(settings_help(&help, SETTING_TOPIC), 0);
    assert_non_null(strstr(help.data, "  -o data=TEXT "));
    assert_non_null(strstr(help.data, "  -o flush=ack|interval|os "));
    assert_non_null(strstr(help.data, "(default: 7d)\n"));
    assert_null(strchr(help.data, '`'));
    buf_free(&help);

    buf_init(&help, 100);
    assert_int_equal(settings_help(&help, SETTING_MOUNT), -EMSGSIZE);
    buf_free(&help);
}

/* docs/config.md is what the table says. UPDATE=1 in the environment rewrites the file.
 */
static void test_reference_is_current(void **state)
{
    static const char path[] = TOPICFS_SOURCE_DIR "/docs/config.md";
    struct buf expected;
    struct buf stored;
    char chunk[4096];
    size_t n;

    (void)state;
    buf_init(&expected, 1024 * 1024);
    buf_init(&stored, 1024 * 1024);
    assert_int_equal(settings_markdown(&expected), 0);
    if (getenv("UPDATE")) {
        FILE *out = fopen(path, "w");

        assert_non_null(out);
        assert_int_equal(fwrite(expected.data, 1, expected.length, out),
                         expected.length);
        assert_int_equal(fclose(out), 0);
    }
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    while ((n = fread(chunk, 1, sizeof chunk, in)) > 0)
        buf_add(&stored, chunk, n);
    fclose(in);
    assert_int_equal(buf_error(&stored), 0);
    assert_string_equal(stored.data, expected.data);
    buf_free(&stored);
    buf_free(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_defaults, setup),
        cmocka_unit_test_setup(test_text_forms, setup),
        cmocka_unit_test_setup(test_no_delimiter, setup),
        cmocka_unit_test_setup(test_refusals_say_what_is_allowed, setup),
        cmocka_unit_test_setup(test_malformed_numbers, setup),
        cmocka_unit_test_setup(test_unknown_names, setup),
        cmocka_unit_test_setup(test_why_is_clean_and_bounded, setup),
        cmocka_unit_test_setup(test_json_forms, setup),
        cmocka_unit_test_setup(test_json_null_restores_the_default, setup),
        cmocka_unit_test_setup(test_json_refusals, setup),
        cmocka_unit_test_setup(test_json_read_only, setup),
        cmocka_unit_test_setup(test_json_version, setup),
        cmocka_unit_test_setup(test_min_insync, setup),
        cmocka_unit_test_setup(test_to_json, setup),
        cmocka_unit_test(test_mount),
        cmocka_unit_test(test_group),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_reference_is_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
