#include "tests/sim/gnode.h"

#include "coord/mutation.h"
#include "tests/sim/gcheck.h"
#include "tests/sim/gshard.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDS_BYTES = 1 << 20 };

struct gnode *gnode_new(struct gworld *world, int32_t index)
{
    struct gnode *node = gworld_alloc(sizeof *node);

    node->world = world;
    node->index = index;
    return node;
}

/* Whatever it was about to say as coordinator is not said. */
static void resign(struct gnode *node)
{
    group_core_free(node->core);
    node->core = NULL;
    node->waiting_count = 0;
    node->parked_count = 0;
}

void gnode_reset(struct gnode *node)
{
    resign(node);
    node->up = false;
    node->life++;
    node->paused_until_ms = 0;
    node->deaf_until_ms = 0;
    node->session_end_ms = INT64_MAX;
    node->wall_offset_ms = 0;
    node->registration = (struct broker_incarnation){.id = node->index + 1};
    node->view = 0;
    node->led_epoch = -1;
}

void gnode_free(struct gnode *node)
{
    resign(node);
    free(node);
}

void gnode_start(struct gnode *node)
{
    int32_t revision;

    if (node->up)
        return;
    node->up = true;
    node->life++;
    node->led_epoch = -1;
    gworld_register(node->world, node->index);
    revision = node->world->revision;
    gnode_see(node, revision);
    gworld_at(node->world, node->world->now_ms, GEVENT_NODE, node->index)->life =
        node->life;
}

void gnode_kill(struct gnode *node)
{
    resign(node);
    node->up = false;
    node->life++;
    node->led_epoch = -1;
}

int64_t gnode_silent_until(const struct gnode *node)
{
    return node->paused_until_ms > node->deaf_until_ms ? node->paused_until_ms
                                                       : node->deaf_until_ms;
}

bool gnode_session_over(const struct gnode *node)
{
    return node->world->now_ms >= node->session_end_ms &&
           gnode_silent_until(node) >= node->session_end_ms;
}

int32_t gnode_coordinator(const struct gnode *node)
{
    return node->world->leader_of[node->view];
}

bool gnode_knows(const struct gnode *node, int32_t topic)
{
    const struct gworld *world = node->world;

    return cluster_snapshot_topic_by_id(&world->revisions[node->view]->shown,
                                        &world->topic_ids[topic]) != NULL;
}

/* ---- answers ------------------------------------------------------------------------
 */

static void say(struct gnode *node, int32_t to, const struct ganswer *answer)
{
    struct gmessage *message = gworld_alloc(sizeof *message);

    message->from = node->index;
    message->to = to;
    message->answers = true;
    message->answer = *answer;
    message->answer.epoch = node->led_epoch;
    gworld_send(node->world, message);
}

static void say_error(struct gnode *node, int32_t to, const struct grequest *request,
                      int error)
{
    const struct ganswer answer = {.op = request->op,
                                   .slot = request->slot,
                                   .life = request->life,
                                   .number = request->number,
                                   .error = error};

    say(node, to, &answer);
}

/* Nothing that was decided may be told before it is committed; and as decisions build
 * on each other, neither may what was decided after it. */
static void say_once_committed(struct gnode *node, int32_t to,
                               const struct ganswer *answer)
{
    if (node->appended <= node->committed || MUTATION(MUTATE_ANSWER_UNCOMMITTED)) {
        say(node, to, answer);
        return;
    }
    if (node->waiting_count == GNODE_QUEUE_MAX)
        return; /* as if the answer were lost */
    node->waiting[node->waiting_count++] =
        (struct gwaiting){node->appended, to, *answer};
}

static void say_committed(struct gnode *node)
{
    size_t kept = 0;

    for (size_t i = 0; i < node->waiting_count; i++) {
        if (node->waiting[i].at <= node->committed)
            say(node, node->waiting[i].to, &node->waiting[i].answer);
        else
            node->waiting[kept++] = node->waiting[i];
    }
    node->waiting_count = kept;
}

