/*
 * One node with its groups, for tests: a topic "t" of four partitions, and a clock of
 * the groups that a test can put forward.
 *
 *     #define TEST(test)                                                             \
 *         cmocka_unit_test_setup_teardown(test, groups_rig_setup, groups_rig_teardown)
 *     struct groups_rig *f = *state;
 *     groups_rig_append(f, 0, "a\n");
 *     struct group_user *user = groups_rig_join(f, "g");
 *     group_user_expect(user, "a\n", &chunk);
 *     atomic_fetch_add(&f->clock.ahead_ms, 2000);
 *
 * Failures are failed assertions of the running test.
 */
#ifndef TOPICFS_TEST_GROUPS_RIG_H
#define TOPICFS_TEST_GROUPS_RIG_H

#include "tests/unit/support/group_user.h"
#include "tests/unit/support/node.h"

#include <stdatomic.h>

/* The real clock, that a test can put forward. */
struct groups_clock {
    struct clock clock; /* first */
    _Atomic int64_t ahead_ms;
};

struct groups_rig {
    struct node node;
    struct groups_clock clock;
    struct groups *groups;
    struct topic_id topic; /* of "t" */
};

int groups_rig_setup(void **state);
int groups_rig_teardown(void **state);
/* The node and its groups; members must be gone. */
void groups_rig_restart(struct groups_rig *f);

void groups_rig_append(struct groups_rig *f, int32_t partition, const char *lines);
/* As config.json of the group. */
void groups_rig_configure(struct groups_rig *f, const char *group, const char *text);
struct group_user *groups_rig_join(struct groups_rig *f, const char *group);
/* Takes one chunk, which must be this. */
void group_user_expect(struct group_user *user, const char *text,
                       struct group_chunk *chunk);

#endif
