/* The tree under cluster/, and what is written to its admin files. */
#include "tests/unit/support/one_node.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void admin_files_do_or_refuse(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    struct buf buf;

    buf_init(&buf, 4096);
    assert_int_equal(create(f, "t4", "{\"partitions\":2}"), 0);
    assert_int_equal(create(f, "t5", NULL), 0);
    assert_int_equal(cluster_tree_read(f->cluster, "admin/last/delete_topics", &buf),
                     -ENOENT);
    assert_int_equal(
        admin(f, "delete_topics", "{\"version\":1,\"topics\":[\"t4\",\"t9\"]}"),
        E_UNKNOWN_TOPIC);
    assert_string_equal(f->why, "topic t9: no such topic");
    expect_in_file(f, "admin/last/delete_topics",
                   "\"result\":\"refused\",\"reason\":\"topic t9: no such topic\"}\n");
    assert_non_null(topic(f, "t4", &snapshot));
    cluster_snapshot_put(snapshot);

    buf_printf(&buf,
               "{\"version\":1,\"partitions\":[{\"topic\":\"t4\",\"partition\":1,"
               "\"replicas\":[%d]}]}",
               (int)f->config.node);
    assert_int_equal(admin(f, "reassign_partitions", buf.data), 0);
    buf_clear(&buf);
    buf_printf(&buf,
               "{\"version\":1,\"partitions\":[{\"topic\":\"t4\",\"partition\":1,"
               "\"replicas\":[%d,99]}]}",
               (int)f->config.node);
    assert_int_equal(admin(f, "reassign_partitions", buf.data),
                     E_INVALID_REPLICATION_FACTOR);
    assert_string_equal(f->why, "t4-1: node 99 is not live");
    assert_int_equal(admin(f, "preferred_replica_election",
                           "{\"version\":1,\"partitions\":[{\"topic\":\"t4\","
                           "\"partition\":0}]}"),
                     0);
    expect_in_file(f, "admin/last/preferred_replica_election",
                   "\"result\":\"done\"}\n");
    assert_int_equal(admin(f, "preferred_replica_election",
                           "{\"partitions\":[{\"topic\":\"t4\",\"partition\":2}]}"),
                     E_INVALID_PARTITION);
    assert_int_equal(admin(f, "nonsense", "{}"), -ENOENT);
    assert_int_equal(admin(f, "delete_topics", "{\"topics\":[\"t4\",\"t5\"]}"), 0);
    assert_null(topic(f, "t4", &snapshot));
    assert_int_equal(snapshot->topic_count, 0);
    cluster_snapshot_put(snapshot);
    assert_false(cluster_admin_running(f->cluster, "delete_topics"));
    buf_free(&buf);
}

static void malformed_admin_requests(void **state)
{
    static const char *const bad[][2] = {
        {"delete_topics", "[]"},
        {"delete_topics", "{}"},
        {"delete_topics", "{\"topics\":\"t\"}"},
        {"delete_topics", "{\"topics\":[1]}"},
        {"delete_topics", "{\"topics\":[\"t\",\"t\"]}"},
        {"delete_topics", "{\"version\":2,\"topics\":[\"t\"]}"},
        {"delete_topics", "{\"topics\":[\"t\"],\"x\":1}"},
        {"preferred_replica_election", "{\"partitions\":[\"t\"]}"},
        {"preferred_replica_election", "{\"partitions\":[{\"topic\":\"t\"}]}"},
        {"reassign_partitions", "{\"partitions\":[{\"topic\":\"t\",\"partition\":0}]}"},
        {"reassign_partitions",
         "{\"partitions\":[{\"topic\":\"t\",\"partition\":0,\"replicas\":[]}]}"},
        {"reassign_partitions",
         "{\"partitions\":[{\"topic\":\"t\",\"partition\":0,\"replicas\":[\"x\"]}]}"},
    };
    struct fixture *f = *state;

    assert_int_equal(create(f, "t", NULL), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(err_errno(admin(f, bad[i][0], bad[i][1])), EINVAL);
        assert_true(f->why[0] != '\0');
    }
}

static int gather(void *arg, const char *name, bool is_dir)
{
    struct buf *buf = arg;

    return buf_printf(buf, "%s%s ", name, is_dir ? "/" : "");
}

