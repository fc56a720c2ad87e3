/* Whole nodes that replicate to each other over HTTP. */
#include "tests/unit/support/node.h"
#include "tests/unit/support/replica_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int open_rig(void **state)
{
    *state = replica_rig_open(3);
    return 0;
}

static int close_rig(void **state)
{
    replica_rig_close(*state);
    return 0;
}

static void assert_text(struct partition *partition, const char *wanted)
{
    char *text = node_read_all(partition, NULL);
    assert_string_equal(text, wanted);
    free(text);
}

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
            assert_text(partition, "one\ntwo\nthree\n");
            partition_unref(partition);
        }
    }
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
    assert_text(partition, "one\ntwo\n");
    partition_unref(partition);
    replica_rig_until_isr(rig, witness, "t", 3);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_replica_has_it, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_failover_and_return, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_far_behind, open_rig, close_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
