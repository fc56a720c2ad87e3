/* What an embedded store says, and how a shared one takes it over. */
#include "tests/unit/support/cluster_rig.h"
#include "tests/unit/support/one_node.h"

#include "coord/coord.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char settings[] = "{\"partitions\":3,\"retention_ms\":4242,"
                               "\"cleanup_policy\":\"compact\","
                               "\"key_delimiter\":\";\",\"acks\":\"1\"}";

/* The contents of the stopped node's store. */
static const struct cluster_snapshot *contents_of(struct fixture *f)
{
    const struct cluster_snapshot *contents = NULL;

    stop(f);
    assert_int_equal(carry_over_read(f->dir, &contents, f->why, sizeof(f->why)), 0);
    return contents;
}

static const struct topic *made(struct fixture *f,
                                const struct cluster_snapshot **contents)
{
    assert_int_equal(create(f, "t", settings), 0);
    assert_int_equal(set_config(f, "t",
                                "{\"max_message_bytes\":512,\"cleanup_policy\":"
                                "\"delete\"}"),
                     0);
    assert_int_equal(cluster_set_owner(f->cluster, "t", 5, 6, 01700), 0);
    assert_int_equal(create(f, "gone", NULL), 0);
    assert_int_equal(cluster_delete_topic(f->cluster, "gone", NULL, 0), 0);
    assert_int_equal(cluster_set_owner(f->cluster, NULL, 7, 8, 01777), 0);
    *contents = contents_of(f);
    return cluster_snapshot_topic(*contents, "t");
}

static void expect_same(const struct topic *t, const struct topic *expected)
{
    assert_non_null(t);
    assert_string_equal(t->name, expected->name);
    assert_true(topic_id_equal(&t->id, &expected->id));
    assert_int_equal(t->partition_count, 3);
    assert_int_equal(t->uid, 5);
    assert_int_equal(t->gid, 6);
    assert_int_equal(t->mode, 01700);
    assert_int_equal(t->created_ms, expected->created_ms);
    assert_int_equal(t->config.retention_ms, 4242);
    assert_int_equal(t->config.max_message_bytes, 512);
    assert_int_equal(t->config.segment_bytes, expected->config.segment_bytes);
    assert_int_equal(t->config.cleanup_policy, CLEANUP_DELETE);
    assert_int_equal(t->config.was_compacted, 1);
    assert_int_equal(t->config_version, 2);
}

static void test_all_of_a_topic_is_read(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *contents;
    const struct topic *t = made(f, &contents);

    expect_same(t, t);
    assert_int_equal(contents->topic_count, 1);
    assert_int_equal(contents->topics_uid, 7);
    assert_int_equal(contents->topics_gid, 8);
    assert_int_equal(contents->topics_mode, 01777);
    cluster_snapshot_put(contents);
}

/* Reading left the store as it was: the next start finds everything. */
static void test_reading_changes_nothing(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *contents;
    const struct topic *t;

    made(f, &contents);
    cluster_snapshot_put(contents);
    start(f);
    t = topic(f, "t", &contents);
    assert_non_null(t);
    assert_int_equal(t->config_version, 2);
    cluster_snapshot_put(contents);
    expect_file(f, "problems", "");
}

/* The mounts of a directory may have named the cluster differently. */
static void test_the_last_cluster_name_counts(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *contents;

    assert_int_equal(create(f, "old", NULL), 0);
    stop(f);
    free(f->config.cluster);
    f->config.cluster = strdup("a-name");
    start(f);
    assert_int_equal(create(f, "new", NULL), 0);
    contents = contents_of(f);
    assert_int_equal(contents->topic_count, 1);
    assert_non_null(cluster_snapshot_topic(contents, "new"));
    cluster_snapshot_put(contents);
}

static void damage(const struct fixture *f, const char *copy)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", f->dir, copy);
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "#########", 9, 30), 9);
    close(fd);
}

