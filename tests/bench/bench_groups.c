/*
 * Figures of consumer groups' coordinators, below the mount:
 *
 *     bench_groups one       commits per second on one node
 *     bench_groups three     the same with three nodes, replicated
 *     bench_groups memory    of 1,000 groups with one member each
 *
 * Members commit as nodes send it: per shard one request at a time, which carries what
 * came meanwhile.
 */
#include "tests/unit/support/group_desk.h"
#include "tests/unit/support/node.h"
#include "tests/unit/support/replica_rig.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SECONDS = 5, MEMBERS = 1000, OP_BYTES = 256 };

struct member {
    char group[16];
    int64_t generation;
    int64_t offset;
};

static struct member members[MEMBERS];

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Each shard has a lane: one request under way. */
struct lane {
    struct coordinator_call call; /* first */
    struct group_desk desk;
    int32_t shard;
    size_t per_request;
    size_t next;     /* of the members of the shard */
    size_t *members; /* by index */
    size_t count;
    _Atomic uint64_t *committed;
    atomic_bool *stop;
    atomic_uint *running;
};

static void send_next(struct lane *lane)
{
    cJSON *request = desk_request(&lane->desk, members[lane->members[0]].group, 0, "");
    for (size_t i = 0; i < lane->per_request; i++) {
        struct member *member = &members[lane->members[lane->next++ % lane->count]];
        const struct group_commit commit = {.partition = 0,
                                            .generation = member->generation,
                                            .offset = ++member->offset,
                                            .leader_epoch = 0};
        cJSON *op = group_wire_add_op(request, "commit", member->group);
        (void)cJSON_AddStringToObject(op, "member", "m");
        (void)group_wire_add_commits(op, &commit, 1);
    }
    group_coordinator_submit(lane->desk.coordinator, request, &lane->call);
}

static void on_answer(struct coordinator_call *call, cJSON *answer)
{
    struct lane *lane = (struct lane *)call;
    const cJSON *answers = group_wire_get_answers(answer, lane->per_request);
    const cJSON *item = NULL;
    uint64_t good = 0;
    cJSON_ArrayForEach(item, answers)
    {
        int error = 1;
        const char *why = NULL;
        good += group_wire_get_error(item, &error, &why) == 0 && error == 0;
    }
    cJSON_Delete(answer);
    (void)atomic_fetch_add(lane->committed, good);
    if (good < lane->per_request) {
        (void)fprintf(stderr, "shard %d: %zu of %zu refused\n", lane->shard,
                      lane->per_request - (size_t)good, lane->per_request);
    }
    if (atomic_load(lane->stop)) {
        (void)atomic_fetch_sub(lane->running, 1);
    } else {
        send_next(lane);
    }
}

/* `desks`: of the coordinator of each shard. */
static void commits(const struct group_desk *desks, size_t per_request)
{
    static struct lane lanes[GROUP_SHARDS];
    _Atomic uint64_t committed = 0;
    atomic_bool stop = false;
    atomic_uint running = 0;
    const struct timespec run = {.tv_sec = SECONDS};
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int32_t shard = 0; shard < GROUP_SHARDS; shard++) {
        struct lane *lane = &lanes[shard];
        *lane = (struct lane){.call = {.done = on_answer},
                              .desk = desks[shard],
                              .shard = shard,
                              .per_request = per_request,
                              .members = calloc(MEMBERS, sizeof *lane->members),
                              .committed = &committed,
                              .stop = &stop,
                              .running = &running};
        for (size_t i = 0; i < MEMBERS; i++) {
            if (group_wire_shard(members[i].group, GROUP_SHARDS) == shard) {
                lane->members[lane->count++] = i;
            }
        }
    }
    double begin = now();
    double cpu = cpu_seconds();
    for (int32_t shard = 0; shard < GROUP_SHARDS; shard++) {
        if (lanes[shard].count > 0) {
            (void)atomic_fetch_add(&running, 1);
            send_next(&lanes[shard]);
        }
    }
    (void)nanosleep(&run, NULL);
    double seconds = now() - begin;
    uint64_t count = atomic_load(&committed);
    cpu = cpu_seconds() - cpu;
    atomic_store(&stop, true);
    while (atomic_load(&running) > 0) {
        (void)nanosleep(&pause, NULL);
    }
    for (int32_t shard = 0; shard < GROUP_SHARDS; shard++) {
        free(lanes[shard].members);
    }
    (void)printf("  %3zu commits a request: %8.0f a second, %8.0f a CPU second\n",
                 per_request, (double)count / seconds, (double)count / cpu);
}

