/* Replicas that can't be used: they go out, are fetched anew, and come back. */
#include "replica/log_internal.h"
#include "replica/partition_internal.h"
#include "replica/partition_outbox.h"
#include "tests/unit/support/node.h"
#include "tests/unit/support/replica_rig.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TRIES = 5000 };

#define SMALL_SEGMENTS "{\"replication_factor\":3,\"segment_bytes\":1048576}"

static int other_than(int id)
{
    return id % 3 + 1;
}

/* In one step: what is tried again and again never finds neither. */
static void exchange(const struct replica_rig *rig, int id, const char *a,
                     const char *b)
{
    char from[96];
    char to[96];
    (void)snprintf(from, sizeof from, "%s/%s", rig->nodes[id].dir, a);
    (void)snprintf(to, sizeof to, "%s/%s", rig->nodes[id].dir, b);
    assert_int_equal(renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE), 0);
}

/* ---- messages: numbered lines of 64 KiB, 16 to a segment ----------------------------
 */

enum { LINE = 64 * 1024, SEGMENTS = 3, LINES = 16 * SEGMENTS };

static char *make_text(int count)
{
    char *text = malloc((size_t)count * LINE + 1);
    assert_non_null(text);
    memset(text, 'x', (size_t)count * LINE);
    for (int i = 0; i < count; i++) {
        char *line = text + (size_t)i * LINE;
        (void)snprintf(line, 16, "%08d", i);
        line[8] = 'x';
        line[LINE - 1] = '\n';
    }
    text[(size_t)count * LINE] = '\0';
    return text;
}

static void fill(struct replica_rig *rig, int leader, const char *topic)
{
    struct partition *partition = replica_rig_partition(rig, leader, topic);
    char *text = make_text(LINES);
    char *line = malloc(LINE + 1);
    assert_non_null(line);
    line[LINE] = '\0';
    for (int i = 0; i < LINES; i++) {
        memcpy(line, text + (size_t)i * LINE, LINE);
        assert_int_equal(node_append(partition, line, NULL), 0);
    }
    free(line);
    free(text);
    partition_unref(partition);
    for (int id = 1; id <= 3; id++) {
        partition = replica_rig_partition(rig, id, topic);
        replica_rig_until_committed(partition, LINES);
        partition_unref(partition);
    }
}

/* A topic "t" with that, on all three nodes; its leader. */
static int fill_topic(struct replica_rig *rig)
{
    replica_rig_topic(rig, "t", SMALL_SEGMENTS);
    int leader = replica_rig_leader(rig, 1, "t", -1);
    fill(rig, leader, "t");
    return leader;
}

/* The same lines, all alike, in a topic "t" with a single replica; on its leader. */
static struct partition *fill_single(struct replica_rig *rig)
{
    replica_rig_topic(rig, "t", "{\"replication_factor\":1,\"segment_bytes\":1048576}");
    int leader = replica_rig_leader(rig, 1, "t", -1);
    struct partition *partition = replica_rig_partition(rig, leader, "t");
    char *line = make_text(1);
    for (int i = 0; i < LINES; i++) {
        assert_int_equal(node_append(partition, line, NULL), 0);
    }
    free(line);
    return partition;
}

static void assert_whole(struct replica_rig *rig, int id, const char *topic)
{
    struct partition *partition = replica_rig_partition(rig, id, topic);
    size_t length = 0;
    char *wanted = make_text(LINES);
    replica_rig_until_committed(partition, LINES);
    char *text = node_read_all(partition, &length);
    assert_int_equal(length, strlen(wanted));
    assert_memory_equal(text, wanted, length);
    free(text);
    free(wanted);
    partition_unref(partition);
}

/* ---- waiting ------------------------------------------------------------------------
 */

static bool in_isr(struct replica_rig *rig, int witness, const char *topic, int id)
{
    const struct rig_state state = rig_state(&rig->cluster, witness, topic, 0);
    return replica_ids_contain(&state.state.isr, id);
}

static void until_in_isr(struct replica_rig *rig, int witness, const char *topic,
                         int id, bool in)
{
    for (int i = 0; i < TRIES && in_isr(rig, witness, topic, id) != in; i++) {
        rig_pause();
    }
    assert_int_equal(in_isr(rig, witness, topic, id), in);
}

