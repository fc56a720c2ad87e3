/* The cluster over a real embedded store: operations, restarts, the tree, threads. */
#include "coord/cluster_private.h"
#include "coord/coord.h"

#include "tests/unit/support/scratch.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char dir[64];
    struct mount_config config;
    struct problems *problems;
    struct cluster *cluster;
    char why[500];
};

static void start(struct fixture *f)
{
    struct cluster_params params = {
        .config = &f->config,
        .store_dir = f->dir,
        .instance = "000102030405060708090a0b0c0d0e0f",
        .clock = &clock_real,
    };

    f->problems = params.problems = problems_new(&clock_real);
    assert_non_null(f->problems);
    assert_int_equal(cluster_open(&params, &f->cluster, f->why, sizeof(f->why)), 0);
}

static void stop(struct fixture *f)
{
    cluster_close(f->cluster);
    problems_free(f->problems);
    f->cluster = NULL;
    f->problems = NULL;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f || mount_config_defaults(&f->config) != 0)
        return -1;
    scratch_make(f->dir, sizeof(f->dir));
    start(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {"store.a", "store.b", "store.a.damaged",
                                        "store.b.damaged"};
    struct fixture *f = *state;
    char path[128];

    stop(f);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", f->dir, names[i]);
        unlink(path);
    }
    rmdir(f->dir);
    mount_config_free(&f->config);
    free(f);
    return 0;
}

static cJSON *json(const char *text)
{
    cJSON *value = NULL;

    assert_int_equal(json_parse(text, strlen(text), &value), 0);
    return value;
}

static int create(struct fixture *f, const char *name, const char *settings)
{
    cJSON *object = settings ? json(settings) : NULL;
    int rc = cluster_create_topic(f->cluster, name, object, 1000, 100, 0750, f->why,
                                  sizeof(f->why));

    cJSON_Delete(object);
    return rc;
}

static int set_config(struct fixture *f, const char *name, const char *text)
{
    cJSON *object = json(text);
    int rc = cluster_set_config(f->cluster, name, object, f->why, sizeof(f->why));

    cJSON_Delete(object);
    return rc;
}

static int admin(struct fixture *f, const char *operation, const char *text)
{
    cJSON *object = json(text);
    int rc = cluster_admin(f->cluster, operation, object, f->why, sizeof(f->why));

    cJSON_Delete(object);
    return rc;
}

/* A topic of the present snapshot; the snapshot is put by the caller. */
static const struct topic *topic(struct fixture *f, const char *name,
                                 const struct cluster_snapshot **snapshot)
{
    *snapshot = cluster_snapshot_get(f->cluster);
    return cluster_snapshot_topic(*snapshot, name);
}

static void expect_file(struct fixture *f, const char *path, const char *expected)
{
    struct buf buf;

    buf_init(&buf, 1 << 20);
    assert_int_equal(cluster_tree_read(f->cluster, path, &buf), 0);
    assert_string_equal(buf.data ? buf.data : "", expected);
    buf_free(&buf);
}

static void expect_in_file(struct fixture *f, const char *path, const char *part)
{
    struct buf buf;

    buf_init(&buf, 1 << 20);
    assert_int_equal(cluster_tree_read(f->cluster, path, &buf), 0);
    assert_non_null(buf.data);
    assert_non_null(strstr(buf.data, part));
    buf_free(&buf);
}

static void topics_are_made_and_kept(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;
    struct topic_id id;

    assert_true(cluster_store_was_created(f->cluster));
    assert_int_equal(create(f, "orders", "{\"partitions\":3,\"flush\":\"os\"}"), 0);
    assert_int_equal(create(f, "orders", NULL), E_TOPIC_EXISTS);
    assert_non_null(strstr(f->why, "orders"));
    for (int round = 0; round < 2; round++) {
        t = topic(f, "orders", &snapshot);
        assert_non_null(t);
        if (round == 0)
            id = t->id;
        assert_true(topic_id_equal(&id, &t->id));
        assert_ptr_equal(cluster_snapshot_topic_by_id(snapshot, &id), t);
        assert_int_equal(t->partition_count, 3);
        assert_int_equal(t->config.partitions, 3);
        assert_int_equal(t->config.replication_factor, 1);
        assert_int_equal(t->config.min_insync_replicas, 1);
        assert_int_equal(t->config.flush, FLUSH_OS);
        assert_int_equal(t->config_version, 1);
        assert_int_equal(t->uid, 1000);
        assert_int_equal(t->gid, 100);
        assert_int_equal(t->mode, 0750);
        assert_true(t->created_ms > 0);
        for (int p = 0; p < 3; p++) {
            assert_int_equal(t->partitions[p].leader, f->config.node);
            assert_int_equal(t->partitions[p].leader_epoch, round);
            assert_int_equal(t->partitions[p].controller_epoch, 1 + round);
            assert_int_equal(t->partitions[p].isr_count, 1);
            assert_int_equal(t->partitions[p].replica_count, 1);
        }
        assert_int_equal(snapshot->controller, f->config.node);
        assert_int_equal(snapshot->controller_epoch, 1 + round);
        assert_int_equal(snapshot->self, f->config.node);
        assert_int_equal(snapshot->broker_count, 1);
        assert_int_equal(snapshot->brokers[0].epoch, snapshot->self_epoch);
        assert_true(snapshot->self_epoch > 0);
        cluster_snapshot_put(snapshot);
        if (round == 0) {
            stop(f);
            start(f);
            assert_false(cluster_store_was_created(f->cluster));
        }
    }
}

