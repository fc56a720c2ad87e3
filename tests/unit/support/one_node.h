/*
 * A cluster of one node over an embedded store in a scratch directory, for the tests of
 * coord.
 *
 *     ONE_NODE_TEST(test)
 *     struct fixture *f = *state;
 *     assert_int_equal(create(f, "t", "{\"acks\":1}"), 0);
 *
 * stop() and start() are a restart. Every failure is a failed assertion of the test.
 */
#ifndef TOPICFS_TEST_ONE_NODE_H
#define TOPICFS_TEST_ONE_NODE_H

#include "coord/cluster_private.h"
#include "coord/coord.h"

struct fixture {
    char dir[64];
    struct mount_config config;
    struct problems *problems;
    struct cluster *cluster;
    char why[500];
};

int one_node_setup(void **state);
int one_node_teardown(void **state);
void start(struct fixture *f);
void stop(struct fixture *f);

/* The value of a JSON text; the caller deletes it. */
cJSON *json(const char *text);
/* Operations, with their arguments as JSON; `settings` may be NULL. */
int create(struct fixture *f, const char *name, const char *settings);
int set_config(struct fixture *f, const char *name, const char *text);
int admin(struct fixture *f, const char *operation, const char *text);

/* A topic of the present snapshot; the snapshot is put by the caller. */
const struct topic *topic(struct fixture *f, const char *name,
                          const struct cluster_snapshot **snapshot);

/* What a file under cluster/ shows. */
void expect_file(struct fixture *f, const char *path, const char *expected);
void expect_in_file(struct fixture *f, const char *path, const char *part);

/* A test of which *state is such a node. After cmocka.h. */
#define ONE_NODE_TEST(fn)                                                              \
    cmocka_unit_test_setup_teardown(fn, one_node_setup, one_node_teardown)

#endif