/* In sync again, nothing said, nothing left. */
static void until_repaired(struct replica_rig *rig, int id, const char *topic)
{
    until_in_isr(rig, id, topic, id, true);
    rig_until_problem(&rig->cluster, id, "kind=damaged", false);
    rig_until_problem(&rig->cluster, id, "kind=offline", false);
    rig_until_problem(&rig->cluster, id, "kind=refill", false);
    rig_until_problem(&rig->cluster, id, "kind=lost", false);
    replica_rig_run(
        rig, id, "test -z \"$(find replaced unusable stray -mindepth 1 2>/dev/null)\"");
}

/* Reads all, and meets the damage. */
static void meet_damage(struct partition *partition)
{
    struct partition_status status;
    int rc = 0;
    partition_status_get(partition, &status);
    for (int64_t at = status.start.position;
         rc == 0 && at < status.high_watermark.position;) {
        struct extent extent;
        rc = partition_read(partition, at, 1 << 20, status.rewrites, &extent);
        at += rc ? 0 : (int64_t)extent.length;
        extent_release(&extent);
    }
    assert_int_equal(rc, E_DAMAGED);
}

static const char flip[] =
    "f=$(ls t-0/*.log | head -n 1) && "
    "printf Y | dd of=$f bs=1 seek=70000 conv=notrunc status=none";

/* ---- tests --------------------------------------------------------------------------
 */

static void test_follower_is_filled_anew(void **state)
{
    struct replica_rig *rig = *state;
    int leader = fill_topic(rig);
    int id = other_than(leader);
    replica_rig_run(rig, id, flip);
    struct partition *partition = replica_rig_partition(rig, id, "t");
    meet_damage(partition);
    partition_unref(partition);
    until_in_isr(rig, leader, "t", id, false);
    until_repaired(rig, id, "t");
    assert_whole(rig, id, "t");
    assert_int_equal(replica_rig_leader(rig, id, "t", -1), leader);
}

static void test_leader_hands_over_first(void **state)
{
    struct replica_rig *rig = *state;
    int leader = fill_topic(rig);
    replica_rig_run(rig, leader, flip);
    struct partition *partition = replica_rig_partition(rig, leader, "t");
    meet_damage(partition);
    int next = replica_rig_leader(rig, other_than(leader), "t", leader);
    assert_int_not_equal(next, leader);
    until_repaired(rig, leader, "t");
    assert_whole(rig, leader, "t");
    /* And it takes writes again, from here as from anywhere. */
    assert_int_equal(node_append(partition, "more\n", NULL), 0);
    partition_unref(partition);
}

/* Found by who is served, not by who reads here. */
static void test_leader_finds_it_for_a_follower(void **state)
{
    struct replica_rig *rig = *state;
    int leader = fill_topic(rig);
    int away = other_than(leader);
    replica_rig_kill(rig, away);
    replica_rig_bury(rig, away);
    until_in_isr(rig, leader, "t", away, false);
    replica_rig_run(rig, leader, flip);
    replica_rig_run(rig, away, "rm -rf t-0 checkpoint");
    replica_rig_start(rig, away);
    (void)replica_rig_leader(rig, away, "t", leader);
    until_repaired(rig, leader, "t");
    until_repaired(rig, away, "t");
    for (int id = 1; id <= 3; id++) {
        assert_whole(rig, id, "t");
    }
}

static void test_files_lost_while_away(void **state)
{
    static const char *const losses[] = {
        "rm $(ls t-0/*.index | head -n 1)", ": > $(ls t-0/*.index | sed -n 2p)",
        "rm $(ls t-0/*.index | tail -n 1)", "rm $(ls t-0/*.log | sed -n 2p)",
        "rm $(ls t-0/* | tail -n 2)",       "rm -r t-0",
    };
    struct replica_rig *rig = *state;
    int leader = fill_topic(rig);
    int id = other_than(leader);
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        until_in_isr(rig, leader, "t", id, true);
        replica_rig_kill(rig, id);
        replica_rig_run(rig, id, losses[i]);
        replica_rig_start(rig, id);
        until_repaired(rig, id, "t");
        assert_whole(rig, id, "t");
    }
}

/* Recovery can make nothing of it: it is out of the way, and fetched anew. */
static void test_log_that_can_not_be_opened(void **state)
{
    struct replica_rig *rig = *state;
    int leader = fill_topic(rig);
    int id = other_than(leader);
    until_in_isr(rig, leader, "t", id, true);
    replica_rig_kill(rig, id);
    replica_rig_run(rig, id, "rm -r t-0 && touch t-0");
    replica_rig_start(rig, id);
    until_repaired(rig, id, "t");
    assert_whole(rig, id, "t");
}