static void bad_topics_are_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(create(f, "a b", NULL), E_INVALID_NAME);
    assert_int_equal(create(f, "", NULL), E_INVALID_NAME);
    assert_int_equal(create(f, "__consumer_offsets", NULL), E_INVALID_NAME);
    assert_non_null(strstr(f->why, "__"));
    assert_int_equal(create(f, "t", "{\"replication_factor\":2}"),
                     E_INVALID_REPLICATION_FACTOR);
    assert_non_null(strstr(f->why, "replication_factor is 2, but 1 node is live"));
    assert_int_equal(create(f, "t", "{\"nonsense\":2}"), E_INVALID_CONFIG);
    assert_non_null(strstr(f->why, "nonsense"));
    assert_int_equal(create(f, "a.b", NULL), 0);
    assert_int_equal(create(f, "a_b", NULL), 0); /* allowed, unlike in Kafka */
    assert_int_equal(cluster_delete_topic(f->cluster, "t", f->why, sizeof(f->why)),
                     E_UNKNOWN_TOPIC);
    assert_string_equal(f->why, "topic t: no such topic");
    assert_int_equal(cluster_create_topic(f->cluster, "a.b", NULL, 0, 0, 0755, NULL, 0),
                     E_TOPIC_EXISTS); /* nobody has to ask why */
}

static void deleted_topics_stay_deleted(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot, *old;
    const struct topic *t;
    struct topic_id id;

    assert_int_equal(create(f, "t", NULL), 0);
    assert_int_equal(create(f, "t2", NULL), 0); /* its keys have the other as prefix */
    t = topic(f, "t", &old);
    id = t->id;
    assert_int_equal(cluster_delete_topic(f->cluster, "t", f->why, sizeof(f->why)), 0);
    assert_string_equal(t->name, "t"); /* the old snapshot is as it was */
    assert_null(topic(f, "t", &snapshot));
    assert_non_null(cluster_snapshot_topic(snapshot, "t2"));
    assert_null(cluster_snapshot_topic_by_id(snapshot, &id));
    assert_true(cluster_snapshot_deleted(snapshot, &id));
    assert_false(cluster_snapshot_deleted(old, &id));
    cluster_snapshot_put(snapshot);
    cluster_snapshot_put(old);
    assert_int_equal(create(f, "t", NULL), 0);
    stop(f);
    start(f);
    t = topic(f, "t", &snapshot);
    assert_false(topic_id_equal(&t->id, &id));
    assert_true(cluster_snapshot_deleted(snapshot, &id));
    cluster_snapshot_put(snapshot);
    assert_int_equal(
        cluster_adopt_topic(f->cluster, "u", &id, 1, f->why, sizeof(f->why)),
        E_TOPIC_DELETED);
}

static void partitions_are_added_in_order(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;
    char *why = f->why;
    size_t n = sizeof(f->why);

    assert_int_equal(create(f, "t", NULL), 0);
    assert_int_equal(cluster_add_partition(f->cluster, "t", 2, why, n),
                     E_INVALID_PARTITION);
    assert_string_equal(why, "topic t: the next partition is 1");
    assert_int_equal(cluster_add_partition(f->cluster, "t", 0, why, n), -EEXIST);
    assert_int_equal(cluster_add_partition(f->cluster, "t", -1, why, n),
                     E_INVALID_PARTITION);
    assert_int_equal(cluster_add_partition(f->cluster, "x", 0, why, n),
                     E_UNKNOWN_TOPIC);
    assert_int_equal(cluster_add_partition(f->cluster, "t", 1, why, n), 0);
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->partition_count, 2);
    assert_int_equal(t->config.partitions, 2);
    assert_int_equal(t->partitions[1].leader, f->config.node);
    cluster_snapshot_put(snapshot);
}

