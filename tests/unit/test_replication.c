/* Whole nodes that replicate to each other over HTTP. */
#include "replica/broker_internal.h"
#include "replica/index.h"
#include "replica/partition_replica.h"
#include "replica/payload_hash.h"
#include "tests/unit/support/node.h"
#include "tests/unit/support/replica_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <utlist.h>

static void test_every_replica_has_it(void **state)
{
    struct replica_rig *rig = *state;
    static const char *const policies[] = {"ack", "os"};
    for (size_t i = 0; i < 2; i++) {
        char name[8];
        char settings[96];
        (void)snprintf(name, sizeof name, "t%zu", i);
        (void)snprintf(settings, sizeof settings,
                       "{\"replication_factor\":3,\"flush\":\"%s\"}", policies[i]);
        replica_rig_topic(rig, name, settings);
        int leader = replica_rig_leader(rig, 1, name, -1);
        struct partition *partition = replica_rig_partition(rig, leader, name);
        assert_int_equal(node_append(partition, "one\ntwo\n", NULL), 0);
        assert_int_equal(node_append(partition, "three\n", NULL), 0);
        partition_unref(partition);
        for (int id = 1; id <= 3; id++) {
            partition = replica_rig_partition(rig, id, name);
            replica_rig_until_committed(partition, 3);
            node_assert_text(partition, "one\ntwo\nthree\n");
            partition_unref(partition);
        }
    }
}

static void ignore_wake(struct read_waiter *waiter)
{
    (void)waiter;
}

static bool is_patient(struct partition *partition)
{
    struct fetch_request request;
    int32_t leader;
    assert_true(partition_follow_request(partition, &request, &leader));
    return request.patient;
}

/* Where nobody waits, the watermark comes along with what is appended next; where that
 * does not come, it comes alone. */
static void test_a_stream_and_its_end(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3,\"flush\":\"os\"}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    struct partition *partition = replica_rig_partition(rig, leader, "t");
    struct partition *other = replica_rig_partition(rig, leader % 3 + 1, "t");
    replica_rig_until_committed(other, 0);
    assert_true(is_patient(other));
    for (int i = 0; i < 200; i++) {
        assert_int_equal(node_append(partition, "a\n", NULL), 0);
    }
    replica_rig_until_committed(other, 200);
    struct read_waiter waiter = {.ready = ignore_wake};
    struct partition_status status;
    partition_status_get(other, &status);
    assert_int_equal(partition_wait(other, status.high_watermark.position, &waiter), 0);
    assert_false(is_patient(other));
    assert_true(partition_wait_cancel(other, &waiter));
    assert_false(is_patient(other)); /* it may come back */
    partition_unref(other);
    partition_unref(partition);
}

/* A follower that had its messages from a compacted log may end at any of them. */
static void test_a_fetch_from_inside_of_a_batch(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    struct partition *partition = replica_rig_partition(rig, leader, "t");
    assert_int_equal(node_append(partition, "one\ntwo\nthree\n", NULL), 0);
    assert_int_equal(node_append(partition, "four\n", NULL), 0);
    const struct fetch_answer answer = {.kind = FETCH_DATA, .log_end = 4};
    struct fetch_batches batches;
    struct batch batch;
    uint8_t bytes[64];
    assert_int_equal(partition_fetch_choose(partition, &answer, 1, 1000, &batches), 0);
    assert_int_equal(batches.count, 2);
    assert_int_equal(batches.base_offset, 1);
    assert_int_equal(batches.length, strlen("two\nthree\nfour\n"));
    assert_int_equal(partition_fetch_read(partition, &batches, bytes), 0);
    assert_memory_equal(bytes, "two\nthree\nfour\n", batches.length);
    assert_int_equal(
        index_entry_decode((const uint8_t *)batches.entries.data, 1, &batch), 0);
    assert_int_equal(batch.base_offset, 1);
    assert_int_equal(batch.message_count, 2);
    assert_int_equal(batch.length, strlen("two\nthree\n"));
    assert_true(batch.payload_hash == XXH3_64bits(bytes, batch.length));
    buf_free(&batches.entries);
    partition_unref(partition);
}

