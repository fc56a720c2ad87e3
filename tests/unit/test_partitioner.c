#include "replica/partitioner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The vectors of Kafka's own UtilsTest. */
static void murmur2_as_kafka(void **state)
{
    static const struct {
        const char *text;
        int32_t hash;
    } cases[] = {
        {"21", -973932308},
        {"foobar", -790332482},
        {"a-little-bit-long-string", -985981536},
        {"a-little-bit-longer-string", -1486304829},
        {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
        {"abc", 479470107},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(
            (int32_t)partitioner_murmur2(cases[i].text, strlen(cases[i].text)),
            cases[i].hash);
    assert_int_equal(partitioner_of_key("21", 2, 7), (-973932308 & 0x7fffffff) % 7);
    assert_int_equal(partitioner_of_key("abc", 3, 1), 0);
}

static void keys(void **state)
{
    (void)state;
    assert_int_equal(partitioner_key("k\tv", 3, '\t'), 1);
    assert_int_equal(partitioner_key("\tv", 2, '\t'), 0);
    assert_int_equal(partitioner_key("k\tv\tw", 5, '\t'), 1);
    assert_int_equal(partitioner_key("kv", 2, '\t'), -1);
    assert_int_equal(partitioner_key("", 0, '\t'), -1);
    assert_int_equal(partitioner_key("k\tv", 3, -1), -1);
    assert_int_equal(partitioner_key("k\xff"
                                     "v",
                                     3, 0xff),
                     1);
}

static void splits_in_order(void **state)
{
    static const char bytes[] = "abc\t1\nnone 1\n21\t1\nabc\t2\nnone 2\n";
    const int32_t abc = partitioner_of_key("abc", 3, 4);
    const int32_t k21 = partitioner_of_key("21", 2, 4);
    int32_t keyless = 0;
    struct partitioner_split split;
    size_t total = 0;
    (void)state;
    while (keyless == abc || keyless == k21)
        keyless++;
    assert_int_not_equal(abc, k21);
    assert_int_equal(
        partitioner_split(bytes, sizeof bytes - 1, 5, '\t', 4, keyless, &split), 0);
    assert_int_equal(split.count, 3);
    for (size_t i = 0; i < split.count; i++) {
        const struct partitioner_batch *batch = &split.batches[i];
        const char *want = batch->partition == abc   ? "abc\t1\nabc\t2\n"
                           : batch->partition == k21 ? "21\t1\n"
                                                     : "none 1\nnone 2\n";
        assert_int_equal(batch->length, strlen(want));
        assert_memory_equal(batch->bytes, want, batch->length);
        assert_int_equal(batch->count, batch->partition == k21 ? 1 : 2);
        total += batch->length;
    }
    assert_int_equal(total, sizeof bytes - 1);
    partitioner_free(&split);
}

static void one_partition_is_not_copied(void **state)
{
    static const char bytes[] = "a\nb\n\n";
    struct partitioner_split split;
    (void)state;
    assert_int_equal(partitioner_split(bytes, 5, 3, '\t', 9, 8, &split), 0);
    assert_int_equal(split.count, 1);
    assert_int_equal(split.batches[0].partition, 8);
    assert_int_equal(split.batches[0].count, 3);
    assert_ptr_equal(split.batches[0].bytes, bytes);
    partitioner_free(&split);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(murmur2_as_kafka),
        cmocka_unit_test(keys),
        cmocka_unit_test(splits_in_order),
        cmocka_unit_test(one_partition_is_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
