#include "replica/epochs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Epoch 3 from 0, 5 from 6, 8 from 9; the log ends at 12. */
static struct epoch_list some(void)
{
    struct epoch_list list = {0};
    assert_int_equal(epochs_add(&list, 3, 0), 0);
    assert_int_equal(epochs_add(&list, 5, 6), 0);
    assert_int_equal(epochs_add(&list, 5, 7), 0); /* the same epoch goes on */
    assert_int_equal(epochs_add(&list, 8, 9), 0);
    return list;
}

static void test_where_epochs_end(void **state)
{
    (void)state;
    struct epoch_list list = some();
    struct epoch_end end;
    assert_true(epochs_end(&list, 3, 12, &end));
    assert_int_equal(end.epoch, 3);
    assert_int_equal(end.end_offset, 6);
    assert_true(epochs_end(&list, 7, 12, &end));
    assert_int_equal(end.epoch, 5);
    assert_int_equal(end.end_offset, 9);
    assert_true(epochs_end(&list, 9, 12, &end));
    assert_int_equal(end.epoch, 8);
    assert_int_equal(end.end_offset, 12);
    assert_false(epochs_end(&list, 2, 12, &end));
    epochs_free(&list);
}

static void test_which_epoch_is_where(void **state)
{
    (void)state;
    struct epoch_list list = some();
    assert_int_equal(epochs_at(&list, 5), 3);
    assert_int_equal(epochs_at(&list, 6), 5);
    assert_int_equal(epochs_before(&list, 6), 3);
    assert_int_equal(epochs_before(&list, 0), -1);
    epochs_cut(&list, 9);
    assert_int_equal(epochs_last(&list), 5);
    epochs_cut(&list, 0);
    assert_int_equal(epochs_last(&list), -1);
    epochs_free(&list);
}

static void test_a_log_that_was_begun_anew(void **state)
{
    (void)state;
    struct epoch_list list = some();
    struct epoch_end end;
    epochs_begin(&list, 4, 20);
    assert_int_equal(epochs_last(&list), 4);
    assert_int_equal(epochs_before(&list, 20), 4);
    assert_true(epochs_end(&list, 4, 20, &end));
    assert_int_equal(end.end_offset, 20);
    assert_false(epochs_end(&list, 3, 20, &end));
    assert_int_equal(epochs_add(&list, 4, 20), 0);
    epochs_cut(&list, 20);
    assert_int_equal(epochs_last(&list), 4);
    epochs_begin(&list, -1, 20);
    assert_int_equal(epochs_last(&list), -1);
    epochs_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_epochs_end),
        cmocka_unit_test(test_which_epoch_is_where),
        cmocka_unit_test(test_a_log_that_was_begun_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
