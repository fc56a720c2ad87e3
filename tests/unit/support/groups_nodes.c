#include "tests/unit/support/groups_nodes.h"

#include "replica/group_coordinator.h"
#include "replica/group_routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct part {
    struct groups *groups;
    struct group_routes *routes;
};

static void start_part(struct replica_rig *rig, int id)
{
    struct rig_node *member = &rig->cluster.nodes[id];
    struct part *part = calloc(1, sizeof *part);
    char why[256] = "";
    const struct groups_params params = {.config = &member->config,
                                         .cluster = member->cluster,
                                         .broker = rig->nodes[id].broker,
                                         .problems = member->problems,
                                         .clock = &rig->clock.clock};
    assert_non_null(part);
    assert_int_equal(groups_start(&params, &part->groups), 0);
    const struct group_routes_params routes = {.config = &member->config,
                                               .broker = rig->nodes[id].broker,
                                               .coordinator =
                                                   groups_coordinator(part->groups)};
    assert_int_equal(group_routes_new(&routes, &part->routes, why, sizeof why), 0);
    assert_int_equal(group_routes_add(part->routes, rig->nodes[id].server), 0);
    rig->nodes[id].more = part;
}

static void stop_part(struct replica_rig *rig, int id)
{
    struct part *part = rig->nodes[id].more;
    group_routes_end(part->routes);
    groups_stop(part->groups);
    group_routes_free(part->routes);
    free(part);
    rig->nodes[id].more = NULL;
}

struct replica_rig *groups_nodes_open(int count)
{
    static const struct replica_rig_parts parts = {start_part, stop_part};
    return replica_rig_open_with(count, &parts);
}

struct groups *groups_nodes_of(struct replica_rig *rig, int id)
{
    return ((struct part *)rig->nodes[id].more)->groups;
}

struct topic_id groups_nodes_topic(struct replica_rig *rig, int id)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(rig->cluster.nodes[id].cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, "t");
    assert_non_null(topic);
    struct topic_id found = topic->id;
    cluster_snapshot_put(snapshot);
    return found;
}
