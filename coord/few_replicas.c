#include "coord/few_replicas.h"

#include "coord/admin_work.h"
#include "coord/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { REPLICAS_WANTED = 3 };

struct nodes {
    int32_t ids[REPLICAS_WANTED];
    uint32_t count;
};

static bool has_replicas(const struct topic *topic, int32_t id)
{
    for (int32_t p = 0; p < topic->partition_count; p++)
        if (replica_ids_list(topic->partitions[p].replicas,
                             topic->partitions[p].replica_count, id))
            return true;
    return false;
}

/* Those that stay; what has replicas already is copied least. */
static void choose(const struct cluster_snapshot *shown, const struct topic *topic,
                   struct nodes *out)
{
    out->count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < shown->broker_count; i++) {
            const struct broker_info *broker = &shown->brokers[i];

            if (broker->client || broker->stopping || out->count == REPLICAS_WANTED ||
                has_replicas(topic, broker->id) != (pass == 0))
                continue;
            out->ids[out->count++] = broker->id;
        }
}

static bool is_moving(const struct snapshot *snapshot, const struct topic *topic)
{
    struct admin_work work;
    bool moving = false;

    if (admin_work_read(&work, ADMIN_REASSIGN, snapshot) != 0)
        return true;
    for (size_t i = 0; i < work.count; i++)
        moving |= work.tasks[i].state == ADMIN_TASK_RUNS &&
                  topic_id_equal(&work.tasks[i].topic->topic.id, &topic->id);
    admin_work_free(&work);
    return moving;
}

/* "1,2,3 2,3,1 3,1,2": each leads as many partitions as the others. */
static void rotations(const struct nodes *nodes, char *text, size_t size)
{
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < nodes->count * nodes->count && length < size; i++) {
        uint32_t row = i / nodes->count, column = i % nodes->count;

        length += (size_t)snprintf(text + length, size - length, "%s%" PRId32,
                                   column > 0 ? ","
                                   : row > 0  ? " "
                                              : "",
                                   nodes->ids[(row + column) % nodes->count]);
    }
}

/* The first partition comes last: by its replicas the others' minimum is set. */
static void write_command(const struct topic *topic, const struct nodes *nodes,
                          char *out, size_t size)
{
    char lists[120];

    rotations(nodes, lists, sizeof(lists));
    snprintf(out, size,
             "run in bash, in the mount: r=(%s); for p in {%" PRId32
             "..0}; do echo '{\"version\":1,\"partitions\":[{\"topic\":\"%.100s\","
             "\"partition\":'$p',\"replicas\":['${r[p%%%" PRIu32
             "]}']}]}' > cluster/admin/reassign_partitions; done",
             lists, topic->partition_count - 1, topic->name, nodes->count);
}

bool few_replicas_find(const struct snapshot *snapshot, const struct topic *topic,
                       struct few_replicas *out)
{
    struct nodes nodes;
    uint32_t least = UINT32_MAX;
    int32_t few = 0;

    if (!topic_name_is_internal(topic->name))
        return false;
    choose(&snapshot->shown, topic, &nodes);
    for (int32_t p = 0; p < topic->partition_count; p++) {
        uint32_t count = topic->partitions[p].replica_count;

        few += count < nodes.count;
        if (count < least)
            least = count;
    }
    if (few == 0 || is_moving(snapshot, topic))
        return false;
    snprintf(out->what, sizeof(out->what),
             "%" PRId32 " of %" PRId32 " partitions have fewer than %" PRIu32
             " replicas, the least %" PRIu32 ": the topic was made when there were no "
             "more nodes, and gets no more by itself",
             few, topic->partition_count, nodes.count, least);
    write_command(topic, &nodes, out->what_to_do, sizeof(out->what_to_do));
    return true;
}