/* Also while the node runs: another one leads then. */
static void test_new_log_that_can_not_be_opened(void **state)
{
    struct replica_rig *rig = *state;
    for (int id = 1; id <= 2; id++) {
        replica_rig_run(rig, id, "touch t-0");
    }
    replica_rig_topic(rig, "t", SMALL_SEGMENTS);
    until_repaired(rig, 1, "t");
    until_repaired(rig, 2, "t");
    fill(rig, replica_rig_leader(rig, 3, "t", -1), "t");
    for (int id = 1; id <= 3; id++) {
        assert_whole(rig, id, "t");
    }
}

/* Those that can't give way do not stand in the way of those that can. */
static void test_one_of_many_that_can_not_be_opened(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_run(rig, 1, "for i in $(seq 0 74); do touch s-$i; done; touch t-0");
    replica_rig_topic(rig, "s", "{\"replication_factor\":1,\"partitions\":75}");
    replica_rig_topic(rig, "t", SMALL_SEGMENTS);
    partition_unref(replica_rig_partition(rig, 1, "t"));
    until_in_isr(rig, 1, "t", 1, true);
    fill(rig, replica_rig_leader(rig, 3, "t", -1), "t");
    assert_whole(rig, 1, "t");
}

/* That it can't be opened now does not mean that its messages are given up. */
static void test_only_copy_can_not_be_opened(void **state)
{
    struct replica_rig *rig = *state;
    replica_rig_topic(rig, "t", "{\"replication_factor\":1}");
    int id = replica_rig_leader(rig, 1, "t", -1);
    struct partition *partition = replica_rig_partition(rig, id, "t");
    assert_int_equal(node_append(partition, "a\nb\n", NULL), 0);
    partition_unref(partition);
    replica_rig_kill(rig, id);
    replica_rig_run(rig, id, "mv t-0 away && touch t-0");
    replica_rig_start(rig, id);
    rig_until_problem(&rig->cluster, id, "kind=offline t-0", true);
    assert_true(in_isr(rig, id, "t", id));
    exchange(rig, id, "away", "t-0");
    replica_rig_later(rig, 60000); /* the next try is due */
    rig_until_problem(&rig->cluster, id, "kind=offline t-0", false);
    partition = replica_rig_partition(rig, id, "t");
    replica_rig_until_committed(partition, 2);
    assert_int_equal(node_append(partition, "c\n", NULL), 0);
    node_assert_text(partition, "a\nb\nc\n");
    partition_unref(partition);
}

/* After a crash all is read once, whoever else does. */
static void test_found_before_anybody_reads(void **state)
{
    struct replica_rig *rig = *state;
    int leader = fill_topic(rig);
    int id = other_than(leader);
    replica_rig_kill(rig, id);
    replica_rig_run(rig, id, flip);
    replica_rig_run(rig, id, "sed -i s/true/false/ running.json");
    replica_rig_start(rig, id);
    until_in_isr(rig, leader, "t", id, true);
    until_in_isr(rig, leader, "t", id, false);
    until_repaired(rig, id, "t");
    assert_whole(rig, id, "t");
}

static void kill_all(struct replica_rig *rig)
{
    for (int id = 1; id <= 3; id++) {
        replica_rig_kill(rig, id);
    }
}

/* What a node can't know any more, it does not lead with: it waits for the others. */
static void test_lost_metadata_starts_first(void **state)
{
    static const char *const losses[] = {
        "rm -rf t-0 checkpoint running.json", /* the identity is the rig's */
        ": > checkpoint",
        "printf garbage > checkpoint && : > running.json",
        "rm checkpoint",
    };
    struct replica_rig *rig = *state;
    (void)fill_topic(rig);
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        for (int id = 1; id <= 3; id++) {
            until_in_isr(rig, 1, "t", id, true);
        }
        kill_all(rig);
        replica_rig_run(rig, 2, losses[i]);
        replica_rig_start(rig, 2);
        until_in_isr(rig, 2, "t", 2, false);
        struct rig_state alone = rig_state(&rig->cluster, 2, "t", 0);
        assert_int_not_equal(alone.state.leader, 2);
        replica_rig_start(rig, 1);
        replica_rig_start(rig, 3);
        until_repaired(rig, 2, "t");
        for (int id = 1; id <= 3; id++) {
            assert_whole(rig, id, "t");
        }
        alone = rig_state(&rig->cluster, 2, "t", 0);
        assert_int_equal(alone.state.lossy_epoch, -1);
    }
}

