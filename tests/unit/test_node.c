#include "fs/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct tree_place log_place = {
    .kind = TREE_LOG, .topic = "t", .topic_id = {{1}}, .partition = 3};
static const struct tree_place dir_place = {
    .kind = TREE_PARTITION, .topic = "t", .topic_id = {{1}}, .partition = 3};
static const struct node_identity at_ten = {.base = 10};
static const struct node_identity at_twenty = {.base = 20};
static const struct node_identity nothing = {0};

static int set_up(void **state)
{
    *state = node_table_new();
    return *state == NULL;
}

static int tear_down(void **state)
{
    node_table_free(*state);
    return 0;
}

/* A look-up as the front does it. */
static struct node *look_up(struct node_table *table, const struct tree_place *place,
                            const struct node_identity *identity)
{
    struct node *node = node_table_find(table, place, identity);
    if (node == NULL)
        node = node_table_add(table, node_new(place, identity));
    return node;
}

static void test_root(void **state)
{
    struct node_table *table = *state;
    struct node *root = node_table_get(table, 1);
    assert_int_equal(root->place.kind, TREE_ROOT);
    assert_int_equal(node_id(table, root), 1);
    node_table_forget(table, root, 5);
    assert_ptr_equal(node_table_get(table, 1), root);
    assert_int_equal(node_table_count(table), 0);
}

static void test_one_node_while_known(void **state)
{
    struct node_table *table = *state;
    struct node *node = look_up(table, &dir_place, &nothing);
    assert_ptr_equal(look_up(table, &dir_place, &nothing), node);
    assert_ptr_equal(node_table_get(table, node_id(table, node)), node);
    assert_int_equal(node_table_count(table), 1);
    node_table_forget(table, node, 1);
    assert_int_equal(node_table_count(table), 1);
    node_table_forget(table, node, 1);
    assert_int_equal(node_table_count(table), 0);
    assert_null(node_table_find(table, &dir_place, &nothing));
}

static void test_first_of_two_wins(void **state)
{
    struct node_table *table = *state;
    struct node *first = node_table_add(table, node_new(&dir_place, &nothing));
    assert_ptr_equal(node_table_add(table, node_new(&dir_place, &nothing)), first);
    node_table_forget(table, first, 2);
    assert_int_equal(node_table_count(table), 0);
}

static void test_places_and_anchors_differ(void **state)
{
    struct node_table *table = *state;
    struct tree_place other = log_place;
    struct node *node = look_up(table, &log_place, &at_ten);
    assert_ptr_not_equal(look_up(table, &log_place, &at_twenty), node);
    other.partition = 4;
    assert_ptr_not_equal(look_up(table, &other, &at_ten), node);
    other = log_place;
    other.topic_id.bytes[15] = 1;
    assert_ptr_not_equal(look_up(table, &other, &at_ten), node);
    other = log_place;
    other.kind = TREE_AT;
    other.name[0] = '1';
    struct node *one = look_up(table, &other, &at_ten);
    other.name[0] = '2';
    assert_ptr_not_equal(look_up(table, &other, &at_ten), one);
}

static void test_open_keeps_forgotten_node(void **state)
{
    struct node_table *table = *state;
    struct node *node = look_up(table, &log_place, &at_ten);
    assert_int_equal(node_table_open(table, node, false, 1, 0), 0);
    node_table_forget(table, node, 1);
    assert_int_equal(node_table_count(table), 1);
    node_table_close(table, node, false);
    assert_int_equal(node_table_count(table), 0);
}

static void test_writing_unshares(void **state)
{
    struct node_table *table = *state;
    struct node *node = look_up(table, &log_place, &at_ten);
    assert_int_equal(node_table_open(table, node, false, 1, 0), 0);
    assert_ptr_equal(look_up(table, &log_place, &at_ten), node);
    assert_int_equal(node_table_open(table, node, true, 1, 0), 0);
    struct node *second = look_up(table, &log_place, &at_ten);
    assert_ptr_not_equal(second, node);
    assert_ptr_equal(look_up(table, &log_place, &at_ten), second);
    /* Closed, the first stays aside while another one is found. */
    node_table_close(table, node, true);
    assert_ptr_equal(look_up(table, &log_place, &at_ten), second);
    node_table_forget(table, second, 3);
    assert_null(node_table_find(table, &log_place, &at_ten));
    /* Opened and closed again it is found. */
    assert_int_equal(node_table_open(table, node, true, 1, 0), 0);
    node_table_close(table, node, true);
    assert_ptr_equal(look_up(table, &log_place, &at_ten), node);
    node_table_close(table, node, false);
}

