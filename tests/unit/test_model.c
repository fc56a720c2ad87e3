/* What another program wrote to the store: nothing is lost for it, nothing opened, and
 * it is named while it is there. */
#include "tests/unit/support/one_node.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* value NULL: deletes. */
static void put(struct fixture *f, const char *key, const char *value)
{
    struct buf text;
    int64_t revision;
    struct txn txn;

    buf_init(&text, 4096);
    txn_init(&txn, f->cluster->prefix);
    if (value) {
        buf_adds(&text, value);
        txn_put(&txn, false, &text, "%s", key);
    } else {
        txn_delete(&txn, "%s", key);
    }
    assert_int_equal(txn_commit(&txn, f->cluster->store, &revision), 0);
    buf_free(&text);
}

static void expect_no_problems(struct fixture *f)
{
    expect_file(f, "problems", "");
}

static void a_topic_outlives_its_assignment(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;

    assert_int_equal(create(f, "t", "{\"partitions\":2}"), 0);
    put(f, "brokers/topics/t/assignment", "nonsense");
    expect_in_file(f, "problems", "brokers/topics/t/assignment");
    t = topic(f, "t", &snapshot);
    assert_non_null(t);
    assert_int_equal(t->partition_count, 2);
    assert_int_equal(t->partitions[1].leader, f->config.node);
    cluster_snapshot_put(snapshot);
    /* What is decided next is decided from the last good one, and mends it. */
    assert_int_equal(cluster_add_partition(f->cluster, "t", 2, f->why, sizeof(f->why)),
                     0);
    expect_no_problems(f);
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->partition_count, 3);
    cluster_snapshot_put(snapshot);
    put(f, "brokers/topics/t/assignment", NULL);
    assert_null(topic(f, "t", &snapshot));
    cluster_snapshot_put(snapshot);
}

static void expect_retention(struct fixture *f, int64_t ms, int64_t bytes)
{
    const struct cluster_snapshot *snapshot;
    const struct topic *t = topic(f, "t", &snapshot);

    assert_int_equal(t->config.retention_ms, ms);
    assert_int_equal(t->config.retention_bytes, bytes);
    cluster_snapshot_put(snapshot);
}

/* The default would drop messages that were to stay. */
static void without_settings_nothing_expires(void **state)
{
    static const char *const bad[] = {
        "nonsense",
        "{\"version\":1,\"config_version\":1,\"config\":{\"x\":1}}",
        "{\"version\":1,\"config_version\":1,\"config\":{\"acks\":\"some\"}}",
        "{\"version\":1,\"config_version\":1,\"config\":[]}",
        NULL,
    };
    struct fixture *f = *state;

    assert_int_equal(create(f, "t", "{\"retention_ms\":\"30d\"}"), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put(f, "config/topics/t", bad[i]);
        expect_retention(f, -1, -1);
        expect_in_file(f, "problems", "kind=config t:");
        put(f, "config/topics/t",
            "{\"version\":1,\"config_version\":1,\"config\":{\"retention_ms\":1000}}");
        expect_retention(f, 1000, -1);
        expect_no_problems(f);
    }
}

static void expect_mode(struct fixture *f, mode_t topics, mode_t t)
{
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(f->cluster);

    assert_int_equal(snapshot->topics_mode, topics);
    assert_int_equal(cluster_snapshot_topic(snapshot, "t")->mode, t);
    cluster_snapshot_put(snapshot);
}

static void nothing_is_opened(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(create(f, "t", NULL), 0);
    expect_mode(f, 0755, 0750);
    put(f, "attributes/topics/t", "nonsense");
    put(f, "attributes/topics", "{\"version\":1}");
    expect_mode(f, 0700, 0700);
    put(f, "attributes/topics/t", NULL);
    put(f, "attributes/topics", NULL);
    expect_mode(f, 0755, 0700);
    assert_int_equal(
        cluster_set_owner(f->cluster, "t", (uid_t)-1, (gid_t)-1, (mode_t)0711), 0);
    assert_int_equal(
        cluster_set_owner(f->cluster, NULL, (uid_t)-1, (gid_t)-1, (mode_t)0711), 0);
    expect_mode(f, 0711, 0711);
}