static void test_failover_and_return(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    int first = replica_rig_leader(rig, 1, "t", -1);
    int witness = first == 1 ? 2 : 1;
    struct partition *partition = replica_rig_partition(rig, first, "t");
    assert_int_equal(node_append(partition, "one\n", NULL), 0);
    partition_unref(partition);
    replica_rig_kill(rig, first);
    replica_rig_bury(rig, first);
    int second = replica_rig_leader(rig, witness, "t", first);
    partition = replica_rig_partition(rig, second, "t");
    replica_rig_until_committed(partition, 1);
    assert_int_equal(node_append(partition, "two\n", NULL), 0);
    partition_unref(partition);

    replica_rig_start(rig, first);
    partition = replica_rig_partition(rig, first, "t");
    replica_rig_until_committed(partition, 2);
    node_assert_text(partition, "one\ntwo\n");
    partition_unref(partition);
    replica_rig_until_isr(rig, witness, "t", 3);
}

/* A process that ends leaves closed sockets behind: its leader, and the controller,
 * know long before its session is over. */
static void test_dead_processes_are_noticed(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    int32_t follower = leader % 3 + 1;
    struct partition *partition = replica_rig_partition(rig, leader, "t");
    replica_rig_until_isr(rig, leader, "t", 3);
    replica_rig_kill(rig, follower);
    int64_t begun = clock_mono_ms(&clock_real);
    assert_int_equal(node_append(partition, "one\n", NULL), 0);
    partition_unref(partition);
    rig_until(&rig->cluster, leader, rig_lacks_broker, &follower);
    assert_true(clock_mono_ms(&clock_real) - begun <
                rig->cluster.nodes[leader].config.session_timeout_ms / 2);
    replica_rig_start(rig, follower);
    replica_rig_until_isr(rig, leader, "t", 3);
}

/* What crash() makes of the node is as old as now. */
static void note(struct replica_rig *rig, int id)
{
    replica_rig_kill(rig, id); /* writes what is to be old */
    replica_rig_start(rig, id);
    replica_rig_run(rig, id, "cp checkpoint c.old && cp running.json r.old");
}

static void crash(struct replica_rig *rig, int id)
{
    replica_rig_kill(rig, id);
    replica_rig_run(rig, id, "mv c.old checkpoint && mv r.old running.json");
}

static void assert_committed(struct partition *partition, int64_t offset)
{
    struct partition_status status;
    partition_status_get(partition, &status);
    assert_int_equal(status.high_watermark.offset, offset);
}

/* What was written down of the high watermark is old after a crash; who looks right
 * then sees what could be seen before. */
static void test_nothing_disappears_over_a_crash(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    for (int id = 1; id <= 3; id++) {
        note(rig, id);
        struct partition *partition = replica_rig_partition(rig, id, "t");
        assert_int_equal(node_append(partition, "x\n", NULL), 0);
        replica_rig_until_committed(partition, id);
        partition_unref(partition);
        crash(rig, id);
        replica_rig_start(rig, id);
        partition = replica_rig_partition(rig, id, "t");
        while (!partition_observe(partition)) {
            rig_pause();
        }
        assert_committed(partition, id);
        partition_unref(partition);
        replica_rig_until_isr(rig, id, "t", 3);
    }
}

static void count_opened(struct open_waiter *waiter)
{
    atomic_fetch_add((atomic_int *)(void *)(waiter + 1), 1);
}

/* Where nobody can tell, what is there is shown after a while. */
static void test_a_start_alone_is_not_held_up(void **state)
{
    struct replica_rig *rig = *state;
    struct {
        struct open_waiter waiter;
        atomic_int opened;
    } look = {.waiter = {.opened = count_opened}};
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    int follower = leader % 3 + 1;
    note(rig, follower);
    crash(rig, follower);
    replica_rig_cut_off(rig, leader);
    replica_rig_start(rig, follower);
    struct broker *broker = rig->nodes[follower].broker;
    struct partition *partition = replica_rig_partition(rig, follower, "t");
    const struct topic_id id = partition->topic_id;
    assert_false(partition_observe(partition));
    assert_int_equal(broker_await_partition(broker, &id, 0, &look.waiter), 0);
    assert_int_equal(atomic_load(&look.opened), 0);
    replica_rig_later(rig, 2000);
    while (!atomic_load(&look.opened)) {
        rig_pause();
    }
    assert_true(partition_observe(partition));
    assert_committed(partition, 0);
    partition_unref(partition);
}

