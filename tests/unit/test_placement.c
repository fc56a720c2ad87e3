/* Placement of replicas, for one node and for many. */
#include "coord/err.h"
#include "coord/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void one_node_has_everything(void **state)
{
    const int32_t nodes[] = {7};
    int32_t out[1];

    (void)state;
    for (uint32_t p = 0; p < 5; p++) {
        assert_int_equal(placement_replicas(nodes, 1, 1, 123, p, out), 0);
        assert_int_equal(out[0], 7);
    }
    assert_int_equal(placement_replicas(nodes, 1, 2, 0, 0, out),
                     E_INVALID_REPLICATION_FACTOR);
    assert_int_equal(placement_replicas(nodes, 1, 0, 0, 0, out),
                     E_INVALID_REPLICATION_FACTOR);
    assert_int_equal(placement_replicas(nodes, 0, 1, 0, 0, out),
                     E_INVALID_REPLICATION_FACTOR);
}

static void the_rule_for_three_nodes(void **state)
{
    static const int32_t expected[6][2] = {{2, 3}, {3, 1}, {1, 2},
                                           {2, 1}, {3, 2}, {1, 3}};
    const int32_t nodes[] = {1, 2, 3};
    int32_t out[3];

    (void)state;
    for (uint32_t p = 0; p < 6; p++) {
        assert_int_equal(placement_replicas(nodes, 3, 2, 1, p, out), 0);
        assert_int_equal(out[0], expected[p][0]);
        assert_int_equal(out[1], expected[p][1]);
    }
}

static void replicas_differ_and_leaders_are_even(void **state)
{
    int32_t nodes[9], out[9];

    (void)state;
    for (int32_t i = 0; i < 9; i++)
        nodes[i] = 10 * i;
    for (uint32_t n = 1; n <= 9; n++)
        for (uint32_t factor = 1; factor <= n; factor++) {
            int leads[9] = {0};

            for (uint32_t p = 0; p < 4 * n; p++) {
                assert_int_equal(
                    placement_replicas(nodes, n, factor, UINT32_MAX - 1, p, out), 0);
                leads[out[0] / 10]++;
                for (uint32_t i = 0; i < factor; i++)
                    for (uint32_t j = 0; j < i; j++)
                        assert_int_not_equal(out[i], out[j]);
            }
            for (uint32_t i = 0; i < n; i++)
                assert_int_equal(leads[i], 4);
        }
}

/* What a dead node led goes to all survivors alike. */
static void a_dead_nodes_load_spreads(void **state)
{
    const int32_t nodes[] = {0, 1, 2, 3, 4};
    int takes_over[5] = {0};
    int32_t out[3];

    (void)state;
    for (uint32_t p = 0; p < 5 * 4; p++) {
        assert_int_equal(placement_replicas(nodes, 5, 3, 0, p, out), 0);
        if (out[0] == 2)
            takes_over[out[1]]++;
    }
    for (int i = 0; i < 5; i++)
        assert_int_equal(takes_over[i], i == 2 ? 0 : 1);
}

static void starts_come_from_ids(void **state)
{
    const uint8_t a[16] = {0, 0, 1, 2}, b[2] = {9, 1};

    (void)state;
    assert_int_equal(placement_start(a, 16), 258);
    assert_int_equal(placement_start(b, 2), 9 * 256 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_has_everything),
        cmocka_unit_test(the_rule_for_three_nodes),
        cmocka_unit_test(replicas_differ_and_leaders_are_even),
        cmocka_unit_test(a_dead_nodes_load_spreads),
        cmocka_unit_test(starts_come_from_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
