/* A shard of groups on a node of its own, step by step, by a clock of the test's. */
#include "replica/group_shard.h"

#include "replica/partition_internal.h"
#include "tests/unit/support/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { SECOND_MS = 1000, HOUR_MS = 3600 * 1000, STEPS_MAX = 20000, PATIENCE = 5000 };

struct call {
    struct coordinator_call call; /* first */
    bool done;
    cJSON *answer;
};

struct rig {
    struct node node;
    struct topic_id topic; /* "t", of one partition */
    const struct cluster_snapshot *snapshot;
    struct group_shard_env env;
    struct group_shard shard; /* of GROUP */
    struct produce_result result;
    atomic_bool ended;
};

#define GROUP "g"

static void on_ended(struct group_append *append, const struct produce_result *result)
{
    struct rig *rig = append->arg;
    rig->result = *result;
    atomic_store(&rig->ended, true);
}

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    char why[256] = "";
    assert_non_null(rig);
    node_make(&rig->node);
    node_start(&rig->node);
    partition_unref(node_topic(&rig->node, "t", "{\"flush\":\"os\"}"));
    rig->topic = node_topic_id(&rig->node, "t");
    assert_int_equal(group_coordinator_ensure_topic(rig->node.cluster, why, sizeof why),
                     0);
    partition_unref(node_partition(&rig->node, GROUPS_TOPIC, 0));
    rig->snapshot = cluster_snapshot_get(rig->node.cluster);
    rig->env = (struct group_shard_env){
        .broker = rig->node.broker,
        .problems = rig->node.problems,
        .defaults = &rig->node.config.group,
        .snapshot = rig->snapshot,
        .topic = cluster_snapshot_topic(rig->snapshot, GROUPS_TOPIC),
        .now_ms = SECOND_MS,
        .wall_ms = SECOND_MS,
    };
    group_shard_init(&rig->shard, group_wire_shard(GROUP, GROUP_SHARDS), on_ended, rig);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    group_shard_drop(&rig->shard, 0, false, "the test ends");
    for (int i = 0; !group_shard_is_quiet(&rig->shard) && !rig->ended; i++) {
        assert_true(i < PATIENCE);
        const struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    group_shard_end(&rig->shard);
    cluster_snapshot_put(rig->snapshot);
    node_stop(&rig->node);
    node_remove(&rig->node);
    free(rig);
    return 0;
}

static int64_t step(struct rig *rig)
{
    bool ended = atomic_exchange(&rig->ended, false);
    return group_shard_step(&rig->shard, &rig->env, ended ? &rig->result : NULL);
}

/* Until what is under way by itself is through, but no time goes by. */
static int64_t settle(struct rig *rig)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int64_t next_ms = step(rig);
    for (int i = 0; next_ms <= rig->env.now_ms || rig->shard.in_flight; i++) {
        assert_true(i < PATIENCE);
        (void)nanosleep(&pause, NULL);
        next_ms = step(rig);
    }
    return next_ms;
}

/* How often it wants to be called in that time. */
static int steps_in(struct rig *rig, int64_t ms)
{
    int64_t until_ms = rig->env.now_ms + ms;
    int64_t next_ms = step(rig);
    int steps = 0;
    while (next_ms < until_ms && steps < STEPS_MAX) {
        rig->env.now_ms = next_ms > rig->env.now_ms ? next_ms : rig->env.now_ms;
        next_ms = step(rig);
        steps++;
    }
    rig->env.now_ms = until_ms;
    return steps;
}

static void get_ready(struct rig *rig)
{
    (void)settle(rig);
    assert_int_equal(rig->shard.state, SHARD_READY);
}

/* As of a topic that has too few in-sync replicas, or enough again. */
static void require_replicas(struct rig *rig, int64_t min)
{
    struct partition *partition =
        node_partition(&rig->node, GROUPS_TOPIC, rig->shard.index);
    struct released released;
    pthread_mutex_lock(&partition->append_lock);
    pthread_mutex_lock(&partition->lock);
    partition->config.min_insync_replicas = min;
    core_configure(&partition->core, &partition->config);
    partition_collect(partition, &released);
    pthread_mutex_unlock(&partition->lock);
    pthread_mutex_unlock(&partition->append_lock);
    partition_release(partition, &released);
    partition_unref(partition);
}

static void on_answer(struct coordinator_call *base, cJSON *answer)
{
    struct call *call = (struct call *)base;
    call->answer = answer;
    call->done = true;
}