void gnode_committed(struct gnode *node, int32_t epoch, size_t count)
{
    if (!node->core || node->led_epoch != epoch || count <= node->committed)
        return;
    node->committed = count;
    say_committed(node);
}

/* ---- leading ------------------------------------------------------------------------
 */

static void load_later(struct gnode *node)
{
    resign(node);
    node->load_at_ms = node->world->now_ms + prng_between(&node->world->prng, 1, 100);
}

static void load(struct gnode *node)
{
    struct gworld *world = node->world;
    struct group_config defaults;
    int rc;

    group_config_defaults(&defaults);
    defaults.group_session_timeout_ms = world->profile.group_session_ms;
    node->core = group_core_new("g", &defaults);
    if (!node->core)
        abort();
    rc = gshard_load(world->shard, node->led_epoch, node->core);
    if (rc == -EAGAIN) {
        load_later(node);
        return;
    }
    if (rc)
        gworld_violation(world, "node %d can't load the log: %d", node->index, rc);
    group_core_loaded(node->core, world->now_ms);
    node->committed = node->appended =
        node->led_epoch == world->shard->epoch ? world->shard->committed : 0;
    GWORLD_TRACE(world, "node %d coordinates in epoch %d", node->index,
                 node->led_epoch);
}

/* An epoch is of one incarnation: not of a node that registered again since. */
static bool leads_by(const struct gnode *node, int32_t revision)
{
    const struct gworld *world = node->world;
    const struct broker_info *broker = cluster_snapshot_broker(
        &world->revisions[revision]->shown, node->registration.id);

    return world->leader_of[revision] == node->index && broker &&
           broker->epoch == node->registration.epoch;
}

static void lead_nothing(struct gnode *node)
{
    node->led_epoch = -1;
    resign(node);
}

void gnode_see(struct gnode *node, int32_t revision)
{
    struct gworld *world = node->world;
    bool leads;

    if (!node->up || revision <= node->view)
        return;
    node->view = revision;
    leads = leads_by(node, revision);
    if (leads && world->epoch_of[revision] != node->led_epoch) {
        node->led_epoch = world->epoch_of[revision];
        load_later(node);
    } else if (!leads && node->led_epoch >= 0) {
        lead_nothing(node);
    }
}

static struct group_env env_of(const struct gnode *node)
{
    const struct gworld *world = node->world;

    return (struct group_env){.now_ms = world->now_ms,
                              .wall_ms = INT64_C(1764417600000) + world->now_ms +
                                         node->wall_offset_ms,
                              .snapshot = &world->revisions[node->view]->shown};
}

/* false: they are not in the log, and the group was thrown away. */
static bool append(struct gnode *node, const struct buf *records,
                   const struct grequest *request)
{
    struct gworld *world = node->world;

    if (records->length == 0)
        return true;
    if (!world->calm && prng_permille(&world->prng, world->profile.refuse)) {
        load_later(node);
        return false;
    }
    node->appended = gshard_append(world->shard, node->led_epoch, records, request);
    return true;
}

/* ---- requests -----------------------------------------------------------------------
 */

static int set_offset(struct gnode *node, const struct group_env *env,
                      const struct grequest *request, struct buf *records)
{
    const struct group_offset_set set = {
        .topic_id = node->world->topic_ids[request->topic],
        .partition = request->partition,
        .offset = request->offset,
    };

    return group_core_set_offset(node->core, env, &set, records);
}

static int decide(struct gnode *node, const struct grequest *request, int64_t came_ms,
                  struct ganswer *answer, struct buf *records)
{
    struct group_env env = env_of(node);
    struct group_grant *grants = NULL;
    struct group_join join;
    int rc = 0;