/* What only the old leader had goes, once it follows the new one. */
static void test_diverging_tail_is_cut(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3,\"acks\":\"1\"}");
    int first = replica_rig_leader(rig, 1, "t", -1);
    int other = first % 3 + 1;
    int third = other % 3 + 1;
    struct partition *partition = replica_rig_partition(rig, first, "t");
    assert_int_equal(node_append(partition, "one\n", NULL), 0);
    replica_rig_until_committed(partition, 1);
    replica_rig_kill(rig, other);
    replica_rig_kill(rig, third);
    assert_int_equal(node_append(partition, "lost\nlost too\n", NULL), 0);
    node_assert_text(partition, "one\n");
    partition_unref(partition);
    replica_rig_kill(rig, first);
    replica_rig_start(rig, other);
    replica_rig_start(rig, third);
    replica_rig_bury(rig, first);
    int second = replica_rig_leader(rig, other, "t", first);
    partition = replica_rig_partition(rig, second, "t");
    assert_int_equal(node_append(partition, "kept\n", NULL), 0);
    replica_rig_until_committed(partition, 2);
    partition_unref(partition);

    replica_rig_start(rig, first);
    partition = replica_rig_partition(rig, first, "t");
    replica_rig_until_committed(partition, 2);
    node_assert_text(partition, "one\nkept\n");
    partition_unref(partition);
}

static void test_far_behind(void **state)
{
    enum { BATCHES = 64, LINE = 64 * 1024 };
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3,\"flush\":\"os\"}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    int away = leader == 3 ? 2 : 3;
    struct partition *partition = replica_rig_partition(rig, leader, "t");
    assert_int_equal(node_append(partition, "first\n", NULL), 0);
    replica_rig_kill(rig, away);
    replica_rig_bury(rig, away);
    char *line = malloc(LINE + 1);
    memset(line, 'x', LINE);
    line[LINE - 1] = '\n';
    line[LINE] = '\0';
    for (int i = 0; i < BATCHES; i++) {
        line[0] = (char)('a' + i % 26);
        assert_int_equal(node_append(partition, line, NULL), 0);
    }
    size_t length = 0;
    size_t copied = 0;
    char *text = node_read_all(partition, &length);
    partition_unref(partition);
    replica_rig_start(rig, away);
    partition = replica_rig_partition(rig, away, "t");
    replica_rig_until_committed(partition, BATCHES + 1);
    char *copy = node_read_all(partition, &copied);
    assert_int_equal(copied, length);
    assert_memory_equal(copy, text, length);
    partition_unref(partition);
    replica_rig_until_isr(rig, leader, "t", 3);
    free(copy);
    free(text);
    free(line);
}

static void test_writes_from_any_node(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    for (int id = 1; id <= 3; id++) {
        struct produce_result result;
        struct partition *partition = replica_rig_partition(rig, id, "t");
        assert_int_equal(node_append(partition, "a\nb\n", &result), 0);
        /* What was acknowledged can be read there at once. */
        struct partition_status status;
        partition_status_get(partition, &status);
        assert_int_equal(result.base_offset, 2 * (id - 1));
        assert_int_equal(result.end.offset, 2 * id);
        assert_true(status.high_watermark.offset >= 2 * id);
        partition_unref(partition);
    }
}

struct writer {
    struct partition *partition;
    int count;
    int failed;
    pthread_t thread;
};

/* Lines of four digits, numbered. */
static void *write_on(void *arg)
{
    struct writer *writer = arg;
    for (int i = 0; i < writer->count; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "%04d\n", i);
        writer->failed += node_append(writer->partition, line, NULL) != 0;
    }
    return NULL;
}