static void submit(struct rig *rig, struct call *call, int64_t wait_ms, const char *op)
{
    struct buf text;
    cJSON *object = NULL;
    buf_init(&text, GROUP_WIRE_MAX);
    *call = (struct call){.call = {.done = on_answer}};
    buf_printf(&text,
               "{\"version\":1,\"cluster\":\"c\",\"node\":%d,\"epoch\":%lld,"
               "\"shard\":%d,\"wait_ms\":%lld,\"ops\":[%s]}",
               rig->snapshot->self, (long long)rig->snapshot->self_epoch,
               rig->shard.index, (long long)wait_ms, op);
    assert_int_equal(group_wire_parse(text.data, text.length, &object), 0);
    buf_free(&text);
    struct group_request *request = group_request_new(object, &call->call);
    assert_non_null(request);
    assert_int_equal(group_wire_get_request(object, &request->head), 0);
    group_shard_submit(&rig->shard, &rig->env, request);
}

/* The error of the whole. */
static int error_of(struct call *call)
{
    const char *why = NULL;
    int error = 1;
    assert_true(call->done);
    assert_int_equal(group_wire_get_error(call->answer, &error, &why), 0);
    cJSON_Delete(call->answer);
    return error;
}

static void join(struct rig *rig)
{
    struct call call;
    char op[256];
    char id[TOPIC_ID_TEXT];
    topic_id_format(&rig->topic, id);
    (void)snprintf(op, sizeof op,
                   "{\"op\":\"join\",\"group\":\"" GROUP "\",\"member\":\"m\","
                   "\"topic\":\"t\",\"topic_id\":\"%s\"}",
                   id);
    submit(rig, &call, 0, op);
    (void)settle(rig);
    assert_int_equal(error_of(&call), 0);
}

/* Leading with too few replicas in sync may last for hours. */
static void looks_less_and_less_for_replicas(void **state)
{
    struct rig *rig = *state;
    get_ready(rig);
    require_replicas(rig, 2);
    int steps = steps_in(rig, SECOND_MS);
    assert_in_range(steps, 4, 30);
    steps = steps_in(rig, HOUR_MS);
    assert_in_range(steps, HOUR_MS / SECOND_MS - 2, HOUR_MS / SECOND_MS + 30);
    /* What changes the cluster may have changed that. */
    group_shard_news(&rig->shard);
    assert_in_range(step(rig), rig->env.now_ms, rig->env.now_ms + SHARD_POLL_MS);
    require_replicas(rig, 1);
    assert_true(settle(rig) > rig->env.now_ms + HOUR_MS);
    join(rig);
}

/* It is not certain that what a leader finds will be committed. */
static void looks_less_and_less_while_it_loads(void **state)
{
    struct rig *rig = *state;
    struct partition *partition =
        node_partition(&rig->node, GROUPS_TOPIC, rig->shard.index);
    struct produce_waiter waiter = {.acks_given = true, .acks = ACKS_LEADER};
    struct produce_result result;
    require_replicas(rig, 2);
    assert_int_equal(partition_produce(partition, "!\t1\n", 4, 1, &waiter, &result), 0);
    assert_int_equal(result.error, 0);
    partition_unref(partition);
    int steps = steps_in(rig, HOUR_MS);
    assert_int_equal(rig->shard.state, SHARD_LOADING);
    assert_in_range(steps, 4, HOUR_MS / SECOND_MS + 40);
    require_replicas(rig, 1);
    rig->env.now_ms += SHARD_POLL_MAX_MS;
    get_ready(rig);
}

/* Nor is it certain that a partition that is this node's can be led here. */
static void looks_less_and_less_for_the_leadership(void **state)
{
    struct rig *rig = *state;
    struct topic other = *rig->env.topic;
    other.id.bytes[0] ^= 1; /* which the broker does not have */
    const struct topic *topic = rig->env.topic;
    rig->env.topic = &other;
    int steps = steps_in(rig, HOUR_MS);
    assert_int_equal(rig->shard.state, SHARD_IDLE);
    assert_in_range(steps, HOUR_MS / SECOND_MS - 2, HOUR_MS / SECOND_MS + 40);
    rig->env.topic = topic;
    group_shard_news(&rig->shard);
    get_ready(rig);
    assert_true(step(rig) > rig->env.now_ms + HOUR_MS);
}