/* Nobody else has it: it goes on as on a node that is alone. */
static void test_only_copy_stays(void **state)
{
    struct replica_rig *rig = *state;
    struct partition *partition = fill_single(rig);
    int leader = replica_rig_leader(rig, 1, "t", -1);
    replica_rig_run(rig, leader, flip);
    meet_damage(partition);
    rig_until_problem(&rig->cluster, leader, "kind=damaged t-0/", true);
    for (int i = 0; i < 300; i++) {
        rig_pause();
    }
    assert_int_equal(replica_rig_leader(rig, leader, "t", -1), leader);
    assert_int_equal(node_append(partition, "more\n", NULL), 0);
    replica_rig_run(rig, leader, "test -d t-0 && test ! -d replaced");
    partition_unref(partition);
}

/* As a failed flush leaves it. */
static void lose_disk(struct partition *partition)
{
    atomic_store(&partition->log->offline, true);
    partition_fail(partition, E_OFFLINE);
}

static void test_failed_disk_of_the_leader(void **state)
{
    struct replica_rig *rig = *state;
    int leader = fill_topic(rig);
    struct partition *partition = replica_rig_partition(rig, leader, "t");
    lose_disk(partition);
    /* The write waits for the next leader. */
    struct produce_result result;
    assert_int_equal(node_append(partition, "more\n", &result), 0);
    assert_int_equal(result.base_offset, LINES);
    assert_int_not_equal(replica_rig_leader(rig, leader, "t", leader), leader);
    until_repaired(rig, leader, "t");
    replica_rig_until_committed(partition, LINES + 1);
    partition_unref(partition);
}

/* The process ends before anybody was told. */
static void test_failed_disk_shows_after_a_crash(void **state)
{
    struct replica_rig *rig = *state;
    int leader = fill_topic(rig);
    int id = other_than(leader);
    struct partition *partition = replica_rig_partition(rig, id, "t");
    shared_store_cut(rig->cluster.nodes[id].store, true);
    lose_disk(partition);
    for (int i = 0; i < TRIES; i++) {
        char path[96];
        (void)snprintf(path, sizeof path, "%s/unusable", rig->nodes[id].dir);
        if (access(path, F_OK) == 0) {
            break;
        }
        rig_pause();
    }
    partition_unref(partition);
    replica_rig_kill(rig, id);
    replica_rig_run(rig, id, "ls unusable | grep -q .");
    replica_rig_start(rig, id);
    until_in_isr(rig, leader, "t", id, false);
    until_repaired(rig, id, "t");
    assert_whole(rig, id, "t");
}

static bool is_observed(struct partition *partition)
{
    for (int i = 0; i < TRIES && !partition_observe(partition); i++) {
        rig_pause();
    }
    return partition_observe(partition);
}

/* A copy for readers is worth nothing by itself: another is fetched. */
static void test_copy_for_readers(void **state)
{
    struct replica_rig *rig = *state;
    struct partition *partition = fill_single(rig);
    int id = other_than(replica_rig_leader(rig, 1, "t", -1));
    char *wanted = node_read_all(partition, NULL);
    partition_unref(partition);
    partition = replica_rig_partition(rig, id, "t");
    assert_true(is_observed(partition));
    node_assert_text(partition, wanted);
    replica_rig_run(rig, id, "mv observers/t-0 t-0");
    replica_rig_run(rig, id, flip);
    replica_rig_run(rig, id, "mv t-0 observers/t-0");
    meet_damage(partition);
    rig_until_problem(&rig->cluster, id, "kind=damaged", true);
    rig_until_problem(&rig->cluster, id, "kind=damaged", false);
    assert_true(is_observed(partition));
    node_assert_text(partition, wanted);
    partition_unref(partition);
    free(wanted);
}

/* ---- who waits meanwhile ------------------------------------------------------------
 */

struct waiting {
    struct produce_waiter waiter; /* first */
    atomic_bool done;
    struct produce_result result;
};

static void note_done(struct produce_waiter *waiter,
                      const struct produce_result *result)
{
    struct waiting *waiting = (struct waiting *)waiter;
    waiting->result = *result;
    atomic_store(&waiting->done, true);
}