static void test_nothing_twice_over_a_failover(void **state)
{
    enum { LINES = 300 };
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3,\"flush\":\"os\"}");
    int first = replica_rig_leader(rig, 1, "t", -1);
    int witness = first == 1 ? 2 : 1;
    struct writer writer = {.partition = replica_rig_partition(rig, witness, "t"),
                            .count = LINES};
    assert_int_equal(pthread_create(&writer.thread, NULL, write_on, &writer), 0);
    replica_rig_until_committed(writer.partition, 20);
    replica_rig_kill(rig, first);
    replica_rig_bury(rig, first);
    pthread_join(writer.thread, NULL);
    assert_int_equal(writer.failed, 0);
    char *text = node_read_all(writer.partition, NULL);
    for (int i = 0; i < LINES; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "%04d\n", i);
        assert_memory_equal(text + 5 * (size_t)i, line, 5);
    }
    assert_int_equal(strlen(text), 5 * LINES);
    free(text);
    partition_unref(writer.partition);
}

/* That a node is not understood matters for as long as it is followed. */
static void test_who_is_not_followed_does_not_refuse(void **state)
{
    struct replica_rig *rig = *state;
    char request[128];
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    int second = leader % 3 + 1;
    int third = second % 3 + 1;
    struct replica_node *node = &rig->nodes[leader];
    struct rig_node *member = &rig->cluster.nodes[leader];
    const struct http_server_params params = {
        .config = &member->config, .problems = member->problems, .clock = &clock_real};
    http_server_stop(node->server);
    assert_int_equal(http_server_new(&params, &node->server), 0); /* another program */
    assert_int_equal(http_server_start(node->server, request, sizeof request), 0);
    rig_until_problem(&rig->cluster, second, "can't be understood", true);
    rig_until_problem(&rig->cluster, third, "can't be understood", true);
    (void)snprintf(request, sizeof request,
                   "{\"version\":1,\"partitions\":[{\"topic\":\"t\",\"partition\":0,"
                   "\"replicas\":[%d,%d]}]}",
                   second, third);
    assert_int_equal(rig_admin(&rig->cluster, second, "reassign_partitions", request),
                     0);
    rig_until_problem(&rig->cluster, second, "can't be understood", false);
    rig_until_problem(&rig->cluster, third, "can't be understood", false);
}

/* The log start moves on the leader; the others follow it. */
static void test_log_start_follows(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t",
                      "{\"replication_factor\":3,\"segment_bytes\":1048576,"
                      "\"retention_bytes\":1048576,\"flush\":\"os\","
                      "\"delivery_timeout_ms\":100}"); /* what may be retried is kept */
    int leader = replica_rig_leader(rig, 1, "t", -1);
    struct partition *partition = replica_rig_partition(rig, leader, "t");
    char *line = malloc(256 * 1024 + 1);
    memset(line, 'x', 256 * 1024);
    line[256 * 1024 - 1] = '\n';
    line[256 * 1024] = '\0';
    for (int i = 0; i < 16; i++) {
        assert_int_equal(node_append(partition, line, NULL), 0);
    }
    free(line);
    partition_unref(partition);
    replica_rig_later(rig, 5000);
    int64_t start[4] = {0};
    for (int i = 0;
         i < 5000 && (start[1] == 0 || start[1] != start[2] || start[2] != start[3]);
         i++) {
        for (int id = 1; id <= 3; id++) {
            struct partition_status status;
            partition = replica_rig_partition(rig, id, "t");
            partition_status_get(partition, &status);
            start[id] = status.start.offset;
            partition_unref(partition);
        }
        rig_pause();
    }
    assert_true(start[1] > 0);
    assert_int_equal(start[1], start[2]);
    assert_int_equal(start[1], start[3]);
}

static void fail_if_done(struct produce_waiter *waiter,
                         const struct produce_result *result)
{
    (void)waiter;
    fail_msg("ended with %s", err_text(result->error));
}

/* The snapshot may be ahead of the partition for a moment. */
static void wait_until_alone(struct replica_rig *rig, const char *topic)
{
    struct partition *partition = replica_rig_partition(rig, 1, topic);
    replica_rig_until_isr(rig, 1, topic, 1);
    for (int i = 0; i < 5000; i++) {
        struct buf state;
        buf_init(&state, 1 << 20);
        assert_int_equal(partition_state_render(partition, &state), 0);
        bool alone = strstr(state.data, "\"isr\":[1]") != NULL;
        buf_free(&state);
        if (alone) {
            partition_unref(partition);
            return;
        }
        rig_pause();
    }
    fail_msg("%s: others are still in sync", topic);
}

