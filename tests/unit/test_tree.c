#include "fs/tree.h"

#include "tests/unit/support/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct node node;
    struct tree tree;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    node_make(&fixture->node);
    node_start(&fixture->node);
    partition_unref(node_topic(&fixture->node, "orders", "{\"partitions\":2}"));
    fixture->tree = (struct tree){
        .cluster = fixture->node.cluster, .uid = 7, .gid = 8, .mounted_ms = 1500};
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    node_stop(&fixture->node);
    node_remove(&fixture->node);
    free(fixture);
    return 0;
}

/* Walks a path from the root; the error of the first step that fails. */
static int walk(const struct tree *tree, const char *path, struct tree_place *place)
{
    char copy[400], *rest = copy, *name;
    int rc = 0;
    (void)snprintf(copy, sizeof copy, "%s", path);
    *place = (struct tree_place){.kind = TREE_ROOT};
    while (rc == 0 && (name = strsep(&rest, "/")) != NULL) {
        struct tree_place child;
        rc = tree_child(tree, place, name, &child);
        if (rc == 0)
            *place = child;
    }
    return rc;
}

static void test_names(void **state)
{
    static const struct {
        const char *path;
        int rc;
        enum tree_kind kind;
    } cases[] = {
        {"topics", 0, TREE_TOPICS},
        {"cluster", 0, TREE_CLUSTER_DIR},
        {"nothing", -ENOENT, 0},
        {"groups", 0, TREE_GROUPS},
        {"groups/any.valid-name", 0, TREE_GROUP},
        {"groups/not valid", -ENOENT, 0},
        {"groups/g/config.json", 0, TREE_GROUP_CONFIG},
        {"groups/g/members", 0, TREE_GROUP_MEMBERS},
        {"groups/g/lag", 0, TREE_GROUP_LAG},
        {"groups/g/nothing", -ENOENT, 0},
        {"groups/g/read", 0, TREE_GROUP_READ_DIR},
        {"groups/g/read/orders", 0, TREE_GROUP_READ},
        {"groups/g/read/other", -ENOENT, 0},
        {"groups/g/json/orders", 0, TREE_GROUP_JSON},
        {"groups/g/json/orders/x", -ENOTDIR, 0},
        {"groups/g/offsets/orders", 0, TREE_GROUP_TOPIC},
        {"groups/g/offsets/other", -ENOENT, 0},
        {"groups/g/offsets/orders/1", 0, TREE_GROUP_OFFSET},
        {"groups/g/offsets/orders/1.preview", 0, TREE_GROUP_PREVIEW},
        {"groups/g/offsets/orders/1.prev", -ENOENT, 0},
        {"groups/g/offsets/orders/.preview", -ENOENT, 0},
        {"groups/g/offsets/orders/2", -ENOENT, 0},
        {"topics/orders", 0, TREE_TOPIC},
        {"topics/other", -ENOENT, 0},
        {"topics/orders/config.json", 0, TREE_CONFIG},
        {"topics/orders/append", 0, TREE_APPEND},
        {"topics/orders/0", 0, TREE_PARTITION},
        {"topics/orders/1", 0, TREE_PARTITION},
        {"topics/orders/2", -ENOENT, 0},
        {"topics/orders/01", -ENOENT, 0},
        {"topics/orders/-1", -ENOENT, 0},
        {"topics/orders/0x", -ENOENT, 0},
        {"topics/orders/4294967296", -ENOENT, 0},
        {"topics/orders/1/log", 0, TREE_LOG},
        {"topics/orders/1/state", 0, TREE_STATE},
        {"topics/orders/1/nothing", -ENOENT, 0},
        {"topics/orders/1/at", 0, TREE_AT_DIR},
        {"topics/orders/1/at/42", 0, TREE_AT},
        {"topics/orders/1/at/042", -EINVAL, 0},
        {"topics/orders/1/follow/last5m", 0, TREE_FOLLOW},
        {"topics/orders/1/follow/nowhere", -EINVAL, 0},
        {"topics/orders/1/json/2026-11-29T12:00:00Z", 0, TREE_JSON},
        {"topics/orders/1/segments/42", 0, TREE_SEGMENT},
        {"topics/orders/1/segments/00000000000000000042", 0, TREE_SEGMENT},
        {"topics/orders/1/segments/00000000000000000000", 0, TREE_SEGMENT},
        {"topics/orders/1/segments/042", -ENOENT, 0},
        {"topics/orders/1/segments/99999999999999999999", -ENOENT, 0},
        {"topics/orders/1/log/x", -ENOTDIR, 0},
        {"cluster/controller", 0, TREE_CLUSTER_FILE},
        {"cluster/brokers/topics/orders/partitions/1/state", 0, TREE_CLUSTER_FILE},
        {"cluster/admin", 0, TREE_CLUSTER_DIR},
        {"cluster/admin/reassign_partitions", -ENOENT, 0},
        {"cluster/nothing", -ENOENT, 0},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tree_place place;
        int rc = walk(&fixture->tree, cases[i].path, &place);
        if (rc != cases[i].rc || (rc == 0 && place.kind != cases[i].kind))
            fail_msg("%s: %d, kind %d", cases[i].path, rc, (int)place.kind);
    }
}