    switch (request->op) {
    case GOP_JOIN:
        join = (struct group_join){.node = request->node,
                                   .topic_id = node->world->topic_ids[request->topic]};
        memcpy(join.member, request->member, sizeof join.member);
        rc = group_core_join(node->core, &env, &join, records);
        break;
    case GOP_LEAVE:
        rc = group_core_leave(node->core, &env, request->member, records);
        break;
    case GOP_COMMIT:
        rc = group_core_commit(node->core, &env, request->member, request->u.commits,
                               request->count, answer->refused, records);
        answer->count = request->count;
        break;
    case GOP_SET:
        rc = set_offset(node, &env, request, records);
        break;
    case GOP_BEAT:
        env.now_ms = came_ms;
        rc = group_core_beat(node->core, &env, request->member, request->u.released,
                             request->count, records, &grants, &answer->count);
        if (answer->count > 0)
            memcpy(answer->grants, grants, answer->count * sizeof *grants);
        free(grants);
        break;
    }
    answer->changes = group_core_changes(node->core);
    return rc;
}

static void serve(struct gnode *node, int32_t from, int64_t came_ms,
                  const struct grequest *request)
{
    struct ganswer answer = {.op = request->op,
                             .slot = request->slot,
                             .life = request->life,
                             .number = request->number,
                             .topic = request->topic,
                             .partition = request->partition};
    struct buf records;

    buf_init(&records, RECORDS_BYTES);
    answer.error = decide(node, request, came_ms, &answer, &records);
    if (answer.error == -ENOMEM)
        abort();
    if (append(node, &records, request))
        say_once_committed(node, from, &answer);
    buf_free(&records);
}

/* Whether the beat has nothing to say and would be told nothing new. */
static bool parks(const struct gnode *node, const struct grequest *request)
{
    return request->op == GOP_BEAT && request->count == 0 &&
           request->seen == group_core_changes(node->core) &&
           node->parked_count < GNODE_QUEUE_MAX;
}

void gnode_receive(struct gnode *node, const struct gmessage *message)
{
    const struct grequest *request = &message->request;
    const int64_t now_ms = node->world->now_ms;

    if (gnode_session_over(node))
        lead_nothing(node);
    if (!node->core) {
        say_error(node, message->from, request, E_NOT_COORDINATOR);
        return;
    }
    if (!parks(node, request)) {
        serve(node, message->from, now_ms, request);
        return;
    }
    node->parked[node->parked_count++] =
        (struct gparked){.came_ms = now_ms,
                         .until_ms = now_ms + node->world->profile.group_session_ms / 4,
                         .from = message->from,
                         .request = *request};
}

static void tick_parked(struct gnode *node)
{
    struct gparked parked[GNODE_QUEUE_MAX];
    size_t count = node->parked_count;

    memcpy(parked, node->parked, count * sizeof parked[0]);
    node->parked_count = 0;
    for (size_t i = 0; i < count && node->core; i++) {
        if (parked[i].until_ms > node->world->now_ms &&
            parked[i].request.seen == group_core_changes(node->core))
            node->parked[node->parked_count++] = parked[i];
        else
            serve(node, parked[i].from, parked[i].came_ms, &parked[i].request);
    }
}

static void tick_core(struct gnode *node)
{
    const struct group_env env = env_of(node);
    struct buf records;
    int64_t next_ms;

    buf_init(&records, RECORDS_BYTES);
    if (group_core_tick(node->core, &env, &records, &next_ms))
        abort();
    (void)append(node, &records, NULL);
    buf_free(&records);
}

void gnode_tick(struct gnode *node)
{
    if (gnode_session_over(node))
        lead_nothing(node);
    if (node->led_epoch >= 0 && !node->core && node->load_at_ms <= node->world->now_ms)
        load(node);
    if (node->core)
        tick_core(node);
    if (node->core)
        tick_parked(node);
    gworld_at(node->world, node->world->now_ms + GNODE_TICK_MS, GEVENT_NODE,
              node->index)
        ->life = node->life;
}