static void test_below_the_minimum(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    replica_rig_topic(rig, "f", "{\"replication_factor\":3,\"on_below_min\":\"fail\"}");
    for (int id = 2; id <= 3; id++) {
        replica_rig_kill(rig, id);
    }
    shared_backend_advance(rig->cluster.backend, 7000);
    wait_until_alone(rig, "t");
    wait_until_alone(rig, "f");
    struct partition *partition = replica_rig_partition(rig, 1, "f");
    assert_int_equal(node_append(partition, "x\n", NULL), E_NOT_ENOUGH_REPLICAS);
    partition_unref(partition);

    /* One write is withdrawn, another waits until a replica is back. */
    struct produce_waiter waiter = {.done = fail_if_done};
    struct produce_result result;
    struct writer writer = {.partition = replica_rig_partition(rig, 1, "t"),
                            .count = 1};
    assert_int_equal(
        partition_produce(writer.partition, "no\n", 3, 1, &waiter, &result),
        PRODUCE_PENDING);
    assert_true(partition_produce_cancel(writer.partition, &waiter, &result));
    assert_int_equal(result.error, E_NOT_ENOUGH_REPLICAS);
    assert_int_equal(result.end.offset, 0);
    assert_int_equal(pthread_create(&writer.thread, NULL, write_on, &writer), 0);
    replica_rig_start(rig, 2);
    pthread_join(writer.thread, NULL);
    assert_int_equal(writer.failed, 0);
    node_assert_text(writer.partition, "0000\n");
    partition_unref(writer.partition);
}

/* ---- nodes without a replica --------------------------------------------------------
 */

static void until_observed(struct partition *partition)
{
    for (int i = 0; i < 5000 && !partition_observe(partition); i++) {
        (void)usleep(1000);
    }
    assert_true(partition_observe(partition));
}

static struct partition *until_open(struct replica_rig *rig, int id,
                                    const struct partition *like, int index)
{
    struct partition *partition = NULL;
    while (!(partition =
                 broker_partition(rig->nodes[id].broker, &like->topic_id, index))) {
        rig_pause();
    }
    return partition;
}

/* Neither leader nor, with one replica, anybody else. */
static void test_observer(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":1}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    struct partition *there = replica_rig_partition(rig, leader, "t");
    struct partition *here = replica_rig_partition(rig, leader % 3 + 1, "t");
    struct partition_status status;
    assert_false(partition_is_remote(there));
    assert_true(partition_is_remote(here));

    /* A write needs no copy. */
    assert_int_equal(node_append(here, "one\n", NULL), 0);
    node_assert_text(there, "one\n");
    partition_status_get(here, &status);
    assert_int_equal(status.log_end_offset, 0);

    until_observed(here);
    node_assert_text(here, "one\n");
    /* With a copy, a write shows once it is acknowledged. */
    assert_int_equal(node_append(here, "two\n", NULL), 0);
    node_assert_text(here, "one\ntwo\n");
    assert_int_equal(node_append(there, "three\n", NULL), 0);
    replica_rig_until_committed(here, 3);

    /* An open file keeps it. Then it goes, and what showed it is out of date. */
    partition_status_get(here, &status);
    uint64_t unclean = status.unclean;
    partition_hold(here);
    assert_false(partition_remote_rest(here, 0));
    partition_let_go(here);
    assert_false(partition_remote_rest(here, 60000));
    assert_true(partition_remote_rest(here, 0));
    partition_status_get(here, &status);
    assert_int_equal(status.log_end_offset, 0);
    assert_true(status.unclean > unclean);
    assert_int_equal(node_append(here, "four\n", NULL), 0);
    until_observed(here);
    node_assert_text(here, "one\ntwo\nthree\nfour\n");
    partition_unref(here);
    partition_unref(there);
    replica_rig_until_isr(rig, 1, "t", 1);
}

static bool is_copied(struct replica_rig *rig, int id, struct partition *partition)
{
    struct partition_status status;
    broker_remotes_tend(rig->nodes[id].broker);
    partition_status_get(partition, &status);
    return status.log_end_offset > 0;
}

