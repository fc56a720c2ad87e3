#include "group_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RIG_LOG_BYTES = 16 << 20 };

static void set_brokers(struct group_rig *rig)
{
    assert_int_equal(snapshot_set_brokers(rig->snapshot, rig->brokers,
                                          rig->registrations, rig->broker_count),
                     0);
}

void group_rig_open(struct group_rig *rig, int nodes)
{
    *rig = (struct group_rig){0};
    assert_true(nodes <= GROUP_RIG_NODES_MAX);
    rig->snapshot = snapshot_new();
    assert_non_null(rig->snapshot);
    for (int32_t i = 0; i < nodes; i++)
        rig->brokers[i] = (struct broker_info){.id = i + 1, .epoch = 10L * (i + 1)};
    rig->broker_count = (uint32_t)nodes;
    set_brokers(rig);
    rig->snapshot->shown.revision = 100;
    rig->env = (struct group_env){.now_ms = 1000000,
                                  .wall_ms = INT64_C(1764417600000),
                                  .snapshot = &rig->snapshot->shown};
    group_config_defaults(&rig->defaults);
    rig->core = group_core_new("g", &rig->defaults);
    assert_non_null(rig->core);
    buf_init(&rig->log, RIG_LOG_BYTES);
    buf_init(&rig->records, RIG_LOG_BYTES);
}

void group_rig_close(struct group_rig *rig)
{
    group_core_free(rig->core);
    snapshot_unref(rig->snapshot);
    buf_free(&rig->log);
    buf_free(&rig->records);
}

int group_rig_setup(void **state)
{
    struct group_rig *rig = malloc(sizeof *rig);

    assert_non_null(rig);
    group_rig_open(rig, 3);
    group_rig_topic(rig, "t", 4);
    *state = rig;
    return 0;
}

int group_rig_teardown(void **state)
{
    group_rig_close(*state);
    free(*state);
    return 0;
}

/* ---- the cluster --------------------------------------------------------------------
 */

struct topic_id group_rig_topic_id(const struct group_rig *rig, const char *name)
{
    const struct topic *topic = cluster_snapshot_topic(rig->env.snapshot, name);

    assert_non_null(topic);
    return topic->id;
}

void group_rig_topic(struct group_rig *rig, const char *name, int32_t partitions)
{
    const struct topic *before = cluster_snapshot_topic(rig->env.snapshot, name);
    struct snapshot_topic *topic = snapshot_topic_new();
    int64_t revision = ++rig->snapshot->shown.revision;

    assert_non_null(topic);
    snprintf(topic->topic.name, sizeof topic->topic.name, "%s", name);
    if (before)
        topic->topic.id = before->id;
    else
        memcpy(topic->topic.id.bytes, &revision, sizeof revision);
    topic->topic.partition_count = partitions;
    assert_int_equal(snapshot_put_topic(rig->snapshot, topic), 0);
    snapshot_topic_unref(topic);
}

void group_rig_delete_topic(struct group_rig *rig, const char *name)
{
    rig->snapshot->shown.revision++;
    snapshot_remove_topic(rig->snapshot, name);
}

static uint32_t broker_index(const struct group_rig *rig, int32_t node)
{
    uint32_t at = 0;

    while (at < rig->broker_count && rig->brokers[at].id < node)
        at++;
    return at;
}

void group_rig_kill(struct group_rig *rig, int32_t node)
{
    uint32_t at = broker_index(rig, node);

    assert_true(at < rig->broker_count && rig->brokers[at].id == node);
    rig->broker_count--;
    memmove(&rig->brokers[at], &rig->brokers[at + 1],
            (rig->broker_count - at) * sizeof rig->brokers[0]);
    rig->snapshot->shown.revision++;
    set_brokers(rig);
}

void group_rig_restart(struct group_rig *rig, int32_t node)
{
    uint32_t at = broker_index(rig, node);

    if (at == rig->broker_count || rig->brokers[at].id != node) {
        memmove(&rig->brokers[at + 1], &rig->brokers[at],
                (rig->broker_count - at) * sizeof rig->brokers[0]);
        rig->broker_count++;
    }
    rig->brokers[at] =
        (struct broker_info){.id = node, .epoch = ++rig->snapshot->shown.revision};
    set_brokers(rig);
}

/* ---- events -------------------------------------------------------------------------
 */

/* Refused or not, what was recorded is whole lines, and is in the log. */
static int keep(struct group_rig *rig, int rc)
{
    if (rig->records.length > 0) {
        assert_int_equal(rig->records.data[rig->records.length - 1], '\n');
        assert_int_equal(buf_add(&rig->log, rig->records.data, rig->records.length), 0);
    }
    return rc;
}

static struct buf *fresh(struct group_rig *rig)
{
    buf_clear(&rig->records);
    return &rig->records;
}

void group_rig_wait(struct group_rig *rig, int64_t ms)
{
    rig->env.now_ms += ms;
    rig->env.wall_ms += ms;
}

int group_rig_tick(struct group_rig *rig)
{
    return keep(rig, group_core_tick(rig->core, &rig->env, fresh(rig), &rig->next_ms));
}