static void join_all(const struct group_desk *desks, const struct topic_id *topic)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        struct member *member = &members[i];
        struct group_wire_beat beat;
        (void)snprintf(member->group, sizeof member->group, "g%zu", i);
        const struct group_desk *desk =
            &desks[group_wire_shard(member->group, GROUP_SHARDS)];
        if (desk_join(desk, member->group, "m", "t", topic) ||
            desk_beat(desk, member->group, "m", &beat) || beat.count != 1) {
            (void)fprintf(stderr, "%s: no partition\n", member->group);
            exit(1);
        }
        member->generation = beat.grants[0].generation;
        free(beat.grants);
    }
}

static void all_rates(const struct group_desk *desks)
{
    static const size_t sizes[] = {1, 10, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        commits(desks, sizes[i]);
    }
}

/* ---- one node -----------------------------------------------------------------------
 */

static void one(bool memory)
{
    struct node node;
    char why[256] = "";
    struct group_desk desks[GROUP_SHARDS];
    struct group_coordinator *coordinator = NULL;
    node_make(&node);
    node_start(&node);
    partition_unref(node_topic(&node, "t", NULL));
    const struct topic_id topic = node_topic_id(&node, "t");
    const struct groups_params params = {.config = &node.config,
                                         .cluster = node.cluster,
                                         .broker = node.broker,
                                         .problems = node.problems,
                                         .clock = &clock_real};
    if (group_coordinator_ensure_topic(node.cluster, why, sizeof why) ||
        group_coordinator_start(&params, &coordinator)) {
        (void)fprintf(stderr, "no coordinator: %s\n", why);
        exit(1);
    }
    const struct cluster_snapshot *snapshot = cluster_snapshot_get(node.cluster);
    for (size_t i = 0; i < GROUP_SHARDS; i++) {
        desks[i] = (struct group_desk){.coordinator = coordinator,
                                       .node = snapshot->self,
                                       .epoch = snapshot->self_epoch};
    }
    cluster_snapshot_put(snapshot);
    size_t before = mallinfo2().uordblks;
    join_all(desks, &topic);
    size_t after = mallinfo2().uordblks;
    if (memory) {
        (void)printf("%d groups with one member each: %.0f bytes a group\n", MEMBERS,
                     (double)(after - before) / MEMBERS);
    } else {
        (void)printf("one node, %d groups:\n", MEMBERS);
        all_rates(desks);
    }
    group_coordinator_stop(coordinator);
    node_stop(&node);
    node_remove(&node);
}

/* ---- three nodes --------------------------------------------------------------------
 */

static void start_part(struct replica_rig *rig, int id)
{
    struct rig_node *member = &rig->cluster.nodes[id];
    struct group_coordinator *coordinator = NULL;
    const struct groups_params params = {.config = &member->config,
                                         .cluster = member->cluster,
                                         .broker = rig->nodes[id].broker,
                                         .problems = member->problems,
                                         .clock = &rig->clock.clock};
    if (group_coordinator_start(&params, &coordinator)) {
        exit(1);
    }
    rig->nodes[id].more = coordinator;
}

static void stop_part(struct replica_rig *rig, int id)
{
    group_coordinator_stop(rig->nodes[id].more);
    rig->nodes[id].more = NULL;
}

static void three(void)
{
    static const struct replica_rig_parts parts = {start_part, stop_part};
    struct replica_rig *rig = replica_rig_open_with(3, &parts);
    struct group_desk desks[GROUP_SHARDS];
    char why[256] = "";
    replica_rig_topic(rig, "t", NULL);
    if (group_coordinator_ensure_topic(rig->cluster.nodes[1].cluster, why,
                                       sizeof why)) {
        (void)fprintf(stderr, "no coordinator: %s\n", why);
        exit(1);
    }
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(rig->cluster.nodes[1].cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, GROUPS_TOPIC);
    for (size_t i = 0; i < GROUP_SHARDS; i++) {
        int leader = topic->partitions[i].leader;
        desks[i] = (struct group_desk){.coordinator = rig->nodes[leader].more,
                                       .node = snapshot->self,
                                       .epoch = snapshot->self_epoch};
    }
    join_all(desks, &cluster_snapshot_topic(snapshot, "t")->id);
    cluster_snapshot_put(snapshot);
    (void)printf("three nodes in one process, %d groups:\n", MEMBERS);
    all_rates(desks);
    replica_rig_close(rig);
}

int main(int argc, char *argv[])
{
    const char *what = argc == 2 ? argv[1] : "";
    if (strcmp(what, "one") == 0 || strcmp(what, "memory") == 0) {
        one(*what == 'm');
    } else if (strcmp(what, "three") == 0) {
        three();
    } else {
        (void)fprintf(stderr, "usage: bench_groups one|three|memory\n");
        return 2;
    }
    return 0;
}