static void expect_list(struct fixture *f, const char *path, const char *expected)
{
    struct buf buf;

    buf_init(&buf, 4096);
    assert_int_equal(cluster_tree_list(f->cluster, path, gather, &buf), 0);
    assert_string_equal(buf.data ? buf.data : "", expected);
    buf_free(&buf);
}

static void the_tree_shows_it(void **state)
{
    struct fixture *f = *state;
    enum cluster_node_kind kind;
    char expected[200];
    int node = (int)f->config.node;

    assert_int_equal(create(f, "t", "{\"partitions\":2}"), 0);
    expect_list(f, "", "admin/ brokers/ controller controller_epoch problems ");
    expect_list(f, "brokers/topics", "t/ ");
    expect_list(f, "brokers/topics/t", "assignment partitions/ ");
    expect_list(f, "brokers/topics/t/partitions", "0/ 1/ ");
    expect_list(f, "brokers/topics/t/partitions/1", "state ");
    expect_list(f, "admin", "last/ ");
    expect_list(f, "admin/last", "");
    snprintf(expected, sizeof(expected), "{\"version\":1,\"brokerid\":%d}\n", node);
    expect_file(f, "controller", expected);
    expect_file(f, "controller_epoch", "1\n");
    snprintf(expected, sizeof(expected),
             "{\"controller_epoch\":1,\"leader\":%d,\"version\":1,\"leader_epoch\":0,"
             "\"isr\":[%d]}\n",
             node, node);
    expect_file(f, "brokers/topics/t/partitions/1/state", expected);
    snprintf(expected, sizeof(expected),
             "{\"version\":1,\"partitions\":{\"0\":[%d],\"1\":[%d]},\"id\":\"", node,
             node);
    expect_in_file(f, "brokers/topics/t/assignment", expected);
    snprintf(expected, sizeof(expected), "brokers/ids/%d", node);
    expect_in_file(f, expected, "{\"jmx_port\":-1,\"host\":");
    expect_in_file(f, expected, "\"epoch\":");
    expect_file(f, "problems", "");
    assert_int_equal(cluster_tree_kind(f->cluster, "admin/delete_topics", &kind), 0);
    assert_int_equal(kind, CLUSTER_ADMIN_FILE);
    assert_int_equal(cluster_tree_kind(f->cluster, "brokers", &kind), 0);
    assert_int_equal(kind, CLUSTER_DIR);
    assert_int_equal(cluster_tree_kind(f->cluster, "problems", &kind), 0);
    assert_int_equal(kind, CLUSTER_FILE);
}

static void the_tree_has_nothing_else(void **state)
{
    static const char *const absent[] = {
        "x",
        "controller/x",
        "brokers/x",
        "brokers/ids/99",
        "brokers/ids/01",
        "brokers/ids/x/y",
        "brokers/topics/u",
        "brokers/topics/t/x",
        "brokers/topics/t/assignment/x",
        "brokers/topics/t/partitions/1",
        "brokers/topics/t/partitions/00",
        "brokers/topics/t/partitions/0/x",
        "brokers/topics/t/partitions/0/state/x",
        "admin/x",
        "admin/last/x",
        "admin/last/delete_topics",
        "admin/delete_topics/x",
        "/",
        "brokers//ids",
        "problems/",
    };
    struct fixture *f = *state;
    enum cluster_node_kind kind;
    struct buf buf;

    buf_init(&buf, 4096);
    assert_int_equal(create(f, "t", NULL), 0);
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        assert_int_equal(cluster_tree_kind(f->cluster, absent[i], &kind), -ENOENT);
        assert_int_equal(cluster_tree_read(f->cluster, absent[i], &buf), -ENOENT);
    }
    assert_int_equal(cluster_tree_read(f->cluster, "admin/delete_topics", &buf),
                     -ENOENT);
    assert_int_equal(cluster_tree_read(f->cluster, "brokers", &buf), -EISDIR);
    assert_int_equal(cluster_tree_list(f->cluster, "controller", gather, &buf),
                     -ENOTDIR);
    buf_free(&buf);
}

#define TEST(name)                                                                     \
    cmocka_unit_test_setup_teardown(name, one_node_setup, one_node_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(admin_files_do_or_refuse),
        TEST(malformed_admin_requests),
        TEST(the_tree_shows_it),
        TEST(the_tree_has_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