/* A copy is given up five minutes after its last use, and no earlier. */
static void test_observer_rests(void **state)
{
    enum { MINUTE = 60 * 1000, SECOND = 1000 };
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":1}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    int away = leader % 3 + 1;
    struct partition *here = replica_rig_partition(rig, away, "t");
    assert_int_equal(node_append(here, "one\n", NULL), 0);
    until_observed(here);
    replica_rig_later(rig, 5 * MINUTE - 10 * SECOND);
    assert_true(is_copied(rig, away, here));
    assert_true(partition_observe(here)); /* somebody looks it up */
    replica_rig_later(rig, 5 * MINUTE - 10 * SECOND);
    assert_true(is_copied(rig, away, here));
    /* A file that is open, and its last use. */
    partition_hold(here);
    replica_rig_later(rig, 60 * MINUTE);
    assert_true(is_copied(rig, away, here));
    partition_let_go(here);
    replica_rig_later(rig, 5 * MINUTE - 10 * SECOND);
    assert_true(is_copied(rig, away, here));
    replica_rig_later(rig, 10 * SECOND);
    assert_false(is_copied(rig, away, here));
    partition_unref(here);
}

/* The copy of an empty log is complete at once, not when something comes. */
static void test_observer_of_nothing(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":1}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    struct partition *here = replica_rig_partition(rig, leader % 3 + 1, "t");
    until_observed(here);
    node_assert_text(here, "");
    partition_unref(here);
}

static uint32_t parked_fetches(struct partition *partition)
{
    uint32_t count = 0;
    const struct fetch_waiter *waiter;
    pthread_mutex_lock(&partition->lock);
    DL_FOREACH(partition->fetches, waiter)
    {
        count++;
    }
    pthread_mutex_unlock(&partition->lock);
    return count;
}

/* A request that takes over the partitions of another one ends it. If not, all requests
 * that a node may send to a leader are soon under way, and none is left for the next
 * partition. */
static void test_an_observer_waits_once(void **state)
{
    enum { PARTITIONS = 18 };
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":1,\"partitions\":18}");
    struct partition *first = replica_rig_partition(rig, 1, "t");
    int observed = 0;
    for (int index = 0; index < PARTITIONS; index++) {
        struct partition *here = until_open(rig, 1, first, index);
        bool remote = partition_is_remote(here);
        if (remote) {
            until_observed(here);
            observed++;
        }
        partition_unref(here);
        for (int before = 0; before <= index; before++) {
            for (int id = 2; id <= 3; id++) {
                struct partition *there = until_open(rig, id, first, before);
                assert_true(parked_fetches(there) <= 1);
                partition_unref(there);
            }
        }
    }
    assert_true(observed >= PARTITIONS / 2);
    partition_unref(first);
}

/* It follows from leader to leader. */
static void test_observer_over_a_failover(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":2,\"min_insync_replicas\":1}");
    int first = replica_rig_leader(rig, 1, "t", -1);
    int away = 1;
    struct partition *here = replica_rig_partition(rig, away, "t");
    while (!partition_is_remote(here)) {
        partition_unref(here);
        here = replica_rig_partition(rig, ++away, "t");
    }
    until_observed(here);
    assert_int_equal(node_append(here, "one\n", NULL), 0);
    replica_rig_kill(rig, first);
    replica_rig_bury(rig, first);
    (void)replica_rig_leader(rig, away, "t", first);
    assert_int_equal(node_append(here, "two\n", NULL), 0);
    node_assert_text(here, "one\ntwo\n");
    partition_unref(here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_replica_has_it, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_stream_and_its_end, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_fetch_from_inside_of_a_batch,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_failover_and_return, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_dead_processes_are_noticed,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_disappears_over_a_crash,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_start_alone_is_not_held_up,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_diverging_tail_is_cut, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_far_behind, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_writes_from_any_node, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_twice_over_a_failover,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_who_is_not_followed_does_not_refuse,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_log_start_follows, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_below_the_minimum, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_observer, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_observer_rests, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_observer_of_nothing, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_an_observer_waits_once, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_observer_over_a_failover,
                                        replica_rig_setup, replica_rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