static void test_two_writers_part(void **state)
{
    struct node_table *table = *state;
    struct node *node = look_up(table, &log_place, &at_ten);
    assert_int_equal(node_table_open(table, node, true, 100, 1000), 0);
    assert_int_equal(node_table_open(table, node, true, 200, 1000), -ESTALE);
    assert_int_equal(node_table_open(table, node, true, 300, 1000), -ESTALE);
    /* Their next look-up gets a node of its own, others go on sharing. */
    assert_true(node_table_wants_own(table, &log_place, 200, 1005));
    assert_false(node_table_wants_own(table, &log_place, 400, 1005));
    assert_false(node_table_wants_own(table, &dir_place, 200, 1005));
    struct node *own = node_new(&log_place, &at_ten);
    node_table_add_own(table, own);
    assert_ptr_not_equal(look_up(table, &log_place, &at_ten), own);
    node_table_forget(table, own, 1);
    /* A second refusal in a row would reach the user. */
    assert_int_equal(node_table_open(table, node, true, 200, 1010), 0);
    /* That was it: the next time the same thread is refused first. */
    assert_int_equal(node_table_open(table, node, true, 200, 1020), -ESTALE);
    /* So too after a refusal that ended well, on another node. */
    struct node *other = look_up(table, &log_place, &at_ten);
    assert_ptr_not_equal(other, node);
    assert_int_equal(node_table_open(table, other, true, 200, 1030), 0);
    assert_int_equal(node_table_open(table, node, true, 200, 1040), -ESTALE);
    node_table_close(table, other, true);
    /* Readers are sent to another node likewise. */
    assert_int_equal(node_table_open(table, node, false, 400, 1040), -ESTALE);
    /* Long after the first refusal the next one is a first again. */
    assert_int_equal(node_table_open(table, node, true, 300, 100000), -ESTALE);
    node_table_close(table, node, true);
    node_table_close(table, node, true);
}

static void test_only_logs_part(void **state)
{
    struct node_table *table = *state;
    struct tree_place config = dir_place;
    config.kind = TREE_CONFIG;
    struct node *node = look_up(table, &config, &nothing);
    assert_int_equal(node_table_open(table, node, true, 1, 0), 0);
    assert_int_equal(node_table_open(table, node, true, 2, 0), 0);
    assert_ptr_equal(look_up(table, &config, &nothing), node);
    node_table_close(table, node, true);
    node_table_close(table, node, true);
}

static void test_ids(void **state)
{
    static const struct tree_place topics = {.kind = TREE_TOPICS};
    static const struct topic_id one = {{1}}, two = {{2}};
    struct node_table *table = *state;
    uint64_t ids[2] = {0};
    struct node *dir = look_up(table, &dir_place, &nothing);
    struct node *top = look_up(table, &topics, &nothing);
    assert_int_equal(node_table_ids(table, &one, ids, 2), 1);
    assert_int_equal(ids[0], node_id(table, dir));
    assert_int_equal(node_table_ids(table, &two, ids, 2), 0);
    assert_int_equal(node_table_ids(table, NULL, ids, 2), 1);
    assert_int_equal(ids[0], node_id(table, top));
    (void)look_up(table, &log_place, &at_ten);
    assert_int_equal(node_table_ids(table, &one, ids, 1), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_root),
        TEST(test_one_node_while_known),
        TEST(test_first_of_two_wins),
        TEST(test_places_and_anchors_differ),
        TEST(test_open_keeps_forgotten_node),
        TEST(test_writing_unshares),
        TEST(test_two_writers_part),
        TEST(test_only_logs_part),
        TEST(test_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
