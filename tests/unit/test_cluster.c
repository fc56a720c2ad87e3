/* The cluster over a real embedded store: operations, restarts, threads. */
#include "tests/unit/support/one_node.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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
    whole = settings_to_json(&t->config, SETTING_TOPIC, t->config_version);
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

static void internal_topics_are_kept(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;
    cJSON *settings = json("{\"partitions\":3,\"cleanup_policy\":\"compact\"}");

    assert_int_equal(cluster_set_owner(f->cluster, NULL, 7, 8, 01777), 0);
    assert_int_equal(
        cluster_create_internal(f->cluster, "__t", settings, f->why, sizeof(f->why)),
        0);
    assert_int_equal(
        cluster_create_internal(f->cluster, "__t", settings, f->why, sizeof(f->why)),
        E_TOPIC_EXISTS);
    cJSON_Delete(settings);
    t = topic(f, "__t", &snapshot);
    assert_int_equal(t->partition_count, 3);
    assert_int_equal(t->config.cleanup_policy, CLEANUP_COMPACT);
    assert_int_equal(t->uid, 7);
    assert_int_equal(t->gid, 8);
    assert_int_equal(t->mode, 0700);
    cluster_snapshot_put(snapshot);
    assert_int_equal(cluster_delete_topic(f->cluster, "__t", f->why, sizeof(f->why)),
                     -EPERM);
    assert_non_null(strstr(f->why, "__t: can't be deleted"));
    assert_int_equal(
        cluster_add_partition(f->cluster, "__t", 3, f->why, sizeof(f->why)), -EPERM);
    assert_int_equal(admin(f, "delete_topics", "{\"version\":1,\"topics\":[\"__t\"]}"),
                     -EPERM);
    assert_non_null(strstr(f->why, "__t: can't be deleted"));
    assert_int_equal(set_config(f, "__t", "{\"segment_ms\":60000}"), 0);
    assert_int_equal(set_config(f, "__t", "{\"cleanup_policy\":\"delete\"}"), 0);
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
    assert_int_equal(t->config.cleanup_policy, CLEANUP_COMPACT);
    assert_int_equal(t->mode, 0700);
    cluster_snapshot_put(snapshot);
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
    enum { MOST = CLUSTER_SUBSCRIBERS_MAX };
    struct subscriber subscribers[MOST + 1] = {{0}};

    for (int i = 0; i <= MOST; i++) {
        subscribers[i].cluster = f->cluster;
        assert_int_equal(cluster_subscribe(f->cluster, on_change, &subscribers[i]),
                         i < MOST ? 0 : -ENOSPC);
        assert_int_equal(subscribers[i].calls, i < MOST);
    }
    assert_int_equal(create(f, "t", NULL), 0);
    assert_int_equal(create(f, "t", NULL), E_TOPIC_EXISTS);
    assert_int_equal(cluster_delete_topic(f->cluster, "t", NULL, 0), 0);
    for (int i = 0; i < MOST; i++)
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

static void taking_out_tells_the_revision(void **state)
{
    struct fixture *f = *state;
    const struct cluster_snapshot *snapshot;
    const struct topic *t;
    struct suspect suspect = {.last_epoch = 0, .end_offset = 7};
    struct topic_id id;
    int64_t before, revision = 0;

    assert_int_equal(create(f, "t", NULL), 0);
    t = topic(f, "t", &snapshot);
    id = t->id;
    suspect.id = snapshot->self;
    before = t->partitions[0].state_revision;
    cluster_snapshot_put(snapshot);
    assert_int_equal(cluster_take_out(f->cluster, &id, 0, &suspect, &revision), 0);
    t = topic(f, "t", &snapshot);
    assert_true(revision > before);
    assert_int_equal(revision, t->partitions[0].state_revision);
    cluster_snapshot_put(snapshot);
}

static void expect_was_compacted(struct fixture *f, const char *name, bool was)
{
    const struct cluster_snapshot *snapshot;
    const struct topic *t = topic(f, name, &snapshot);

    assert_int_equal(t->config.was_compacted, was);
    cluster_snapshot_put(snapshot);
}

/* Once messages may be missing between others, they may for ever. */
static void that_it_was_compacted_stays(void **state)
{
    struct fixture *f = *state;
    struct topic_id id;

    assert_int_equal(create(f, "t", NULL), 0);
    assert_int_equal(set_config(f, "t", "{\"acks\":1}"), 0);
    expect_was_compacted(f, "t", false);
    assert_int_equal(set_config(f, "t", "{\"cleanup_policy\":\"compact\"}"), 0);
    assert_int_equal(set_config(f, "t", "{\"cleanup_policy\":\"delete\"}"), 0);
    expect_was_compacted(f, "t", true);
    assert_int_equal(set_config(f, "t", "{\"acks\":null}"), 0);
    stop(f);
    start(f);
    expect_was_compacted(f, "t", true);
    /* What an adopted one was is not known. */
    assert_int_equal(topic_id_parse("00112233445566778899aabbccddeeff", &id), 0);
    assert_int_equal(
        cluster_adopt_topic(f->cluster, "u", &id, 1, f->why, sizeof(f->why)), 0);
    assert_int_equal(set_config(f, "u", "{\"acks\":1}"), 0);
    expect_was_compacted(f, "u", true);
}

static int check(const char *coord, const char *listen, const char *advertise,
                 enum node_role role, char *why, size_t why_size)
{
    struct mount_config config;

    assert_int_equal(mount_config_defaults(&config), 0);
    assert_int_equal(
        settings_set_text(&config, SETTING_MOUNT, "coord", coord, why, why_size), 0);
    assert_int_equal(
        settings_set_text(&config, SETTING_MOUNT, "listen", listen, why, why_size), 0);
    assert_int_equal(settings_set_text(&config, SETTING_MOUNT, "advertise", advertise,
                                       why, why_size),
                     0);
    config.role = role;
    int rc = cluster_address_check(&config, why, why_size);
    mount_config_free(&config);
    return rc;
}

static void others_must_find_a_node(void **state)
{
    static const char etcd[] = "etcd://127.0.0.1:2379";
    char why[400];

    (void)state;
#define CHECK(...) check(__VA_ARGS__, why, sizeof(why))
    assert_int_equal(CHECK("embedded", "", "", ROLE_REPLICA), 0);
    assert_int_equal(CHECK("embedded", "127.0.0.1:0", "", ROLE_REPLICA), 0);
    assert_int_equal(CHECK(etcd, "127.0.0.1:9640", "", ROLE_REPLICA), 0);
    assert_int_equal(CHECK(etcd, "[::1]:09640", "", ROLE_REPLICA), 0);
    assert_int_equal(CHECK(etcd, "127.0.0.1:0", "h:1", ROLE_REPLICA), 0);
    assert_int_equal(CHECK(etcd, "127.0.0.1:0", "", ROLE_CLIENT), 0);
    assert_int_equal(CHECK(etcd, "", "h:1", ROLE_CLIENT), -EINVAL);
    assert_non_null(strstr(why, "listen must be set"));
    assert_int_equal(CHECK(etcd, "127.0.0.1:0", "", ROLE_REPLICA), -EINVAL);
    assert_ptr_equal(strstr(why, "listen=127.0.0.1:0"), why);
    assert_int_equal(CHECK(etcd, "127.0.0.1:1", "h:00", ROLE_REPLICA), -EINVAL);
    assert_ptr_equal(strstr(why, "advertise=h:00"), why);
#undef CHECK
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

#define TEST(name)                                                                     \
    cmocka_unit_test_setup_teardown(name, one_node_setup, one_node_teardown)

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
        TEST(internal_topics_are_kept),
        TEST(lost_topics_are_adopted),
        TEST(foreign_values_are_ignored),
        TEST(another_node_id_leads_nothing),
        TEST(subscribers_see_every_change),
        TEST(readers_and_operations_side_by_side),
        TEST(opening_many_topics_takes_four_commits),
        TEST(taking_out_tells_the_revision),
        TEST(that_it_was_compacted_stays),
        TEST(others_must_find_a_node),
        TEST(a_snapshot_outlives_its_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
