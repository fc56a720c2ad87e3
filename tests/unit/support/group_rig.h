/*
 * A consumer group's core in a small cluster, with the log of its records.
 *
 *     struct group_rig rig;
 *     group_rig_open(&rig, 3);                       // nodes 1, 2, 3, all live
 *     group_rig_topic(&rig, "t", 4);
 *     assert_int_equal(group_rig_join(&rig, "1-a", "t"), 0);
 *     group_rig_expect(&rig, "1-a", "0:1 1:1 2:1 3:1");
 *     group_rig_reload(&rig);                        // as a new coordinator
 *     group_rig_close(&rig);
 *
 * Members are named after their node: "2-a" is on node 2, whose broker epoch is 20 (and
 * 10 more with each restart). The records of each call go to the log. Functions fail
 * the test where they can't do their part. One thread.
 */
#ifndef TOPICFS_TEST_GROUP_RIG_H
#define TOPICFS_TEST_GROUP_RIG_H

#include "coord/snapshot.h"
#include "replica/group_core.h"

enum { GROUP_RIG_NODES_MAX = 8 };

struct group_rig {
    struct snapshot *snapshot;
    struct group_env env;
    struct group_config defaults;
    struct group_core *core;
    struct buf log;     /* all records so far */
    struct buf records; /* of the last call */
    struct broker_info brokers[GROUP_RIG_NODES_MAX];
    struct registration registrations[GROUP_RIG_NODES_MAX];
    uint32_t broker_count;
    int64_t next_ms; /* of the last tick */
    char why[300];
};

void group_rig_open(struct group_rig *rig, int nodes);
void group_rig_close(struct group_rig *rig);
/* Fixtures: *state is a rig of three nodes with a topic "t" of four partitions. */
int group_rig_setup(void **state);
int group_rig_teardown(void **state);

/* Makes the topic, or gives it so many partitions. */
void group_rig_topic(struct group_rig *rig, const char *name, int32_t partitions);
/* The next one of this name has another id. */
void group_rig_delete_topic(struct group_rig *rig, const char *name);
struct topic_id group_rig_topic_id(const struct group_rig *rig, const char *name);
void group_rig_kill(struct group_rig *rig, int32_t node);
void group_rig_restart(struct group_rig *rig, int32_t node); /* a new incarnation */

/* Both clocks go on. */
void group_rig_wait(struct group_rig *rig, int64_t ms);
int group_rig_tick(struct group_rig *rig);
int group_rig_join(struct group_rig *rig, const char *member, const char *topic);
int group_rig_leave(struct group_rig *rig, const char *member);
/* Releases every partition that the member is to give up, and beats. */
int group_rig_release(struct group_rig *rig, const char *member);
int group_rig_commit(struct group_rig *rig, const char *member, int32_t partition,
                     int64_t generation, int64_t offset, int32_t leader_epoch);
int group_rig_set(struct group_rig *rig, const char *topic, int32_t partition,
                  int64_t offset, int32_t node);
int group_rig_configure(struct group_rig *rig, const char *object);

/* What the member has: "0:5 1:5!" is partition 0 and 1, granted in generation 5, the
 * second to be given up. "unknown": it is no member. Counts as a beat. */
void group_rig_expect(struct group_rig *rig, const char *member, const char *grants);
/* The committed offset and leader epoch; -1, -1: none. Not for a member that is not
 * there. */
void group_rig_expect_committed(struct group_rig *rig, const char *topic,
                                int32_t partition, int64_t offset);

/* A new core that was loaded from the log. */
void group_rig_reload(struct group_rig *rig);
struct group_core *group_rig_load(struct group_rig *rig, const char *log,
                                  size_t length);
/* As text; the caller frees it with cJSON_free(). */
char *group_rig_describe(const struct group_core *core);

#endif