static void begin_append(struct waiting *waiting, struct partition *partition,
                         const char *line)
{
    *waiting = (struct waiting){.waiter = {.done = note_done}};
    assert_int_equal(partition_produce(partition, line, strlen(line), 1,
                                       &waiting->waiter, &waiting->result),
                     PRODUCE_PENDING);
}

static void until_done(struct waiting *waiting)
{
    for (int i = 0; i < TRIES && !atomic_load(&waiting->done); i++) {
        rig_pause();
    }
    assert_true(atomic_load(&waiting->done));
}

/* A topic "t" whose leader has one message; the partition there. */
static struct partition *begin_topic(struct replica_rig *rig, int *leader)
{
    replica_rig_topic(rig, "t", "{\"replication_factor\":3}");
    *leader = replica_rig_leader(rig, 1, "t", -1);
    struct partition *partition = replica_rig_partition(rig, *leader, "t");
    assert_int_equal(node_append(partition, "one\n", NULL), 0);
    return partition;
}

/* The leader's disk fails while it is alone; the others, which were away, go on. The
 * partition on the next leader's node. */
static struct partition *pass_over(struct replica_rig *rig, int leader,
                                   struct partition *partition)
{
    int other = other_than(leader);
    lose_disk(partition);
    until_in_isr(rig, leader, "t", leader, false);
    replica_rig_start(rig, other);
    replica_rig_start(rig, other_than(other));
    int next = replica_rig_leader(rig, other, "t", leader);
    return replica_rig_partition(rig, next, "t");
}

/* Others have the batch: its writer hears so, once it is committed. */
static void test_waiter_of_what_others_have(void **state)
{
    struct replica_rig *rig = *state;
    struct waiting waiting;
    int leader = 0;
    struct partition *partition = begin_topic(rig, &leader);
    int away = other_than(leader);
    int third = other_than(away);
    struct partition *copy = replica_rig_partition(rig, third, "t");
    replica_rig_kill(rig, away);
    begin_append(&waiting, partition, "two\n");
    struct partition_status status = {0};
    for (int i = 0; i < TRIES && status.flushed_offset < 2; i++) {
        partition_status_get(copy, &status);
        rig_pause();
    }
    partition_unref(copy);
    assert_false(atomic_load(&waiting.done));
    lose_disk(partition);
    replica_rig_bury(rig, away);
    assert_int_equal(replica_rig_leader(rig, third, "t", leader), third);
    until_done(&waiting);
    assert_int_equal(waiting.result.error, 0);
    assert_int_equal(waiting.result.base_offset, 1);
    node_assert_text(partition, "one\ntwo\n");
    partition_unref(partition);
}

/* Nobody has it: it is sent to the new leader, whatever came there meanwhile. */
static void test_waiter_of_what_nobody_has(void **state)
{
    struct replica_rig *rig = *state;
    struct waiting waiting;
    int leader = 0;
    struct partition *partition = begin_topic(rig, &leader);
    replica_rig_kill(rig, other_than(leader));
    replica_rig_kill(rig, other_than(other_than(leader)));
    begin_append(&waiting, partition, "two\n");
    struct partition *there = pass_over(rig, leader, partition);
    assert_int_equal(node_append(there, "three\n", NULL), 0);
    until_done(&waiting);
    assert_int_equal(waiting.result.error, 0);
    replica_rig_until_committed(partition, 3);
    char *text = node_read_all(partition, NULL);
    assert_true(strcmp(text, "one\nthree\ntwo\n") == 0 ||
                strcmp(text, "one\ntwo\nthree\n") == 0);
    free(text);
    partition_unref(there);
    partition_unref(partition);
}

/* More wait than a leader remembers of one producer: they go to it when it is known
 * that it has none of them. */