static void settings_are_the_topics_own(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;

    assert_int_equal(create(f, "t", "{\"acks\":1}"), 0);
    assert_int_equal(set_config(f, "t", "{\"flush\":\"os\",\"version\":1}"), 0);
    assert_int_equal(set_config(f, "t", "{\"flush\":\"ack\",\"version\":1}"),
                     E_CONFLICT);
    assert_int_equal(set_config(f, "t", "{\"flush\":\"sometimes\"}"), E_INVALID_CONFIG);
    assert_int_equal(set_config(f, "t", "{\"partitions\":7}"), E_READ_ONLY);
    assert_int_equal(set_config(f, "t", "{\"partitions\":1,\"acks\":null}"), 0);
    assert_int_equal(set_config(f, "x", "{}"), E_UNKNOWN_TOPIC);
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->config.acks, ACKS_ALL);
    assert_int_equal(t->config.flush, FLUSH_OS);
    assert_int_equal(t->config_version, 3);
    cluster_snapshot_put(snapshot);
    stop(f);
    /* A mount's defaults are for topics that it makes; they stay as they were made. */
    f->config.topic.acks = ACKS_LEADER;
    f->config.topic.flush = FLUSH_INTERVAL;
    start(f);
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->config.acks, ACKS_ALL);
    assert_int_equal(t->config.flush, FLUSH_OS);
    assert_int_equal(t->config_version, 3);
    cluster_snapshot_put(snapshot);
    assert_int_equal(create(f, "u", NULL), 0);
    /* null is the default of the mount that takes it. */
    assert_int_equal(set_config(f, "t", "{\"flush\":null}"), 0);
    stop(f);
    topic_config_defaults(&f->config.topic);
    start(f);
    t = topic(f, "u", &snapshot);
    assert_int_equal(t->config.acks, ACKS_LEADER);
    assert_int_equal(t->config.flush, FLUSH_INTERVAL);
    cluster_snapshot_put(snapshot);
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->config.flush, FLUSH_INTERVAL);
    cluster_snapshot_put(snapshot);
    /* With one node there is one replica: a minimum of two could never be met. */
    assert_int_equal(create(f, "v", "{\"min_insync_replicas\":2}"), E_INVALID_CONFIG);
}

/* What config.json shows can be written back whole, and makes nothing the topic's own.
 */
static void a_whole_config_can_be_written_back(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;
    cJSON *whole;

    assert_int_equal(create(f, "t", NULL), 0);
    t = topic(f, "t", &snapshot);
    whole = settings_to_json(&t->config, t->config_version);
    cluster_snapshot_put(snapshot);
    assert_int_equal(cluster_set_config(f->cluster, "t", whole, f->why, sizeof(f->why)),
                     0);
    cJSON_Delete(whole);
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->config_version, 2);
    assert_int_equal(cJSON_GetArraySize(((const struct snapshot_topic *)t)->overrides),
                     0);
    cluster_snapshot_put(snapshot);
}

static void owners_are_kept(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;

    assert_int_equal(create(f, "t", NULL), 0);
    assert_int_equal(cluster_set_owner(f->cluster, "t", 5, (gid_t)-1, (mode_t)-1), 0);
    assert_int_equal(cluster_set_owner(f->cluster, "t", (uid_t)-1, 6, 0100700), 0);
    assert_int_equal(cluster_set_owner(f->cluster, NULL, 7, 8, 01777), 0);
    assert_int_equal(cluster_set_owner(f->cluster, "x", 7, 8, 0), E_UNKNOWN_TOPIC);
    stop(f);
    start(f);
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->uid, 5);
    assert_int_equal(t->gid, 6);
    assert_int_equal(t->mode, 0700);
    assert_int_equal(snapshot->topics_uid, 7);
    assert_int_equal(snapshot->topics_gid, 8);
    assert_int_equal(snapshot->topics_mode, 01777);
    cluster_snapshot_put(snapshot);
}

static void lost_topics_are_adopted(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;
    struct topic_id id;

    assert_int_equal(topic_id_parse("00112233445566778899aabbccddeeff", &id), 0);
    assert_int_equal(
        cluster_adopt_topic(f->cluster, "__t", &id, 2, f->why, sizeof(f->why)), 0);
    assert_int_equal(
        cluster_adopt_topic(f->cluster, "__t", &id, 2, f->why, sizeof(f->why)),
        E_TOPIC_EXISTS);
    assert_int_equal(
        cluster_adopt_topic(f->cluster, "u", &id, 2, f->why, sizeof(f->why)),
        E_TOPIC_EXISTS);
    id.bytes[0] = 1;
    assert_int_equal(
        cluster_adopt_topic(f->cluster, "u", &id, 0, f->why, sizeof(f->why)),
        E_INVALID_PARTITION);
    t = topic(f, "__t", &snapshot);
    assert_int_equal(t->partition_count, 2);
    assert_int_equal(t->id.bytes[0], 0);
    assert_true(t->partitions[1].leader_epoch > 20000000);
    cluster_snapshot_put(snapshot);
}

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