static void test_damage(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *contents;
    const struct topic *t = made(f, &contents);

    damage(f, "store.a");
    cluster_snapshot_put(contents);
    assert_int_equal(carry_over_read(f->dir, &contents, f->why, sizeof(f->why)), 0);
    t = cluster_snapshot_topic(contents, "t");
    expect_same(t, t);
    cluster_snapshot_put(contents);
    damage(f, "store.b");
    assert_int_equal(carry_over_read(f->dir, &contents, f->why, sizeof(f->why)),
                     E_CORRUPT);
    assert_null(contents);
    assert_string_not_equal(f->why, "");
}

static void test_no_store(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *contents;

    assert_int_equal(
        carry_over_read("/nonexistent/store", &contents, f->why, sizeof(f->why)),
        -ENOENT);
    assert_int_equal(carry_over_read("/proc/self", &contents, f->why, sizeof(f->why)),
                     -ENOENT);
    assert_null(contents);
}

static int carry(struct cluster_rig *rig, int id, const struct topic *t)
{
    rig->why[0] = '\0';
    return cluster_carry_topic(rig->nodes[id].cluster, t, rig->why, sizeof(rig->why));
}

static void test_a_shared_store_takes_it_over(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *contents, *shown;
    const struct topic *t = made(f, &contents);
    struct cluster_rig rig;

    rig_open(&rig, 2);
    assert_int_equal(carry(&rig, 2, t), 0);
    assert_int_equal(cluster_carry_owner(rig.nodes[2].cluster, contents), 0);
    /* Once more, as after a crash half-way. */
    assert_int_equal(carry(&rig, 2, t), 0);
    assert_int_equal(cluster_carry_owner(rig.nodes[2].cluster, contents), 0);
    shown = cluster_snapshot_get(rig.nodes[2].cluster);
    expect_same(cluster_snapshot_topic(shown, "t"), t);
    t = cluster_snapshot_topic(shown, "t");
    assert_int_equal(t->partitions[2].replica_count, 1);
    assert_int_equal(t->partitions[2].replicas[0], 2);
    assert_int_equal(t->partitions[2].leader, 2);
    assert_true(t->partitions[2].leader_epoch > 20000000);
    assert_int_equal(shown->topics_uid, 7);
    assert_int_equal(shown->topics_mode, 01777);
    cluster_snapshot_put(shown);
    cluster_snapshot_put(contents);
    rig_close(&rig);
}

static void test_what_the_shared_store_has_stays(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *contents, *shown;
    const struct topic *t = made(f, &contents);
    struct cluster_rig rig;

    rig_open(&rig, 1);
    assert_int_equal(rig_create(&rig, 1, "t", NULL), 0);
    assert_int_equal(cluster_set_owner(rig.nodes[1].cluster, NULL, 1, 2, 0700), 0);
    assert_int_equal(carry(&rig, 1, t), E_TOPIC_EXISTS);
    assert_non_null(strstr(rig.why, "the topic exists"));
    assert_int_equal(cluster_carry_owner(rig.nodes[1].cluster, contents), 0);
    shown = cluster_snapshot_get(rig.nodes[1].cluster);
    assert_false(topic_id_equal(&cluster_snapshot_topic(shown, "t")->id, &t->id));
    assert_int_equal(shown->topics_uid, 1);
    cluster_snapshot_put(shown);
    /* Brought along once and deleted there since: it stays deleted. */
    assert_int_equal(cluster_delete_topic(rig.nodes[1].cluster, "t", NULL, 0), 0);
    assert_int_equal(carry(&rig, 1, t), 0);
    assert_int_equal(cluster_delete_topic(rig.nodes[1].cluster, "t", NULL, 0), 0);
    assert_int_equal(carry(&rig, 1, t), E_TOPIC_DELETED);
    cluster_snapshot_put(contents);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE_NODE_TEST(test_all_of_a_topic_is_read),
        ONE_NODE_TEST(test_reading_changes_nothing),
        ONE_NODE_TEST(test_the_last_cluster_name_counts),
        ONE_NODE_TEST(test_damage),
        ONE_NODE_TEST(test_no_store),
        ONE_NODE_TEST(test_a_shared_store_takes_it_over),
        ONE_NODE_TEST(test_what_the_shared_store_has_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