static void test_parents(void **state)
{
    static const char *const paths[] = {
        "topics",
        "topics/orders",
        "topics/orders/0",
        "topics/orders/0/at",
        "topics/orders/0/at/5",
        "topics/orders/0/segments/9",
        "cluster",
        "cluster/brokers/topics",
        "groups/g",
        "groups/g/members",
        "groups/g/read/orders",
        "groups/g/json/orders",
        "groups/g/offsets/orders/1.preview",
        "cluster/controller",
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char above[100];
        struct tree_place place, parent, expected = {.kind = TREE_ROOT};
        (void)snprintf(above, sizeof above, "%s", paths[i]);
        char *slash = strrchr(above, '/');
        assert_int_equal(walk(&fixture->tree, paths[i], &place), 0);
        if (slash != NULL) {
            *slash = '\0';
            assert_int_equal(walk(&fixture->tree, above, &expected), 0);
        }
        tree_parent(&place, &parent);
        assert_int_equal(parent.kind, expected.kind);
    }
}

static void assert_mode(const struct tree *tree, const char *path, mode_t mode,
                        uid_t uid)
{
    struct tree_place place;
    struct stat attr;
    assert_int_equal(walk(tree, path, &place), 0);
    assert_int_equal(tree_attr(tree, &place, 0, &attr), 0);
    if (attr.st_mode != mode || attr.st_uid != uid)
        fail_msg("%s: mode %o, uid %u", path, attr.st_mode, attr.st_uid);
    assert_int_equal(attr.st_nlink, 1);
}

static void test_modes(void **state)
{
    struct fixture *fixture = *state;
    const struct tree *tree = &fixture->tree;
    assert_int_equal(cluster_set_owner(tree->cluster, "orders", 70, 80, 0750), 0);
    assert_mode(tree, "topics/orders", S_IFDIR | 0750, 70);
    assert_mode(tree, "topics/orders/config.json", S_IFREG | 0640, 70);
    assert_mode(tree, "topics/orders/append", S_IFREG | 0200, 70);
    assert_mode(tree, "topics/orders/0", S_IFDIR | 0550, 70);
    assert_mode(tree, "topics/orders/0/at", S_IFDIR | 0550, 70);
    assert_mode(tree, "topics/orders/0/log", S_IFREG | 0640, 70);
    assert_mode(tree, "topics/orders/0/state", S_IFREG | 0440, 70);
    assert_mode(tree, "topics/orders/0/at/1", S_IFREG | 0440, 70);
    assert_mode(tree, "topics/orders/0/segments/0", S_IFREG | 0440, 70);
    assert_mode(tree, "groups/g/read/orders", S_IFREG | 0440, 70);
    assert_mode(tree, "groups/g/offsets/orders", S_IFDIR | 0550, 70);
    assert_mode(tree, "groups/g/offsets/orders/0", S_IFREG | 0660, 70);
    assert_mode(tree, "cluster", S_IFDIR | 0555, 7);
    assert_mode(tree, "cluster/admin", S_IFDIR | 0755, 7);
    assert_mode(tree, "cluster/controller", S_IFREG | 0444, 7);
}

static uint64_t inode(const struct tree *tree, const char *path, uint64_t generation)
{
    struct tree_place place;
    assert_int_equal(walk(tree, path, &place), 0);
    return tree_inode(&place, generation);
}

static void test_inodes(void **state)
{
    struct fixture *fixture = *state;
    const struct tree *tree = &fixture->tree;
    uint64_t log = inode(tree, "topics/orders/0/log", 0);
    assert_true(log == inode(tree, "topics/orders/0/log", 0));
    assert_true(log != inode(tree, "topics/orders/0/log", 1));
    assert_true(log != inode(tree, "topics/orders/1/log", 0));
    assert_true(log != inode(tree, "topics/orders/0/state", 0));
    assert_true(inode(tree, "topics/orders/0/at/1", 0) !=
                inode(tree, "topics/orders/0/at/2", 0));
    assert_true(inode(tree, "topics/orders/0/segments/1", 0) !=
                inode(tree, "topics/orders/0/segments/2", 0));
    assert_true(inode(tree, "topics", 0) != inode(tree, "cluster", 0));
    /* The same after a restart. */
    node_stop(&fixture->node);
    node_start(&fixture->node);
    fixture->tree.cluster = fixture->node.cluster;
    assert_true(log == inode(tree, "topics/orders/0/log", 0));
}

