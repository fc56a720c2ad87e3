/* The topics of the world of a group: made, grown, deleted and made again by the same
 * name, and the offsets that users set in them. */
#include "tests/sim/gtopics.h"

#include "tests/sim/gnode.h"

#include <stdlib.h>
#include <string.h>

enum { GROW_MAX = 3 };

void gtopics_reset(struct gworld *world)
{
    world->topic_count = 0;
    for (int32_t name = 0; name < GNAMES; name++)
        world->present[name] = -1;
    memset(world->ends, 0, sizeof world->ends);
}

const char *gworld_topic_name(const struct gworld *world, int32_t topic)
{
    return world->topic_names[topic] == 0 ? "t" : "u";
}

int32_t gworld_topic_of(const struct gworld *world, const struct topic_id *id)
{
    for (int32_t t = 0; t < world->topic_count; t++)
        if (topic_id_equal(id, &world->topic_ids[t]))
            return t;
    abort();
}

int32_t gworld_partitions(const struct gworld *world, int32_t topic)
{
    const struct topic *found = cluster_snapshot_topic_by_id(
        &world->revisions[world->revision]->shown, &world->topic_ids[topic]);

    return found ? found->partition_count : 0;
}

static void put(struct gworld *world, int32_t topic, int32_t partitions)
{
    struct snapshot *next = gworld_revise(world);
    struct snapshot_topic *entry = snapshot_topic_new();

    if (!entry)
        abort();
    (void)snprintf(entry->topic.name, sizeof entry->topic.name, "%s",
                   gworld_topic_name(world, topic));
    entry->topic.id = world->topic_ids[topic];
    entry->topic.partition_count = partitions;
    if (snapshot_put_topic(next, entry))
        abort();
    snapshot_topic_unref(entry);
}

static void create(struct gworld *world, int32_t name)
{
    int32_t topic = world->topic_count++;

    world->topic_ids[topic] = (struct topic_id){{(uint8_t)(7 * (topic + 1))}};
    world->topic_names[topic] = name;
    world->present[name] = topic;
    put(world, topic, world->profile.partitions[name]);
    GWORLD_TRACE(world, "topic %s is made (%d)", gworld_topic_name(world, topic),
                 topic);
}

void gtopics_create_missing(struct gworld *world)
{
    for (int32_t name = 0; name < GNAMES; name++)
        if (world->present[name] < 0)
            create(world, name);
}

/* Each name can be made once more in the end. */
static bool can_delete(const struct gworld *world)
{
    int32_t count = world->topic_count + 1;

    for (int32_t name = 0; name < GNAMES; name++)
        count += world->present[name] < 0;
    return count <= GTOPICS;
}

void gtopics_come_and_go(struct gworld *world, int32_t name)
{
    int32_t topic = world->present[name];

    if (topic < 0) {
        create(world, name);
    } else if (can_delete(world)) {
        GWORLD_TRACE(world, "topic %s is deleted (%d)", gworld_topic_name(world, topic),
                     topic);
        snapshot_remove_topic(gworld_revise(world), gworld_topic_name(world, topic));
        world->present[name] = -1;
        world->deletions++;
    }
}

void gtopics_grow(struct gworld *world, int32_t name)
{
    int32_t topic = world->present[name];
    int32_t partitions = topic < 0 ? 0 : gworld_partitions(world, topic);

    if (partitions > 0 && partitions < GPARTITIONS_MAX &&
        partitions < world->profile.partitions[name] + GROW_MAX)
        put(world, topic, partitions + 1);
}

int32_t gtopics_any(struct gworld *world)
{
    int32_t name = world->profile.soak ? 0 : (int32_t)prng_below(&world->prng, GNAMES);

    return world->present[name];
}

/* ---- offsets that are set -----------------------------------------------------------
 */

void gtopics_set_offset(struct gworld *world)
{
    struct prng *prng = &world->prng;
    int32_t node = (int32_t)prng_below(prng, (uint32_t)world->profile.node_count);
    int32_t topic = gtopics_any(world);
    struct gmessage *message;
    struct grequest *request;

    if (topic < 0 || !world->nodes[node]->up)
        return;
    message = gworld_alloc(sizeof *message);
    message->from = node;
    message->to = gnode_coordinator(world->nodes[node]);
    request = &message->request;
    request->op = GOP_SET;
    request->number = ++world->set_number;
    request->topic = topic;
    request->partition =
        (int32_t)prng_below(prng, (uint32_t)gworld_partitions(world, topic));
    request->offset = prng_between(prng, -1, world->ends[topic][request->partition]);
    GWORLD_TRACE(world, "node %d sets partition %d of %s to %lld", node,
                 request->partition, gworld_topic_name(world, topic),
                 (long long)request->offset);
    gworld_send(world, message);
}