/* A beat that is not to be parked again can't be answered either. */
static void beats_are_refused_without_replicas(void **state)
{
    struct rig *rig = *state;
    struct call beat;
    struct call parked;
    char op[256];
    struct group_wire_beat grants = {0};
    get_ready(rig);
    join(rig);
    submit(rig, &beat, 0,
           "{\"op\":\"beat\",\"group\":\"" GROUP "\",\"member\":\"m\",\"seen\":0}");
    (void)settle(rig);
    assert_true(beat.done);
    const cJSON *answers = group_wire_get_answers(beat.answer, 1);
    assert_non_null(answers);
    assert_int_equal(group_wire_get_beat(answers->child, &grants), 0);
    free(grants.grants);
    cJSON_Delete(beat.answer);
    (void)snprintf(op, sizeof op,
                   "{\"op\":\"beat\",\"group\":\"" GROUP "\",\"member\":\"m\","
                   "\"seen\":%llu}",
                   (unsigned long long)grants.changes);
    submit(rig, &parked, SECOND_MS, op);
    (void)settle(rig);
    assert_false(parked.done);
    require_replicas(rig, 2);
    int steps = steps_in(rig, SECOND_MS + SHARD_PATIENCE_MS - 1);
    assert_false(parked.done);
    steps += steps_in(rig, 10 * SECOND_MS);
    assert_int_equal(error_of(&parked), E_NOT_COORDINATOR);
    assert_in_range(steps, 4, 60);
}

/* A snapshot from before the leadership may lack topics that the log has offsets of. */
static void waits_for_the_snapshot_of_its_leadership(void **state)
{
    struct rig *rig = *state;
    const struct topic *topic = rig->env.topic;
    struct topic older = *topic;
    size_t size = (size_t)topic->partition_count * sizeof *topic->partitions;
    struct partition_info *partitions = malloc(size);
    assert_non_null(partitions);
    memcpy(partitions, topic->partitions, size);
    partitions[rig->shard.index].leader_epoch--;
    older.partitions = partitions;
    rig->env.topic = &older;
    (void)steps_in(rig, SECOND_MS);
    assert_int_equal(rig->shard.state, SHARD_IDLE);
    rig->env.topic = topic;
    group_shard_news(&rig->shard);
    get_ready(rig);
    free(partitions);
}

/* However many ops there are, a batch is of no more than a run takes. */
static void large_requests_take_several_runs(void **state)
{
    enum { MEMBERS = 200, RECORD_MAX = 64 * 1024 };
    struct rig *rig = *state;
    struct call call;
    struct buf ops;
    char id[TOPIC_ID_TEXT];
    topic_id_format(&rig->topic, id);
    buf_init(&ops, 1 << 20);
    for (int i = 0; i < MEMBERS; i++) {
        buf_printf(&ops,
                   "%s{\"op\":\"join\",\"group\":\"" GROUP "\",\"member\":"
                   "\"a-member-whose-name-is-as-long-as-they-may-be-%06d\","
                   "\"topic\":\"t\",\"topic_id\":\"%s\"}",
                   i ? "," : "", i, id);
    }
    get_ready(rig);
    submit(rig, &call, 0, ops.data);
    buf_free(&ops);
    (void)settle(rig);
    assert_true(call.done);
    const cJSON *answer = NULL;
    const cJSON *answers = group_wire_get_answers(call.answer, MEMBERS);
    assert_non_null(answers);
    cJSON_ArrayForEach(answer, answers)
    {
        const char *why = NULL;
        int error = 1;
        assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
        assert_int_equal(error, 0);
    }
    cJSON_Delete(call.answer);

    struct partition *partition =
        node_partition(&rig->node, GROUPS_TOPIC, rig->shard.index);
    struct partition_status status;
    struct batch batch;
    int batches = 0;
    partition_status_get(partition, &status);
    for (int64_t at = status.start.position; at < status.high_watermark.position;
         at += batch.length) {
        assert_int_equal(partition_batch_at(partition, at, status.rewrites, &batch), 0);
        assert_in_range(batch.length, 1, SHARD_RECORDS_BYTES + RECORD_MAX);
        batches++;
    }
    assert_true(batches > 2);
    partition_unref(partition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(looks_less_and_less_for_replicas, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(looks_less_and_less_while_it_loads, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(looks_less_and_less_for_the_leadership, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(beats_are_refused_without_replicas, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(large_requests_take_several_runs, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(waits_for_the_snapshot_of_its_leadership, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