static void test_deleted_topic(void **state)
{
    struct fixture *fixture = *state;
    const struct tree *tree = &fixture->tree;
    struct tree_place topic, log, child;
    struct stat attr;
    assert_int_equal(walk(tree, "topics/orders", &topic), 0);
    assert_int_equal(walk(tree, "topics/orders/0/log", &log), 0);
    uint64_t before = tree_inode(&log, 0);
    assert_int_equal(cluster_delete_topic(tree->cluster, "orders", NULL, 0), 0);
    assert_int_equal(tree_attr(tree, &log, 0, &attr), -ESTALE);
    assert_int_equal(tree_child(tree, &topic, "0", &child), -ESTALE);
    assert_int_equal(walk(tree, "topics/orders", &child), -ENOENT);
    /* Made again it is another one. */
    partition_unref(node_topic(&fixture->node, "orders", NULL));
    assert_int_equal(tree_attr(tree, &log, 0, &attr), -ESTALE);
    assert_int_equal(tree_attr(tree, &topic, 0, &attr), -ESTALE);
    assert_true(before != inode(tree, "topics/orders/0/log", 0));
}

static int join(void *arg, const char *name, const struct tree_place *place)
{
    (void)place;
    return buf_printf(arg, "%s ", name);
}

static void assert_listing(const struct tree *tree, const char *path,
                           const char *expected)
{
    struct tree_place place = {.kind = TREE_ROOT};
    struct buf names;
    buf_init(&names, 1000);
    assert_int_equal(buf_adds(&names, ""), 0);
    if (path[0] != '\0')
        assert_int_equal(walk(tree, path, &place), 0);
    assert_int_equal(tree_list(tree, &place, join, &names), 0);
    assert_string_equal(names.data != NULL ? names.data : "", expected);
    buf_free(&names);
}

static void test_listings(void **state)
{
    struct fixture *fixture = *state;
    const struct tree *tree = &fixture->tree;
    partition_unref(node_topic(&fixture->node, "a", NULL));
    assert_listing(tree, "", "topics groups cluster ");
    assert_listing(tree, "groups/g", "config.json members lag read json offsets ");
    assert_listing(tree, "groups/g/read", "");
    assert_listing(tree, "groups/g/json", "");
    assert_listing(tree, "groups/g/offsets/orders", "0 1 ");
    assert_listing(tree, "topics", "a orders ");
    assert_listing(tree, "topics/orders", "config.json append 0 1 ");
    assert_listing(tree, "topics/orders/0", "log state at follow json ");
    assert_listing(tree, "topics/orders/0/at", "");
    assert_listing(tree, "topics/orders/0/segments", "");
    assert_listing(tree, "cluster/brokers/topics", "a orders ");
    assert_listing(tree, "cluster/admin", "last ");
}

static int count_entry(void *arg, const char *name, const struct tree_place *place)
{
    int *count = arg;
    (void)place;
    assert_string_not_equal(name, "__internal");
    ++*count;
    return 0;
}

/* What topicfs keeps for itself is there by its name. */
static void test_internal_topics(void **state)
{
    struct fixture *fixture = *state;
    struct tree_place place;
    int before = 0;
    int after = 0;
    assert_int_equal(walk(&fixture->tree, "topics", &place), 0);
    assert_int_equal(tree_list(&fixture->tree, &place, count_entry, &before), 0);
    assert_int_equal(
        cluster_create_internal(fixture->tree.cluster, "__internal", NULL, NULL, 0), 0);
    assert_int_equal(tree_list(&fixture->tree, &place, count_entry, &after), 0);
    assert_int_equal(before, after);
    assert_int_equal(walk(&fixture->tree, "topics/__internal/0/log", &place), 0);
    assert_int_equal(place.kind, TREE_LOG);
}

static void test_admin_places(void **state)
{
    struct fixture *fixture = *state;
    struct tree_place admin, brokers, place;
    assert_int_equal(walk(&fixture->tree, "cluster/admin", &admin), 0);
    assert_int_equal(walk(&fixture->tree, "cluster/brokers", &brokers), 0);
    assert_int_equal(
        tree_admin_place(&fixture->tree, &admin, "reassign_partitions", &place), 0);
    assert_int_equal(place.kind, TREE_ADMIN_FILE);
    assert_string_equal(place.name, "admin/reassign_partitions");
    assert_int_equal(tree_admin_place(&fixture->tree, &admin, "controller", &place),
                     -EPERM);
    assert_int_equal(
        tree_admin_place(&fixture->tree, &brokers, "delete_topics", &place), -EPERM);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_names),        TEST(test_parents),         TEST(test_modes),
        TEST(test_inodes),       TEST(test_deleted_topic),   TEST(test_listings),
        TEST(test_admin_places), TEST(test_internal_topics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