static void a_problem_goes_with_its_key(void **state)
{
    static const char *const keys[] = {
        "brokers/topics/t/junk",
        "brokers/topics/a b/assignment",
        "brokers/topics/t/partitions/x/state",
        "brokers/topics/t/partitions/99999/state",
        "config/topics/a b",
        "brokers/ids/x",
        "brokers/ids/01",
        "brokers/stopping/x",
        "deleted/x",
        "admin/x",
        "brokers/topics/u/assignment",
        "controller_epoch/x",
    };
    struct fixture *f = *state;

    assert_int_equal(create(f, "t", NULL), 0);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        put(f, keys[i], "nonsense");
        if (strcmp(keys[i], "controller_epoch/x") != 0)
            expect_in_file(f, "problems", keys[i]);
        put(f, keys[i], NULL);
        expect_no_problems(f);
    }
}

/* A key below one of ours is another's. */
static void longer_keys_are_not_ours(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;

    assert_int_equal(create(f, "t", NULL), 0);
    put(f, "brokers/topics/t/partitions/0/state/x",
        "{\"controller_epoch\":1,\"leader\":7,\"version\":1,\"leader_epoch\":9,"
        "\"isr\":[7]}");
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->partitions[0].leader, f->config.node);
    cluster_snapshot_put(snapshot);
}

/* Every file below cluster/ is JSON, whatever the store holds. */
static void an_outcome_is_json(void **state)
{
    struct fixture *f = *state;
    enum cluster_node_kind kind;

    put(f, "admin/last/delete_topics", "{\"result\":\"done\"}");
    expect_file(f, "admin/last/delete_topics", "{\"result\":\"done\"}\n");
    put(f, "admin/last/delete_topics", "nonsense");
    assert_int_equal(cluster_tree_kind(f->cluster, "admin/last/delete_topics", &kind),
                     -ENOENT);
    expect_in_file(f, "problems", "admin/last/delete_topics");
}

static void what_is_in_the_way_is_named(void **state)
{
    struct fixture *f = *state;
    struct topic_id id;

    put(f, "brokers/topics/t/partitions/0/state",
        "{\"controller_epoch\":1,\"leader\":-1,\"version\":1,\"leader_epoch\":9,"
        "\"isr\":[]}");
    assert_int_equal(create(f, "t", NULL), E_CONFLICT);
    assert_non_null(strstr(f->why, "/topicfs/default/brokers/topics/t/"));
    assert_int_equal(topic_id_parse("00112233445566778899aabbccddeeff", &id), 0);
    f->why[0] = '\0';
    assert_int_equal(
        cluster_adopt_topic(f->cluster, "t", &id, 1, f->why, sizeof(f->why)),
        E_CONFLICT);
    assert_non_null(strstr(f->why, "/topicfs/default/brokers/topics/t/"));
    put(f, "brokers/topics/t/partitions/0/state", NULL);
    assert_int_equal(create(f, "t", NULL), 0);
}

static void numbers_end_somewhere(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(create(f, "t", NULL), 0);
    put(f, "config/topics/t",
        "{\"version\":1,\"config_version\":\"9223372036854775807\",\"config\":{}}");
    assert_int_equal(set_config(f, "t", "{\"acks\":1}"), -EOVERFLOW);
    assert_string_not_equal(f->why, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE_NODE_TEST(a_topic_outlives_its_assignment),
        ONE_NODE_TEST(without_settings_nothing_expires),
        ONE_NODE_TEST(nothing_is_opened),
        ONE_NODE_TEST(a_problem_goes_with_its_key),
        ONE_NODE_TEST(longer_keys_are_not_ours),
        ONE_NODE_TEST(an_outcome_is_json),
        ONE_NODE_TEST(what_is_in_the_way_is_named),
        ONE_NODE_TEST(numbers_end_somewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
