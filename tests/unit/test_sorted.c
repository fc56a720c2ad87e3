#include "coord/sorted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static int compare(const void *item, const void *key)
{
    int a = *(const int *)item, b = *(const int *)key;

    return (a > b) - (a < b);
}

/* Of 0, 2, 4, ...: every key that is there, lies between two, before all or behind. */
static void test_places(void **state)
{
    static const int numbers[] = {0, 2, 4, 6, 8, 10, 12};

    (void)state;
    for (int count = 0; count <= 7; count++)
        for (int key = -1; key <= 2 * count; key++) {
            bool found;
            size_t at = sorted_place(numbers, (size_t)count, sizeof(int), &key, compare,
                                     &found);

            assert_int_equal(at, (key + 1) / 2);
            assert_int_equal(found, key >= 0 && key % 2 == 0 && key < 2 * count);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