int group_rig_join(struct group_rig *rig, const char *member, const char *topic)
{
    const struct topic *known = cluster_snapshot_topic(rig->env.snapshot, topic);
    const struct broker_info *broker;
    struct group_join join = {.node = {.id = member[0] - '0', .epoch = 1}};

    snprintf(join.member, sizeof join.member, "%s", member);
    snprintf(join.topic, sizeof join.topic, "%s", topic);
    if (known)
        join.topic_id = known->id;
    broker = cluster_snapshot_broker(rig->env.snapshot, join.node.id);
    if (broker)
        join.node.epoch = broker->epoch;
    return keep(rig, group_core_join(rig->core, &rig->env, &join, fresh(rig)));
}

int group_rig_leave(struct group_rig *rig, const char *member)
{
    return keep(rig, group_core_leave(rig->core, &rig->env, member, fresh(rig)));
}

static int beat(struct group_rig *rig, const char *member,
                const struct group_released *released, size_t released_count,
                struct group_grant **grants, size_t *count)
{
    return keep(rig, group_core_beat(rig->core, &rig->env, member, released,
                                     released_count, fresh(rig), grants, count));
}

int group_rig_release(struct group_rig *rig, const char *member)
{
    struct group_grant *grants = NULL;
    struct group_released *released = NULL;
    size_t count = 0, given = 0;
    int rc = beat(rig, member, NULL, 0, &grants, &count);

    if (rc == 0) {
        released = calloc(count + 1, sizeof *released);
        assert_non_null(released);
        for (size_t i = 0; i < count; i++)
            if (grants[i].give_up)
                released[given++] =
                    (struct group_released){grants[i].partition, grants[i].generation};
        free(grants);
        rc = beat(rig, member, released, given, &grants, &count);
    }
    free(released);
    free(grants);
    return rc;
}

int group_rig_commit(struct group_rig *rig, const char *member, int32_t partition,
                     int64_t generation, int64_t offset, int32_t leader_epoch)
{
    struct group_commit commit = {partition, generation, offset, leader_epoch};
    bool refused = false;
    int rc = group_core_commit(rig->core, &rig->env, member, &commit, 1, &refused,
                               fresh(rig));

    assert_int_equal(refused, rc != 0);
    return keep(rig, rc);
}

int group_rig_set(struct group_rig *rig, const char *topic, int32_t partition,
                  int64_t offset, int32_t node)
{
    struct group_offset_set set = {.topic_id = group_rig_topic_id(rig, topic),
                                   .partition = partition,
                                   .offset = offset,
                                   .leader_epoch = 0,
                                   .node = node};

    snprintf(set.topic, sizeof set.topic, "%s", topic);
    return keep(rig, group_core_set_offset(rig->core, &rig->env, &set, fresh(rig)));
}

int group_rig_configure(struct group_rig *rig, const char *text)
{
    cJSON *object = cJSON_Parse(text);
    int rc;

    assert_non_null(object);
    rc = group_core_configure(rig->core, &rig->env, object, fresh(rig), rig->why,
                              sizeof rig->why);
    cJSON_Delete(object);
    return keep(rig, rc);
}

/* ---- what it says -------------------------------------------------------------------
 */

void group_rig_expect(struct group_rig *rig, const char *member, const char *expected)
{
    struct group_grant *grants;
    struct buf text;
    size_t count;
    int rc = beat(rig, member, NULL, 0, &grants, &count);

    buf_init(&text, RIG_LOG_BYTES);
    buf_adds(&text, rc == E_GROUP_MEMBER_UNKNOWN ? "unknown" : "");
    assert_true(rc == 0 || rc == E_GROUP_MEMBER_UNKNOWN);
    assert_int_equal(rig->records.length, 0);
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%s%d:%lld%s", i ? " " : "", grants[i].partition,
                   (long long)grants[i].generation, grants[i].give_up ? "!" : "");
    assert_int_equal(buf_error(&text), 0);
    assert_string_equal(text.data, expected);
    buf_free(&text);
    free(grants);
}

void group_rig_expect_committed(struct group_rig *rig, const char *topic,
                                int32_t partition, int64_t offset)
{
    cJSON *described = group_core_describe(rig->core);
    const cJSON *item;
    int64_t found = -1;

    assert_non_null(described);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(described, "offsets"))
    {
        int64_t number, value;

        assert_int_equal(json_get_i64(item, "partition", &number), 0);
        assert_int_equal(json_get_i64(item, "offset", &value), 0);
        if (number == partition &&
            strcmp(cJSON_GetObjectItem(item, "topic")->valuestring, topic) == 0)
            found = value;
    }
    assert_int_equal(found, offset);
    cJSON_Delete(described);
}

struct group_core *group_rig_load(struct group_rig *rig, const char *log, size_t length)
{
    struct group_core *core = group_core_new("g", &rig->defaults);

    assert_non_null(core);
    while (length > 0) {
        const char *end = memchr(log, '\n', length);

        assert_non_null(end);
        assert_int_equal(group_core_replay(core, log, (size_t)(end - log)), 0);
        length -= (size_t)(end + 1 - log);
        log = end + 1;
    }
    group_core_loaded(core, rig->env.now_ms);
    return core;
}

void group_rig_reload(struct group_rig *rig)
{
    group_core_free(rig->core);
    rig->core = group_rig_load(rig, rig->log.data, rig->log.length);
}

char *group_rig_describe(const struct group_core *core)
{
    cJSON *object = group_core_describe(core);
    char *text = cJSON_PrintUnformatted(object);

    assert_non_null(text);
    cJSON_Delete(object);
    return text;
}