static void test_many_wait_for_what_nobody_has(void **state)
{
    enum { WRITERS = PRODUCER_BATCHES + 2 };
    struct replica_rig *rig = *state;
    struct waiting waiting[WRITERS];
    int leader = 0;
    struct partition *partition = begin_topic(rig, &leader);
    replica_rig_kill(rig, other_than(leader));
    replica_rig_kill(rig, other_than(other_than(leader)));
    for (int i = 0; i < WRITERS; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "w%d\n", i);
        begin_append(&waiting[i], partition, line);
    }
    struct partition *there = pass_over(rig, leader, partition);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(node_append(there, "other\n", NULL), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        until_done(&waiting[i]);
        assert_int_equal(waiting[i].result.error, 0);
    }
    replica_rig_until_committed(partition, 1 + 2 * WRITERS);
    char *text = node_read_all(partition, NULL);
    for (int i = 0; i < WRITERS; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "\nw%d\n", i);
        const char *found = strstr(text, line);
        assert_non_null(found);
        assert_null(strstr(found + 1, line));
    }
    free(text);
    partition_unref(there);
    partition_unref(partition);
}

/* What is kept of a log that goes counts among what waits on the node. */
static void test_no_more_is_kept_than_there_is_room(void **state)
{
    struct replica_rig *rig = *state;
    struct waiting waiting;
    struct produce_result result;
    int leader = 0;
    struct partition *partition = begin_topic(rig, &leader);
    replica_rig_kill(rig, other_than(leader));
    replica_rig_kill(rig, other_than(other_than(leader)));
    begin_append(&waiting, partition, "two\n");
    for (int i = 0; i < 2; i++) {
        bool room = i > 0;
        int64_t others = room ? 0 : OUTBOX_NODE_BYTES;
        atomic_fetch_add(partition->outbox_bytes, others);
        pthread_mutex_lock(&partition->append_lock);
        partition_keep_waiting(partition);
        pthread_mutex_unlock(&partition->append_lock);
        assert_int_equal(waiting.waiter.write != NULL, room);
        atomic_fetch_sub(partition->outbox_bytes, others);
    }
    assert_true(partition_produce_cancel(partition, &waiting.waiter, &result));
    assert_int_equal(atomic_load(partition->outbox_bytes), 0);
    partition_unref(partition);
}

/* Several wait for what a new leader cuts: each is sent to it, once, in order. */
static void test_all_that_is_cut_is_sent_on(void **state)
{
    enum { WRITERS = 5 };
    static const char *const lines[WRITERS] = {"a\n", "bb\n", "ccc\n", "dd\n", "e\n"};
    struct replica_rig *rig = *state;
    struct waiting waiting[WRITERS];
    int leader = 0;
    struct partition *partition = begin_topic(rig, &leader);
    int other = other_than(leader);
    int third = other_than(other);
    struct store *store = rig->cluster.nodes[leader].store;
    replica_rig_cut_off(rig, other);
    replica_rig_cut_off(rig, third);
    for (int i = 0; i < WRITERS; i++) {
        begin_append(&waiting[i], partition, lines[i]);
    }
    http_server_stop(rig->nodes[leader].server);
    rig->nodes[leader].server = NULL;
    shared_store_cut(store, true);
    shared_backend_advance(rig->cluster.backend, 7000);
    replica_rig_start(rig, other);
    replica_rig_start(rig, third);
    int next = replica_rig_leader(rig, other, "t", leader);
    struct partition *there = replica_rig_partition(rig, next, "t");
    assert_int_equal(node_append(there, "two\n", NULL), 0);
    shared_store_cut(store, false);
    for (int i = 0; i < WRITERS; i++) {
        until_done(&waiting[i]);
        assert_int_equal(waiting[i].result.error, 0);
        assert_int_equal(waiting[i].result.base_offset, 2 + i);
    }
    replica_rig_until_committed(there, 2 + WRITERS);
    node_assert_text(there, "one\ntwo\na\nbb\nccc\ndd\ne\n");
    partition_unref(there);
    partition_unref(partition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_follower_is_filled_anew, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_leader_hands_over_first, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_leader_finds_it_for_a_follower,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_files_lost_while_away, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_log_that_can_not_be_opened,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_new_log_that_can_not_be_opened,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_one_of_many_that_can_not_be_opened,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_only_copy_can_not_be_opened,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_found_before_anybody_reads,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_lost_metadata_starts_first,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_only_copy_stays, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_failed_disk_of_the_leader,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_failed_disk_shows_after_a_crash,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_copy_for_readers, replica_rig_setup,
                                        replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_waiter_of_what_others_have,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_waiter_of_what_nobody_has,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_many_wait_for_what_nobody_has,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_no_more_is_kept_than_there_is_room,
                                        replica_rig_setup, replica_rig_teardown),
        cmocka_unit_test_setup_teardown(test_all_that_is_cut_is_sent_on,
                                        replica_rig_setup, replica_rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
