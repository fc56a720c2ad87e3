/* The controller's decisions as tables of (assignment, state, who is alive). */
#include "coord/controller.h"
#include "coord/err.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "1,2,3" */
static struct id_list ids(const char *text)
{
    struct id_list list = {.ids = calloc(16, sizeof(int32_t))};

    assert_non_null(list.ids);
    while (*text) {
        char *end;

        list.ids[list.count++] = (int32_t)strtol(text, &end, 10);
        text = *end ? end + 1 : end;
    }
    return list;
}

static void expect_ids(const struct id_list *list, const char *text)
{
    struct id_list expected = ids(text);

    assert_int_equal(list->count, expected.count);
    if (list->count > 0)
        assert_memory_equal(list->ids, expected.ids, list->count * sizeof(int32_t));
    id_list_free(&expected);
}

struct election {
    const char *replicas, *isr, *elr, *live;
    int64_t min_insync;
    int32_t leader;
    const char *new_isr, *new_elr;
};

static void elections(void **state)
{
    static const struct election table[] = {
        /* one node comes back */
        {"1", "1", "", "1", 1, 1, "1", ""},
        /* the preferred leader, where it is in sync */
        {"1,2,3", "2,1,3", "", "1,2,3", 2, 1, "2,1,3", ""},
        /* assignment order, not ISR order */
        {"1,2,3", "3,2", "", "2,3", 2, 2, "3,2", ""},
        /* a dead one leaves the ISR */
        {"1,2,3", "1,2,3", "", "2,3", 2, 2, "2,3", ""},
        /* below the minimum those that leave stay eligible */
        {"1,2,3", "1,2", "", "2", 2, 2, "2", "1"},
        {"1,2,3", "2", "1", "2", 2, 2, "2", "1"},
        /* the last replica standing died: one from the ELR leads */
        {"1,2,3", "2", "1", "1,3", 2, 1, "1", "2"},
        /* alive but not eligible: nobody leads, both sets stay */
        {"1,2,3", "2", "1", "3", 2, -1, "2", "1"},
        {"1,2,3", "1,2", "", "", 2, -1, "1,2", ""},
        /* this node is not in the assignment */
        {"1", "1", "", "2", 1, -1, "1", ""},
        /* in the ISR but no longer in the assignment: neither leads nor stays */
        {"2,3", "1,2", "", "1,2", 1, 2, "2", ""},
        {"2,3", "1", "2", "1,2", 1, 2, "2", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct election *row = &table[i];
        struct id_list replicas = ids(row->replicas), live = ids(row->live);
        struct controller_view view = {.epoch = 9, .live = &live};
        struct partition_state old = {
            .controller_epoch = 4, .leader = -1, .leader_epoch = 7};
        struct partition_state next;

        old.isr = ids(row->isr);
        old.elr = ids(row->elr);
        assert_int_equal(
            controller_elect(&view, &replicas, &old, row->min_insync, &next), 0);
        assert_int_equal(next.leader, row->leader);
        assert_int_equal(next.leader_epoch, 8);
        assert_int_equal(next.controller_epoch, 9);
        expect_ids(&next.isr, row->new_isr);
        expect_ids(&next.elr, row->new_elr);
        partition_state_free(&next);
        old.leader_epoch = INT32_MAX;
        assert_int_equal(controller_elect(&view, &replicas, &old, 1, &next),
                         -EOVERFLOW);
        partition_state_free(&old);
        id_list_free(&replicas);
        id_list_free(&live);
    }
}

static void new_partitions(void **state)
{
    struct id_list replicas = ids("3,1,2"), live = ids("1,2");
    struct controller_view view = {.epoch = 2, .live = &live};
    struct partition_state next;

    (void)state;
    assert_int_equal(controller_new_partition(&view, &replicas, 5, &next), 0);
    assert_int_equal(next.leader, 1);
    assert_int_equal(next.leader_epoch, 5);
    expect_ids(&next.isr, "1,2");
    partition_state_free(&next);
    live.count = 0;
    assert_int_equal(controller_new_partition(&view, &replicas, 0, &next), 0);
    assert_int_equal(next.leader, -1);
    expect_ids(&next.isr, "3,1,2");
    partition_state_free(&next);
    id_list_free(&replicas);
    id_list_free(&live);
}

static void preferred_leaders(void **state)
{
    struct id_list replicas = ids("1,2"), live = ids("1,2");
    struct controller_view view = {.epoch = 2, .live = &live};
    struct partition_state old = {.leader = 2, .leader_epoch = 3}, next;

    (void)state;
    old.isr = ids("2,1");
    assert_int_equal(controller_prefer(&view, &replicas, &old, &next), 1);
    assert_int_equal(next.leader, 1);
    assert_int_equal(next.leader_epoch, 4);
    expect_ids(&next.isr, "2,1");
    partition_state_free(&next);
    old.isr.count = 1; /* not in sync */
    assert_int_equal(controller_prefer(&view, &replicas, &old, &next), E_NO_LEADER);
    old.isr.count = 2;
    live.ids[0] = 5; /* not alive */
    assert_int_equal(controller_prefer(&view, &replicas, &old, &next), E_NO_LEADER);
    old.leader = 1; /* leads already */
    assert_int_equal(controller_prefer(&view, &replicas, &old, &next), 0);
    partition_state_free(&old);
    id_list_free(&replicas);
    id_list_free(&live);
}

static void epochs(void **state)
{
    int32_t epoch = 0;

    (void)state;
    assert_int_equal(controller_next_epoch(-1, &epoch), 0);
    assert_int_equal(epoch, 1);
    assert_int_equal(controller_next_epoch(28, &epoch), 0);
    assert_int_equal(epoch, 29);
    assert_int_equal(controller_next_epoch(INT32_MAX, &epoch), -EOVERFLOW);
    assert_int_equal(controller_recovered_epoch(0), 1);
    assert_true(controller_recovered_epoch(1764417600000) > 20000000);
    assert_int_equal(controller_recovered_epoch(INT64_MAX), INT32_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elections),
        cmocka_unit_test(new_partitions),
        cmocka_unit_test(preferred_leaders),
        cmocka_unit_test(epochs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