/* Another program's values in the store are left out and named. */
static void foreign_values_are_ignored(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;
    struct buf value;
    int64_t revision;
    struct txn txn;

    buf_init(&value, 1024);
    assert_int_equal(create(f, "t", NULL), 0);
    txn_init(&txn, f->cluster->prefix);
    buf_adds(&value, "nonsense");
    txn_put(&txn, false, &value, "brokers/topics/t/partitions/0/state");
    buf_adds(&value, "{\"version\":1,\"config_version\":1,\"config\":{\"x\":1}}");
    txn_put(&txn, false, &value, "config/topics/t");
    buf_adds(&value, "nonsense");
    txn_put(&txn, false, &value, "brokers/topics/u/assignment");
    buf_adds(&value, "nonsense");
    txn_put(&txn, false, &value, "attributes/topics");
    buf_adds(&value, "nonsense");
    txn_put(&txn, false, &value, "brokers/topics/a b/assignment");
    buf_adds(&value, "nonsense");
    txn_put(&txn, false, &value, "elsewhere");
    assert_int_equal(txn_commit(&txn, f->cluster->store, &revision), 0);
    buf_free(&value);
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->partitions[0].leader, -1);
    assert_int_equal(t->config.acks, ACKS_ALL);
    assert_int_equal(snapshot->topic_count, 1);
    cluster_snapshot_put(snapshot);
    expect_in_file(f, "problems", "brokers/topics/t/partitions/0/state");
    expect_in_file(f, "problems", "kind=config t:");
    stop(f);
    start(f); /* the partition gets a state again, above any epoch that it had */
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->partitions[0].leader, f->config.node);
    assert_true(t->partitions[0].leader_epoch > 20000000);
    cluster_snapshot_put(snapshot);
    assert_int_equal(set_config(f, "t", "{\"acks\":1}"), 0);
}

static void another_node_id_leads_nothing(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;

    assert_int_equal(create(f, "t", NULL), 0);
    stop(f);
    f->config.node += 1;
    start(f);
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->partitions[0].leader, -1);
    assert_int_equal(t->partitions[0].isr_count, 1);
    cluster_snapshot_put(snapshot);
    expect_in_file(f, "problems", "no live in-sync replica");
    stop(f);
    f->config.node -= 1;
    start(f);
    t = topic(f, "t", &snapshot);
    assert_int_equal(t->partitions[0].leader, f->config.node);
    assert_int_equal(t->partitions[0].leader_epoch, 2);
    cluster_snapshot_put(snapshot);
    expect_file(f, "problems", "");
}

struct subscriber {
    struct cluster *cluster;
    int64_t last;
    int calls;
};

static void on_change(void *arg, const struct cluster_snapshot *snapshot)
{
    struct subscriber *subscriber = arg;
    const struct cluster_snapshot *now = cluster_snapshot_get(subscriber->cluster);

    assert_true(snapshot->revision > subscriber->last);
    assert_true(now->revision >= snapshot->revision);
    subscriber->last = snapshot->revision;
    subscriber->calls++;
    cluster_snapshot_put(now);
}

