/* The lines of __consumer_offsets, the assignment, and what compaction leaves of a log.
 */
#include "replica/group_assign.h"
#include "replica/group_record.h"
#include "support/group_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_assignment(void **state)
{
    (void)state;
    assert_int_equal(group_assign_member(0, 3, 1), -1);
    for (int32_t members = 1; members < 12; members++)
        for (int32_t partitions = 0; partitions < 40; partitions++) {
            int32_t next = 0;

            for (int32_t m = 0; m < members; m++) {
                int32_t count = group_assign_count(members, partitions, m);

                assert_int_equal(group_assign_first(members, partitions, m), next);
                assert_int_equal(count, partitions / members +
                                            (m < partitions % members ? 1 : 0));
                for (int32_t p = next; p < next + count; p++)
                    assert_int_equal(group_assign_member(members, partitions, p), m);
                next += count;
            }
            assert_int_equal(next, partitions);
        }
}

static int split(const char *line, struct group_record_key *key)
{
    return group_record_split(line, strlen(line), key);
}

#define ID "00112233445566778899aabbccddeeff"

static void test_keys(void **state)
{
    static const char *const bad[] = {
        "",
        "g",
        "\t{}",
        "a b\t{}",
        "g/\t",
        "g/" ID "\t",
        "g/" ID "/\t",
        "g/" ID "/x\t",
        "g/" ID "/01\t",
        "g/" ID "/-1\t",
        "g/" ID "/1/2\t",
        "g/" ID "/100000\t",
        "g/" ID "/9999999\t",
        "g/0011\t",
    };
    struct group_record_key key;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (split(bad[i], &key) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(split("g.1\t{}", &key), 0);
    assert_string_equal(key.group, "g.1");
    assert_false(key.offset || key.gone);
    assert_int_equal(key.value_length, 2);
    assert_int_equal(split("g/" ID "/12\t", &key), 0);
    assert_true(key.offset && key.gone);
    assert_int_equal(key.partition, 12);
    assert_int_equal(key.topic_id.bytes[15], 0xff);
}

#define TOPIC  "\"topic\":\"t\",\"topic_id\":\"" ID "\""
#define MEMBER "{\"id\":\"1-a\",\"node\":1,\"epoch\":5,\"joined\":9," TOPIC ",\"has\":"
#define HEAD   "g\t{\"generation\":7,\"version\":0,\"config\":{},\"members\":["
#define TAIL   "],\"topics\":[{" TOPIC ",\"partitions\":4}]}"

static int decode(const char *line, struct group_record *record)
{
    struct group_config defaults;
    struct group_record_key key;

    group_config_defaults(&defaults);
    assert_int_equal(split(line, &key), 0);
    return group_record_decode(&key, &defaults, record);
}

static void test_groups(void **state)
{
    static const char *const bad[] = {
        "g\t{",
        "g\t[]",
        "g\t{\"generation\":7}",
        "g\t{\"generation\":-1,\"version\":0,\"config\":{},\"members\":[],\"topics\":[]"
        "}",
        "g\t{\"generation\":1,\"version\":0,\"config\":1,\"members\":[],\"topics\":[]}",
        "g\t{\"generation\":1,\"version\":0,\"config\":{\"x\":1},\"members\":[],"
        "\"topics\":[]}",
        "g\t{\"generation\":1,\"version\":0,\"config\":{},\"members\":{},\"topics\":[]"
        "}",
        HEAD "1" TAIL,
        HEAD MEMBER "1}" TAIL,
        HEAD MEMBER "[[0,5,1]]}" TAIL,         /* beyond the topic */
        HEAD MEMBER "[[0,0,1]]}" TAIL,         /* none */
        HEAD MEMBER "[[-1,2,1]]}" TAIL,        /* before it */
        HEAD MEMBER "[[0,1]]}" TAIL,           /* not three */
        HEAD MEMBER "[[0,2,1],[1,1,1]]}" TAIL, /* one twice */
        HEAD MEMBER "[]}," MEMBER "[]}" TAIL,  /* two of one name */
        HEAD MEMBER "[]}],\"topics\":[]}",     /* of no topic */
        HEAD "],\"topics\":[{" TOPIC ",\"partitions\":100001}]}",
        HEAD "],\"topics\":[{" TOPIC ",\"partitions\":1,\"left\":-5}]}",
    };
    struct group_record record;
    struct buf line;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (decode(bad[i], &record) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(decode(HEAD MEMBER "[[0,2,1],[3,1,6]]}" TAIL, &record), 0);
    assert_int_equal(record.generation, 7);
    assert_int_equal(record.member_count, 1);
    assert_int_equal(record.members[0].runs[1].first, 3);
    assert_int_equal(record.config.group_session_timeout_ms, 10000);
    assert_int_equal(record.topics[0].left_ms, -1);

    buf_init(&line, 4096);
    assert_int_equal(group_record_encode("g", &record, &line), 0);
    assert_string_equal(
        line.data,
        "g\t{\"generation\":7,\"version\":0,\"config\":{\"start\":\"earliest\","
        "\"commit\":\"auto\",\"group_session_timeout_ms\":10000,"
        "\"max_poll_interval_ms\":300000,\"offsets_retention_ms\":604800000},"
        "\"members\":[{\"id\":\"1-a\",\"node\":1,\"epoch\":5,"
        "\"topic\":\"t\",\"topic_id\":\"" ID "\",\"joined\":9,"
        "\"has\":[[0,2,1],[3,1,6]]}],\"topics\":[{\"topic\":\"t\",\"topic_id\":\"" ID
        "\",\"partitions\":4}]}\n");
    buf_free(&line);
    group_record_free(&record);
}

static void test_offsets(void **state)
{
    static const char line[] =
        "g/" ID
        "/3\t{\"topic\":\"t\",\"offset\":43,\"leader_epoch\":5,\"timestamp\":9}";
    static const char *const bad[] = {
        "g/" ID
        "/3\t{\"topic\":\"t\",\"offset\":-1,\"leader_epoch\":5,\"timestamp\":9}",
        "g/" ID
        "/3\t{\"topic\":\"a/b\",\"offset\":1,\"leader_epoch\":5,\"timestamp\":9}",
        "g/" ID
        "/3\t{\"topic\":\"t\",\"offset\":1,\"leader_epoch\":-2,\"timestamp\":9}",
        "g/" ID "/3\t{\"topic\":\"t\",\"offset\":1,\"leader_epoch\":5}",
        "g/" ID "/3\tx",
    };
    struct group_record_offset offset;
    struct group_record_key key;
    struct buf out;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(split(bad[i], &key), 0);
        assert_int_equal(group_record_decode_offset(&key, &offset), -EBADMSG);
    }
    assert_int_equal(split(line, &key), 0);
    assert_int_equal(group_record_decode_offset(&key, &offset), 0);
    assert_int_equal(offset.offset, 43);
    buf_init(&out, 4096);
    group_record_encode_offset("g", &key.topic_id, 3, &offset, &out);
    assert_int_equal(out.length, strlen(line) + 1);
    assert_memory_equal(out.data, line, strlen(line));
    buf_clear(&out);
    group_record_encode_offset_gone("g", &key.topic_id, 3, &out);
    assert_string_equal(out.data, "g/" ID "/3\t\n");
    buf_free(&out);
}

/* ---- compaction ---------------------------------------------------------------------
 */

static uint64_t random_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static int random_below(uint64_t *seed, int bound)
{
    return (int)(random_next(seed) % (uint64_t)bound);
}

/* Something that happens to a group; refusals are part of it. */
static void random_event(struct group_rig *rig, uint64_t *seed)
{
    static const char *const members[] = {"1-a", "1-b", "2-a", "2-b", "3-a"};
    static const char *const topics[] = {"t", "u"};
    const char *member = members[random_below(seed, 5)];
    const char *topic = topics[random_below(seed, 2)];

    switch (random_below(seed, 10)) {
    case 0:
    case 1:
        group_rig_join(rig, member, topic);
        break;
    case 2:
        group_rig_leave(rig, member);
        break;
    case 3:
    case 4:
        group_rig_release(rig, member);
        break;
    case 5:
        group_rig_set(rig, topic, random_below(seed, 2), random_below(seed, 50) - 1, 1);
        break;
    case 6:
        if (random_below(seed, 10) == 0)
            group_rig_configure(rig, "{\"commit\":\"manual\"}");
        else
            group_rig_wait(rig, random_below(seed, 4000));
        group_rig_tick(rig);
        break;
    case 7:
        if (random_below(seed, 20) == 0)
            group_rig_wait(rig, INT64_C(8) * 86400000);
        group_rig_tick(rig);
        break;
    default:
        for (int64_t generation = 1; generation < 40; generation++) {
            struct group_commit commit = {random_below(seed, 4), generation,
                                          random_below(seed, 1000), 0};
            bool refused;

            buf_clear(&rig->records);
            group_core_commit(rig->core, &rig->env, member, &commit, 1, &refused,
                              &rig->records);
            buf_add(&rig->log, rig->records.data, rig->records.length);
        }
    }
}

/* As the cleaner does it: of the lines before some place, the last one of each key, or
 * not even that if it says that the key is gone. */
static void compact(const struct buf *log, uint64_t *seed, struct buf *out)
{
    const char *end = log->data + log->length;
    size_t clean = (size_t)random_next(seed) % (log->length + 1);
    const char *dirty = memchr(log->data + clean, '\n', log->length - clean);
    bool drop_gone = random_below(seed, 2);

    dirty = dirty ? dirty + 1 : end;
    for (const char *at = log->data; at < dirty;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t key =
            (size_t)((char *)memchr(at, '\t', (size_t)(newline - at)) + 1 - at);
        bool last = true;

        for (const char *next = newline + 1; next < dirty && last;) {
            if ((size_t)(dirty - next) > key && memcmp(next, at, key) == 0)
                last = false;
            next = (const char *)memchr(next, '\n', (size_t)(end - next)) + 1;
        }
        if (last && !(drop_gone && at + key == newline))
            buf_add(out, at, (size_t)(newline + 1 - at));
        at = newline + 1;
    }
    buf_add(out, dirty, (size_t)(end - dirty));
    assert_int_equal(buf_error(out), 0);
}

static char *state_of(const struct group_core *core)
{
    return group_rig_describe(core);
}

static void test_a_compacted_log_says_the_same(void **state)
{
    (void)state;
    for (uint64_t run = 1; run <= 30; run++) {
        struct group_rig rig;
        uint64_t seed = run;
        struct buf compacted;

        group_rig_open(&rig, 3);
        group_rig_topic(&rig, "t", 4);
        group_rig_topic(&rig, "u", 2);
        buf_init(&compacted, 16 << 20);
        for (int i = 0; i < 60; i++) {
            random_event(&rig, &seed);
            if (i % 10 != 9 || rig.log.length == 0)
                continue;
            buf_clear(&compacted);
            compact(&rig.log, &seed, &compacted);

            struct group_core *core =
                group_rig_load(&rig, compacted.data, compacted.length);
            char *expected = state_of(rig.core);
            char *found = state_of(core);
            assert_string_equal(found, expected);
            cJSON_free(found);
            cJSON_free(expected);
            /* And it goes on in the same way: the times without members are there. */
            struct group_core *before = rig.core;
            size_t length = rig.log.length;
            rig.core = core;
            group_rig_wait(&rig, INT64_C(8) * 86400000);
            group_rig_tick(&rig);
            found = state_of(rig.core);
            rig.core = before;
            group_rig_tick(&rig);
            expected = state_of(rig.core);
            assert_string_equal(found, expected);
            cJSON_free(found);
            cJSON_free(expected);
            group_core_free(core);
            /* That tick of the first core is in its log; the other's is not. */
            assert_true(rig.log.length >= length);
            group_rig_reload(&rig);
        }
        buf_free(&compacted);
        group_rig_close(&rig);
    }
}

/* As many members as a group can have, and what they read of yore. */
static void test_long_records(void **state)
{
    enum { TOPICS = 3000 };
    struct group_record record = {.generation = 7};
    struct group_record decoded;
    struct group_record_key key;
    struct group_record_topic *topics = calloc(TOPICS, sizeof *topics);
    struct group_record_member *members = calloc(GROUP_MEMBERS_MAX, sizeof *members);
    struct buf line;

    (void)state;
    assert_non_null(topics);
    assert_non_null(members);
    group_config_defaults(&record.config);
    for (int i = 0; i < TOPICS; i++) {
        (void)snprintf(topics[i].name, TOPIC_NAME_MAX, "%0240d", i);
        memcpy(topics[i].id.bytes, &i, sizeof i);
        topics[i].partitions = 1;
        topics[i].left_ms = i < GROUP_MEMBERS_MAX ? -1 : 1;
    }
    for (int i = 0; i < GROUP_MEMBERS_MAX; i++) {
        (void)snprintf(members[i].id, sizeof members[i].id, "%060d", i);
        memcpy(members[i].topic, topics[i].name, sizeof members[i].topic);
        members[i].topic_id = topics[i].id;
    }
    record.topics = topics;
    record.topic_count = TOPICS;
    record.members = members;
    record.member_count = GROUP_MEMBERS_MAX;
    buf_init(&line, GROUP_RECORD_BYTES_MAX);
    assert_int_equal(group_record_encode("g", &record, &line), 0);
    assert_true(line.length > 1 << 20);
    assert_int_equal(group_record_split(line.data, line.length - 1, &key), 0);
    assert_int_equal(group_record_decode(&key, &record.config, &decoded), 0);
    assert_int_equal(decoded.generation, 7);
    assert_int_equal(decoded.member_count, GROUP_MEMBERS_MAX);
    assert_int_equal(decoded.topic_count, TOPICS);
    group_record_free(&decoded);
    buf_free(&line);
    free(members);
    free(topics);
}

static void test_other_lines_are_passed_over(void **state)
{
    struct group_rig rig;
    static const char other[] = "h\t{\"malformed";
    static const char bad[] = "g\t{\"malformed";
    char *before, *after;

    (void)state;
    group_rig_open(&rig, 1);
    group_rig_topic(&rig, "t", 2);
    group_rig_join(&rig, "1-a", "t");
    before = group_rig_describe(rig.core);
    assert_int_equal(group_core_replay(rig.core, other, sizeof other - 1), 0);
    assert_int_equal(group_core_replay(rig.core, bad, sizeof bad - 1), -EBADMSG);
    after = group_rig_describe(rig.core);
    assert_string_equal(before, after);
    cJSON_free(before);
    cJSON_free(after);
    group_rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assignment),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_a_compacted_log_says_the_same),
        cmocka_unit_test(test_long_records),
        cmocka_unit_test(test_other_lines_are_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