static void subscribers_see_every_change(void **state)
{
    struct fixture *f = *state;
    struct subscriber subscribers[5] = {{0}};

    for (int i = 0; i < 5; i++) {
        subscribers[i].cluster = f->cluster;
        assert_int_equal(cluster_subscribe(f->cluster, on_change, &subscribers[i]),
                         i < 4 ? 0 : -ENOSPC);
        assert_int_equal(subscribers[i].calls, i < 4);
    }
    assert_int_equal(create(f, "t", NULL), 0);
    assert_int_equal(create(f, "t", NULL), E_TOPIC_EXISTS);
    assert_int_equal(cluster_delete_topic(f->cluster, "t", NULL, 0), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(subscribers[i].calls, 3);
}

struct worker {
    struct cluster *cluster;
    int number;
    atomic_bool *stop;
};

static void *operate(void *arg)
{
    struct worker *worker = arg;
    char name[32];

    for (int i = 0; i < 15; i++) {
        snprintf(name, sizeof(name), "t%d.%d", worker->number, i);
        if (cluster_create_topic(worker->cluster, name, NULL, 0, 0, 0755, NULL, 0) != 0)
            return arg;
        if (cluster_add_partition(worker->cluster, name, 1, NULL, 0) != 0)
            return arg;
        if (i % 3 == 0 && cluster_delete_topic(worker->cluster, name, NULL, 0) != 0)
            return arg;
    }
    return NULL;
}

static void *look(void *arg)
{
    struct worker *worker = arg;
    int64_t last = 0;

    while (!atomic_load(worker->stop)) {
        const struct cluster_snapshot *snapshot = cluster_snapshot_get(worker->cluster);
        bool right = snapshot->revision >= last;
        struct buf buf;

        last = snapshot->revision;
        for (uint32_t i = 0; i < snapshot->topic_count; i++) {
            const struct topic *t = snapshot->topics[i];

            right = right && t->partitions[0].leader == snapshot->self &&
                    cluster_snapshot_topic_by_id(snapshot, &t->id) == t &&
                    (i == 0 || strcmp(snapshot->topics[i - 1]->name, t->name) < 0);
        }
        cluster_snapshot_put(snapshot);
        buf_init(&buf, 4096);
        right = right && cluster_tree_read(worker->cluster, "controller", &buf) == 0;
        buf_free(&buf);
        if (!right)
            return arg;
    }
    return NULL;
}

static void readers_and_operations_side_by_side(void **state)
{
    enum { OPERATORS = 3, READERS = 2 };
    struct fixture *f = *state;
    struct subscriber subscriber = {.cluster = f->cluster};
    const struct cluster_snapshot *snapshot;
    pthread_t threads[OPERATORS + READERS];
    struct worker workers[OPERATORS + READERS];
    atomic_bool ended = false;
    void *failed;

    assert_int_equal(cluster_subscribe(f->cluster, on_change, &subscriber), 0);
    for (int i = 0; i < OPERATORS + READERS; i++) {
        workers[i] = (struct worker){f->cluster, i, &ended};
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < OPERATORS ? operate : look, &workers[i]),
                         0);
    }
    for (int i = 0; i < OPERATORS + READERS; i++) {
        if (i == OPERATORS)
            atomic_store(&ended, true);
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    snapshot = cluster_snapshot_get(f->cluster);
    assert_int_equal(snapshot->topic_count, OPERATORS * 10);
    assert_int_equal(subscriber.calls, 1 + OPERATORS * 35);
    assert_int_equal(subscriber.last, snapshot->revision);
    cluster_snapshot_put(snapshot);
}

/* One commit gives all partitions their new epochs. */
static void opening_many_topics_takes_four_commits(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    int64_t before;
    char name[16];

    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        assert_int_equal(create(f, name, NULL), 0);
    }
    snapshot = cluster_snapshot_get(f->cluster);
    before = snapshot->revision;
    cluster_snapshot_put(snapshot);
    stop(f);
    start(f);
    snapshot = cluster_snapshot_get(f->cluster);
    assert_int_equal(snapshot->topic_count, 200);
    assert_int_equal(snapshot->revision, before + 4);
    for (int i = 0; i < 200; i++)
        assert_int_equal(snapshot->topics[i]->partitions[0].leader_epoch, 1);
    cluster_snapshot_put(snapshot);
}

static void a_snapshot_outlives_its_cluster(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot, *second;

    assert_int_equal(create(f, "t", NULL), 0);
    snapshot = cluster_snapshot_get(f->cluster);
    second = cluster_snapshot_ref(snapshot);
    stop(f);
    cluster_snapshot_put(second);
    assert_string_equal(snapshot->topics[0]->name, "t");
    cluster_snapshot_put(snapshot);
    cluster_snapshot_put(NULL);
    start(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(topics_are_made_and_kept),
        TEST(bad_topics_are_refused),
        TEST(deleted_topics_stay_deleted),
        TEST(partitions_are_added_in_order),
        TEST(settings_are_the_topics_own),
        TEST(a_whole_config_can_be_written_back),
        TEST(owners_are_kept),
        TEST(lost_topics_are_adopted),
        TEST(admin_files_do_or_refuse),
        TEST(malformed_admin_requests),
        TEST(the_tree_shows_it),
        TEST(the_tree_has_nothing_else),
        TEST(foreign_values_are_ignored),
        TEST(another_node_id_leads_nothing),
        TEST(subscribers_see_every_change),
        TEST(readers_and_operations_side_by_side),
        TEST(opening_many_topics_takes_four_commits),
        TEST(a_snapshot_outlives_its_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
